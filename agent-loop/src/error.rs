//! What is wrong with an attempt that cannot be made.

use std::io;

use crate::ids::InvalidId;
use crate::journal::CorruptJournal;
use crate::path::RelPath;

/// An attempt that was put together wrongly. Nothing was done.
///
/// What goes wrong *during* an attempt is no error but a part of its [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The task's id cannot be a part of the names of requests.
    #[error("the task's id cannot be used")]
    TaskId(#[source] InvalidId),
    /// Nobody has allowed checks.
    #[error("checks run code that a model wrote, so they have to be allowed: `allow_checks(true)`")]
    ChecksNotAllowed,
    /// The budget has no turns.
    #[error("the budget has no turns")]
    NoTurns,
    /// There is nothing that may be written.
    #[error("no path may be written, so nothing can be changed")]
    NothingEditable,
    /// The acceptance has no check.
    #[error("the acceptance has no check")]
    NoChecks,
    /// The acceptance names a check and has no plan for it.
    #[error("the check {name:?} has no plan")]
    #[non_exhaustive]
    NoPlan {
        /// The check.
        name: String,
    },
    /// A check has a stage in a fresh place, and nobody makes one.
    #[error("the check {name:?} needs a fresh place, and none was given: `fresh(workspaces)`")]
    #[non_exhaustive]
    NoFreshPlaces {
        /// The check.
        name: String,
    },
    /// A file may be written that decides about acceptance.
    #[error("{path} belongs to a check, and may be written by name")]
    #[non_exhaustive]
    EditableFixture {
        /// The file.
        path: RelPath,
    },
    /// The cost is limited, and nobody knows the model's price.
    #[error("the cost is limited and the price of model {model:?} is not known")]
    #[non_exhaustive]
    UnpricedModel {
        /// The model.
        model: String,
    },
    /// The folder for the evidence cannot be used.
    #[error("the folder for the evidence cannot be used")]
    RunDir(#[source] io::Error),
    /// The journal of an attempt that should go on cannot be used.
    #[error("the journal cannot be gone on with")]
    Journal(#[source] CorruptJournal),
    /// The journal is of an attempt that was put together differently.
    #[error("the journal is of another attempt: its {what} is not the same")]
    #[non_exhaustive]
    AnotherAttempt {
        /// The first part that differs.
        what: &'static str,
    },
    /// A record of the journal does not follow from the answers before it.
    #[error("line {line} of the journal, {kind:?}, does not follow from the lines before it")]
    #[non_exhaustive]
    NotPlayed {
        /// The line, from 1.
        line: u64,
        /// The kind of the record.
        kind: &'static str,
    },
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Error>();
};
