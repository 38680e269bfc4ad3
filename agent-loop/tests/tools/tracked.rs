//! Calls in the controller's own tracked run.

use std::path::Path;
use std::sync::Arc;

use agent_loop::tracking::TrackedCalls;
use polyaxon_tracking::{TrackedRun, Tracking, read_metric_series};
use serde_json::Value;

use crate::place::{Line, Place, call};

#[tokio::test]
async fn each_call_is_told_with_its_sandbox_and_its_evaluator() {
    let place = Place::start().await;
    let tracking = Tracking::offline(place.folder().join("offline"));
    let run = Arc::new(TrackedRun::start(tracking).await.unwrap());
    let controller = place.controller(Line::harmless());
    let calls = TrackedCalls::new(Arc::clone(&run), controller.definitions_digest());
    let controller = controller.observer(calls.clone());
    let digest = controller.definitions_digest();
    for (id, line) in [
        ("r.1", "echo 1"),
        ("r.2", ""),
        ("r.3", r#"echo '"wrong"'"#),
        ("r.4", "echo secret-output >&2; exit 3"),
        ("r.1", "echo 1"),
    ] {
        controller.call(&place.session, &call(id, line)).await;
    }
    calls.finish().unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.missing(), 0, "{report:?}");

    let json = |path: &str| -> Value {
        serde_json::from_slice(&std::fs::read(run.path().join(path)).unwrap()).unwrap()
    };
    let points = |metric: &str| -> Vec<(i128, f64)> {
        let path = run.path().join(format!("events/metric/{metric}.plx"));
        let series = read_metric_series(path).unwrap();
        let points = series.points().iter();
        points
            .map(|point| (point.step.unwrap(), point.value))
            .collect()
    };
    assert_eq!(points("check_passed"), [(1, 1.0), (3, 0.0)]);
    assert_eq!(points("command_timed_out"), [(1, 0.0), (3, 0.0), (4, 0.0)]);
    let steps: Vec<i128> = points("command_duration_ms")
        .iter()
        .map(|point| point.0)
        .collect();
    assert_eq!(steps, [1, 3, 4]);

    let uuid = place.sandbox.run_uuid().to_string();
    let outcomes = ["succeeded", "refused", "rejected", "failed", "succeeded"];
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let receipt = json(&format!("outputs/receipts/step-{}.json", index + 1));
        assert_eq!(receipt["outcome"], outcome);
        assert_eq!(receipt["tool"], "line");
        assert_eq!(receipt["sandbox_run_uuid"], uuid);
        assert_eq!(receipt["repeated"], index == 4);
        assert!(!receipt.to_string().contains("secret-output"));
    }
    let failed = json("outputs/receipts/step-4.json");
    assert_eq!(
        (&failed["exit_code"], &failed["timed_out"]),
        (&3.into(), &false.into())
    );
    assert_eq!(failed["evaluator_passed"], Value::Null);
    let refused = json("outputs/receipts/step-2.json");
    assert_eq!(refused.get("exit_code"), None);

    let record = json("run.plx.json");
    assert_eq!(
        record["inputs"]["tool_definitions_digest"],
        digest.to_string()
    );
    assert_eq!(record["outputs"]["timeout_rate"], 0.0);
    let lineages = json("lineages.plx.json");
    let receipts = lineages
        .as_array()
        .unwrap()
        .iter()
        .find(|record| record["name"] == "command-receipt");
    assert_eq!(receipts.unwrap()["kind"], "dir");
}

/// How many files below `folder` hold one of `needles`, and how many there are.
fn holding(folder: &Path, needles: &[&str]) -> (usize, usize) {
    let mut found = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (holds, files) = match path.is_dir() {
            true => holding(&path, needles),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes);
                let holds = needles.iter().any(|needle| text.contains(needle));
                (usize::from(holds), 1)
            }
        };
        found = (found.0 + holds, found.1 + files);
    }
    found
}

#[tokio::test]
async fn nothing_secret_is_kept_of_calls_whatever_goes_wrong() {
    let place = Place::start().await;
    let tracking = Tracking::offline(place.folder().join("offline"));
    let run = Arc::new(TrackedRun::start(tracking).await.unwrap());
    let controller = place.controller(Line::harmful());
    let calls = TrackedCalls::new(Arc::clone(&run), controller.definitions_digest());
    let controller = controller.observer(calls.clone());
    // What a command says stays with nobody; the client's own token was never anywhere.
    let token = place.server.token().to_owned();
    let line = "echo password=k-TEST-123456 at /home/op; echo password=k-TEST-123456 >&2; exit 1";
    let faults = [
        "",
        r#"{"fault": "bad_gateway", "method": "POST", "path": "*/fs/mkdir"}"#,
        r#"{"fault": "close", "method": "POST", "path": "*/exec/bg", "times": 1}"#,
        r#"{"fault": {"too_many_requests": 60}, "method": "POST", "path": "*/exec/bg"}"#,
    ];
    let mut shown = String::new();
    for (index, fault) in faults.into_iter().enumerate() {
        place.spoil(fault);
        let answer = controller
            .call(&place.session, &call(&format!("r.{index}"), line))
            .await;
        place.server.faults().clear();
        shown += &serde_json::to_string(&answer).unwrap();
        // What the operator's log would hold, its detail included.
        let record = serde_json::to_string(&place.last_record()).unwrap();
        for secret in [&*token, "k-TEST"] {
            assert!(!record.contains(secret), "{record}");
        }
    }
    calls.finish().unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.missing(), 0, "{report:?}");
    let secrets = [&*token, "k-TEST", "/home/op"];
    assert!(
        !secrets.iter().any(|secret| shown.contains(secret)),
        "{shown}"
    );
    let (holding, files) = holding(&place.folder(), &secrets);
    assert_eq!(holding, 0);
    assert!(files > 8, "{files}");
}
