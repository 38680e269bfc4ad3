//! A tracked run, from its start to its end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyaxon_client::{ProjectRef, RunUuid};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::artifact::{ArtifactRef, RunFolder};
use crate::error::Error;
use crate::metrics::{At, MetricValue};
use crate::name::{NameUse, Names};
use crate::outputs;
use crate::queue::{Command, Queue};
use crate::record::{Change, Ending, Merge};
use crate::report::Report;

/// Where a run is tracked, and as what.
///
/// # Examples
/// ```
/// use polyaxon_tracking::Tracking;
///
/// let tracking = Tracking::offline("offline")
///     .project("acme/agent-lab".parse()?)
///     .name("candidate-7")
///     .tag("nightly");
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Tracking does nothing until it is passed to `TrackedRun::start`"]
pub struct Tracking {
    pub(crate) offline_root: PathBuf,
    pub(crate) uuid: RunUuid,
    pub(crate) project: Option<ProjectRef>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) capacity: usize,
}

impl Tracking {
    /// In the folder `root/runs/UUID` of this machine; nothing is sent. `root` is what the Python
    /// client calls `POLYAXON_OFFLINE_ROOT`, and its `polyaxon ops push` sends such a run later.
    pub fn offline(root: impl Into<PathBuf>) -> Self {
        Self {
            offline_root: root.into(),
            uuid: RunUuid::random(),
            project: None,
            name: None,
            description: None,
            tags: Vec::new(),
            capacity: 100_000,
        }
    }

    /// As this run. Default: a new one. A run whose folder is there already is continued: it keeps
    /// what it has, and its status where that is final.
    pub fn run(mut self, uuid: RunUuid) -> Self {
        self.uuid = uuid;
        self
    }

    /// In this project. Default: none, until the run is sent to one.
    pub fn project(mut self, project: ProjectRef) -> Self {
        self.project = Some(project);
        self
    }

    /// Under this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// With a text for people.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With a tag more.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// How many values may wait to be written before no more are taken. Default: 100,000, which
    /// take some megabytes.
    pub fn queue_capacity(mut self, values: usize) -> Self {
        self.capacity = values;
        self
    }
}

/// A run that is being tracked.
///
/// Logging calls never wait: not for the disk and not for each other's writes. They hand their
/// values to the run's writer and return; an `Err` says that nothing of the call was taken. What
/// was taken and could not be written is in the [`Report`] of [`end`](Self::end). Values are in
/// their files within moments, what else the run knows within a second.
///
/// The writer keeps one of the runtime's blocking threads busy as long as the run lasts.
///
/// Dropping a run that was not ended logs a warning, writes what was taken, and records the run as
/// failed with the reason `NotEnded`. The drop itself does not wait for that, but the end of the
/// runtime does. Nobody gets the report then: what is lost goes to the log.
#[derive(Debug)]
pub struct TrackedRun {
    folder: RunFolder,
    outputs: PathBuf,
    queue: Queue,
    intake: Mutex<Intake>,
}

/// What a call must hold while it hands its values over: so none comes after the end.
#[derive(Debug)]
struct Intake {
    names: Names,
    is_open: bool,
}

impl TrackedRun {
    /// Starts a run, or continues one: makes its folder and records it as running.
    ///
    /// # Errors
    /// [`Error::Io`] where the folder cannot be made or written to; [`Error::Metadata`] and
    /// [`Error::OtherProject`] where a run that is to be continued cannot be;
    /// [`Error::NoRuntime`] outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the run in its folder, recorded as failed like one that was
    /// dropped later.
    pub async fn start(tracking: Tracking) -> Result<Self, Error> {
        let (queue, folder) = Queue::start(tracking).await?;
        Ok(Self {
            outputs: folder.join("outputs"),
            folder,
            queue,
            intake: Mutex::new(Intake {
                names: Names::default(),
                is_open: true,
            }),
        })
    }

    /// Its id.
    #[must_use]
    pub fn uuid(&self) -> RunUuid {
        self.folder.uuid
    }

    /// Its folder on this machine.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder.root
    }

    /// The path for a file of the run's outputs. Its parent folder is made; the file is yours.
    ///
    /// # Errors
    /// [`Error::InvalidPath`] for an absolute path, one with a `..`, or none at all: it would not
    /// be below the outputs. [`Error::Io`] where the folder cannot be made.
    pub fn outputs_path(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = outputs::below(&self.outputs, relative.as_ref())?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        Ok(path)
    }

    /// Logs one value of a metric. The last one of a metric becomes an output of the run.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for its name; [`Error::OutOfRange`] for
    /// its time; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_metric(
        &self,
        at: impl Into<At>,
        name: impl AsRef<str>,
        value: impl MetricValue,
    ) -> Result<(), Error> {
        let stamp = at.into().stamp()?;
        let mut intake = self.intake()?;
        let permit = self.queue.reserve(1)?;
        let name = intake.names.claim_one(NameUse::Metric, name.as_ref())?;
        permit.send([Command::Value(name, stamp, value.to_f64())])
    }

    /// Logs values of several metrics at one step and time: all, or none.
    ///
    /// # Errors
    /// As [`log_metric`](Self::log_metric). More values than the queue's capacity never fit.
    pub fn log_metrics<N: AsRef<str>, V: MetricValue>(
        &self,
        at: impl Into<At>,
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        let stamp = at.into().stamp()?;
        let values: Vec<(N, V)> = values.into_iter().collect();
        let mut intake = self.intake()?;
        let permit = self.queue.reserve(values.len())?;
        let names = values.iter().map(|(name, _)| name);
        let names = intake.names.claim(NameUse::Metric, names)?;
        let commands = names
            .into_iter()
            .zip(&values)
            .map(|(name, (_, value))| Command::Value(name, stamp, value.to_f64()));
        permit.send(commands)
    }

    /// Adds inputs: what the run works on. One that is there already gets the new value.
    ///
    /// Values are anything that serde can make JSON of. What is not a number, or infinite, becomes
    /// `null`, for JSON has no such numbers.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for a name; [`Error::NotJson`] for a
    /// value; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_inputs<N: AsRef<str>, V: Serialize>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Input, inputs, |map| {
            Change::Inputs(map, Merge::Keep)
        })
    }

    /// As [`log_inputs`](Self::log_inputs), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_inputs<N: AsRef<str>, V: Serialize>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Input, inputs, |map| {
            Change::Inputs(map, Merge::Replace)
        })
    }

    /// Adds outputs: what came of the run. A metric of the same name goes before: its last value
    /// is what counts at the end.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn log_outputs<N: AsRef<str>, V: Serialize>(
        &self,
        outputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Output, outputs, |map| {
            Change::Outputs(map, Merge::Keep)
        })
    }

    /// As [`log_outputs`](Self::log_outputs), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_outputs<N: AsRef<str>, V: Serialize>(
        &self,
        outputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Output, outputs, |map| {
            Change::Outputs(map, Merge::Replace)
        })
    }

    /// Adds members of the run's free metadata, `meta_info`.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn log_meta<N: AsRef<str>, V: Serialize>(
        &self,
        members: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Meta, members, |map| Change::Meta(map, Merge::Keep))
    }

    /// As [`log_meta`](Self::log_meta), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_meta<N: AsRef<str>, V: Serialize>(
        &self,
        members: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Meta, members, |map| {
            Change::Meta(map, Merge::Replace)
        })
    }

    /// Says how far the run is, from 0 to 1.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for anything else; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_progress(&self, done: f64) -> Result<(), Error> {
        match (0.0..=1.0).contains(&done) {
            true => self.log_meta([("progress", done)]),
            false => Err(Error::OutOfRange {
                what: "the progress",
                given: done.to_string(),
                range: "0 to 1",
            }),
        }
    }

    /// Adds tags. Those that are there already, and empty ones, are left out.
    ///
    /// # Errors
    /// [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_tags<T: Into<String>>(
        &self,
        tags: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let tags = tags.into_iter().map(Into::into).collect();
        self.change(Change::Tags(tags, Merge::Keep))
    }

    /// Gives the run these tags and no others.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn replace_tags<T: Into<String>>(
        &self,
        tags: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let tags = tags.into_iter().map(Into::into).collect();
        self.change(Change::Tags(tags, Merge::Replace))
    }

    /// Gives the run another name.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_name(&self, name: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Name(name.into()))
    }

    /// Gives the run another description.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_description(&self, description: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Description(description.into()))
    }

    /// Gives the run a page of text, in Markdown.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_readme(&self, readme: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Readme(readme.into()))
    }

    /// Registers a file or folder in the run's lineage. Nothing is copied, and a path where there
    /// is nothing is no error. A second reference of the same name replaces the first.
    ///
    /// The writer reads the file for its hash soon after the call, not within it:
    /// [`flush`](Self::flush) before you change the file again.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for its name;
    /// [`Error::InvalidPath`] where the path is empty or not UTF-8; [`Error::QueueFull`];
    /// [`Error::Ended`].
    pub fn log_artifact_ref(&self, artifact: ArtifactRef) -> Result<(), Error> {
        let name = artifact.chosen_name();
        let reference = artifact.resolve(&self.folder)?;
        let mut intake = self.intake()?;
        let permit = self.queue.reserve(1)?;
        let name = intake.names.claim_one(NameUse::Artifact, &name)?;
        permit.send([Command::Artifact(name, reference)])
    }

    /// Waits until all that was taken so far is in the run's files.
    ///
    /// # Errors
    /// [`Error::NotYetWritten`] or [`Error::Io`] for the first file that could not be written. Its
    /// values are kept, and tried again every second and at the end.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the writer goes on.
    pub async fn flush(&self) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        {
            let _intake = self.intake()?;
            self.queue.control(Command::Flush(answer))?;
        }
        answered.await.map_err(|_| Error::RuntimeGone)?
    }

    /// Ends the run as succeeded, as [`end_with`](Self::end_with) does.
    ///
    /// # Errors
    /// [`Error::Ended`] where it was ended before; [`Error::RuntimeGone`].
    pub async fn end(&self) -> Result<Report, Error> {
        self.end_with(Ending::succeeded()).await
    }

    /// Ends the run: writes what was taken, the summaries of its metrics, and its final status.
    /// From the call on, nothing is taken any more.
    ///
    /// What could not be written is in the report; [`Report::ensure_complete`] makes an error of
    /// it.
    ///
    /// # Errors
    /// [`Error::Ended`] where it was ended before; [`Error::RuntimeGone`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the run ends whether it is dropped or not. The report is lost
    /// with it; what it would have said goes to the log.
    pub async fn end_with(&self, ending: Ending) -> Result<Report, Error> {
        let (answer, answered) = oneshot::channel();
        {
            let mut intake = self.intake()?;
            self.queue.control(Command::End(ending, answer))?;
            intake.is_open = false;
        }
        answered.await.map_err(|_| Error::RuntimeGone)
    }

    fn change_map<N: AsRef<str>, V: Serialize>(
        &self,
        used: NameUse,
        members: impl IntoIterator<Item = (N, V)>,
        change: impl FnOnce(Map<String, Value>) -> Change,
    ) -> Result<(), Error> {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (name, value) in members {
            let value = serde_json::to_value(value).map_err(|source| Error::NotJson {
                name: name.as_ref().to_owned(),
                source,
            })?;
            names.push(name);
            values.push(value);
        }
        let mut intake = self.intake()?;
        let permit = self.queue.reserve(1)?;
        let names = intake.names.claim(used, names)?;
        let map = names
            .into_iter()
            .map(|name| name.as_str().to_owned())
            .zip(values)
            .collect();
        permit.send([Command::Change(change(map))])
    }

    fn change(&self, change: Change) -> Result<(), Error> {
        let _intake = self.intake()?;
        let permit = self.queue.reserve(1)?;
        permit.send([Command::Change(change)])
    }

    fn intake(&self) -> Result<MutexGuard<'_, Intake>, Error> {
        // Nothing that holds the lock can leave it half changed.
        let intake = self.intake.lock().unwrap_or_else(PoisonError::into_inner);
        match intake.is_open {
            true => Ok(intake),
            false => Err(Error::Ended),
        }
    }
}
