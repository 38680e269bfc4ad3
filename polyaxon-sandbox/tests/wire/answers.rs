use bytes::Bytes;
use polyaxon_client::Effect;
use polyaxon_sandbox::process::Termination;
use polyaxon_sandbox::{Error, Exec};
use serde_json::{Value, json};
use wiremock::matchers::{any, path_regex, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::sandbox_of;

/// A sandbox whose service gives this one answer to everything.
async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let namespace = ResponseTemplate::new(200).set_body_json(json!({"namespace": "test-ns"}));
    Mock::given(path_regex("/namespace$"))
        .respond_with(namespace)
        .mount(&server)
        .await;
    Mock::given(any())
        .respond_with(answer)
        .with_priority(9)
        .mount(&server)
        .await;
    server
}

fn ok(body: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

#[tokio::test]
async fn an_exec_that_says_nothing_of_its_end_is_no_success() {
    let server = answering(ok(json!({}))).await;
    let error = sandbox_of(&server.uri())
        .process()
        .exec(&Exec::new(["true"]))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Protocol {
                operation: "process.exec",
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.effect(), Effect::Applied);
}

#[tokio::test]
async fn an_exec_result_keeps_bytes_flags_and_termination() {
    let answer = json!({"exec_id": "e7", "exit_code": -1, "signal": "SIGKILL", "stdout": "héllo\n", "stderr": "",
        "duration_ms": "1500", "timed_out": true, "stdout_truncated": true, "new_field": [1]});
    let server = answering(ok(answer)).await;
    let result = sandbox_of(&server.uri())
        .process()
        .exec(&Exec::new(["true"]))
        .await
        .unwrap();
    assert_eq!(result.termination, Termination::TimedOut);
    assert_eq!(result.stdout.bytes(), &Bytes::from("héllo\n"));
    assert!(result.stdout.is_truncated() && !result.stderr.is_truncated());
    assert_eq!(result.duration.as_millis(), 1500);
    assert_eq!(result.exec_id.as_str(), "e7");
}

#[tokio::test]
async fn a_write_of_which_only_a_part_arrived_is_an_error_with_both_numbers() {
    let server = answering(ok(
        json!({"path": "/w/x", "bytes_written": 1024, "created": true}),
    ))
    .await;
    let error = sandbox_of(&server.uri())
        .fs()
        .write("/w/x", vec![0; 20480])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "1024 of 20480 bytes were written to /w/x"
    );
}

#[tokio::test]
async fn a_file_is_read_page_by_page_until_the_service_says_it_ends() {
    let server = MockServer::start().await;
    let namespace = ok(json!({"namespace": "test-ns"}));
    Mock::given(path_regex("/namespace$"))
        .respond_with(namespace)
        .mount(&server)
        .await;
    let page = |body: &str, next: u64, eof: bool| {
        ResponseTemplate::new(200)
            .set_body_bytes(body.as_bytes())
            .insert_header("x-polyaxon-next-offset", next.to_string())
            .insert_header("x-polyaxon-eof", eof.to_string())
    };
    for (offset, answer) in [
        ("0", page("abc", 3, false)),
        ("3", page("de", 5, false)),
        ("5", page("", 5, true)),
    ] {
        Mock::given(query_param("offset", offset))
            .respond_with(answer)
            .expect(1)
            .mount(&server)
            .await;
    }
    assert_eq!(
        sandbox_of(&server.uri()).fs().read("/a").await.unwrap(),
        "abcde"
    );
}

#[tokio::test]
async fn a_service_that_never_comes_to_the_end_of_a_file_is_found_out() {
    let stuck = ResponseTemplate::new(200)
        .insert_header("x-polyaxon-next-offset", "0")
        .insert_header("x-polyaxon-eof", "false");
    let server = answering(stuck).await;
    let error = sandbox_of(&server.uri()).fs().read("/a").await.unwrap_err();
    assert!(
        error.to_string().contains("no bytes came at offset 0"),
        "{error}"
    );

    let wrong = ResponseTemplate::new(200)
        .set_body_string("abc")
        .insert_header("x-polyaxon-next-offset", "7");
    let server = answering(wrong).await;
    let error = sandbox_of(&server.uri()).fs().read("/a").await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("3 bytes from 0 on cannot end at 7"),
        "{error}"
    );
}

#[tokio::test]
async fn the_page_of_a_gateway_is_recognised_and_shown_without_its_html() {
    let page =
        "<html><head><title>504 Gateway Time-out</title></head><body><hr>nginx</body></html>";
    let server = answering(ResponseTemplate::new(504).set_body_raw(page, "text/html")).await;
    let error = sandbox_of(&server.uri())
        .process()
        .exec(&Exec::new(["true"]))
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(
        error.to_string(),
        "process.exec was answered with 504 Gateway Timeout: a page that says \"504 Gateway Time-out\""
    );
}

#[tokio::test]
async fn a_namespace_that_cannot_be_part_of_a_url_is_refused() {
    let server = MockServer::start().await;
    let answer = ok(json!({"namespace": "../../admin"}));
    Mock::given(any())
        .respond_with(answer)
        .expect(1)
        .mount(&server)
        .await;
    let error = sandbox_of(&server.uri()).ping().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        cause,
        r#"namespace: "../../admin" cannot be a part of a URL"#
    );
}
