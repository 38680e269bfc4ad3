//! Starting a program in a terminal of its own: the leader of a new session.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use pty_process::Pty;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use serde_json::json;

use super::request::{Size, Wanted};
use crate::daemon::Refusal;
use crate::pod::Ground;
use crate::process::{Site, Spawned, Streams, spawn};
use crate::sys;

/// A program in its terminal.
pub(super) struct Started {
    pub(super) spawned: Spawned,
    pub(super) pty: Pty,
    /// Our end once more, for those who only set the size.
    pub(super) master: OwnedFd,
}

/// Starts what is wanted at `site`.
pub(super) async fn start(wanted: &Wanted, site: Site<'_>) -> Result<Started, Refusal> {
    let (pty, master, terminal) = open(wanted.size, site.ground).map_err(|error| {
        Refusal::internal("no terminal can be opened")
            .details(json!({"kind": "other", "started": false}))
            .because(error)
    })?;
    let spawned = spawn(&wanted.command, site, Streams::Terminal(terminal)).await?;
    Ok(Started {
        spawned,
        pty,
        master,
    })
}

/// A terminal: our end, the same once more, and the other end three times. The size is set before
/// there is anybody to see another.
///
/// In a pod it is one of the pod's, so that it has a name there.
fn open(size: Size, ground: &Ground) -> io::Result<(Pty, OwnedFd, [OwnedFd; 3])> {
    let pty = match ground.pod() {
        None => pty_process::open().map_err(cause)?.0,
        Some(pod) => {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
            let master = pod.open(Path::new("/dev/pts/ptmx"), flags, Mode::empty())?;
            unlockpt(&master)?;
            sys::terminal(master).map_err(cause)?
        }
    };
    let size = pty_process::Size::new(size.rows, size.cols);
    pty.resize(size).map_err(cause)?;
    let master = pty.as_fd().try_clone_to_owned()?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let end = ioctl_tiocgptpeer(&master, flags)?;
    let ends = [end.try_clone()?, end.try_clone()?, end];
    Ok((pty, master, ends))
}

fn cause(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other.to_string()),
    }
}
