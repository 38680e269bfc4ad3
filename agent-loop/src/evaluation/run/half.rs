//! Goes on with tries that were broken off.

use std::sync::Arc;

use super::left::Left;
use super::made::{Made, made, panicked};
use super::plan::Job;
use super::{Evaluation, caught};
use crate::error::Error;
use crate::evaluation::case_report::{CaseReport, Earlier, broken_for_good};
use crate::evaluation::error::{EvaluationError, whole};
use crate::evaluation::folder::Half;
use crate::journal::CorruptJournal;
use crate::workspace::{Workspace, WorkspaceError};

impl Evaluation {
    /// Writes what is missing of a try that is decided, whoever the candidate is and whether its
    /// place is there or not: nobody is asked anything, and what has failed gets no second chance.
    /// False where the last try of `job` is not decided, or its journal does not say so.
    pub(super) async fn completes(&self, job: &Job<'_>) -> Result<bool, EvaluationError> {
        let (Some(last), Some(half)) = (job.earlier.last(), &job.half) else {
            return Ok(false);
        };
        let (pair, number) = (&job.pair, last.attempt);
        let place: Arc<dyn Workspace> = Arc::new(Left {
            places: Arc::clone(&self.places),
            id: pair.id(number)?,
            record: half.workspace.clone(),
        });
        let attempt = self.attempt(pair, number, Arc::clone(&place))?;
        if !attempt.decided_by(&half.records) {
            return Ok(false);
        }
        let folder = pair.folder(&self.folder, number);
        let attempt = self.observed(pair, number, place)?;
        match Box::pin(attempt.resume(&folder)).await {
            Ok(_) => Ok(true),
            Err(error @ Error::Journal(CorruptJournal::Busy)) => Err(pair.error(error)),
            Err(_) => Ok(false),
        }
    }

    /// Resumes the last try of a case where it was broken off, and makes `job` that try. Nothing
    /// where it was not, or cannot be resumed: then it is said why, and the case has to be made anew.
    /// Before that the places of the last try are ended where they are found, whatever is wrong with
    /// that, so that there are never two.
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
        if let Some(said) = &job.left.own {
            let id = job.pair.id(job.attempt)?;
            self.places.end(&id, said).await;
        }
        for (id, said) in &job.left.fresh {
            self.places.end(id, said).await;
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
        let about = self.about(&job.pair, half.attempt, job.earlier.clone());
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
        let (pair, number) = (&job.pair, job.attempt);
        if !pair.candidate.is_resumable() {
            return Ok(Err("its candidate is not resumable".to_owned()));
        }
        let id = pair.id(number)?;
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
        let folder = pair.folder(&self.folder, number);
        let attempt = self.observed(&pair.in_try(number), number, Arc::clone(&place))?;
        match caught(Box::pin(attempt.resume(&folder))).await {
            Some(Ok(_)) => Ok(Ok(made(&folder))),
            // Whoever goes on with it needs its place.
            Some(Err(error @ Error::Journal(CorruptJournal::Busy))) => Err(pair.error(error)),
            Some(Err(error)) => Ok(Err(whole(&error))),
            None => Ok(Ok(panicked(&*place).await)),
        }
    }
}
