//! A server that is down or in trouble: what was taken is on disk, sent, or in the report.

use std::time::Duration;

use polyaxon_client::runs::RunStatus;
use polyaxon_local::{Fault, FaultRule};
use polyaxon_tracking::{Error, Sending, TrackedRun, Unsent};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_an_error_of_the_start() {
    let stage = Stage::new().await;
    let tracking = stage.tracking();
    drop(stage.server);
    let error = TrackedRun::start(tracking).await.unwrap_err();
    assert!(matches!(error, Error::Client(_)), "{error:?}");
    assert!(!stage.folder.path().join("run").exists());
}

#[tokio::test]
async fn a_server_in_trouble_for_a_while_gets_everything_in_the_end() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    run.flush().await.unwrap();
    // More refusals than the client's own repeats of one call can take, and than a flush waits for.
    stage
        .server
        .faults()
        .add(FaultRule::new(Fault::Busy).path("*").times(40));
    run.log_inputs([("a", 1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let error = run.flush().await.unwrap_err();
    assert!(matches!(error, Error::NotYetSent { .. }), "{error:?}");
    // The values are safe meanwhile, and so is what else there is to know.
    let events = std::fs::read_to_string(run.path().join("events/metric/loss.plx")).unwrap();
    assert!(events.ends_with("|0.5"), "{events}");
    let record = run.path().join("run.plx.json");
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while !record.exists() {
        assert!(std::time::Instant::now() < limit, "no record is written");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!(record["inputs"], json!({"a": 1}));
    assert_eq!(record["outputs"], json!({"loss": 0.5}));
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let found = stage.get(run.uuid()).await;
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    assert_eq!(found.inputs, Some(json!({"a": 1})));
    assert_eq!(found.outputs, Some(json!({"loss": 0.5})));
    assert!(!run.path().join("run.plx.json").exists());
}

#[tokio::test]
async fn a_405_is_waited_for_where_the_server_says_that_it_is_the_open_source_one() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    run.flush().await.unwrap();
    // The installation answers, so what the 405 means is known before it is over.
    let busy = FaultRule::new(Fault::Busy).path("*/runs/*");
    stage.server.faults().add(busy.times(40));
    run.log_inputs([("a", 1)]).unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    assert_eq!(stage.server.faults().applied(), 40);
    let found = stage.get(run.uuid()).await;
    assert_eq!(found.inputs, Some(json!({"a": 1})));
}

#[tokio::test]
async fn a_server_that_is_gone_at_the_end_leaves_a_run_that_can_be_pushed() {
    let stage = Stage::new().await;
    let limit = Duration::from_secs(4);
    let run = TrackedRun::start(stage.tracking().send_limit(limit))
        .await
        .unwrap();
    run.flush().await.unwrap();
    drop(stage.server);
    run.log_inputs([("a", 1)]).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.written(), 1);
    assert!(report.unwritten().is_empty());
    let unsent: Vec<&Sending> = report.unsent().iter().map(Unsent::what).collect();
    let record = |member: &str| Sending::Record(vec![member.to_owned()]);
    assert_eq!(
        unsent,
        [
            &record("inputs"),
            &record("meta_info"),
            &Sending::File("events/metric/loss.plx".to_owned()),
            &Sending::Lineage(vec!["loss".to_owned()]),
            &record("outputs"),
            &Sending::Status(RunStatus::Succeeded),
        ]
    );
    assert!(report.unsent()[0].cause().is_some());
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(run.path().join(name)).unwrap()).unwrap()
    };
    let record = read("run.plx.json");
    assert_eq!(record["inputs"], json!({"a": 1}));
    assert_eq!(record["outputs"], json!({"loss": 0.5}));
    assert_eq!(record["status"], "succeeded");
    assert_eq!(read("lineages.plx.json")[0]["name"], "loss");
    assert!(matches!(
        report.ensure_complete(),
        Err(Error::Incomplete { .. })
    ));
}

#[tokio::test]
async fn what_the_server_refuses_is_in_the_report_and_holds_nothing_up() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    run.flush().await.unwrap();
    // A name can have 128 characters there.
    run.set_name("x".repeat(129)).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let report = run.end().await.unwrap();
    let unsent: Vec<&Sending> = report.unsent().iter().map(Unsent::what).collect();
    assert_eq!(unsent, [&Sending::Record(vec!["name".to_owned()])]);
    let cause = report.unsent()[0].cause().unwrap();
    assert_eq!(cause.status().map(|status| status.as_u16()), Some(400));
    let found = stage.get(run.uuid()).await;
    assert_eq!(found.status, Some(RunStatus::Succeeded));
    // For a later push.
    assert!(run.path().join("run.plx.json").exists());
}

/// As a program does that keeps its last checkpoint only.
#[tokio::test]
async fn a_file_that_vanished_while_the_server_was_busy_is_sent_once_it_is_back() {
    let stage = Stage::new().await;
    let run = stage.start().await;
    run.flush().await.unwrap();
    let path = run.outputs_path("ckpt.bin").unwrap();
    let busy = FaultRule::new(Fault::Busy).path("*");
    stage.server.faults().add(busy);
    std::fs::write(&path, "epoch 1").unwrap();
    run.flush().await.unwrap_err();
    std::fs::remove_file(&path).unwrap();
    stage.server.faults().clear();
    run.flush().await.unwrap();
    std::fs::write(&path, "epoch 2").unwrap();
    run.flush().await.unwrap();
    assert_eq!(stage.file(run.uuid(), "outputs/ckpt.bin").await, "epoch 2");
    drop(run.end().await.unwrap().ensure_complete().unwrap());
}

#[tokio::test]
async fn a_server_that_does_not_answer_holds_no_caller_up() {
    let stage = Stage::new().await;
    let tracking = stage.tracking().send_limit(Duration::from_millis(100));
    let run = TrackedRun::start(tracking).await.unwrap();
    run.flush().await.unwrap();
    stage
        .server
        .faults()
        .add(FaultRule::new(Fault::StallAfter(0)).path("*"));
    let before = std::time::Instant::now();
    for step in 0..1000 {
        run.log_metric(step, "loss", 0.5).unwrap();
        run.log_inputs([("step", step)]).unwrap();
    }
    assert!(
        before.elapsed() < Duration::from_secs(10),
        "{:?}",
        before.elapsed()
    );
    let events = run.path().join("events/metric/loss.plx");
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&events).map_or(0, |text| text.lines().count()) < 1001 {
        assert!(
            std::time::Instant::now() < limit,
            "the values are not written"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_that_is_under_way_does_not_hold_up_the_end() {
    let stage = Stage::new().await;
    let limit = Duration::from_millis(300);
    let run = TrackedRun::start(stage.tracking().send_limit(limit))
        .await
        .unwrap();
    run.flush().await.unwrap();
    let before = stage.server.faults().applied();
    let silent = FaultRule::new(Fault::StallAfter(0)).path("*");
    stage.server.faults().add(silent);
    run.log_inputs([("a", 1)]).unwrap();
    let started = std::time::Instant::now();
    while stage.server.faults().applied() == before {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nothing is sent"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let started = std::time::Instant::now();
    let report = run.end().await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "{:?}",
        started.elapsed()
    );
    let first = &report.unsent()[0];
    assert_eq!(first.what(), &Sending::Record(vec!["inputs".to_owned()]));
    assert!(first.cause().is_none());
}
