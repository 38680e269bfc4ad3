//! Does what the machine says: the only asynchronous code.
//!
//! Each turn of its loop takes the machine's records to the journal, does one step, and tells the
//! machine what came of it.

mod open;
mod stage;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};

use crate::attempt::StopAtEnd;
use crate::clock::Clock;
use crate::digest::Digest;
use crate::evidence::RunDir;
use crate::ids::RequestId;
use crate::journal::{Answer, Durability, Ended, Event, Journal, Observer, Record};
use crate::machine::{Effect, Machine, Question, Setup, Step};
use crate::model::{Model, ModelError, ModelErrorKind, ModelReply};
use crate::outcome::{CostTotal, End, Latency, Outcome, UsageTotal};
use crate::patch;
use crate::policy::Approver;
use crate::private::Private;
use crate::workspace::{StopState, Workspace, WorkspaceError, Workspaces};

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
pub(crate) async fn drive(setup: Setup, parts: Parts) -> Outcome {
    let start = parts.clock.elapsed();
    let mut driver = Driver {
        parts,
        start,
        seq: 0,
        problems: Vec::new(),
    };
    driver.write_workspace(&setup);
    let mut machine = Machine::new(setup);
    let end = driver.run(&mut machine).await;
    driver.finish(&machine, end).await
}

struct Driver {
    parts: Parts,
    start: Duration,
    /// Records so far.
    seq: u64,
    /// Evidence that could not be written.
    problems: Vec<String>,
}

/// The caller has cancelled.
struct Cancelled;

impl Driver {
    fn elapsed(&self) -> Duration {
        self.parts.clock.elapsed().saturating_sub(self.start)
    }

    async fn run(&mut self, machine: &mut Machine) -> End {
        loop {
            let step = machine.next(self.elapsed());
            if let Err(error) = self.keep(machine.take_records()) {
                machine.journal_failed(Private::from_error(&error));
                continue;
            }
            if let Step::Done(end) = step {
                return end;
            }
            if let Err(Cancelled) = self.step(step, machine).await {
                machine.cancel();
            }
        }
    }

    /// Does one step, and tells the machine.
    async fn step(&mut self, step: Step, machine: &mut Machine) -> Result<(), Cancelled> {
        let before = self.elapsed();
        match step {
            Step::Ask(question) => {
                let call = ask(&*self.parts.model, &*self.parts.clock, &question);
                let reply = or_cancelled(&mut self.parts.cancelled, call).await?;
                machine.reply(reply, self.elapsed().saturating_sub(before));
            }
            Step::Pause { at_least, up_to } => {
                let length = at_least.max(up_to.mul_f64(self.parts.clock.random()));
                let pause = self.parts.clock.sleep(length);
                or_cancelled(&mut self.parts.cancelled, pause).await?;
                machine.paused(self.elapsed().saturating_sub(before));
            }
            Step::Wait(approval) => {
                let granted = match &self.parts.approver {
                    Some(approver) => {
                        let answer = approver.approve(&approval);
                        or_cancelled(&mut self.parts.cancelled, answer).await?
                    }
                    None => false,
                };
                machine.approved(granted, self.elapsed().saturating_sub(before));
            }
            Step::Do { id, effect } => {
                let places = Places {
                    workspace: &*self.parts.workspace,
                    fresh: self.parts.fresh.as_deref(),
                    clock: &*self.parts.clock,
                };
                let work = places.perform(&id, &effect);
                let answer = or_cancelled(&mut self.parts.cancelled, work).await?;
                let answer = answer.unwrap_or_else(Answer::Failed);
                machine.answer(&id, answer, self.elapsed().saturating_sub(before));
            }
            Step::Done(_) => {}
        }
        Ok(())
    }

    /// Takes records to the journal, and then to whoever watches.
    fn keep(&mut self, events: Vec<(Event, Durability)>) -> io::Result<()> {
        for (event, durability) in events {
            let record = Record::new(self.seq, self.parts.clock.now(), event);
            self.parts.journal.append(&record, durability)?;
            self.seq += 1;
            for observer in &self.parts.observers {
                observer.on(&record);
            }
        }
        Ok(())
    }

    fn write_workspace(&mut self, setup: &Setup) {
        let Some(run_dir) = &self.parts.run_dir else {
            return;
        };
        // The caller knows more than we do where it has already written the file.
        if !run_dir.has_workspace()
            && let Err(error) = run_dir.write_workspace(&setup.started.workspace.flat())
        {
            self.problems
                .push(format!("workspace.json was not written: {}", error.kind()));
        }
    }

    async fn finish(mut self, machine: &Machine, mut end: End) -> Outcome {
        let summary = machine.summary();
        let patch = patch::diff(summary.base, summary.known).unwrap_or_else(|error| {
            self.problems
                .push(format!("the patch was not made: {}", error.kind()));
            Vec::new()
        });
        let patch_sha256 = Digest::of(&patch);
        if let Some(run_dir) = &self.parts.run_dir
            && let Err(error) = run_dir.write_patch(&patch)
        {
            self.problems
                .push(format!("patch.diff was not written: {}", error.kind()));
        }
        if let Some(run_dir) = &self.parts.run_dir
            && self.parts.keep_files
            && let Err(error) = run_dir.write_files(summary.known)
        {
            self.problems
                .push(format!("files were not written: {}", error.kind()));
        }
        let stop = match (self.parts.stop, &end) {
            (StopAtEnd::Always, _) | (StopAtEnd::Accepted, End::Accepted) => {
                stop(&*self.parts.workspace, &*self.parts.clock).await
            }
            (StopAtEnd::Never | StopAtEnd::Accepted, _) => StopState::NotRequested,
        };
        if !matches!(end, End::JournalFailed { .. }) {
            let ended = Ended {
                acceptance: summary.acceptance(&end),
                end: end.clone(),
                turns: summary.turns,
                base: summary.base.hash(),
                tree: summary.known.hash(),
                patch_sha256,
                stop: stop.clone(),
            };
            if let Err(error) = self.keep(vec![(Event::Ended(ended), Durability::Synced)]) {
                end = End::JournalFailed {
                    detail: Private::from_error(&error),
                };
            }
        }
        let mut outcome = Outcome {
            task: summary.started.task.clone(),
            revisions: summary.started.revisions.clone(),
            acceptance: summary.acceptance(&end),
            end,
            turns: summary.turns,
            calls: summary.spent.calls,
            usage: UsageTotal {
                known: summary.spent.usage,
                unknown_calls: summary.spent.unknown_usage_calls,
            },
            cost: CostTotal {
                known_micros: summary.spent.cost,
                unknown_calls: summary.spent.unknown_cost_calls,
                price_basis: summary.price.map(|price| price.basis.clone()),
            },
            latency: self.latency(summary.latency),
            checks: summary.checks.to_vec(),
            uncertain: summary.uncertain.to_vec(),
            stop,
            patch_sha256,
            chain_head: self.parts.journal.chain_head(),
            evidence_errors: self.problems,
            patch,
        };
        if let Some(run_dir) = &self.parts.run_dir
            && let Err(error) = run_dir.write_outcome(&outcome)
        {
            let problem = format!("outcome.json was not written: {}", error.kind());
            outcome.evidence_errors.push(problem);
        }
        outcome
    }

    fn latency(&self, mut latency: Latency) -> Latency {
        latency.total = self.elapsed();
        let parts = [
            latency.model,
            latency.queue.unwrap_or_default(),
            latency.backoff,
            latency.check,
            latency.approval,
            latency.files,
        ];
        latency.own = latency.total.saturating_sub(parts.iter().sum());
        latency
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
    async fn perform(&self, id: &RequestId, effect: &Effect) -> Result<Answer, WorkspaceError> {
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
            Effect::Stage { plan, stage, tree } => match plan.stages.get(*stage) {
                Some(stage) => self.stage(id, stage, tree).await.map(Answer::Stage),
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
