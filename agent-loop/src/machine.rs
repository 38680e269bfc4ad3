//! The loop's decisions, without I/O.
//!
//! The machine says what to do next, is told what came of it, and keeps the records of both. All
//! it knows is what it was told, so the same answers lead to the same steps: a test is a table, and
//! a journal can be played again.
//!
//! ```text
//! Ready ──budget──► Asking ──reply──► decided ──allow──► Doing ──receipt──► Ready
//!   │                 │ retry: Pausing     │ no action, denied: feedback, Ready     │ uncertain: look, or end
//!   └ used up: Ended  └ fatal: Ended       │ ask: Waiting   │ stop: Ended           └ gone: Ended
//! ```
//!
//! What may never happen hangs on the effects and not on the actions: every write goes through
//! [`Machine::begin`], which drops the last pass.

mod act;
mod ask;
mod check;
mod decide;
mod play;
mod repeats;
mod step;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::acceptance::{Acceptance, CheckPlan};
use crate::action::Defect;
use crate::budget::{Budget, Reserve, Spent};
use crate::digest::Digest;
use crate::ids::{AttemptId, RequestId};
use crate::journal::{
    Answer, ApprovalRecord, Durability, Ended, Event, Intent, Paused, Receipt, Replied,
    ReplyRecord, Resumed, Started, TurnResult,
};
use crate::manifest::Tree;
use crate::model::{ModelError, ModelErrorKind, ModelReply};
use crate::outcome::{
    AcceptanceOutcome, AcceptanceState, CheckOutcome, End, Latency, UncertainRequest,
};
use crate::path::RelPath;
use crate::policy::{Approval, Policy};
use crate::private::Private;
use crate::serde_as::millis::cut;
use crate::workspace::StopState;

pub(crate) use check::sources;
pub(crate) use step::{Effect, Question, Step};

use act::Doing;
use check::{Planned, Verified};
use decide::Asking;
use repeats::Repeats;
use view::CheckView;

/// What an attempt is made of, checked and complete.
pub(crate) struct Setup {
    pub(crate) attempt: AttemptId,
    pub(crate) started: Started,
    pub(crate) policies: Vec<Arc<dyn Policy>>,
    pub(crate) acceptance: Arc<dyn Acceptance>,
    pub(crate) plans: BTreeMap<String, Arc<CheckPlan>>,
    pub(crate) model_deadline: Duration,
}

enum Phase {
    New,
    Ready,
    Asking {
        question: Arc<Question>,
        reserve: Reserve,
        tries: u32,
    },
    Pausing {
        at_least: Duration,
        up_to: Duration,
        tries: u32,
    },
    Waiting {
        approval: Approval,
    },
    Doing {
        id: RequestId,
        effect: Effect,
        doing: Doing,
    },
    Ended(End),
}

/// What is known, and what comes next.
pub(crate) struct Machine {
    setup: Setup,
    /// The checks by their names.
    plans: BTreeMap<String, Arc<Planned>>,
    phase: Phase,
    records: Vec<(Event, Durability)>,
    /// How much time has passed, as of the last call that said so.
    now: Duration,

    /// The turn that is being made, from 1; 0 before the first.
    turn: u32,
    /// Requests of this turn so far.
    seq: u32,
    turns_used: u32,
    turn_took: Duration,
    /// What the reply of this turn asks for.
    action: Option<Asking>,

    base: Tree,
    known: Tree,
    /// The turn in which the model last saw each file.
    seen: BTreeMap<RelPath, u32>,
    /// Whether there are writes that no check has seen.
    dirty: bool,
    verified: Option<Verified>,
    last_check: CheckView,
    refusal: Option<String>,

    spent: Spent,
    format_errors: u32,
    invalid_checks: u32,
    workspace_failures: u32,
    repeats: Repeats,
    checks: Vec<CheckOutcome>,
    uncertain: Vec<UncertainRequest>,
    latency: Latency,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        let latency = Latency {
            provision: setup.started.provision,
            ..Latency::default()
        };
        let planned = |(name, plan): (&String, &Arc<CheckPlan>)| {
            let planned = Planned {
                name: name.clone(),
                plan: Arc::clone(plan),
                digest: plan.digest(),
            };
            (name.clone(), Arc::new(planned))
        };
        Self {
            plans: setup.plans.iter().map(planned).collect(),
            setup,
            phase: Phase::New,
            records: Vec::new(),
            now: Duration::ZERO,
            turn: 0,
            seq: 0,
            turns_used: 0,
            turn_took: Duration::ZERO,
            action: None,
            base: Tree::new(),
            known: Tree::new(),
            seen: BTreeMap::new(),
            dirty: false,
            verified: None,
            last_check: CheckView::None,
            refusal: None,
            spent: Spent::default(),
            format_errors: 0,
            invalid_checks: 0,
            workspace_failures: 0,
            repeats: Repeats::default(),
            checks: Vec::new(),
            uncertain: Vec::new(),
            latency,
        }
    }

    /// What to do next, `now` after the start. Asked again before the answer, it says the same.
    ///
    /// The time is taken only where a record says so, or nothing depends on it: whoever plays the
    /// records again has no other clock.
    pub(crate) fn next(&mut self, now: Duration) -> Step {
        match &self.phase {
            Phase::New => {
                self.at(now);
                let started = Box::new(self.setup.started.clone());
                self.record(Event::Started(started), Durability::Buffered);
                self.open();
            }
            Phase::Ready => {
                self.at(now);
                self.ask(1);
            }
            Phase::Pausing { .. } => self.at(now),
            Phase::Asking { .. }
            | Phase::Waiting { .. }
            | Phase::Doing { .. }
            | Phase::Ended(_) => {}
        }
        match &self.phase {
            Phase::Asking { question, .. } => Step::Ask(Arc::clone(question)),
            Phase::Pausing {
                at_least, up_to, ..
            } => Step::Pause {
                at_least: *at_least,
                up_to: *up_to,
            },
            Phase::Waiting { approval } => Step::Wait(approval.clone()),
            Phase::Doing { id, effect, .. } => Step::Do {
                id: id.clone(),
                effect: effect.clone(),
            },
            Phase::Ended(end) => Step::Done(end.clone()),
            // Both have just been left.
            Phase::New | Phase::Ready => Step::Done(End::Cancelled),
        }
    }

    /// The records since the last call, in order. They have to be kept before the step is done.
    pub(crate) fn take_records(&mut self) -> Vec<(Event, Durability)> {
        std::mem::take(&mut self.records)
    }

    /// What the model said, or why it said nothing. Not asked: ignored.
    pub(crate) fn reply(&mut self, result: Result<ModelReply, ModelError>, took: Duration) {
        let Phase::Asking {
            question,
            reserve,
            tries,
        } = &self.phase
        else {
            return;
        };
        let (id, reserve, tries) = (question.id.clone(), *reserve, *tries);
        let (result, took) = (as_written(result), cut(took));
        self.pass(took);
        self.settle(&result, reserve, took);
        let said = match &result {
            Ok(reply) => Ok(crate::action::parse(&reply.text, reply.finish)),
            Err(error) if error.kind == ModelErrorKind::Empty => Ok(Err(Defect::Empty)),
            Err(error) => Err(error.clone()),
        };
        self.record(
            Event::Replied(Replied {
                id,
                turn: self.turn,
                took,
                reply: ReplyRecord::of(result),
            }),
            Durability::Buffered,
        );
        match said {
            Ok(action) => {
                self.turns_used += 1;
                match action {
                    Ok(action) => self.decide(action),
                    Err(defect) => self.not_an_action(&defect),
                }
            }
            Err(error) => self.model_failed(error, tries),
        }
    }

    /// The pause is over, and was so long.
    pub(crate) fn paused(&mut self, took: Duration) {
        if let Phase::Pausing { tries, .. } = self.phase {
            let took = cut(took);
            self.pass(took);
            self.latency.backoff += took;
            let paused = Paused {
                turn: self.turn,
                took,
                elapsed: self.now,
            };
            self.record(Event::Paused(paused), Durability::Buffered);
            self.ask(tries + 1);
        }
    }

    /// What the person said, after so long.
    pub(crate) fn approved(&mut self, granted: bool, took: Duration) {
        let Phase::Waiting { approval } = &self.phase else {
            return;
        };
        let (question, action) = (approval.question.clone(), approval.action.clone());
        let took = cut(took);
        self.pass(took);
        self.latency.approval += took;
        let record = ApprovalRecord {
            turn: self.turn,
            question,
            granted,
            took,
        };
        self.record(Event::Approval(record), Durability::Buffered);
        match granted {
            true => self.carry_out(action),
            false => self.feedback(TurnResult::Refused, "a person did not allow it".to_owned()),
        }
    }

    /// What came of the effect `id`. Another id is ignored.
    pub(crate) fn answer(&mut self, id: &RequestId, answer: Answer, took: Duration) {
        let is_check = match &self.phase {
            Phase::Doing {
                id: pending,
                effect,
                ..
            } if pending == id => {
                matches!(effect, Effect::Stage { .. })
            }
            _ => return,
        };
        let took = cut(took);
        self.pass(took);
        let answer = answer.written_down();
        match is_check {
            true => self.latency.check += took,
            false => self.latency.files += took,
        }
        if let Answer::Stage(run) = &answer {
            self.latency.exec += run.receipt.duration;
        }
        let receipt = Receipt {
            id: id.clone(),
            turn: self.turn,
            took,
            answer: answer.clone(),
        };
        let durability = match answer {
            Answer::Got(_) | Answer::Listed(_) => Durability::Buffered,
            _ => Durability::Synced,
        };
        self.record(Event::Receipt(receipt), durability);
        self.answered(id, answer, took);
    }

    /// Another program goes on. A call of the model that had no answer is paid for without anybody
    /// knowing how much, and asked again; it changed nothing.
    pub(crate) fn resumed(&mut self, resumed: Resumed) {
        self.record(Event::Resumed(resumed), Durability::Buffered);
        if let Phase::Asking { reserve, tries, .. } = self.phase {
            self.spent
                .settle(reserve, None, None, self.setup.started.price.as_ref());
            self.ask(tries);
        }
    }

    /// The caller gives up. What was being done is uncertain.
    pub(crate) fn cancel(&mut self) {
        match &self.phase {
            Phase::Doing { id, effect, .. } if effect.changes_something() => {
                self.note_uncertain(id.clone(), effect.name());
            }
            Phase::Asking { reserve, .. } => {
                let reserve = *reserve;
                self.spent
                    .settle(reserve, None, None, self.setup.started.price.as_ref());
            }
            _ => {}
        }
        self.end(End::Cancelled);
    }

    /// The journal cannot be written: nothing more may be done.
    pub(crate) fn journal_failed(&mut self, detail: Private) {
        self.records.clear();
        self.phase = Phase::Ended(End::JournalFailed { detail });
    }

    pub(crate) fn summary(&self) -> Summary<'_> {
        Summary {
            started: &self.setup.started,
            base: &self.base,
            known: &self.known,
            verified: self.verified.as_ref(),
            turns: self.turns_used,
            spent: &self.spent,
            checks: &self.checks,
            uncertain: &self.uncertain,
            latency: self.latency,
            now: self.now,
        }
    }

    /// How much time has passed, as far as it was said.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Why it is over, where it is.
    pub(crate) fn ended(&self) -> Option<&End> {
        match &self.phase {
            Phase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// What is to be done to the workspace, where that is what comes next.
    pub(crate) fn doing(&self) -> Option<(&RequestId, &Effect)> {
        match &self.phase {
            Phase::Doing { id, effect, .. } => Some((id, effect)),
            _ => None,
        }
    }

    /// What the workspace says of itself.
    pub(crate) fn workspace(&self) -> &serde_json::Value {
        &self.setup.started.workspace.identity
    }

    fn open(&mut self) {
        let seed = self.setup.started.files.clone();
        self.begin(Effect::Open { seed }, |_| Doing::Open);
    }

    /// It is `now`, or later where that is known.
    fn at(&mut self, now: Duration) {
        self.now = self.now.max(cut(now));
    }

    /// So much time has passed in this turn.
    fn pass(&mut self, took: Duration) {
        self.now += took;
        self.turn_took += took;
    }

    fn record(&mut self, event: Event, durability: Durability) {
        self.records.push((event, durability));
    }

    fn next_id(&mut self) -> RequestId {
        let id = RequestId::of(&self.setup.attempt, self.turn, self.seq);
        self.seq += 1;
        id
    }

    fn budget(&self) -> &Budget {
        &self.setup.started.budget
    }

    /// Starts an effect: the one place where anything is done to the workspace. Whatever was
    /// verified before a write or a check is not any more, also where the write fails or changes
    /// nothing.
    fn begin(&mut self, effect: Effect, doing: impl FnOnce(RequestId) -> Doing) {
        if effect.changes_something() && self.verified.take().is_some() {
            self.changed();
        }
        let id = self.next_id();
        let (intended, durability) = effect.intended();
        let intent = Intent {
            id: id.clone(),
            turn: self.turn,
            effect: intended,
        };
        self.record(Event::Intent(intent), durability);
        self.phase = Phase::Doing {
            id: id.clone(),
            effect,
            doing: doing(id),
        };
    }

    /// The known files are not those that were checked any more.
    fn changed(&mut self) {
        self.verified = None;
        self.last_check = CheckView::Outdated;
        self.dirty = true;
    }

    fn end(&mut self, end: End) {
        self.phase = Phase::Ended(end);
    }

    fn note_uncertain(&mut self, id: RequestId, what: &str) {
        self.uncertain.push(UncertainRequest {
            id,
            what: what.to_owned(),
            resolved: false,
        });
    }
}

/// What an outcome is made of.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    pub(crate) started: &'a Started,
    pub(crate) base: &'a Tree,
    pub(crate) known: &'a Tree,
    verified: Option<&'a Verified>,
    pub(crate) turns: u32,
    pub(crate) spent: &'a Spent,
    pub(crate) checks: &'a [CheckOutcome],
    pub(crate) uncertain: &'a [UncertainRequest],
    pub(crate) latency: Latency,
    now: Duration,
}

/// What is known of an end besides what the machine knows.
#[derive(Debug)]
pub(crate) struct Circumstances {
    pub(crate) patch_sha256: Digest,
    pub(crate) stop: StopState,
    pub(crate) total: Duration,
    pub(crate) files_kept: bool,
    pub(crate) evidence_errors: Vec<String>,
}

impl Summary<'_> {
    /// The last record.
    pub(crate) fn ended(&self, end: &End, circumstances: Circumstances) -> Ended {
        let Circumstances {
            patch_sha256,
            stop,
            total,
            files_kept,
            evidence_errors,
        } = circumstances;
        Ended {
            end: end.clone(),
            acceptance: self.acceptance(end),
            turns: self.turns,
            base: self.base.hash(),
            tree: self.known.hash(),
            patch_sha256,
            stop,
            elapsed: self.now,
            total,
            files_kept,
            evidence_errors,
        }
    }

    /// What can be said about the change after `end`, and what it rests on.
    pub(crate) fn acceptance(&self, end: &End) -> AcceptanceOutcome {
        let state = end.acceptance();
        let pass = self.verified.filter(|_| state == AcceptanceState::Accepted);
        AcceptanceOutcome {
            state,
            level: pass.map(Verified::level),
            tree: pass.map(Verified::tree),
            plan: pass.map(Verified::plan),
            evaluator: pass.map(Verified::evaluator),
            evidence: pass.map(Verified::evidence),
            check: pass.map(|pass| pass.check().clone()),
        }
    }
}

/// A reply as it is read back after it was written down.
fn as_written(result: Result<ModelReply, ModelError>) -> Result<ModelReply, ModelError> {
    match result {
        Ok(mut reply) => {
            reply.queue = reply.queue.map(cut);
            Ok(reply)
        }
        Err(mut error) => {
            error.retry_after = error.retry_after.map(cut);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
