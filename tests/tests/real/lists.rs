//! Lists of runs, and finding sandboxes in them, on the open-source control plane: what it can be
//! asked for, in the form in which this client asks.

use std::time::Duration;

use polyaxon_client::RunUuid;
use polyaxon_client::runs::{CreateRun, ListRuns, Run, RunQuery};
use polyaxon_sandbox::{Error, Find, SandboxClient, SandboxSpec, Sandboxes};
use serde_json::json;

use crate::runs::{post, runs};

/// A launch id of a sandbox for a check.
const AS_THE_LOOP_MAKES_THEM: &str = "18b2c3d4e5f60718-0123456789abcdef-a.mounts_x-1.2.1";

fn ids(runs: &[Run]) -> Vec<RunUuid> {
    runs.iter().map(|run| run.uuid).collect()
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn sandboxes_are_found_again_by_name_tag_and_launch_id() {
    let (client, runs) = runs("found").await;
    let project = runs.project().clone();
    let mut created = Vec::new();
    for (name, launch_id) in [
        ("one", "launch-1"),
        ("two", "launch-2"),
        ("two", AS_THE_LOOP_MAKES_THEM),
    ] {
        let spec = SandboxSpec::image("python:3.12-slim")
            .name(name)
            .tag("nightly")
            .launch_id(launch_id);
        created.push(
            SandboxClient::create(&client, &project, &spec)
                .await
                .unwrap()
                .run_uuid(),
        );
    }
    // A service that is no sandbox, and a job, of the same name and tag.
    let others = [
        json!({"plugins": {"auth": false}, "run": {"kind": "service", "ports": [80], "container": {"image": "i", "command": ["true"]}}}),
        json!({"run": {"kind": "job", "container": {"image": "i", "command": ["true"]}}}),
    ];
    for other in others {
        let run = CreateRun::operation(&other).name("one").tag("nightly");
        runs.create(&run).await.unwrap();
    }
    let sandboxes = Sandboxes::of(&client, &project);
    let newest_first: Vec<RunUuid> = created.iter().rev().copied().collect();
    for find in [Find::any(), Find::tagged("nightly")] {
        assert_eq!(
            ids(&sandboxes.list(&find).await.unwrap()),
            newest_first,
            "{find:?}"
        );
    }
    let one = sandboxes.connect(&Find::named("one")).await.unwrap();
    assert_eq!(one.run_uuid(), created[0]);
    let error = sandboxes.connect(&Find::named("two")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Ambiguous(found) if ids(&found.candidates) == newest_first[..2]),
        "{error:?}"
    );
    let second = sandboxes.created("launch-2").await.unwrap().unwrap();
    assert_eq!(second.uuid, created[1]);
    assert_eq!(sandboxes.created("launch-4").await.unwrap(), None);
    let third = sandboxes.look_for(AS_THE_LOOP_MAKES_THEM).await.unwrap();
    assert_eq!(third.unwrap().uuid, created[2]);
    let old = Find::any().older_than(Duration::from_secs(3600));
    assert_eq!(sandboxes.list(&old).await.unwrap(), []);

    let report = sandboxes
        .stop(&Find::any().launch_id("launch-2"))
        .await
        .unwrap();
    assert_eq!(
        (ids(&report.stopped), report.failed.len()),
        (vec![created[1]], 0)
    );
    // An agent confirms it; then it has ended, and is found only where that is asked for.
    post(
        &client,
        &runs,
        created[1],
        json!({"type": "stopped", "status": true}),
    )
    .await;
    let left = sandboxes.connect(&Find::named("two")).await.unwrap();
    assert_eq!(left.run_uuid(), created[2]);
    let all = sandboxes.list(&Find::any().with_ended()).await.unwrap();
    assert_eq!(ids(&all), newest_first);
    assert_eq!(
        sandboxes.created("launch-2").await.unwrap().unwrap().uuid,
        created[1]
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_list_has_all_pages_in_order() {
    let (_client, runs) = runs("pages").await;
    let mut created = Vec::new();
    for number in 0..7 {
        let run = CreateRun::unmanaged().name(format!("run-{number}"));
        created.insert(0, runs.create(&run).await.unwrap().uuid);
    }
    let all = runs.all(&ListRuns::new().limit(3)).await.unwrap();
    assert_eq!((ids(&all.runs), all.count), (created.clone(), 7));
    assert!(all.answered_at.is_some());
    let page = ListRuns::new().sort("created_at").limit(2).offset(1);
    let page = runs.list(&page).await.unwrap();
    assert_eq!(ids(&page.runs), [created[5], created[4]]);
    let one = ListRuns::new()
        .matching(&RunQuery::new().name().eq("run-3"))
        .unwrap();
    assert_eq!(ids(&runs.list(&one).await.unwrap().runs), [created[3]]);
    let error = runs
        .list(&ListRuns::new().query("no such"))
        .await
        .unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
}
