//! A command that was started.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, pidfd_open,
    pidfd_send_signal, waitid, waitpid,
};
use tokio::io::AsyncReadExt as _;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::tree::Tree;
use crate::killed;
use crate::pod::{Ground, Pod};
use crate::sys::{self, Report, Setup};

/// A command that was started, the pipes to it, and the processes that come from it.
#[derive(Debug)]
pub(crate) struct Spawned {
    // Before the child: what is dropped first is killed first.
    pub(crate) tree: Tree,
    pub(crate) child: Child,
    /// The process on this machine. It leads a session and a group.
    pub(crate) leader: Pid,
    /// There where the command was prepared with a pipe.
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// The first process of a command.
#[derive(Debug)]
pub(crate) struct Child {
    id: u32,
    watch: Watch,
    ended: Option<ExitStatus>,
}

#[derive(Debug)]
enum Watch {
    /// A child of ours that is in a pod.
    Own(AsyncFd<OwnedFd>),
    /// A child of its supervisor, which tells.
    Told(pipe::Receiver),
}

/// How a command is started, beside what a program, its arguments and its environment are.
#[derive(Debug)]
pub(crate) struct How {
    /// The directory that it starts in.
    pub(crate) workdir: OwnedFd,
    /// Whether its standard input is a terminal that becomes its own.
    pub(crate) terminal: bool,
    pub(crate) limits: sys::Limits,
    pub(crate) image: sys::Image,
}

/// Starts `command` on `ground`: in a session of its own, with no more rights than it has now, and
/// with no descriptor of the server's but the standard ones.
///
/// # Errors
/// What the system said. Nothing runs then.
pub(crate) async fn start(mut command: Command, ground: &Ground, how: How) -> io::Result<Spawned> {
    let (mut told, report) = pipe_with(PipeFlags::CLOEXEC)?;
    let (life_end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&told, OFlags::NONBLOCK)?;
    let pod = ground.pod();
    let setup = Setup {
        entry: pod.map(|pod| pod.entry()),
        workdir: Some(how.workdir),
        limits: how.limits,
        terminal: how.terminal,
        image: how.image,
        report,
        lifeline: life_end,
    };
    sys::prepare(&mut command, setup);
    let mut tries = 0;
    let mut first = loop {
        match command.spawn() {
            Ok(first) => break first,
            Err(error) => {
                if let (Some(_), Some(host)) = (pod, Told::read(&mut told).host) {
                    // It is ours, and on its way out.
                    let _ended = waitpid(Some(host), WaitOptions::empty());
                }
                // Another child between its fork and its exec still holds a file open that was
                // just written. It lets go in a moment.
                if tries == 20 || Errno::from_io_error(&error) != Some(Errno::TXTBSY) {
                    return Err(error);
                }
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    // With it the other ends of the pipes go.
    drop(command);
    let (stdin, stdout, stderr) = (first.stdin.take(), first.stdout.take(), first.stderr.take());
    let facts = Told::read(&mut told);
    let lost = || io::Error::other("the start of the command was not told");
    let host = facts.host.ok_or_else(lost)?;
    let id = facts.own.ok_or_else(lost)?.as_raw_nonzero();
    let (watch, tree, forked) = match pod {
        Some(pod) => {
            let (watch, tree) = in_pod(pod, host, facts.mark.ok_or_else(lost)?)?;
            (watch, tree, Some(first))
        }
        None => {
            let told = pipe::Receiver::from_owned_fd(told)?;
            let tree = Tree::supervised(host, lifeline, first);
            (Watch::Told(told), tree, None)
        }
    };
    let spawned = Spawned {
        tree,
        child: Child {
            id: id.get().cast_unsigned(),
            watch,
            ended: facts.ended,
        },
        leader: host,
        stdin,
        stdout,
        stderr,
    };
    // From here on the command is killed and waited for where this future is dropped. The one that
    // forked into the pod has ended.
    if let Some(mut forked) = forked {
        forked.wait().await?;
    }
    Ok(spawned)
}

fn in_pod(pod: &Arc<Pod>, host: Pid, mark: u64) -> io::Result<(Watch, Tree)> {
    let opened = pidfd_open(host, PidfdFlags::NONBLOCK).map_err(io::Error::from);
    let handle = opened.and_then(sys::watch).inspect_err(|_| {
        // It is ours, and nobody will know of it.
        let _killed = kill_process(host, Signal::KILL);
        let _ended = waitpid(Some(host), WaitOptions::empty());
    })?;
    Ok((
        Watch::Own(handle),
        Tree::marked(host, Arc::clone(pod), mark),
    ))
}

/// What was told before the program was executed.
#[derive(Default)]
struct Told {
    host: Option<Pid>,
    own: Option<Pid>,
    mark: Option<u64>,
    /// It can have ended already.
    ended: Option<ExitStatus>,
}

impl Told {
    fn read(from: &mut OwnedFd) -> Self {
        let mut told = Self::default();
        let mut words = [0; Report::SIZE];
        // What is asked for was written before the program was executed: nothing is waited for.
        while matches!(rustix::io::read(&*from, &mut words), Ok(Report::SIZE)) {
            match Report::read(&words) {
                Some(Report::HostId(id)) => told.host = Pid::from_raw(id),
                Some(Report::OwnId(id)) => told.own = Pid::from_raw(id),
                Some(Report::Mark(mark)) => told.mark = Some(mark),
                Some(Report::Ended(status)) => told.ended = Some(ExitStatus::from_raw(status)),
                None => {}
            }
        }
        told
    }
}

impl Child {
    /// The id of the process, as it and other commands of the sandbox see it.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// What the system said: somebody else has waited for it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = match &mut self.watch {
            Watch::Own(handle) => ended(handle).await?,
            Watch::Told(report) => told_end(report).await,
        };
        self.ended = Some(status);
        Ok(status)
    }
}

async fn ended(handle: &AsyncFd<OwnedFd>) -> io::Result<ExitStatus> {
    loop {
        let mut ready = handle.readable().await?;
        if let Some(status) = reap(handle.get_ref())? {
            return Ok(status);
        }
        ready.clear_ready();
    }
}

fn reap(handle: &OwnedFd) -> io::Result<Option<ExitStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(handle.as_fd()), options)?;
    Ok(status.map(|status| {
        let code = status.exit_status().map(|code| (code & 0xff) << 8);
        ExitStatus::from_raw(code.or(status.terminating_signal()).unwrap_or_default())
    }))
}

async fn told_end(report: &mut pipe::Receiver) -> ExitStatus {
    let mut words = [0; Report::SIZE];
    loop {
        match report.read(&mut words).await {
            Ok(Report::SIZE) => {
                if let Some(Report::Ended(status)) = Report::read(&words) {
                    return ExitStatus::from_raw(status);
                }
            }
            // The supervisor was killed, and its lifeline with it: so is the command, or will be.
            _ => return ExitStatus::from_raw(9),
        }
    }
}

impl Drop for Child {
    /// A child of ours that nobody waited for must not stay as a zombie. Its tree is dropped
    /// first, so it is dead or about to be.
    fn drop(&mut self) {
        if let (Watch::Own(handle), None) = (&self.watch, self.ended) {
            let handle = handle.get_ref();
            let _gone = pidfd_send_signal(handle, Signal::KILL);
            killed::wait_for(handle.as_fd());
        }
    }
}
