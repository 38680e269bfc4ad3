//! The key is in nothing that is printed, logged or kept.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_loop::Model as _;
use agent_loop::model::openai::OpenAi;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::stub::{ask, ask_within, base, model};

const KEY: &str = "k-TEST-123456";
/// The key as Base64 writes it.
const ENCODED: &str = "ay1URVNULTEyMzQ1Ng==";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Everything that a model and its failure can print.
fn printed(
    model: &OpenAi,
    ended: &Result<agent_loop::ModelReply, agent_loop::ModelError>,
) -> String {
    let mut text = format!("{model:?} {} {}", model.name(), model.settings());
    match ended {
        Ok(reply) => text += &format!("{reply:?} {}", serde_json::to_string(reply).unwrap()),
        Err(error) => {
            let json = serde_json::to_string(error).unwrap();
            text += &format!("{error} {error:?} {} {json}", error.detail.reveal());
        }
    }
    text
}

#[tokio::test]
async fn the_key_is_nowhere_on_any_way_out() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // For the whole program: a subscriber of one thread misses events whose place in the code was
    // first reached on another one. So the calls of the other tests are searched as well.
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let quoted = format!("you sent Authorization: Bearer {KEY}, that is {KEY} or {ENCODED}");
    let answers = [
        (401, quoted.clone(), "text/plain"),
        (
            401,
            format!(r#"{{"error":"{quoted}"}}"#),
            "application/json",
        ),
        (
            422,
            format!(r#"{{"detail":[{{"input":"{quoted}"}}]}}"#),
            "application/json",
        ),
        (
            500,
            format!(r#"{{"error":{{"message":"{quoted}","code":"{KEY}"}}}}"#),
            "application/json",
        ),
        (
            200,
            format!(r#"{{"error":{{"message":"{quoted}"}}}}"#),
            "application/json",
        ),
        (200, quoted.clone(), "text/plain"),
        (
            200,
            format!(r#"{{"model":"{KEY}","choices":[{{"message":{{"content":"x"}}}}]}}"#),
            "application/json",
        ),
        (
            200,
            format!(r#"{{"choices":[{{"message":{{"refusal":"{quoted}"}}}}]}}"#),
            "application/json",
        ),
        (
            200,
            r#"{"choices":[{"message":{"content":"{ "},"finish_reason":"length"}]}"#.to_owned(),
            "application/json",
        ),
    ];
    let mut printed_text = String::new();
    for (status, body, content_type) in &answers {
        let server = MockServer::start().await;
        Mock::given(any())
            .respond_with(ResponseTemplate::new(*status).set_body_raw(body.clone(), content_type))
            .mount(&server)
            .await;
        let builder = model(&base(&server)).bearer(KEY);
        printed_text += &format!("{builder:?}");
        let model = builder.build().unwrap();
        let ended = ask(&model).await;
        printed_text += &printed(&model, &ended);
        assert!(
            server.received_requests().await.unwrap()[0].headers["authorization"]
                == format!("Bearer {KEY}")
        );
    }
    let nowhere = model("http://127.0.0.1:1/v1").token(KEY).build().unwrap();
    let ended = ask_within(&nowhere, Duration::from_secs(20)).await;
    printed_text += &printed(&nowhere, &ended);
    let refused = model("http://127.0.0.1:1")
        .bearer(format!("{KEY}\n"))
        .build()
        .unwrap_err();
    printed_text += &format!("{refused} {refused:?}");

    let logged = log.text();
    assert!(
        logged.contains("asked the model"),
        "the log is captured: {logged}"
    );
    assert!(
        logged.contains("emitted white space"),
        "the log is captured: {logged}"
    );
    assert!(printed_text.contains("<redacted>"), "{printed_text}");
    for text in [printed_text, logged] {
        assert!(
            !text.contains(KEY) && !text.contains(ENCODED.trim_end_matches('=')),
            "{text}"
        );
    }
}
