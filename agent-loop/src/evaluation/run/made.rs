//! What a try has come to.

use std::path::Path;

use crate::evaluation::case_report::{About, CaseReport};
use crate::evaluation::error::whole;
use crate::private::Private;
use crate::report::Run;
use crate::workspace::{Workspace, WorkspaceError};

/// The evidence of a try, or why there is none that could be relied on.
pub(super) type Made = Result<Run, Trouble>;

/// What an attempt that has come to its end has left in `folder`.
pub(super) fn made(folder: &Path) -> Made {
    Run::read(folder).map_err(|problem| Trouble::new(whole(&problem)))
}

pub(super) async fn panicked(place: &dyn Workspace) -> Made {
    // The loop was not there to ask for its end.
    place.stop().await;
    Err(Trouble::new("the attempt ended by a panic"))
}

/// Why a try shows nothing about the candidate.
pub(super) struct Trouble {
    what: String,
    detail: Option<Private>,
}

impl Trouble {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: None,
        }
    }

    pub(super) fn no_place(error: &WorkspaceError) -> Self {
        let what = format!("there was no place to work in: {error}");
        let detail = match error {
            WorkspaceError::Refused(detail)
            | WorkspaceError::Failed(detail)
            | WorkspaceError::Uncertain(detail)
            | WorkspaceError::Gone(detail) => Some(detail.clone()),
            _ => None,
        };
        Self { what, detail }
    }

    pub(super) fn report(self, about: About<'_>) -> CaseReport {
        let mut report = CaseReport::not_evaluated(about, self.what);
        report.detail = self.detail;
        report
    }
}
