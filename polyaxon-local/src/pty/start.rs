//! Starting a program in a terminal of its own: the leader of a new session.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use pty_process::Pty;
use tokio::process::Child;

use super::request::{Size, Wanted};
use crate::daemon::Refusal;
use crate::process::{BaseEnv, prepare, start_patiently};

/// A program in its terminal.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pty: Pty,
    /// Our end once more, for those who only set the size.
    pub(super) master: OwnedFd,
}

/// Starts what is wanted in the folder `workdir` of this machine.
pub(super) async fn start(
    wanted: &Wanted,
    base: &BaseEnv,
    workdir: &Path,
) -> Result<Started, Refusal> {
    // Prepared once to find what is wrong with it, and anew for each try, which uses it up.
    prepare(&wanted.command, base, workdir)?;
    start_patiently(&wanted.command.program, || {
        let prepared = prepare(&wanted.command, base, workdir)
            .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        in_terminal(prepared, wanted.size)
    })
    .await
}

/// The size is set before there is anybody to see another.
fn in_terminal(prepared: tokio::process::Command, size: Size) -> io::Result<Started> {
    let (pty, terminal) = pty_process::open().map_err(cause)?;
    let size = pty_process::Size::new(size.rows, size.cols);
    pty.resize(size).map_err(cause)?;
    let master = pty.as_fd().try_clone_to_owned()?;
    let child = pty_process::Command::from(prepared)
        .spawn(terminal)
        .map_err(cause)?;
    Ok(Started { child, pty, master })
}

fn cause(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other.to_string()),
    }
}
