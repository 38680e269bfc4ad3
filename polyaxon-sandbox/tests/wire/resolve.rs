//! What a look makes of what the service says now.

use polyaxon_client::Effect;
use polyaxon_sandbox::{Evidence, Exec, Lookup, Resolution};
use serde_json::{Value, json};
use wiremock::matchers::{any, method, path, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{SANDBOX, sandbox_of};

/// A service that answers each look with this.
async fn telling(status: u16, body: Value) -> MockServer {
    let server = MockServer::start().await;
    let namespace = ResponseTemplate::new(200).set_body_json(json!({"namespace": "test-ns"}));
    Mock::given(path_regex("/namespace$"))
        .respond_with(namespace)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(status).set_body_json(body))
        .with_priority(9)
        .mount(&server)
        .await;
    server
}

/// The outcome in a word, and what shows it.
fn word(resolution: &Resolution) -> String {
    match resolution {
        Resolution::Applied { evidence, .. } => match evidence {
            Evidence::Exec(exec) => format!("applied: exec {} is {}", exec.exec_id, exec.state),
            Evidence::Pty(pty) => format!("applied: pty {}", pty.pty_id),
            Evidence::Size(size) => format!("applied: {size} bytes"),
            Evidence::Gone => "applied: gone".to_owned(),
            other => format!("applied: {other:?}"),
        },
        Resolution::NotApplied => "not applied".to_owned(),
        Resolution::StillUnknown { why, .. } => format!("unknown: {why}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_look_says_what_was_done_and_only_what_it_can_know() {
    let none = || (404, json!({"error": {"code": "not_found", "message": "m"}}));
    let exec = |state: &str, signal: Value| {
        (
            200,
            json!({"exec_id": "e", "state": state, "signal": signal, "tag": "t"}),
        )
    };
    let list = |tags: &[&str]| {
        let execs: Vec<Value> = tags
            .iter()
            .map(|tag| json!({"exec_id": "e", "state": "running", "tag": tag}))
            .collect();
        (200, json!({"execs": execs}))
    };
    let pty = json!({"sessions": [{"pty_id": "p", "tag": "t"}]});
    let size = |size: u64| (200, json!({"path": "/a", "type": "file", "size": size}));
    let start = || json!({"started_exec": {"tag": "t"}});
    let signal = |name: &str| json!({"signaled_exec": {"exec_id": "e", "signal": name}});
    let append = |before: u64| json!({"append": {"path": "/a", "before": before, "length": 5}});
    let table = [
        (start(), list(&["t"]), "applied: exec e is running"),
        (start(), list(&[]), "not applied"),
        // A service that does not know the parameter lists all.
        (start(), list(&["u"]), "not applied"),
        (
            start(),
            list(&["t", "t"]),
            "unknown: several commands have its tag",
        ),
        (
            json!({"exec": {"exec_id": "e"}}),
            exec("exited", Value::Null),
            "applied: exec e is exited",
        ),
        (
            json!({"exec": {"exec_id": "e"}}),
            none(),
            "unknown: there is no record of it",
        ),
        (
            signal("SIGTERM"),
            exec("signaled", json!("SIGTERM")),
            "applied: exec e is signaled",
        ),
        (
            signal("SIGTERM"),
            exec("signaled", json!("SIGHUP")),
            "unknown: the exec has ended otherwise, and takes no signal any more",
        ),
        (
            signal("SIGTERM"),
            exec("running", Value::Null),
            "unknown: the command runs, as it can in spite of the signal",
        ),
        (
            signal("SIGKILL"),
            exec("running", Value::Null),
            "not applied",
        ),
        (
            signal("SIGKILL"),
            none(),
            "unknown: the record of the exec is gone",
        ),
        (
            json!({"deleted_exec": {"exec_id": "e"}}),
            none(),
            "applied: gone",
        ),
        (append(7), size(7), "not applied"),
        (append(7), size(12), "applied: 12 bytes"),
        (append(7), size(9), "unknown: the file has 9 bytes"),
        (append(7), none(), "unknown: the file is not there any more"),
        (append(0), none(), "not applied"),
        (
            json!({"created_pty": {"tag": "t"}}),
            (200, pty),
            "applied: pty p",
        ),
        (
            json!({"created_pty": {"tag": "t"}}),
            (200, json!({})),
            "not applied",
        ),
        (
            json!({"deleted_pty": {"pty_id": "p"}}),
            none(),
            "applied: gone",
        ),
    ];
    for (lookup, (status, body), want) in table {
        let server = telling(status, body).await;
        let kept: Lookup = serde_json::from_value(lookup.clone()).unwrap();
        assert_eq!(serde_json::to_value(&kept).unwrap(), lookup);
        let found = sandbox_of(&server.uri()).look_up(&kept).await.unwrap();
        assert_eq!(word(&found), want, "{lookup}");
    }
}

#[tokio::test]
async fn the_page_of_a_gateway_is_not_taken_for_the_word_of_the_service() {
    let server = telling(404, Value::Null).await;
    let page = ResponseTemplate::new(404).set_body_raw("<html><title>404</title>", "text/html");
    Mock::given(path(format!("{SANDBOX}/exec/bg/e")))
        .respond_with(page)
        .mount(&server)
        .await;
    let lookup = serde_json::from_value(json!({"deleted_exec": {"exec_id": "e"}})).unwrap();
    let error = sandbox_of(&server.uri())
        .look_up(&lookup)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn what_has_no_name_on_the_wire_stays_unknown_and_what_was_refused_was_not_done() {
    let server = telling(404, Value::Null).await;
    let sandbox = sandbox_of(&server.uri());
    let page = ResponseTemplate::new(502).set_body_raw("<html></html>", "text/html");
    Mock::given(method("POST"))
        .respond_with(page)
        .up_to_n_times(1)
        .mount(&server)
        .await;
    let exec = Exec::new(["true"]);
    let error = sandbox.process().exec(&exec).await.unwrap_err();
    assert_eq!((error.effect(), error.lookup()), (Effect::Unknown, None));
    let found = sandbox.resolve(&error).await.unwrap();
    assert_eq!(word(&found), "unknown: the call has no name on the wire");

    let refusal = json!({"error": {"code": "invalid_request", "message": "m"}});
    Mock::given(any())
        .respond_with(ResponseTemplate::new(400).set_body_json(refusal))
        .mount(&server)
        .await;
    let error = sandbox.process().exec(&exec).await.unwrap_err();
    assert_eq!(
        sandbox.resolve(&error).await.unwrap(),
        Resolution::NotApplied
    );
}
