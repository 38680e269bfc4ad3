//! An operation that the daemon does not carry out, and the envelope that says so.

use std::io;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use polyaxon_sandbox::pty::PtyId;
use polyaxon_sandbox::wire::{ErrorBody, ErrorEnvelope, code};
use serde_json::{Value, json};

/// What a caller is told, and what only the log is told.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Option<Value>,
    inside: Option<io::Error>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            details: None,
            inside: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, message)
    }

    pub(crate) fn reserved_env_key(key: &str) -> Self {
        let message = format!("env: {key:?} is reserved for the platform");
        Self::new(StatusCode::BAD_REQUEST, code::RESERVED_ENV_KEY, message)
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "the sandbox token is missing or wrong";
        Self::new(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code::CONFLICT, message)
    }

    pub(crate) fn already_attached(pty: &PtyId) -> Self {
        let message = format!("pty {pty} has a client already");
        Self::new(StatusCode::CONFLICT, code::ALREADY_ATTACHED, message)
    }

    pub(crate) fn gone(pty: &PtyId) -> Self {
        let message = format!("pty {pty} has exited");
        Self::new(StatusCode::GONE, code::GONE, message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            code::PAYLOAD_TOO_LARGE,
            message,
        )
    }

    /// Too many of `what` at once; the answer says to come back in a second.
    pub(crate) fn rate_limited(what: &str, limit: usize) -> Self {
        let message = format!("{limit} {what} run already, which is the limit");
        Self::new(StatusCode::TOO_MANY_REQUESTS, code::RATE_LIMITED, message)
            .details(json!({"retry_after_ms": 1000}))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, message)
    }

    /// What the caller is told.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// A file operation on `path` that the system refused.
    pub(crate) fn file(path: &str, error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let say = |problem: &str| format!("{path}: {problem}");
        match error.kind() {
            Kind::NotFound => Self::not_found(say("no such file or directory")),
            Kind::PermissionDenied if error.raw_os_error().is_none() => {
                Self::forbidden(say("leads out of the sandbox"))
            }
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
                Self::forbidden(say("permission denied"))
            }
            Kind::CrossesDevices => Self::forbidden(say("leads out of the sandbox")),
            Kind::AlreadyExists => Self::conflict(say("exists already")),
            Kind::NotADirectory => Self::conflict(say("is not a directory, or below a file")),
            Kind::IsADirectory => Self::conflict(say("is a directory")),
            Kind::DirectoryNotEmpty => Self::conflict(say("the directory is not empty")),
            Kind::InvalidFilename => Self::invalid(say("the name is too long")),
            Kind::StorageFull | Kind::QuotaExceeded => Self::internal(say("no space is left")),
            Kind::FileTooLarge => Self::internal(say("the file would be too large")),
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                Self::conflict(say("too many symbolic links"))
            }
            // A socket, a device without a driver, or a FIFO without a reader.
            _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                Self::conflict(say("is not a regular file"))
            }
            _ => {
                let mut refusal = Self::internal(say("the file operation failed"));
                refusal.inside = Some(error);
                refusal
            }
        }
    }

    /// What is said where there is no status: in a frame.
    pub(crate) fn into_code_and_message(self) -> (&'static str, String) {
        (self.code, self.message)
    }

    /// What went wrong inside, for the log only.
    pub(crate) fn because(mut self, error: io::Error) -> Self {
        self.inside = Some(error);
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        tracing::debug!(
            status = self.status.as_u16(),
            code = self.code,
            message = self.message,
            inside = self.inside.map(tracing::field::display),
            "refused"
        );
        let limited = self.status == StatusCode::TOO_MANY_REQUESTS;
        let body = ErrorEnvelope {
            error: ErrorBody {
                code: self.code.to_owned(),
                message: self.message,
                details: self.details,
            },
        };
        let mut response = (self.status, Json(body)).into_response();
        if limited {
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_about_a_file_becomes_a_status_of_the_wire() {
        use rustix::io::Errno;
        let table = [
            (Errno::NOENT, 404, code::NOT_FOUND),
            (Errno::ACCESS, 403, code::FORBIDDEN),
            (Errno::PERM, 403, code::FORBIDDEN),
            (Errno::ROFS, 403, code::FORBIDDEN),
            (Errno::XDEV, 403, code::FORBIDDEN),
            (Errno::EXIST, 409, code::CONFLICT),
            (Errno::NOTDIR, 409, code::CONFLICT),
            (Errno::ISDIR, 409, code::CONFLICT),
            (Errno::NOTEMPTY, 409, code::CONFLICT),
            (Errno::LOOP, 409, code::CONFLICT),
            (Errno::NXIO, 409, code::CONFLICT),
            (Errno::NAMETOOLONG, 400, code::INVALID_REQUEST),
            (Errno::NOSPC, 500, code::INTERNAL),
            (Errno::IO, 500, code::INTERNAL),
        ];
        for (errno, status, code) in table {
            let refusal = Refusal::file("/x", errno.into());
            assert_eq!(
                (refusal.status.as_u16(), refusal.code),
                (status, code),
                "{errno:?}"
            );
            assert!(refusal.message.starts_with("/x: "), "{}", refusal.message);
        }
        let escape = io::Error::new(io::ErrorKind::PermissionDenied, "a path led outside");
        let refusal = Refusal::file("/x", escape);
        assert_eq!(refusal.status, StatusCode::FORBIDDEN);
        assert_eq!(refusal.message, "/x: leads out of the sandbox");
    }
}
