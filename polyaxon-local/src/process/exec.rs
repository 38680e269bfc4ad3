//! One exec, as everybody who asks for it sees it.

use std::sync::Arc;

use polyaxon_sandbox::process::{ExecId, ExecState, ExecStatus, LogPage, LogStream};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use super::record::{End, Started, Written};
use super::store::{Recovered, Store};
use super::text;
use crate::blocking::blocking;
use crate::daemon::Refusal;

/// How many orders can wait for the task of an exec.
const ORDERS: usize = 8;

/// A record with its output and, while it runs, a way to its task.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) id: String,
    pub(crate) started: Started,
    progress: watch::Sender<Progress>,
    orders: Option<mpsc::Sender<Order>>,
    store: Arc<Store>,
}

/// How far an exec is. Whoever watches sees the last of it, however slow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) pid: u64,
    pub(crate) outcome: Outcome,
    pub(crate) removed: bool,
    stdout: Written,
    stderr: Written,
}

/// What is known of the end.
#[derive(Clone, Debug, Default)]
pub(crate) enum Outcome {
    #[default]
    Running,
    Ended(Arc<End>),
    Orphaned,
}

/// What the task of an exec is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send this to the process group, and say when it is done.
    Signal(Signal, oneshot::Sender<()>),
    /// End it, and remove its record.
    Delete,
}

impl Exec {
    /// A new one, and what its task listens to.
    pub(crate) fn new(
        id: String,
        started: Started,
        store: Arc<Store>,
    ) -> (Self, mpsc::Receiver<Order>) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let exec = Self {
            id,
            started,
            progress: watch::Sender::default(),
            orders: Some(orders),
            store,
        };
        (exec, receiver)
    }

    /// One of an earlier service.
    pub(crate) fn recovered(found: Recovered, store: Arc<Store>) -> Self {
        let progress = Progress {
            pid: found.end.as_ref().map_or(0, |end| end.pid),
            outcome: match found.end {
                Some(end) => Outcome::Ended(Arc::new(end)),
                None => Outcome::Orphaned,
            },
            removed: false,
            stdout: found.stdout,
            stderr: found.stderr,
        };
        Self {
            id: found.id,
            started: found.started,
            progress: watch::Sender::new(progress),
            orders: None,
            store,
        }
    }

    pub(crate) fn exec_id(&self) -> ExecId {
        ExecId::from(self.id.clone())
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(crate) fn runs_as(&self, pid: u64) {
        self.progress.send_modify(|now| now.pid = pid);
    }

    pub(crate) fn wrote(&self, stream: LogStream, written: Written) {
        self.progress.send_modify(|now| match stream {
            LogStream::Stdout => now.stdout = written,
            LogStream::Stderr => now.stderr = written,
        });
    }

    pub(crate) fn ends(&self, outcome: Outcome) {
        self.progress.send_modify(|now| now.outcome = outcome);
    }

    pub(crate) fn is_removed(&self) {
        self.progress.send_modify(|now| now.removed = true);
    }

    /// Tells the task of this exec. False where it has ended, or ends now.
    pub(crate) async fn order(&self, order: Order) -> bool {
        match &self.orders {
            Some(orders) => orders.send(order).await.is_ok(),
            None => false,
        }
    }

    pub(crate) fn status(&self) -> ExecStatus {
        let now = self.progress();
        let mut status = ExecStatus {
            exec_id: self.exec_id(),
            pid: now.pid,
            state: now.state(),
            started_at: Some(self.started.started_at),
            tag: self.started.tag.clone(),
            stdout_bytes: now.stdout.seen,
            stderr_bytes: now.stderr.seen,
            ..ExecStatus::default()
        };
        match &now.outcome {
            Outcome::Running => {}
            Outcome::Orphaned => status.pid = 0,
            Outcome::Ended(end) => {
                status.finished_at = Some(end.finished_at);
                status.duration_ms = Some(end.duration_ms);
                status.exit_code = Some(end.exit_code);
                status.signal = end.signal.as_deref().map(Into::into);
            }
        }
        status
    }

    /// The first `limit` bytes of an output that has ended, and whether there were more.
    pub(crate) async fn first(
        self: &Arc<Self>,
        stream: LogStream,
        limit: usize,
    ) -> Result<(String, bool), Refusal> {
        let written = self.progress().written(stream);
        let limit_bytes = limit as u64;
        if let Some(dropped) = self.dropped(stream, written, limit_bytes.min(written.seen)) {
            return Err(dropped);
        }
        let truncated = written.seen > limit_bytes;
        let size = usize::try_from(written.stored).map_or(limit, |stored| stored.min(limit));
        let bytes = self.read(stream, 0, size).await?;
        let text = match truncated {
            true => text::beginning(bytes),
            false => text::text(bytes),
        };
        Ok((text, truncated))
    }

    /// A page of a log as it is now, of at most `max` bytes.
    ///
    /// An incomplete character at the end of a page is left for the next one; only where the page
    /// would be empty for that alone, its bytes are sent as they are.
    pub(crate) async fn page(
        self: &Arc<Self>,
        now: &Progress,
        stream: LogStream,
        offset: u64,
        max: usize,
    ) -> Result<LogPage, Refusal> {
        let written = now.written(stream);
        if offset < written.seen
            && let Some(dropped) = self.dropped(stream, written, offset + 1)
        {
            return Err(dropped);
        }
        let rest = written.stored.saturating_sub(offset);
        let size = usize::try_from(rest).map_or(max, |rest| rest.min(max));
        let mut bytes = self.read(stream, offset, size).await?;
        let more_may_come = now.is_running() && written.cut.is_none();
        let reaches_the_end = bytes.len() as u64 == rest;
        if more_may_come || !reaches_the_end {
            let whole = text::whole(&bytes);
            if whole > 0 || reaches_the_end {
                bytes.truncate(whole);
            }
        }
        let count = bytes.len() as u64;
        let next_offset = offset.saturating_add(count);
        Ok(LogPage {
            exec_id: self.exec_id(),
            stream,
            offset,
            next_offset,
            bytes: count,
            data: text::text(bytes),
            eof: !now.is_running() && next_offset >= written.seen,
            state: now.state(),
        })
    }

    /// The error for output up to byte `end` that was dropped, where it was.
    fn dropped(&self, stream: LogStream, written: Written, end: u64) -> Option<Refusal> {
        let why = written.cut.filter(|_| end > written.stored)?;
        let Written { stored, seen, .. } = written;
        let refusal = Refusal::internal(format!(
            "{stream} is kept up to byte {stored} of {seen} only: {}",
            why.sentence()
        ));
        Some(refusal.details(json!({
            "kind": "output_dropped",
            "reason": why,
            "exec_id": self.id,
            "stream": stream,
            "stored_bytes": stored,
            "written_bytes": seen,
        })))
    }

    async fn read(
        self: &Arc<Self>,
        stream: LogStream,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, Refusal> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let exec = Arc::clone(self);
        let read = blocking(move || exec.store.read(&exec.id, stream, offset, length)).await;
        read.map_err(|error| Refusal::internal("the log cannot be read").because(error))
    }

    /// Removes what is on disk. It goes on when the future is dropped.
    pub(crate) async fn remove_files(self: &Arc<Self>) -> std::io::Result<()> {
        let now = self.progress();
        let logged = now.stdout.stored.saturating_add(now.stderr.stored);
        let exec = Arc::clone(self);
        blocking(move || exec.store.remove(&exec.id, logged)).await
    }
}

impl Progress {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.outcome, Outcome::Running)
    }

    pub(crate) fn written(&self, stream: LogStream) -> Written {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    pub(crate) fn state(&self) -> ExecState {
        match &self.outcome {
            Outcome::Running => ExecState::Running,
            Outcome::Orphaned => ExecState::Orphaned,
            Outcome::Ended(end) if end.timed_out => ExecState::TimedOut,
            Outcome::Ended(end) if end.signal.is_some() => ExecState::Signaled,
            Outcome::Ended(_) => ExecState::Exited,
        }
    }
}
