//! Disks that are full, files that are in the way.

use std::fs;
use std::io;
use std::path::Path;

use polyaxon_tracking::{
    ArtifactRef, Error, Missing, TrackedRun, Tracking, Unwritten, read_metric_series,
};
use serde_json::json;

use crate::replay::{read_json, until};

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = TrackedRun::start(Tracking::offline(&file))
        .await
        .unwrap_err();
    let Error::Io {
        action,
        path,
        source,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (*action, source.kind()),
        ("create", io::ErrorKind::NotADirectory)
    );
    assert!(path.starts_with(&file), "{}", path.display());
}

#[tokio::test]
async fn metadata_that_is_none_is_an_error_of_the_start_and_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tracking = Tracking::offline(folder.path());
    let run = TrackedRun::start(tracking.clone()).await.unwrap();
    let path = run.path().join("run.plx.json");
    let _ = run.end().await.unwrap();
    for text in ["", "{\"uuid\":\"", "[]", "{\"name\":\"x\"}"] {
        fs::write(&path, text).unwrap();
        let error = TrackedRun::start(tracking.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Metadata { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn a_series_that_cannot_be_written_is_in_the_report_and_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    let in_the_way = run.path().join("events/metric/loss.plx");
    fs::create_dir_all(&in_the_way).unwrap();
    run.log_metrics(1, [("loss", 0.5), ("accuracy", 0.9)])
        .unwrap();
    run.log_metrics(2, [("loss", 0.4), ("accuracy", 0.8)])
        .unwrap();

    let error = run.flush().await.unwrap_err();
    let Error::NotYetWritten {
        events,
        path,
        source,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*events, path), (2, &in_the_way));
    assert_eq!(source.kind(), io::ErrorKind::IsADirectory);

    let report = run.end().await.unwrap();
    assert_eq!(report.written(), 2);
    let missing: Vec<_> = report
        .unwritten()
        .iter()
        .map(|missing| (missing.what(), missing.path(), missing.cause().kind()))
        .collect();
    assert_eq!(
        missing,
        [
            (
                Missing::Values(2),
                in_the_way.as_path(),
                io::ErrorKind::IsADirectory
            ),
            (
                Missing::Summary,
                in_the_way.as_path(),
                io::ErrorKind::InvalidInput
            ),
        ]
    );
    let error = report.ensure_complete().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the run has ended, but 2 of its parts are not complete"
    );
    let accuracy = read_metric_series(run.path().join("events/metric/accuracy.plx")).unwrap();
    assert_eq!(accuracy.points().len(), 2);
    let record = read_json(&run.path().join("run.plx.json"));
    assert_eq!(record["status"], "succeeded");
    assert_eq!(record["outputs"]["accuracy"], 0.8);
}

#[tokio::test]
async fn metadata_that_cannot_be_written_is_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let run = TrackedRun::start(Tracking::offline(folder.path()))
        .await
        .unwrap();
    for name in ["run.plx.json", "lineages.plx.json"] {
        let _ = fs::remove_file(run.path().join(name));
        fs::create_dir(run.path().join(name)).unwrap();
    }
    run.log_inputs([("a", 1)]).unwrap();
    run.log_artifact_ref(ArtifactRef::file("a")).unwrap();
    let error = run.flush().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Io {
                action: "write",
                ..
            }
        ),
        "{error}"
    );
    let report = run.end().await.unwrap();
    let missing: Vec<Missing> = report.unwritten().iter().map(Unwritten::what).collect();
    assert_eq!(missing, [Missing::Record, Missing::Lineages]);
    // No temporary file is left.
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 5);
}

#[cfg(target_os = "linux")]
mod full_disk {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A run whose metric `loss` lies on a full disk.
    async fn start(tracking: Tracking) -> (TrackedRun, PathBuf) {
        let run = TrackedRun::start(tracking).await.unwrap();
        let path = run.path().join("events/metric/loss.plx");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink("/dev/full", &path).unwrap();
        (run, path)
    }

    #[tokio::test]
    async fn values_wait_until_there_is_room_and_none_is_lost_or_doubled() {
        let folder = tempfile::tempdir().unwrap();
        let (run, path) = start(Tracking::offline(folder.path())).await;
        run.log_metric(1, "loss", 0.5).unwrap();
        for _ in 0..2 {
            let error = run.flush().await.unwrap_err();
            let Error::NotYetWritten {
                events: 1, source, ..
            } = &error
            else {
                panic!("{error:?}");
            };
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        run.log_metric(2, "loss", 0.25).unwrap();
        // There is room again.
        fs::remove_file(&path).unwrap();
        run.flush().await.unwrap();
        run.log_metric(3, "loss", 0.125).unwrap();
        let report = run.end().await.unwrap().ensure_complete().unwrap();
        assert_eq!(report.written(), 3);
        let series = read_metric_series(&path).unwrap();
        let values: Vec<_> = series.points().iter().map(|p| (p.step, p.value)).collect();
        assert_eq!(values, [(Some(1), 0.5), (Some(2), 0.25), (Some(3), 0.125)]);
    }

    #[tokio::test]
    async fn a_write_that_failed_is_tried_again_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let (run, path) = start(Tracking::offline(folder.path())).await;
        run.log_metric(1, "loss", 0.5).unwrap();
        run.flush().await.unwrap_err();
        fs::remove_file(&path).unwrap();
        until(|| read_metric_series(&path).is_ok_and(|series| series.points().len() == 1)).await;
        assert_eq!(run.end().await.unwrap().written(), 1);
    }

    #[tokio::test]
    async fn a_disk_that_stays_full_fills_the_queue_and_then_the_report() {
        let folder = tempfile::tempdir().unwrap();
        let tracking = Tracking::offline(folder.path()).queue_capacity(4);
        let (run, path) = start(tracking).await;
        for step in 0..3 {
            run.log_metric(step, "loss", 0.5).unwrap();
            run.flush().await.unwrap_err();
        }
        // A batch is taken whole or not at all.
        let error = run
            .log_metrics(3, [("loss", 0.5), ("other", 1.0)])
            .unwrap_err();
        assert!(
            matches!(error, Error::QueueFull { capacity: 4, .. }),
            "{error}"
        );
        run.log_metric(3, "loss", 0.5).unwrap();
        for error in [
            run.log_metric(4, "loss", 0.5).unwrap_err(),
            run.log_inputs([("a", 1)]).unwrap_err(),
        ] {
            assert_eq!(
                error.to_string(),
                "4 values wait to be written, no more are taken"
            );
        }
        let report = run.end().await.unwrap();
        assert_eq!(report.written(), 0);
        let missing: Vec<_> = report
            .unwritten()
            .iter()
            .map(|missing| (missing.what(), missing.path(), missing.cause().kind()))
            .collect();
        assert_eq!(
            missing,
            [
                (
                    Missing::Values(4),
                    path.as_path(),
                    io::ErrorKind::StorageFull
                ),
                // A device is not read.
                (
                    Missing::Summary,
                    path.as_path(),
                    io::ErrorKind::InvalidInput
                ),
            ]
        );
        let record = read_json(&run.path().join("run.plx.json"));
        assert_eq!(record["outputs"], json!({"loss": 0.5}));
        assert!(!run.path().join("events/metric/other.plx").exists());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_has_a_record_without_a_hash_and_is_in_the_report() {
        let folder = tempfile::tempdir().unwrap();
        let run = TrackedRun::start(Tracking::offline(folder.path()))
            .await
            .unwrap();
        // The first can be opened, and every read of it fails; the second never ends.
        let paths = ["/proc/self/mem", "/dev/zero"];
        for path in paths {
            run.log_artifact_ref(ArtifactRef::file(path)).unwrap();
        }
        let report = run.end().await.unwrap();
        let missing: Vec<_> = report
            .unwritten()
            .iter()
            .map(|m| (m.what(), m.path()))
            .collect();
        assert_eq!(missing, paths.map(|path| (Missing::Hash, Path::new(path))));
        let lineages = read_json(&run.path().join("lineages.plx.json"));
        for (lineage, path) in lineages.as_array().unwrap().iter().zip(paths) {
            assert_eq!(lineage["summary"], json!({"path": path}));
        }
        assert_eq!(lineages[1]["name"], "zero");
    }
}
