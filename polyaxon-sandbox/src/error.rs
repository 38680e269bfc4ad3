//! What can go wrong with a sandbox.

use polyaxon_client::{Effect, InvalidInput, RunUuid};

#[cfg(feature = "client")]
use crate::process::{ExecResult, OutputError, Termination};

/// Why a call on a sandbox came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call failed.
    #[error(transparent)]
    Client(#[from] polyaxon_client::Error),
    /// The run was created, but did not become a sandbox in time. It may be running, and costs
    /// until it is stopped or its time limit ends it.
    #[error("run {run} was created but is not ready as a sandbox")]
    #[non_exhaustive]
    Launch {
        /// The run that exists.
        run: RunUuid,
        /// What went wrong after that.
        source: Box<Self>,
    },
    /// The output of a command cannot be read as a whole.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A command did not succeed, and [`ExecResult::ensure_success`] was asked to mind.
    #[cfg(feature = "client")]
    #[error("{}", unsuccessful(.0))]
    Unsuccessful(Box<ExecResult>),
    /// The service says that it wrote another number of bytes than it was sent.
    #[error("{written} of {sent} bytes were written to {path}")]
    #[non_exhaustive]
    ShortWrite {
        /// The file.
        path: String,
        /// How many bytes were sent.
        sent: u64,
        /// How many the service says it wrote.
        written: u64,
    },
    /// An answer was complete, but does not mean anything.
    #[error("the answer to {operation} makes no sense: {problem}")]
    #[non_exhaustive]
    Protocol {
        /// The call.
        operation: &'static str,
        /// What is wrong.
        problem: String,
    },
}

impl Error {
    /// What the service can have done with the call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::Client(error) => error.effect(),
            Self::ShortWrite { .. } => Effect::Unknown,
            #[cfg(feature = "client")]
            Self::Output(_) | Self::Unsuccessful(_) => Effect::Applied,
            Self::Launch { .. } | Self::Protocol { .. } => Effect::Applied,
        }
    }

    /// Whether the same call can do better a little later. Says nothing about whether it is safe
    /// to send again: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// The service's code for the error, where it gave one: `not_found`, `conflict`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Client(error) => error.code(),
            _ => None,
        }
    }

    /// The HTTP status of the answer, where there was one. Services agree on it more than on codes.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn status(&self) -> Option<http::StatusCode> {
        match self {
            Self::Client(error) => error.status(),
            _ => None,
        }
    }

    /// The run that a failed launch has left behind.
    #[must_use]
    pub fn run_uuid(&self) -> Option<RunUuid> {
        match self {
            Self::Launch { run, .. } => Some(*run),
            _ => None,
        }
    }
}

impl From<InvalidInput> for Error {
    fn from(error: InvalidInput) -> Self {
        Self::Client(error.into())
    }
}

#[cfg(feature = "client")]
fn unsuccessful(result: &ExecResult) -> String {
    let how = match &result.termination {
        Termination::Exited(code) => format!("exited with {code}"),
        Termination::Signaled(signal) => format!("was killed by {signal}"),
        Termination::TimedOut => {
            format!("was killed at its time limit after {:.1?}", result.duration)
        }
    };
    let stderr = result.stderr.text_lossy();
    match stderr.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!(
            "the command {how}: {}",
            line.chars().take(200).collect::<String>()
        ),
        None => format!("the command {how}"),
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Error>();
};
