//! What becomes of runs on the open-source control plane: put away, deleted, moved, made again.

use std::time::Duration;

use polyaxon_client::runs::{
    CreateRun, ListRuns, LiveState, Many, RunAgain, RunQuery, RunStatus, Runs,
};
use polyaxon_client::{Error, ProjectRef, RunUuid};
use serde_json::{Value, json};

use crate::runs::{post, runs};

const LIMIT: Duration = Duration::from_secs(60);

fn job() -> CreateRun {
    CreateRun::operation(&json!({
        "kind": "operation",
        "params": {"seed": {"value": 1}},
        "component": {"kind": "component", "inputs": [{"name": "seed", "type": "int"}],
            "run": {"kind": "job", "container": {"image": "busybox", "command": ["true"]}}},
    }))
}

async fn unmanaged(runs: &Runs) -> RunUuid {
    runs.create(&CreateRun::unmanaged()).await.unwrap().uuid
}

async fn listed(runs: &Runs, query: RunQuery) -> Vec<RunUuid> {
    let list = ListRuns::new().matching(&query).unwrap();
    let page = runs.list(&list).await.unwrap();
    page.runs.iter().map(|run| run.uuid).collect()
}

fn said(error: &Error) -> (u16, String) {
    let Error::Api(error) = error else {
        panic!("{error}")
    };
    (
        error.status().as_u16(),
        error.message().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_deleted_run_is_gone_though_it_is_still_found() {
    let (client, runs) = runs("deleted").await;
    let run = unmanaged(&runs).await;
    post(
        &client,
        &runs,
        run,
        json!({"type": "running", "status": true}),
    )
    .await;
    assert!(!runs.is_gone(run).await.unwrap());
    runs.delete(run).await.unwrap();
    runs.delete(run).await.unwrap();
    let left = runs.get(run).await.unwrap();
    // Which is why the status alone says nothing.
    assert_eq!(left.status, Some(RunStatus::Running));
    assert_eq!(left.live_state, Some(LiveState::Deleted));
    assert!(runs.is_gone(run).await.unwrap());
    assert_eq!(listed(&runs, RunQuery::new().with_archived()).await, []);
    let never: RunUuid = "0123456789abcdef0123456789abcdef".parse().unwrap();
    assert!(runs.is_gone(never).await.unwrap());
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn an_archived_run_is_in_other_lists_and_comes_back_as_it_was_left() {
    let (_, runs) = runs("archived").await;
    let run = runs.submit(&job()).await.unwrap().uuid;
    runs.archive(run).await.unwrap();
    assert!(runs.is_gone(run).await.unwrap());
    assert_eq!(listed(&runs, RunQuery::new()).await, []);
    assert_eq!(listed(&runs, RunQuery::new().archived()).await, [run]);
    assert_eq!(listed(&runs, RunQuery::new().with_archived()).await, [run]);
    runs.restore(run).await.unwrap();
    let back = runs.get(run).await.unwrap();
    assert_eq!(
        (back.status, back.live_state),
        (Some(RunStatus::Stopping), Some(LiveState::Live))
    );
    assert_eq!(listed(&runs, RunQuery::new()).await, [run]);
    runs.invalidate(run).await.unwrap();
    // What was started cannot be skipped, and nobody says so.
    runs.skip(run).await.unwrap();
    assert_eq!(
        runs.get(run).await.unwrap().status,
        Some(RunStatus::Stopping)
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_is_made_again_in_three_ways() {
    let (client, runs) = runs("again").await;
    let first = runs.submit(&job().name("first")).await.unwrap().uuid;
    let again = RunAgain::new().name("second").tag("t").meta("attempt", 2);
    let second = runs.restart(first, &again).await.unwrap();
    let original = second.original.unwrap();
    assert_eq!(
        (original.uuid, original.kind.as_deref()),
        (first, Some("restart"))
    );
    assert_eq!(second.name.as_deref(), Some("second"));
    assert_eq!(second.inputs.unwrap()["seed"], 1);
    assert_eq!(second.meta_info.unwrap()["attempt"], 2);

    let change = json!({"params": {"seed": {"value": 7}}});
    let third = runs
        .restart(first, &RunAgain::new().content(&change))
        .await
        .unwrap();
    assert_eq!(third.inputs.unwrap()["seed"], 7);

    let with_files = RunAgain::new()
        .copy_file("outputs/a.txt")
        .copy_dir("events");
    let copy = runs.copy(first, &with_files).await.unwrap();
    assert_eq!(copy.original.unwrap().kind.as_deref(), Some("copy"));
    // The platform has taken them: its agent copies them when the run starts.
    let content = runs.get(copy.uuid).await.unwrap().content.unwrap();
    let content: Value = serde_json::from_str(&content).unwrap();
    let artifacts = &content["run"]["init"][0]["artifacts"];
    assert_eq!(artifacts["files"][0][0], format!("{first}/outputs/a.txt"));
    assert_eq!(artifacts["dirs"][0][0], format!("{first}/events"));
    let error = runs.restart(first, &with_files).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error}");

    // Only what has ended goes on, and its end stays written.
    let (status, message) = said(&runs.resume(first, &RunAgain::new()).await.unwrap_err());
    assert_eq!(status, 400);
    assert!(
        message.contains("must reach a final state first"),
        "{message}"
    );
    runs.stop(first).await.unwrap();
    post(
        &client,
        &runs,
        first,
        json!({"type": "stopped", "status": true}),
    )
    .await;
    let ended = runs.wait_until_final(first, LIMIT).await.unwrap();
    assert_eq!(ended.status, RunStatus::Stopped);
    let resumed = runs.resume(first, &RunAgain::new()).await.unwrap();
    assert_eq!(resumed.uuid, first);
    let now = runs.get(first).await.unwrap();
    assert!(!now.status.unwrap().is_final() && now.finished_at.is_some());

    // Without an operation there is nothing to run again.
    let plain = unmanaged(&runs).await;
    let (status, message) = said(&runs.restart(plain, &RunAgain::new()).await.unwrap_err());
    assert_eq!(status, 400);
    assert!(
        message.starts_with("Cloning was not successful"),
        "{message}"
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_moves_to_another_project() {
    let (client, here) = runs("moved-from").await;
    let (_, there) = runs("moved-to").await;
    let run = unmanaged(&here).await;
    here.transfer(run, there.project()).await.unwrap();
    assert_eq!(listed(&here, RunQuery::new()).await, []);
    assert_eq!(listed(&there, RunQuery::new()).await, [run]);
    let nowhere = ProjectRef::new("default", "no-such-project").unwrap();
    let (status, message) = said(&there.transfer(run, &nowhere).await.unwrap_err());
    assert_eq!(status, 400);
    assert!(message.contains("does not exist"), "{message}");
    let foreign = ProjectRef::new("other", "moved-to").unwrap();
    let error = there.transfer(run, &foreign).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error}");
    drop(client);
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn many_runs_are_ended_put_away_and_deleted_with_one_call() {
    let (_, runs) = runs("many").await;
    let mut some = Vec::new();
    for _ in 0..3 {
        some.push(unmanaged(&runs).await);
    }
    let never: RunUuid = "0123456789abcdef0123456789abcdef".parse().unwrap();
    runs.many(Many::Stop, &[some[0], some[1], never])
        .await
        .unwrap();
    let stopped = RunQuery::new()
        .status(RunStatus::Stopped)
        .uuid_in(some.clone());
    let mut found = listed(&runs, stopped).await;
    found.sort();
    let mut want = vec![some[0], some[1]];
    want.sort();
    assert_eq!(found, want);
    runs.many(Many::Archive, &some[..2]).await.unwrap();
    assert_eq!(listed(&runs, RunQuery::new()).await, [some[2]]);
    runs.many(Many::Restore, &some[..1]).await.unwrap();
    runs.many(Many::Invalidate, &some).await.unwrap();
    runs.many(Many::Approve, &some).await.unwrap();
    runs.many(Many::Skip, &some[2..]).await.unwrap();
    assert_eq!(
        runs.get(some[2]).await.unwrap().status,
        Some(RunStatus::Skipped)
    );
    runs.many(Many::Delete, &some).await.unwrap();
    assert_eq!(listed(&runs, RunQuery::new().with_archived()).await, []);
    runs.many(Many::Delete, &[]).await.unwrap();
}
