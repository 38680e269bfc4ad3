//! What became of a run's values.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// What was written of a run when it ended, and what was not.
#[derive(Debug)]
#[must_use = "what could not be written is said here and nowhere else"]
pub struct Report {
    pub(crate) written: u64,
    pub(crate) unwritten: Vec<Unwritten>,
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

    /// An error where anything could not be written.
    ///
    /// # Errors
    /// [`Error::Incomplete`], with the report.
    pub fn ensure_complete(self) -> Result<Self, Error> {
        match self.unwritten.is_empty() {
            true => Ok(self),
            false => Err(Error::Incomplete {
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
    /// The latest state of `run.plx.json`.
    Record,
    /// The latest state of `lineages.plx.json`.
    Lineages,
}
