//! What the runs API sends and answers.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::RunUuid;

/// Where a run is in its life. The words are the wire's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the platform's own words")]
pub enum RunStatus {
    Created,
    Resuming,
    OnSchedule,
    Compiled,
    Queued,
    Scheduled,
    Starting,
    Running,
    Processing,
    Stopping,
    Failed,
    Stopped,
    Succeeded,
    Skipped,
    Warning,
    Unschedulable,
    UpstreamFailed,
    Retrying,
    Unknown,
    Done,
    /// A word this version does not know. Neither final nor running.
    #[serde(untagged)]
    Other(String),
}

impl RunStatus {
    /// Whether nothing follows any more: failed, upstream failed, stopped, skipped, succeeded.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Failed | Self::UpstreamFailed | Self::Stopped | Self::Skipped | Self::Succeeded
        )
    }

    /// The wire's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Resuming => "resuming",
            Self::OnSchedule => "on_schedule",
            Self::Compiled => "compiled",
            Self::Queued => "queued",
            Self::Scheduled => "scheduled",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Processing => "processing",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Succeeded => "succeeded",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Unschedulable => "unschedulable",
            Self::UpstreamFailed => "upstream_failed",
            Self::Retrying => "retrying",
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry in the history of a run's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatusCondition {
    /// Which status.
    #[serde(rename = "type")]
    pub kind: RunStatus,
    /// `true` or `"True"`: services write either.
    #[serde(default)]
    pub status: Value,
    /// One word why: `ManagedByUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
}

impl StatusCondition {
    /// A condition that begins now.
    #[must_use]
    pub fn now(kind: RunStatus, reason: Option<String>, message: Option<String>) -> Self {
        let now = Timestamp::now();
        Self {
            kind,
            status: Value::Bool(true),
            reason,
            message,
            last_update_time: Some(now),
            last_transition_time: Some(now),
        }
    }
}

/// The statuses of a run: the current one and how it came to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statuses {
    /// The run.
    pub uuid: RunUuid,
    /// Its current status.
    pub status: RunStatus,
    /// Its history, oldest first.
    #[serde(default)]
    pub status_conditions: Vec<StatusCondition>,
}

impl Statuses {
    /// The statuses of `uuid`.
    #[must_use]
    pub fn new(uuid: RunUuid, status: RunStatus, status_conditions: Vec<StatusCondition>) -> Self {
        Self {
            uuid,
            status,
            status_conditions,
        }
    }
}

/// What `create` sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[must_use = "a CreateRun does nothing until it is passed to `runs().create`"]
pub struct CreateRun {
    /// The operation, a JSON document as text. A managed run has to have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A name, at most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A longer text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Free members of the platform's `meta_info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_info: Option<Map<String, Value>>,
    /// False where the caller drives the statuses. The platform's default is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_managed: Option<bool>,
    /// `user`, `cli` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// What the run waits for before it starts: `approval`, `upload`, `cache`, `build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}

impl CreateRun {
    /// A run of the operation `content`, which the platform schedules.
    pub fn operation(content: &Value) -> Self {
        Self {
            content: Some(content.to_string()),
            ..Self::default()
        }
    }

    /// A run without an operation, whose statuses the caller writes.
    pub fn unmanaged() -> Self {
        Self {
            is_managed: Some(false),
            managed_by: Some("user".to_owned()),
            ..Self::default()
        }
    }

    /// Gives it a name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives it a description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Adds a member of `meta_info`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta_info
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Lets it wait until somebody approves it.
    pub fn pending_approval(self) -> Self {
        self.pending("approval")
    }

    /// Lets it wait for `approval`, `upload`, `cache` or `build`.
    pub fn pending(mut self, what: impl Into<String>) -> Self {
        self.pending = Some(what.into());
        self
    }

    /// Says who drives it: `user`, `cli` or `agent`.
    pub fn managed_by(mut self, who: impl Into<String>) -> Self {
        self.managed_by = Some(who.into());
        self
    }
}

/// A run, as far as this crate reads it. Services send more; what is not named here is ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Its id.
    pub uuid: RunUuid,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its owner's name.
    #[serde(default)]
    pub owner: Option<String>,
    /// Its project's name.
    #[serde(default)]
    pub project: Option<String>,
    /// Its status; the answer to `create` has none.
    #[serde(default)]
    pub status: Option<RunStatus>,
    /// `job`, `service`, `dag` and others.
    #[serde(default)]
    pub kind: Option<String>,
    /// What it waits for: `approval`, `upload`, `cache`, `build`.
    #[serde(default)]
    pub pending: Option<String>,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// When it started.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When it ended. Kept by a resumed run: decide by `status`, never by this.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// Labels.
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// Its inputs.
    #[serde(default)]
    pub inputs: Option<Value>,
    /// Its outputs.
    #[serde(default)]
    pub outputs: Option<Value>,
    /// Its free members.
    #[serde(default)]
    pub meta_info: Option<Value>,
    /// The compiled operation, JSON as text.
    #[serde(default)]
    pub content: Option<String>,
    /// Where it runs.
    #[serde(default)]
    pub settings: Option<RunSettings>,
    /// Whether lists have it. Lists themselves do not say.
    #[serde(default)]
    pub live_state: Option<LiveState>,
    /// The run that it was made from, by a restart or a copy.
    #[serde(default)]
    pub original: Option<OriginalRun>,
}

impl Run {
    /// A run of which nothing is known but its id.
    #[must_use]
    pub fn new(uuid: RunUuid) -> Self {
        Self {
            uuid,
            name: None,
            owner: None,
            project: None,
            status: None,
            kind: None,
            pending: None,
            created_at: None,
            started_at: None,
            finished_at: None,
            tags: None,
            inputs: None,
            outputs: None,
            meta_info: None,
            content: None,
            settings: None,
            live_state: None,
            original: None,
        }
    }

    /// The namespace it runs in, where the answer says so.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.settings.as_ref()?.namespace.as_deref()
    }

    /// Whether it waits for an approval.
    #[must_use]
    pub fn awaits_approval(&self) -> bool {
        self.pending.as_deref() == Some("approval")
    }
}

/// Whether lists have a run. A run that is gone is still found by its id: this says so, not a 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
#[non_exhaustive]
pub enum LiveState {
    /// They have it.
    Live,
    /// Only those that ask for archived runs.
    Archived,
    /// No list has it: it is deleted, or about to be.
    Deleted,
    /// A number this version does not know.
    Other(i64),
}

impl From<i64> for LiveState {
    fn from(number: i64) -> Self {
        match number {
            1 => Self::Live,
            0 => Self::Archived,
            -1 => Self::Deleted,
            other => Self::Other(other),
        }
    }
}

impl From<LiveState> for i64 {
    fn from(state: LiveState) -> Self {
        match state {
            LiveState::Live => 1,
            LiveState::Archived => 0,
            LiveState::Deleted => -1,
            LiveState::Other(number) => number,
        }
    }
}

/// The run that another was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OriginalRun {
    /// Its id.
    pub uuid: RunUuid,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// How: `restart`, `copy`, `cache`.
    #[serde(default)]
    pub kind: Option<String>,
}

/// Where a run runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSettings {
    /// The namespace of its pod.
    #[serde(default)]
    pub namespace: Option<String>,
}

impl RunSettings {
    /// Settings with a namespace.
    #[must_use]
    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_it_was_read_known_or_not() {
        let table = [
            ("created", false),
            ("on_schedule", false),
            ("upstream_failed", true),
            ("stopped", true),
            ("succeeded", true),
            ("skipped", true),
            ("failed", true),
            ("running", false),
            ("done", false),
            ("hibernating", false),
        ];
        for (word, is_final) in table {
            let status: RunStatus = serde_json::from_value(word.into()).unwrap();
            assert_eq!(status.as_str(), word);
            assert_eq!(serde_json::to_value(&status).unwrap(), word);
            assert_eq!(status.is_final(), is_final, "{word}");
        }
        let other: RunStatus = serde_json::from_str("\"hibernating\"").unwrap();
        assert_eq!(other, RunStatus::Other("hibernating".to_owned()));
    }

    #[test]
    fn a_condition_is_read_from_either_kind_of_server() {
        for status in ["true", "\"True\""] {
            let text = format!(
                r#"{{"type":"running","status":{status},"last_update_time":"2026-01-01T00:00:00.123Z","extra":1}}"#
            );
            let condition: StatusCondition = serde_json::from_str(&text).unwrap();
            assert_eq!(condition.kind, RunStatus::Running);
            assert_eq!(condition.reason, None);
            assert!(condition.last_update_time.is_some());
        }
    }

    #[test]
    fn a_live_state_is_written_as_it_was_read() {
        let table = [
            (1, LiveState::Live),
            (0, LiveState::Archived),
            (-1, LiveState::Deleted),
            (7, LiveState::Other(7)),
        ];
        for (number, state) in table {
            let read: LiveState = serde_json::from_value(number.into()).unwrap();
            assert_eq!(read, state);
            assert_eq!(serde_json::to_value(read).unwrap(), number);
        }
    }

    #[test]
    fn only_what_was_given_is_sent() {
        let run = CreateRun::operation(&serde_json::json!({"ports": []}))
            .name("r")
            .tag("a");
        assert_eq!(
            serde_json::to_value(&run).unwrap(),
            serde_json::json!({"content": "{\"ports\":[]}", "name": "r", "tags": ["a"]})
        );
        assert_eq!(
            serde_json::to_value(CreateRun::unmanaged()).unwrap(),
            serde_json::json!({"is_managed": false, "managed_by": "user"})
        );
    }
}
