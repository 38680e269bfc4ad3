//! JSON bodies of requests.

use axum::body::Body;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Result;
use crate::control::Problem;
use crate::daemon::body;

/// The largest JSON body. The platform has no limit of its own; this keeps memory bounded.
const BODY_BYTES: usize = 32 * 1024 * 1024;

/// The body as JSON; none at all counts as an empty object.
pub(super) async fn value(headers: &HeaderMap, body: Body) -> Result<Value> {
    let bytes = body::bytes(headers, body, BODY_BYTES).await.map_err(|_| {
        let detail = format!("The body broke off or is larger than {BODY_BYTES} bytes.");
        Problem::detail(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })?;
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        Problem::detail(
            StatusCode::BAD_REQUEST,
            format!("JSON parse error - {error}"),
        )
    })
}

/// The body, a JSON object; none at all counts as an empty one.
pub(super) async fn object(headers: &HeaderMap, body: Body) -> Result<Map<String, Value>> {
    match value(headers, body).await? {
        Value::Object(members) => Ok(members),
        _ => Err(Problem::field(
            "non_field_errors",
            "Invalid data. Expected a dictionary.",
        )),
    }
}

/// The member `name`, where it is there and not null.
pub(super) fn member<T: DeserializeOwned>(
    body: &Map<String, Value>,
    name: &str,
    problem: &str,
) -> Result<Option<T>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|_| Problem::field(name, problem)),
    }
}
