//! What is wrong with an evaluation that cannot be made.

use std::io;
use std::path::{Path, PathBuf};

use super::suite::SuiteRef;
use crate::error::Error;
use crate::ids::InvalidId;
use crate::path::InvalidPath;
use crate::report::RunProblem;

/// An evaluation that was put together wrongly, or whose folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// Nobody has allowed checks.
    #[error("checks run code that a model wrote, so they have to be allowed: `allow_checks(true)`")]
    ChecksNotAllowed,
    /// There is no candidate.
    #[error("there is no candidate")]
    NoCandidate,
    /// Two candidates have one name.
    #[error("two candidates are called {name:?}")]
    #[non_exhaustive]
    TwoCandidates {
        /// The name.
        name: String,
    },
    /// A case cannot be made a task.
    #[error("the case {case} cannot be run")]
    #[non_exhaustive]
    Case {
        /// Which.
        case: String,
        /// Why.
        source: InvalidPath,
    },
    /// An attempt is put together wrongly.
    #[error("{candidate} cannot attempt the case {case}")]
    #[non_exhaustive]
    Attempt {
        /// The candidate.
        candidate: String,
        /// The case.
        case: String,
        /// Why.
        source: Box<Error>,
    },
    /// The name of a try is no id.
    #[error("a try cannot be named")]
    #[non_exhaustive]
    Id {
        /// Why.
        source: InvalidId,
    },
    /// The folder holds the evaluation of another suite.
    #[error(
        "the folder holds an evaluation of {} {} ({}), and this is {} {} ({})",
        there.name, there.revision, there.case_set_revision.short(),
        here.name, here.revision, here.case_set_revision.short()
    )]
    #[non_exhaustive]
    OtherSuite {
        /// What is there.
        there: Box<SuiteRef>,
        /// What was to be evaluated.
        here: Box<SuiteRef>,
    },
    /// Another evaluation works in the folder.
    #[error("another evaluation is working in {}", folder.display())]
    #[non_exhaustive]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The page about a try cannot be made.
    #[error("the page about {} cannot be made", folder.display())]
    #[non_exhaustive]
    Page {
        /// The folder of the try.
        folder: PathBuf,
        /// Why.
        source: Box<RunProblem>,
    },
    /// A file or folder cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    #[non_exhaustive]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl EvaluationError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn page(folder: &Path) -> impl FnOnce(RunProblem) -> Self + '_ {
        move |source| Self::Page {
            folder: folder.to_owned(),
            source: Box::new(source),
        }
    }

    pub(super) fn attempt(candidate: &str, case: &str) -> impl FnOnce(Error) -> Self {
        let (candidate, case) = (candidate.to_owned(), case.to_owned());
        move |source| Self::Attempt {
            candidate,
            case,
            source: Box::new(source),
        }
    }
}

/// An error with its causes in a line.
pub(super) fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
