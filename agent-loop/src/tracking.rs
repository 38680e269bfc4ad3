//! An attempt in a tracked Polyaxon run: what it was made with before it begins, a receipt and
//! measurements for each step, what came of it, and the files that show it.
//!
//! ```
//! use std::sync::Arc;
//! use agent_loop::tracking::TrackingObserver;
//! use agent_loop::{Attempt, ExecReceipt, MemoryWorkspace, Paths, RunDir, ScriptedModel, Task};
//! use agent_loop::UnittestAcceptance;
//! use polyaxon_tracking::{TrackedRun, Tracking, read_metric_series};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let kept = tempfile::tempdir()?;
//! # let (offline, folder) = (kept.path().join("offline"), kept.path().join("agent-output"));
//! # let task = Task::new("amounts", "total(xs) must return the sum of xs.")
//! #     .file("amounts.py", "def total(xs):\n    return 0\n")?;
//! # let model = ScriptedModel::new([
//! #     r#"{"action":"write","path":"amounts.py","content":"def total(xs):\n    return sum(xs)\n"}"#,
//! #     r#"{"action":"check"}"#,
//! #     r#"{"action":"finish"}"#,
//! # ]);
//! # let workspace = MemoryWorkspace::new(|_spec, _files| {
//! #     Ok(ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"))
//! # });
//! # let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
//! # let paths = Paths::editable(["amounts.py"])?;
//! let run = Arc::new(TrackedRun::start(Tracking::offline(offline)).await?);
//! let observer = TrackingObserver::new(Arc::clone(&run));
//!
//! let outcome = Attempt::new(task, model, workspace, acceptance, paths)
//!     .allow_checks(true)
//!     .record_in(RunDir::create(&folder)?)
//!     .observer(observer.clone())
//!     .drive()
//!     .await?;
//! observer.finish(&outcome, Some(&folder))?;
//! run.end().await?.ensure_complete()?;
//!
//! let passed = run.path().join("events/metric/check_passed.plx");
//! let passed = read_metric_series(passed)?;
//! assert_eq!(passed.last().map(|point| (point.step, point.value)), Some((Some(2), 1.0)));
//! assert!(run.path().join("outputs/patch.diff").is_file());
//! # Ok(())
//! # }
//! ```
//!
//! The names are those of [`names`](crate::names). A step is a turn of the attempt.
//!
//! Whether the run succeeded and whether the change is accepted are two things: a run that did its
//! work ends as succeeded, and its output `acceptance` says the other.

#[cfg(feature = "tools")]
mod calls;
mod commands;
mod folder;
mod known;
mod problems;
mod receipt;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyaxon_tracking::{ArtifactRef, At, TrackedRun};
use serde_json::{Map, Value, json};

use crate::acceptance::Verdict;
use crate::journal::{
    Ended, Event, Intended, Intent, Judged, Observer, Receipt, Record, Replied, ReplyRecord,
    Started,
};
use crate::model::Price;
use crate::names::{artifact, input, metric, output};
use crate::outcome::{AcceptanceOutcome, End, Outcome};
#[cfg(feature = "tools")]
pub use calls::TrackedCalls;
use commands::Commands;
use folder::ReceiptFolder;
use known::KnownPoints;
pub use problems::NotTracked;
use problems::{Cause, Problems};
use receipt::CommandReceipt;

/// The folder of the journal's large bodies.
const BLOBS: &str = "blobs";

/// The files of a run's folder that become artifacts, with their names.
const FILES: [(&str, &str); 5] = [
    ("patch.diff", artifact::PATCH),
    ("actions.jsonl", artifact::ACTIONS),
    ("outcome.json", artifact::OUTCOME),
    ("report.html", artifact::REPORT),
    ("case.json", artifact::CASE_REPORT),
];

/// Records an attempt in a tracked run.
///
/// | when | what |
/// |---|---|
/// | before the attempt does anything | inputs |
/// | a call of the model has ended | `model_duration_ms`; tokens and cost where they are known |
/// | a command of a check has ended | `command_duration_ms`, `command_timed_out`, and `receipts/step-N.json`: how it ended, and nothing of what it wrote |
/// | a check has a verdict | `check_passed`, and the verdict in its receipts; a verdict that is neither pass nor fail has no point |
/// | the attempt has ended | outputs |
/// | [`finish`](Self::finish) | rates and costs as outputs, the evidence as artifacts |
///
/// The artifact `command-receipt` is the folder of all receipts.
///
/// An observer cannot fail: what could not be tracked is kept, and is the error of
/// [`finish`](Self::finish). It writes its receipts within the attempt, as the journal does; all
/// else is handed to the run, which does not wait. Clones share everything: give one to
/// [`Attempt::observer`](crate::Attempt::observer). One observer is for one attempt.
///
/// An attempt that [goes on](crate::Attempt::resume) can go on in the run that it had: with
/// [`Tracking::run`](polyaxon_tracking::Tracking::run), and a new observer. It tells again what the
/// journal holds, but for the measurements that are in the run's folder already. In a new run it
/// tells all of it.
#[derive(Clone)]
pub struct TrackingObserver {
    run: Arc<TrackedRun>,
    receipts: ReceiptFolder,
    case_set_revision: Option<String>,
    state: Arc<Mutex<State>>,
}

/// What is remembered from one record to the next.
#[derive(Default)]
struct State {
    /// When the record was made that is being told.
    at: Timestamp,
    /// While an earlier program's records are played: what the run has of them.
    known: Option<KnownPoints>,
    price: Option<Price>,
    /// Members that every receipt begins with.
    head: Map<String, Value>,
    /// Commands that were started and have not ended.
    started: BTreeMap<String, Intent>,
    /// The receipts of this turn, without their verdict.
    turn: Vec<CommandReceipt>,
    commands: Commands,
    problems: Problems,
}

impl TrackingObserver {
    /// Records in `run`, which the caller [ends](TrackedRun::end) after
    /// [`finish`](Self::finish).
    #[must_use]
    pub fn new(run: Arc<TrackedRun>) -> Self {
        Self {
            receipts: ReceiptFolder::of(&run),
            run,
            case_set_revision: None,
            state: Arc::default(),
        }
    }

    /// Says which case set the task is from. Default: the input is left out.
    #[must_use]
    pub fn case_set_revision(mut self, revision: impl Into<String>) -> Self {
        self.case_set_revision = Some(revision.into());
        self
    }

    /// Records what is known once the attempt is over: outputs, and of `folder`, in which the
    /// evidence was kept, `patch.diff`, `actions.jsonl`, `outcome.json`, `report.html` and
    /// `case.json` as far as they are there. They are copied soon after the call: end or
    /// [flush](TrackedRun::flush) the run before you delete the folder.
    ///
    /// All that checks have written is in them, and so what hidden tests have said: whoever may read
    /// the run's artifacts can learn of it. `acceptance.json`, with the hidden tests themselves, is not
    /// among them. To publish nothing of that, leave `folder` out. The copies have the modes of the
    /// files, so what is their owner's alone stays so on this machine.
    ///
    /// A rate or a median of no commands is unknown, and left out.
    ///
    /// # Errors
    /// Where any part of the attempt could not be tracked, now or before. All that could be is.
    pub fn finish(&self, outcome: &Outcome, folder: Option<&Path>) -> Result<(), NotTracked> {
        let state = &mut *self.state();
        self.log_end(state, &outcome.end, &outcome.acceptance, outcome.turns);
        let mut outputs = vec![
            (
                output::COST_MICROS_KNOWN,
                json!(outcome.cost.known_micros.get()),
            ),
            (
                output::UNKNOWN_COST_CALLS,
                json!(outcome.cost.unknown_calls),
            ),
        ];
        outputs.extend(state.commands.outputs());
        state.note("the outputs", self.run.log_outputs(outputs));
        let reference = self.receipts.log_reference();
        state.note("the reference to the receipts", reference);
        if let Some(folder) = folder {
            self.log_evidence(state, folder);
        }
        state.problems.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst one record out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self, state: &mut State, started: &Started) {
        let revisions = &started.revisions;
        let model = &revisions.model;
        let sandbox = started.workspace.identity.get(input::SANDBOX_RUN_UUID);
        let mut inputs = vec![
            (input::TASK_ID, json!(started.task.id)),
            (input::ATTEMPT, json!(started.task.attempt)),
            (input::PROMPT_REVISION, json!(revisions.prompt)),
            (input::MODEL, json!(model.name)),
            (
                input::MODEL_SETTINGS,
                json!({
                    "settings": model.settings,
                    "seed": model.seed,
                    "max_output_tokens": model.max_output_tokens,
                }),
            ),
            (
                input::TOOL_DEFINITIONS_DIGEST,
                json!(revisions.tool_definitions),
            ),
            (
                input::EVALUATOR_REVISION,
                json!(revisions.evaluation_manifest),
            ),
        ];
        let mut head = Map::new();
        head.insert(input::TASK_ID.to_owned(), json!(started.task.id));
        head.insert(input::ATTEMPT.to_owned(), json!(started.task.attempt));
        if let Some(uuid) = sandbox.filter(|uuid| !uuid.is_null()) {
            inputs.push((input::SANDBOX_RUN_UUID, uuid.clone()));
            head.insert(input::SANDBOX_RUN_UUID.to_owned(), uuid.clone());
        }
        if let Some(repository) = &revisions.repository {
            inputs.push((input::REPOSITORY_REVISION, json!(repository)));
        }
        if let Some(cases) = &self.case_set_revision {
            inputs.push((input::CASE_SET_REVISION, json!(cases)));
        }
        state.head = head;
        state.price.clone_from(&started.price);
        state.note("the inputs", self.run.log_inputs(inputs));
    }

    fn replied(&self, state: &mut State, replied: &Replied) {
        let (usage, cost) = match &replied.reply {
            ReplyRecord::Reply { usage, cost, .. } => (Some(*usage), *cost),
            ReplyRecord::Failed(error) => (error.usage, None),
        };
        let mut points = vec![(metric::MODEL_DURATION_MS, millis(replied.took))];
        let usage = usage.unwrap_or_default();
        let price = state.price.as_ref();
        let priced = || price.and_then(|price| price.of_usage(usage));
        let known = [
            (metric::INPUT_TOKENS, usage.input),
            (metric::OUTPUT_TOKENS, usage.output),
            (
                metric::COST_MICROS,
                cost.or_else(priced).map(crate::budget::Micros::get),
            ),
        ];
        points.extend(known.iter().filter_map(|(name, value)| {
            let value = (*value)?;
            Some((*name, number(value)))
        }));
        self.log_points(state, replied.turn, points);
    }

    /// Logs measurements, but for those that the run has already.
    fn log_points(&self, state: &mut State, turn: u32, mut points: Vec<(&'static str, f64)>) {
        if let Some(known) = &mut state.known {
            points.retain(|(name, _)| !known.take(name, turn));
        }
        let at = At::from(turn).timestamp(state.at);
        state.note("a measurement", self.run.log_metrics(at, points));
    }

    fn command_ended(&self, state: &mut State, receipt: &Receipt) {
        let Some(intent) = state.started.remove(receipt.id.as_str()) else {
            return;
        };
        let command = CommandReceipt::new(&intent, &receipt.answer, state.turn.len());
        if let Some(duration) = command.duration() {
            state.commands.add(duration, command.timed_out());
        }
        self.log_points(state, receipt.turn, command.points().collect());
        self.write_receipt(state, &command, None);
        state.turn.push(command);
    }

    fn judged(&self, state: &mut State, judged: &Judged) {
        let passed = match &judged.verdict {
            Verdict::Pass { .. } => Some(true),
            Verdict::Fail { .. } => Some(false),
            Verdict::Invalid { .. } => None,
        };
        if let Some(passed) = passed {
            let passed = f64::from(u8::from(passed));
            self.log_points(state, judged.turn, vec![(metric::CHECK_PASSED, passed)]);
        }
        for command in std::mem::take(&mut state.turn) {
            self.write_receipt(state, &command, Some(&judged.verdict));
        }
    }

    fn write_receipt(
        &self,
        state: &mut State,
        command: &CommandReceipt,
        verdict: Option<&Verdict>,
    ) {
        let receipt = command.to_json(&state.head, verdict);
        let stored = self.receipts.store(&command.file_name(), &receipt);
        state.note("a receipt", stored);
    }

    fn log_evidence(&self, state: &mut State, folder: &Path) {
        for (file, name) in FILES {
            let path = folder.join(file);
            if path.is_file() {
                let logged = self
                    .run
                    .log_artifact(ArtifactRef::file(path).name(name), "");
                state.note("a file of the evidence", logged);
            }
        }
        state.note("the blobs of the journal", self.log_blobs(folder));
    }

    /// Copies the blobs, which are named after what they hold, as far as they are not there.
    fn log_blobs(&self, folder: &Path) -> Result<(), Cause> {
        let entries = match fs::read_dir(folder.join(BLOBS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let copy = Path::new(BLOBS).join(entry.file_name());
            let copy = self.run.outputs_path(copy)?;
            if !copy.exists() {
                fs::copy(entry.path(), copy)?;
            }
        }
        let blobs = self.run.outputs_path(BLOBS)?;
        let blobs = ArtifactRef::dir(blobs).name(artifact::ACTION_BLOBS);
        Ok(self.run.log_artifact_ref(blobs)?)
    }

    fn ended(&self, state: &mut State, ended: &Ended) {
        let tree = [(output::TREE_DIGEST, json!(ended.tree))];
        state.note("the outputs", self.run.log_outputs(tree));
        self.log_end(state, &ended.end, &ended.acceptance, ended.turns);
    }

    fn log_end(&self, state: &mut State, end: &End, acceptance: &AcceptanceOutcome, turns: u32) {
        let mut outputs = vec![
            (output::ACCEPTANCE, json!(acceptance.state)),
            (output::END, json!(end_word(end))),
            (output::TURNS, json!(turns)),
        ];
        if let Some(level) = acceptance.level {
            outputs.push((output::EVIDENCE_LEVEL, json!(level)));
        }
        state.note("the outputs", self.run.log_outputs(outputs));
    }
}

impl TrackingObserver {
    fn see(&self, state: &mut State, record: &Record) {
        state.at = record.at;
        match &record.event {
            Event::Started(started) => self.started(state, started),
            Event::Replied(replied) => self.replied(state, replied),
            Event::Intent(intent) if matches!(intent.effect, Intended::Stage { .. }) => {
                state
                    .started
                    .insert(intent.id.as_str().to_owned(), intent.clone());
            }
            Event::Receipt(receipt) => self.command_ended(state, receipt),
            Event::Judged(judged) => self.judged(state, judged),
            Event::Turn(_) => state.turn.clear(),
            Event::Ended(ended) => self.ended(state, ended),
            _ => {}
        }
    }
}

impl Observer for TrackingObserver {
    fn on(&self, record: &Record) {
        let state = &mut *self.state();
        state.known = None;
        self.see(state, record);
    }

    fn played(&self, record: &Record) {
        let state = &mut *self.state();
        state
            .known
            .get_or_insert_with(|| KnownPoints::of(&self.run));
        self.see(state, record);
    }
}

impl State {
    fn note<E: Into<Cause>>(&mut self, what: &'static str, done: Result<(), E>) {
        self.problems.note(what, done);
    }
}

impl fmt::Debug for TrackingObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackingObserver")
            .field("run", &self.run.uuid())
            .finish_non_exhaustive()
    }
}

/// The end as a word that can be asked for: `accepted`, `exhausted_turns`.
fn end_word(end: &End) -> String {
    let json = json!(end);
    let word = |name| json.get(name).and_then(Value::as_str);
    let end = word("end").unwrap_or_default();
    match word("limit") {
        Some(limit) => format!("{end}_{limit}"),
        None => end.to_owned(),
    }
}

pub(crate) fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1000.0
}

/// The platform keeps every metric as a float.
fn number(value: u64) -> f64 {
    polyaxon_tracking::MetricValue::to_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Limit;

    #[test]
    fn an_end_is_one_word() {
        let limit = Limit::FormatErrors;
        assert_eq!(
            end_word(&End::Exhausted { limit }),
            "exhausted_format_errors"
        );
        assert_eq!(end_word(&End::Accepted), "accepted");
        let detail = crate::Private::new("a path: /home/op");
        assert_eq!(end_word(&End::JournalFailed { detail }), "journal_failed");
    }
}
