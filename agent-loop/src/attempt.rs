//! One attempt at one task.

mod decided;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, pending};

use crate::acceptance::{self, Acceptance, At, CheckPlan};
use crate::budget::{Budget, OnUnknown};
use crate::clock::{Clock, SystemClock};
use crate::digest::Digest;
use crate::driver::{self, Parts};
use crate::error::Error;
use crate::evidence::{RunDir, pretty};
use crate::ids::AttemptId;
use crate::journal::{
    Evaluator, FileJournal, Journal, MemoryJournal, Observer, Record, Resumed, Started,
    WorkspaceRecord,
};
use crate::machine::{Machine, Setup};
use crate::manifest::{File, Tree};
use crate::model::{Model, Price};
use crate::outcome::{ModelRevision, Outcome, Revisions, TaskRef};
use crate::path::{InvalidPath, RelPath};
use crate::play::play;
use crate::policy::{Approver, Paths, Policy};
use crate::prompt::{self, Choice, Offer, Order};
use crate::serde_as::millis::cut;
use crate::workspace::{Workspace, Workspaces};

/// One requested change.
///
/// # Examples
/// ```
/// use agent_loop::Task;
///
/// let task = Task::new("amounts", "total(xs) must return the sum of xs.")
///     .attempt(2)
///     .file("amounts.py", "def total(xs):\n    return 0\n")?;
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Task does nothing until it is attempted"]
pub struct Task {
    id: String,
    attempt: u32,
    text: String,
    files: Tree,
    repository: Option<String>,
}

impl Task {
    /// The task `id`, a name of letters, digits and `_ . : -`, and what it asks for.
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            attempt: 1,
            text: text.into(),
            files: Tree::new(),
            repository: None,
        }
    }

    /// Says which try it is. Default: 1.
    pub fn attempt(mut self, number: u32) -> Self {
        self.attempt = number;
        self
    }

    /// Adds a file that is put into the workspace at the start, where there has to be none.
    ///
    /// # Errors
    /// Where `path` is no path inside a workspace.
    pub fn file(
        mut self,
        path: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidPath> {
        self.files
            .insert(RelPath::parse(path.as_ref())?, File::new(bytes));
        Ok(self)
    }

    /// Says which revision of a repository the files are from.
    pub fn repository_revision(mut self, revision: impl Into<String>) -> Self {
        self.repository = Some(revision.into());
        self
    }
}

/// When an attempt asks for the end of its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three cases are complete")]
pub enum StopAtEnd {
    /// It is left as it is, for the caller to end.
    #[default]
    Never,
    /// Where the change is accepted; else it is left for somebody to look into.
    Accepted,
    /// However the attempt ends.
    Always,
}

/// One task, one model, one workspace and one acceptance, driven to an [`Outcome`].
///
/// What is required is given to [`new`](Self::new), the rest has defaults.
///
/// # Examples
/// ```
/// use agent_loop::{
///     Attempt, ExecReceipt, MemoryWorkspace, Paths, ScriptedModel, Task, UnittestAcceptance,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let task = Task::new("amounts", "total(xs) must return the sum of xs.")
///     .file("amounts.py", "def total(xs):\n    return 0\n")?;
/// let model = ScriptedModel::new([
///     r#"{"action":"write","path":"amounts.py","content":"def total(xs):\n    return sum(xs)\n"}"#,
///     r#"{"action":"check"}"#,
///     r#"{"action":"finish"}"#,
/// ]);
/// // In memory a function stands for the tests.
/// let workspace = MemoryWorkspace::new(|_spec, _files| {
///     Ok(ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"))
/// });
/// let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
///
/// let outcome = Attempt::new(task, model, workspace, acceptance, Paths::editable(["amounts.py"])?)
///     .allow_checks(true)
///     .drive()
///     .await?;
/// assert!(outcome.is_accepted());
/// assert_eq!(outcome.turns, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an Attempt does nothing until it is driven"]
pub struct Attempt {
    task: Task,
    model: Arc<dyn Model>,
    workspace: Arc<dyn Workspace>,
    acceptance: Arc<dyn Acceptance>,
    paths: Paths,
    allow_checks: bool,
    budget: Budget,
    order: Order,
    system: String,
    seed: Option<u64>,
    max_output_tokens: u32,
    model_deadline: Duration,
    provision: Option<Duration>,
    stop: StopAtEnd,
    keep_files: bool,
    policies: Vec<Arc<dyn Policy>>,
    approver: Option<Arc<dyn Approver>>,
    fresh: Option<Arc<dyn Workspaces>>,
    run_dir: Option<RunDir>,
    journal: Option<Box<dyn Journal>>,
    observers: Vec<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    cancelled: BoxFuture<'static, ()>,
}

impl Attempt {
    /// An attempt at `task`: `model` proposes, `workspace` holds the files, of which `paths` says
    /// what may be written and read, and `acceptance` decides.
    pub fn new(
        task: Task,
        model: impl Model + 'static,
        workspace: impl Workspace + 'static,
        acceptance: impl Acceptance + 'static,
        paths: Paths,
    ) -> Self {
        Self {
            task,
            model: Arc::new(model),
            workspace: Arc::new(workspace),
            acceptance: Arc::new(acceptance),
            paths,
            allow_checks: false,
            budget: Budget::default(),
            order: Order::default(),
            system: prompt::SYSTEM.to_owned(),
            seed: None,
            max_output_tokens: 1024,
            model_deadline: Duration::from_secs(120),
            provision: None,
            stop: StopAtEnd::Never,
            keep_files: false,
            policies: Vec::new(),
            approver: None,
            fresh: None,
            run_dir: None,
            journal: None,
            observers: Vec::new(),
            clock: Arc::new(SystemClock::new()),
            cancelled: pending().boxed(),
        }
    }

    /// Allows checks, which run code that a model wrote. Without it there is no attempt.
    pub fn allow_checks(mut self, allow: bool) -> Self {
        self.allow_checks = allow;
        self
    }

    /// Changes what may be used up.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Adds a policy. Of several the strictest counts, and none can allow what `paths` does not.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Sets who answers what a policy asks. Default: nobody, and what is asked is denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets where fresh places come from, for the stages of a check that need one.
    pub fn fresh(mut self, places: impl Workspaces + 'static) -> Self {
        self.fresh = Some(Arc::new(places));
        self
    }

    /// Changes which actions the model is offered. Default: the one that makes sense now.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Changes the first message of the prompt. Default: for the repair of Python projects. It has
    /// to show the four actions.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system = text.into();
        self
    }

    /// Sets a seed, from which each turn has one of its own. Default: none.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Changes the most tokens of a reply. Default: 1,024.
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// Changes how long one call of the model may take. Default: two minutes.
    pub fn model_deadline(mut self, deadline: Duration) -> Self {
        self.model_deadline = deadline;
        self
    }

    /// Says how long it took until the workspace was there, for the outcome.
    pub fn provisioned_in(mut self, took: Duration) -> Self {
        self.provision = Some(took);
        self
    }

    /// When the end of the workspace is asked for, once the attempt is over. Default: never.
    pub fn stop_at_end(mut self, stop: StopAtEnd) -> Self {
        self.stop = stop;
        self
    }

    /// Keeps the workspace's files as they are at the end, as far as the loop knows them, in the
    /// folder `files` of the run, however it ends. Default: only the patch is kept.
    pub fn keep_files(mut self, keep: bool) -> Self {
        self.keep_files = keep;
        self
    }

    /// Keeps the evidence in a folder: `workspace.json`, `actions.jsonl`, `patch.diff` and
    /// `outcome.json`. Default: none is kept on the disk.
    pub fn record_in(mut self, folder: RunDir) -> Self {
        self.run_dir = Some(folder);
        self
    }

    /// Keeps the records in `journal` instead of a file in the folder of the run.
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// Adds somebody who sees every record.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Sets where time and chance come from. Default: the machine.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Ends the attempt, with all its evidence, as soon as `signal` is ready.
    pub fn cancel_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancelled = signal.boxed();
        self
    }

    /// Makes the attempt.
    ///
    /// # Errors
    /// Where it is put together wrongly; nothing was done then. What goes wrong later is in the
    /// outcome.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the journal as it is, with an intent and no receipt for what was
    /// being done, and writes no outcome. Use [`cancel_on`](Self::cancel_on) to end it in order.
    pub async fn drive(self) -> Result<Outcome, Error> {
        let (setup, parts) = self.build()?;
        Ok(driver::drive(setup, parts).await)
    }

    /// Goes on with the attempt whose records are in `folder`, after its program was ended. It has
    /// to be put together as it was before: what differs is an error that names it.
    ///
    /// | last record | what is done |
    /// |---|---|
    /// | none | the attempt begins |
    /// | `asked` | the model is asked again; the lost call counts as one of unknown cost |
    /// | `replied` | what the model said is read from the journal, and it is not asked again |
    /// | intent of a write | the file is looked at: written, not written, or [`End::Uncertain`](crate::End::Uncertain) |
    /// | intent of a check | the workspace is asked what became of the command, where it knows; else it runs again, in a new place |
    /// | `placing` | a fresh place may have been made: what was is ended ([`Workspaces::end`]), and then another one is asked for |
    /// | `placed`, `prepared` | the fresh place is opened again ([`Workspaces::reopen`]) and asked what became of the command; where it does not know, it is ended before there is another |
    /// | receipt, and everything else | it goes on |
    /// | `ended` | nothing but the files of the evidence, where they are missing, and the end of the workspace, where it is not confirmed |
    ///
    /// The budget is what was left. The time between the two programs does not count. The outcome is
    /// that of an attempt that was never interrupted, but for times, lost calls of the model, and
    /// requests that had to be looked for, which are among [`Outcome::uncertain`]. Observers see the
    /// earlier records first, as [`Observer::played`].
    ///
    /// # Errors
    /// As [`drive`](Self::drive); and where another program writes the journal, where it is damaged
    /// ([`Error::Journal`]), where it is of another attempt, or does not follow from its own answers.
    /// Nothing was done then.
    ///
    /// # Cancel safety
    /// As [`drive`](Self::drive).
    pub async fn resume(mut self, folder: impl AsRef<Path>) -> Result<Outcome, Error> {
        let folder = RunDir::open(folder.as_ref()).map_err(Error::RunDir)?;
        let (journal, read) = FileJournal::open(folder.path()).map_err(Error::Journal)?;
        let mend = || {
            FileJournal::mend(folder.path(), &read).map_err(|error| Error::Journal(error.into()))
        };
        let records: Vec<Record> = read.known().cloned().collect();
        self.run_dir = Some(folder.clone());
        self.journal = Some(Box::new(journal));
        let (mut setup, parts) = self.build()?;
        let Some(started) = records.first().and_then(Record::started) else {
            if !records.is_empty() {
                return Err(Error::AnotherAttempt { what: "journal" });
            }
            mend()?;
            return Ok(driver::drive(setup, parts).await);
        };
        setup.started.workspace_json = folder.workspace_digest();
        setup.started.provision = started.provision;
        if let Some(what) = setup.started.first_difference(started) {
            return Err(Error::AnotherAttempt { what });
        }
        setup.started = Started::clone(started);
        let played = play(Machine::new(setup), &records);
        if let Some(difference) = played.differences.first() {
            return Err(Error::NotPlayed {
                line: difference.at + 1,
                kind: difference.kind,
            });
        }
        mend()?;
        let torn_bytes = read.torn_tail.map_or(0, |torn| torn.len as u64);
        let seq = read.records.len() as u64;
        Ok(driver::resume(played, Resumed { torn_bytes }, seq, &records, parts).await)
    }

    /// The first record that the attempt would write.
    ///
    /// # Errors
    /// As [`drive`](Self::drive), but for the folder of the run.
    pub(crate) fn would_start(&self) -> Result<Started, Error> {
        self.examine()?;
        let budget = self.budget.clone().written_down();
        let plans = self.plans(&budget)?;
        let default_check = self.default_check()?;
        Ok(self.started(budget, &plans, default_check, self.model.price()))
    }

    /// Finds what is put together wrongly.
    fn examine(&self) -> Result<(), Error> {
        if !self.allow_checks {
            return Err(Error::ChecksNotAllowed);
        }
        if self.budget.turns == 0 {
            return Err(Error::NoTurns);
        }
        if self.paths.editable_entries().next().is_none() {
            return Err(Error::NothingEditable);
        }
        let refuses = |limit: crate::budget::CostLimit| limit.unknown == OnUnknown::Refuse;
        if self.model.price().is_none() && self.budget.cost.is_some_and(refuses) {
            return Err(Error::UnpricedModel {
                model: self.model.name().to_owned(),
            });
        }
        Ok(())
    }

    /// The check that is meant where the model names none.
    fn default_check(&self) -> Result<String, Error> {
        self.acceptance
            .names()
            .into_iter()
            .next()
            .ok_or(Error::NoChecks)
    }

    fn build(self) -> Result<(Setup, Parts), Error> {
        self.examine()?;
        let attempt = AttemptId::new(&self.task.id, self.task.attempt).map_err(Error::TaskId)?;
        let price = self.model.price();
        let budget = self.budget.clone().written_down();
        let plans = self.plans(&budget)?;
        let default_check = self.default_check()?;
        let started = self.started(budget, &plans, default_check, price);
        let journal: Box<dyn Journal> = match (self.journal, &self.run_dir) {
            (Some(journal), _) => journal,
            (None, Some(folder)) => {
                Box::new(FileJournal::create(folder.path()).map_err(Error::RunDir)?)
            }
            (None, None) => Box::new(MemoryJournal::new()),
        };
        let setup = Setup {
            attempt,
            started,
            policies: self.policies,
            acceptance: self.acceptance,
            plans,
            model_deadline: self.model_deadline,
        };
        let parts = Parts {
            model: self.model,
            workspace: self.workspace,
            fresh: self.fresh,
            approver: self.approver,
            journal,
            observers: self.observers,
            run_dir: self.run_dir,
            clock: self.clock,
            cancelled: self.cancelled,
            stop: self.stop,
            keep_files: self.keep_files,
        };
        Ok((setup, parts))
    }

    /// The plans of all checks, within the limits of the budget.
    fn plans(&self, budget: &Budget) -> Result<BTreeMap<String, Arc<CheckPlan>>, Error> {
        let mut plans = BTreeMap::new();
        for (name, plan) in acceptance::plans(&*self.acceptance) {
            let Some(mut plan) = plan.filter(|plan| !plan.stages.is_empty()) else {
                return Err(Error::NoPlan { name });
            };
            plan.limit(budget.check_limit);
            for stage in &plan.stages {
                if stage.at == At::Fresh && self.fresh.is_none() {
                    return Err(Error::NoFreshPlaces { name });
                }
                let mut named = self.paths.editable_entries();
                if let Some(path) = named.find(|path| stage.fixtures.get(path).is_some()) {
                    return Err(Error::EditableFixture { path: path.clone() });
                }
            }
            plans.insert(name, Arc::new(plan));
        }
        Ok(plans)
    }

    fn started(
        &self,
        budget: Budget,
        plans: &BTreeMap<String, Arc<CheckPlan>>,
        default_check: String,
        price: Option<Price>,
    ) -> Started {
        let evaluator = Evaluator {
            revision: self.acceptance.revision(),
            description: self
                .acceptance
                .description()
                .and_then(|description| pretty(&description).ok())
                .map(|text| Digest::of(&text)),
        };
        let revisions = Revisions {
            repository: self.task.repository.clone(),
            prompt: prompt::revision(&self.system, self.order),
            model: ModelRevision {
                name: self.model.name().to_owned(),
                settings: self.model.settings(),
                seed: self.seed,
                max_output_tokens: self.max_output_tokens,
            },
            tool_definitions: tool_definitions(plans.keys()),
            evaluation_manifest: evaluation_manifest(evaluator.revision, plans),
        };
        Started {
            task: TaskRef {
                id: self.task.id.clone(),
                attempt: self.task.attempt,
            },
            text: self.task.text.clone(),
            revisions,
            paths: self.paths.clone(),
            budget,
            order: self.order,
            system: self.system.clone(),
            files: self.task.files.clone(),
            checks: plans
                .iter()
                .map(|(name, plan)| (name.clone(), plan.summary()))
                .collect(),
            default_check,
            evaluator,
            policies: u32::try_from(self.policies.len()).unwrap_or(u32::MAX),
            approver: self.approver.is_some(),
            price,
            provision: self.provision.map(cut),
            workspace: WorkspaceRecord {
                identity: self.workspace.identity(),
                capabilities: self.workspace.capabilities(),
            },
            // Known when it is written, which is before this is.
            workspace_json: None,
        }
    }
}

/// The digest of the schema with all actions.
pub(crate) fn tool_definitions<'a>(checks: impl Iterator<Item = &'a String>) -> Digest {
    let tools = Offer {
        read: Some(Choice::Any),
        write: Some(Choice::Any),
        check: Some(checks.cloned().collect()),
        finish: true,
    };
    Digest::of(tools.schema().as_bytes())
}

/// The digest of an evaluator with all its plans.
pub(crate) fn evaluation_manifest(
    evaluator: Digest,
    plans: &BTreeMap<String, Arc<CheckPlan>>,
) -> Digest {
    let mut manifest = vec![evaluator.as_bytes().to_vec()];
    for (name, plan) in plans {
        manifest.push(name.clone().into_bytes());
        manifest.push(plan.digest().as_bytes().to_vec());
    }
    Digest::of_parts(manifest.iter().map(Vec::as_slice))
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("task", &self.task.id)
            .field("model", &self.model.name())
            .field("paths", &self.paths)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
