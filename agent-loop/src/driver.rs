//! Does what the machine says: the only asynchronous code.
//!
//! Each turn of its loop takes the machine's records to the journal, does one step, and tells the
//! machine what came of it.

mod fresh;
mod open;
mod resume;
mod stage;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};

use crate::attempt::StopAtEnd;
use crate::clock::Clock;
use crate::digest::Digest;
use crate::evidence::{RunDir, pretty};
use crate::ids::RequestId;
use crate::journal::{Answer, Durability, Event, Journal, Observer, Record};
use crate::machine::{Circumstances, Effect, Machine, Question, Setup, Step};
use crate::model::{Model, ModelError, ModelErrorKind, ModelReply};
use crate::outcome::{End, Outcome};
use crate::patch;
use crate::policy::Approver;
use crate::private::Private;
use crate::report;
use crate::serde_as::millis::cut;
use crate::workspace::{StopState, Workspace, WorkspaceError, Workspaces};

pub(crate) use resume::resume;

use self::fresh::Used;

/// How long a call that moves files may take.
const FILES_LIMIT: Duration = Duration::from_secs(60);

/// What an attempt works with.
pub(crate) struct Parts {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) fresh: Option<Arc<dyn Workspaces>>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) run_dir: Option<RunDir>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cancelled: BoxFuture<'static, ()>,
    pub(crate) stop: StopAtEnd,
    pub(crate) keep_files: bool,
}

/// Drives an attempt to its end.
pub(crate) async fn drive(mut setup: Setup, parts: Parts) -> Outcome {
    let mut driver = Driver::new(parts, Duration::ZERO, 0);
    driver.write_workspace(&mut setup);
    driver.write_acceptance(&setup);
    let mut machine = Machine::new(setup);
    let end = driver.run(&mut machine).await;
    driver.finish(&machine, end).await
}

struct Driver {
    model: Arc<dyn Model>,
    workspace: Arc<dyn Workspace>,
    fresh: Option<Arc<dyn Workspaces>>,
    approver: Option<Arc<dyn Approver>>,
    book: Book,
    run_dir: Option<RunDir>,
    clock: Arc<dyn Clock>,
    cancelled: BoxFuture<'static, ()>,
    stop: StopAtEnd,
    keep_files: bool,
    start: Duration,
    /// What had passed before this program.
    before: Duration,
    /// Evidence that could not be written.
    problems: Vec<String>,
    /// The place of a command whose receipt is not kept so far.
    place: Option<Used>,
}

/// Where records go: first to the journal, and then to whoever watches.
struct Book {
    journal: Box<dyn Journal>,
    observers: Vec<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    /// Records so far.
    seq: u64,
    /// Nothing may follow a record that was not kept.
    is_broken: bool,
}

impl Book {
    fn keep(&mut self, event: Event, durability: Durability) -> io::Result<()> {
        self.keep_all(vec![(event, durability)])
    }

    /// Keeps what nothing is done between.
    fn keep_all(&mut self, events: Vec<(Event, Durability)>) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        if self.is_broken {
            return Err(io::Error::other("an earlier record could not be kept"));
        }
        let records: Vec<_> = (self.seq..)
            .zip(events)
            .map(|(seq, (event, durability))| {
                (Record::new(seq, self.clock.now(), event), durability)
            })
            .collect();
        if let Err(error) = self.journal.append_all(&records) {
            self.is_broken = true;
            return Err(error);
        }
        self.seq += records.len() as u64;
        for (record, _) in &records {
            for observer in &self.observers {
                observer.on(record);
            }
        }
        Ok(())
    }
}

/// The caller has cancelled.
struct Cancelled;

impl Driver {
    fn new(parts: Parts, before: Duration, seq: u64) -> Self {
        let start = parts.clock.elapsed();
        Self {
            model: parts.model,
            workspace: parts.workspace,
            fresh: parts.fresh,
            approver: parts.approver,
            book: Book {
                journal: parts.journal,
                observers: parts.observers,
                clock: Arc::clone(&parts.clock),
                seq,
                is_broken: false,
            },
            run_dir: parts.run_dir,
            clock: parts.clock,
            cancelled: parts.cancelled,
            stop: parts.stop,
            keep_files: parts.keep_files,
            start,
            before,
            problems: Vec::new(),
            place: None,
        }
    }

    /// The time since the start of the attempt, in whole milliseconds as the records have it. What
    /// is cut off here is in the next difference.
    fn elapsed(&self) -> Duration {
        self.before + cut(self.clock.elapsed().saturating_sub(self.start))
    }

    async fn run(&mut self, machine: &mut Machine) -> End {
        loop {
            let step = machine.next(self.elapsed());
            if let Err(error) = self.book.keep_all(machine.take_records()) {
                machine.journal_failed(Private::from_error(&error));
                continue;
            }
            let left = self.leave_place().await;
            if let Step::Done(end) = step {
                return end;
            }
            if let Err(error) = left {
                machine.journal_failed(Private::from_error(&error));
                continue;
            }
            if let Err(Cancelled) = self.step(step, machine).await {
                machine.cancel();
            }
        }
    }

    /// Removes the place of a command. What the check has shown is kept, so what is left over is in
    /// the way of nobody. Of a fresh place it is written down how far its end has come.
    async fn leave_place(&mut self) -> io::Result<()> {
        let Some(used) = self.place.take() else {
            return Ok(());
        };
        match self.places().leave(used).await {
            Some(left) => self.book.keep(Event::Left(left), Durability::Buffered),
            None => Ok(()),
        }
    }

    /// Does one step, and tells the machine.
    async fn step(&mut self, step: Step, machine: &mut Machine) -> Result<(), Cancelled> {
        let before = self.elapsed();
        match step {
            Step::Ask(question) => {
                let call = ask(&*self.model, &*self.clock, &question);
                let reply = or_cancelled(&mut self.cancelled, call).await?;
                machine.reply(reply, self.elapsed().saturating_sub(before));
            }
            Step::Pause { at_least, up_to } => {
                let length = at_least.max(up_to.mul_f64(self.clock.random()));
                let pause = self.clock.sleep(length);
                or_cancelled(&mut self.cancelled, pause).await?;
                machine.paused(self.elapsed().saturating_sub(before));
            }
            Step::Wait(approval) => {
                let granted = match &self.approver {
                    Some(approver) => {
                        let answer = approver.approve(&approval);
                        or_cancelled(&mut self.cancelled, answer).await?
                    }
                    None => false,
                };
                machine.approved(granted, self.elapsed().saturating_sub(before));
            }
            Step::Do { id, effect } => {
                let places = Places {
                    workspace: &*self.workspace,
                    fresh: self.fresh.as_deref(),
                    clock: &*self.clock,
                };
                let work = places.perform(&id, &effect, &mut self.book, &mut self.place);
                let answer = or_cancelled(&mut self.cancelled, work).await?;
                let answer = answer.unwrap_or_else(Answer::Failed);
                machine.answer(&id, answer, self.elapsed().saturating_sub(before));
            }
            Step::Done(_) => {}
        }
        Ok(())
    }

    fn write_workspace(&mut self, setup: &mut Setup) {
        let Some(run_dir) = &self.run_dir else {
            return;
        };
        // The caller knows more than we do where it has already written the file.
        if !run_dir.has_workspace()
            && let Err(error) = run_dir.write_workspace(&setup.started.workspace.flat())
        {
            self.problems
                .push(format!("workspace.json was not written: {}", error.kind()));
        }
        setup.started.workspace_json = run_dir.workspace_digest();
    }

    fn write_acceptance(&mut self, setup: &Setup) {
        let description = setup.acceptance.description();
        if let (Some(run_dir), Some(description)) = (&self.run_dir, description)
            && let Err(error) = pretty(&description).map_or_else(
                |error| Err(error.into()),
                |text| run_dir.write_acceptance(&text),
            )
        {
            self.problems
                .push(format!("acceptance.json was not written: {}", error.kind()));
        }
    }

    async fn finish(mut self, machine: &Machine, end: End) -> Outcome {
        // Where the journal has failed, nothing that follows is kept either, and the end says so.
        drop(self.leave_place().await);
        let summary = machine.summary();
        let patch = self.write_patch(machine);
        let patch_sha256 = Digest::of(&patch);
        let mut files_kept = false;
        if let Some(run_dir) = &self.run_dir
            && self.keep_files
        {
            match run_dir.write_files(summary.known) {
                Ok(()) => files_kept = true,
                Err(error) => self
                    .problems
                    .push(format!("files were not written: {}", error.kind())),
            }
        }
        let stop = match self.stops_after(&end) {
            true => stop(&*self.workspace, &*self.clock).await,
            false => StopState::NotRequested,
        };
        let circumstances = Circumstances {
            patch_sha256,
            stop,
            total: self.elapsed(),
            files_kept,
            evidence_errors: std::mem::take(&mut self.problems),
        };
        let mut ended = summary.ended(&end, circumstances);
        if !matches!(end, End::JournalFailed { .. })
            && let Err(error) = self
                .book
                .keep(Event::Ended(ended.clone()), Durability::Synced)
        {
            ended.end = End::JournalFailed {
                detail: Private::from_error(&error),
            };
            ended.acceptance = summary.acceptance(&ended.end);
        }
        let outcome = Outcome::new(&summary, ended, self.book.journal.chain_head(), patch);
        self.write_outcome(outcome)
    }

    fn stops_after(&self, end: &End) -> bool {
        match self.stop {
            StopAtEnd::Always => true,
            StopAtEnd::Accepted => *end == End::Accepted,
            StopAtEnd::Never => false,
        }
    }

    fn write_patch(&mut self, machine: &Machine) -> Vec<u8> {
        let summary = machine.summary();
        let patch = patch::diff(summary.base, summary.known).unwrap_or_else(|error| {
            self.problems
                .push(format!("the patch was not made: {}", error.kind()));
            Vec::new()
        });
        if let Some(run_dir) = &self.run_dir
            && let Err(error) = run_dir.write_patch(&patch)
        {
            self.problems
                .push(format!("patch.diff was not written: {}", error.kind()));
        }
        patch
    }

    fn write_outcome(&self, mut outcome: Outcome) -> Outcome {
        if let Some(run_dir) = &self.run_dir
            && let Err(error) = run_dir.write_outcome(&outcome)
        {
            let problem = format!("outcome.json was not written: {}", error.kind());
            outcome.evidence_errors.push(problem);
        }
        // It is made from the files above; a journal that is kept elsewhere is not among them.
        if let Some(run_dir) = &self.run_dir
            && outcome.chain_head.is_some()
            && outcome.evidence_errors.is_empty()
            && let Err(error) = report::write(run_dir.path())
        {
            let problem = format!("report.html was not written: {error}");
            outcome.evidence_errors.push(problem);
        }
        outcome
    }
}

/// Waits for `work`, but not beyond the caller's cancellation, which comes first.
async fn or_cancelled<T>(
    cancelled: &mut BoxFuture<'static, ()>,
    work: impl Future<Output = T>,
) -> Result<T, Cancelled> {
    match select(cancelled, std::pin::pin!(work)).await {
        Either::Left(_) => Err(Cancelled),
        Either::Right((value, _)) => Ok(value),
    }
}

/// Waits for `work`, but not longer than `limit`.
async fn within<T>(clock: &dyn Clock, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(work), clock.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

async fn stop(workspace: &dyn Workspace, clock: &dyn Clock) -> StopState {
    let state = within(clock, FILES_LIMIT, workspace.stop()).await;
    state.unwrap_or_else(|| StopState::failed(Private::new("no answer within the limit")))
}

async fn ask(
    model: &dyn Model,
    clock: &dyn Clock,
    question: &Question,
) -> Result<ModelReply, ModelError> {
    let call = model.propose(question.request());
    let reply = within(clock, question.deadline(), call).await;
    reply.unwrap_or_else(|| {
        Err(ModelError::new(
            ModelErrorKind::TimedOut,
            "the attempt's limit",
        ))
    })
}

/// Where effects are carried out.
#[derive(Clone, Copy)]
struct Places<'a> {
    workspace: &'a dyn Workspace,
    fresh: Option<&'a dyn Workspaces>,
    clock: &'a dyn Clock,
}

impl Places<'_> {
    async fn perform(
        &self,
        id: &RequestId,
        effect: &Effect,
        book: &mut Book,
        place: &mut Option<Used>,
    ) -> Result<Answer, WorkspaceError> {
        match effect {
            Effect::Open { seed } => self.open(id, seed).await.map(Answer::Opened),
            Effect::Get { path, max } => self
                .reading(self.workspace.get(path, *max))
                .await
                .map(Answer::Got),
            Effect::Put { path, file, before } => {
                let put = self.workspace.put(id, path, file, *before);
                self.writing(put).await.map(|()| Answer::Put)
            }
            Effect::Stage { check, stage, tree } => match check.plan.stages.get(*stage) {
                Some(stage) => self
                    .stage(id, stage, tree, book, place)
                    .await
                    .map(Answer::Stage),
                None => Err(WorkspaceError::Failed(Private::new(
                    "there is no such stage",
                ))),
            },
            Effect::ReadBack => self
                .reading(self.workspace.list())
                .await
                .map(Answer::Listed),
        }
    }

    /// A call that changes nothing: without an answer it has failed.
    async fn reading<T>(
        &self,
        call: impl Future<Output = Result<T, WorkspaceError>>,
    ) -> Result<T, WorkspaceError> {
        let answer = within(self.clock, FILES_LIMIT, call).await;
        answer.unwrap_or_else(|| Err(WorkspaceError::Failed(Private::new("no answer"))))
    }

    /// A call that changes something: without an answer nobody knows.
    async fn writing<T>(
        &self,
        call: impl Future<Output = Result<T, WorkspaceError>>,
    ) -> Result<T, WorkspaceError> {
        let answer = within(self.clock, FILES_LIMIT, call).await;
        answer.unwrap_or_else(|| Err(WorkspaceError::Uncertain(Private::new("no answer"))))
    }
}

#[cfg(test)]
mod tests;
