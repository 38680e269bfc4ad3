//! The words of the wire: routes, headers, error codes and the bodies that client and service
//! exchange. Built without the `client` feature too, for those who write a service.
//!
//! The contract is version 1 of the sandbox API, `/sandbox/v1/…`, as Polyaxon 2.18 speaks it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) mod lenient;

/// The port that the service listens on in a pod.
pub const PORT: u16 = 9090;

/// Where the gateway finds the sandbox of a run:
/// `{prefix}/{namespace}/{owner}/{project}/runs/{run uuid}/{route}`.
pub const GATEWAY_PREFIX: &str = "/sandbox/v1";

/// The prefix of environment names that belong to the platform. The service refuses them.
pub const RESERVED_ENV_PREFIX: &str = "POLYAXON_";

/// Paths of the operations, below the gateway's prefix or at the root of the service.
pub mod route {
    #![expect(missing_docs, reason = "the names are the paths")]
    pub const PING: &str = "ping";
    pub const EXEC: &str = "exec";
    pub const EXEC_STREAM: &str = "exec/stream";
    pub const EXEC_BG: &str = "exec/bg";
    pub const PTY: &str = "pty";
    pub const FS_READ: &str = "fs/read";
    pub const FS_WRITE: &str = "fs/write";
    pub const FS_LS: &str = "fs/ls";
    pub const FS_MKDIR: &str = "fs/mkdir";
    pub const FS_RM: &str = "fs/rm";
    pub const FS_STAT: &str = "fs/stat";
}

/// `text` as one segment of a path: all but unreserved characters is encoded (RFC 3986), a slash
/// too, so that an id never leads elsewhere.
#[cfg(feature = "client")]
pub(crate) fn segment(text: &str) -> String {
    const RESERVED: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');
    percent_encoding::utf8_percent_encode(text, RESERVED).to_string()
}

/// Names of headers, lower case as HTTP libraries want them.
pub mod header {
    /// The token of one run's service. The gateway adds it; direct callers send it themselves.
    pub const SANDBOX_TOKEN: &str = "x-polyaxon-sandbox-token";
    /// On `fs/read`: the offset behind the bytes of this answer.
    pub const NEXT_OFFSET: &str = "x-polyaxon-next-offset";
    /// On `fs/read`: `true` where this answer reaches the end of the file.
    pub const EOF: &str = "x-polyaxon-eof";
    /// The id of the request, in the answer and in the service's log.
    pub const REQUEST_ID: &str = "x-request-id";
}

/// Codes in the error envelope. Others can come; decide on the status then.
pub mod code {
    #![expect(missing_docs, reason = "the codes are the wire's own words")]
    pub const INVALID_REQUEST: &str = "invalid_request";
    pub const RESERVED_ENV_KEY: &str = "reserved_env_key";
    pub const UNAUTHORIZED: &str = "unauthorized";
    pub const FORBIDDEN: &str = "forbidden";
    pub const NOT_FOUND: &str = "not_found";
    pub const CONFLICT: &str = "conflict";
    pub const ALREADY_ATTACHED: &str = "already_attached";
    pub const GONE: &str = "gone";
    pub const PAYLOAD_TOO_LARGE: &str = "payload_too_large";
    pub const RATE_LIMITED: &str = "rate_limited";
    pub const INTERNAL: &str = "internal";
}

/// `{"error": {"code", "message", "details"?}}`, the body of every error of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
#[expect(missing_docs, reason = "see the type")]
pub struct ErrorEnvelope {
    pub error: ErrorBody,
}

/// What an [`ErrorEnvelope`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ErrorBody {
    /// One of [`code`], or a newer one.
    pub code: String,
    /// For people.
    pub message: String,
    /// For programs, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The body of `POST exec`, as a service reads it. Clients build an [`Exec`](crate::Exec).
///
/// Unknown fields are refused; a null is read like an absent field, but for the values of `env`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ExecRequest {
    /// The program and its arguments.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Edits of the environment; null removes a variable.
    #[serde(default)]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// An absolute directory.
    #[serde(default)]
    pub workdir: Option<String>,
    /// The whole input, standard base64.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Milliseconds; 0 is the service's default.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Only for background execs.
    #[serde(default)]
    pub tag: Option<String>,
}

/// The answer to `POST exec`. [`ExecResult`](crate::ExecResult) is what callers get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ExecAnswer {
    /// The id of the record that the service keeps.
    #[serde(default)]
    pub exec_id: String,
    /// 0 to 255, or -1 or null where a signal ended it.
    #[serde(default, deserialize_with = "lenient::opt_i32")]
    pub exit_code: Option<i32>,
    /// Name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Standard output; bytes that are not UTF-8 are U+FFFD.
    #[serde(default)]
    pub stdout: String,
    /// Standard error, likewise.
    #[serde(default)]
    pub stderr: String,
    /// Milliseconds from start to end.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub duration_ms: u64,
    /// Whether the time limit ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether there was more standard output than `stdout` holds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stdout_truncated: bool,
    /// Whether there was more standard error than `stderr` holds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stderr_truncated: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The body of `POST exec/bg/{id}/signal` and of `POST pty/{id}/signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct SignalRequest {
    /// The name of the signal, `SIGTERM`.
    pub signal: String,
}

/// The body of `POST pty`, as a service reads it.
///
/// Unknown fields are refused; a null is read like an absent field, but for the values of `env`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PtyRequest {
    /// The program and its arguments. Default: `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Edits of the environment; null removes a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// An absolute directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Its width in characters. Default: 80.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<i64>,
    /// Its height in lines. Default: 24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// A name of the caller's own, unique among the terminals that the service knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The body of `POST pty/{id}/resize`, as a service reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ResizeRequest {
    /// The new width in characters.
    pub cols: i64,
    /// The new height in lines.
    pub rows: i64,
}

/// The body of `POST fs/mkdir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct MkdirRequest {
    /// The directory to make.
    pub path: String,
    /// Whether missing parents are made, and an existing directory is fine.
    #[serde(default)]
    pub parents: bool,
    /// Octal text.
    #[serde(default = "MkdirRequest::default_mode")]
    pub mode: String,
}

impl MkdirRequest {
    fn default_mode() -> String {
        "0755".to_owned()
    }
}

/// `{"path"}`, the answer to `fs/mkdir` and `fs/rm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PathAnswer {
    /// The cleaned path.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_request_with_an_unknown_field_is_refused_and_a_null_is_like_nothing() {
        let read = |text: &str| serde_json::from_str::<ExecRequest>(text);
        let nulls = r#"{"command":["a"],"env":null,"workdir":null,"stdin":null,"timeout_ms":null,"tag":null}"#;
        assert_eq!(read(nulls).unwrap(), read(r#"{"command":["a"]}"#).unwrap());
        let env = read(r#"{"command":["a"],"env":{"A":"1","B":null}}"#)
            .unwrap()
            .env
            .unwrap();
        assert_eq!(env["A"].as_deref(), Some("1"));
        assert_eq!(env["B"], None);
        let error = read(r#"{"command":["a"],"shell":true}"#).unwrap_err();
        assert!(error.to_string().contains("`shell`"), "{error}");
    }

    #[cfg(feature = "client")]
    #[test]
    fn a_segment_never_leads_elsewhere() {
        assert_eq!(segment("exec-1_a.b~"), "exec-1_a.b~");
        assert_eq!(
            segment("a b/../c?d#é%2F"),
            "a%20b%2F..%2Fc%3Fd%23%C3%A9%252F"
        );
    }

    #[test]
    fn an_answer_writes_flags_and_signal_only_where_they_say_something() {
        let mut answer = ExecAnswer {
            exec_id: "e".into(),
            exit_code: Some(0),
            signal: None,
            stdout: "out".into(),
            stderr: String::new(),
            duration_ms: 3,
            timed_out: false,
            stdout_truncated: false,
            stderr_truncated: false,
        };
        let plain = serde_json::to_string(&answer).unwrap();
        assert_eq!(
            plain,
            r#"{"exec_id":"e","exit_code":0,"stdout":"out","stderr":"","duration_ms":3,"timed_out":false}"#
        );
        answer.signal = Some("SIGKILL".into());
        answer.exit_code = Some(-1);
        answer.stdout_truncated = true;
        let flagged = serde_json::to_value(&answer).unwrap();
        assert_eq!(flagged["signal"], "SIGKILL");
        assert_eq!(flagged["stdout_truncated"], true);
        assert_eq!(flagged.get("stderr_truncated"), None);
    }
}
