//! The process group of a command.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// A process group that we made. It is killed when this is dropped, unless nobody is left in it.
///
/// The kernel keeps the id for as long as the group has a member, and whoever holds a `Group`
/// looks often enough that the id cannot have gone round in between.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// The group that the child `id` leads.
    pub(crate) fn led_by(id: Option<u32>) -> Self {
        let id = id.and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.0 {
            // The group may have ended by itself: then there is nothing left to do.
            let _ended = kill_process_group(id, signal);
        }
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether a process is left in it. Once none is, the id is forgotten.
    pub(crate) fn is_alive(&mut self) -> bool {
        let alive = self
            .0
            .is_some_and(|id| test_kill_process_group(id) != Err(Errno::SRCH));
        if !alive {
            self.0 = None;
        }
        alive
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
