//! What is not allowed is not done, and a model learns why, and no more.

use agent_loop::tools::{Contract, ContractError, Limits, Session, Tenant, ToolCall, ToolOutcome};
use serde_json::json;

use crate::place::{Line, Place, call, call_with};

#[tokio::test]
async fn a_call_that_is_not_allowed_is_refused_with_its_defect() {
    let place = Place::start().await;
    let limits = Limits::default().request_bytes(200);
    let controller = place.controller(Line::harmless().limits(limits));
    let raw = |arguments: &str| ToolCall::new("r".parse().unwrap(), "line", arguments);
    let line = "touch /tmp/done; echo 1";
    let table = [
        (
            ToolCall::new("r".parse().unwrap(), "shell", "{}"),
            "there is no such tool",
        ),
        (raw(""), "the arguments do not fit: EOF"),
        (raw("[]"), "the arguments do not fit: "),
        (raw("{}"), "missing field `line`"),
        (
            raw(r#"{"line": "touch /tmp/done", "run_uuid": "8aac02e3a62a4f0aaa257c59da5eab80"}"#),
            "unknown field `run_uuid`",
        ),
        (
            raw(r#"{"line": "touch /tmp/done", "line": "true"}"#),
            "duplicate field `line`",
        ),
        (
            raw(r#"{"line": "touch /tmp/done"}{"line": "true"}"#),
            "trailing characters",
        ),
        (raw(r#"{"line": ["touch /tmp/done"]}"#), "invalid type"),
        (call("r", ""), "there is nothing to run"),
        (
            call("r", &"x".repeat(200)),
            "the arguments have 211 bytes, and at most 200 are taken",
        ),
        (
            call_with("r", &json!({"line": line, "dataset": "secret"})),
            "there is no approved input secret",
        ),
        (
            call_with("r", &json!({"line": line, "dataset": "nothing"})),
            "there is no approved input nothing",
        ),
        (
            call_with("r", &json!({"line": line, "dataset": "../acme"})),
            "an input is named by",
        ),
        (
            call_with("r", &json!({"line": line, "result_file": "/etc/passwd"})),
            "is absolute",
        ),
    ];
    for (call, why) in table {
        let answer = controller.call(&place.session, &call).await;
        assert_eq!(answer.outcome, ToolOutcome::Refused, "{answer:?}");
        assert!(answer.summary.contains(why), "{} / {why}", answer.summary);
        let record = place.last_record();
        assert_eq!((record.command, record.evaluator_passed), (None, None));
    }
    // Nothing was done, and nothing stands in the way of the same id.
    assert_eq!(place.left().await, (0, 0));
    assert!(!place.sandbox.fs().exists("/tmp/done").await.unwrap());
    let answer = controller.call(&place.session, &call("r", line)).await;
    assert_eq!(answer.outcome, ToolOutcome::Succeeded, "{answer:?}");
}

#[tokio::test]
async fn a_tool_of_others_is_as_if_it_were_not_there() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmless().callers(["analyst", "admin"]));
    let session = &place.session;
    assert_eq!(controller.definitions(session), []);
    let refused = controller.call(session, &call("r.1", "echo 1")).await;
    let unknown = ToolCall::new("r.1".parse().unwrap(), "nothing", "{}");
    assert_eq!(refused, controller.call(session, &unknown).await);

    let analyst = session.clone().role("analyst");
    let definitions = controller.definitions(&analyst);
    let definition = serde_json::to_value(&definitions[0]).unwrap();
    assert_eq!(definition["name"], "line");
    assert_eq!(definition["parameters"]["additionalProperties"], false);
    let answer = controller.call(&analyst, &call("r.1", "echo 1")).await;
    assert_eq!(answer.outcome, ToolOutcome::Succeeded);
}

#[tokio::test]
async fn a_session_needs_a_sandbox_that_answers() {
    let place = Place::start().await;
    place
        .sandbox
        .stop_and_wait(std::time::Duration::from_secs(20))
        .await
        .unwrap();
    let error = Session::open(Tenant::new("acme"), place.sandbox.clone()).await;
    error.unwrap_err();
}

#[tokio::test]
async fn two_tools_of_one_name_are_refused_and_a_limit_is_a_part_of_the_definitions() {
    let place = Place::start().await;
    let first = place.controller(Line::harmless());
    let digest = first.definitions_digest();
    let error = first
        .tool(Line(Contract::new("line", "Another.")))
        .unwrap_err();
    assert!(matches!(error, ContractError::Taken { name, .. } if name == "line"));
    let limits = Limits::default().result_bytes(7);
    let second = place.controller(Line::harmless().limits(limits));
    assert_ne!(second.definitions_digest(), digest);
}
