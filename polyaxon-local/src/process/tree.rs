//! The processes that come from one command, wherever they went.
//!
//! **In a pod** they are told by a mark that a process inherits and cannot shed: each command gets
//! a namespace for host names of its own. A process that has left its parent, its group and its
//! session still carries it. To find them, the processes of the pod are looked through. Not found
//! is a process that made itself unreadable, where the server is not root; and one that made
//! namespaces of its own. Both end with the pod.
//!
//! **Elsewhere** each command has a supervisor: a small process that the kernel gives the orphans
//! of the tree to, whatever session they are in. It kills its children, then theirs, until there
//! is none, when the server says so or is gone. Not certain is a tree that forks faster than it is
//! killed, and one that kills its supervisor.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};
use tokio::time::{Instant, sleep, timeout};

use crate::blocking::blocking;
use crate::pod::Pod;

/// How long a killed tree is waited for.
const GONE: Duration = Duration::from_secs(2);
const GONE_CHECK: Duration = Duration::from_millis(1);

/// The processes that come from one command. Those that are left are killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The group that the command leads. `None` once its id can belong to somebody else.
    group: Option<Pid>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Marked(Marked),
    Supervised {
        /// The supervisor kills the tree when it is closed.
        lifeline: Option<OwnedFd>,
        supervisor: tokio::process::Child,
    },
    /// Nobody is left.
    Gone,
}

impl Tree {
    pub(super) fn marked(leader: Pid, pod: Arc<Pod>, mark: u64) -> Self {
        let marked = Marked {
            pod,
            mark,
            anchor: None,
        };
        Self {
            group: Some(leader),
            kind: Kind::Marked(marked),
        }
    }

    pub(super) fn supervised(
        leader: Pid,
        lifeline: OwnedFd,
        supervisor: tokio::process::Child,
    ) -> Self {
        Self {
            group: Some(leader),
            kind: Kind::Supervised {
                lifeline: Some(lifeline),
                supervisor,
            },
        }
    }

    /// Sends a signal to the process group of the command, while the command runs.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.group {
            // The group may have ended by itself: then there is nothing left to do.
            let _ended = kill_process_group(id, signal);
        }
    }

    /// The command itself has ended and was waited for: from now on its id can be another's.
    pub(crate) fn leader_ended(&mut self) {
        self.group = None;
    }

    /// Kills all of the tree and waits until it is gone, two seconds at most. Whether it is. The
    /// command itself is still to be waited for.
    ///
    /// # Cancel safety
    /// What is killed is killed.
    pub(crate) async fn end(&mut self) -> bool {
        self.signal(Signal::KILL);
        match &mut self.kind {
            Kind::Gone => return true,
            Kind::Supervised {
                lifeline,
                supervisor,
            } => {
                *lifeline = None;
                if !matches!(timeout(GONE, supervisor.wait()).await, Ok(Ok(_))) {
                    return false;
                }
            }
            Kind::Marked(marked) => {
                let enough = Instant::now() + GONE;
                let mut empty = 0;
                // Twice, since one can have been born behind the place that was being looked at.
                while empty < 2 {
                    if marked.sweep(Some(Signal::KILL)).await == Ok(0) {
                        empty += 1;
                    } else if Instant::now() > enough {
                        return false;
                    } else {
                        empty = 0;
                        sleep(GONE_CHECK).await;
                    }
                }
            }
        }
        self.kind = Kind::Gone;
        true
    }

    /// Whether a process is left of it.
    pub(crate) async fn is_alive(&mut self) -> bool {
        let alive = match &mut self.kind {
            Kind::Gone => false,
            Kind::Supervised { supervisor, .. } => matches!(supervisor.try_wait(), Ok(None)),
            Kind::Marked(marked) => marked.sweep(None).await != Ok(0),
        };
        if !alive {
            self.kind = Kind::Gone;
        }
        alive
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Kind::Marked(marked) = &self.kind {
            let _killed = sweep(&marked.pod, marked.mark, Some(Signal::KILL));
        }
    }
}

#[derive(Debug)]
struct Marked {
    pod: Arc<Pod>,
    mark: u64,
    /// While it is open the number of the mark is not given to another.
    anchor: Option<OwnedFd>,
}

impl Marked {
    /// How many processes carry the mark. Each of them gets `signal`.
    async fn sweep(&mut self, signal: Option<Signal>) -> Result<usize, io::ErrorKind> {
        let (pod, mark) = (Arc::clone(&self.pod), self.mark);
        let found = blocking(move || sweep(&pod, mark, signal)).await;
        let (number, anchor) = found.map_err(|error| error.kind())?;
        if self.anchor.is_none() {
            self.anchor = anchor;
        }
        Ok(number)
    }
}

/// Looks through the processes of a pod for those with the mark: how many there are, and the mark
/// of one of them, open.
fn sweep(pod: &Pod, mark: u64, signal: Option<Signal>) -> io::Result<(usize, Option<OwnedFd>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let processes = rustix::fs::openat(pod.root(), c"proc", flags, Mode::empty())?;
    let (mut number, mut anchor) = (0, None);
    for entry in Dir::read_from(&processes)? {
        let entry = entry?;
        if !is_process(entry.file_name()) {
            continue;
        }
        // From here on it is this one process, whatever happens to its id.
        let Ok(process) = rustix::fs::openat(&processes, entry.file_name(), flags, Mode::empty())
        else {
            continue;
        };
        if mark_of(&process) != Some(mark) {
            continue;
        }
        number += 1;
        if let Some(signal) = signal {
            let _gone = pidfd_send_signal(&process, signal);
        }
        if anchor.is_none() {
            let open = OFlags::RDONLY | OFlags::CLOEXEC;
            anchor = rustix::fs::openat(&process, c"ns/uts", open, Mode::empty()).ok();
        }
    }
    Ok((number, anchor))
}

/// A number, but that of the first process, which is ours.
fn is_process(name: &CStr) -> bool {
    let name = name.to_bytes();
    name != b"1" && name.iter().all(u8::is_ascii_digit)
}

fn mark_of(process: &OwnedFd) -> Option<u64> {
    let text = rustix::fs::readlinkat(process, c"ns/uts", Vec::new()).ok()?;
    let text = text.to_str().ok()?;
    text.strip_prefix("uts:[")?.strip_suffix(']')?.parse().ok()
}
