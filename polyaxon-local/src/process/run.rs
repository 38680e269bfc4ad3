//! A command from its start to the end of its last process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::{Buf, Bytes};
use polyaxon_sandbox::wire::ExecAnswer;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::capture::Capture;
use super::child::{Child, Started};
use super::tree::Tree;
use crate::closing::Closing;
use crate::limits::Limits;

/// Output that comes this soon after the end of a command, or after other such output, is its.
const QUIET: Duration = Duration::from_millis(100);
/// A process left behind that never stops writing does not hold the answer back longer than this.
const DRAIN: Duration = Duration::from_secs(1);
/// How often a tree is looked at whose command has ended.
const TREE_CHECK: Duration = Duration::from_millis(500);

/// Why a command that was started has no result.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The sandbox was stopped meanwhile.
    Closing,
    /// The system would not say how it ended.
    Unknown(std::io::Error),
}

/// A started command, with all that watches over it.
#[derive(Debug)]
pub(crate) struct Running {
    // Before the child: what is dropped first is killed first.
    tree: Tree,
    child: Child,
    stdin: Option<(ChildStdin, Bytes)>,
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
    started: Instant,
    deadline: Instant,
    kill_grace: Duration,
    permit: OwnedSemaphorePermit,
    closing: Closing,
}

impl Running {
    pub(crate) fn new(
        command: Started,
        stdin: Option<Bytes>,
        run_for: Duration,
        limits: &Limits,
        permit: OwnedSemaphorePermit,
        closing: Closing,
    ) -> Self {
        let started = Instant::now();
        Self {
            tree: command.tree,
            child: command.child,
            stdin: command.stdin.zip(stdin),
            stdout: Capture::new(command.stdout, limits.exec_output),
            stderr: Capture::new(command.stderr, limits.exec_output),
            started,
            deadline: started + run_for,
            kill_grace: limits.kill_grace,
            permit,
            closing,
        }
    }

    /// Watches over the command until nothing of its tree is left, and answers when its first
    /// process ends. A timeout kills the whole tree before the answer. A caller that goes away ends
    /// it: SIGTERM to the group, then SIGKILL to the whole tree. Processes that an ended command
    /// left behind live on, with open pipes, until the sandbox is stopped.
    pub(crate) async fn drive(mut self, mut reply: oneshot::Sender<Result<ExecAnswer, Lost>>) {
        let end = self.until_exit(&mut reply).await;
        let duration = self.started.elapsed();
        self.tree.leader_ended();
        if !matches!(end, End::Exited(_)) && !self.tree.end().await {
            tracing::warn!("a killed command is not gone");
        }
        if matches!(end, End::Exited(_) | End::TimedOut) && !reply.is_closed() {
            self.drain().await;
        }
        let answer = match end {
            End::Exited(status) => Ok(self.answer(status, false, duration)),
            End::TimedOut => Ok(self.answer(ExitStatus::from_raw(9), true, duration)),
            End::Closing => Err(Lost::Closing),
            End::Unknown(error) => Err(Lost::Unknown(error)),
        };
        let abandoned = reply.is_closed();
        let Self {
            stdout,
            stderr,
            tree,
            closing,
            permit,
            kill_grace,
            ..
        } = self;
        // A caller who has the answer must not be told that its command still runs.
        drop(permit);
        let _gone = reply.send(answer);
        let left = Left {
            stdout,
            stderr,
            tree,
            closing,
        };
        left.watch(abandoned.then_some(kill_grace)).await;
    }

    async fn until_exit(&mut self, reply: &mut oneshot::Sender<Result<ExecAnswer, Lost>>) -> End {
        let mut timed_out = false;
        let mut abandoned = false;
        let mut closing = false;
        let mut kill_at = None;
        loop {
            tokio::select! {
                status = self.child.wait() => return match status {
                    _ if closing => End::Closing,
                    Ok(status) if timed_out && status.signal() == Some(9) => End::TimedOut,
                    Ok(status) => End::Exited(status),
                    Err(error) => End::Unknown(error),
                },
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
                () = feed(&mut self.stdin) => {}
                () = sleep_until(self.deadline), if !timed_out => {
                    timed_out = true;
                    self.tree.signal(Signal::KILL);
                }
                () = reply.closed(), if !abandoned => {
                    abandoned = true;
                    kill_at = Some(Instant::now() + self.kill_grace);
                    self.tree.signal(Signal::TERM);
                }
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

    /// Reads what the command has still written, until its pipes are at their end or quiet.
    async fn drain(&mut self) {
        let enough = Instant::now() + DRAIN;
        while (self.stdout.is_open() || self.stderr.is_open()) && Instant::now() < enough {
            let more = async {
                tokio::select! {
                    () = self.stdout.read() => {}
                    () = self.stderr.read() => {}
                }
            };
            if timeout(QUIET, more).await.is_err() {
                break;
            }
        }
    }

    fn answer(&mut self, status: ExitStatus, timed_out: bool, duration: Duration) -> ExecAnswer {
        let (stdout, stdout_truncated) = self.stdout.take();
        let (stderr, stderr_truncated) = self.stderr.take();
        ExecAnswer {
            exec_id: Uuid::new_v4().to_string(),
            exit_code: Some(status.code().unwrap_or(-1)),
            signal: status.signal().map(signal_name),
            stdout,
            stderr,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            timed_out,
            stdout_truncated,
            stderr_truncated,
        }
    }
}

enum End {
    Exited(ExitStatus),
    TimedOut,
    Closing,
    Unknown(std::io::Error),
}

/// What is left of a command whose first process has ended.
struct Left {
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
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
        loop {
            if check <= Instant::now() {
                if !self.tree.is_alive().await {
                    return false;
                }
                check = Instant::now() + TREE_CHECK.min(grace.unwrap_or(TREE_CHECK));
            }
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
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

/// `SIGKILL` for 9; `SIG(34)` for one without a name.
fn signal_name(number: i32) -> String {
    let name = match Signal::from_named_raw(number) {
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::TRAP) => "SIGTRAP",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::USR1) => "SIGUSR1",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::USR2) => "SIGUSR2",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::ALARM) => "SIGALRM",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::XCPU) => "SIGXCPU",
        Some(Signal::XFSZ) => "SIGXFSZ",
        Some(Signal::VTALARM) => "SIGVTALRM",
        Some(Signal::PROF) => "SIGPROF",
        Some(Signal::SYS) => "SIGSYS",
        _ => return format!("SIG({number})"),
    };
    name.to_owned()
}
