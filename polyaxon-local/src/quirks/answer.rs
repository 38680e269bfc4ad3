//! Answers as another service would write them. They are changed in one layer, so that no endpoint
//! knows of it.

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{HeaderValue, header};
use polyaxon_sandbox::wire;
use serde_json::{Map, Value, json};

use super::{Quirk, Quirks};
use crate::process::signal_number;

/// `response` as a service with these quirks writes it.
pub(crate) async fn change(quirks: Quirks, response: Response) -> Response {
    if quirks == Quirks::default() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    if quirks.has(Quirk::BareReads) {
        for name in [wire::header::NEXT_OFFSET, wire::header::EOF] {
            parts.headers.remove(name);
        }
    }
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let body = match kind.map(HeaderValue::as_bytes) {
        Some(b"application/json") => match to_bytes(body, usize::MAX).await {
            Ok(bytes) => {
                // It is counted anew.
                parts.headers.remove(header::CONTENT_LENGTH);
                Body::from(document(quirks, &bytes, parts.status.is_success()))
            }
            Err(error) => {
                tracing::warn!(%error, "an answer broke off");
                Body::empty()
            }
        },
        // Each piece of our streams is one event.
        Some(b"text/event-stream") => Body::from_stream(
            body.into_data_stream()
                .map_ok(move |event| frame(quirks, event)),
        ),
        _ => body,
    };
    Response::from_parts(parts, body)
}

fn document(quirks: Quirks, bytes: &[u8], success: bool) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else {
        return bytes.to_vec();
    };
    match success {
        true => members(quirks, &mut value),
        false => value = refusal(quirks, value),
    }
    value.to_string().into_bytes()
}

/// An event with the data of another service.
fn frame(quirks: Quirks, event: Bytes) -> Bytes {
    let changed = || {
        let text = std::str::from_utf8(&event).ok()?;
        let (head, data) = text.split_once("data: ")?;
        let mut value: Value = serde_json::from_str(data.trim_end()).ok()?;
        members(quirks, &mut value);
        Some(Bytes::from(format!("{head}data: {value}\n\n")))
    };
    changed().unwrap_or(event)
}

/// An error of another service.
fn refusal(quirks: Quirks, value: Value) -> Value {
    let member = |name: &str| value.pointer(name).cloned().unwrap_or_default();
    let (code, message) = (member("/error/code"), member("/error/message"));
    if quirks.has(Quirk::BareErrors) {
        return json!({"message": message});
    }
    if !quirks.has(Quirk::OtherCodes) {
        return value;
    }
    let code = match code.as_str() {
        Some(wire::code::CONFLICT) => "already_exists".to_owned(),
        Some(wire::code::RATE_LIMITED) => "too_many_requests".to_owned(),
        Some(wire::code::NOT_FOUND) => "NotFound".to_owned(),
        other => other.unwrap_or_default().to_uppercase(),
    };
    json!({"error": {"code": code, "message": message}})
}

/// Changes `value` and all that is in it.
fn members(quirks: Quirks, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| members(quirks, item)),
        Value::Object(object) => {
            exit_code(quirks, object);
            for (name, member) in object.iter_mut() {
                match member {
                    Value::Number(number) if quirks.has(Quirk::NumbersAsText) => {
                        *member = Value::String(number.to_string());
                    }
                    Value::String(text) if quirks.has(Quirk::OtherTimes) && is_time(name) => {
                        *text = time(text);
                    }
                    _ => members(quirks, member),
                }
            }
        }
        _ => {}
    }
}

fn exit_code(quirks: Quirks, object: &mut Map<String, Value>) {
    if object.get("exit_code") != Some(&json!(-1)) {
        return;
    }
    if quirks.has(Quirk::NoExitCodes) {
        object.insert("exit_code".to_owned(), Value::Null);
    } else if quirks.has(Quirk::ExitCodesOfShells) {
        let signal = object.get("signal").and_then(Value::as_str);
        if let Some(number) = signal.and_then(signal_number) {
            object.insert("exit_code".to_owned(), json!(128 + number));
        }
    }
}

fn is_time(name: &str) -> bool {
    name.ends_with("_at")
        || matches!(
            name,
            "mtime" | "last_activity" | "last_client_activity" | "detached_since"
        )
}

/// `2026-01-02T03:04:05.6Z` with nine digits and an offset.
fn time(text: &str) -> String {
    match text.strip_suffix('Z') {
        Some(rest) => {
            let (seconds, digits) = rest.split_once('.').unwrap_or((rest, ""));
            format!("{seconds}.{digits:0<9}+00:00")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(list: &[Quirk]) -> Quirks {
        let mut quirks = Quirks::default();
        list.iter().for_each(|quirk| quirks.add(*quirk));
        quirks
    }

    fn changed(list: &[Quirk], value: &Value, success: bool) -> Value {
        let bytes = document(with(list), value.to_string().as_bytes(), success);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn each_quirk_changes_what_it_says_and_nothing_else() {
        let answer = json!({"execs": [{
            "exit_code": -1, "signal": "SIGKILL", "started_at": "2026-01-02T03:04:05.6Z",
            "pid": 7, "state": "signaled",
        }]});
        let table = [
            (Quirk::NoFollow, "exit_code", json!(-1)),
            (Quirk::ExitCodesOfShells, "exit_code", json!(137)),
            (Quirk::NoExitCodes, "exit_code", Value::Null),
            (Quirk::NumbersAsText, "pid", json!("7")),
            (Quirk::NumbersAsText, "exit_code", json!("-1")),
            (
                Quirk::OtherTimes,
                "started_at",
                json!("2026-01-02T03:04:05.600000000+00:00"),
            ),
            (Quirk::OtherTimes, "pid", json!(7)),
            (Quirk::OtherCodes, "state", json!("signaled")),
        ];
        for (quirk, member, want) in table {
            let got = changed(&[quirk], &answer, true);
            assert_eq!(got["execs"][0][member], want, "{quirk}");
        }
    }

    #[test]
    fn errors_are_of_another_kind() {
        let error = json!({"error": {"code": "conflict", "message": "m", "details": {"a": 1}}});
        assert_eq!(
            changed(&[Quirk::OtherCodes], &error, false),
            json!({"error": {"code": "already_exists", "message": "m"}})
        );
        assert_eq!(
            changed(&[Quirk::BareErrors], &error, false),
            json!({"message": "m"})
        );
        assert_eq!(changed(&[Quirk::NoFollow], &error, false), error);
    }

    #[test]
    fn an_event_keeps_its_name_and_its_text() {
        let event =
            Bytes::from_static(b"event: stdout\ndata: {\"text\":\"data: 1\\n\",\"offset\":8}\n\n");
        let got = frame(with(&[Quirk::NumbersAsText]), event);
        assert_eq!(
            got,
            "event: stdout\ndata: {\"offset\":\"8\",\"text\":\"data: 1\\n\"}\n\n"
        );
    }
}
