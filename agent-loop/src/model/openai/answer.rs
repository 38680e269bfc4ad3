//! What an answer becomes: a reply, or an error. Status first, then `error`, then `choices`.

use std::time::SystemTime;

use serde_json::Value;

use super::failure::{self, Failure, ServerError};
use super::http::{Answer, Broken};
use super::redact::Redactor;
use super::retry_after::retry_after;
use crate::model::{Finish, ModelError, ModelErrorKind, ModelReply, Usage};

/// How an answer is to be read.
pub(super) struct Reader<'a> {
    pub(super) redactor: &'a Redactor,
    /// The server was told that the model must not think.
    pub(super) thinking_off: bool,
}

impl Reader<'_> {
    /// Reads the answer to a chat completion.
    pub(super) fn reply(&self, answer: &Answer) -> Result<ModelReply, ModelError> {
        let body = self.success(answer)?;
        let usage = usage(&body);
        let failed = |kind, detail: &str| {
            let detail = self.redactor.clean(detail);
            Err(with_usage(ModelError::new(kind, detail), usage))
        };
        let Some(choice) = body.pointer("/choices/0") else {
            return failed(ModelErrorKind::Empty, "the answer has no choices");
        };
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        let finish = match reason {
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::Filtered,
            _ => Finish::Unknown,
        };
        let message = choice.get("message").unwrap_or(&Value::Null);
        let thoughts =
            nonblank(message, "reasoning").or_else(|| nonblank(message, "reasoning_content"));
        let text = self.text(message, thoughts);
        if text.trim().is_empty() {
            if let Some(refusal) = nonblank(message, "refusal") {
                return failed(ModelErrorKind::Refused, &format!("refused: {refusal}"));
            }
            match finish {
                Finish::Filtered => {
                    return failed(
                        ModelErrorKind::Refused,
                        "a filter left nothing of the reply",
                    );
                }
                // Cut while it thought, or in blanks: worth saying as what it is.
                Finish::Length => {}
                _ => {
                    let reason = reason.unwrap_or("nothing");
                    let detail = format!("the message has no text; finish_reason says {reason}");
                    return failed(ModelErrorKind::Empty, &detail);
                }
            }
        }
        if finish == Finish::Length && text.ends_with(char::is_whitespace) {
            tracing::warn!(
                output_tokens = usage.output,
                "the reply was cut while the model emitted white space; \
                 compare the prompt's example with the schema"
            );
        }
        let thoughts = thoughts.filter(|thoughts| *thoughts != text);
        let mut reply = ModelReply::new(text).finish(finish).usage(usage);
        reply.thoughts = thoughts.map(str::to_owned);
        reply.served_by = nonblank(&body, "model").map(|name| self.redactor.clean(name));
        Ok(reply)
    }

    /// The document of an answer that is a success in status and in body.
    pub(super) fn success(&self, answer: &Answer) -> Result<Value, ModelError> {
        let (status, success) = (answer.status.as_u16(), answer.status.is_success());
        let parsed = serde_json::from_slice::<Value>(&answer.body);
        let said = parsed.as_ref().ok().and_then(ServerError::find);
        let usage = parsed.as_ref().map(usage).unwrap_or_default();
        let failure = match (parsed, said) {
            (Ok(body), None) if success => return Ok(body),
            (Ok(_), Some(said)) if success => failure::in_success(&said),
            (Ok(_), said) => failure::of_status(status, said.as_ref()),
            (Err(error), _) if success => unreadable(answer, &error),
            (Err(_), _) if is_html(answer) => failure::of_gateway(status),
            (Err(_), _) => {
                let text = String::from_utf8_lossy(&answer.body);
                failure::of_status(status, Some(&ServerError::text(&text)))
            }
        };
        Err(self.error(answer, &failure, usage))
    }

    fn error(&self, answer: &Answer, failure: &Failure, usage: Usage) -> ModelError {
        let detail = self.redactor.clean(&format!(
            "answered with {}: {}",
            answer.status, failure.detail
        ));
        let error = with_usage(ModelError::new(failure.kind, detail), usage);
        match retry_after(&answer.headers, SystemTime::now()) {
            Some(wait) if failure.kind.is_retryable() => error.retry_after(wait),
            _ => error,
        }
    }

    /// The text of a message.
    ///
    /// Where the model was told not to think, some servers put the whole answer into the field for
    /// thoughts. Where it may think, thoughts are never taken for an answer.
    fn text(&self, message: &Value, thoughts: Option<&str>) -> String {
        let content = message.get("content").and_then(Value::as_str);
        let content = content.unwrap_or_default();
        if !content.trim().is_empty() || !self.thinking_off {
            return content.to_owned();
        }
        match thoughts {
            Some(text) if serde_json::from_str::<serde_json::Map<_, _>>(text).is_ok() => {
                tracing::debug!("the reply was taken from the field for thoughts");
                text.to_owned()
            }
            _ => content.to_owned(),
        }
    }
}

/// A success whose body is no JSON document.
fn unreadable(answer: &Answer, error: &serde_json::Error) -> Failure {
    let transport = |detail: String| Failure::new(ModelErrorKind::Transport, detail);
    match &answer.broken {
        Some(Broken::TimedOut) => {
            Failure::new(ModelErrorKind::TimedOut, "the answer did not end in time")
        }
        Some(broken) => transport(format!("the answer broke off: {broken}")),
        None if is_html(answer) => Failure::new(
            ModelErrorKind::BadRequest,
            "an HTML page; is this the base URL of a model server?",
        ),
        None if answer.body.is_empty() => transport("the answer is empty".to_owned()),
        None => transport(format!("the answer is not JSON: {error}")),
    }
}

fn with_usage(error: ModelError, usage: Usage) -> ModelError {
    match usage == Usage::default() {
        true => error,
        false => error.usage(usage),
    }
}

fn nonblank<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    let text = value.get(name)?.as_str()?;
    (!text.trim().is_empty()).then_some(text)
}

/// What an answer says about tokens. Servers leave numbers out or send null for them.
fn usage(body: &Value) -> Usage {
    let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64);
    Usage {
        input: number("/usage/prompt_tokens"),
        output: number("/usage/completion_tokens"),
        cache_read: number("/usage/prompt_tokens_details/cached_tokens"),
        ..Usage::default()
    }
}

fn is_html(answer: &Answer) -> bool {
    let content_type = answer.headers.get(reqwest::header::CONTENT_TYPE);
    content_type
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| {
            value
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("text/html")
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: impl Into<Vec<u8>>) -> Result<ModelReply, ModelError> {
        read_with(status, body, false)
    }

    fn read_with(
        status: u16,
        body: impl Into<Vec<u8>>,
        thinking_off: bool,
    ) -> Result<ModelReply, ModelError> {
        let reader = Reader {
            redactor: &Redactor::knowing("k-TEST-123456"),
            thinking_off,
        };
        reader.reply(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.into(),
            broken: None,
        })
    }

    fn message(message: &Value, finish: &str) -> String {
        json!({"choices": [{"message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 7, "completion_tokens": null}})
        .to_string()
    }

    #[test]
    fn an_answer_without_a_message_is_empty_and_keeps_its_usage() {
        let table = [
            r#"{"choices":[]}"#,
            r#"{"choices":[{"message":{"content":null}}]}"#,
            r#"{"choices":[{"message":{}}]}"#,
            r#"{"choices":[{}]}"#,
            r#"{"choices":null}"#,
            r#"{"choices":[{"message":{"content":" \n"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"message":{"content":7},"finish_reason":"tool_calls"}]}"#,
            "{}",
            "[]",
            "null",
        ];
        for body in table {
            let error = read(200, body).unwrap_err();
            assert_eq!(
                (error.kind, error.usage),
                (ModelErrorKind::Empty, None),
                "{body}"
            );
        }
        let body = message(&json!({"content": null}), "stop");
        let usage = read(200, body).unwrap_err().usage.unwrap();
        assert_eq!((usage.input, usage.output), (Some(7), None));
    }

    #[test]
    fn every_reason_to_finish_has_its_meaning() {
        let table = [
            ("stop", Finish::Stop),
            ("length", Finish::Length),
            ("content_filter", Finish::Filtered),
            ("abort", Finish::Unknown),
            ("tool_calls", Finish::Unknown),
        ];
        for (reason, finish) in table {
            let reply = read(200, message(&json!({"content": "x"}), reason)).unwrap();
            assert_eq!((reply.finish, reply.text.as_str()), (finish, "x"));
        }
        let reply = read(200, r#"{"choices":[{"message":{"content":"x"}}]}"#).unwrap();
        assert_eq!(reply.finish, Finish::Unknown);
    }

    #[test]
    fn a_reply_cut_before_its_first_word_is_a_cut_reply() {
        let reply = read(200, message(&json!({"content": null}), "length")).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("", Finish::Length));
    }

    #[test]
    fn a_refusal_is_no_reply() {
        let refused = message(&json!({"content": null, "refusal": "I will not"}), "stop");
        let error = read(200, refused).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Refused);
        assert_eq!(error.detail.reveal(), "refused: I will not");
        let filtered = message(&json!({"content": ""}), "content_filter");
        assert_eq!(
            read(200, filtered).unwrap_err().kind,
            ModelErrorKind::Refused
        );
    }

    #[test]
    fn thoughts_are_an_answer_only_where_the_model_must_not_think() {
        const ACTION: &str = r#"{"action":"finish"}"#;
        let table = [
            (
                json!({"content": null, "reasoning": ACTION}),
                true,
                Some(ACTION),
            ),
            (
                json!({"content": " ", "reasoning_content": ACTION}),
                true,
                Some(ACTION),
            ),
            (
                json!({"content": null, "reasoning": "maybe finish?"}),
                true,
                None,
            ),
            (json!({"content": null, "reasoning": ACTION}), false, None),
            (
                json!({"content": "x", "reasoning": ACTION}),
                true,
                Some("x"),
            ),
        ];
        for (said, thinking_off, text) in table {
            let read = read_with(200, message(&said, "stop"), thinking_off).ok();
            let told = read.as_ref().map(|reply| reply.text.as_str());
            assert_eq!(told, text, "{said}");
            // What was taken for the answer is no thought besides.
            let thoughts = read.as_ref().and_then(|reply| reply.thoughts.as_ref());
            assert_eq!(thoughts.is_some(), told == Some("x"), "{said}");
        }
    }

    #[test]
    fn an_error_within_a_success_is_an_error_and_its_usage_counts() {
        let body = json!({"error": {"code": 429, "message": "slow down"}, "choices": [{"message": {"content": "x"}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1}});
        let error = read(200, body.to_string()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(error.usage, Some(Usage::new(9, 1)));
    }

    #[test]
    fn a_null_error_beside_choices_is_none() {
        let body = r#"{"error":null,"choices":[{"message":{"content":"x"}}]}"#;
        assert_eq!(read(200, body).unwrap().text, "x");
    }

    #[test]
    fn the_text_is_kept_as_it_came() {
        let text = "\n<think>maybe</think>\n{\"action\":\"check\"} ";
        let reply = read(200, message(&json!({"content": text}), "stop")).unwrap();
        assert_eq!(reply.text, text);
    }

    proptest! {
        #[test]
        fn any_bytes_of_any_status_become_something(
            status in 100..600_u16,
            body in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                r#"\{"(error|detail|choices|usage)":[\[{]?("k-TEST-123456"|null|7|\[\]|\{\})[\]}]?\}"#.prop_map(String::into_bytes),
            ],
        ) {
            if let Err(error) = read(status, body) {
                prop_assert!(!error.detail.reveal().contains("k-TEST-123456"));
                prop_assert!(!error.detail.reveal().is_empty());
            }
        }
    }
}
