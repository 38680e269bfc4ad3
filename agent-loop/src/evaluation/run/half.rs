//! Goes on with tries that were broken off.

use std::sync::Arc;

use super::left::Left;
use super::made::{Made, made, panicked};
use super::{Evaluation, Job, caught, try_id};
use crate::error::Error;
use crate::evaluation::case_report::{CaseReport, Earlier, broken_for_good};
use crate::evaluation::error::{EvaluationError, whole};
use crate::evaluation::folder::{Folder, Half};
use crate::journal::CorruptJournal;
use crate::workspace::{Workspace as _, WorkspaceError};

impl Evaluation {
    /// Writes what is missing of a try that is decided, whoever the candidate is and whether its
    /// place is there or not: nobody is asked anything, and what has failed gets no second chance.
    /// False where the last try of `job` is not decided, or its journal does not say so.
    pub(super) async fn completes(&self, job: &Job<'_>) -> Result<bool, EvaluationError> {
        let (Some(last), Some(half)) = (job.earlier.last(), &job.half) else {
            return Ok(false);
        };
        let (case, candidate, number) = (job.case, job.candidate, last.attempt);
        let place = Arc::new(Left {
            places: Arc::clone(&self.places),
            id: try_id(case, candidate, number)?,
            record: half.workspace.clone(),
        });
        let attempt = self.attempt(case, candidate, number, place.clone())?;
        if !attempt.is_decided(&half.records) {
            return Ok(false);
        }
        let folder = Folder::of_try(&self.folder, candidate, case, number);
        let attempt = self.observed(case, candidate, number, place)?;
        match Box::pin(attempt.resume(&folder)).await {
            Ok(_) => Ok(true),
            Err(error @ Error::Journal(CorruptJournal::Busy)) => {
                Err(EvaluationError::attempt(candidate.name(), case.id())(error))
            }
            Err(_) => Ok(false),
        }
    }

    /// Resumes the last try of a case where it was broken off, and makes `job` that try. Nothing
    /// where it was not, or cannot be resumed: then it is said why, and the case has to be made anew.
    /// Before that the place of the last try is ended where it is found, whatever is wrong with that,
    /// so that there are never two.
    pub(super) async fn go_on(&self, job: &mut Job<'_>) -> Result<Option<Made>, EvaluationError> {
        let Some(mut last) = job.earlier.pop() else {
            return Ok(None);
        };
        let anew = std::mem::replace(&mut job.attempt, last.attempt);
        if let Some(half) = job.half.take() {
            match self.resume(job, &half).await? {
                Ok(made) => return Ok(Some(made)),
                Err(why) => {
                    last.why = broken_for_good(&last.why, &why);
                    self.note(job, &last, why)?;
                }
            }
        }
        if let Some(said) = &job.left {
            let id = try_id(job.case, job.candidate, job.attempt)?;
            self.places.end(&id, said).await;
        }
        job.attempt = anew;
        job.earlier.push(last);
        Ok(None)
    }

    /// Keeps why a try was given up: its evidence does not tell.
    fn note(
        &self,
        job: &Job<'_>,
        half: &Earlier,
        not_resumed: String,
    ) -> Result<(), EvaluationError> {
        let about = self.about(job.case, job.candidate, half.attempt, job.earlier.clone());
        let mut report = CaseReport::not_evaluated(about, half.why.clone());
        report.not_resumed = Some(not_resumed);
        self.write(&report)
    }

    /// What came of the try of `job` in its place; or why it does not go on.
    async fn resume(
        &self,
        job: &Job<'_>,
        half: &Half,
    ) -> Result<Result<Made, String>, EvaluationError> {
        let Job {
            case,
            candidate,
            attempt: number,
            ..
        } = *job;
        if !candidate.is_resumable() {
            return Ok(Err("its candidate is not resumable".to_owned()));
        }
        let id = try_id(case, candidate, number)?;
        let place = match self.places.reopen(&id, &half.workspace.identity).await {
            Ok(place) => place,
            Err(WorkspaceError::NotFound) => {
                return Ok(Err("its place is not there any more".to_owned()));
            }
            Err(error) => return Ok(Err(format!("its place was not found again: {error}"))),
        };
        // An attempt that finds out by itself is over, and says nothing about the candidate.
        if let Err(WorkspaceError::Gone(_)) = place.list().await {
            return Ok(Err("its place is gone".to_owned()));
        }
        self.tell_began(job, true);
        let folder = Folder::of_try(&self.folder, candidate, case, number);
        let attempt = self.observed(case, candidate, number, Arc::clone(&place))?;
        match caught(Box::pin(attempt.resume(&folder))).await {
            Some(Ok(_)) => Ok(Ok(made(&folder))),
            // Whoever goes on with it needs its place.
            Some(Err(error @ Error::Journal(CorruptJournal::Busy))) => {
                Err(EvaluationError::attempt(candidate.name(), case.id())(error))
            }
            Some(Err(error)) => Ok(Err(whole(&error))),
            None => Ok(Ok(panicked(&*place).await)),
        }
    }
}
