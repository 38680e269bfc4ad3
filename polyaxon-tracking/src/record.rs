//! The record of a run: what `run.plx.json` holds.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use polyaxon_client::RunUuid;
use polyaxon_client::runs::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::plan::Introduction;
use crate::time;

/// The members are in the platform's order. Times and conditions stay text and JSON, so that what
/// was read from a file is written again as it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    uuid: RunUuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_time: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    managed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_managed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta_info: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_conditions: Option<Vec<Value>>,
    /// What a server added to a run that was pulled. It must survive a rewrite of the file.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A change of the record. Maps are merged member by member, at the top level only.
#[derive(Debug)]
pub(crate) enum Change {
    Name(String),
    Description(String),
    Readme(String),
    Tags(Vec<String>, Merge),
    Inputs(Map<String, Value>, Merge),
    Outputs(Map<String, Value>, Merge),
    Meta(Map<String, Value>, Merge),
}

impl Change {
    /// Whether there is nothing to tell a server: no tags to add.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Tags(tags, Merge::Keep) if plain_tags(tags).is_empty())
    }

    /// The body that makes a server carry it out.
    pub(crate) fn to_patch(&self) -> Map<String, Value> {
        let (member, value, merge) = match self {
            Self::Name(text) => ("name", json!(text), Merge::Replace),
            Self::Description(text) => ("description", json!(text), Merge::Replace),
            Self::Readme(text) => ("readme", json!(text), Merge::Replace),
            Self::Tags(tags, merge) => ("tags", json!(plain_tags(tags)), *merge),
            Self::Inputs(map, merge) => ("inputs", json!(map), *merge),
            Self::Outputs(map, merge) => ("outputs", json!(map), *merge),
            Self::Meta(map, merge) => ("meta_info", json!(map), *merge),
        };
        let mut patch = Map::new();
        patch.insert(member.to_owned(), value);
        if matches!(merge, Merge::Keep) {
            patch.insert("merge".to_owned(), true.into());
        }
        patch
    }
}

/// Tags without white space around them, empty ones and those that came before.
fn plain_tags(tags: &[String]) -> Vec<&str> {
    let mut plain: Vec<&str> = Vec::new();
    for tag in tags {
        let tag = tag.trim();
        if !tag.is_empty() && !plain.contains(&tag) {
            plain.push(tag);
        }
    }
    plain
}

/// What becomes of what is there already.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Merge {
    Keep,
    Replace,
}

/// How a run ends: with which status, and why.
///
/// # Examples
/// ```
/// use polyaxon_tracking::Ending;
///
/// let ending = Ending::failed("the check timed out").reason("CheckTimedOut");
/// assert_ne!(ending, Ending::failed("the check timed out"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an Ending does nothing until it is passed to `end_with`"]
pub struct Ending {
    status: RunStatus,
    reason: String,
    message: String,
}

impl Ending {
    fn new(status: RunStatus, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: CLIENT.to_owned(),
            message: message.into(),
        }
    }

    /// It did what it was to do.
    pub fn succeeded() -> Self {
        Self::new(RunStatus::Succeeded, "Operation has succeeded")
    }

    /// It did not; `message` says to people why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(RunStatus::Failed, message)
    }

    /// It was stopped before it was done.
    pub fn stopped() -> Self {
        Self::new(RunStatus::Stopped, "Operation is stopped")
    }

    /// One word for programs. Default: `PolyaxonClient`.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// It was stopped before it was done; `message` says to people why.
    pub fn stopped_because(message: impl Into<String>) -> Self {
        Self::new(RunStatus::Stopped, message)
    }

    /// The end of a run that nobody ended, perhaps because of a panic.
    pub(crate) fn dropped(panic: Option<String>) -> Self {
        match panic {
            Some(message) => Self::failed(message).reason("Panicked"),
            None => Self::failed("The run was dropped without being ended").reason("NotEnded"),
        }
    }
}

/// The reason of a status that a client sets without being told one.
const CLIENT: &str = "PolyaxonClient";

impl RunRecord {
    /// The record of a run that starts now: a new one, or what `path` holds of a run that is to be
    /// continued. A run that has ended stays ended.
    pub(crate) fn start(
        introduction: &Introduction,
        uuid: RunUuid,
        folder: &Path,
        path: &Path,
    ) -> Result<Self, Error> {
        let found = Self::check(folder, path, Some(uuid))?;
        let mut record = found.unwrap_or_else(|| Self::new(uuid));
        record.introduce(introduction)?;
        record.run();
        Ok(record)
    }

    /// The record that `path` holds, where that is this run's. A new run, which has no id yet, has
    /// none anywhere.
    pub(crate) fn check(
        folder: &Path,
        path: &Path,
        run: Option<RunUuid>,
    ) -> Result<Option<Self>, Error> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            // Where the folder cannot be made either, that is said when it is to be.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let record: Self = serde_json::from_slice(&bytes).map_err(|source| Error::Metadata {
            path: path.to_owned(),
            source,
        })?;
        match run == Some(record.uuid) {
            true => Ok(Some(record)),
            false => Err(Error::OtherRun {
                path: folder.to_owned(),
                found: record.uuid,
                asked: run,
            }),
        }
    }

    fn new(uuid: RunUuid) -> Self {
        let mut record = Self {
            uuid,
            name: None,
            description: None,
            tags: None,
            owner: None,
            project: None,
            created_at: None,
            started_at: None,
            finished_at: None,
            wait_time: None,
            duration: None,
            managed_by: Some("user".to_owned()),
            is_managed: Some(false),
            status: None,
            readme: None,
            meta_info: None,
            kind: Some("job".to_owned()),
            runtime: Some("job".to_owned()),
            inputs: None,
            outputs: None,
            status_conditions: None,
            others: Map::new(),
        };
        let now = Timestamp::now();
        record.created_at = Some(time::iso(now));
        record.enter(
            RunStatus::Created,
            "OfflineOperation",
            Some("Operation is starting"),
            now,
        );
        record
    }

    fn introduce(&mut self, given: &Introduction) -> Result<(), Error> {
        if let Some(asked) = &given.project {
            let owner = self.owner.get_or_insert_with(|| asked.owner().to_owned());
            let name = self.project.get_or_insert_with(|| asked.name().to_owned());
            if owner != asked.owner() || name != asked.name() {
                return Err(Error::OtherProject {
                    found: format!("{owner}/{name}"),
                    asked: asked.to_string(),
                });
            }
        }
        if let Some(name) = &given.name {
            self.name = Some(name.clone());
        }
        if let Some(description) = &given.description {
            self.description = Some(description.clone());
        }
        if !given.tags.is_empty() {
            self.apply(Change::Tags(given.tags.clone(), Merge::Keep));
        }
        Ok(())
    }

    fn run(&mut self) {
        if self.is_final() || self.status == Some(RunStatus::Running) {
            return;
        }
        let now = Timestamp::now();
        self.enter(
            RunStatus::Running,
            CLIENT,
            Some("Operation is running"),
            now,
        );
        if self.started_at.is_none() {
            self.started_at = Some(time::iso(now));
            self.wait_time = since(self.created_at.as_deref(), now);
        }
    }

    /// Ends the run, unless it has ended before.
    pub(crate) fn end(&mut self, ending: &Ending) {
        let message = Some(ending.message.as_str());
        self.set_status(ending.status.clone(), &ending.reason, message);
    }

    /// Gives the run a status, unless it has ended. Answers whether it did.
    pub(crate) fn set_status(
        &mut self,
        status: RunStatus,
        reason: &str,
        message: Option<&str>,
    ) -> bool {
        if self.is_final() {
            return false;
        }
        let now = Timestamp::now();
        if status.is_final() {
            self.finished_at = Some(time::iso(now));
            self.duration = since(self.started_at.as_deref(), now);
        }
        self.enter(status, reason, message, now);
        true
    }

    /// The newest entry of its status history.
    pub(crate) fn last_condition(&self) -> Option<&Value> {
        self.status_conditions.as_ref()?.last()
    }

    pub(crate) fn status(&self) -> Option<&RunStatus> {
        self.status.as_ref()
    }

    fn is_final(&self) -> bool {
        self.status.as_ref().is_some_and(RunStatus::is_final)
    }

    fn enter(&mut self, status: RunStatus, reason: &str, message: Option<&str>, now: Timestamp) {
        let now = time::iso(now);
        let mut condition = json!({
            "type": status,
            "status": true,
            "reason": reason,
            "last_update_time": now,
            "last_transition_time": now,
        });
        if let (Some(message), Some(members)) = (message, condition.as_object_mut()) {
            members.insert("message".to_owned(), message.into());
        }
        let conditions = self.status_conditions.get_or_insert_default();
        conditions.push(condition);
        self.status = Some(status);
    }

    /// Carries out a change.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Name(text) => self.name = Some(text),
            Change::Description(text) => self.description = Some(text),
            Change::Readme(text) => self.readme = Some(text),
            // Nothing to add does not make an empty member.
            Change::Tags(tags, Merge::Keep) if tags.iter().all(|tag| tag.trim().is_empty()) => {}
            Change::Tags(tags, merge) => {
                let kept = merge.slot(&mut self.tags);
                for tag in plain_tags(&tags) {
                    if !kept.iter().any(|known| known == tag) {
                        kept.push(tag.to_owned());
                    }
                }
            }
            Change::Inputs(map, Merge::Keep)
            | Change::Outputs(map, Merge::Keep)
            | Change::Meta(map, Merge::Keep)
                if map.is_empty() => {}
            Change::Inputs(map, merge) => merge.slot(&mut self.inputs).extend(map),
            Change::Outputs(map, merge) => merge.slot(&mut self.outputs).extend(map),
            Change::Meta(map, merge) => merge.slot(&mut self.meta_info).extend(map),
        }
    }

    /// Marks the run as one that has things of some kind, for the platform's pages. Answers which
    /// marks are new.
    pub(crate) fn mark(&mut self, flags: &[&'static str]) -> Vec<&'static str> {
        let mut added = Vec::new();
        for flag in flags {
            // Called for every value: most find it done.
            let meta = self.meta_info.as_ref();
            if meta.and_then(|meta| meta.get(*flag)) != Some(&Value::Bool(true)) {
                let meta = self.meta_info.get_or_insert_default();
                meta.insert((*flag).to_owned(), true.into());
                added.push(*flag);
            }
        }
        added
    }

    /// Makes the last values of metrics outputs of the run.
    pub(crate) fn set_last_values(&mut self, last_values: Map<String, Value>) {
        self.apply(Change::Outputs(last_values, Merge::Keep));
    }

    /// What a server may lack of a run that is gone on with.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let text = |text: &Option<String>, make: fn(String) -> Change| text.clone().map(make);
        let map = |map: &Option<Map<String, Value>>,
                   make: fn(Map<String, Value>, Merge) -> Change| {
            map.clone().map(|map| make(map, Merge::Keep))
        };
        let tags = self.tags.clone();
        let changes = [
            text(&self.name, Change::Name),
            text(&self.description, Change::Description),
            text(&self.readme, Change::Readme),
            tags.map(|tags| Change::Tags(tags, Merge::Keep)),
            map(&self.inputs, Change::Inputs),
            map(&self.outputs, Change::Outputs),
            map(&self.meta_info, Change::Meta),
        ];
        changes.into_iter().flatten().collect()
    }

    /// Leaves out the statuses, which are somebody else's.
    pub(crate) fn without_statuses(mut self) -> Self {
        self.status = None;
        self.status_conditions = None;
        self.started_at = None;
        self.finished_at = None;
        self
    }

    /// Compact JSON, with the last values of metrics as outputs.
    pub(crate) fn to_json(
        &self,
        last_values: impl IntoIterator<Item = (String, Value)>,
    ) -> serde_json::Result<Vec<u8>> {
        let mut last_values = last_values.into_iter().peekable();
        if last_values.peek().is_none() {
            return serde_json::to_vec(self);
        }
        let mut shown = self.clone();
        shown.outputs.get_or_insert_default().extend(last_values);
        serde_json::to_vec(&shown)
    }
}

impl Merge {
    fn slot<T: Default>(self, slot: &mut Option<T>) -> &mut T {
        if matches!(self, Self::Replace) {
            *slot = None;
        }
        slot.get_or_insert_default()
    }
}

fn since(start: Option<&str>, now: Timestamp) -> Option<f64> {
    Some(time::seconds_between(time::read(start?)?, now))
}
