//! The example `record_receipt` as a program: a command in a sandbox behind the platform's gateway,
//! recorded on the real control plane.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::nginx::{Gateway, Tls};
use crate::provided::{self, scratch};
use crate::tracking::{NAMESPACE, Stage};

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_receipt_of_a_command_is_on_the_real_server_with_its_metrics_and_lineage() {
    let gateway = Gateway::start(Tls::Without).await;
    let project = gateway.sandbox.project().clone();
    let sandbox = gateway.sandbox.run_uuid().to_string();
    let folder = scratch("receipt");
    let mut example = Command::new(provided::get("REAL_RECORD_RECEIPT"));
    example
        .args(["--host", &gateway.url])
        .args(["--project", &project.to_string()])
        .args(["--run-uuid", &sandbox, "--task-id", "fixture-total"])
        .arg("--out")
        .arg(folder.join("out"))
        .env("HOME", &folder)
        .env("POLYAXON_AUTH_TOKEN", "a-token-of-the-test");
    let output = example.output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{errors}");
    let run = text.lines().find_map(|line| line.strip_prefix("run: "));
    let run = run.unwrap_or_else(|| panic!("{text}"));

    let runs = gateway.client.runs(&project);
    let uuid = run.parse().unwrap();
    let path = "outputs/receipts/step-1.json";
    let mut file = runs.artifact(NAMESPACE, uuid, path).await.unwrap();
    let receipt: Value = serde_json::from_slice(&file.chunk().await.unwrap().unwrap()).unwrap();
    let members: Vec<&str> = receipt
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        members,
        [
            "duration_ms",
            "exit_code",
            "fixture_matches",
            "sandbox_run_uuid",
            "stderr_truncated",
            "stdout_truncated",
            "step",
            "task_id",
            "timed_out",
            "tool",
        ]
    );
    assert_eq!(receipt["exit_code"], 0);
    assert_eq!(receipt["fixture_matches"], true);
    assert_eq!(receipt["timed_out"], false);
    assert_eq!(receipt["tool"], "calculate_fixture_total");
    assert_eq!(receipt["sandbox_run_uuid"], sandbox.as_str());

    // As the platform's own client reads it.
    let names = "command_duration_ms,command_timed_out,fixture_matches";
    let stage = Stage::of(&gateway.client, &project, folder);
    let read = stage.python(&["read", run, names]);
    assert_eq!(read["status"], "succeeded");
    let inputs = json!({"task_id": "fixture-total", "sandbox_run_uuid": sandbox});
    assert_eq!(read["inputs"], inputs);
    let duration = read["series"]["command_duration_ms"][0].as_f64().unwrap();
    assert!(duration > 0.0, "{duration}");
    assert_eq!(
        read["series"],
        json!({
            "command_duration_ms": [duration],
            "command_timed_out": [0.0],
            "fixture_matches": [1.0],
        })
    );
    assert_eq!(
        read["lineage"],
        json!([
            ["command-receipt", "file", path],
            [
                "command_duration_ms",
                "metric",
                "events/metric/command_duration_ms.plx"
            ],
            [
                "command_timed_out",
                "metric",
                "events/metric/command_timed_out.plx"
            ],
            [
                "fixture_matches",
                "metric",
                "events/metric/fixture_matches.plx"
            ],
        ])
    );
}
