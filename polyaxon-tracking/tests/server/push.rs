//! Folders of runs that are sent to a server, and runs of a server that come into folders.

use std::collections::BTreeMap;
use std::path::Path;

use polyaxon_client::runs::{CreateRun, RunStatus};
use polyaxon_client::{Client, Config, RunRef};
use polyaxon_local::{Fault, FaultRule};
use polyaxon_tracking::{ArtifactRef, Error, Push, Sending, TrackedRun, Tracking, pull, push};
use serde_json::{Value, json};
use wiremock::matchers::{body_string_contains, method, path};
use wiremock::{Mock, ResponseTemplate};

use crate::refused::server;
use crate::stage::{NAMESPACE, Stage};

/// An offline run with some files, and its folder.
async fn offline(stage: &Stage) -> TrackedRun {
    let tracking = Tracking::offline(stage.folder.path())
        .project(stage.project())
        .name("to push");
    let run = TrackedRun::start(tracking).await.unwrap();
    run.log_inputs([("lr", 0.1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    for name in ["a.txt", "b/c.txt", "b/d.txt"] {
        std::fs::write(run.outputs_path(name).unwrap(), name).unwrap();
    }
    let report = run.outputs_path("a.txt").unwrap();
    run.log_artifact_ref(ArtifactRef::file(report)).unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    run
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in std::fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "json") {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

async fn assert_is_whole(stage: &Stage, run: &TrackedRun) {
    let found = stage.get(run.uuid()).await;
    assert_eq!(found.name.as_deref(), Some("to push"));
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    assert_eq!(found.inputs, Some(json!({"lr": 0.1})));
    assert_eq!(found.outputs, Some(json!({"loss": 0.5})));
    let lineage = stage.runs().lineage(run.uuid()).await.unwrap();
    assert_eq!(lineage.len(), 2);
    let sizes = stage
        .runs()
        .artifact_sizes(NAMESPACE, run.uuid())
        .await
        .unwrap();
    for (path, text) in files(run.path()) {
        assert_eq!(stage.file(run.uuid(), &path).await, text);
        assert_eq!(sizes[&path], text.len() as u64);
    }
    assert_eq!(sizes.len(), 4);
}

#[tokio::test]
async fn an_offline_run_is_pushed_and_a_second_push_changes_nothing() {
    let stage = Stage::new().await;
    let run = offline(&stage).await;
    let folder = Push::new(run.path());
    let pushed = push(&stage.client, &folder).await.unwrap();
    assert_eq!((pushed.files(), pushed.kept()), (4, 0));
    assert_eq!(pushed.run(), &RunRef::new(stage.project(), run.uuid()));
    assert_is_whole(&stage, &run).await;
    let again = push(&stage.client, &folder).await.unwrap();
    assert_eq!((again.files(), again.kept()), (0, 4));
    assert_eq!(again.refused().len(), 0);
    assert_is_whole(&stage, &run).await;
    let all = push(&stage.client, &folder.everything()).await.unwrap();
    assert_eq!((all.files(), all.kept()), (4, 0));
}

/// Wherever a push breaks off, another completes it, and nothing that is there is lost.
#[tokio::test]
async fn a_push_that_broke_off_anywhere_is_completed_by_another() {
    for skip in 0..8 {
        let stage = Stage::new().await;
        let run = offline(&stage).await;
        let folder = Push::new(run.path());
        let broken = FaultRule::new(Fault::Close).path("*").skip(skip);
        stage.server.faults().add(broken);
        let first = push(&stage.client, &folder).await;
        let broke_off = stage.server.faults().applied() > 0;
        assert_eq!(first.is_err(), broke_off, "{skip}: {first:?}");
        stage.server.faults().clear();
        let before = match stage.runs().artifact_sizes(NAMESPACE, run.uuid()).await {
            Ok(sizes) => sizes.len(),
            Err(_) => 0,
        };
        let second = push(&stage.client, &folder).await.unwrap();
        assert_eq!(second.kept(), before, "{skip}");
        assert_is_whole(&stage, &run).await;
    }
}

#[tokio::test]
async fn a_run_without_lineage_is_pushed_with_its_files() {
    let stage = Stage::new().await;
    let tracking = Tracking::offline(stage.folder.path());
    let run = TrackedRun::start(tracking).await.unwrap();
    std::fs::write(run.outputs_path("a.txt").unwrap(), "a").unwrap();
    drop(run.end().await.unwrap());
    assert!(!run.path().join("lineages.plx.json").exists());
    let nowhere = push(&stage.client, &Push::new(run.path()))
        .await
        .unwrap_err();
    assert!(matches!(nowhere, Error::Surroundings { .. }), "{nowhere:?}");
    let folder = Push::new(run.path()).project(stage.project()).name("other");
    let pushed = push(&stage.client, &folder).await.unwrap();
    assert_eq!(pushed.files(), 1);
    assert_eq!(stage.get(run.uuid()).await.name.as_deref(), Some("other"));
}

#[tokio::test]
async fn what_could_not_be_sent_online_is_sent_by_a_push() {
    let stage = Stage::new().await;
    let limit = std::time::Duration::from_millis(1);
    let run = TrackedRun::start(stage.tracking().name("to push").send_limit(limit))
        .await
        .unwrap();
    run.flush().await.unwrap();
    let down = FaultRule::new(Fault::Close).path("*");
    stage.server.faults().add(down);
    run.log_inputs([("lr", 0.1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let report = run.end().await.unwrap();
    let last = report.unsent().last().unwrap();
    assert_eq!(last.what(), &Sending::Status(RunStatus::Succeeded));
    stage.server.faults().clear();
    assert_eq!(stage.get(run.uuid()).await.status, Some(RunStatus::Running));

    let pushed = push(&stage.client, &Push::new(run.path())).await.unwrap();
    assert_eq!((pushed.files(), pushed.refused().len()), (1, 0));
    let found = stage.get(run.uuid()).await;
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    assert_eq!(found.inputs, Some(json!({"lr": 0.1})));
    assert_eq!(found.outputs, Some(json!({"loss": 0.5})));
    let record = stage
        .runs()
        .lineage_record(run.uuid(), "loss")
        .await
        .unwrap();
    assert_eq!(record.summary["metric"]["last"], 0.5);
}

/// A checkpoint has the same size in each epoch.
#[tokio::test]
async fn a_file_that_was_replaced_by_one_of_the_same_size_is_pushed() {
    let stage = Stage::new().await;
    let limit = std::time::Duration::from_millis(500);
    let tracking = stage.tracking().send_limit(limit);
    let run = TrackedRun::start(tracking).await.unwrap();
    let (model, other) = (
        run.outputs_path("model.bin").unwrap(),
        run.outputs_path("other.bin").unwrap(),
    );
    std::fs::write(&model, "epoch 1").unwrap();
    std::fs::write(&other, "other").unwrap();
    run.flush().await.unwrap();
    let down = FaultRule::new(Fault::Close).path("*");
    stage.server.faults().add(down);
    std::fs::write(&model, "epoch 2").unwrap();
    let report = run.end().await.unwrap();
    let file = Sending::File("outputs/model.bin".to_owned());
    assert!(report.unsent().iter().any(|unsent| *unsent.what() == file));
    stage.server.faults().clear();

    let pushed = push(&stage.client, &Push::new(run.path())).await.unwrap();
    assert_eq!((pushed.files(), pushed.kept()), (1, 1));
    assert_eq!(pushed.refused().len(), 0);
    assert_eq!(stage.file(run.uuid(), "outputs/model.bin").await, "epoch 2");
    // And so on, by whatever way the folder's files change.
    std::fs::write(&model, "epoch 3").unwrap();
    let pushed = push(&stage.client, &Push::new(run.path())).await.unwrap();
    assert_eq!((pushed.files(), pushed.kept()), (1, 1));
    assert_eq!(stage.file(run.uuid(), "outputs/model.bin").await, "epoch 3");
}

/// What another server has, or another run, says nothing of this one.
#[tokio::test]
async fn what_was_sent_elsewhere_is_sent_here_too() {
    let (stage, elsewhere) = (Stage::new().await, Stage::new().await);
    let run = offline(&stage).await;
    let folder = Push::new(run.path()).project(elsewhere.project());
    let pushed = push(&elsewhere.client, &folder).await.unwrap();
    assert_eq!((pushed.files(), pushed.kept()), (4, 0));
    // There already, as long as the others, and not the same.
    let made = Push::new(run.path()).project(stage.project());
    let pushed = push(&stage.client, &made).await.unwrap();
    assert_eq!((pushed.files(), pushed.kept()), (4, 0));
    let note = std::fs::read_to_string(run.path().join("sent.plx.json")).unwrap();
    assert!(note.contains(&run.uuid().to_string()), "{note}");
    let back = push(&elsewhere.client, &folder).await.unwrap();
    assert_eq!((back.files(), back.kept()), (4, 0));
}

/// Its statuses are not this program's, now or later.
#[tokio::test]
async fn a_push_of_somebody_elses_run_gives_it_no_status() {
    let stage = Stage::new().await;
    let made = stage.runs().create(&CreateRun::unmanaged()).await.unwrap();
    let limit = std::time::Duration::from_millis(1);
    let tracking = stage.tracking().run(made.uuid).send_limit(limit);
    let run = TrackedRun::start(tracking).await.unwrap();
    run.flush().await.unwrap();
    let down = FaultRule::new(Fault::Close).path("*");
    stage.server.faults().add(down);
    run.log_inputs([("lr", 0.1)]).unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.unsent().len(), 1, "{report:?}");
    stage.server.faults().clear();
    let pushed = push(&stage.client, &Push::new(run.path())).await.unwrap();
    assert_eq!(pushed.refused().len(), 0);
    let found = stage.get(made.uuid).await;
    assert_eq!(found.inputs, Some(json!({"lr": 0.1})));
    assert_eq!(found.status, Some(RunStatus::Created));
}

#[tokio::test]
async fn a_run_that_is_pulled_is_the_one_that_was_pushed() {
    let stage = Stage::new().await;
    let run = offline(&stage).await;
    drop(push(&stage.client, &Push::new(run.path())).await.unwrap());
    let there = tempfile::tempdir().unwrap();
    let at = RunRef::new(stage.project(), run.uuid());
    let pulled = pull(&stage.client, &at, there.path()).await.unwrap();
    assert_eq!(
        pulled,
        there.path().join("runs").join(run.uuid().to_string())
    );
    assert_eq!(files(&pulled), files(run.path()));
    let read = |folder: &Path, name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
    };
    let (here, there) = (
        read(run.path(), "run.plx.json"),
        read(&pulled, "run.plx.json"),
    );
    for member in [
        "uuid",
        "name",
        "owner",
        "project",
        "inputs",
        "outputs",
        "status",
        "meta_info",
    ] {
        assert_eq!(there[member], here[member], "{member}");
    }
    let kinds = |record: &Value| -> Vec<Value> {
        let conditions = record["status_conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|condition| condition["type"].clone())
            .collect()
    };
    assert_eq!(kinds(&there), kinds(&here));
    let summaries = |folder: &Path| -> BTreeMap<String, Value> {
        let records = read(folder, "lineages.plx.json");
        let records = records.as_array().unwrap().iter();
        let named = |record: &Value| {
            (
                record["name"].as_str().unwrap().to_owned(),
                record["summary"].clone(),
            )
        };
        records.map(named).collect()
    };
    assert_eq!(summaries(&pulled), summaries(run.path()));
    // It can be pulled again, and pushed as another run.
    let other = polyaxon_client::RunUuid::random();
    pull(&stage.client, &at, pulled.ancestors().nth(2).unwrap())
        .await
        .unwrap();
    let copy = push(&stage.client, &Push::new(&pulled).run(other))
        .await
        .unwrap();
    assert_eq!((copy.files(), copy.refused().len()), (4, 0));
    assert_eq!(stage.get(other).await.outputs, Some(json!({"loss": 0.5})));
}

/// The server answers with 200 then, and with no files.
#[tokio::test]
async fn a_run_whose_store_fails_is_not_pulled_as_one_without_files() {
    let (server, uuid) = server().await;
    let error = format!("Could not list path {uuid}. Error Cannot connect to host store:9000");
    let tree = format!("/streams/v1/ns/acme/demo/runs/{uuid}/artifacts/tree");
    let answer = json!({"files": {}, "dirs": [], "error": error});
    Mock::given(path(tree))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(path(format!(
        "/api/v1/acme/demo/runs/{uuid}/lineage/artifacts"
    )))
    .respond_with(ResponseTemplate::new(200).set_body_json(json!({"results": []})))
    .mount(&server)
    .await;
    let config = Config::explicit(&server.uri()).unwrap().no_token();
    let run = RunRef::new("acme/demo".parse().unwrap(), uuid);
    let folder = tempfile::tempdir().unwrap();
    let error = pull(&Client::new(&config).unwrap(), &run, folder.path())
        .await
        .unwrap_err();
    let Error::Client(error) = error else {
        panic!("{error:?}")
    };
    assert!(
        error.to_string().contains("Cannot connect to host store"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_the_server_fails_on_holds_up_no_other_of_a_push() {
    let stage = Stage::new().await;
    let run = offline(&stage).await;
    let (server, _) = server().await;
    let config = Config::explicit(&server.uri()).unwrap().no_token();
    let client = Client::new(&config).unwrap();
    let upload = |name: &str, status| {
        let name = format!("filename=\"{name}\"");
        Mock::given(method("POST"))
            .and(body_string_contains(name))
            .respond_with(ResponseTemplate::new(status))
    };
    // The first of them, by its path.
    upload("loss.plx", 500).mount(&server).await;
    for name in ["a.txt", "c.txt", "d.txt"] {
        upload(name, 200).expect(1).named(name).mount(&server).await;
    }
    let folder = Push::new(run.path()).project("acme/demo".parse().unwrap());
    let Error::Client(error) = push(&client, &folder).await.unwrap_err() else {
        panic!("no answer of the server")
    };
    assert_eq!(error.status().map(|status| status.as_u16()), Some(500));
    server.verify().await;
}
