//! A run from its start to its end, and those that have none.

use std::fs;
use std::path::Path;

use polyaxon_tracking::{ArtifactRef, At, Ending, Error, TrackedRun, Tracking, read_metric_series};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::replay::{read_json, until};

fn record(run: &Path) -> Value {
    read_json(&run.join("run.plx.json"))
}

fn values(run: &Path, metric: &str) -> Vec<f64> {
    let path = run.join(format!("events/metric/{metric}.plx"));
    let series = read_metric_series(path).unwrap();
    assert_eq!(series.unreadable_lines(), 0);
    series.points().iter().map(|point| point.value).collect()
}

#[tokio::test]
async fn a_time_that_is_not_given_is_now_in_utc() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    let before = jiff::Timestamp::now();
    run.log_metric(1, "loss", 0.5).unwrap();
    let after = jiff::Timestamp::now();
    run.flush().await.unwrap();
    let path = run.path().join("events/metric/loss.plx");
    let text = fs::read_to_string(&path).unwrap();
    let timestamp = text.lines().nth(1).unwrap().split('|').nth(1).unwrap();
    assert!(timestamp.ends_with("+00:00"), "{timestamp}");
    assert_eq!(timestamp.chars().nth(10), Some(' '), "{timestamp}");
    let instant = read_metric_series(&path).unwrap().points()[0]
        .timestamp
        .unwrap();
    let microsecond = jiff::SignedDuration::from_micros(1);
    assert!(before - microsecond < instant && instant <= after);
}

#[tokio::test]
async fn a_run_is_in_its_files_long_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    let started = record(run.path());
    assert_eq!(started["status"], "running");
    assert_eq!(started["uuid"], json!(run.uuid()));
    assert_eq!(started.get("inputs"), None);
    assert_eq!(started.get("owner"), None);

    run.log_inputs([("task_id", "parse-amounts")]).unwrap();
    run.log_metrics(1, [("loss", 0.5), ("accuracy", f64::NAN)])
        .unwrap();
    run.log_artifact_ref(ArtifactRef::file("nowhere/plan.txt"))
        .unwrap();
    run.flush().await.unwrap();
    let shown = record(run.path());
    assert_eq!(shown["inputs"], json!({"task_id": "parse-amounts"}));
    assert_eq!(shown["outputs"], json!({"loss": 0.5, "accuracy": null}));
    assert_eq!(
        shown["meta_info"],
        json!({"has_metrics": true, "has_events": true})
    );
    assert_eq!(values(run.path(), "loss"), [0.5]);
    let lineages = read_json(&run.path().join("lineages.plx.json"));
    assert_eq!(lineages[0]["name"], "plan");

    run.log_metric(2, "loss", 0.25).unwrap();
    let report = run.end().await.unwrap().ensure_complete().unwrap();
    assert_eq!(report.written(), 3);
    assert_eq!(record(run.path())["outputs"]["loss"], 0.25);
    assert_eq!(record(run.path())["status"], "succeeded");
}

#[tokio::test]
async fn values_and_the_record_reach_their_files_without_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    run.log_inputs([("a", 1)]).unwrap();
    let path = run.path().join("events/metric/loss.plx");
    until(|| read_metric_series(&path).is_ok_and(|series| series.points().len() == 1)).await;
    until(|| record(run.path())["inputs"] == json!({"a": 1})).await;
    assert_eq!(record(run.path())["outputs"], json!({"loss": 0.5}));
}

#[tokio::test]
async fn nothing_is_taken_after_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    run.log_metric(1, "loss", 1.0).unwrap();
    let report = run.end_with(Ending::stopped()).await.unwrap();
    assert_eq!(report.written(), 1);
    let errors = [
        run.log_metric(2, "loss", 2.0).unwrap_err(),
        run.log_inputs([("a", 1)]).unwrap_err(),
        run.log_tags(["late"]).unwrap_err(),
        run.log_artifact_ref(ArtifactRef::file("a")).unwrap_err(),
        run.flush().await.unwrap_err(),
        run.end().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Ended), "{error}");
    }
    drop(run);
    let record = record(
        &folder
            .path()
            .join("runs")
            .read_dir()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path(),
    );
    let last = record["status_conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(
        (&record["status"], &last["type"], &last["message"]),
        (
            &json!("stopped"),
            &json!("stopped"),
            &json!("Operation is stopped")
        )
    );
}

#[test]
fn a_run_that_is_dropped_is_written_and_recorded_as_failed() {
    for runtime in [
        Builder::new_current_thread().build(),
        Builder::new_multi_thread().build(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime.unwrap();
        let path = runtime.block_on(async {
            let run = TrackedRun::start(Tracking::offline(folder.path()))
                .await
                .unwrap();
            for step in 0..5_000 {
                run.log_metric(step, "loss", step).unwrap();
            }
            run.log_outputs([("verdict", "open")]).unwrap();
            run.path().to_owned()
        });
        // As at the end of `main`: this waits for the writer.
        drop(runtime);
        assert_eq!(
            values(&path, "loss"),
            (0..5_000).map(f64::from).collect::<Vec<_>>()
        );
        let record = record(&path);
        assert_eq!(record["status"], "failed");
        assert_eq!(
            record["outputs"],
            json!({"verdict": "open", "loss": 4999.0})
        );
        let last = record["status_conditions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap();
        assert_eq!(last["reason"], "NotEnded");
        assert_eq!(last["message"], "The run was dropped without being ended");
        let lineages = read_json(&path.join("lineages.plx.json"));
        assert_eq!(
            lineages[0]["summary"]["step"],
            json!({"count": 5000, "min": 0, "max": 4999})
        );
    }
}

#[test]
fn a_run_that_outlives_its_runtime_is_written_and_says_so() {
    for runtime in [
        Builder::new_current_thread().build(),
        Builder::new_multi_thread().build(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime.unwrap();
        let run = runtime
            .block_on(TrackedRun::start(Tracking::offline(folder.path())))
            .unwrap();
        run.log_metric(1, "loss", 0.5).unwrap();
        // This waits for the writer, and must not wait for the run.
        drop(runtime);
        assert_eq!(values(run.path(), "loss"), [0.5]);
        assert_eq!(record(run.path())["status"], "failed");
        let error = run.log_metric(2, "loss", 0.5).unwrap_err();
        assert!(matches!(error, Error::RuntimeGone), "{error}");
    }
}

#[test]
fn a_run_needs_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let mut start = Box::pin(TrackedRun::start(Tracking::offline(folder.path())));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(result) = start.as_mut().poll(&mut context) else {
        panic!("it waits for nothing");
    };
    assert!(matches!(result.unwrap_err(), Error::NoRuntime));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_threads_log_into_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_i32 {
            let run = &run;
            scope.spawn(move || {
                for step in 0..1_000 {
                    run.log_metric(step, "shared", thread).unwrap();
                    run.log_metric(step, format!("own-{thread}"), step).unwrap();
                }
            });
        }
    });
    assert_eq!(run.end().await.unwrap().written(), 8_000);
    for thread in 0..4 {
        let own = values(run.path(), &format!("own-{thread}"));
        assert_eq!(own, (0..1_000).map(f64::from).collect::<Vec<_>>());
    }
    let shared = values(run.path(), "shared");
    for thread in 0..4 {
        let count = shared
            .iter()
            .filter(|value| **value == f64::from(thread))
            .count();
        assert_eq!(count, 1_000);
    }
}

#[tokio::test]
async fn two_writers_of_one_run_lose_nothing_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let tracking = Tracking::offline(folder.path());
    let first = TrackedRun::start(tracking.clone()).await.unwrap();
    let second = TrackedRun::start(tracking).await.unwrap();
    assert_eq!(first.path(), second.path());
    for step in 0..200 {
        first.log_metric(step, "loss", 1.0).unwrap();
        second.log_metric(step, "loss", 2.0).unwrap();
        if step % 20 == 0 {
            first.flush().await.unwrap();
            second.flush().await.unwrap();
        }
    }
    let (first_end, second_end) = (first.end().await.unwrap(), second.end().await.unwrap());
    assert_eq!((first_end.written(), second_end.written()), (200, 200));
    let values = values(first.path(), "loss");
    assert_eq!(values.len(), 400);
    assert_eq!(values.iter().sum::<f64>(), 600.0);
    let lineages = read_json(&first.path().join("lineages.plx.json"));
    assert_eq!(lineages[0]["summary"]["metric"]["count"], 400.0);
}

#[tokio::test]
async fn a_run_that_was_killed_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let tracking = Tracking::offline(folder.path()).project("acme/lab".parse().unwrap());
    let run = TrackedRun::start(tracking.clone()).await.unwrap();
    run.log_inputs([("a", 1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    run.flush().await.unwrap();
    // What a kill leaves: no end, and perhaps a line that is cut off. What a server adds to the
    // record of a run that was pulled is there too.
    let killed = tempfile::tempdir().unwrap();
    let path = killed.path().join("runs").join(run.uuid().to_string());
    fs::create_dir_all(path.join("events/metric")).unwrap();
    let mut kept = record(run.path());
    kept["live_state"] = json!(1);
    kept["outputs"]["share"] = json!(0.300_000_000_000_000_04);
    fs::write(path.join("run.plx.json"), kept.to_string()).unwrap();
    let events = fs::read_to_string(run.path().join("events/metric/loss.plx")).unwrap();
    fs::write(path.join("events/metric/loss.plx"), events + "\n2|2026-0").unwrap();

    let other = Tracking::offline(killed.path()).run(run.uuid());
    let error = TrackedRun::start(other.clone().project("acme/other".parse().unwrap())).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "the run belongs to acme/lab, not to acme/other"
    );
    let again = TrackedRun::start(other.name("second try")).await.unwrap();
    again.log_inputs([("b", 2)]).unwrap();
    again.log_metric(3, "loss", 0.25).unwrap();
    let report = again.end().await.unwrap();
    assert_eq!(report.ensure_complete().unwrap().written(), 1);

    let ended = record(&path);
    assert_eq!(ended["inputs"], json!({"a": 1, "b": 2}));
    assert_eq!(ended["name"], "second try");
    assert_eq!(ended["project"], "lab");
    assert_eq!(ended["live_state"], 1);
    assert_eq!(
        ended["outputs"],
        json!({"loss": 0.25, "share": 0.300_000_000_000_000_04})
    );
    assert_eq!(ended["created_at"], kept["created_at"]);
    let statuses: Vec<&str> = ended["status_conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["created", "running", "succeeded"]);
    let series = read_metric_series(path.join("events/metric/loss.plx")).unwrap();
    assert_eq!((series.points().len(), series.unreadable_lines()), (2, 1));
}

#[tokio::test]
async fn of_a_call_that_is_refused_nothing_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    run.log_metrics(1, [("good", 1.0), ("损失", 2.0)])
        .unwrap_err();
    let long = "x".repeat(300);
    run.log_metrics(1, [("good", 1.0), (&*long, 2.0)])
        .unwrap_err();
    run.log_metrics(1, [("a.b", 1.0), ("a-b", 2.0)])
        .unwrap_err();
    let before_the_first_year = "-000001-01-01T00:00:00Z".parse().unwrap();
    run.log_metric(At::now().timestamp(before_the_first_year), "good", 1.0)
        .unwrap_err();
    let no_key = std::collections::HashMap::from([((1, 2), 3)]);
    let error = run
        .log_inputs([("fine", json!(1))].map(|(name, _)| (name, &no_key)))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value of \"fine\" cannot become JSON"
    );
    let error = run.log_inputs([("wide", u128::MAX)]).unwrap_err();
    assert!(matches!(error, Error::NotJson { .. }), "{error}");
    for progress in [-0.1, 1.1, f64::NAN] {
        let error = run.log_progress(progress).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    run.log_artifact_ref(ArtifactRef::file("")).unwrap_err();
    run.log_artifact_ref(ArtifactRef::file("/").name("损"))
        .unwrap_err();
    // The names of refused calls are free.
    run.log_metric(1, "a-b", 3.0).unwrap();
    assert_eq!(run.end().await.unwrap().written(), 1);
    let record = record(run.path());
    assert_eq!(record["outputs"], json!({"a-b": 3.0}));
    assert_eq!(record.get("inputs"), None);
    assert!(!run.path().join("lineages.plx.json.tmp").exists());
}

#[tokio::test]
async fn empty_calls_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    run.log_metrics(1, [("loss", 1.0); 0]).unwrap();
    run.log_inputs([("a", 1); 0]).unwrap();
    run.log_tags(["", "  "]).unwrap();
    assert_eq!(run.end().await.unwrap().written(), 0);
    let record = record(run.path());
    for member in ["tags", "inputs", "outputs", "meta_info"] {
        assert_eq!(record.get(member), None, "{member}");
    }
    assert!(!run.path().join("lineages.plx.json").exists());
}
