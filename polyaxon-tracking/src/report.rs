//! What became of a run's values.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyaxon_client::runs::RunStatus;

use crate::error::Error;

/// What was written of a run when it ended, and what was not.
#[derive(Debug)]
#[must_use = "what could not be written is said here and nowhere else"]
pub struct Report {
    pub(crate) written: u64,
    pub(crate) unwritten: Vec<Unwritten>,
    pub(crate) sent: u64,
    pub(crate) unsent: Vec<Unsent>,
}

impl Report {
    /// How many values of metrics are in their files. They are with the operating system: whether
    /// they outlive a loss of power is up to that.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What was taken and could not be written.
    #[must_use]
    pub fn unwritten(&self) -> &[Unwritten] {
        &self.unwritten
    }

    /// How many calls the server took, files that were uploaded included. None offline.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What was taken and the server did not get. It is in the run's folder all the same, which
    /// [`push`](crate::push) can send later.
    #[must_use]
    pub fn unsent(&self) -> &[Unsent] {
        &self.unsent
    }

    /// How many parts are missing, in the folder or at the server.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.unwritten.len() + self.unsent.len()
    }

    /// An error where anything could not be written or sent.
    ///
    /// # Errors
    /// [`Error::Incomplete`], with the report.
    pub fn ensure_complete(self) -> Result<Self, Error> {
        match self.missing() {
            0 => Ok(self),
            _ => Err(Error::Incomplete {
                report: Box::new(self),
            }),
        }
    }
}

/// Something that could not be written.
#[derive(Debug)]
pub struct Unwritten {
    pub(crate) what: Missing,
    pub(crate) path: PathBuf,
    pub(crate) cause: io::Error,
}

impl Unwritten {
    /// What it is.
    #[must_use]
    pub fn what(&self) -> Missing {
        self.what
    }

    /// The file that it was to be written to, or read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the operating system says.
    #[must_use]
    pub fn cause(&self) -> &io::Error {
        &self.cause
    }
}

/// What is missing of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// So many values of a metric. Of the first of them, a part may be in the file.
    Values(u64),
    /// The lineage record of a metric: its event file could not be read again.
    Summary,
    /// The hash of an artifact: its record is there, without one.
    Hash,
    /// A file or folder that was to be copied into the run.
    Copy,
    /// The latest state of `run.plx.json`.
    Record,
    /// The latest state of `lineages.plx.json`.
    Lineages,
}

/// Something that the server did not get.
#[derive(Clone, Debug)]
pub struct Unsent {
    pub(crate) what: Sending,
    pub(crate) cause: Option<Arc<polyaxon_client::Error>>,
}

impl Unsent {
    /// Whether it is the file at this path.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        matches!(&self.what, Sending::File(file) if file == path)
    }

    /// The cause, in words for a log.
    pub(crate) fn why(&self) -> Option<String> {
        Some(match self.cause()? {
            polyaxon_client::Error::InvalidInput(input) => input.to_string(),
            error => error.to_string(),
        })
    }

    /// What it is.
    #[must_use]
    pub fn what(&self) -> &Sending {
        &self.what
    }

    /// What the server had against it, why it cannot be reached, or why the file cannot be read; none
    /// where the time was up before there was an answer.
    #[must_use]
    pub fn cause(&self) -> Option<&polyaxon_client::Error> {
        self.cause.as_deref()
    }
}

/// What is sent of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sending {
    /// A change of its record: of these members.
    Record(Vec<String>),
    /// The lineage records of these names.
    Lineage(Vec<String>),
    /// A status.
    Status(RunStatus),
    /// A file, by its path below the run's folder.
    File(String),
}
