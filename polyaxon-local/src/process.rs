//! Commands: `exec`.

mod capture;
mod child;
mod request;
mod run;
mod spawn;
mod tree;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use polyaxon_sandbox::wire::ExecAnswer;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

use self::request::Command;
use self::run::{Lost, Running};
pub(crate) use self::spawn::{BaseEnv, workdir_not_found};
use crate::closing::Closer;
use crate::daemon::{Refusal, Sandbox, body};

/// The commands of one sandbox. Each has a task that watches over its process group until that
/// is empty; the tasks belong to this table and end with it, their groups killed.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Arc<Semaphore>,
    limit: usize,
    closing: Closer,
    tasks: Mutex<JoinSet<()>>,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(limit)),
            limit,
            closing: Closer::new(),
            tasks: Mutex::default(),
        }
    }

    /// How many commands run now.
    pub(crate) fn running(&self) -> usize {
        self.limit.saturating_sub(self.slots.available_permits())
    }

    fn admit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        if self.closing.is_closed() {
            return Err(closing());
        }
        Arc::clone(&self.slots)
            .try_acquire_owned()
            .map_err(|_| Refusal::rate_limited("execs", self.limit))
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        // A set of tasks is whole at every step, so a panic elsewhere leaves it usable.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, running: Running, reply: oneshot::Sender<Result<ExecAnswer, Lost>>) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(running.drive(reply));
    }

    /// Refuses new commands, kills what runs and what was left running, and waits up to `limit`
    /// until it is gone.
    pub(crate) async fn close(&self, limit: Duration) {
        self.closing.close();
        let mut tasks = std::mem::take(&mut *self.tasks());
        let ended = async { while tasks.join_next().await.is_some() {} };
        // Past the limit the set is dropped, which kills the groups once more.
        let _in_time = tokio::time::timeout(limit, ended).await;
    }
}

fn closing() -> Refusal {
    Refusal::internal("the sandbox is being stopped").details(json!({"kind": "stopping"}))
}

/// `POST exec`: runs a command and answers with its end.
pub(crate) async fn exec(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ExecAnswer>, Refusal> {
    let request = body::json(&headers, body, sandbox.limits.exec_body).await?;
    let mut command = Command::check(request, &sandbox.limits)?;
    let permit = sandbox.processes.admit()?;
    let workdir = sandbox.files.workdir(command.workdir.take()).await?;
    let child = spawn::spawn(
        &command,
        &sandbox.base_env,
        &sandbox.ground,
        workdir,
        sandbox.limits.of_processes(),
    )
    .await?;
    let running = Running::new(
        child,
        command.stdin,
        command.timeout,
        &sandbox.limits,
        permit,
        sandbox.processes.closing.listen(),
    );
    let (reply, answer) = oneshot::channel();
    sandbox.processes.watch(running, reply);
    match answer.await {
        Ok(Ok(answer)) => Ok(Json(answer)),
        Ok(Err(Lost::Unknown(error))) => {
            Err(Refusal::internal("how the command ended is not known").because(error))
        }
        Ok(Err(Lost::Closing)) | Err(_) => Err(closing()),
    }
}
