//! The control plane: projects and runs, in memory.

mod api;
mod life;
mod operation;
mod problem;
mod record;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polyaxon_client::{ProjectRef, RunUuid};
use tokio::task::JoinSet;

pub(crate) use self::api::router;
pub(crate) use self::life::{Pods, Run};
use self::operation::Operation;
pub(crate) use self::problem::Problem;
use self::record::{Given, Next, Record};
use crate::auth::Secret;
use crate::closing::Closer;

/// The namespace that every run is said to be in.
pub(crate) const NAMESPACE: &str = "polyaxon";

/// All that this server knows, and the tasks that its runs live in.
#[derive(Debug)]
pub(crate) struct Control {
    token: Secret,
    pods: Arc<Pods>,
    projects: Mutex<HashSet<ProjectRef>>,
    runs: Mutex<HashMap<RunUuid, Arc<Run>>>,
    tasks: Mutex<JoinSet<()>>,
    closing: Closer,
}

impl Control {
    pub(crate) fn new(token: Secret, projects: HashSet<ProjectRef>, pods: Pods) -> Self {
        Self {
            token,
            pods: Arc::new(pods),
            projects: Mutex::new(projects),
            runs: Mutex::default(),
            tasks: Mutex::default(),
            closing: Closer::new(),
        }
    }

    pub(crate) fn token(&self) -> &Secret {
        &self.token
    }

    /// The token that the gateway shows to the daemon of `run`.
    pub(crate) fn sandbox_token(&self, run: RunUuid) -> Secret {
        self.pods.sandbox_token(run)
    }

    /// The run `uuid`, whatever its project.
    pub(crate) fn run(&self, uuid: RunUuid) -> Option<Arc<Run>> {
        lock(&self.runs).get(&uuid).cloned()
    }

    fn has_project(&self, project: &ProjectRef) -> bool {
        lock(&self.projects).contains(project)
    }

    /// Whether the project is new.
    fn add_project(&self, project: ProjectRef) -> bool {
        lock(&self.projects).insert(project)
    }

    fn create(&self, project: ProjectRef, given: Given, operation: Option<Operation>) -> Arc<Run> {
        let (record, next) = Record::new(given, operation);
        let run = Arc::new(Run::new(RunUuid::random(), project, record));
        lock(&self.runs).insert(run.uuid, Arc::clone(&run));
        self.follow(&run, next);
        run
    }

    fn approve(&self, run: &Arc<Run>) {
        let next = run.record().approve();
        self.follow(run, next);
    }

    fn follow(&self, run: &Arc<Run>, next: Next) {
        if next == Next::Start {
            let (pods, run, closing) = (
                Arc::clone(&self.pods),
                Arc::clone(run),
                self.closing.listen(),
            );
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move { pods.live(run, closing).await });
        }
    }

    /// Stops every run, and waits up to `limit` until their processes and folders are gone.
    pub(crate) async fn close(&self, limit: Duration) {
        self.closing.close();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _in_time = tokio::time::timeout(limit, ended).await;
    }
}

/// What is behind these locks is whole at every step, so a panic elsewhere leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
