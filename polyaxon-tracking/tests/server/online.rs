//! What a server knows of a run that was tracked on it.

use polyaxon_client::runs::{CreateRun, RunStatus};
use polyaxon_tracking::{ArtifactRef, Asset, Ending, Error, Event, TrackedRun, Tracking};
use serde_json::json;

use crate::stage::{NAMESPACE, Stage};

#[tokio::test]
async fn everything_that_was_logged_is_on_the_server_when_the_run_has_ended() {
    let stage = Stage::new().await;
    let tracking = stage
        .tracking()
        .name("candidate-7")
        .description("d")
        .tag("a");
    let run = TrackedRun::start(tracking).await.unwrap();
    run.log_inputs([("lr", 0.1)]).unwrap();
    run.log_outputs([("best", 1)]).unwrap();
    run.log_tags(["b"]).unwrap();
    run.log_meta([("custom", 1)]).unwrap();
    run.log_progress(0.5).unwrap();
    run.set_readme("# Read me").unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    run.log_metrics(2, [("loss", 0.25), ("acc", 0.9)]).unwrap();
    run.log_text(2, "note", "hello").unwrap();
    run.log_event(2, "curve", Event::curve([0.0], [1.0]))
        .unwrap();
    run.log_capture().log("a line").unwrap();
    let path = run.outputs_path("deep/report.html").unwrap();
    std::fs::write(&path, "<html>report</html>").unwrap();
    run.log_artifact_ref(ArtifactRef::file(&path)).unwrap();
    run.log_asset(3, Asset::model(&path).name("m")).unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.missing(), 0, "{report:?}");
    assert_eq!(report.written(), 6);
    // It is all there, so nothing is left for a push.
    assert!(!run.path().join("run.plx.json").exists());

    let found = stage.get(run.uuid()).await;
    assert_eq!(found.name.as_deref(), Some("candidate-7"));
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    assert_eq!(found.inputs, Some(json!({"lr": 0.1})));
    assert_eq!(
        found.outputs,
        Some(json!({"best": 1, "loss": 0.25, "acc": 0.9}))
    );
    assert_eq!(found.tags, Some(vec!["a".to_owned(), "b".to_owned()]));
    let meta = json!({
        "custom": 1, "progress": 0.5, "has_metrics": true, "has_events": true, "has_model": true,
    });
    assert_eq!(found.meta_info, Some(meta));
    let statuses = stage.runs().statuses(run.uuid()).await.unwrap();
    let history = statuses.status_conditions.iter().map(|c| c.kind.as_str());
    assert_eq!(
        history.collect::<Vec<_>>(),
        ["created", "running", "succeeded"]
    );

    let lineage = stage.runs().lineage(run.uuid()).await.unwrap();
    let mut lineage: Vec<_> = lineage
        .iter()
        .map(|record| {
            (
                record.name.as_str(),
                record.kind.as_str(),
                record.path.as_deref(),
            )
        })
        .collect();
    lineage.sort_unstable();
    assert_eq!(
        lineage,
        [
            ("acc", "metric", Some("events/metric/acc.plx")),
            ("curve", "curve", Some("events/curve/curve.plx")),
            ("loss", "metric", Some("events/metric/loss.plx")),
            ("m", "model", Some("events/model/m.plx")),
            ("note", "text", Some("events/text/note.plx")),
            ("report", "file", Some("outputs/deep/report.html")),
        ]
    );
    let sizes = stage
        .runs()
        .artifact_sizes(NAMESPACE, run.uuid())
        .await
        .unwrap();
    let here = |path: &str| std::fs::metadata(run.path().join(path)).unwrap().len();
    for (path, size) in &sizes {
        assert_eq!(*size, here(path), "{path}");
    }
    assert_eq!(sizes.len(), 8, "{sizes:?}");
    let page = stage.file(run.uuid(), "outputs/deep/report.html").await;
    assert_eq!(page, "<html>report</html>");

    let series = stage.runs();
    let series = series
        .events(NAMESPACE, run.uuid(), "metric", ["loss"])
        .await
        .unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!(series[0].values(), [Some(0.5), Some(0.25)]);
    assert_eq!(series[0].steps(), [Some(1), Some(2)]);
    let logs = stage.runs().logs(NAMESPACE, run.uuid()).await.unwrap();
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0].value.as_deref(), Some("a line"));
}

#[tokio::test]
async fn a_flush_waits_until_the_server_has_what_was_taken() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    for step in 0..3 {
        run.log_metric(step, "loss", 0.5).unwrap();
        run.log_inputs([("step", step)]).unwrap();
        run.flush().await.unwrap();
        let found = stage.get(run.uuid()).await;
        assert_eq!(found.inputs, Some(json!({"step": step})));
        let local = std::fs::read_to_string(run.path().join("events/metric/loss.plx")).unwrap();
        let file = stage.file(run.uuid(), "events/metric/loss.plx").await;
        assert_eq!(file, local);
        // The pages of the platform find a series by its lineage.
        let record = stage
            .runs()
            .lineage_record(run.uuid(), "loss")
            .await
            .unwrap();
        assert_eq!(record.summary["step"]["count"], step + 1);
    }
    assert_eq!(stage.get(run.uuid()).await.status, Some(RunStatus::Running));
    drop(run.end().await.unwrap().ensure_complete().unwrap());
}

#[tokio::test]
async fn a_run_that_failed_says_why() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    run.log_status(RunStatus::Processing, "Checks", Some("m".to_owned()))
        .unwrap();
    let refused = run.log_status(RunStatus::Failed, "r", None).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }));
    let ending = Ending::failed("the check timed out").reason("CheckTimedOut");
    let report = run.end_with(ending).await.unwrap();
    assert_eq!(report.missing(), 0);
    let statuses = stage.runs().statuses(run.uuid()).await.unwrap();
    let last = statuses.status_conditions.last().unwrap();
    assert_eq!(last.kind, RunStatus::Failed);
    assert_eq!(last.reason.as_deref(), Some("CheckTimedOut"));
    assert_eq!(last.message.as_deref(), Some("the check timed out"));
    assert_eq!(statuses.status_conditions[2].kind, RunStatus::Processing);
}

#[tokio::test]
async fn a_run_of_somebody_else_keeps_its_status() {
    let stage = Stage::new().await;
    let made = stage.runs().create(&CreateRun::unmanaged()).await.unwrap();
    let run = TrackedRun::start(stage.tracking().run(made.uuid))
        .await
        .unwrap();
    assert_eq!(run.uuid(), made.uuid);
    run.log_metric(1, "loss", 0.5).unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let found = stage.get(made.uuid).await;
    assert_eq!(found.status, Some(RunStatus::Created));
    assert_eq!(found.outputs, Some(json!({"loss": 0.5})));
    let sizes = stage
        .runs()
        .artifact_sizes(NAMESPACE, made.uuid)
        .await
        .unwrap();
    assert_eq!(sizes.len(), 1);
}

#[tokio::test]
async fn a_run_that_is_dropped_is_failed_on_the_server_too() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    let uuid = run.uuid();
    run.log_metric(1, "loss", 0.5).unwrap();
    drop(run);
    let limit = std::time::Duration::from_secs(20);
    let ended = stage.runs().wait_until_final(uuid, limit).await.unwrap();
    assert_eq!(ended.status, RunStatus::Failed);
    let last = ended.status_conditions.last().unwrap();
    assert_eq!(last.reason.as_deref(), Some("NotEnded"));
    let file = stage.file(uuid, "events/metric/loss.plx").await;
    assert!(file.ends_with("|0.5"), "{file}");
}

#[test]
fn a_run_that_outlives_its_runtime_is_sent_all_the_same() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let servers = runtime();
    let stage = servers.block_on(Stage::new());
    let program = runtime();
    let run = program.block_on(async {
        let run = stage.start().await;
        run.log_metric(1, "loss", 0.5).unwrap();
        run
    });
    let uuid = run.uuid();
    // As `main` does when it returns early.
    drop(program);
    let statuses = servers.block_on(async { stage.runs().statuses(uuid).await.unwrap() });
    assert_eq!(statuses.status, RunStatus::Failed);
    assert!(matches!(
        run.log_metric(2, "loss", 0.5),
        Err(Error::RuntimeGone)
    ));
}

#[test]
fn a_runtime_with_a_single_blocking_thread_can_track_a_run() {
    let servers = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let stage = servers.block_on(Stage::new());
    let program = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let limit = std::time::Duration::from_secs(30);
    let report = program.block_on(async {
        tokio::time::timeout(limit, async {
            let run = stage.start().await;
            run.log_metric(1, "loss", 0.5).unwrap();
            run.flush().await.unwrap();
            run.end().await.unwrap()
        })
        .await
    });
    let report = report.unwrap().ensure_complete().unwrap();
    assert_eq!(report.written(), 1);
}

/// Registering is not copying: what lies elsewhere is known and not kept.
#[tokio::test]
async fn a_reference_to_a_file_elsewhere_is_registered_and_not_copied() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    let elsewhere = stage.folder.path().join("elsewhere.txt");
    std::fs::write(&elsewhere, "x").unwrap();
    run.log_artifact_ref(ArtifactRef::file(&elsewhere).name("registered"))
        .unwrap();
    run.log_artifact(ArtifactRef::file(&elsewhere).name("copied"), "")
        .unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let path = |name: &'static str| {
        let (runs, run) = (stage.runs(), run.uuid());
        async move { runs.lineage_record(run, name).await.unwrap().path }
    };
    assert_eq!(path("registered").await.as_deref(), elsewhere.to_str());
    assert_eq!(
        path("copied").await.as_deref(),
        Some("outputs/elsewhere.txt")
    );
    let sizes = stage
        .runs()
        .artifact_sizes(NAMESPACE, run.uuid())
        .await
        .unwrap();
    assert_eq!(sizes.keys().collect::<Vec<_>>(), ["outputs/elsewhere.txt"]);
}

#[tokio::test]
async fn a_run_that_goes_nowhere_leaves_nothing() {
    let run = TrackedRun::start(Tracking::no_op()).await.unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let path = run.outputs_path("a.txt").unwrap();
    std::fs::write(&path, "a").unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    drop(run);
    assert!(!path.exists());
}
