//! Evaluation jobs on the open-source control plane: a component with params.

use polyaxon_client::runs::{ListRuns, OperationSpec, RunQuery, RunStatus};
use polyaxon_client::{Effect, Error};
use serde_json::{Value, json};

use crate::runs::runs;

fn component() -> Value {
    json!({
        "kind": "component",
        "name": "evaluation",
        "inputs": [
            {"name": "sandbox_run_uuid", "type": "str"},
            {"name": "patch_sha256", "type": "str"},
            {"name": "repeats", "type": "int", "value": 3, "isOptional": true},
        ],
        "run": {"kind": "job", "container": {"image": "python:3.12-slim",
            "command": ["python", "verify.py"], "args": ["{{ sandbox_run_uuid }}", "{{ repeats }}"]}},
    })
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_params_of_a_job_are_its_inputs_and_it_is_found_by_them() {
    let (_, runs) = runs("evaluation").await;
    // A digest that looks like a number stays text.
    let operation = OperationSpec::of_component(&component())
        .param("sandbox_run_uuid", "8aac02e3a62a4f0aaa257c59da5eab80")
        .param("patch_sha256", "1234");
    let run = runs
        .submit(&operation.create().name("verify"))
        .await
        .unwrap();
    assert_eq!(run.status, Some(RunStatus::Queued));
    assert_eq!(
        run.inputs,
        Some(
            json!({"sandbox_run_uuid": "8aac02e3a62a4f0aaa257c59da5eab80",
            "patch_sha256": "1234", "repeats": 3})
        )
    );
    let compiled: Value = serde_json::from_str(run.content.as_deref().unwrap()).unwrap();
    assert_eq!(
        compiled["run"]["container"]["args"],
        json!(["8aac02e3a62a4f0aaa257c59da5eab80", "3"])
    );
    let other = operation.param("patch_sha256", "abcd").param("repeats", 5);
    runs.submit(&other.create()).await.unwrap();
    for (query, count) in [
        (RunQuery::new().input("patch_sha256").eq("1234"), 1),
        (RunQuery::new().input("patch_sha256").eq(1234), 0),
        (RunQuery::new().input("patch_sha256").is_present(), 2),
        (RunQuery::new().input("repeats").ge(5), 1),
    ] {
        let list = ListRuns::new().matching(&query).unwrap();
        assert_eq!(runs.list(&list).await.unwrap().count, count, "{query:?}");
    }
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_job_without_a_required_param_is_an_error_with_the_reason() {
    let (_, runs) = runs("evaluation-without").await;
    let operation = OperationSpec::of_component(&component()).param("patch_sha256", "abcd");
    let error = runs.submit(&operation.create()).await.unwrap_err();
    // There is a run now: the same once more would be another.
    assert_eq!(error.effect(), Effect::Applied);
    assert!(!error.is_retryable());
    let Error::CreatedRunEnded {
        run,
        status,
        message,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(status, RunStatus::Failed);
    let message = message.unwrap();
    assert!(message.starts_with("Failed to compile."), "{message}");
    assert!(
        message.contains("sandbox_run_uuid is required"),
        "{message}"
    );
    assert_eq!(runs.get(run).await.unwrap().status, Some(RunStatus::Failed));
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_version_of_a_component_is_run_by_its_reference() {
    let (_, runs) = runs("evaluation-version").await;
    runs.create_component_version("v1", &component())
        .await
        .unwrap();
    let version = runs.component_version("v1").await.unwrap();
    assert_eq!(version.content, component());
    assert_eq!(version.reference(), "default/evaluation-version:v1");
    assert_eq!(version.stage.as_deref(), Some("testing"));
    let operation = OperationSpec::of_version(&version)
        .param("sandbox_run_uuid", "x")
        .param("patch_sha256", "abcd");
    let run = runs.submit(&operation.create()).await.unwrap();
    assert_eq!(run.inputs.unwrap()["patch_sha256"], "abcd");
    // What was sent says which version it was.
    let record = runs.record(run.uuid).await.unwrap();
    let sent: Value = serde_json::from_str(record["raw_content"].as_str().unwrap()).unwrap();
    assert_eq!(sent["hubRef"], "default/evaluation-version:v1");

    // The reference alone this server does not resolve.
    let bare = OperationSpec::of_hub(version.reference()).param("patch_sha256", "abcd");
    let error = runs.submit(&bare.create()).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    assert_eq!(error.effect(), Effect::NotApplied);
    let error = runs.component_version("v2").await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    let error = runs
        .create_component_version("v1", &component())
        .await
        .unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    let error = runs.component_version("../x").await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error}");
}
