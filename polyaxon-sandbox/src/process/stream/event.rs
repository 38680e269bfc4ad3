//! What a command does, as it is given out.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::super::background::{ExecStarted, ExecStatus, LogStream};
use super::super::result::Termination;
use crate::error::Error;

/// One thing that a command did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// It runs. First of all where a stream begins with the command; not where following begins
    /// later.
    Started(ExecStarted),
    /// It wrote something.
    Output(Chunk),
    /// It has ended. Always last.
    Complete(Completion),
    /// Any other event of a newer service.
    #[non_exhaustive]
    Other {
        /// Its name.
        name: String,
        /// Its data.
        data: Value,
    },
}

/// A piece of what a command wrote to one of its outputs.
///
/// The service sends output as text. Where [`lossy`](Self::lossy) is false, `bytes` are exactly the
/// bytes `start..end` of that output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Which output.
    pub stream: LogStream,
    /// What it wrote. It can share memory with other pieces: who keeps few bytes of many for long
    /// copies them.
    pub bytes: Bytes,
    /// Its position in the output, in bytes of what the command wrote.
    pub start: u64,
    /// The position behind it, likewise.
    pub end: u64,
    /// Whether some bytes were not UTF-8: each has become U+FFFD on the way, and `bytes` is longer
    /// than `start..end`.
    pub lossy: bool,
}

impl Chunk {
    /// The piece as text. A character is never cut in two.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// What ended it.
    pub termination: Termination,
    /// How long it ran, by the service's clock.
    pub duration: Duration,
}

impl Completion {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.termination == Termination::Exited(0)
    }

    /// What the record of an exec says that is over.
    pub(crate) fn of(status: &ExecStatus) -> Result<Self, Error> {
        use super::super::background::ExecState;
        let timed_out = status.state == ExecState::TimedOut;
        let known = !matches!(status.state, ExecState::Orphaned | ExecState::FailedToStart);
        let termination = known
            .then(|| Termination::read(status.exit_code, status.signal.clone(), timed_out))
            .flatten()
            .ok_or_else(|| Error::EndUnknown {
                exec_id: status.exec_id.clone(),
                state: status.state.clone(),
            })?;
        Ok(Self {
            termination,
            duration: Duration::from_millis(status.duration_ms.unwrap_or_default()),
        })
    }
}
