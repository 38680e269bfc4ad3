//! The readers of what services and files say, for the targets in `fuzz/`. There only under
//! `cfg(fuzzing)` (and in the crate's own tests, so that they keep it building); no part of the API.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::config::Config;
use crate::error::{Error, InvalidInput};
use crate::transport::{Operation, error_of_answer};

/// What the answer to a call that changes something means, whose status says no.
#[must_use]
pub fn error(status: StatusCode, kind: &[u8], body: &[u8]) -> Error {
    let mut headers = HeaderMap::new();
    if let Ok(kind) = HeaderValue::from_bytes(kind) {
        headers.insert(http::header::CONTENT_TYPE, kind);
    }
    let operation = Operation::post("fuzzing", "/");
    error_of_answer(&operation, status, &headers, &Bytes::copy_from_slice(body))
}

/// The settings in the files `.client` and `.auth`.
///
/// # Errors
/// Where they cannot be used.
pub fn config(client: &str, auth: &str) -> Result<Config, InvalidInput> {
    Config::of_texts(client, auth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Effect;

    #[test]
    fn what_is_fuzzed_is_what_is_used() {
        let refused = error(
            StatusCode::CONFLICT,
            b"application/json",
            br#"{"message":"m"}"#,
        );
        assert_eq!(refused.effect(), Effect::NotApplied);
        let config = config(r#"{"host":"h"}"#, r#"{"token":"t-1"}"#).unwrap();
        assert_eq!(config.host_url().as_str(), "http://h/");
        assert!(config.token_origin().is_some());
    }
}
