//! From what came back, or did not, to an error that says what it means.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::body::Unreadable;
use super::operation::{Operation, Repeat};
use crate::error::{ApiError, Effect, Error};

/// The longest message that is kept of an answer.
const MESSAGE_BYTES: usize = 1024;

/// An answer with a status that says no.
pub(crate) fn answer(
    operation: &Operation,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Error {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let said = json.as_ref().map(read).unwrap_or_default();
    let from_gateway = json.is_none();
    let message = match &json {
        Some(_) => said.message,
        None => plain_text(headers, body),
    };
    let location = text("location").filter(|_| status.is_redirection());
    let message = match location {
        Some(to) => Some(format!(
            "redirected to {:?}, which is not followed: set the host to where the API is",
            to.split(['?', '#']).next().unwrap_or_default()
        )),
        None => message,
    };
    let not_started = said
        .details
        .as_ref()
        .and_then(|details| details.get("started"))
        == Some(&Value::Bool(false));
    let effect = match status.as_u16() {
        // Whoever redirects is not the service.
        300..=399 => Effect::NotApplied,
        // Refused by the gateway before the service was asked.
        401 | 403 => Effect::NotApplied,
        400..=499 if !from_gateway => Effect::NotApplied,
        500 if not_started => Effect::NotApplied,
        _ => Effect::Unknown,
    };
    ApiError {
        operation: operation.name,
        status,
        code: said.code,
        message: message.map(|message| cut(message.trim(), MESSAGE_BYTES)),
        details: said.details,
        request_id: text("x-request-id"),
        retry_after: retry_after(headers),
        from_gateway,
        effect: unless_reading(operation, effect),
    }
    .into()
}

/// Whether the body is a page for people. The API has none, so a proxy made it (to log in, for
/// one), whatever its status says.
pub(super) fn is_page(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/html"))
}

/// No byte for as long as the limit allows.
pub(super) fn silence(operation: &Operation, host: &str, limit: Duration) -> Error {
    broken(operation, host, format!("nothing came for {limit:.1?}"))
}

/// An answer that began and cannot be used to its end.
pub(super) fn broken(operation: &Operation, host: &str, problem: String) -> Error {
    Error::Transport {
        operation: operation.name,
        host: host.to_owned(),
        effect: unless_reading(operation, Effect::Unknown),
        source: Box::new(Cause(problem)),
    }
}

/// No answer, or none to its end.
pub(super) fn failure(operation: &Operation, host: &str, error: reqwest::Error) -> Error {
    if let Some(unreadable) = Unreadable::of(&error) {
        return unreadable.into();
    }
    // A connection that never stood, and a request that could not be built, carried nothing.
    let unsent = error.is_connect() || error.is_builder() || was_never_written(&error);
    let effect = if unsent {
        Effect::NotApplied
    } else {
        Effect::Unknown
    };
    Error::Transport {
        operation: operation.name,
        host: host.to_owned(),
        effect: unless_reading(operation, effect),
        source: Box::new(Cause::of(&error.without_url())),
    }
}

/// Whether a pooled connection was found dead before a byte of the request was written. (The
/// library takes another one by itself as long as it finds one.)
fn was_never_written(error: &reqwest::Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled();
        }
        next = error.source();
    }
    false
}

/// What only reads has no effect, whatever became of it.
fn unless_reading(operation: &Operation, effect: Effect) -> Effect {
    match operation.method == http::Method::GET && operation.repeat == Repeat::Harmless {
        true => Effect::NotApplied,
        false => effect,
    }
}

/// The failure in plain words. The library's own error types are not shown in public, so their
/// texts are kept, innermost last.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Cause(String);

impl Cause {
    fn of(error: &reqwest::Error) -> Self {
        let mut parts: Vec<String> = Vec::new();
        if error.is_timeout() {
            let what = if error.is_connect() {
                "connecting took too long"
            } else {
                "the time limit passed"
            };
            parts.push(what.to_owned());
        }
        let mut next: Option<&dyn std::error::Error> = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            if !parts.iter().any(|part| part.contains(&text)) {
                parts.push(text);
            }
            next = error.source();
        }
        Self(parts.join(": "))
    }
}

#[derive(Default)]
struct Said {
    code: Option<String>,
    message: Option<String>,
    details: Option<Value>,
}

/// Reads every shape of error body that the services and what stands before them are known to
/// send: the envelope, `message`, `detail`, a list of texts, texts by field.
fn read(json: &Value) -> Said {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    match json {
        Value::Object(map) => match map.get("error") {
            Some(Value::Object(error)) => Said {
                code: text(error.get("code")),
                message: text(error.get("message")),
                details: error.get("details").cloned(),
            },
            Some(Value::String(message)) => Said {
                message: Some(message.clone()),
                ..Said::default()
            },
            _ => {
                let message = text(map.get("message")).or_else(|| text(map.get("detail")));
                let by_field = || {
                    let all: Vec<String> = map
                        .iter()
                        .filter_map(|(field, value)| Some(format!("{field}: {}", texts(value)?)))
                        .collect();
                    (!all.is_empty()).then(|| all.join("; "))
                };
                Said {
                    code: text(map.get("code")),
                    message: message.or_else(by_field),
                    details: None,
                }
            }
        },
        other => Said {
            message: texts(other),
            ..Said::default()
        },
    }
}

fn texts(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let all: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        _ => None,
    }
}

/// The message of a body that is not JSON: the title of an HTML page, or the text itself.
fn plain_text(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body.get(..4 * MESSAGE_BYTES).unwrap_or(body));
    let is_html = is_page(headers) || text.trim_start().starts_with('<');
    if is_html && text.contains('<') {
        let (_, rest) = text.split_once("<title>")?;
        let (title, _) = rest.split_once("</title>")?;
        return Some(format!("a page that says {:?}", title.trim()));
    }
    (!text.trim().is_empty()).then(|| text.into_owned())
}

/// At most `limit` bytes of `text`, on a character's border, with the cut said.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let start = text.as_bytes().get(..limit).unwrap_or_default();
    // The last character may be cut in two; what is whole before it is kept.
    let whole = start
        .utf8_chunks()
        .next()
        .map(|chunk| chunk.valid())
        .unwrap_or_default();
    format!("{whole}… ({} bytes in all)", text.len())
}

/// `Retry-After` in seconds or as a date; a date that has passed means now.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers
        .get(http::header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(
        at.duration_since(std::time::SystemTime::now())
            .unwrap_or(Duration::ZERO),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(operation: &Operation, status: u16, kind: &str, body: &str) -> (String, Effect) {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, kind.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let error = answer(
            operation,
            status,
            &headers,
            &Bytes::copy_from_slice(body.as_bytes()),
        );
        (error.to_string(), error.effect())
    }

    /// The table of the documentation, a row a line.
    #[test]
    fn the_effect_of_a_failed_call_follows_from_who_answered_and_with_what() {
        let exec = Operation::post("exec", "/exec");
        let envelope = r#"{"error":{"code":"c","message":"m"}}"#;
        let unstarted =
            r#"{"error":{"code":"internal","message":"m","details":{"started":false}}}"#;
        let page = "<html><head><title>502 Bad Gateway</title></head></html>";
        let rows = [
            (400, "application/json", envelope),
            (404, "application/json", envelope),
            (409, "application/json", envelope),
            (429, "application/json", envelope),
            (500, "application/json", envelope),
            (500, "application/json", unstarted),
            (503, "application/json", envelope),
            (301, "text/html", ""),
            (401, "text/html", page),
            (403, "text/html", page),
            (404, "text/html", page),
            (405, "text/html", ""),
            (413, "text/html", page),
            (500, "text/html", page),
            (502, "text/html", page),
            (504, "text/html", page),
            (524, "text/plain", "a timeout occurred"),
        ];
        let table: Vec<String> = rows
            .iter()
            .map(|(status, kind, body)| {
                let (text, effect) = classify(&exec, *status, kind, body);
                let read = classify(&Operation::get("fs.stat", "/"), *status, kind, body).1;
                format!("{effect} | read: {read} | {text}")
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"), @r#"
        not applied | read: not applied | exec was answered with 400 Bad Request: m (c)
        not applied | read: not applied | exec was answered with 404 Not Found: m (c)
        not applied | read: not applied | exec was answered with 409 Conflict: m (c)
        not applied | read: not applied | exec was answered with 429 Too Many Requests: m (c)
        effect unknown | read: not applied | exec was answered with 500 Internal Server Error: m (c)
        not applied | read: not applied | exec was answered with 500 Internal Server Error: m (internal)
        effect unknown | read: not applied | exec was answered with 503 Service Unavailable: m (c)
        not applied | read: not applied | exec was answered with 301 Moved Permanently
        not applied | read: not applied | exec was answered with 401 Unauthorized: a page that says "502 Bad Gateway"
        not applied | read: not applied | exec was answered with 403 Forbidden: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 404 Not Found: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 405 Method Not Allowed
        effect unknown | read: not applied | exec was answered with 413 Payload Too Large: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 500 Internal Server Error: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 502 Bad Gateway: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 504 Gateway Timeout: a page that says "502 Bad Gateway"
        effect unknown | read: not applied | exec was answered with 524 <unknown status code>: a timeout occurred
        "#);
    }

    #[test]
    fn every_shape_of_error_body_keeps_what_it_says() {
        let get = Operation::get("runs.get", "/");
        let long = "a".repeat(2 << 20);
        let table = [
            (
                r#"{"error":{"code":"no_such","message":"no such exec"}}"#,
                ": no such exec (no_such)",
            ),
            (r#"{"message":"m"}"#, ": m"),
            (
                r#"{"detail":"No Run matches the given query."}"#,
                ": No Run matches the given query.",
            ),
            (r#"{"error":"Unauthorized"}"#, ": Unauthorized"),
            (
                r#"["Received non valid yaml"]"#,
                ": Received non valid yaml",
            ),
            (
                r#"{"name":["too long"],"managed_by":["bad"]}"#,
                ": managed_by: bad; name: too long",
            ),
            (r#""str""#, ": str"),
            ("[]", ""),
            ("", ""),
            ("null", ""),
            ("Artifact not found", ": Artifact not found"),
        ];
        for (body, tail) in table {
            let (text, _) = classify(&get, 400, "application/json", body);
            assert_eq!(
                text,
                format!("runs.get was answered with 400 Bad Request{tail}")
            );
        }
        let (text, _) = classify(&get, 500, "text/plain", &long);
        assert!(text.len() < 4096, "{} bytes", text.len());
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
        let soon = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(90));
        let wait = read(&soon).unwrap();
        assert!(
            wait > Duration::from_secs(80) && wait <= Duration::from_secs(90),
            "{wait:?}"
        );
    }
}
