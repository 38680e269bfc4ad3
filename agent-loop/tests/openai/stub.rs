//! A server with one answer, that takes one call and no other.

use std::time::Duration;

use agent_loop::model::openai::{OpenAi, OpenAiBuilder};
use agent_loop::{Message, Model as _, ModelError, ModelReply, ModelRequest};
use wiremock::matchers::{any, body_string, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// The body of [`ask`] with the settings of [`model`].
const ASKED: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.0,"max_tokens":1024}"#;

/// A server that answers `POST /v1/chat/completions` with exactly [`ASKED`] once. Whatever else is
/// sent fails the test when the server is dropped.
pub(crate) async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("content-type", "application/json"))
        .and(header("x-request-id", "task-1.1.0"))
        .and(body_string(ASKED))
        .respond_with(answer)
        .expect(1)
        .named("the one call")
        .mount(&server)
        .await;
    refuse_the_rest(&server).await;
    server
}

/// Makes a stray request fail the test.
pub(crate) async fn refuse_the_rest(server: &MockServer) {
    Mock::given(any())
        .respond_with(ResponseTemplate::new(500))
        .with_priority(255)
        .expect(0)
        .named("nothing else is sent")
        .mount(server)
        .await;
}

pub(crate) fn base(server: &MockServer) -> String {
    format!("{}/v1", server.uri())
}

pub(crate) fn model(base: &str) -> OpenAiBuilder {
    OpenAi::builder(base, "m")
}

pub(crate) async fn ask(model: &OpenAi) -> Result<ModelReply, ModelError> {
    ask_within(model, Duration::from_secs(120)).await
}

pub(crate) async fn ask_within(
    model: &OpenAi,
    deadline: Duration,
) -> Result<ModelReply, ModelError> {
    let messages = [Message::user("hi")];
    let id = "task-1.1.0".parse().unwrap();
    let asked = model.propose(ModelRequest::new(id, &messages).deadline(deadline));
    // Should the deadline not hold, the test fails instead of hanging.
    let limit = deadline + Duration::from_secs(60);
    let ended = tokio::time::timeout(limit, asked).await;
    ended.expect("the call ends by itself")
}

/// Asks a server that has this one answer.
pub(crate) async fn told(answer: ResponseTemplate) -> Result<ModelReply, ModelError> {
    let server = answering(answer).await;
    ask(&model(&base(&server)).build().unwrap()).await
}
