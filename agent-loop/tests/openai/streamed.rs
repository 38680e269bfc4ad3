//! Answers that come in pieces.

use std::time::Duration;

use agent_loop::{Finish, Model as _, ModelErrorKind, ModelReply, Usage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::golden::Golden;
use crate::stub::{ask, base, model};

async fn serving(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(answer)
        .expect(1)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn the_recorded_stream_of_vllm_is_one_reply_with_its_usage() {
    let server = serving(Golden::read("vllm-stream-with-usage").answer()).await;
    let model = model(&base(&server)).stream(true).build().unwrap();
    let reply = ask(&model).await.unwrap();
    assert_eq!(reply.text, r#"{"step":{"action":"re"#);
    assert_eq!(reply.finish, Finish::Length);
    assert_eq!(reply.usage, Usage::new(56, 12));
    assert_eq!(reply.served_by.as_deref(), Some("smollm2"));
}

#[tokio::test]
async fn a_refusal_of_a_stream_is_a_document_and_an_empty_stream_is_no_answer() {
    let table = [
        ("vllm-over-long-prompt", ModelErrorKind::ContextTooLong),
        (
            "llama-cpp-python-over-long-prompt-stream-true",
            ModelErrorKind::Transport,
        ),
    ];
    for (name, kind) in table {
        let server = serving(Golden::read(name).answer()).await;
        let model = model(&base(&server)).stream(true).build().unwrap();
        assert_eq!(ask(&model).await.unwrap_err().kind, kind, "{name}");
    }
    let error = "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\ndata: [DONE]\n\n";
    let answer = ResponseTemplate::new(200).set_body_raw(error, "text/event-stream");
    let server = serving(answer).await;
    let model = model(&base(&server)).stream(true).build().unwrap();
    assert_eq!(
        ask(&model).await.unwrap_err().kind,
        ModelErrorKind::RateLimited
    );
}

/// Serves one stream that goes on with `again` until the client is gone, and tells how often.
async fn endless(
    first: &'static str,
    again: &'static str,
) -> (String, tokio::task::JoinHandle<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut asked = [0; 4096];
        let _read = socket.read(&mut asked).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(first.as_bytes()).await.unwrap();
        let mut sent = 0;
        while sent < 100_000 && socket.write_all(again.as_bytes()).await.is_ok() {
            sent += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sent
    });
    (base, served)
}

#[tokio::test]
async fn blanks_without_end_are_cut_off_and_the_server_is_left() {
    let (base, served) = endless(
        "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"step\\\":\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"    \"}}]}\n\n",
    )
    .await;
    let model = model(&base).stream(true).build().unwrap();
    let reply: ModelReply = ask(&model).await.unwrap();
    assert_eq!(reply.finish, Finish::Length);
    assert_eq!(reply.text.trim_end(), "{\"step\":");
    // Nobody knows what the server has counted.
    assert_eq!(reply.usage, Usage::default());
    assert!(served.await.unwrap() < 10_000);
}

#[tokio::test]
async fn a_stream_that_never_ends_ends_at_the_deadline() {
    let (base, _served) = endless("", ": still there\n\n").await;
    let model = model(&base).stream(true).build().unwrap();
    let error = crate::stub::ask_within(&model, Duration::from_millis(300))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert_eq!(model.settings()["stream"], true);
}
