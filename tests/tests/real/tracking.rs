//! Tracked runs on the open-source control plane, and in the hands of the Python module.

use std::path::{Path, PathBuf};

use polyaxon_client::runs::RunStatus;
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, ProjectRef, RunRef, RunUuid, Token};
use polyaxon_tracking::{
    ArtifactRef, Event, Push, TrackedRun, Tracking, pull, push, read_metric_series,
};
use serde_json::{Value, json};

use crate::provided::{self, scratch, script};

pub(crate) const NAMESPACE: &str = "polyaxon";

pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) project: ProjectRef,
    pub(crate) folder: PathBuf,
}

impl Stage {
    /// A project and a folder that no other test has.
    pub(crate) async fn new(name: &str) -> Self {
        let url = provided::get("REAL_CONTROL_PLANE");
        let config = Config::explicit(url.to_str().unwrap()).unwrap();
        let token = Token::new("a-token-of-the-test").unwrap();
        let client = Client::new(&config.token(token)).unwrap();
        let create = Operation::post("projects.create", "/api/v1/default/projects/create")
            .json(&json!({"name": name}))
            .unwrap();
        client.transport().send(create).await.unwrap();
        Self {
            client,
            project: ProjectRef::new("default", name).unwrap(),
            folder: scratch(name),
        }
    }

    /// A project that is there.
    pub(crate) fn of(client: &Client, project: &ProjectRef, folder: PathBuf) -> Self {
        Self {
            client: client.clone(),
            project: project.clone(),
            folder,
        }
    }

    /// What the Python module makes of it.
    pub(crate) fn python(&self, arguments: &[&str]) -> Value {
        let folder = |name: &str| self.folder.join("python").join(name);
        std::fs::create_dir_all(folder("home")).unwrap();
        let mut python = script("REAL_POLYAXON_PYTHON", "tracking.py");
        python
            .args(arguments)
            .env("POLYAXON_HOST", provided::get("REAL_CONTROL_PLANE"))
            .env("PROJECT", self.project.name())
            .env("HOME", folder("home"))
            .env("POLYAXON_ARTIFACTS_ROOT", folder("artifacts"))
            .env("POLYAXON_OFFLINE_ROOT", folder("offline"))
            .env("POLYAXON_ARCHIVES_ROOT", folder("archives"));
        let output = python.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}\n{text}");
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }
}

async fn log(run: &TrackedRun) {
    run.log_inputs([("lr", 0.1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    run.log_metrics(2, [("loss", 0.25), ("acc", 0.9)]).unwrap();
    run.log_text(2, "note", "a|b\n").unwrap();
    run.log_event(2, "curve", Event::annotated_curve([0.0], [1.0], "a|b"))
        .unwrap();
    run.log_capture().log("a line").unwrap();
    let report = run.outputs_path("report.html").unwrap();
    std::fs::write(&report, "<html>report</html>").unwrap();
    run.log_artifact_ref(ArtifactRef::file(report)).unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
}

/// What Python reads of the run of [`log`].
fn expected(name: &str) -> Value {
    json!({
        "name": name,
        "status": "succeeded",
        "inputs": {"lr": 0.1},
        "outputs": {"loss": 0.25, "acc": 0.9},
        "meta": {"has_metrics": true, "has_events": true},
        "series": {"loss": [0.5, 0.25], "acc": [0.9]},
        "lineage": [
            ["acc", "metric", "events/metric/acc.plx"],
            ["curve", "curve", "events/curve/curve.plx"],
            ["loss", "metric", "events/metric/loss.plx"],
            ["note", "text", "events/text/note.plx"],
            ["report", "file", "outputs/report.html"],
        ],
        "files": {"report.html": 19},
        "logs": ["a line"],
    })
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_that_was_tracked_online_is_read_by_the_real_server_and_by_python() {
    let stage = Stage::new("tracked-online").await;
    let tracking = Tracking::new(&stage.client, &stage.project)
        .name("online")
        .folder(stage.folder.join("run"));
    let run = TrackedRun::start(tracking).await.unwrap();
    log(&run).await;
    assert_eq!(
        stage.python(&["read", &run.uuid().to_string()]),
        expected("online")
    );

    let runs = stage.client.runs(&stage.project);
    let found = runs.get(run.uuid()).await.unwrap();
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    let names = ["loss"];
    let series = runs
        .events(NAMESPACE, run.uuid(), "metric", names)
        .await
        .unwrap();
    assert_eq!(series[0].values(), [Some(0.5), Some(0.25)]);
    assert_eq!(series[0].steps(), [Some(1), Some(2)]);
    let curves = runs
        .events(NAMESPACE, run.uuid(), "curve", ["curve"])
        .await
        .unwrap();
    let curve = curves[0].column("curve")[0].as_str().unwrap();
    let curve: Value = serde_json::from_str(curve).unwrap();
    assert_eq!(curve["annotation"], "a|b");
    let many = runs
        .events_of_runs(NAMESPACE, &[run.uuid(), RunUuid::random()], "metric", names)
        .await
        .unwrap();
    assert_eq!(many[&run.uuid()][0].values(), [Some(0.5), Some(0.25)]);
    let logs = runs.logs(NAMESPACE, run.uuid()).await.unwrap();
    assert_eq!(logs[0].value.as_deref(), Some("a line"));
    // A page for people, as a file.
    let mut page = runs
        .artifact(NAMESPACE, run.uuid(), "outputs/report.html")
        .await
        .unwrap();
    assert_eq!(page.chunk().await.unwrap().unwrap(), "<html>report</html>");
    let sizes = runs.artifact_sizes(NAMESPACE, run.uuid()).await.unwrap();
    assert_eq!(sizes.len(), 6, "{sizes:?}");
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn an_offline_run_of_ours_is_pushed_by_python_and_by_us_and_pulled_by_both() {
    let stage = Stage::new("tracked-offline").await;
    for pushed_by in ["python", "us"] {
        let tracking = Tracking::offline(stage.folder.join("offline"))
            .project(stage.project.clone())
            .name(pushed_by);
        let run = TrackedRun::start(tracking).await.unwrap();
        log(&run).await;
        let uuid = run.uuid().to_string();
        if pushed_by == "python" {
            drop(stage.python(&["push", run.path().to_str().unwrap()]));
            assert_eq!(stage.python(&["read", &uuid]), expected(pushed_by));
        }
        // What Python has sent is noted nowhere, and sizes alone say nothing.
        let pushed = push(&stage.client, &Push::new(run.path())).await.unwrap();
        assert_eq!((pushed.files(), pushed.kept()), (6, 0), "{pushed_by}");
        assert_eq!(pushed.refused().len(), 0, "{pushed_by}");
        assert_eq!(stage.python(&["read", &uuid]), expected(pushed_by));
        // Whoever pushed first: another push of ours changes nothing.
        let again = push(&stage.client, &Push::new(run.path())).await.unwrap();
        assert_eq!((again.files(), again.kept()), (0, 6), "{pushed_by}");

        let root = stage.folder.join("pulled-by-python");
        let python = stage.python(&["pull", &uuid, root.to_str().unwrap()]);
        let at = RunRef::new(stage.project.clone(), run.uuid());
        let ours = pull(&stage.client, &at, stage.folder.join("pulled-by-us"));
        let ours = ours.await.unwrap();
        for folder in [Path::new(python["path"].as_str().unwrap()), &ours] {
            let loss = read_metric_series(folder.join("events/metric/loss.plx")).unwrap();
            let values: Vec<f64> = loss.points().iter().map(|point| point.value).collect();
            assert_eq!(values, [0.5, 0.25]);
            let page = std::fs::read_to_string(folder.join("outputs/report.html")).unwrap();
            assert_eq!(page, "<html>report</html>");
        }
        let record = |folder: &Path| -> Value {
            serde_json::from_slice(&std::fs::read(folder.join("run.plx.json")).unwrap()).unwrap()
        };
        let (theirs, ours) = (
            record(Path::new(python["path"].as_str().unwrap())),
            record(&ours),
        );
        assert_eq!(ours, theirs);
    }
}

/// Loosely, for a machine that has other work: `cargo xtask compare --tracking` measures.
#[tokio::test]
#[ignore = "needs a real server"]
async fn values_are_taken_faster_than_by_the_python_module_and_the_end_is_sooner() {
    const VALUES: u32 = 5_000;
    let folder = scratch("tracked-speed");
    let mut python = std::process::Command::new(provided::get("REAL_POLYAXON_PYTHON"));
    python
        .arg("-B")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../polyaxon-tracking/benches/speed.py"
        ))
        .arg(folder.join("python"))
        .args([&VALUES.to_string(), "offline"])
        .env("HOME", &folder);
    let output = python.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let theirs = |name: &str| theirs[name].as_f64().unwrap();

    let now = std::time::Instant::now;
    let before = now();
    let tracking = Tracking::offline(folder.join("ours"));
    let run = TrackedRun::start(tracking).await.unwrap();
    let start = before.elapsed().as_secs_f64();
    let before = now();
    for step in 0..VALUES {
        run.log_metric(step, "loss", 1.0 / f64::from(step + 1))
            .unwrap();
    }
    let calls = before.elapsed().as_secs_f64();
    let before = now();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let end = before.elapsed().as_secs_f64();

    let of = |folder: &Path| {
        let series = read_metric_series(folder.join("events/metric/loss.plx")).unwrap();
        let points = series.points().iter();
        points
            .map(|point| (point.step, point.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(run.path()), of(&folder.join("python")));
    assert_eq!(of(run.path()).len(), VALUES as usize);
    assert!(calls * 4.0 < theirs("calls"), "{calls} {}", theirs("calls"));
    assert!(
        start + end < theirs("end"),
        "{start} {end} {}",
        theirs("end")
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn an_offline_run_of_python_is_pushed_by_us() {
    let stage = Stage::new("tracked-by-python").await;
    let uuid = RunUuid::random();
    let root = stage.folder.join("offline");
    let made = stage.python(&["make", root.to_str().unwrap(), &uuid.to_string()]);
    let folder = Push::new(made["path"].as_str().unwrap()).project(stage.project.clone());
    let pushed = push(&stage.client, &folder).await.unwrap();
    assert_eq!((pushed.run().run, pushed.files()), (uuid, 2));
    let read = stage.python(&["read", &uuid.to_string()]);
    assert_eq!(read["status"], "succeeded");
    assert_eq!(read["inputs"], json!({"lr": 0.1}));
    assert_eq!(read["outputs"], json!({"loss": 0.25}));
    assert_eq!(read["series"], json!({"loss": [0.5, 0.25]}));
    assert_eq!(read["files"], json!({"report.txt": 6}));
}
