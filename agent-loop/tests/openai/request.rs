//! What is sent, byte for byte.

use std::time::Duration;

use agent_loop::model::openai::{LimitField, OpenAi, OpenAiBuilder, ResponseFormat, Server};
use agent_loop::{Message, Model as _, ModelErrorKind, ModelRequest};
use serde_json::json;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request};

use crate::golden::Golden;
use crate::stub::{ask, base};

/// Keys out of order, odd blanks, an escape and a number that a parser would write otherwise: what
/// arrives as it is was not parsed.
const SCHEMA: &str = r#"{"type":"object", "required":["step"],"properties":{"step":{"type":"object","properties":{"path":{"enum":["\u0061.py"]},"content":{"type":"string","maxLength":1.0e3}}}},"additionalProperties":false}"#;

/// What a case changes in the settings.
type Set = fn(OpenAiBuilder) -> OpenAiBuilder;

async fn any_server() -> MockServer {
    let server = MockServer::start().await;
    let answer = Golden::read("llama-cpp-plain-chat").answer();
    Mock::given(method("POST"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

/// What one call of `model` sends.
async fn sent(server: &MockServer, model: &OpenAi, request: ModelRequest<'_>) -> Request {
    assert_eq!(model.propose(request).await.unwrap().text, "fn");
    let mut requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1, "one call is one request");
    requests.remove(0)
}

fn headers(request: &Request) -> Vec<(&str, &str)> {
    let mut headers: Vec<_> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .filter(|(name, _)| *name != "host")
        .collect();
    headers.sort_unstable();
    headers
}

#[tokio::test]
async fn a_request_with_every_setting_is_sent_as_it_should_be() {
    let server = any_server().await;
    let prefix = "/rewrite-services/v1/ns/owner/proj/runs/0123456789abcdef0123456789abcdef/8000/v1";
    let model = OpenAi::builder(format!("{}{prefix}/", server.uri()), "Qwen/Qwen3-4B")
        .token("k-TEST-123456")
        .temperature(0.6)
        .seed(1)
        .limit_field(LimitField::MaxCompletionTokens)
        .thinking(false)
        .extra("top_p", 0.9)
        .build()
        .unwrap();
    let messages = [
        Message::system("You repair."),
        Message::user("Files: ä\n"),
        Message::assistant("{}"),
    ];
    let request = ModelRequest::new("task-1.3.2".parse().unwrap(), &messages)
        .schema(SCHEMA)
        .seed(3000)
        .max_output_tokens(400);
    let request = sent(&server, &model, request).await;

    assert_eq!(request.method.as_str(), "POST");
    assert_eq!(request.url.path(), format!("{prefix}/chat/completions"));
    assert_eq!(request.url.query(), None);
    let body = format!(
        concat!(
            r#"{{"model":"Qwen/Qwen3-4B","messages":[{{"role":"system","content":"You repair."}},"#,
            r#"{{"role":"user","content":"Files: ä\n"}},{{"role":"assistant","content":"{{}}"}}],"#,
            r#""temperature":0.6,"seed":3000,"max_completion_tokens":400,"#,
            r#""response_format":{{"type":"json_schema","json_schema":{{"name":"action","strict":true,"#,
            r#""schema":{}}}}},"chat_template_kwargs":{{"enable_thinking":false}},"top_p":0.9}}"#,
        ),
        SCHEMA
    );
    assert_eq!(std::str::from_utf8(&request.body).unwrap(), body);
    assert_eq!(
        headers(&request),
        [
            ("accept", "application/json"),
            ("accept-encoding", "gzip"),
            ("authorization", "token k-TEST-123456"),
            ("content-length", body.len().to_string().as_str()),
            ("content-type", "application/json"),
            (
                "user-agent",
                concat!("agent-loop/", env!("CARGO_PKG_VERSION"))
            ),
            ("x-request-id", "task-1.3.2"),
        ]
    );
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let table: Vec<(Set, Option<&str>, &str)> = vec![
        (|b| b, None, r#""temperature":0.0,"max_tokens":1024}"#),
        (|b| b.temperature(None), None, r#""max_tokens":1024}"#),
        (
            |b| b.temperature(None).limit_field(LimitField::Omitted).seed(7),
            None,
            r#""seed":7}"#,
        ),
        (
            |b| b.temperature(0.5).response_format(ResponseFormat::Off),
            Some(SCHEMA),
            r#""temperature":0.5,"max_tokens":1024}"#,
        ),
        (
            |b| {
                b.temperature(None)
                    .extra("chat_template_kwargs", json!({"a": 1}))
            },
            None,
            r#""max_tokens":1024,"chat_template_kwargs":{"a":1}}"#,
        ),
        (
            |b| b.temperature(None).thinking(true),
            Some(" {\"a\" : 1}\n"),
            concat!(
                r#""max_tokens":1024,"response_format":{"type":"json_schema","json_schema":"#,
                r#"{"name":"action","strict":true,"schema":{"a" : 1}}},"#,
                r#""chat_template_kwargs":{"enable_thinking":true}}"#
            ),
        ),
        (
            |b| b.temperature(None).server(Server::Ollama).thinking(false),
            Some("{}"),
            concat!(
                r#""max_tokens":1024,"response_format":{"type":"json_schema","json_schema":"#,
                r#"{"name":"action","strict":true,"schema":{}}},"reasoning_effort":"none"}"#
            ),
        ),
        (
            |b| {
                b.temperature(None)
                    .server(Server::LlamaCppPython)
                    .thinking(false)
            },
            Some("{}"),
            r#""max_tokens":1024,"response_format":{"type":"json_object","schema":{}}}"#,
        ),
        (
            |b| b.temperature(None).server(Server::Hosted).thinking(false),
            None,
            r#""max_completion_tokens":1024}"#,
        ),
        (
            |b| {
                b.temperature(None)
                    .server(Server::Vllm)
                    .thinking(false)
                    .stream(true)
            },
            None,
            concat!(
                r#""max_tokens":1024,"chat_template_kwargs":{"enable_thinking":false},"#,
                r#""stream":true,"stream_options":{"include_usage":true}}"#
            ),
        ),
    ];
    for (set, schema, rest) in table {
        let server = any_server().await;
        let model = set(OpenAi::builder(base(&server), "m")).build().unwrap();
        let messages = [Message::user("hi")];
        let mut request = ModelRequest::new("t.1.0".parse().unwrap(), &messages);
        request.schema = schema;
        let request = sent(&server, &model, request).await;
        let body = std::str::from_utf8(&request.body).unwrap();
        let head = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"#;
        assert_eq!(body, format!("{head}{rest}"));
        assert!(!request.headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn the_key_goes_out_under_the_scheme_that_was_chosen() {
    let table: [(Set, &str); 2] = [
        (|b| b.bearer("k-1"), "Bearer k-1"),
        (|b| b.bearer("k-1").token("k-2"), "token k-2"),
    ];
    for (set, value) in table {
        let server = any_server().await;
        let model = set(OpenAi::builder(base(&server), "m")).build().unwrap();
        assert_eq!(ask(&model).await.unwrap().text, "fn");
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests[0].headers["authorization"], value);
    }
}

#[tokio::test]
async fn a_schema_that_servers_would_not_keep_to_is_never_sent() {
    let server = any_server().await;
    let model = OpenAi::builder(base(&server), "m").build().unwrap();
    let messages = [Message::user("hi")];
    for (schema, problem) in [
        ("\"x\"", "the schema is not a JSON object"),
        ("{", "the schema is not JSON"),
        ("{} {}", "the schema is not JSON"),
    ] {
        let request = ModelRequest::new("t.1.0".parse().unwrap(), &messages)
            .schema(schema)
            .deadline(Duration::from_secs(20));
        let error = model.propose(request).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::BadRequest);
        assert_eq!(error.detail.reveal(), problem);
    }
    assert!(server.received_requests().await.unwrap().is_empty());
}
