//! Starts that cannot be: what they leave on the server and in the folder.

use std::error::Error as _;

use polyaxon_client::runs::{CreateRun, ListRuns, RunStatus};
use polyaxon_client::{Client, Config, RunUuid};
use polyaxon_tracking::{Ending, Error, TrackedRun, Tracking};
use serde_json::{Value, json};
use wiremock::matchers::{body_partial_json, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::stage::Stage;

async fn runs_of(stage: &Stage) -> usize {
    let list = stage.runs().list(&ListRuns::new()).await.unwrap();
    list.runs.len()
}

/// A run whose last call was refused, so that its record stays in the folder.
async fn left_over(stage: &Stage) -> TrackedRun {
    let run = stage.start().await;
    run.set_name("x".repeat(129)).unwrap();
    assert_eq!(run.end().await.unwrap().unsent().len(), 1);
    run
}

fn record(stage: &Stage) -> Value {
    let bytes = std::fs::read(stage.root().join("run.plx.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_folder_of_another_run_is_refused_before_a_run_is_created() {
    let stage = Stage::new().await;
    let first = left_over(&stage).await;
    let before = record(&stage);
    let error = TrackedRun::start(stage.tracking()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!(
            "is the folder of run {}, not of a new one",
            first.uuid()
        )),
        "{text}"
    );
    assert!(text.contains(&stage.root().display().to_string()), "{text}");
    assert_eq!(runs_of(&stage).await, 1);
    assert_eq!(record(&stage), before);

    // Named by its id it is gone on with, and so is no other.
    let made = stage.runs().create(&CreateRun::unmanaged()).await.unwrap();
    let other = stage.tracking().run(made.uuid);
    let Error::OtherRun { found, asked, .. } = TrackedRun::start(other).await.unwrap_err() else {
        panic!("it is another run's");
    };
    assert_eq!((found, asked), (first.uuid(), Some(made.uuid)));
    let again = stage.tracking().resume(first.uuid());
    let again = TrackedRun::start(again).await.unwrap();
    assert_eq!(again.uuid(), first.uuid());
    drop(again.end().await.unwrap());
}

#[tokio::test]
async fn a_folder_of_another_run_is_refused_offline_too() {
    let folder = tempfile::tempdir().unwrap();
    let tracking = || Tracking::offline(folder.path()).folder(folder.path().join("run"));
    let first = TrackedRun::start(tracking()).await.unwrap();
    drop(first.end().await.unwrap());
    let error = TrackedRun::start(tracking()).await.unwrap_err();
    let Error::OtherRun { found, asked, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*found, first.uuid());
    let text = error.to_string();
    assert!(
        text.contains(&format!("not of run {}", asked.unwrap())),
        "{text}"
    );
    let again = TrackedRun::start(tracking().run(first.uuid()))
        .await
        .unwrap();
    assert_eq!(again.uuid(), first.uuid());
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_found_out_before_a_run_is_created() {
    let stage = Stage::new().await;
    let file = stage.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let tracking = stage.tracking().folder(file.join("run"));
    let error = TrackedRun::start(tracking).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Io {
                action: "create",
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(runs_of(&stage).await, 0);
}

#[tokio::test]
async fn a_run_that_was_created_and_cannot_be_started_is_named_and_failed() {
    let stage = Stage::new().await;
    // It can be written to, but there is a file where a folder is to be.
    std::fs::create_dir(stage.root()).unwrap();
    std::fs::write(stage.root().join("events"), "").unwrap();
    let error = TrackedRun::start(stage.tracking()).await.unwrap_err();
    let Error::NotStarted { run, source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains(&run.to_string()), "{error}");
    assert!(matches!(**source, Error::Io { .. }), "{source:?}");
    assert!(error.source().is_some());
    let statuses = stage.runs().statuses(*run).await.unwrap();
    assert_eq!(statuses.status, RunStatus::Failed);
    let last = statuses.status_conditions.last().unwrap();
    assert_eq!(last.reason.as_deref(), Some("NotStarted"));
    let message = last.message.as_deref().unwrap();
    assert!(message.starts_with("cannot create "), "{message}");
}

/// The answer to the creation can lack what the run's files need; then the run is asked for.
#[tokio::test]
async fn a_run_that_was_created_and_cannot_be_read_is_named_and_failed() {
    let (server, run) = (MockServer::start().await, RunUuid::random());
    let at = |rest: &str| path(format!("/api/v1/acme/demo/runs{rest}"));
    Mock::given(method("POST"))
        .and(at(""))
        .respond_with(ResponseTemplate::new(201).set_body_json(json!({"uuid": run})))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(at(&format!("/{run}")))
        .respond_with(ResponseTemplate::new(403))
        .expect(1)
        .mount(&server)
        .await;
    let condition = json!({"type": "failed", "reason": "NotStarted"});
    Mock::given(method("POST"))
        .and(at(&format!("/{run}/statuses")))
        .and(body_partial_json(json!({"condition": condition})))
        .respond_with(ResponseTemplate::new(201).set_body_json(json!({})))
        .expect(1)
        .mount(&server)
        .await;
    let folder = tempfile::tempdir().unwrap();
    let config = Config::explicit(&server.uri()).unwrap().no_token();
    let client = Client::new(&config).unwrap();
    let tracking = Tracking::new(&client, &"acme/demo".parse().unwrap());
    let tracking = tracking.folder(folder.path().join("run"));
    let Error::NotStarted {
        run: named, source, ..
    } = TrackedRun::start(tracking).await.unwrap_err()
    else {
        panic!("the run was created");
    };
    assert_eq!(named, run);
    assert!(matches!(*source, Error::Client(_)), "{source:?}");
    assert!(!folder.path().join("run").exists());
}

/// What a program did with two runs in one folder: the second got the end of the first.
#[tokio::test]
async fn a_run_in_a_folder_of_its_own_ends_as_it_is_told() {
    let stage = Stage::new().await;
    drop(left_over(&stage).await);
    let tracking = stage.tracking().folder(stage.folder.path().join("second"));
    let second = TrackedRun::start(tracking).await.unwrap();
    second.log_inputs([("lr", 0.1)]).unwrap();
    let report = second.end_with(Ending::failed("no")).await.unwrap();
    assert_eq!(report.missing(), 0);
    let found = stage.get(second.uuid()).await;
    assert_eq!(found.status, Some(RunStatus::Failed));
    assert_eq!(found.inputs, Some(json!({"lr": 0.1})));
}
