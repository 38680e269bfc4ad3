//! What is there already, what is left to do, and what a try is put together of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Evaluation;
use crate::acceptance::Acceptance;
use crate::attempt::{Attempt, StopAtEnd};
use crate::error::Error;
use crate::evaluation::candidate::Candidate;
use crate::evaluation::case_report::{About, CaseReport, Earlier};
use crate::evaluation::error::EvaluationError;
use crate::evaluation::folder::{Folder, Half, LeftBehind, Tries};
use crate::evaluation::suite::Case;
use crate::ids::RequestId;
use crate::journal::Started;
use crate::model::Model;
use crate::workspace::{MemoryWorkspace, Workspace, WorkspaceError};

/// A case with a candidate, and the model that this has for it: one for the comparison with what is
/// there and for the try that is made, because making one may have effects.
pub(super) struct Pair<'a> {
    pub(super) case: &'a Case,
    pub(super) candidate: &'a Candidate,
    pub(super) model: Arc<dyn Model>,
}

/// What is there of one case with one candidate.
pub(super) enum Looked<'a> {
    /// Its last try counts.
    Kept(Box<CaseReport>),
    /// Another one is left to do, or to go on with.
    Left(Job<'a>),
}

/// A try that is left to do.
pub(super) struct Job<'a> {
    pub(super) pair: Pair<'a>,
    pub(super) attempt: u32,
    pub(super) earlier: Vec<Earlier>,
    /// The last of the earlier ones, where it can go on.
    pub(super) half: Option<Half>,
    /// What the last of the earlier ones has left.
    pub(super) left: LeftBehind,
}

impl Pair<'_> {
    /// As it is for a try that asks the model.
    pub(super) fn in_try(&self, number: u32) -> Self {
        let (case, candidate) = (self.case, self.candidate);
        let model = candidate.around(Arc::clone(&self.model), case, number);
        Self {
            case,
            candidate,
            model,
        }
    }

    /// What the place of a try is made for.
    pub(super) fn id(&self, number: u32) -> Result<RequestId, EvaluationError> {
        let name = format!("{}-{number}", self.case.task_id(self.candidate.id()));
        name.parse()
            .map_err(|source| EvaluationError::Id { source })
    }

    /// The folder of a try below `root`.
    pub(super) fn folder(&self, root: &Path, number: u32) -> PathBuf {
        Folder::of_try(root, self.candidate, self.case, number)
    }

    pub(super) fn error(&self, source: Error) -> EvaluationError {
        EvaluationError::attempt(self.candidate.name(), self.case.id())(source)
    }
}

impl Evaluation {
    /// What is there already, and what is left to do: case by case, with all candidates.
    pub(super) fn plan(
        &self,
        folder: &Folder,
    ) -> Result<(Vec<CaseReport>, Vec<Job<'_>>), EvaluationError> {
        let mut kept = Vec::new();
        let mut left = Vec::new();
        for case in self.suite.cases() {
            for candidate in &self.candidates {
                let model = candidate.model(case);
                let pair = Pair {
                    case,
                    candidate,
                    model,
                };
                match self.look(folder, pair)? {
                    Looked::Kept(report) => kept.push(*report),
                    Looked::Left(job) => left.push(job),
                }
            }
        }
        Ok((kept, left))
    }

    /// What is there of one case with one candidate.
    pub(super) fn look<'a>(
        &self,
        folder: &Folder,
        pair: Pair<'a>,
    ) -> Result<Looked<'a>, EvaluationError> {
        let expected = self.expected(&pair)?;
        let tries = Tries {
            folder: folder.of(pair.candidate, pair.case),
            expected: &expected,
            acceptance: self.acceptance(pair.case),
            again: self.again,
        };
        let found = tries.look()?;
        Ok(match found.run {
            Some(run) => {
                let about = self.about(&pair, found.last, found.earlier);
                Looked::Kept(Box::new(CaseReport::of(about, &run)))
            }
            None => Looked::Left(Job {
                pair,
                attempt: found.last + 1,
                earlier: found.earlier,
                half: found.half,
                left: found.left,
            }),
        })
    }

    /// How a try would begin now.
    fn expected(&self, pair: &Pair<'_>) -> Result<Started, EvaluationError> {
        let nowhere = MemoryWorkspace::new(|_, _| Err(WorkspaceError::NotFound));
        let attempt = self.attempt(pair, 1, Arc::new(nowhere))?;
        attempt.would_start().map_err(|source| pair.error(source))
    }

    pub(super) fn attempt(
        &self,
        pair: &Pair<'_>,
        number: u32,
        place: Arc<dyn Workspace>,
    ) -> Result<Attempt, EvaluationError> {
        let case = pair.case;
        let unusable = |source| EvaluationError::Case {
            case: case.id().to_owned(),
            source,
        };
        let acceptance = self.acceptance(case);
        let task = case.task(pair.candidate.id(), number);
        let task = task.map_err(unusable)?;
        let paths = case.paths().map_err(unusable)?;
        let model = Arc::clone(&pair.model);
        let attempt = Attempt::new(task, model, place, acceptance, paths)
            // Whoever runs them was asked before.
            .allow_checks(true)
            .fresh(Arc::clone(&self.places))
            .stop_at_end(StopAtEnd::Always)
            .cancel_on(self.cancelled.clone());
        Ok(pair.candidate.configured(attempt))
    }

    /// What decides about a case here.
    fn acceptance(&self, case: &Case) -> Arc<dyn Acceptance> {
        match &self.search_path {
            Some(path) => case.description().clone().search_path(path).acceptance(),
            None => case.acceptance(),
        }
    }

    pub(super) fn about<'a>(
        &self,
        pair: &Pair<'a>,
        attempt: u32,
        earlier: Vec<Earlier>,
    ) -> About<'a> {
        About {
            candidate: pair.candidate.name(),
            case: pair.case,
            case_set_revision: self.suite.digest(),
            attempt,
            earlier,
        }
    }
}
