//! Fresh folders and fresh sandboxes, and how they are found again and ended.

use std::time::Duration;

use agent_loop::workspace::{Lookup, Precondition, SandboxWorkspaces, StopState, Workspaces as _};
use agent_loop::{ExecSpec, File, Private, Workspace, WorkspaceError};
use polyaxon_sandbox::SandboxSpec;

use super::{Place, id, path, place, put};

async fn touch(workspace: &dyn Workspace, name: &str) {
    let (id, file) = (id("t-1.1.1"), File::new(""));
    workspace
        .put(&id, &path(name), &file, Precondition::Absent)
        .await
        .unwrap();
}

async fn names(workspace: &dyn Workspace) -> Vec<String> {
    let files = workspace.list().await.unwrap();
    files.iter().map(|(path, _)| path.to_string()).collect()
}

#[tokio::test]
async fn a_fresh_folder_is_empty_new_and_removed() {
    let Place {
        workspace, sandbox, ..
    } = &place().await;
    put(workspace, "a", "x", Precondition::Absent)
        .await
        .unwrap();
    let place = workspace.fresh_dir(&id("t-1.3.1")).await.unwrap();
    assert_eq!(place.list().await.unwrap().iter().len(), 0);
    place
        .put(
            &id("t-1.3.1"),
            &path("work/b"),
            &File::new("y"),
            Precondition::Absent,
        )
        .await
        .unwrap();
    let spec = ExecSpec::new(["sh", "-c", "cat b; cat; echo $X; echo e >&2; exit 3"]);
    let spec = spec.env("X", "v").stdin(*b"in").dir(path("work"));
    let receipt = place.exec(&id("t-1.3.1"), &spec).await.unwrap();
    assert_eq!((receipt.exit_code, receipt.timed_out), (Some(3), false));
    assert_eq!(
        (&receipt.stdout[..], &receipt.stderr[..]),
        (&b"yinv\n"[..], &b"e\n"[..])
    );
    let again = workspace.fresh_dir(&id("t-1.3.1")).await;
    assert!(matches!(again.err(), Some(WorkspaceError::Failed(_))));
    assert_eq!(place.stop().await, StopState::Confirmed);
    assert!(
        sandbox
            .fs()
            .ls("/tmp/repair.checks")
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert_eq!(workspace.list().await.unwrap().iter().len(), 1);
}

#[tokio::test]
async fn a_fresh_sandbox_runs_commands_as_a_user_who_cannot_change_what_was_put() {
    let Place { server, client, .. } = &place().await;
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client.clone(), server.project().clone(), spec);
    let (first, second) = (id("t-1.1.1"), id("t-1.2.1"));
    let (place, other) = tokio::join!(places.fresh(&first), places.fresh(&second));
    let (place, other) = (place.unwrap(), other.unwrap());
    assert_ne!(
        place.identity()["sandbox_run_uuid"],
        other.identity()["sandbox_run_uuid"]
    );
    assert!(other.stop().await.is_requested());
    let can = place.capabilities();
    assert!(
        can.other_uid && can.kills_tree && can.exec_lookup,
        "{can:?}"
    );
    assert_eq!(can.ttl, Some(Duration::from_secs(1800)));
    let file = File::new("fixture");
    place
        .put(&first, &path("work/t.py"), &file, Precondition::Absent)
        .await
        .unwrap();
    let line = "echo x >t.py; echo x >new; mv ../work ../other; rm -f t.py; chmod 777 . t.py; \
        echo x >../home/mine && cat ../home/mine; \
        (setsid sh -c 'until [ -e over ]; do sleep .05; done; echo late >../home/late' &) ; id -u";
    let spec = ExecSpec::new(["sh", "-c", line]).dir(path("work"));
    let receipt = place.exec(&first, &spec).await.unwrap();
    let said = String::from_utf8_lossy(&receipt.stdout).into_owned();
    let user: u32 = said.strip_prefix("x\n").unwrap().trim().parse().unwrap();
    assert!((60_000..65_000).contains(&user), "{said}");
    assert_eq!(names(&*place).await, ["home/mine", "work/t.py"]);
    let files = place.list().await.unwrap();
    assert_eq!(files.get(&path("work/t.py")), Some(&file.entry()));
    // What it left running was ended with it.
    touch(&*place, "work/over").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        names(&*place).await,
        ["home/mine", "work/over", "work/t.py"]
    );
    assert!(place.stop().await.is_requested());
}

#[tokio::test]
async fn a_folder_in_a_sandbox_that_isolates_has_a_home_and_a_cache_for_the_command() {
    let Place { server, client, .. } = &place().await;
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client.clone(), server.project().clone(), spec);
    let sandbox = places.fresh(&id("t-1.1.1")).await.unwrap();
    let folder = sandbox.fresh_dir(&id("a:t-1.2.1")).await.unwrap();
    assert!(folder.capabilities().other_uid);
    let call = id("t-1.2.1");
    let file = File::new("fixture");
    let (name, absent) = (path("work/t.py"), Precondition::Absent);
    let put = folder.put(&call, &name, &file, absent).await;
    put.unwrap();
    // Nor has its path a colon, which would end it in `PATH` and its like.
    let line = "case $PWD in *:*) exit 1; esac; echo x >new; echo h >../home/h && echo c >../cache/c && mkdir ../cache/more";
    let spec = ExecSpec::new(["sh", "-c", line]).dir(path("work"));
    let receipt = folder.exec(&call, &spec).await.unwrap();
    assert_eq!(receipt.exit_code, Some(0), "{receipt:?}");
    assert_eq!(names(&*folder).await, ["cache/c", "home/h", "work/t.py"]);
    assert!(folder.stop().await.is_requested());
    sandbox.stop().await;
}

#[tokio::test]
async fn a_fresh_sandbox_is_found_again_by_what_was_said_of_it_and_ended() {
    let Place { server, client, .. } = &place().await;
    let places = || {
        let spec = SandboxSpec::image("python:3.12-slim");
        SandboxWorkspaces::new(client.clone(), server.project().clone(), spec)
    };
    let call = id("t-1.1.1");
    let announced = places().announce(&call);
    assert_ne!(places().announce(&call), announced);
    let made = places().life_limit(Duration::from_secs(60));
    let place = made.fresh_as(&call, &announced).await.unwrap();
    let identity = place.identity();

    // Another program sees the same place, with all that it can do.
    let again = places().reopen(&call, &identity).await.unwrap();
    assert_eq!(again.identity(), identity);
    assert_eq!(again.capabilities(), place.capabilities());
    assert_eq!(again.capabilities().ttl, Some(Duration::from_secs(60)));
    // What was written down of it before it was said whom commands run as claims no isolation.
    let mut of_before = identity.clone();
    of_before.as_object_mut().unwrap().remove("commands_run_as");
    let less = places().reopen(&call, &of_before).await.unwrap();
    assert!(!less.capabilities().other_uid && !less.capabilities().kills_tree);
    // A command whose program has not seen its end, with a process that it has left.
    let line = "(setsid sh -c 'until [ -e over ]; do sleep .05; done; echo late >home/late' &) ; \
        until [ -e go ]; do sleep .05; done; echo done";
    let spec = ExecSpec::new(["sh", "-c", line]);
    let started = async {
        while again.lookup(&call).await.unwrap() != Lookup::Running {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        early = place.exec(&call, &spec) => panic!("{early:?}"),
        () = started => {}
    }
    touch(&*again, "go").await;
    let mut found = again.lookup(&call).await.unwrap();
    while found == Lookup::Running {
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = again.lookup(&call).await.unwrap();
    }
    let Lookup::Finished(receipt) = found else {
        panic!("{found:?}");
    };
    assert_eq!(receipt.stdout, b"done\n");
    // What it left running was ended with it.
    touch(&*again, "over").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(&*again).await, ["go", "over"]);

    // What was said before it was made ends it as well as what it says of itself.
    let nobody = serde_json::json!({"kind": "somewhere else"});
    let never = places().announce(&call);
    for (said, state) in [
        (&nobody, StopState::NotRequested),
        (&serde_json::Value::Null, StopState::NotRequested),
        (&never, StopState::NotRequested),
        (&announced, StopState::Confirmed),
        (&announced, StopState::Confirmed),
        (&identity, StopState::Confirmed),
    ] {
        assert_eq!(places().end(&call, said).await, state, "{said}");
    }
    for (said, expected) in [
        (&identity, WorkspaceError::NotFound),
        (&announced, WorkspaceError::Uncertain(Private::default())),
        (&nobody, WorkspaceError::Uncertain(Private::default())),
    ] {
        let error = places().reopen(&call, said).await.err().unwrap();
        assert_eq!(error.to_string(), expected.to_string(), "{said}");
    }
    let refused = places().fresh_as(&call, &nobody).await.err().unwrap();
    assert_eq!(refused.to_string(), "refused");
}
