//! Bodies of requests, read within a limit.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// How much of a body that is too large is read and dropped, so that a caller who is still
/// sending gets the answer instead of a broken connection.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The whole body, at most `limit` bytes.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let mut collected = BytesMut::with_capacity(announced.unwrap_or(0).min(limit));
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Refusal::invalid("the body broke off"))?;
        if collected.len() + chunk.len() > limit {
            drop(collected);
            let drain = async {
                let mut left = DRAIN_BYTES;
                while let Some(Ok(chunk)) = chunks.next().await {
                    left = left.saturating_sub(chunk.len());
                    if left == 0 {
                        break;
                    }
                }
            };
            let _in_time = tokio::time::timeout(DRAIN_TIME, drain).await;
            return Err(Refusal::too_large(limit));
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}

/// A JSON object. Unknown fields are refused by `T`; a null at the top is read as nothing; the
/// content type is not looked at.
pub(crate) async fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<T, Refusal> {
    let bytes = bytes(headers, body, limit).await?;
    parse(&bytes)
}

/// A JSON object, as [`json`] reads it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let malformed = |error: serde_json::Error| Refusal::invalid(format!("body: {error}"));
    let mut object: Map<String, Value> = serde_json::from_slice(bytes).map_err(malformed)?;
    object.retain(|_, value| !value.is_null());
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        Refusal::invalid(match path.as_str() {
            "." => format!("body: {cause}"),
            field => format!("{field}: {cause}"),
        })
    })
}

#[cfg(test)]
mod tests {
    use polyaxon_sandbox::wire::{ExecRequest, MkdirRequest};

    use super::*;

    #[test]
    fn a_null_at_the_top_is_nothing_and_below_it_means_itself() {
        let read: MkdirRequest = parse(br#"{"path":"/a","parents":null,"mode":null}"#).unwrap();
        assert_eq!((read.parents, read.mode.as_str()), (false, "0755"));
        let read: ExecRequest =
            parse(br#"{"command":["a"],"env":{"A":null},"stdin":null}"#).unwrap();
        assert_eq!(read.env.unwrap()["A"], None);
        assert_eq!(read.stdin, None);
    }

    #[test]
    fn what_is_not_one_json_object_of_known_fields_is_refused() {
        let refused: [&[u8]; 9] = [
            b"",
            b"{",
            b"[]",
            b"null",
            b"{\"command\":[\"a\"]} x",
            b"{\"command\":[\"a\"],\"shell\":true}",
            b"{\"command\":\"a\"}",
            b"{\"timeout_ms\":1.5}",
            b"{\"command\":[\"\xff\"]}",
        ];
        for body in refused {
            parse::<ExecRequest>(body).unwrap_err();
        }
    }
}
