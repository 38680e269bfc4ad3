//! What can go wrong with a tracked run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyaxon_client::RunUuid;

use crate::kind::ArtifactKind;
use crate::name::NameUse;

/// Why something was not taken, or not written.
///
/// A logging call that returns an error has changed nothing: of a batch, no value was taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name cannot be used as it is or once it is cleaned.
    #[error("the name {name:?} cannot be used: {problem}")]
    #[non_exhaustive]
    InvalidName {
        /// The name as it was given.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two things would be stored under one name, and the later would hide the earlier.
    #[error("{used} {name:?} would be stored as {stored:?}, as {taken_by} {taken:?} is already")]
    #[non_exhaustive]
    NameCollision {
        /// The name that was refused.
        name: String,
        /// What it was to name.
        used: NameUse,
        /// The name that was there first.
        taken: String,
        /// What that one names.
        taken_by: NameUse,
        /// What both become once they are cleaned.
        stored: String,
    },
    /// A value has no form in JSON.
    #[error("the value of {name:?} cannot become JSON")]
    #[non_exhaustive]
    NotJson {
        /// The name of the value.
        name: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// An event has a payload that the platform cannot draw.
    #[error("the {kind} event cannot be used: {problem}")]
    #[non_exhaustive]
    InvalidEvent {
        /// The kind of the event.
        kind: ArtifactKind,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A number is not in the range that the call takes.
    #[error("{what} is {given}, which is not within {range}")]
    #[non_exhaustive]
    OutOfRange {
        /// Which argument.
        what: &'static str,
        /// Its value.
        given: String,
        /// What it may be.
        range: &'static str,
    },
    /// A path cannot be used.
    #[error("the path {} cannot be used: {problem}", path.display())]
    #[non_exhaustive]
    InvalidPath {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// As many values wait to be written as may wait. [`flush`](crate::TrackedRun::flush) waits
    /// until there is room again; where the disk is full, it says so.
    #[error("{capacity} values wait to be written, no more are taken")]
    #[non_exhaustive]
    QueueFull {
        /// How many values may wait.
        capacity: usize,
    },
    /// A folder is to be copied to where something is already. A file would replace a file.
    #[error("there is something already at {}", path.display())]
    #[non_exhaustive]
    Exists {
        /// Where the copy was to be.
        path: PathBuf,
    },
    /// The run has ended; nothing is taken any more.
    #[error("the run has ended")]
    Ended,
    /// The runtime that the run was started on was shut down, and its writer with it.
    #[error("the runtime that the run was started on is gone")]
    RuntimeGone,
    /// A run was started outside of a tokio runtime.
    #[error("a run can only be started on a tokio runtime")]
    NoRuntime,
    /// A file or folder could not be made, read or written.
    #[error("cannot {action} {}", path.display())]
    #[non_exhaustive]
    Io {
        /// What was tried: `create`, `read`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Output that was to be logged cannot be read.
    #[error("the output cannot be read")]
    Read(#[source] io::Error),
    /// Values are not in their file yet. They are kept and tried again, at the latest at the end.
    #[error("{events} values could not be written to {} so far", path.display())]
    #[non_exhaustive]
    NotYetWritten {
        /// How many values of this file wait.
        events: u64,
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Something was not written, or not sent, when the run ended: see [`Report`](crate::Report).
    #[error("the run has ended, but {} of its parts are not complete", report.missing())]
    #[non_exhaustive]
    Incomplete {
        /// What was written and what was not.
        report: Box<crate::Report>,
    },
    /// What was taken could not be sent so far. It is tried again, at the latest at the end.
    #[error("{waiting} calls could not be sent so far")]
    #[non_exhaustive]
    NotYetSent {
        /// How many calls wait to be sent.
        waiting: usize,
        /// Why the first of them could not be sent.
        source: Arc<polyaxon_client::Error>,
    },
    /// Parts of what was taken are not sent, and not tried again as they are: the server refused them, or
    /// their files cannot be read. All else is sent.
    #[error("{} parts of the run cannot be sent", unsent.len())]
    #[non_exhaustive]
    NotSent {
        /// The parts. They are in the report of the end too, but for files that can be sent by then.
        unsent: Vec<crate::Unsent>,
        /// Why the first of them cannot be sent for which that is known.
        source: Arc<polyaxon_client::Error>,
    },
    /// The server did not take a call that cannot wait, such as the creation of a run.
    #[error("the server did not do its part")]
    Client(#[from] polyaxon_client::Error),
    /// The surroundings do not say what they must, or say it in a form that cannot be used.
    #[error("{variable} cannot be used: {problem}")]
    #[non_exhaustive]
    Surroundings {
        /// The environment variable, or the file.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The metadata of a run that is to be continued cannot be read.
    #[error("{} does not hold the metadata of a run", path.display())]
    #[non_exhaustive]
    Metadata {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The run that is to be continued, or that of the pod, is another project's.
    #[error("the run belongs to {found}, not to {asked}")]
    #[non_exhaustive]
    OtherProject {
        /// The project that it is in.
        found: String,
        /// The project that was asked for.
        asked: String,
    },
    /// The folder is that of another run, whose files and record would be mixed with this one's.
    #[error("{} is the folder of run {found}, not of {}: give each run a folder of its own, or go on with run {found}", path.display(), said(*asked))]
    #[non_exhaustive]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// The run whose record is in it.
        found: RunUuid,
        /// The run that was to be started there; `None` for a new one.
        asked: Option<RunUuid>,
    },
    /// A run was created on the server, and could not be started then. As far as that was possible it
    /// was recorded as failed.
    #[error("run {run} was created, and could not be started")]
    #[non_exhaustive]
    NotStarted {
        /// The run.
        run: RunUuid,
        /// Why not.
        source: Box<Self>,
    },
    /// A file does not begin as the event files of metrics do.
    #[error("{} is not an event file of a metric", path.display())]
    #[non_exhaustive]
    NotMetricEvents {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// For `map_err`: what was done to which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn said(run: Option<RunUuid>) -> String {
    run.map_or_else(|| "a new one".to_owned(), |run| format!("run {run}"))
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Error>();
};
