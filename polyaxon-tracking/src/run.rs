//! A tracked run, from its start to its end.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polyaxon_client::RunUuid;
use polyaxon_client::runs::RunStatus;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::artifact::RunFolder;
use crate::capture::LogCapture;
use crate::error::Error;
use crate::kind::MetricId;
use crate::name::{NameUse, Names};
use crate::plan::Plan;
use crate::queue::{Command, Queue, QueueIntake, StatusChange};
use crate::record::Ending;
use crate::report::Report;
use crate::resources;
use crate::tracking::{Collects, Tracking};

mod ends;
mod events;
mod files;
mod members;

pub(crate) use ends::LastPanic;

/// A run that is being tracked.
///
/// Logging calls never wait: not for the disk, not for the server and not for each other's writes.
/// They hand their values to the run's writer and return; an `Err` says that nothing of the call
/// was taken. What was taken and could not be written or sent is in the [`Report`] of
/// [`end`](Self::end). Values are in their files within moments, what else the run knows within a
/// second.
///
/// The writer keeps one of the runtime's blocking threads busy as long as the run lasts. A runtime
/// has 512 of them, unless told otherwise; one that has no more of them than there are runs does
/// nothing else that blocks, such as looking up the names of hosts. The sender of a run that is sent
/// has a thread of its own.
///
/// Dropping a run that was not ended logs a warning, writes what was taken, and records the run as
/// failed with the reason `NotEnded`. A run that is sent is sent as far as 15 s allow. The drop
/// itself does not wait for that, but the end of the runtime does. Nobody gets the report then:
/// what is lost goes to the log.
#[derive(Debug)]
pub struct TrackedRun {
    folder: RunFolder,
    outputs: PathBuf,
    queue: Queue,
    intake: SharedIntake,
    panics: LastPanic,
    /// The folder of a run that leaves nothing behind.
    _temporary: Option<tempfile::TempDir>,
}

/// What a call must hold while it hands its values over: so none comes after the end.
#[derive(Debug)]
pub(crate) struct Intake {
    names: Names,
    /// The numbers of the metrics that have values, by the names that callers write.
    metrics: HashMap<String, MetricId>,
    /// Where folders are copied to.
    folders: HashSet<PathBuf>,
    is_open: bool,
}

/// The intake, as those see it that log for the run without owning it.
#[derive(Clone, Debug)]
pub(crate) struct SharedIntake(Arc<Mutex<Intake>>);

impl SharedIntake {
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, Intake>, Error> {
        // Nothing that holds the lock can leave it half changed.
        let intake = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match intake.is_open {
            true => Ok(intake),
            false => Err(Error::Ended),
        }
    }
}

impl TrackedRun {
    /// Starts a run, or continues one: makes its folder and records it as running. A new run that
    /// is sent to a server is created there first.
    ///
    /// # Errors
    /// [`Error::Client`] where the server does not create the run, or knows no such run;
    /// [`Error::Io`] where the folder cannot be made or written to, which is tried before a run is
    /// created; [`Error::OtherRun`] where the folder is another run's; [`Error::Metadata`] and
    /// [`Error::OtherProject`] where a run that is to be continued cannot be;
    /// [`Error::NotStarted`], with its id, where a run was created and something failed after that: it
    /// is recorded as failed, for which the server has 5 s; [`Error::NoRuntime`] outside of a tokio
    /// runtime.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the run in its folder, recorded as failed like one that was
    /// dropped later. One that was just being created can be left behind on the server, with
    /// nobody to know its id.
    pub async fn start(tracking: Tracking) -> Result<Self, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let collects = tracking.collects.clone();
        let (plan, temporary) = tracking.plan().await?;
        let created = plan.created.clone();
        match (Self::begin(plan, temporary, collects).await, created) {
            (Err(error), Some(created)) => Err(created.failed(error).await),
            (begun, _) => begun,
        }
    }

    async fn begin(
        plan: Plan,
        temporary: Option<tempfile::TempDir>,
        collects: Collects,
    ) -> Result<Self, Error> {
        let measures = plan.resources.is_some();
        let panics = LastPanic::default();
        let (queue, folder) = Queue::start(plan, panics.clone()).await?;
        let intake = Intake {
            metrics: HashMap::new(),
            names: Names::default(),
            folders: HashSet::new(),
            is_open: true,
        };
        let run = Self {
            outputs: folder.join("outputs"),
            folder,
            queue,
            intake: SharedIntake(Arc::new(Mutex::new(intake))),
            panics,
            _temporary: temporary,
        };
        if measures {
            // A metric of the same name would share their lineage record.
            let used = NameUse::Event(crate::ArtifactKind::System);
            run.intake()?.names.claim(used, resources::NAMES)?;
        }
        if collects.env {
            run.log_env()?;
        }
        if let Some(folder) = collects.code {
            run.log_code_ref(folder)?;
        }
        run.sink().control(Command::Begin)?;
        Ok(run)
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

    /// Gives the run a status other than its last. Statuses after a final one are ignored, as the
    /// platform ignores them.
    ///
    /// In a pod of the run, the platform has the statuses, and what is said here is only kept for
    /// the case that the run cannot be sent.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a final status: that is [`end_with`](Self::end_with);
    /// [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_status(
        &self,
        status: RunStatus,
        reason: impl Into<String>,
        message: Option<String>,
    ) -> Result<(), Error> {
        if status.is_final() {
            return Err(Error::OutOfRange {
                what: "the status",
                given: status.to_string(),
                range: "those that are not final",
            });
        }
        let intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let change = StatusChange {
            status,
            reason: reason.into(),
            message,
        };
        let done = permit.send([Command::Status(Box::new(change))]);
        drop(intake);
        done
    }

    /// What takes lines of output for the run's log. It can be cloned and given to others; it does
    /// not keep the run from ending.
    #[must_use]
    pub fn log_capture(&self) -> LogCapture {
        LogCapture::new(self.intake.clone(), self.sink().clone())
    }

    /// Waits until all that was taken so far is in the run's files, and, of a run that is sent,
    /// until the server has it, files that changed included.
    ///
    /// # Errors
    /// [`Error::NotYetWritten`] or [`Error::Io`] for the first file that could not be written. Its
    /// values are kept, and tried again every second and at the end. [`Error::NotYetSent`] where a
    /// part cannot be sent for now: it is tried again. All else has been sent then, unless the server
    /// takes nothing. [`Error::NotSent`] names what the server has refused since the last flush that
    /// said so; all else has been sent then. A copy that failed is in the report of the end alone.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: writer and sender go on.
    pub async fn flush(&self) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        {
            let _intake = self.intake()?;
            self.sink().control(Command::Flush(answer))?;
        }
        answered.await.map_err(|_| Error::RuntimeGone)?
    }

    /// Ends the run as succeeded, as [`end_with`](Self::end_with) does.
    ///
    /// # Errors
    /// [`Error::Ended`] where it was ended before; [`Error::RuntimeGone`].
    ///
    /// # Cancel safety
    /// As [`end_with`](Self::end_with).
    pub async fn end(&self) -> Result<Report, Error> {
        self.end_with(Ending::succeeded()).await
    }

    /// Ends the run: writes what was taken, the summaries of its events, and its final status. Of
    /// a run that is sent, the files are sent before the status: a run that says it has ended is
    /// complete. What cannot be sent within the time for it is not waited for: the last quarter of
    /// [`Tracking::send_limit`], 10 s at most, is the status's. From the call on, nothing is taken any
    /// more.
    ///
    /// What could not be written or sent is in the report; [`Report::ensure_complete`] makes an
    /// error of it. Sending is given up after the time of
    /// [`Tracking::send_limit`]; what was not sent is in the run's folder, which
    /// [`push`](crate::push) sends later.
    ///
    /// # Errors
    /// [`Error::Ended`] where it was ended before; [`Error::RuntimeGone`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the run ends whether it is dropped or not, here and on the
    /// server. The report is lost with it; what it would have said goes to the log.
    pub async fn end_with(&self, ending: Ending) -> Result<Report, Error> {
        let (answer, answered) = oneshot::channel();
        {
            let mut intake = self.intake()?;
            self.sink()
                .control(Command::End(Box::new(ending), answer))?;
            intake.is_open = false;
        }
        answered.await.map_err(|_| Error::RuntimeGone)
    }

    fn sink(&self) -> &QueueIntake {
        self.queue.intake()
    }

    fn intake(&self) -> Result<MutexGuard<'_, Intake>, Error> {
        self.intake.open()
    }
}
