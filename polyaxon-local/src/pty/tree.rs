//! The processes of a terminal: its session, with all the process groups that a shell makes in
//! it, and what they started.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep};

use crate::blocking::blocking;
use crate::process;

/// How long killed processes are waited for, and how often they are looked at.
const GONE: Duration = Duration::from_secs(2);
const GONE_CHECK: Duration = Duration::from_millis(5);

/// The session that a process leads which we started. It is killed when this is dropped, unless
/// nobody is left in it.
///
/// A shell with job control gives each job a group of its own, so the group of the leader is not
/// enough. The kernel keeps the number of a session for as long as it has a member.
#[derive(Debug)]
pub(super) struct Tree {
    leader: Option<Pid>,
    /// Those that have left the session too.
    rest: process::Tree,
    /// The number of the leader may be somebody else's by now.
    reaped: bool,
    ended: bool,
}

impl Tree {
    /// The session of `leader`, and all that comes from it.
    pub(super) fn led_by(leader: Pid, rest: process::Tree) -> Self {
        Self {
            leader: Some(leader),
            rest,
            reaped: false,
            ended: false,
        }
    }

    /// The leader has ended, and its end was collected.
    pub(super) fn leader_is_gone(&mut self) {
        self.reaped = true;
        self.rest.leader_ended();
    }

    /// Sends `signal` to everyone in it, once.
    pub(super) fn signal(&self, signal: Signal) {
        send(self.leader, self.reaped, signal);
    }

    /// Whether a process is left in it. Once none is, none will be.
    pub(super) async fn is_alive(&mut self) -> bool {
        if !self.ended && !self.rest.is_alive().await {
            let (leader, reaped) = (self.leader, self.reaped);
            // An error is a runtime that ends: then it is the drop that kills.
            let empty = blocking(move || Ok(members(leader, reaped).is_empty())).await;
            self.ended = empty.unwrap_or(false);
        }
        !self.ended
    }

    /// Kills everyone in it, again and again, until nobody is left: a process can start another
    /// while the first are being killed.
    pub(super) async fn kill(&mut self) {
        let _in_time = self.rest.end().await;
        let enough = Instant::now() + GONE;
        while self.is_alive().await && Instant::now() < enough {
            let (leader, reaped) = (self.leader, self.reaped);
            let _sent = blocking(move || {
                send(leader, reaped, Signal::KILL);
                Ok(())
            })
            .await;
            sleep(GONE_CHECK).await;
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
    }
}

fn send(leader: Option<Pid>, reaped: bool, signal: Signal) {
    if let Some(leader) = leader.filter(|_| !reaped) {
        // It may have ended by itself: then there is nothing left to do.
        let _ended = kill_process_group(leader, signal);
    }
    for member in members(leader, reaped) {
        member.signal(signal);
    }
}

#[cfg(target_os = "linux")]
fn members(leader: Option<Pid>, reaped: bool) -> Vec<linux::Entry> {
    leader.map_or_else(Vec::new, |leader| linux::members(leader, reaped))
}

/// Elsewhere only the group of the leader is known.
#[cfg(not(target_os = "linux"))]
fn members(leader: Option<Pid>, _reaped: bool) -> Vec<other::Group> {
    let alive =
        |id: &Pid| rustix::process::test_kill_process_group(*id) != Err(rustix::io::Errno::SRCH);
    leader.filter(alive).map(other::Group).into_iter().collect()
}

#[cfg(not(target_os = "linux"))]
mod other {
    use rustix::process::{Pid, Signal, kill_process_group};

    pub(super) struct Group(pub(super) Pid);

    impl Group {
        pub(super) fn signal(&self, signal: Signal) {
            let _ended = kill_process_group(self.0, signal);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// A process as the kernel lists it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Entry {
        id: i32,
        parent: i32,
        session: i32,
        /// Ticks since the boot: with its id, what makes a process this one.
        started: u64,
    }

    impl Entry {
        pub(super) fn signal(self, signal: Signal) {
            let Some(id) = Pid::from_raw(self.id) else {
                return;
            };
            // The descriptor holds on to the process, whatever becomes of its number.
            let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else {
                return;
            };
            if read(self.id).is_some_and(|now| now.started == self.started) {
                let _ended = pidfd_send_signal(process, signal);
            }
        }
    }

    /// The living members of the session that `leader` leads, and their descendants.
    pub(super) fn members(leader: Pid, reaped: bool) -> Vec<Entry> {
        let all = list();
        select(&all, leader.as_raw_nonzero().get(), reaped)
    }

    fn select(all: &[Entry], leader: i32, reaped: bool) -> Vec<Entry> {
        if reaped && all.iter().any(|entry| entry.id == leader) {
            // The number went round: the session was empty, and is another's now.
            return Vec::new();
        }
        let mut found: HashSet<i32> = all
            .iter()
            .filter(|entry| entry.session == leader)
            .map(|entry| entry.id)
            .collect();
        loop {
            let known = found.len();
            let children = all.iter().filter(|entry| found.contains(&entry.parent));
            let children: Vec<i32> = children.map(|entry| entry.id).collect();
            found.extend(children);
            if found.len() == known {
                break;
            }
        }
        let members = all.iter().filter(|entry| found.contains(&entry.id));
        members.copied().collect()
    }

    fn list() -> Vec<Entry> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter_map(read).collect()
    }

    fn read(id: i32) -> Option<Entry> {
        let text = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        parse(id, &String::from_utf8_lossy(&text))
    }

    /// `id (name) state parent group session …`; a name can hold anything. A process that has
    /// ended is nobody any more.
    fn parse(id: i32, text: &str) -> Option<Entry> {
        let (_, behind) = text.rsplit_once(')')?;
        let mut fields = behind.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        let alive = !matches!(state, "Z" | "X" | "x");
        alive.then_some(Entry {
            id,
            parent,
            session,
            started,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn entry(id: i32, parent: i32, session: i32) -> Entry {
            Entry {
                id,
                parent,
                session,
                started: 1,
            }
        }

        fn ids(all: &[Entry], leader: i32, reaped: bool) -> Vec<i32> {
            let found = select(all, leader, reaped);
            found.iter().map(|entry| entry.id).collect()
        }

        #[test]
        fn a_session_is_all_its_groups_and_what_they_started() {
            let all = [
                entry(1, 0, 1),
                entry(10, 1, 10),
                entry(11, 10, 10),
                // Its parent has ended.
                entry(12, 1, 10),
                // It made a session of its own, and has a child.
                entry(14, 13, 13),
                entry(13, 11, 13),
                entry(20, 1, 20),
            ];
            assert_eq!(ids(&all, 10, false), [10, 11, 12, 14, 13]);
            assert_eq!(ids(&all[2..], 10, true), [11, 12, 14, 13]);
            assert_eq!(ids(&all, 30, true), [] as [i32; 0]);
            // Somebody else's process has the number of the leader that is gone.
            assert_eq!(ids(&all, 10, true), [] as [i32; 0]);
        }

        #[test]
        fn the_line_of_a_process_is_read_whatever_its_name() {
            let rest = "1 2 10 34816 10 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
            let line = |name: &str, state: &str| format!("11 ({name}) {state} {rest}");
            let want = Entry {
                id: 11,
                parent: 1,
                session: 10,
                started: 4711,
            };
            for name in ["sh", "a b", ") R 1 (", "x\n", ""] {
                assert_eq!(parse(11, &line(name, "S")), Some(want), "{name:?}");
            }
            for ended in ["Z", "X"] {
                assert_eq!(parse(11, &line("sh", ended)), None);
            }
            for broken in ["", "11 (sh", "11 (sh) S", "11 (sh) S 1 2 3"] {
                assert_eq!(parse(11, broken), None);
            }
            let own = i32::try_from(std::process::id()).unwrap();
            assert_eq!(read(own).unwrap().id, own);
        }
    }
}
