//! What is known about a run, and how its status moves.

use jiff::Timestamp;
use polyaxon_client::runs::{RunStatus, StatusCondition};
use serde_json::{Map, Value, json};

use super::lineage::Artifact;
use super::operation::Operation;

/// What a caller gave when the run was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) meta_info: Option<Map<String, Value>>,
    pub(crate) managed_by: Option<String>,
    pub(crate) is_managed: bool,
    pub(crate) pending: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) readme: Option<String>,
    pub(crate) inputs: Value,
    pub(crate) outputs: Value,
    /// The run that this one was made from: its uuid, its name, and how.
    pub(crate) original: Option<Value>,
}

/// Whether a run is there for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveState {
    Live,
    Archived,
    Deleted,
}

impl LiveState {
    fn number(self) -> i8 {
        match self {
            Self::Live => 1,
            Self::Archived => 0,
            Self::Deleted => -1,
        }
    }
}

/// The state of a run. Every change goes through a method that keeps the rules of the platform.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) given: Given,
    pub(crate) operation: Option<Operation>,
    /// What the run says it read and made, in the order that it said so.
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) live_state: LiveState,
    pending: Option<String>,
    /// Whether an approval is asked for once more behind the compilation.
    gate: bool,
    conditions: Vec<StatusCondition>,
    created_at: Timestamp,
    updated_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

/// What has to be done after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// The run is queued now: something has to run it.
    Start,
    /// The run is stopping: what runs it has to end it.
    TearDown,
}

impl Record {
    /// A new run. One that waits for nothing is queued at once.
    pub(crate) fn new(given: Given, operation: Option<Operation>) -> (Self, Next) {
        let now = Timestamp::now();
        let gate = operation.as_ref().is_some_and(|op| op.needs_approval);
        let mut given = given;
        if let Some(Ok(inputs)) = operation.as_ref().map(|op| &op.inputs)
            && !inputs.is_empty()
        {
            given.inputs = Value::Object(inputs.clone());
        }
        let asked = given.pending.clone().filter(|_| operation.is_some());
        let mut record = Self {
            pending: asked.or_else(|| gate.then(|| "approval".to_owned())),
            gate,
            conditions: Vec::new(),
            created_at: now,
            updated_at: now,
            started_at: None,
            finished_at: None,
            artifacts: Vec::new(),
            live_state: LiveState::Live,
            given,
            operation,
        };
        record.enter(RunStatus::Created, "PolyaxonRunCreated", None);
        let next = match record.pending.is_none() && record.is_scheduled_here() {
            true => record.compile(),
            false => Next::Nothing,
        };
        (record, next)
    }

    /// A run that was somewhere else, with its times and statuses. Nothing runs it here.
    pub(crate) fn synced(
        given: Given,
        conditions: Vec<StatusCondition>,
        [created_at, started_at, finished_at]: [Option<Timestamp>; 3],
    ) -> Self {
        let now = Timestamp::now();
        Self {
            given,
            operation: None,
            artifacts: Vec::new(),
            live_state: LiveState::Live,
            pending: None,
            gate: false,
            conditions,
            created_at: created_at.unwrap_or(now),
            updated_at: now,
            started_at,
            finished_at,
        }
    }

    /// Something about the run has changed now.
    pub(crate) fn touch(&mut self) {
        self.updated_at = Timestamp::now();
    }

    /// Whether the statuses are ours to write, and not the caller's.
    pub(crate) fn is_scheduled_here(&self) -> bool {
        self.given.is_managed && self.operation.is_some()
    }

    pub(crate) fn status(&self) -> RunStatus {
        let last = self.conditions.last();
        last.map_or(RunStatus::Unknown, |condition| condition.kind.clone())
    }

    pub(crate) fn conditions(&self) -> &[StatusCondition] {
        &self.conditions
    }

    /// Gives one approval. More than are needed are fine.
    pub(crate) fn approve(&mut self) -> Next {
        if self.pending.is_none() || self.status().is_final() {
            return Next::Nothing;
        }
        match self.status() {
            RunStatus::Created if self.is_scheduled_here() => self.compile(),
            RunStatus::Compiled => {
                self.pending = None;
                self.queue()
            }
            _ => {
                self.pending = None;
                Next::Nothing
            }
        }
    }

    fn compile(&mut self) -> Next {
        self.enter(RunStatus::Compiled, "PolyaxonRunCompiled", None);
        if self.gate {
            self.gate = false;
            self.pending = Some("approval".to_owned());
            return Next::Nothing;
        }
        self.pending = None;
        self.queue()
    }

    fn queue(&mut self) -> Next {
        self.enter(RunStatus::Queued, "PolyaxonRunQueued", None);
        Next::Start
    }

    /// Stops the run, at once where nothing was started for it.
    pub(crate) fn stop(&mut self, reason: &str, message: &str) -> Next {
        let status = self.status();
        if status.is_final() || status == RunStatus::Stopping {
            return Next::Nothing;
        }
        let message = Some(message.to_owned());
        if self.waits() {
            self.enter(RunStatus::Stopped, reason, message);
            return Next::Nothing;
        }
        self.enter(RunStatus::Stopping, reason, message.clone());
        if self.is_scheduled_here() {
            return Next::TearDown;
        }
        self.enter(RunStatus::Stopped, reason, message);
        Next::Nothing
    }

    /// Whether nothing was started for the run yet, so that there is nothing to tear down.
    fn waits(&self) -> bool {
        matches!(
            self.status(),
            RunStatus::Created | RunStatus::OnSchedule | RunStatus::Resuming | RunStatus::Compiled
        )
    }

    /// Skips a run that was not queued; any other stays as it is.
    pub(crate) fn skip(&mut self) {
        if self.waits() {
            let message = Some("The run was skipped through the API.".to_owned());
            self.enter(RunStatus::Skipped, "SkippedByUser", message);
        }
    }

    /// The stop that was asked for is done: the reason stays that of the request. `left` says what
    /// could not be cleaned up.
    pub(crate) fn stopped(&mut self, reason: &str, left: Option<String>) {
        let (reason, message) = match self.conditions.last() {
            Some(asked) if asked.kind == RunStatus::Stopping => (
                asked.reason.clone().unwrap_or_else(|| reason.to_owned()),
                asked.message.clone(),
            ),
            _ => (reason.to_owned(), None),
        };
        self.enter(RunStatus::Stopped, &reason, left.or(message));
    }

    /// A status that this service gives the run. Where the run has moved on meanwhile (a stop was
    /// asked for) nothing happens and the answer is false.
    pub(crate) fn enter(
        &mut self,
        status: RunStatus,
        reason: &str,
        message: Option<String>,
    ) -> bool {
        let mut condition = StatusCondition::now(status, Some(reason.to_owned()), message);
        condition.status = json!("True");
        self.push(condition, false)
    }

    /// A status that a caller gives a run it drives itself.
    pub(crate) fn post(&mut self, condition: StatusCondition, force: bool) {
        if condition.kind != RunStatus::Created {
            self.push(condition, force);
        }
    }

    fn push(&mut self, condition: StatusCondition, force: bool) -> bool {
        let current = (!self.conditions.is_empty()).then(|| self.status());
        let refused = match &current {
            Some(status) if status.is_final() => !force,
            Some(RunStatus::Stopping) => {
                !force && !condition.kind.is_final() && condition.kind != RunStatus::Stopping
            }
            _ => false,
        };
        if refused {
            return false;
        }
        let now = Timestamp::now();
        self.updated_at = now;
        let starts = matches!(
            condition.kind,
            RunStatus::Scheduled | RunStatus::Starting | RunStatus::Processing | RunStatus::Running
        );
        if starts && self.started_at.is_none() {
            self.started_at = Some(now);
        }
        if condition.kind.is_final() {
            self.pending = None;
            self.started_at.get_or_insert(self.created_at);
            self.finished_at = Some(now);
        }
        match self.conditions.last_mut() {
            Some(last) if last.kind == condition.kind => {
                let began = last.last_transition_time;
                *last = condition;
                last.last_transition_time = began.or(last.last_transition_time);
            }
            _ => self.conditions.push(condition),
        }
        true
    }

    /// The members of a run as `get` answers them, without its id and place.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let seconds = |from: Option<Timestamp>, to: Option<Timestamp>| {
            let passed = to?.duration_since(from?).as_secs_f64();
            Some((passed * 100.0).round() / 100.0)
        };
        let given = &self.given;
        let operation = self.operation.as_ref();
        let value = json!({
            "name": given.name,
            "description": given.description,
            "tags": given.tags,
            "meta_info": given.meta_info,
            "is_managed": given.is_managed,
            "managed_by": given.managed_by,
            "kind": operation.map_or("job", |op| op.kind.as_str()),
            "runtime": operation.map_or("job", |op| op.kind.as_str()),
            "status": self.status(),
            "pending": self.pending,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "wait_time": seconds(Some(self.created_at), self.started_at),
            "duration": seconds(self.started_at, self.finished_at),
            "inputs": given.inputs,
            "outputs": given.outputs,
            "readme": given.readme,
            "original": given.original,
            "raw_content": given.content,
            "content": operation.map(|op| op.compiled.as_str()),
            "live_state": self.live_state.number(),
            // What no run has here.
            "bookmarked": false,
            "pipeline": Value::Null,
            "resources": Value::Null,
            "schedule_at": Value::Null,
            "user": Value::Null,
        });
        match value {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pending: Option<&str>, content: &Value) -> (Record, Next) {
        let given = Given {
            is_managed: true,
            pending: pending.map(str::to_owned),
            ..Given::default()
        };
        let operation = Operation::parse(&content.to_string()).unwrap();
        Record::new(given, Some(operation))
    }

    fn words(record: &Record) -> Vec<String> {
        let kinds = record.conditions.iter().map(|c| c.kind.to_string());
        kinds.collect()
    }

    fn sandbox() -> Value {
        json!({"plugins": {"sandbox": true}, "ports": []})
    }

    #[test]
    fn a_run_that_waits_for_nothing_is_queued_at_once() {
        let (record, next) = record(None, &sandbox());
        assert_eq!(next, Next::Start);
        assert_eq!(words(&record), ["created", "compiled", "queued"]);
    }

    #[test]
    fn a_pending_run_is_queued_by_one_approval() {
        let (mut record, next) = record(Some("approval"), &sandbox());
        assert_eq!(
            (next, words(&record)),
            (Next::Nothing, vec!["created".to_owned()])
        );
        assert_eq!(record.to_json()["pending"], "approval");
        assert_eq!(record.approve(), Next::Start);
        assert_eq!(record.to_json()["pending"], Value::Null);
        assert_eq!(record.approve(), Next::Nothing);
        assert_eq!(words(&record), ["created", "compiled", "queued"]);
    }

    #[test]
    fn an_operation_that_is_not_approved_takes_two_approvals() {
        let mut content = sandbox();
        content["isApproved"] = json!(false);
        let (mut record, next) = record(None, &content);
        assert_eq!(next, Next::Nothing);
        assert_eq!(record.approve(), Next::Nothing);
        assert_eq!(words(&record), ["created", "compiled"]);
        assert_eq!(record.to_json()["pending"], "approval");
        assert_eq!(record.approve(), Next::Start);
        assert_eq!(words(&record), ["created", "compiled", "queued"]);
    }

    #[test]
    fn a_stop_is_final_before_the_queue_and_a_tear_down_behind_it() {
        let (mut waiting, _) = record(Some("approval"), &sandbox());
        assert_eq!(waiting.stop("R", "m"), Next::Nothing);
        assert_eq!(words(&waiting), ["created", "stopped"]);
        assert_eq!(waiting.approve(), Next::Nothing);
        assert_eq!(waiting.to_json()["pending"], Value::Null);

        let (mut queued, _) = record(None, &sandbox());
        assert_eq!(queued.stop("R", "m"), Next::TearDown);
        assert_eq!(queued.stop("R", "m"), Next::Nothing);
        assert!(!queued.enter(RunStatus::Running, "R", None));
        assert!(queued.enter(RunStatus::Stopped, "R", None));
        assert!(!queued.enter(RunStatus::Running, "R", None));
        assert_eq!(
            words(&queued),
            ["created", "compiled", "queued", "stopping", "stopped"]
        );
    }

    #[test]
    fn posted_statuses_follow_the_rules_of_the_platform() {
        let (mut run, next) = Record::new(Given::default(), None);
        assert_eq!(next, Next::Nothing);
        let condition = |kind: RunStatus| StatusCondition::now(kind, None, None);
        run.post(condition(RunStatus::Running), false);
        run.post(condition(RunStatus::Running), false);
        run.post(condition(RunStatus::Created), false);
        run.post(condition(RunStatus::Succeeded), false);
        run.post(condition(RunStatus::Failed), false);
        assert_eq!(words(&run), ["created", "running", "succeeded"]);
        run.post(condition(RunStatus::Failed), true);
        assert_eq!(run.status(), RunStatus::Failed);
        assert_eq!(run.stop("R", "m"), Next::Nothing);
    }
}
