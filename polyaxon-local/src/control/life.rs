//! One run, from the queue to its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use polyaxon_client::runs::RunStatus;
use polyaxon_client::{ProjectRef, RunUuid};
use tokio::time::{Instant, sleep_until, timeout};

use super::job::{Job, Outcome};
use super::record::{Next, Record};
use super::store::Store;
use crate::auth::{self, Secret};
use crate::closing::{Closer, Closing};
use crate::daemon::{self, Sandbox};
use crate::faults::Faults;
use crate::folder;
use crate::limits::Limits;
use crate::quirks::Quirks;

/// How long the processes of a run have to be gone once they were killed.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// The time limit of a job's command, far beyond what `termination.timeout` is set to.
const JOB_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

const REASON: &str = "PolyaxonLocal";

/// A run that exists.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) uuid: RunUuid,
    pub(crate) project: ProjectRef,
    record: Mutex<Record>,
    /// There while the daemon answers.
    daemon: Mutex<Option<Router>>,
    stop: Closer,
}

impl Run {
    pub(crate) fn new(uuid: RunUuid, project: ProjectRef, record: Record) -> Self {
        Self {
            uuid,
            project,
            record: Mutex::new(record),
            daemon: Mutex::default(),
            stop: Closer::new(),
        }
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon, while the run has one.
    pub(crate) fn daemon(&self) -> Option<Router> {
        self.slot().clone()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Router>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self, reason: &str, message: &str) {
        if self.record().stop(reason, message) == Next::TearDown {
            self.stop.close();
        }
    }
}

/// The command of a job is no call of the sandbox API: it runs for as long as the run may, and is
/// as long as the system takes it.
fn unlimited(mut limits: Limits) -> Limits {
    limits.timeout = JOB_TIMEOUT;
    limits.timeout_max = JOB_TIMEOUT;
    limits.command_words = usize::MAX;
    limits.command_bytes = usize::MAX;
    limits
}

/// What every sandbox of this server is made with.
#[derive(Debug)]
pub(crate) struct Pods {
    pub(crate) folder: PathBuf,
    pub(crate) signing_key: Secret,
    pub(crate) limits: Limits,
    pub(crate) quirks: Quirks,
    /// The folders that a pod shows beside the system's. `None`: there are no pods.
    pub(crate) shown: Option<Arc<[PathBuf]>>,
    pub(crate) faults: Faults,
    pub(crate) store: Store,
}

impl Pods {
    /// Runs `run` until it is stopped, by its caller, by its time limit, or with the server. When
    /// this ends, its processes and its folder are gone.
    pub(crate) async fn live(&self, run: Arc<Run>, closing: Closing) {
        let Some(operation) = run.record().operation.clone() else {
            return;
        };
        if let Some(why) = operation.unsupported() {
            tracing::info!(run = %run.uuid, project = %run.project, why, "a run cannot run here");
            run.record().enter(RunStatus::Failed, REASON, Some(why));
            return;
        }
        if self.faults.refuses_start() {
            let why = "The run is refused its start on purpose, by a fault.".to_owned();
            run.record().enter(RunStatus::Failed, REASON, Some(why));
            return;
        }
        run.record().enter(RunStatus::Scheduled, REASON, None);
        let image = match operation.image {
            Some(image) => {
                format!("The image {image:?} is not pulled: programs of this machine run.")
            }
            None => "There is no image: programs of this machine run.".to_owned(),
        };
        run.record()
            .enter(RunStatus::Starting, REASON, Some(image.clone()));

        tracing::info!(run = %run.uuid, project = %run.project, kind = operation.kind, "a run starts");
        let folder = self.folder.join(run.uuid.to_string());
        let sandbox = match self.open(&run, folder.clone()).await {
            Ok(sandbox) => Arc::new(sandbox),
            Err(error) => {
                let why = format!("The sandbox cannot be made: {error}.");
                run.record().enter(RunStatus::Failed, REASON, Some(why));
                return;
            }
        };
        let router = daemon::router(Arc::clone(&sandbox));
        let goes_on = run
            .record()
            .enter(RunStatus::Running, REASON, Some(image.clone()));
        if goes_on && operation.sandbox {
            *run.slot() = Some(router.clone());
        }
        let job = Job {
            daemon: router,
            token: self.sandbox_token(run.uuid),
            store: self.store.clone(),
            run: run.uuid,
        };
        let command = operation.command.ok();
        let command = command.filter(|_| goes_on && operation.kind == "job");
        let ended = {
            let end = self.until_end(&run, operation.timeout, closing);
            tokio::pin!(end);
            match command {
                None => {
                    end.await;
                    None
                }
                Some(command) => {
                    let driven = job.drive(&image, command);
                    tokio::pin!(driven);
                    tokio::select! {
                        outcome = &mut driven => Some(outcome),
                        () = end => {
                            job.terminate().await;
                            // Its last words belong into the log.
                            let _in_time = timeout(self.limits.kill_grace, driven).await;
                            None
                        }
                    }
                }
            }
        };
        *run.slot() = None;
        sandbox.close(KILL_LIMIT).await;
        let removed = folder::remove(folder).await;
        let left = removed
            .and(folder::remove(self.state(run.uuid)).await)
            .err();
        let left =
            left.map(|error| format!("The folder of the sandbox could not be removed: {error}."));
        tracing::info!(run = %run.uuid, ?ended, "a run has ended");
        let (status, message) = match ended {
            Some(Outcome::Succeeded(message)) => (RunStatus::Succeeded, message),
            Some(Outcome::Failed(message)) => (RunStatus::Failed, message),
            None => return run.record().stopped(REASON, left),
        };
        if let Some(left) = left {
            tracing::warn!(run = %run.uuid, left);
        }
        run.record().enter(status, REASON, Some(message));
    }

    /// Until the run is stopped, by its caller, by its time limit, or with the server.
    async fn until_end(&self, run: &Run, limit: Option<Duration>, mut closing: Closing) {
        let mut stop = run.stop.listen();
        let begun = Instant::now();
        let deadline = limit.map(|limit| begun + limit);
        tokio::select! {
            () = stop.heard() => {}
            () = closing.heard() => {
                run.stop("ServerStopped", "The server stops.");
            }
            () = sleep_until(deadline.unwrap_or(begun)), if deadline.is_some() => {
                let seconds = limit.unwrap_or_default().as_secs();
                let message = format!("The run reached its termination.timeout of {seconds} s.");
                run.stop("TerminationTimeout", &message);
            }
        }
    }

    /// The token of the daemon of `run`.
    pub(crate) fn sandbox_token(&self, run: RunUuid) -> Secret {
        auth::derive_sandbox_token(&self.signing_key, run)
    }

    async fn open(&self, run: &Run, folder: PathBuf) -> std::io::Result<Sandbox> {
        folder::create(folder.clone()).await?;
        let token = self.sandbox_token(run.uuid);
        let operation = run.record().operation.clone();
        let is_job = operation.as_ref().is_some_and(|op| op.kind == "job");
        let limits = match is_job {
            true => unlimited(self.limits.clone()),
            false => self.limits.clone(),
        };
        let env = operation.map(|operation| operation.env);
        let state = self.state(run.uuid);
        let mut sandbox = Sandbox::open(&folder, &state, token, limits, self.shown.clone()).await?;
        sandbox.quirks = self.quirks;
        sandbox.base_env.extend(env.unwrap_or_default());
        Ok(sandbox)
    }

    /// Where records and logs of a run's execs are: beside the folder of its sandbox, out of reach
    /// of its file API.
    fn state(&self, run: RunUuid) -> PathBuf {
        self.folder.join(format!("{run}.state"))
    }
}
