//! The OpenAI-compatible model against a real one: llama.cpp's server with 135M parameters.

use std::time::{Duration, Instant};

use agent_loop::action::{self, Action, Defect};
use agent_loop::model::openai::OpenAi;
use agent_loop::{Finish, Message, Model as _, ModelErrorKind, ModelRequest};

use crate::program::{Port, Program};
use crate::provided::{scratch, script};

const KEY: &str = "a-key-of-the-test";

/// The window that the script sets.
const WINDOW: u64 = 4096;

/// The first action of a repair, as a schema: to read one of two files, or to run the check.
const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["step"],"properties":{"step":{"anyOf":[{"type":"object","additionalProperties":false,"required":["action","path"],"properties":{"action":{"type":"string","enum":["read"]},"path":{"type":"string","enum":["amounts.py","test_amounts.py"]}}},{"type":"object","additionalProperties":false,"required":["action"],"properties":{"action":{"type":"string","enum":["check"]}}}]}}}"#;

/// A server, loading or loaded, with its port, and where it is.
fn start() -> ((Program, Port), String) {
    let taken = Port::take();
    let port = taken.number();
    let mut command = script("REAL_MODEL_PYTHON", "model_server.py");
    let log = scratch("model").join(format!("{port}.log"));
    command
        .args([&port.to_string(), KEY])
        .stderr(std::fs::File::create(log).unwrap());
    let server = Program::spawn(&mut command);
    ((server, taken), format!("http://127.0.0.1:{port}/v1"))
}

fn model(url: &str, key: &str) -> OpenAi {
    OpenAi::builder(url, "smollm2").bearer(key).build().unwrap()
}

fn question() -> [Message; 2] {
    [
        Message::system("You repair a Python module. You answer with one JSON action."),
        Message::user("The check fails. The files are amounts.py and test_amounts.py. What first?"),
    ]
}

fn request(messages: &[Message]) -> ModelRequest<'_> {
    ModelRequest::new("a-request".parse().unwrap(), messages)
        .schema(SCHEMA)
        .max_output_tokens(60)
        .deadline(Duration::from_secs(120))
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_reply_that_is_held_to_a_schema_is_an_action_and_its_tokens_are_counted() {
    let ((server, _port), url) = start();
    server.ready();
    let model = model(&url, KEY);
    let messages = question();

    let reply = model.propose(request(&messages)).await.unwrap();
    let action = action::parse(&reply.text, reply.finish).unwrap();
    assert!(
        matches!(action, Action::Read { .. } | Action::Check { .. }),
        "{action}"
    );
    assert_eq!(reply.finish, Finish::Stop);
    let (input, output) = (reply.usage.input.unwrap(), reply.usage.output.unwrap());
    assert!((30..200).contains(&input), "{input}");
    assert!((5..60).contains(&output), "{output}");
    assert_eq!(reply.served_by.as_deref(), Some("smollm2"));
    assert_eq!(reply.cost, None);

    // The same conversation with one more turn: what the server has read is not read again.
    let mut longer = messages.to_vec();
    longer.push(Message::assistant(reply.text));
    longer.push(Message::user("It has no tests yet. What next?"));
    let reply = model.propose(request(&longer)).await.unwrap();
    action::parse(&reply.text, reply.finish).unwrap();
    let cached = reply.usage.cache_read.unwrap();
    assert!(
        cached >= input / 2 && cached <= reply.usage.input.unwrap(),
        "{cached}"
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn what_goes_wrong_with_a_real_model_is_told_by_its_kind() {
    let ((server, _port), url) = start();
    server.ready();
    let model = model(&url, KEY);
    let messages = question();

    // Cut off at the limit of tokens: never an action.
    let reply = model
        .propose(request(&messages).max_output_tokens(3))
        .await
        .unwrap();
    assert_eq!(reply.finish, Finish::Length);
    assert_eq!(reply.usage.output, Some(3));
    assert_eq!(
        action::parse(&reply.text, reply.finish),
        Err(Defect::Truncated)
    );

    // Longer than the window.
    let long = [Message::user("word ".repeat(6000))];
    let error = model.propose(request(&long)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::ContextTooLong, "{error:?}");
    assert!(!error.kind.is_retryable());

    // A schema that is none.
    let broken = request(&messages).schema(r#"{"$ref":"nowhere"}"#);
    let error = model.propose(broken).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest, "{error:?}");
    assert!(!error.kind.is_retryable());

    // No time. The server gives the call up, and the next one is answered.
    let poem = [Message::user("Tell me a long story about a river.")];
    let hurried = ModelRequest::new("hurried".parse().unwrap(), &poem)
        .max_output_tokens(2000)
        .deadline(Duration::from_millis(200));
    let error = model.propose(hurried).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::TimedOut, "{error:?}");
    let started = Instant::now();
    model.propose(request(&messages)).await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_server_says_which_model_it_has_and_how_long_its_window_is() {
    let ((server, _port), url) = start();
    server.ready();
    let model = model(&url, KEY);
    let limit = Duration::from_secs(60);
    let names: Vec<String> = model
        .models(limit)
        .await
        .unwrap()
        .into_iter()
        .map(|m| m.id)
        .collect();
    assert_eq!(names, ["smollm2"]);
    assert_eq!(model.window(limit).await.unwrap(), Some(WINDOW));
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_wrong_key_and_a_key_in_the_wrong_form_are_an_auth_error() {
    let ((server, _port), url) = start();
    server.ready();
    let builder = || OpenAi::builder(&url, "smollm2");
    let messages = question();
    for model in [
        builder().build(),
        builder().bearer("another-key").build(),
        // Only `Bearer` counts here; Polyaxon's gateway wants `token`.
        builder().token(KEY).build(),
    ] {
        let error = model
            .unwrap()
            .propose(request(&messages))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Auth, "{error:?}");
        assert!(!error.kind.is_retryable());
    }
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_server_that_is_not_up_or_still_loads_its_model_is_worth_asking_again() {
    let ((server, _port), url) = start();
    let model = model(&url, KEY);
    let messages = question();
    let started = Instant::now();
    let mut kinds = Vec::new();
    let reply = loop {
        match model.propose(request(&messages)).await {
            Ok(reply) => break reply,
            Err(error) => {
                assert!(error.kind.is_retryable(), "{error:?}");
                if kinds.last() != Some(&error.kind) {
                    kinds.push(error.kind);
                }
            }
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{kinds:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // First nobody listens; then 503, "Loading model".
    assert_eq!(
        kinds,
        [ModelErrorKind::Transport, ModelErrorKind::Overloaded]
    );
    action::parse(&reply.text, reply.finish).unwrap();
    server.ready();
}
