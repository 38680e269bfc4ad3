//! The execs of one sandbox.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyaxon_sandbox::process::{ExecState, ExecStatus};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::child::Spawned;
use super::exec::Exec;
use super::record::{RecordFile, Started};
use super::request::Command;
use super::run::{Caller, Removal, Running, Surroundings};
use super::spawn::{self, BaseEnv, Site, Streams};
use super::store::{NotStored, Recovered, Store};
use crate::blocking::blocking;
use crate::closing::Closer;
use crate::daemon::{Refusal, Sandbox};
use crate::limits::Limits;
use crate::pod::Ground;
use crate::quirks::Quirk;
use crate::sys;

/// How long a state folder is waited for that is in use, and how often it is looked at.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
const LOCK_CHECK: Duration = Duration::from_millis(20);

/// The execs of one sandbox: records of all, and a task for each that runs, which watches over its
/// process group until that is empty. The tasks belong to this table and end with it, their groups
/// killed.
#[derive(Debug)]
pub(crate) struct Table {
    store: Arc<Store>,
    records: Arc<Records>,
    slots: Arc<Semaphore>,
    limit: usize,
    closing: Closer,
    tasks: Mutex<JoinSet<()>>,
}

/// What is known by id and by tag.
#[derive(Debug, Default)]
struct Records(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// With the number by which a list is sorted.
    by_id: HashMap<String, (u64, Arc<Exec>)>,
    /// Ids by tag. A tag is taken before its exec is known.
    by_tag: HashMap<String, String>,
    last: u64,
}

impl Records {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Both maps are whole at every step, so a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, exec: Arc<Exec>) {
        let mut known = self.known();
        known.last += 1;
        let number = known.last;
        known.by_id.insert(exec.id.clone(), (number, exec));
    }

    /// Gives a tag to whoever comes first.
    fn reserve(&self, tag: &str, id: &str) -> Result<(), Refusal> {
        let mut known = self.known();
        if let Some(existing) = known.by_tag.get(tag) {
            let exec = known.by_id.get(existing);
            let state = exec.map_or(ExecState::Running, |(_, exec)| exec.status().state);
            let refusal = Refusal::conflict(format!("tag: {tag:?} is in use"));
            return Err(refusal.details(json!({
                "tag": tag, "state": state, "existing_id": existing,
            })));
        }
        known.by_tag.insert(tag.to_owned(), id.to_owned());
        Ok(())
    }

    /// Forgets an exec. Only one caller gets it.
    fn remove(&self, id: &str) -> Option<Arc<Exec>> {
        let mut known = self.known();
        let (_, exec) = known.by_id.remove(id)?;
        if let Some(tag) = &exec.started.tag {
            known.by_tag.remove(tag);
        }
        Some(exec)
    }

    fn free(&self, tag: Option<&str>) {
        if let Some(tag) = tag {
            self.known().by_tag.remove(tag);
        }
    }
}

impl Table {
    /// The table whose records are in `folder`, with those of an earlier service.
    pub(crate) async fn open(folder: PathBuf, limits: &Limits) -> io::Result<Self> {
        let (store, found) = open(folder, limits.state_bytes).await?;
        let store = Arc::new(store);
        let records = Records::default();
        let mut tags = HashSet::new();
        for mut one in found {
            // Of two with one tag, which no service of ours writes, the older one keeps it.
            one.started.tag = one.started.tag.filter(|tag| tags.insert(tag.clone()));
            if let Some(tag) = &one.started.tag {
                let mut known = records.known();
                known.by_tag.insert(tag.clone(), one.id.clone());
            }
            records.add(Arc::new(Exec::recovered(one, Arc::clone(&store))));
        }
        Ok(Self {
            store,
            records: Arc::new(records),
            slots: Arc::new(Semaphore::new(limits.execs_running)),
            limit: limits.execs_running,
            closing: Closer::new(),
            tasks: Mutex::default(),
        })
    }

    /// How many commands run now.
    pub(crate) fn running(&self) -> usize {
        self.limit.saturating_sub(self.slots.available_permits())
    }

    /// The exec `id`.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Exec>, Refusal> {
        let found = self.records.known().by_id.get(id).cloned();
        found
            .map(|(_, exec)| exec)
            .ok_or_else(|| Refusal::not_found(format!("no such exec: {id:?}")))
    }

    /// All execs, or the one with `tag`, oldest first.
    pub(crate) fn list(&self, tag: Option<&str>) -> Vec<ExecStatus> {
        let mut found: Vec<_> = {
            let known = self.records.known();
            let fits = |exec: &Exec| tag.is_none_or(|tag| exec.started.tag.as_deref() == Some(tag));
            let execs = known.by_id.values().filter(|(_, exec)| fits(exec));
            execs.cloned().collect()
        };
        found.sort_by_key(|(number, _)| *number);
        found.iter().map(|(_, exec)| exec.status()).collect()
    }

    /// Starts a command and gives its record once it runs.
    ///
    /// # Cancel safety
    /// The command is started all the same. Where its caller waits for its end, it is then ended.
    pub(crate) async fn start(
        &self,
        sandbox: &Sandbox,
        command: Command,
        caller: Caller,
    ) -> Result<Arc<Exec>, Refusal> {
        let workdir = sandbox.files.workdir(command.workdir.clone()).await?;
        if self.closing.is_closed() {
            return Err(closing());
        }
        let id = Uuid::new_v4().to_string();
        // Before the number of execs, so that a start whose answer was lost is always found again.
        if let Some(tag) = &command.tag
            && !sandbox.quirks.has(Quirk::TagsAreLabels)
        {
            self.records.reserve(tag, &id)?;
        }
        let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.records.free(command.tag.as_deref());
            return Err(Refusal::rate_limited("execs", self.limit));
        };
        let start = Start {
            id,
            command,
            workdir,
            base_env: sandbox.base_env.clone(),
            ground: sandbox.ground.clone(),
            of_processes: sandbox.limits.of_processes(),
            records: Arc::clone(&self.records),
            around: self.surroundings(permit, &sandbox.limits),
        };
        let (reply, begun) = oneshot::channel();
        self.own(start.live(reply, caller));
        begun.await.unwrap_or_else(|_| Err(closing()))
    }

    fn surroundings(&self, permit: OwnedSemaphorePermit, limits: &Limits) -> Surroundings {
        let store = Arc::clone(&self.store);
        Surroundings::new(store, self.closing.listen(), permit, limits)
    }

    fn own(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        // Whoever closes says so before it takes the set, so no task is left out of it.
        if !self.closing.is_closed() {
            tasks.spawn(task);
        }
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        // A set of tasks is whole at every step, so a panic elsewhere leaves it usable.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets an exec that has ended, and removes what is on disk.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), Refusal> {
        remove(&self.records, id).await
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

/// A service that has just ended can have left its lock to a child between its fork and its exec,
/// so a folder in use is asked for again.
async fn open(folder: PathBuf, limit: u64) -> io::Result<(Store, Vec<Recovered>)> {
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        let path = folder.clone();
        match blocking(move || Store::open(&path, limit)).await {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                sleep(LOCK_CHECK).await;
            }
            opened => return opened,
        }
    }
}

pub(super) fn closing() -> Refusal {
    Refusal::internal("the sandbox is being stopped").details(json!({"kind": "stopping"}))
}

async fn remove(records: &Records, id: &str) -> Result<(), Refusal> {
    let Some(exec) = records.remove(id) else {
        return Ok(());
    };
    let removed = exec.remove_files().await;
    exec.is_removed();
    removed.map_err(|error| Refusal::internal("the record cannot be removed").because(error))
}

/// A command that is about to be started.
struct Start {
    id: String,
    command: Command,
    workdir: OwnedFd,
    ground: Ground,
    of_processes: sys::Limits,
    base_env: BaseEnv,
    records: Arc<Records>,
    around: Surroundings,
}

impl Start {
    async fn live(self, reply: oneshot::Sender<Result<Arc<Exec>, Refusal>>, caller: Caller) {
        let Self {
            id,
            command,
            workdir,
            ground,
            of_processes,
            base_env,
            records,
            around,
        } = self;
        let site = Site {
            base: &base_env,
            ground: &ground,
            workdir,
            limits: of_processes,
        };
        let begun = begin(&id, &command, site, &around.store).await;
        let (started, record, child) = match begun {
            Ok(begun) => begun,
            Err(refusal) => {
                records.free(command.tag.as_deref());
                drop(around.permit);
                let _caller_gone = reply.send(Err(refusal));
                return;
            }
        };
        let (exec, orders) = Exec::new(id, started, command.background, Arc::clone(&around.store));
        exec.runs_as(u64::from(child.child.id()));
        let exec = Arc::new(exec);
        records.add(Arc::clone(&exec));
        let _caller_gone = reply.send(Ok(Arc::clone(&exec)));
        let running = Running {
            exec: Arc::clone(&exec),
            record,
            orders,
            around,
            stdin: command.stdin,
            run_for: command.timeout,
        };
        if running.drive(child, caller).await == Removal::Asked
            && let Err(refusal) = remove(&records, &exec.id).await
        {
            tracing::error!(?refusal, exec = exec.id, "a record cannot be removed");
        }
    }
}

/// Writes the record and starts the command. Where one of the two fails there is neither.
async fn begin(
    id: &str,
    command: &Command,
    site: Site<'_>,
    store: &Arc<Store>,
) -> Result<(Started, RecordFile, Spawned), Refusal> {
    let started = Started {
        started_at: Timestamp::now(),
        tag: command.tag.clone(),
    };
    let (disk, name, written) = (Arc::clone(store), id.to_owned(), started.clone());
    let made = blocking(move || Ok(disk.create(&name, &written))).await;
    let record = made
        .unwrap_or_else(|error| Err(NotStored::Disk(error)))
        .map_err(|why| not_stored(why, store.limit()))?;
    match spawn::spawn(command, site, Streams::Pipes).await {
        Ok(child) => Ok((started, record, child)),
        Err(refusal) => {
            let (disk, name) = (Arc::clone(store), id.to_owned());
            if let Err(error) = blocking(move || disk.remove(&name, 0)).await {
                tracing::warn!(%error, exec = id, "a record of nothing stays");
            }
            Err(refusal)
        }
    }
}

fn not_stored(why: NotStored, limit: u64) -> Refusal {
    let refuse = |message: String, kind: &str| {
        Refusal::internal(message).details(json!({"kind": kind, "started": false}))
    };
    match why {
        NotStored::Full => refuse(
            format!(
                "the records and logs of execs take {limit} bytes, which is the limit; delete some \
                 that have ended"
            ),
            "state_full",
        ),
        NotStored::Disk(error) if error.kind() == io::ErrorKind::StorageFull => refuse(
            "no space is left for the record of the command".to_owned(),
            "disk_full",
        ),
        NotStored::Disk(error) => refuse(
            "the record of the command cannot be written".to_owned(),
            "disk_error",
        )
        .because(error),
    }
}
