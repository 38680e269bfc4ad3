//! What a server's "no" means. Values in, values out.

use serde_json::Value;

use crate::model::ModelErrorKind;

/// An error as a server put it into the body of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerError {
    pub(super) message: String,
    /// The server's own word for the kind.
    pub(super) kind: Option<String>,
    /// A number or a word, as text.
    pub(super) code: Option<String>,
}

impl ServerError {
    /// The error in a document: `error` as an object or a text, or `detail` alone.
    pub(super) fn find(body: &Value) -> Option<Self> {
        match body.get("error") {
            Some(Value::Object(error)) => Some(Self {
                message: error.get("message").map(plain).unwrap_or_default(),
                kind: error.get("type").and_then(word),
                code: error.get("code").and_then(word),
            }),
            Some(other) if !other.is_null() => Some(Self::text(&plain(other))),
            _ => body.get("detail").map(|detail| Self::text(&plain(detail))),
        }
    }

    /// An error that is a text and nothing else.
    pub(super) fn text(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// The message without what it quotes of our request: a prompt may contain any of the phrases
    /// that are looked for.
    fn own_words(&self) -> String {
        let own = self.message.split("'input'").next();
        own.unwrap_or_default().to_ascii_lowercase()
    }

    fn is_called(&self, names: &[&str]) -> bool {
        let named = |word: &Option<String>| word.as_deref().is_some_and(|w| names.contains(&w));
        named(&self.kind) || named(&self.code)
    }

    fn is_too_long(&self) -> bool {
        let message = self.own_words();
        self.is_called(&["exceed_context_size_error", "context_length_exceeded"])
            || message.contains("maximum context length")
            || message.contains("contextwindowexceeded")
            || (message.contains("is too large") && message.contains("tokens"))
    }

    fn is_out_of_credit(&self) -> bool {
        self.is_called(&["insufficient_quota", "credit_balance_exhausted"])
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = match self.message.trim() {
            "" => "no message",
            message => message,
        };
        match (&self.kind, &self.code) {
            (Some(kind), Some(code)) => write!(f, "{message} ({kind}, {code})"),
            (Some(word), None) | (None, Some(word)) => write!(f, "{message} ({word})"),
            (None, None) => f.write_str(message),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn word(value: &Value) -> Option<String> {
    Some(plain(value)).filter(|word| !word.is_empty())
}

/// What a failed call comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ModelErrorKind,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(kind: ModelErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
        }
    }
}

/// An error status with the server's own words, where it has any.
pub(super) fn of_status(status: u16, said: Option<&ServerError>) -> Failure {
    let nothing = ServerError::default();
    let said = said.unwrap_or(&nothing);
    let (kind, hint) = match status {
        300..400 => (
            ModelErrorKind::BadRequest,
            "; a redirect is not followed, give the final base URL",
        ),
        401 | 403 => (ModelErrorKind::Auth, "; said by the model server"),
        402 => (ModelErrorKind::Refused, "; no credit is left"),
        404 if said.own_words().contains("model") => {
            (ModelErrorKind::BadRequest, "; check the model's name")
        }
        404 => (ModelErrorKind::BadRequest, "; check the base URL"),
        408 | 409 | 425 => (ModelErrorKind::Overloaded, ""),
        413 => (ModelErrorKind::ContextTooLong, ""),
        429 if said.is_out_of_credit() => (ModelErrorKind::Refused, "; no credit is left"),
        429 => (ModelErrorKind::RateLimited, ""),
        400..500 if said.is_too_long() => (ModelErrorKind::ContextTooLong, ""),
        400..500 | 501 => (ModelErrorKind::BadRequest, ""),
        // One server answers 500 to a request that it does not understand.
        500 if said.own_words().contains("validation error") => (ModelErrorKind::BadRequest, ""),
        _ => (ModelErrorKind::Overloaded, ""),
    };
    Failure::new(kind, format!("{said}{hint}"))
}

/// An HTML page of an error status: a gateway in front of the model server wrote it.
pub(super) fn of_gateway(status: u16) -> Failure {
    let (kind, detail) = match status {
        401 | 403 => (
            ModelErrorKind::Auth,
            "a page of the gateway; Polyaxon's wants the scheme `token`",
        ),
        500 => (
            ModelErrorKind::Overloaded,
            "a page of the gateway; does the service URL hold the port after the run's uuid?",
        ),
        502..=504 => (
            ModelErrorKind::Overloaded,
            "a page of the gateway; the model server behind it is not there or too slow",
        ),
        _ => {
            let failure = of_status(status, None);
            return Failure::new(
                failure.kind,
                format!("a page of the gateway, {}", failure.detail),
            );
        }
    };
    Failure::new(kind, detail)
}

/// An error in the body of a success, which comes once an upstream provider has started. Its code
/// is a status, where it is one; else the answer is broken, and may be better next time.
pub(super) fn in_success(said: &ServerError) -> Failure {
    let status = said.code.as_deref().and_then(|code| code.parse().ok());
    match status {
        Some(status @ 400..600) => of_status(status, Some(said)),
        _ if said.is_too_long() => of_status(400, Some(said)),
        _ if said.is_out_of_credit() => of_status(402, Some(said)),
        _ => Failure::new(ModelErrorKind::Overloaded, said.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_is_found_in_every_shape() {
        let table = [
            (
                json!({"error": {"message": "m", "type": "t", "code": 400}}),
                Some("m (t, 400)"),
            ),
            (
                json!({"error": {"message": "m", "type": null, "code": "429"}}),
                Some("m (429)"),
            ),
            (
                json!({"error": {"message": "", "type": "t"}}),
                Some("no message (t)"),
            ),
            (json!({"error": {}}), Some("no message")),
            (json!({"error": "Unauthorized"}), Some("Unauthorized")),
            (json!({"error": true}), Some("true")),
            (json!({"detail": "Not Found"}), Some("Not Found")),
            (
                json!({"detail": [{"loc": ["body"]}]}),
                Some(r#"[{"loc":["body"]}]"#),
            ),
            (json!({"error": null}), None),
            (json!({"choices": []}), None),
            (json!([]), None),
        ];
        for (body, shown) in table {
            let found = ServerError::find(&body).map(|error| error.to_string());
            assert_eq!(found.as_deref(), shown, "{body}");
        }
    }

    fn said(message: &str, kind: &str, code: &str) -> ServerError {
        let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        ServerError {
            message: message.to_owned(),
            kind: word(kind),
            code: word(code),
        }
    }

    /// What no recorded answer covers; the recorded ones are in `tests/openai/recorded.rs`.
    #[test]
    fn a_status_and_its_words_have_one_meaning() {
        use ModelErrorKind::{Auth, BadRequest, ContextTooLong, Overloaded, RateLimited, Refused};
        let too_long = said("litellm.ContextWindowExceededError: …", "", "400");
        let quoted = said(
            "1 validation error: 'input': 'maximum context length'",
            "",
            "",
        );
        let table = [
            (302, ServerError::default(), BadRequest),
            (400, ServerError::default(), BadRequest),
            (400, too_long, ContextTooLong),
            (400, quoted, BadRequest),
            (400, said("temperature is too large", "", ""), BadRequest),
            (402, ServerError::default(), Refused),
            (403, ServerError::default(), Auth),
            (408, ServerError::default(), Overloaded),
            (409, ServerError::default(), Overloaded),
            (413, ServerError::default(), ContextTooLong),
            (415, ServerError::default(), BadRequest),
            (422, ServerError::default(), BadRequest),
            (429, said("", "", "insufficient_quota"), Refused),
            (429, said("", "insufficient_quota", ""), Refused),
            (429, said("", "", "rate_limit_exceeded"), RateLimited),
            (
                429,
                said("You exceeded the maximum context length", "", ""),
                RateLimited,
            ),
            (500, ServerError::default(), Overloaded),
            (501, ServerError::default(), BadRequest),
            (502, ServerError::default(), Overloaded),
            (504, ServerError::default(), Overloaded),
            (529, ServerError::default(), Overloaded),
        ];
        for (status, said, kind) in table {
            let failure = of_status(status, Some(&said));
            assert_eq!(failure.kind, kind, "{status} {said:?}");
        }
    }

    #[test]
    fn an_error_within_a_success_is_read_by_its_code() {
        let table = [
            (said("", "", "402"), ModelErrorKind::Refused),
            (said("", "", "429"), ModelErrorKind::RateLimited),
            (said("", "", "503"), ModelErrorKind::Overloaded),
            (
                said("", "", "context_length_exceeded"),
                ModelErrorKind::ContextTooLong,
            ),
            (said("", "", "insufficient_quota"), ModelErrorKind::Refused),
            (said("", "", "7"), ModelErrorKind::Overloaded),
            (said("broke", "", ""), ModelErrorKind::Overloaded),
        ];
        for (said, kind) in table {
            assert_eq!(in_success(&said).kind, kind, "{said:?}");
        }
    }

    #[test]
    fn a_page_of_the_gateway_says_where_to_look() {
        let table = [
            (401, ModelErrorKind::Auth, "scheme `token`"),
            (404, ModelErrorKind::BadRequest, "base URL"),
            (413, ModelErrorKind::ContextTooLong, "gateway"),
            (429, ModelErrorKind::RateLimited, "gateway"),
            (500, ModelErrorKind::Overloaded, "port"),
            (502, ModelErrorKind::Overloaded, "behind it"),
        ];
        for (status, kind, words) in table {
            let failure = of_gateway(status);
            assert_eq!(failure.kind, kind);
            assert!(failure.detail.contains(words), "{failure:?}");
        }
    }
}
