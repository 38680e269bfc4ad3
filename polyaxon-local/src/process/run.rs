//! A command from its start to the end of its last process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use jiff::Timestamp;
use polyaxon_sandbox::process::LogStream;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::child::{Child, Spawned};
use super::exec::{Exec, Order, Outcome};
use super::log::Log;
use super::pump::{discard, pump};
use super::record::{End, RecordFile};
use super::signal;
use super::store::Store;
use super::tree::Tree;
use crate::blocking::blocking;
use crate::closing::{Closer, Closing};
use crate::daemon::Refusal;
use crate::limits::Limits;

/// How often a tree is looked at whose command has ended, and how often where somebody waits.
const TREE_CHECK: Duration = Duration::from_millis(500);
const SOON_CHECK: Duration = Duration::from_millis(10);

/// Why a command that was started has no result.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The sandbox was stopped meanwhile.
    Closing,
    /// The system would not say how it ended.
    Unknown(std::io::Error),
}

/// Whose leaving ends the command.
#[derive(Debug)]
pub(crate) enum Caller {
    /// The caller who waits for its end, and wants up to `output` bytes of each output.
    Waits {
        output: usize,
        reply: oneshot::Sender<Result<Answer, Lost>>,
    },
    /// Nobody's: it goes on until its time limit.
    Leaves,
}

/// What a caller who waited is told.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) end: Arc<End>,
    /// The text, and whether there was more.
    pub(crate) stdout: Result<(String, bool), Refusal>,
    pub(crate) stderr: Result<(String, bool), Refusal>,
}

/// What watches over an exec needs of the sandbox.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) store: Arc<Store>,
    pub(crate) closing: Closing,
    pub(crate) permit: OwnedSemaphorePermit,
    /// Bytes that each output may take on disk.
    pub(crate) log_bytes: u64,
    pub(crate) kill_grace: Duration,
}

impl Surroundings {
    pub(crate) fn new(
        store: Arc<Store>,
        closing: Closing,
        permit: OwnedSemaphorePermit,
        limits: &Limits,
    ) -> Self {
        Self {
            store,
            closing,
            permit,
            log_bytes: limits.exec_log,
            kill_grace: limits.kill_grace,
        }
    }
}

/// A started command, with all that watches over it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) exec: Arc<Exec>,
    pub(crate) record: RecordFile,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) around: Surroundings,
    pub(crate) stdin: Option<Bytes>,
    pub(crate) run_for: Duration,
}

impl Running {
    /// Watches over the command until nothing of its tree is left. Its end is told when its first
    /// process ends. A timeout kills the whole tree first. A caller who goes away, or a delete,
    /// ends it: SIGTERM to the group, then SIGKILL to the whole tree. Processes that a command left
    /// behind when it ended by itself live on, with open pipes, until the sandbox is stopped.
    ///
    /// Says whether the record is to be removed.
    pub(crate) async fn drive(self, spawned: Spawned, mut caller: Caller) -> Removal {
        let Self {
            exec,
            record,
            orders,
            around,
            stdin,
            run_for,
        } = self;
        let started = Instant::now();
        let pid = spawned.child.id();
        let log = |stream| Log::new(&around.store, &exec.id, stream, around.log_bytes);
        let (out, err) = (log(LogStream::Stdout), log(LogStream::Stderr));
        let (stdout, stderr) = (spawned.stdout, spawned.stderr);
        let (store, permit) = (around.store, around.permit);
        let mut watch = Watch {
            tree: spawned.tree,
            stdin: spawned.stdin.zip(stdin),
            child: spawned.child,
            orders,
            closing: around.closing,
            deadline: started + run_for,
            kill_grace: around.kill_grace,
            deleted: false,
        };
        let ended = Closer::new();
        let until_exit = async {
            let end = watch.until_exit(&mut caller).await;
            watch.tree.leader_ended();
            if !matches!(end, Ending::Exited(_)) && !watch.tree.end().await {
                tracing::warn!("a killed command is not gone");
            }
            ended.close();
            (end, started.elapsed())
        };
        let pump_out = pump(
            stdout,
            LogStream::Stdout,
            out,
            Arc::clone(&store),
            Arc::clone(&exec),
            ended.listen(),
        );
        let pump_err = pump(
            stderr,
            LogStream::Stderr,
            err,
            store,
            Arc::clone(&exec),
            ended.listen(),
        );
        let ((ending, duration), stdout, stderr) = tokio::join!(until_exit, pump_out, pump_err);
        let deleted = watch.last_orders();

        let output = match &caller {
            Caller::Waits { output, .. } => Some(*output),
            Caller::Leaves => None,
        };
        let (outcome, answer) = settle(&exec, record, pid, ending, duration, output).await;
        // Whoever knows of the end must not be told that the command still runs.
        drop(permit);
        exec.ends(outcome);
        let abandoned = match caller {
            Caller::Waits { reply, .. } => {
                let gone = reply.is_closed();
                let _gone = reply.send(answer);
                gone
            }
            Caller::Leaves => false,
        };
        let left = Left {
            stdout,
            stderr,
            tree: watch.tree,
            closing: watch.closing,
        };
        let grace = (abandoned || deleted).then_some(watch.kill_grace);
        left.watch(grace).await;
        match deleted {
            true => Removal::Asked,
            false => Removal::No,
        }
    }
}

/// Whether the record of an ended exec is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Asked,
    No,
}

/// Writes the end down, and reads the first bytes of both outputs for a caller who wants them.
async fn settle(
    exec: &Arc<Exec>,
    record: RecordFile,
    pid: u32,
    ending: Ending,
    duration: Duration,
    output: Option<usize>,
) -> (Outcome, Result<Answer, Lost>) {
    let (status, timed_out, closed) = match ending {
        Ending::Exited(status) => (status, false, false),
        Ending::TimedOut(status) => (status, true, false),
        Ending::Closed(status) => (status, false, true),
        Ending::Unknown(error) => return (Outcome::Orphaned, Err(Lost::Unknown(error))),
    };
    let now = exec.progress();
    let end = End {
        pid: u64::from(pid),
        exit_code: status.code().unwrap_or(-1),
        signal: status.signal().map(signal::name),
        timed_out,
        finished_at: Timestamp::now(),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        stdout: now.written(LogStream::Stdout),
        stderr: now.written(LogStream::Stderr),
    };
    let end = Arc::new(end);
    let outcome = Outcome::Ended(Arc::clone(&end));
    let exec = Arc::clone(exec);
    let settled = blocking(move || {
        if let Err(error) = record.end(&end) {
            // Its place was taken before the command ran, so this is a disk that fails. The service
            // knows the end for as long as it runs; a later one will call it an orphan.
            tracing::error!(%error, exec = exec.id, "the end of a command cannot be written down");
        }
        let first = |stream| exec.first(stream, output.unwrap_or(0));
        Ok(Answer {
            stdout: first(LogStream::Stdout),
            stderr: first(LogStream::Stderr),
            end,
        })
    });
    let answer = match settled.await {
        Ok(_) if closed => Err(Lost::Closing),
        settled => settled.map_err(Lost::Unknown),
    };
    (outcome, answer)
}

enum Ending {
    Exited(ExitStatus),
    TimedOut(ExitStatus),
    Closed(ExitStatus),
    Unknown(std::io::Error),
}

/// A command whose first process has not ended.
struct Watch {
    // Before the child: what is dropped first is killed first.
    tree: Tree,
    child: Child,
    stdin: Option<(ChildStdin, Bytes)>,
    orders: mpsc::Receiver<Order>,
    closing: Closing,
    deadline: Instant,
    kill_grace: Duration,
    deleted: bool,
}

impl Watch {
    async fn until_exit(&mut self, caller: &mut Caller) -> Ending {
        let (mut timed_out, mut closing) = (false, false);
        let mut abandoned = false;
        let mut kill_at = None;
        loop {
            tokio::select! {
                status = self.child.wait() => return match status {
                    Ok(status) if closing => Ending::Closed(status),
                    Ok(status) if timed_out && status.signal() == Some(9) => Ending::TimedOut(status),
                    Ok(status) => Ending::Exited(status),
                    Err(error) => Ending::Unknown(error),
                },
                () = feed(&mut self.stdin) => {}
                () = sleep_until(self.deadline), if !timed_out => {
                    timed_out = true;
                    self.tree.signal(Signal::KILL);
                }
                () = gone(caller), if !abandoned => {
                    abandoned = true;
                    kill_at.get_or_insert(Instant::now() + self.kill_grace);
                    self.tree.signal(Signal::TERM);
                }
                Some(order) = self.orders.recv() => match order {
                    Order::Signal(signal, sent) => {
                        self.tree.signal(signal);
                        let _caller_gone = sent.send(());
                    }
                    Order::Delete => {
                        self.deleted = true;
                        kill_at.get_or_insert(Instant::now() + self.kill_grace);
                        self.tree.signal(Signal::TERM);
                    }
                },
                () = sleep_until(kill_at.unwrap_or(self.deadline)), if kill_at.is_some() => {
                    kill_at = None;
                    self.tree.signal(Signal::KILL);
                }
                () = self.closing.heard(), if !closing => {
                    closing = true;
                    self.tree.signal(Signal::KILL);
                }
            }
        }
    }

    /// Takes no more orders. Whether one of those given was to delete.
    fn last_orders(&mut self) -> bool {
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            // A signal that came too late has nobody to reach; dropping it tells its sender.
            self.deleted |= matches!(order, Order::Delete);
        }
        self.deleted
    }
}

async fn gone(caller: &mut Caller) {
    match caller {
        Caller::Waits { reply, .. } => reply.closed().await,
        Caller::Leaves => std::future::pending().await,
    }
}

/// What is left of a command whose first process has ended.
struct Left {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    tree: Tree,
    closing: Closing,
}

impl Left {
    /// Keeps the pipes read, so that a background service gets no SIGPIPE, until the tree is
    /// empty. Kills the tree after `grace`, where there is one, or when the sandbox is stopped.
    async fn watch(mut self, grace: Option<Duration>) {
        if self.until_told(grace).await && !self.tree.end().await {
            tracing::warn!("a process that a command left behind is not gone");
        }
    }

    /// Whether the tree has to be killed: false once it is empty.
    async fn until_told(&mut self, grace: Option<Duration>) -> bool {
        let kill_at = grace.map(|grace| Instant::now() + grace);
        let mut check = Instant::now();
        let (mut out, mut err) = (BytesMut::new(), BytesMut::new());
        loop {
            if check <= Instant::now() {
                if !self.tree.is_alive().await {
                    return false;
                }
                // Somebody waits where there is a grace.
                let every = grace.map_or(TREE_CHECK, |_| SOON_CHECK);
                check = Instant::now() + every;
            }
            tokio::select! {
                () = discard(&mut self.stdout, &mut out) => {}
                () = discard(&mut self.stderr, &mut err) => {}
                () = sleep_until(check) => {}
                () = sleep_until(kill_at.unwrap_or(check)), if kill_at.is_some() => return true,
                () = self.closing.heard() => return true,
            }
        }
    }
}

/// Writes what is left of the input, closes it behind the last byte, and then never ends. A
/// command that does not read to the end is no error.
async fn feed(stdin: &mut Option<(ChildStdin, Bytes)>) {
    let Some((pipe, rest)) = stdin else {
        return std::future::pending().await;
    };
    match pipe.write(rest).await {
        Ok(written) if written > 0 && written < rest.len() => rest.advance(written),
        _ => *stdin = None,
    }
}
