//! A terminal as everybody sees it: its record, its last output, and who is attached. What reads
//! and writes it is its task, see `drive`.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use polyaxon_sandbox::process::Signal as SignalName;
use polyaxon_sandbox::pty::{PtyCreated, PtyEvent, PtyExited, PtyId, PtySession, PtyState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::request::Size;
use super::ring::Ring;
use crate::activity::Activity;
use crate::closing::Closer;
use crate::daemon::Refusal;
use crate::limits::PtyLimits;

/// What typing `^C` and `^\` sends.
const INTERRUPT: &[u8] = b"\x03";
const QUIT: &[u8] = b"\x1c";

/// A terminal that is known.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) id: PtyId,
    pub(super) tag: Option<String>,
    pub(super) limits: PtyLimits,
    /// Bytes to be typed, in order.
    pub(super) input: mpsc::Sender<Bytes>,
    /// Said once somebody wants it to be gone.
    pub(super) delete: Closer,
    /// Said once it is gone.
    pub(super) gone: Closer,
    /// The id of the program as it sees it itself.
    pid: Option<u32>,
    /// Its id on this machine.
    leader: Pid,
    started_at: Timestamp,
    activity: Arc<Activity>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    size: Size,
    last_activity: Timestamp,
    last_client_activity: Timestamp,
    /// `None` while somebody is attached.
    detached: Option<(Timestamp, Instant)>,
    attachment: Option<Attachment>,
    /// How many there were, so that a late word about one does not hit the next.
    attachments: u64,
    ring: Ring,
    /// Our end of the terminal, while the program runs.
    master: Option<OwnedFd>,
    end: Option<PtyExited>,
}

/// The terminal's end of an attachment.
#[derive(Debug)]
struct Attachment {
    number: u64,
    output: mpsc::Sender<Bytes>,
    over: oneshot::Sender<Over>,
}

/// Why an attachment is over.
#[derive(Debug)]
pub(super) enum Over {
    /// The program has ended by itself. What was sent before still has to be written.
    Exited(PtyExited),
    /// For another reason, at once.
    Detached,
}

/// The client's end of an attachment. Dropping it detaches.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) terminal: Arc<Terminal>,
    pub(super) first: PtyEvent,
    pub(super) replay: Vec<Bytes>,
    pub(super) output: mpsc::Receiver<Bytes>,
    pub(super) over: oneshot::Receiver<Over>,
    number: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.terminal.detach(self.number);
    }
}

/// Output that the client has no room for now.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) bytes: Bytes,
    pub(super) output: mpsc::Sender<Bytes>,
    number: u64,
}

impl Terminal {
    pub(super) fn new(
        id: PtyId,
        tag: Option<String>,
        size: Size,
        ((pid, leader), master): ((u32, Pid), OwnedFd),
        (limits, activity): (&PtyLimits, &Arc<Activity>),
        input: mpsc::Sender<Bytes>,
    ) -> Self {
        let now = Timestamp::now();
        Self {
            id,
            tag,
            limits: limits.clone(),
            input,
            delete: Closer::new(),
            gone: Closer::new(),
            pid: Some(pid),
            leader,
            started_at: now,
            activity: Arc::clone(activity),
            state: Mutex::new(State {
                size,
                last_activity: now,
                last_client_activity: now,
                detached: Some((now, Instant::now())),
                attachment: None,
                attachments: 0,
                ring: Ring::new(limits.replay_bytes),
                master: Some(master),
                end: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole at every step, so a panic elsewhere leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn created(&self) -> PtyCreated {
        let size = self.state().size;
        PtyCreated {
            pty_id: self.id.clone(),
            pid: self.pid,
            started_at: Some(self.started_at),
            cols: size.cols,
            rows: size.rows,
            tag: self.tag.clone(),
        }
    }

    pub(super) fn session(&self) -> PtySession {
        let state = self.state();
        let end = state.end.as_ref();
        PtySession {
            pty_id: self.id.clone(),
            pid: self.pid,
            state: state.word(),
            started_at: Some(self.started_at),
            last_activity: Some(state.last_activity),
            last_client_activity: Some(state.last_client_activity),
            attached: state.attachment.is_some(),
            detached_since: state.detached.map(|(at, _)| at),
            cols: state.size.cols,
            rows: state.size.rows,
            finished_at: end.and_then(|end| end.finished_at),
            duration_ms: end.map(|end| end.duration_ms),
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal.clone()),
            tag: self.tag.clone(),
        }
    }

    pub(super) fn word(&self) -> PtyState {
        self.state().word()
    }

    pub(super) fn is_attached(&self) -> bool {
        self.state().attachment.is_some()
    }

    /// Since when nobody has been attached to it while it runs.
    pub(super) fn detached_since(&self) -> Option<Instant> {
        self.state().detached.map(|(_, since)| since)
    }

    /// The one client that it can have. The bytes of the replay end where those of `output` begin.
    pub(super) fn attach(self: &Arc<Self>, replay: usize) -> Result<Attached, Refusal> {
        let mut state = self.running()?;
        if state.attachment.is_some() {
            return Err(Refusal::already_attached(&self.id));
        }
        let (output, receiver) = mpsc::channel(self.limits.frames_behind.max(1));
        let (over, is_over) = oneshot::channel();
        state.attachments += 1;
        let number = state.attachments;
        state.attachment = Some(Attachment {
            number,
            output,
            over,
        });
        state.detached = None;
        state.last_client_activity = Timestamp::now();
        let Size { cols, rows } = state.size;
        let first = PtyEvent::attached(self.id.clone(), self.pid, state.word(), cols, rows);
        Ok(Attached {
            terminal: Arc::clone(self),
            first,
            replay: state.ring.last(replay),
            output: receiver,
            over: is_over,
            number,
        })
    }

    fn detach(&self, number: u64) {
        self.state().cut(number, Over::Detached);
    }

    /// Takes output of the program: keeps it for a replay, and passes it on. Gives it back where
    /// the client is too far behind.
    pub(super) fn output(&self, bytes: Bytes) -> Option<Behind> {
        self.activity.touch();
        let mut state = self.state();
        state.last_activity = Timestamp::now();
        state.ring.push(&bytes);
        let attachment = state.attachment.as_ref()?;
        match attachment.output.try_send(bytes) {
            Err(mpsc::error::TrySendError::Full(bytes)) => Some(Behind {
                bytes,
                output: attachment.output.clone(),
                number: attachment.number,
            }),
            // A client that has gone says so by itself.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    /// Whether there is something to read: output, or the word that nobody has it open any more.
    pub(super) fn has_output(&self) -> bool {
        let state = self.state();
        let at_once = Timespec::default();
        let looked = state.master.as_ref().map(|master| {
            let mut ends = [PollFd::new(master, PollFlags::IN)];
            poll(&mut ends, Some(&at_once))
        });
        matches!(looked, Some(Ok(1..)))
    }

    /// Gives up on a client that does not read.
    pub(super) fn cut(&self, behind: &Behind) {
        tracing::debug!(pty = %self.id, "a client that reads too slowly is cut off");
        self.state().cut(behind.number, Over::Detached);
    }

    /// Something came from the client.
    pub(super) fn heard(&self) {
        self.activity.touch();
        self.state().last_client_activity = Timestamp::now();
    }

    /// Bytes went to the program.
    pub(super) fn typed(&self) {
        self.activity.touch();
        self.state().last_activity = Timestamp::now();
    }

    /// The program sees the new size at once, and where it is still starting, from its first
    /// moment on.
    pub(super) fn resize(&self, size: Size) -> Result<(), Refusal> {
        let mut state = self.running()?;
        if let Some(master) = &state.master {
            let size = Winsize {
                ws_row: size.rows,
                ws_col: size.cols,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            tcsetwinsize(master, size).map_err(|error| {
                Refusal::internal("the terminal did not take the size").because(error.into())
            })?;
        }
        state.size = size;
        Ok(())
    }

    /// SIGINT and SIGQUIT are typed, so that the terminal sends them to whom it would: the job in
    /// the foreground. The others go to the group of the leader.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Refusal> {
        let state = self.running()?;
        let key = match signal {
            Signal::INT => INTERRUPT,
            Signal::QUIT => QUIT,
            other => {
                // It may have ended in this moment: then there is nothing left to do.
                let _ended = kill_process_group(self.leader, other);
                return Ok(());
            }
        };
        let full = self.input.try_send(Bytes::from_static(key)).is_err();
        if full && let Some(job) = state.master.as_ref().and_then(|end| tcgetpgrp(end).ok()) {
            // The program reads nothing, so nothing more can be typed.
            let _ended = kill_process_group(job, signal);
        }
        Ok(())
    }

    /// The program has ended; `killed` where it was us. What was kept is discarded.
    pub(super) fn finish(&self, end: PtyExited, killed: bool) {
        let mut state = self.state();
        state.ring.discard();
        state.master = None;
        let over = match killed {
            true => Over::Detached,
            false => Over::Exited(end.clone()),
        };
        state.end = Some(end);
        state.end_attachment(over);
    }

    pub(super) fn started_at(&self) -> Timestamp {
        self.started_at
    }

    fn running(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        let state = self.state();
        match &state.end {
            None => Ok(state),
            Some(end) => Err(Refusal::gone(&self.id).details(json!({
                "pty_id": self.id,
                "state": state.word(),
                "exit_code": end.exit_code,
                "signal": end.signal,
                "duration_ms": end.duration_ms,
                "finished_at": end.finished_at,
            }))),
        }
    }
}

impl State {
    fn word(&self) -> PtyState {
        match self.end {
            None => PtyState::Running,
            Some(_) => PtyState::Exited,
        }
    }

    fn cut(&mut self, number: u64, over: Over) {
        let current = self.attachment.as_ref().map(|current| current.number);
        if current == Some(number) {
            self.end_attachment(over);
        }
    }

    fn end_attachment(&mut self, over: Over) {
        if let Some(attachment) = self.attachment.take() {
            // Said before the channel ends, so that whoever sees its end knows why. A client that
            // has gone does not listen.
            let _gone = attachment.over.send(over);
            self.detached = Some((Timestamp::now(), Instant::now()));
        }
    }
}

/// How a program ended.
pub(super) fn ended(
    status: Option<std::process::ExitStatus>,
    started_at: Timestamp,
    duration_ms: u64,
) -> PtyExited {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.and_then(|status| status.signal());
    let duration = i64::try_from(duration_ms).unwrap_or(i64::MAX);
    let finished_at = started_at
        .checked_add(jiff::SignedDuration::from_millis(duration))
        .unwrap_or_else(|_| Timestamp::now());
    PtyExited {
        exit_code: status.map(|status| status.code().unwrap_or(-1)),
        signal: signal.map(|number| SignalName::from(crate::process::signal_name(number).as_str())),
        finished_at: Some(finished_at),
        duration_ms,
    }
}
