//! The calls of a controller in its own tracked run.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polyaxon_tracking::{At, TrackedRun};
use serde_json::{Value, json};

use super::commands::Commands;
use super::folder::ReceiptFolder;
use super::millis;
use super::problems::{NotTracked, Problems};
use crate::digest::Digest;
use crate::names::{input, metric};
use crate::serde_as;
use crate::tools::{CallObserver, CallRecord, ToolAnswer};

/// Records the calls of a [`Controller`](crate::tools::Controller) in its own tracked run, so that
/// from a decision of a model one comes to the work that it caused.
///
/// | what | where |
/// |---|---|
/// | the definitions of the tools | input `tool_definitions_digest`, at once |
/// | a call | `receipts/step-N.json`: tool, sandbox run uuid, outcome, what the evaluator said, how the command ended, how long both took; nothing of what was written |
/// | its command | `command_duration_ms`, `command_timed_out` |
/// | its evaluator | `check_passed` |
/// | all of them | outputs `timeout_rate`, `command_duration_ms_p50`, by [`finish`](Self::finish) |
///
/// A step is a call, in the order of the answers, from 1. Clones share everything. The run is for
/// this controller alone: the receipts of an attempt would have the same names.
#[derive(Clone)]
pub struct TrackedCalls {
    run: Arc<TrackedRun>,
    receipts: ReceiptFolder,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    steps: u32,
    commands: Commands,
    problems: Problems,
}

impl TrackedCalls {
    /// Records in `run`, which the caller [ends](TrackedRun::end) after [`finish`](Self::finish).
    /// `definitions` is what
    /// [`Controller::definitions_digest`](crate::tools::Controller::definitions_digest) says.
    #[must_use]
    pub fn new(run: Arc<TrackedRun>, definitions: Digest) -> Self {
        let mut state = State::default();
        let inputs = [(input::TOOL_DEFINITIONS_DIGEST, json!(definitions))];
        state.problems.note("the inputs", run.log_inputs(inputs));
        Self {
            receipts: ReceiptFolder::of(&run),
            run,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Records what is known at the end.
    ///
    /// # Errors
    /// Where anything could not be tracked, now or before. All that could be is.
    pub fn finish(&self) -> Result<(), NotTracked> {
        let state = &mut *self.state();
        let outputs = self.run.log_outputs(state.commands.outputs());
        state.problems.note("the outputs", outputs);
        let reference = self.receipts.log_reference();
        state
            .problems
            .note("the reference to the receipts", reference);
        state.problems.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst one call out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallObserver for TrackedCalls {
    fn on_call(&self, record: &CallRecord, _answer: &ToolAnswer) {
        let state = &mut *self.state();
        state.steps += 1;
        let step = state.steps;
        let mut points = Vec::new();
        if let Some(command) = &record.command {
            state.commands.add(command.duration, command.timed_out);
            points.push((metric::COMMAND_DURATION_MS, millis(command.duration)));
            let timed_out = f64::from(u8::from(command.timed_out));
            points.push((metric::COMMAND_TIMED_OUT, timed_out));
        }
        if let Some(passed) = record.evaluator_passed {
            points.push((metric::CHECK_PASSED, f64::from(u8::from(passed))));
        }
        let at = At::from(step).timestamp(record.at);
        let logged = self.run.log_metrics(at, points);
        state.problems.note("the measurements of a call", logged);
        let stored = self
            .receipts
            .store(&format!("step-{step}.json"), &receipt(record, step));
        state.problems.note("a receipt", stored);
    }
}

fn receipt(record: &CallRecord, step: u32) -> Value {
    let mut receipt = json!({
        "step": step,
        "at": record.at,
        "request_id": record.request_id,
        "tool": record.tool,
        "tenant": record.tenant,
        "project": record.project,
        "sandbox_run_uuid": record.execution_run_uuid,
        "arguments_sha256": record.arguments_sha256,
        "outcome": record.outcome,
        "evaluator_passed": record.evaluator_passed,
        "repeated": record.repeated,
        "call_duration_ms": serde_as::millis::whole(record.took),
        "artifacts": record.artifacts,
    });
    if let (Some(members), Ok(Value::Object(command))) = (
        receipt.as_object_mut(),
        serde_json::to_value(&record.command),
    ) {
        members.extend(command);
    }
    receipt
}

impl fmt::Debug for TrackedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedCalls")
            .field("run", &self.run.uuid())
            .finish_non_exhaustive()
    }
}
