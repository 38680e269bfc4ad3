//! What can go wrong with a sandbox.

use std::io;
#[cfg(feature = "client")]
use std::time::Duration;

#[cfg(feature = "client")]
use polyaxon_client::runs::{Run, RunStatus};
use polyaxon_client::{Effect, InvalidInput, RunUuid};

#[cfg(feature = "client")]
use crate::fs::FileError;
#[cfg(feature = "client")]
use crate::process::{ExecId, ExecResult, ExecState, Interrupted, OutputError, unsuccessful};
#[cfg(feature = "client")]
use crate::pty::PtyId;
#[cfg(feature = "client")]
use crate::resolve::Lookup;

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
    /// A call failed that may have had an effect, or had one whose result is lost. What it did can
    /// be found out: [`SandboxClient::resolve`](crate::SandboxClient::resolve).
    #[cfg(feature = "client")]
    #[error(transparent)]
    Uncertain(Box<Uncertain>),
    /// What a command does could not be followed to its end. Nothing is known of that end.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Interrupted(Box<Interrupted>),
    /// A command was waited for, and did not end within the limit. It goes on.
    #[cfg(feature = "client")]
    #[error("exec {exec_id} is still {state} after {waited:.1?}")]
    #[non_exhaustive]
    StillRunning {
        /// The exec.
        exec_id: ExecId,
        /// Its last known state.
        state: ExecState,
        /// How long it was waited for.
        waited: Duration,
        /// The last failure to ask for it, if any.
        source: Option<Box<Self>>,
    },
    /// A command is over, and the service does not know how it ended: it was restarted meanwhile,
    /// or says a state without an exit code.
    #[cfg(feature = "client")]
    #[error("how exec {exec_id} ended is not known: it is {state}")]
    #[non_exhaustive]
    EndUnknown {
        /// The exec.
        exec_id: ExecId,
        /// What the service says.
        state: ExecState,
    },
    /// A durable exec was to be gone on with, and is not there: it was never started, or its record
    /// was deleted.
    #[cfg(feature = "client")]
    #[error("there is no command with the tag {tag}")]
    #[non_exhaustive]
    NotStarted {
        /// Its tag.
        tag: String,
    },
    /// Something on this side failed: writing to what the caller gave, or a local file.
    #[error("{doing}")]
    #[non_exhaustive]
    Local {
        /// What was being done, as a half sentence.
        doing: String,
        /// What the service can have done until then.
        effect: Effect,
        /// The cause.
        source: io::Error,
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
    /// Work on files came to nothing, and not because a call failed.
    #[cfg(feature = "client")]
    #[error(transparent)]
    File(#[from] FileError),
    /// No sandbox fits what was asked for.
    #[cfg(feature = "client")]
    #[error("there is no sandbox {wanted}")]
    #[non_exhaustive]
    NoSandbox {
        /// What was asked for, in words.
        wanted: String,
    },
    /// Several sandboxes fit what was asked for, and one was wanted.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Ambiguous(Box<Ambiguous>),
    /// A terminal was created, and could not be attached to. It lives until it is deleted, or has
    /// been left alone for long.
    #[cfg(feature = "client")]
    #[error("terminal {pty_id} was created and could not be attached to")]
    #[non_exhaustive]
    NotAttached {
        /// The terminal that exists.
        pty_id: PtyId,
        /// What went wrong after that.
        source: Box<Self>,
    },
    /// The connection to a terminal ended, and the program in it may run on: ask
    /// [`Ptys::get`](crate::pty::Ptys::get), and attach again.
    #[cfg(feature = "client")]
    #[error("the connection to terminal {pty_id} is gone; its program may run on")]
    #[non_exhaustive]
    Detached {
        /// The terminal.
        pty_id: PtyId,
        /// What was done with what was being written; *not applied* for reading.
        effect: Effect,
        /// Why.
        source: polyaxon_client::BoxError,
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
            Self::Local { effect, .. } => *effect,
            #[cfg(feature = "client")]
            Self::Uncertain(uncertain) => uncertain.source.effect(),
            #[cfg(feature = "client")]
            Self::Interrupted(interrupted) => interrupted.effect(),
            // Waiting changes nothing.
            #[cfg(feature = "client")]
            Self::StillRunning { .. } | Self::NotStarted { .. } => Effect::NotApplied,
            #[cfg(feature = "client")]
            Self::NoSandbox { .. } | Self::Ambiguous(_) => Effect::NotApplied,
            #[cfg(feature = "client")]
            Self::EndUnknown { .. } => Effect::Unknown,
            #[cfg(feature = "client")]
            Self::File(error) => error.effect(),
            #[cfg(feature = "client")]
            Self::Detached { effect, .. } => *effect,
            #[cfg(feature = "client")]
            Self::Output(_) | Self::Unsuccessful(_) | Self::NotAttached { .. } => Effect::Applied,
            Self::Launch { .. } | Self::Protocol { .. } => Effect::Applied,
        }
    }

    /// Whether the same call can do better a little later. Says nothing about whether it is safe
    /// to send again: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            #[cfg(feature = "client")]
            Self::Uncertain(uncertain) => uncertain.source.is_retryable(),
            #[cfg(feature = "client")]
            Self::Interrupted(interrupted) => interrupted.source.is_retryable(),
            #[cfg(feature = "client")]
            Self::StillRunning { .. } => true,
            _ => false,
        }
    }

    /// The service's code for the error, where it gave one: `not_found`, `conflict`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Client(error) => error.code(),
            #[cfg(feature = "client")]
            Self::Uncertain(uncertain) => uncertain.source.code(),
            #[cfg(feature = "client")]
            Self::Interrupted(interrupted) => interrupted.source.code(),
            _ => None,
        }
    }

    /// What to look for to find out what the call did, where the wire has something to look for:
    /// see [`SandboxClient::resolve`](crate::SandboxClient::resolve).
    #[cfg(feature = "client")]
    #[must_use]
    pub fn lookup(&self) -> Option<Lookup> {
        match self {
            Self::Uncertain(uncertain) => Some(uncertain.lookup.clone()),
            Self::Interrupted(interrupted) => {
                let exec_id = interrupted.exec_id.clone()?;
                Some(Lookup::Exec { exec_id })
            }
            Self::EndUnknown { exec_id, .. } => {
                let exec_id = exec_id.clone();
                Some(Lookup::Exec { exec_id })
            }
            _ => None,
        }
    }

    /// The same error with what to look for, unless it says that nothing was done.
    #[cfg(feature = "client")]
    pub(crate) fn uncertain(self, lookup: Lookup) -> Self {
        match self.effect() {
            Effect::NotApplied => self,
            Effect::Applied | Effect::Unknown => {
                let source = self;
                Self::Uncertain(Box::new(Uncertain { source, lookup }))
            }
        }
    }

    /// The status that the service itself answered with, and not a gateway before it. Its code can
    /// be another one than those that are known.
    #[cfg(feature = "client")]
    pub(crate) fn service_status(&self) -> Option<u16> {
        match self.as_client()? {
            polyaxon_client::Error::Api(answer) if !answer.is_from_gateway() => {
                Some(answer.status().as_u16())
            }
            _ => None,
        }
    }

    /// The answer that said no, or its absence: what is below the other variants.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn as_client(&self) -> Option<&polyaxon_client::Error> {
        match self {
            Self::Client(error) => Some(error),
            Self::Uncertain(uncertain) => uncertain.source.as_client(),
            Self::Interrupted(interrupted) => interrupted.source.as_client(),
            Self::Launch { source, .. } | Self::NotAttached { source, .. } => source.as_client(),
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

/// Several sandboxes where one was wanted.
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{} sandboxes are {wanted}: {}", candidates.len(), named(candidates))]
#[non_exhaustive]
pub struct Ambiguous {
    /// What was asked for, in words.
    pub wanted: String,
    /// Those that fit, the newest first.
    pub candidates: Vec<Run>,
}

/// The first of them by id, name and status.
#[cfg(feature = "client")]
fn named(candidates: &[Run]) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<String> = candidates
        .iter()
        .take(SHOWN)
        .map(|run| {
            let name = run.name.as_deref().unwrap_or("no name");
            let status = run.status.as_ref().map_or("no status", RunStatus::as_str);
            format!("{} ({name}, {status})", run.uuid)
        })
        .collect();
    if candidates.len() > SHOWN {
        names.push(format!("and {} more", candidates.len() - SHOWN));
    }
    names.join(", ")
}

impl From<InvalidInput> for Error {
    fn from(error: InvalidInput) -> Self {
        Self::Client(error.into())
    }
}

/// A failed call, with what to look for to find out what it did. It reads as the failure itself.
#[cfg(feature = "client")]
#[derive(Debug)]
#[non_exhaustive]
pub struct Uncertain {
    /// What failed.
    pub source: Error,
    /// What to look for.
    pub lookup: Lookup,
}

#[cfg(feature = "client")]
impl std::fmt::Display for Uncertain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

#[cfg(feature = "client")]
impl std::error::Error for Uncertain {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Its own text is that of the failure, whose cause comes next.
        self.source.source()
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Error>();
};
