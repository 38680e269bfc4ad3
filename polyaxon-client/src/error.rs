//! What can go wrong, and what a failed call may have done all the same.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::ids::RunUuid;
use crate::runs::RunStatus;

/// A cause of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What the server can have done with a call that failed.
///
/// | what happened | effect of a mutating call |
/// |---|---|
/// | refused before sending: input, DNS, connect, TLS | [`NotApplied`](Self::NotApplied) |
/// | 4xx or 429 with the service's own JSON envelope | [`NotApplied`](Self::NotApplied) |
/// | 5xx with the envelope | [`Unknown`](Self::Unknown), but not applied where the details say so |
/// | error page of a gateway, 502, 503, 504 | [`Unknown`](Self::Unknown) once a byte was sent |
/// | broken, cut or timed out after the first byte | [`Unknown`](Self::Unknown) |
/// | 2xx whose body does not parse | [`Applied`](Self::Applied) |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the three cases are complete")]
pub enum Effect {
    /// The call has changed nothing; it may be sent again.
    NotApplied,
    /// The call was carried out; only its answer is of no use.
    Applied,
    /// Nobody here can know. Look before you repeat.
    Unknown,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotApplied => "not applied",
            Self::Applied => "applied",
            Self::Unknown => "effect unknown",
        })
    }
}

/// A value that cannot be used, refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidInput {
    field: &'static str,
    problem: String,
}

impl InvalidInput {
    /// The `problem` with the value of `field`, as a half sentence: `"is empty"`.
    #[must_use]
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }

    /// The name of the field whose value was refused.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl From<std::convert::Infallible> for InvalidInput {
    /// Lets a function take "anything that can become a path", a path included.
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// An answer of the service, or of a gateway before it, that says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} was answered with {status}{}", said(code.as_deref(), message.as_deref()))]
pub struct ApiError {
    pub(crate) operation: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) details: Option<serde_json::Value>,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) from_gateway: bool,
    pub(crate) effect: Effect,
}

fn said(code: Option<&str>, message: Option<&str>) -> String {
    match (code, message) {
        (Some(code), Some(message)) => format!(": {message} ({code})"),
        (Some(code), None) => format!(" ({code})"),
        (None, Some(message)) => format!(": {message}"),
        (None, None) => String::new(),
    }
}

impl ApiError {
    /// The call, as its documentation names it: `process.exec`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The service's own code: `not_found`, `conflict`, `rate_limited` and so on.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// What the answer says to people. At most 1 KiB, and no HTML.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The `details` of the envelope.
    #[must_use]
    pub fn details(&self) -> Option<&serde_json::Value> {
        self.details.as_ref()
    }

    /// `X-Request-Id` of the answer, which the service's own log has too.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// How long the answer asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether a proxy in front of the service made the answer, and not the service.
    #[must_use]
    pub fn is_from_gateway(&self) -> bool {
        self.from_gateway
    }
}

/// Why a call, or a wait, came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used.
    #[error("the configuration cannot be used")]
    Config(#[source] BoxError),
    /// An argument cannot be used. Nothing was sent, or of a file that cannot be read to its end only a
    /// part.
    #[error("an argument cannot be used")]
    InvalidInput(#[source] InvalidInput),
    /// No token could be had to send the call with. Nothing was sent.
    #[error("there is no token to send")]
    Token(#[source] BoxError),
    /// The service, or a gateway before it, answered with an error.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// No complete answer came.
    #[error("{operation} got no answer from {host}")]
    #[non_exhaustive]
    Transport {
        /// The call that failed.
        operation: &'static str,
        /// Host and port that were called.
        host: String,
        /// What the service can have done with it.
        effect: Effect,
        /// The cause, without URL and token.
        source: BoxError,
    },
    /// A success was answered, but its body is not what it should be.
    #[error("the answer to {operation} cannot be read at `{at}`")]
    #[non_exhaustive]
    Decode {
        /// The call whose answer it was.
        operation: &'static str,
        /// Where in the JSON document.
        at: String,
        /// The cause.
        source: BoxError,
    },
    /// A file of this machine cannot be written. The server was only read from.
    #[error("{} cannot be written", path.display())]
    #[non_exhaustive]
    Disk {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        source: BoxError,
    },
    /// A run that was waited for has ended.
    #[error("run {run} has ended as {status}{}", said(reason.as_deref(), message.as_deref()))]
    #[non_exhaustive]
    RunEnded {
        /// The run.
        run: RunUuid,
        /// Its final status.
        status: RunStatus,
        /// The reason of the last condition.
        reason: Option<String>,
        /// The message of the last condition.
        message: Option<String>,
    },
    /// A run was created, and has ended before it could start: it could not be compiled.
    #[error("run {run} was created, and has ended as {status}{}", said(reason.as_deref(), message.as_deref()))]
    #[non_exhaustive]
    CreatedRunEnded {
        /// The run.
        run: RunUuid,
        /// Its final status.
        status: RunStatus,
        /// The reason of the last condition.
        reason: Option<String>,
        /// The message of the last condition.
        message: Option<String>,
    },
    /// A run was created, and whether it could be compiled cannot be read.
    #[error("run {run} was created, and what became of it cannot be read")]
    #[non_exhaustive]
    CreatedRunUnread {
        /// The run.
        run: RunUuid,
        /// Why not.
        source: Box<Self>,
    },
    /// A run did not come as far as it should within the limit.
    #[error("run {run} is still {last} after {waited:.1?}{hint}")]
    #[non_exhaustive]
    WaitTimedOut {
        /// The run.
        run: RunUuid,
        /// Its last known status.
        last: RunStatus,
        /// How long it was waited for.
        waited: Duration,
        /// What else is known, in a half sentence that starts with a separator, or nothing.
        hint: String,
        /// The last failure while waiting, if any.
        source: Option<Box<Self>>,
    },
}

impl Error {
    /// What the service can have done with the call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::Config(_) | Self::InvalidInput(_) | Self::Token(_) | Self::Disk { .. } => {
                Effect::NotApplied
            }
            Self::Api(error) => error.effect,
            Self::Transport { effect, .. } => *effect,
            Self::Decode { .. } | Self::CreatedRunEnded { .. } | Self::CreatedRunUnread { .. } => {
                Effect::Applied
            }
            // A wait changes nothing by itself.
            Self::RunEnded { .. } | Self::WaitTimedOut { .. } => Effect::NotApplied,
        }
    }

    /// Whether the same call can do better a little later. Says nothing about whether it is safe
    /// to send again: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Api(error) => {
                let status = error.status.as_u16();
                (matches!(status, 408 | 429 | 500 | 502 | 503 | 504) && !error.is_for_good())
                    || error.is_busy_community_server()
            }
            Self::Transport { .. } | Self::WaitTimedOut { .. } => true,
            _ => false,
        }
    }

    /// The HTTP status of the answer, where there was one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Api(error) => Some(error.status),
            _ => None,
        }
    }

    /// The service's code for the error, where it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Api(error) => error.code(),
            _ => None,
        }
    }
}

impl ApiError {
    /// What a sandbox service has dropped of an output, it will not have later either.
    fn is_for_good(&self) -> bool {
        let kind = self
            .details
            .as_ref()
            .and_then(|details| details.get("kind"));
        kind.is_some_and(|kind| kind == "output_dropped")
    }

    /// The community edition answers 405 with an empty HTML body where its database was locked.
    fn is_busy_community_server(&self) -> bool {
        self.status == StatusCode::METHOD_NOT_ALLOWED && self.from_gateway && self.message.is_none()
    }
}

impl From<InvalidInput> for Error {
    fn from(error: InvalidInput) -> Self {
        Self::InvalidInput(error)
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(Box::new(error))
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Error>();
};
