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
mod check;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::acceptance::{Acceptance, CheckPlan};
use crate::action::{Action, Defect};
use crate::budget::{Budget, Reserve, Short, Spent};
use crate::digest::{Digest, TreeHash};
use crate::ids::{AttemptId, RequestId};
use crate::journal::{
    Answer, ApprovalRecord, Asked, Decided, Durability, Event, Intended, Intent, Receipt, Replied,
    ReplyRecord, Started, TurnEnded, TurnResult,
};
use crate::manifest::{File, Tree};
use crate::model::{Message, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price, Usage};
use crate::outcome::{
    AcceptanceOutcome, AcceptanceState, CheckOutcome, End, Latency, Limit, UncertainRequest,
};
use crate::path::RelPath;
use crate::policy::{Approval, Decision, Policy, PolicyContext};
use crate::private::Private;
use crate::text::estimated_tokens;
use crate::workspace::Precondition;

pub(crate) use check::sources;

use act::Doing;
use check::Verified;
use view::CheckView;

/// Calls of the model for one turn, the first one among them.
const MOST_TRIES: u32 = 4;
/// The longest pause after the first failed call; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that we choose ourselves.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Failures of the workspace in a row after which it is given up.
const MOST_FAILURES: u32 = 3;

/// What an attempt is made of, checked and complete.
pub(crate) struct Setup {
    pub(crate) attempt: AttemptId,
    pub(crate) started: Started,
    pub(crate) seed_files: Tree,
    pub(crate) policies: Vec<Arc<dyn Policy>>,
    pub(crate) acceptance: Arc<dyn Acceptance>,
    pub(crate) plans: BTreeMap<String, Arc<CheckPlan>>,
    /// The check that is meant where the model names none.
    pub(crate) default_check: String,
    pub(crate) has_approver: bool,
    pub(crate) price: Option<Price>,
    pub(crate) model_deadline: Duration,
    /// How long it took until the workspace was there, where the caller said so.
    pub(crate) provision: Option<Duration>,
}

/// What to do next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Ask the model, then call [`Machine::reply`].
    Ask(Arc<Question>),
    /// Wait, then call [`Machine::paused`]: `at_least`, or a chance part of `up_to` if longer.
    Pause { at_least: Duration, up_to: Duration },
    /// Ask a person, then call [`Machine::approved`].
    Wait(Approval),
    /// Do something to the workspace, then call [`Machine::answer`].
    Do { id: RequestId, effect: Effect },
    /// It is over.
    Done(End),
}

/// A question to the model.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    id: RequestId,
    messages: [Message; 2],
    schema: String,
    seed: Option<u64>,
    max_output_tokens: u32,
    deadline: Duration,
}

impl Question {
    pub(crate) fn request(&self) -> ModelRequest<'_> {
        let mut request = ModelRequest::new(self.id.clone(), &self.messages)
            .schema(&self.schema)
            .max_output_tokens(self.max_output_tokens)
            .deadline(self.deadline);
        request.seed = self.seed;
        request
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Something to do to the workspace. There are no others.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Put the task's files where there are none, and read everything that is there.
    Open { seed: Tree },
    /// Read a file.
    Get { path: RelPath, max: u64 },
    /// Write a file.
    Put {
        path: RelPath,
        file: Arc<File>,
        before: Precondition,
    },
    /// Run one stage of a check in an empty place.
    Stage {
        plan: Arc<CheckPlan>,
        stage: usize,
        tree: Tree,
    },
    /// List the workspace.
    ReadBack,
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
    action: Option<Action>,

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
    repeats: HashMap<(Digest, TreeHash), u32>,
    checks: Vec<CheckOutcome>,
    uncertain: Vec<UncertainRequest>,
    latency: Latency,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        let latency = Latency {
            provision: setup.provision,
            ..Latency::default()
        };
        Self {
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
            repeats: HashMap::new(),
            checks: Vec::new(),
            uncertain: Vec::new(),
            latency,
        }
    }

    /// What to do next, `now` after the start. Asked again before the answer, it says the same.
    pub(crate) fn next(&mut self, now: Duration) -> Step {
        self.now = self.now.max(now);
        match &self.phase {
            Phase::New => {
                let started = Box::new(self.setup.started.clone());
                self.record(Event::Started(started), Durability::Buffered);
                let seed = self.setup.seed_files.clone();
                self.begin(Effect::Open { seed }, None, |_| Doing::Open);
            }
            Phase::Ready => self.ask(1),
            _ => {}
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
        self.pass(took);
        let reply = ReplyRecord::of(&result);
        self.record(
            Event::Replied(Replied {
                id,
                turn: self.turn,
                took,
                reply,
            }),
            Durability::Buffered,
        );
        self.settle(&result, reserve, took);
        match result {
            Ok(reply) => {
                self.turns_used += 1;
                match crate::action::parse(&reply.text, reply.finish) {
                    Ok(action) => self.decide(action),
                    Err(defect) => self.not_an_action(&defect),
                }
            }
            Err(error) if error.kind == ModelErrorKind::Empty => {
                self.turns_used += 1;
                self.not_an_action(&Defect::Empty);
            }
            Err(error) => self.model_failed(error, tries),
        }
    }

    /// The pause is over, and was so long.
    pub(crate) fn paused(&mut self, took: Duration) {
        if let Phase::Pausing { tries, .. } = self.phase {
            self.pass(took);
            self.latency.backoff += took;
            self.ask(tries + 1);
        }
    }

    /// What the person said, after so long.
    pub(crate) fn approved(&mut self, granted: bool, took: Duration) {
        let Phase::Waiting { approval } = &self.phase else {
            return;
        };
        let (question, action) = (approval.question.clone(), approval.action.clone());
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
        self.pass(took);
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

    /// The caller gives up. What was being done is uncertain.
    pub(crate) fn cancel(&mut self) {
        match &self.phase {
            Phase::Doing { id, effect, .. } if effect.changes_something() => {
                self.note_uncertain(id.clone(), effect.name());
            }
            Phase::Asking { reserve, .. } => {
                let reserve = *reserve;
                self.spent
                    .settle(reserve, None, None, self.setup.price.as_ref());
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
            price: self.setup.price.as_ref(),
            checks: &self.checks,
            uncertain: &self.uncertain,
            latency: self.latency,
        }
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
    fn begin(
        &mut self,
        effect: Effect,
        check: Option<&str>,
        doing: impl FnOnce(RequestId) -> Doing,
    ) {
        if effect.changes_something() && self.verified.take().is_some() {
            self.changed();
        }
        let id = self.next_id();
        let (intended, durability) = effect.intended(check);
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

    /// Asks the model, where the budget allows it.
    fn ask(&mut self, tries: u32) {
        let budget = self.budget();
        let over =
            |limit: Option<Duration>, used: Duration| limit.is_some_and(|limit| used >= limit);
        let limit = if self.turns_used >= budget.turns {
            Some(Limit::Turns)
        } else if over(budget.wall, self.now) {
            Some(Limit::Wall)
        } else if over(budget.working, self.now.saturating_sub(self.waited())) {
            Some(Limit::Working)
        } else {
            None
        };
        if let Some(limit) = limit {
            self.end(End::Exhausted { limit });
            return;
        }
        if tries == 1 {
            self.turn = self.turns_used + 1;
            self.seq = 0;
            self.turn_took = Duration::ZERO;
            self.action = None;
        }
        let prompt = self.prompt();
        let system = self.setup.started.system.clone();
        let model = &self.setup.started.revisions.model;
        let (max_output_tokens, seed) = (model.max_output_tokens, self.turn_seed(model.seed));
        let estimate = estimated_tokens(&system) + estimated_tokens(&prompt);
        let cost_limit = self.budget().cost;
        let price = self.setup.price.as_ref();
        let reserve = Spent::reserve(estimate, max_output_tokens, price, cost_limit.as_ref());
        if let Err(short) = self.spent.fits(reserve, self.budget()) {
            let limit = match short {
                Short::Tokens => Limit::Tokens,
                Short::Cost => Limit::Cost,
            };
            self.end(End::Exhausted { limit });
            return;
        }
        let id = self.next_id();
        let schema = self.offer().schema();
        let asked = Asked {
            id: id.clone(),
            turn: self.turn,
            prompt: prompt.clone(),
            schema: schema.clone(),
            seed,
            estimated_tokens: estimate,
        };
        self.record(Event::Asked(asked), Durability::Buffered);
        let remaining = self.budget().wall.map(|wall| wall.saturating_sub(self.now));
        let deadline = remaining.map_or(self.setup.model_deadline, |remaining| {
            remaining.min(self.setup.model_deadline)
        });
        let messages = [Message::system(system), Message::user(prompt)];
        let question = Question {
            id,
            messages,
            schema,
            seed,
            max_output_tokens,
            deadline,
        };
        self.phase = Phase::Asking {
            question: Arc::new(question),
            reserve,
            tries,
        };
    }

    /// A seed for each turn, so that a wrong write is not sampled again.
    fn turn_seed(&self, seed: Option<u64>) -> Option<u64> {
        let turn = u64::from(self.turn.saturating_sub(1));
        seed.map(|seed| seed.wrapping_mul(1000).wrapping_add(turn))
    }

    /// Time that was spent waiting for others and not working.
    fn waited(&self) -> Duration {
        let Latency {
            queue,
            backoff,
            approval,
            ..
        } = self.latency;
        queue.unwrap_or_default() + backoff + approval
    }

    fn settle(
        &mut self,
        result: &Result<ModelReply, ModelError>,
        reserve: Reserve,
        took: Duration,
    ) {
        let (usage, cost, queue) = match result {
            Ok(reply) => (Some(reply.usage), reply.cost, reply.queue),
            // What the server did not take it does not bill.
            Err(error) => match error.kind {
                ModelErrorKind::RateLimited
                | ModelErrorKind::Auth
                | ModelErrorKind::BadRequest
                | ModelErrorKind::ContextTooLong => {
                    let usage = error.usage.unwrap_or(Usage::new(0, 0));
                    let cost = (usage.total() == Some(0)).then(Default::default);
                    (Some(usage), cost, None)
                }
                _ => (error.usage, None, None),
            },
        };
        self.spent
            .settle(reserve, usage, cost, self.setup.price.as_ref());
        if let Some(queue) = queue {
            *self.latency.queue.get_or_insert_default() += queue;
        }
        self.latency.model += took.saturating_sub(queue.unwrap_or_default());
    }

    fn model_failed(&mut self, error: ModelError, tries: u32) {
        let kind = error.kind;
        if kind == ModelErrorKind::ContextTooLong {
            self.end(End::ContextTooLong);
            return;
        }
        let at_least = error.retry_after.unwrap_or_default();
        let remaining = self.budget().wall.map(|wall| wall.saturating_sub(self.now));
        if remaining == Some(Duration::ZERO) {
            self.end(End::Exhausted { limit: Limit::Wall });
            return;
        }
        let fits = remaining.is_none_or(|remaining| at_least < remaining);
        if !kind.is_retryable() || tries >= MOST_TRIES || !fits {
            self.end(End::ModelFailed {
                kind,
                detail: error.detail,
            });
            return;
        }
        let up_to = FIRST_PAUSE
            .saturating_mul(1 << (tries - 1))
            .min(LONGEST_PAUSE);
        let up_to = remaining.map_or(up_to, |remaining| up_to.min(remaining));
        self.phase = Phase::Pausing {
            at_least,
            up_to,
            tries,
        };
    }

    /// The reply is no action, or an action on a path that leads nowhere.
    fn not_an_action(&mut self, defect: &Defect) {
        let decision = Decision::deny(defect.to_string());
        let code = Some(defect.code().to_owned());
        let decided = Decided {
            turn: self.turn,
            action: None,
            defect: code,
            decision,
        };
        self.record(Event::Decided(decided), Durability::Buffered);
        match defect.is_format_error() {
            false => {
                self.format_errors = 0;
                self.feedback(TurnResult::Refused, defect.to_string());
            }
            true => {
                self.format_errors += 1;
                self.feedback(TurnResult::NotAnAction, defect.to_string());
                if self.format_errors >= self.budget().format_errors_in_a_row {
                    self.end(End::Exhausted {
                        limit: Limit::FormatErrors,
                    });
                }
            }
        }
    }

    /// Decides about an action: first the loop's own rules, then the policies, the strictest wins.
    fn decide(&mut self, action: Action) {
        self.format_errors = 0;
        self.action = Some(action.clone());
        let times = self
            .repeats
            .entry((action.likeness(), self.known.hash()))
            .or_default();
        *times += 1;
        let times = *times;
        if times >= self.budget().stuck_after {
            self.decided(&action, Decision::deny("repeated too often"));
            self.feedback(TurnResult::Refused, "repeated too often".to_owned());
            self.end(End::Stuck);
            return;
        }
        let decision = match times >= self.budget().repeats {
            true => Decision::deny(format!(
                "you have asked for this {times} times on the same files, and nothing has changed; do something else"
            )),
            false => self.rules(&action),
        };
        self.decided(&action, decision.clone());
        match decision {
            Decision::Allow => self.carry_out(action),
            Decision::Deny { feedback } => self.feedback(TurnResult::Refused, feedback),
            Decision::Ask { question } if self.setup.has_approver => {
                self.phase = Phase::Waiting {
                    approval: Approval { question, action },
                };
            }
            Decision::Ask { .. } => {
                let said = "this needs a person's approval, and nobody is there to give it";
                self.feedback(TurnResult::Refused, said.to_owned());
            }
            Decision::Stop { reason } => {
                self.feedback(TurnResult::Refused, reason.clone());
                self.end(End::PolicyStop { reason });
            }
        }
    }

    fn decided(&mut self, action: &Action, decision: Decision) {
        let decided = Decided {
            turn: self.turn,
            action: Some(action.to_string()),
            defect: None,
            decision,
        };
        self.record(Event::Decided(decided), Durability::Buffered);
    }

    fn rules(&self, action: &Action) -> Decision {
        let checks = u32::try_from(self.checks.len()).unwrap_or(u32::MAX);
        let context = PolicyContext::new(self.turn, self.known.hash(), checks);
        let own = self.own_rules(action).unwrap_or(Decision::Allow);
        let own = own.and(self.setup.started.paths.decide(&context, action));
        if matches!(own, Decision::Deny { .. }) {
            return own;
        }
        let policies = self.setup.policies.iter();
        policies.fold(own, |strictest, policy| {
            strictest.and(policy.decide(&context, action))
        })
    }

    /// What no policy can allow.
    fn own_rules(&self, action: &Action) -> Option<Decision> {
        match action {
            Action::Write { path, .. } if self.is_fixture(path) => Some(Decision::deny(format!(
                "{path} belongs to the check and may not be written"
            ))),
            Action::Check { name: Some(name) } if !self.setup.plans.contains_key(name) => {
                let names: Vec<&str> = self.setup.plans.keys().map(String::as_str).collect();
                let names = names.join(", ");
                let name = crate::text::one_line(name, 80);
                Some(Decision::deny(format!(
                    "there is no check {name:?}; the checks are {names}"
                )))
            }
            _ => None,
        }
    }

    fn is_fixture(&self, path: &RelPath) -> bool {
        let mut stages = self.setup.plans.values().flat_map(|plan| &plan.stages);
        stages.any(|stage| stage.fixtures.get(path).is_some())
    }

    /// Ends a turn in which the action was not done; the model is told in the next one.
    fn feedback(&mut self, result: TurnResult, said: String) {
        let subject = self.action.as_ref().map(|action| match action {
            Action::Write { path, .. } => format!("write {path}"),
            action => action.to_string(),
        });
        self.refusal = Some(match subject {
            Some(subject) => format!("Your last action, {subject}, was not done: {said}."),
            None => format!("Your last answer was not used: {said}."),
        });
        self.end_turn(result, said);
    }

    /// Ends a turn.
    fn end_turn(&mut self, result: TurnResult, said: String) {
        let action = self.action.as_ref().map(ToString::to_string);
        let took = self.turn_took;
        let turn = TurnEnded {
            turn: self.turn,
            action,
            result,
            said,
            took,
        };
        self.record(Event::Turn(turn), Durability::Buffered);
        self.phase = Phase::Ready;
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

impl Effect {
    fn changes_something(&self) -> bool {
        matches!(
            self,
            Self::Open { .. } | Self::Put { .. } | Self::Stage { .. }
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "taking over the workspace",
            Self::Get { .. } => "reading a file",
            Self::Put { .. } => "writing a file",
            Self::Stage { .. } => "running a check",
            Self::ReadBack => "listing the workspace",
        }
    }

    /// How it is written down, and how well before it is done: what only reads can be lost.
    fn intended(&self, check: Option<&str>) -> (Intended, Durability) {
        match self {
            Self::Open { seed } => {
                let files = seed.iter().map(|(path, file)| crate::journal::SeedFile {
                    path: path.clone(),
                    entry: file.entry(),
                });
                (
                    Intended::Open {
                        seed: files.collect(),
                    },
                    Durability::Synced,
                )
            }
            Self::Get { path, .. } => (Intended::Get { path: path.clone() }, Durability::Buffered),
            Self::Put { path, file, before } => {
                let intended = Intended::Put {
                    path: path.clone(),
                    before: *before,
                    after: file.digest(),
                    len: file.bytes().len() as u64,
                };
                (intended, Durability::Synced)
            }
            Self::Stage { plan, stage, tree } => {
                let intended = Intended::Stage {
                    check: check.unwrap_or_default().to_owned(),
                    stage: *stage,
                    plan: plan.digest(),
                    tree: tree.hash(),
                };
                (intended, Durability::Synced)
            }
            Self::ReadBack => (Intended::ReadBack, Durability::Buffered),
        }
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
    pub(crate) price: Option<&'a Price>,
    pub(crate) checks: &'a [CheckOutcome],
    pub(crate) uncertain: &'a [UncertainRequest],
    pub(crate) latency: Latency,
}

impl Summary<'_> {
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

#[cfg(test)]
mod tests;
