//! The control plane: projects and runs, in memory.

mod api;
mod inputs;
mod job;
mod life;
mod lineage;
mod operation;
mod patch;
mod problem;
mod query;
mod record;
mod series;
mod store;
mod streams;
mod template;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyaxon_client::{ProjectRef, RunUuid};
use tokio::task::JoinSet;
use uuid::Uuid;

pub(crate) use self::api::router;
pub(crate) use self::life::{Pods, Run};
use self::operation::Operation;
pub(crate) use self::problem::Problem;
use self::record::{Given, Next, Record};
pub(crate) use self::store::Store;
use crate::auth::Secret;
use crate::closing::Closer;

/// The namespace that every run is said to be in.
pub(crate) const NAMESPACE: &str = "polyaxon";

/// All that this server knows, and the tasks that its runs live in.
#[derive(Debug)]
pub(crate) struct Control {
    token: Secret,
    pods: Arc<Pods>,
    /// What tells this server from others.
    key: Uuid,
    projects: Mutex<HashMap<ProjectRef, Project>>,
    runs: Mutex<HashMap<RunUuid, Arc<Run>>>,
    tasks: Mutex<JoinSet<()>>,
    closing: Closer,
}

/// What is known about a project, but its name.
#[derive(Clone, Debug)]
struct Project {
    uuid: Uuid,
    description: Option<String>,
    tags: Vec<String>,
    is_public: bool,
    created_at: Timestamp,
}

impl Project {
    fn new() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            description: None,
            tags: Vec::new(),
            is_public: false,
            created_at: Timestamp::now(),
        }
    }
}

impl Control {
    pub(crate) fn new(
        token: Secret,
        projects: impl IntoIterator<Item = ProjectRef>,
        pods: Pods,
    ) -> Self {
        let projects = projects.into_iter();
        Self {
            token,
            pods: Arc::new(pods),
            key: Uuid::new_v4(),
            projects: Mutex::new(projects.map(|place| (place, Project::new())).collect()),
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

    fn key(&self) -> String {
        self.key.simple().to_string()
    }

    fn store(&self) -> &Store {
        &self.pods.store
    }

    fn project(&self, place: &ProjectRef) -> Option<Project> {
        lock(&self.projects).get(place).cloned()
    }

    fn projects_of(&self, owner: &str) -> Vec<(ProjectRef, Project)> {
        let projects = lock(&self.projects);
        let of_owner = projects.iter().filter(|(place, _)| place.owner() == owner);
        of_owner
            .map(|(place, project)| (place.clone(), project.clone()))
            .collect()
    }

    /// Whether the project is new. One that is there stays as it is.
    fn add_project(&self, place: ProjectRef, project: Project) -> bool {
        let mut projects = lock(&self.projects);
        let new = !projects.contains_key(&place);
        if new {
            projects.insert(place, project);
        }
        new
    }

    fn runs_of(&self, project: &ProjectRef) -> Vec<Arc<Run>> {
        let runs = lock(&self.runs);
        let of_project = runs.values().filter(|run| run.project == *project);
        of_project.cloned().collect()
    }

    /// Adds a run that nothing runs here, unless there is one with this id.
    fn add(&self, uuid: RunUuid, project: ProjectRef, record: Record) -> Option<Arc<Run>> {
        let mut runs = lock(&self.runs);
        if runs.contains_key(&uuid) {
            return None;
        }
        let run = Arc::new(Run::new(uuid, project, record));
        runs.insert(uuid, Arc::clone(&run));
        Some(run)
    }

    fn create(&self, project: ProjectRef, given: Given, operation: Option<Operation>) -> Arc<Run> {
        self.create_as(RunUuid::random(), project, given, operation)
    }

    /// A run with a random id that the caller knows before.
    fn create_as(
        &self,
        uuid: RunUuid,
        project: ProjectRef,
        given: Given,
        operation: Option<Operation>,
    ) -> Arc<Run> {
        let (record, next) = Record::new(given, operation);
        let run = Arc::new(Run::new(uuid, project, record));
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
