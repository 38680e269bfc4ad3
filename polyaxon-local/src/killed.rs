//! Children that were killed and that nobody waits for any more.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// How long whoever drops a child waits for it: 200 ms. Its end takes a millisecond or two.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Waits for a child of ours that was killed, so that it does not stay as a zombie for as long as
/// this process lives. On a machine that is busy its end can take longer than anybody should be
/// blocked: then a thread of its own goes on waiting.
pub(crate) fn wait_for(child: BorrowedFd<'_>) {
    until_ended(child, Some(&PATIENCE));
    if !matches!(is_gone(child), Ok(false)) {
        return;
    }
    let Ok(child) = child.try_clone_to_owned() else {
        return;
    };
    // Without a thread the zombie stays, which is all that is lost.
    let _no_thread = thread::Builder::new()
        .name("polyaxon-local-reaper".to_owned())
        .spawn(move || wait_long(&child));
}

fn wait_long(child: &OwnedFd) {
    while matches!(is_gone(child.as_fd()), Ok(false)) {
        until_ended(child.as_fd(), None);
    }
}

/// Blocks until the process has ended, the limit is over or a signal comes.
fn until_ended(child: BorrowedFd<'_>, limit: Option<&Timespec>) {
    // It can be read once the process has ended.
    let _interrupted = poll(&mut [PollFd::from_borrowed_fd(child, PollFlags::IN)], limit);
}

/// Whether it has ended, and was waited for now, without blocking.
///
/// # Errors
/// What the system says: somebody else has waited for it.
pub(crate) fn is_gone(child: BorrowedFd<'_>) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::PidFd(child), options)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::*;

    #[test]
    fn a_child_that_takes_its_time_is_waited_for_without_blocking_longer_than_said() {
        for flags in [PidfdFlags::empty(), PidfdFlags::NONBLOCK] {
            let child = std::process::Command::new("sleep").arg("100").spawn();
            let id = Pid::from_child(&child.unwrap());
            let handle = pidfd_open(id, flags).unwrap();
            let begun = Instant::now();
            wait_for(handle.as_fd());
            assert!(begun.elapsed() >= Duration::from_millis(200));
            let line = || std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
            assert!(
                line().unwrap().contains("(sleep) "),
                "nobody has killed it so far"
            );
            pidfd_send_signal(&handle, Signal::KILL).unwrap();
            let begun = Instant::now();
            // A zombie has a line too.
            while line().is_ok_and(|line| line.contains("(sleep) ")) {
                assert!(begun.elapsed() < Duration::from_secs(20), "it is a zombie");
                thread::yield_now();
            }
        }
    }
}
