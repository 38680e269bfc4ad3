//! The error of output that could not be followed to its end.

use std::fmt;

use polyaxon_client::Effect;

use super::cursor::Cursor;
use super::id::ExecId;
use crate::error::Error;

/// Where following a command broke off. The command may go on, may have ended, or, where it has no
/// id, may never have run.
///
/// With an id nothing is lost: its record can be followed
/// from [`cursor`](Self::cursor) on, and asked how the command ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interrupted {
    /// The exec, where the service has said its id.
    pub exec_id: Option<ExecId>,
    /// What was given out before.
    pub cursor: Cursor,
    /// Whether the sandbox answered a ping after the stream had been silent; `None` where that was
    /// not asked.
    pub sandbox_answers: Option<bool>,
    /// What happened.
    pub source: Error,
    /// Whether following is all that was asked for, and so nothing was done.
    pub(crate) only_read: bool,
}

impl Interrupted {
    /// What the service can have done: nothing is known of a command whose stream broke off,
    /// while following one that runs anyway does nothing to it.
    pub(crate) fn effect(&self) -> Effect {
        match self.only_read {
            true => Effect::NotApplied,
            false => Effect::Unknown,
        }
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { stdout, stderr } = self.cursor;
        match &self.exec_id {
            Some(id) => write!(
                f,
                "exec {id} was followed to byte {stdout} of stdout and {stderr} of stderr"
            )?,
            None => write!(f, "a command was not followed to its start")?,
        }
        match self.sandbox_answers {
            Some(true) => write!(f, "; the sandbox still answers"),
            Some(false) => write!(f, "; the sandbox does not answer either"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Interrupted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
