//! Files of a folder in a sandbox: conditions, bytes, modes, links and names.

use agent_loop::workspace::{Precondition, SandboxWorkspace};
use agent_loop::{Digest, End, Entry, File, Workspace as _, WorkspaceError};

use super::{Place, attempt, id, path, place, put, script, shell};

#[tokio::test]
async fn a_write_happens_where_its_condition_holds() {
    let Place { workspace, .. } = &place().await;
    let old = Digest::of(b"old");
    assert_eq!(workspace.list().await.unwrap().iter().len(), 0);
    put(workspace, "deep/er/a.txt", "old", Precondition::Absent)
        .await
        .unwrap();
    let conflict = Err(WorkspaceError::Conflict(Some(old)));
    assert_eq!(
        put(workspace, "deep/er/a.txt", "new", Precondition::Absent).await,
        conflict
    );
    let other = Precondition::Is(Digest::of(b"other"));
    assert_eq!(
        put(workspace, "deep/er/a.txt", "new", other).await,
        conflict
    );
    assert_eq!(
        put(workspace, "b.txt", "new", Precondition::Is(old)).await,
        Err(WorkspaceError::Conflict(None))
    );
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 3).await.unwrap(),
        b"old"
    );
    put(workspace, "deep/er/a.txt", "newer", Precondition::Is(old))
        .await
        .unwrap();
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 5).await.unwrap(),
        b"newer"
    );
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 4).await,
        Err(WorkspaceError::TooLarge(5))
    );
    assert_eq!(
        workspace.get(&path("b.txt"), 9).await,
        Err(WorkspaceError::NotFound)
    );
    assert_eq!(
        workspace.get(&path("no/b.txt"), 9).await,
        Err(WorkspaceError::NotFound)
    );
}

#[tokio::test]
async fn bytes_and_modes_are_listed_as_they_are() {
    let Place { workspace, .. } = &place().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let (script, data) = (
        File::new(*b"#!/bin/sh\n").executable(true),
        File::new(bytes),
    );
    for (name, file) in [
        ("r.sh", &script),
        ("d.bin", &data),
        ("empty", &File::new("")),
    ] {
        workspace
            .put(&id("t-1.1.1"), &path(name), file, Precondition::Absent)
            .await
            .unwrap();
    }
    let manifest = workspace.list().await.unwrap();
    assert_eq!(manifest.get(&path("r.sh")), Some(&script.entry()));
    assert_eq!(manifest.get(&path("d.bin")), Some(&data.entry()));
    assert_eq!(manifest.get(&path("empty")), Some(&File::new("").entry()));
}

#[tokio::test]
async fn what_is_beside_a_folder_does_not_matter_for_its_list() {
    let Place {
        workspace, sandbox, ..
    } = &place().await;
    put(workspace, "work/a", "a", Precondition::Absent)
        .await
        .unwrap();
    put(workspace, "work/b/c", "c", Precondition::Absent)
        .await
        .unwrap();
    // More bytes and more entries than are listed, and a name that no path has.
    shell(
        sandbox,
        "mkdir cache many; truncate -s 140M cache/large; touch \"cache/a\n\"; \
         seq 10001 | sed s-^-many/- | xargs touch; ln -s work link",
    )
    .await;
    let listed = workspace.list().await.unwrap_err();
    assert!(matches!(listed, WorkspaceError::Refused(_)), "{listed:?}");
    let below = workspace.list_below(&path("work")).await.unwrap();
    let entries = [("a", "a"), ("b/c", "c")];
    let entries = entries.map(|(name, text)| (path(name), File::new(text).entry()));
    assert_eq!(below, entries.into_iter().collect());
    // A link is no folder.
    for name in ["work/a", "link", "link/b", "nothing", "work/b/nothing"] {
        let below = workspace.list_below(&path(name)).await.unwrap();
        assert_eq!(below.iter().len(), 0, "{name}");
    }
}

#[tokio::test]
async fn links_are_reported_and_never_followed() {
    let Place {
        workspace, sandbox, ..
    } = &place().await;
    put(workspace, "amounts.py", "x", Precondition::Absent)
        .await
        .unwrap();
    shell(sandbox, "mkdir ../out && echo secret > ../out/victim && ln -s ../out link && ln -s ../out/victim last && ln -s ../out/new dangling").await;
    for name in ["link/victim", "last", "dangling", "link"] {
        let read = workspace.get(&path(name), 99).await.unwrap_err();
        assert!(
            matches!(read, WorkspaceError::Refused(_)),
            "{name}: {read:?}"
        );
        for before in [
            Precondition::Absent,
            Precondition::Is(Digest::of(b"secret\n")),
        ] {
            let written = put(workspace, name, "x", before).await.unwrap_err();
            assert!(
                matches!(written, WorkspaceError::Refused(_)),
                "{name}: {written:?}"
            );
        }
    }
    let through = put(workspace, "link/new", "x", Precondition::Absent)
        .await
        .unwrap_err();
    assert!(matches!(through, WorkspaceError::Refused(_)), "{through:?}");
    shell(
        sandbox,
        "test \"$(cat ../out/victim)\" = secret && test ! -e ../out/new",
    )
    .await;
    let manifest = workspace.list().await.unwrap();
    assert_eq!(manifest.get(&path("link")), Some(&Entry::link("../out")));
    assert_eq!(
        manifest.get(&path("dangling")),
        Some(&Entry::link("../out/new"))
    );
    assert_eq!(manifest.iter().len(), 4);
    // And a workspace with a link in it is not taken over.
    let outcome = attempt(workspace.clone(), script()).drive().await.unwrap();
    assert!(
        matches!(outcome.end, End::WorkspaceFailed { .. }),
        "{:?}",
        outcome.end
    );
}

#[tokio::test]
async fn a_folder_has_a_plain_name() {
    let Place { sandbox, .. } = &place().await;
    let longest = "x".repeat(64);
    for name in ["a", "repair-1_b", &longest] {
        SandboxWorkspace::new(sandbox.clone(), name).unwrap();
    }
    for name in ["", ".", "..", "a/b", "a b", "ä", &format!("{longest}x")] {
        let error = SandboxWorkspace::new(sandbox.clone(), name).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{name:?} cannot name a folder")),
            "{error}"
        );
    }
}
