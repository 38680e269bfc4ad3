//! The task of a terminal: reads what the program writes, types what clients send, and ends it.

use std::future::pending;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use pty_process::{OwnedReadPty, OwnedWritePty};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::Shelf;
use super::patience::Patience;
use super::terminal::{Behind, Terminal, ended};
use super::tree::Tree;
use crate::closing::Closing;
use crate::process::Child;

/// Output that comes this soon after the end of a program, or after other such output, is its.
/// On Linux the terminal itself says that there is no more; elsewhere it need not.
const QUIET: Duration = Duration::from_millis(100);
/// How much is read after the end of a program: more than a terminal can hold, so that only
/// somebody who goes on writing is cut short.
const LAST_BYTES: usize = 1024 * 1024;
/// How long it takes until a terminal is looked at again that no process has open: one can open
/// it later by `/dev/tty`.
const CLOSED_CHECK: Duration = Duration::from_millis(100);
/// How often the processes are looked at that an ended program left behind.
const LEFT_CHECK: Duration = Duration::from_millis(500);

/// All that belongs to one terminal.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) terminal: Arc<Terminal>,
    pub(super) shelf: Shelf,
    pub(super) child: Child,
    pub(super) tree: Tree,
    pub(super) reader: OwnedReadPty,
    pub(super) writer: OwnedWritePty,
    pub(super) input: mpsc::Receiver<Bytes>,
    pub(super) kill_grace: Duration,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) closing: Closing,
}

/// How the program came to its end.
struct End {
    status: Option<ExitStatus>,
    /// Whether it was asked for: by a delete, by its age, by the end of the sandbox.
    killed: bool,
    duration: Duration,
}

impl Drive {
    /// Until nothing of the terminal is left: no process, no record.
    pub(super) async fn run(mut self) {
        let end = self.until_exit().await;
        self.tree.leader_is_gone();
        let milliseconds = u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
        let exited = ended(end.status, self.terminal.started_at(), milliseconds);
        tracing::debug!(pty = %self.terminal.id, killed = end.killed, "a terminal has ended");
        self.terminal.finish(exited, end.killed);
        let Self {
            terminal,
            shelf,
            tree,
            permit,
            closing,
            reader,
            writer,
            ..
        } = self;
        // A caller who is told of the end must not be told that it still counts.
        drop((permit, reader, writer));
        let after = After {
            terminal,
            shelf,
            tree,
            closing,
        };
        after.run(end.killed).await;
    }

    async fn until_exit(&mut self) -> End {
        let limits = self.terminal.limits.clone();
        let started = Instant::now();
        let mut check = ticks(limits.check_interval);
        let mut deleted = self.terminal.delete.listen();
        let mut output = Output::new(limits.frame_bytes);
        let mut typing = Bytes::new();
        let mut exit: Option<(Option<ExitStatus>, Duration)> = None;
        let mut killed = false;
        let mut closing = false;
        let mut kill_at = None;
        loop {
            if let Some((status, duration)) = exit
                && output.is_over(&self.terminal)
            {
                return End {
                    status,
                    killed,
                    duration,
                };
            }
            let quiet_at = exit.is_some().then_some(output.last + QUIET);
            tokio::select! {
                status = self.child.wait(), if exit.is_none() => {
                    exit = Some((status.ok(), started.elapsed()));
                    output.program_has_ended();
                }
                () = output.pass(&mut self.reader, &self.terminal) => {}
                () = type_in(&mut self.writer, &mut self.input, &mut typing), if exit.is_none() => {
                    self.terminal.typed();
                }
                () = sleep_until(quiet_at.unwrap_or(started)), if quiet_at.is_some() && output.behind.is_none() => {}
                _ = check.tick(), if !killed => {
                    let idle = self.terminal.detached_since().map(|since| since.elapsed());
                    if idle.is_some_and(|idle| idle >= limits.idle_ttl) {
                        killed = true;
                        kill_at = Some(Instant::now() + self.kill_grace);
                        self.tree.signal(Signal::TERM);
                    }
                }
                () = deleted.heard(), if !killed => {
                    killed = true;
                    kill_at = Some(Instant::now() + self.kill_grace);
                    self.tree.signal(Signal::TERM);
                }
                () = sleep_until(kill_at.unwrap_or(started)), if kill_at.is_some() => {
                    kill_at = None;
                    self.tree.signal(Signal::KILL);
                }
                () = self.closing.heard(), if !closing => {
                    (killed, closing) = (true, true);
                    self.tree.signal(Signal::KILL);
                }
            }
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let every = every.max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// What comes out of a terminal, on its way.
struct Output {
    buffer: BytesMut,
    frame: usize,
    behind: Option<(Behind, Patience)>,
    /// When no process had it open any more.
    closed_at: Option<Instant>,
    /// When something last came.
    last: Instant,
    /// How many bytes came.
    read: usize,
}

impl Output {
    fn new(frame: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            frame: frame.max(1),
            behind: None,
            closed_at: None,
            last: Instant::now(),
            read: 0,
        }
    }

    /// What comes from here on is the rest, if there is one.
    fn program_has_ended(&mut self) {
        self.last = Instant::now();
        self.read = 0;
        self.closed_at = None;
    }

    /// Whether no more comes of a program that has ended. What is in the terminal does come, however
    /// late this is asked: a machine that stood still has heard nothing, and has all to read.
    fn is_over(&mut self, terminal: &Terminal) -> bool {
        if self.behind.is_some() {
            return false;
        }
        if self.closed_at.is_some() || self.read >= LAST_BYTES {
            return true;
        }
        let now = Instant::now();
        if now < self.last + QUIET {
            return false;
        }
        let is_over = !terminal.has_output();
        if !is_over {
            self.last = now;
        }
        is_over
    }

    /// Reads a frame of output and passes it on; or, where the client is behind, waits for room,
    /// and cuts the client off once that takes too long.
    ///
    /// # Cancel safety
    /// Nothing is lost: bytes are in the terminal, on their way in `self`, or passed on.
    async fn pass(&mut self, reader: &mut OwnedReadPty, terminal: &Terminal) {
        if let Some((behind, patience)) = &mut self.behind {
            match patience.wait(behind.output.reserve()).await {
                Some(Ok(room)) => room.send(behind.bytes.clone()),
                // A client that has gone says so by itself.
                Some(Err(_)) => {}
                None => terminal.cut(behind),
            }
            self.behind = None;
            self.last = Instant::now();
            return;
        }
        if let Some(at) = self.closed_at {
            sleep_until(at + CLOSED_CHECK).await;
            self.closed_at = None;
        }
        self.buffer.reserve(self.frame);
        let mut frame = bytes::BufMut::limit(&mut self.buffer, self.frame);
        match reader.read_buf(&mut frame).await {
            Ok(bytes @ 1..) => {
                self.read = self.read.saturating_add(bytes);
                self.last = Instant::now();
                let frame = self.buffer.split().freeze();
                let behind = terminal.output(frame);
                self.behind =
                    behind.map(|behind| (behind, Patience::new(terminal.limits.behind_for)));
            }
            // On Linux the end is an error: EIO.
            Ok(0) | Err(_) => self.closed_at = Some(Instant::now()),
        }
    }
}

/// Types what was sent, in order, as fast as the program reads.
///
/// # Cancel safety
/// Nothing is lost: bytes are in the channel, in `rest`, or written.
async fn type_in(writer: &mut OwnedWritePty, input: &mut mpsc::Receiver<Bytes>, rest: &mut Bytes) {
    if rest.is_empty() {
        match input.recv().await {
            Some(bytes) => *rest = bytes,
            None => pending().await,
        }
    }
    if rest.is_empty() {
        return;
    }
    match writer.write(rest).await {
        Ok(written) => rest.advance(written),
        // The program is about to end: nobody reads any more.
        Err(_) => *rest = Bytes::new(),
    }
}

/// A terminal whose program has ended.
struct After {
    terminal: Arc<Terminal>,
    shelf: Shelf,
    tree: Tree,
    closing: Closing,
}

impl After {
    /// Keeps the record for its time, and an eye on what the program left running: that lives
    /// on, as it would behind any terminal, until the record is deleted or the sandbox ends.
    async fn run(mut self, killed: bool) {
        let limits = &self.terminal.limits;
        let forget_at = Instant::now() + limits.terminal_ttl;
        let mut check = ticks(limits.check_interval);
        let mut deleted = self.terminal.delete.listen();
        if killed {
            self.tree.kill().await;
        }
        // Asked now and then: a session that was seen empty is never taken for another with its number.
        self.tree.is_alive().await;
        let mut known = true;
        while known || self.tree.is_alive().await {
            tokio::select! {
                () = deleted.heard() => break,
                () = self.closing.heard() => break,
                _ = check.tick(), if known => {
                    self.tree.is_alive().await;
                    if forget_at <= Instant::now() {
                        known = false;
                        self.shelf.forget(&self.terminal.id);
                    }
                }
                () = tokio::time::sleep(LEFT_CHECK), if !known => {}
            }
        }
        self.tree.kill().await;
        self.shelf.forget(&self.terminal.id);
        self.terminal.gone.close();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use polyaxon_sandbox::pty::PtyId;
    use tokio::time::advance;

    use super::super::request::Size;
    use super::*;
    use crate::activity::Activity;
    use crate::limits::Limits;

    #[tokio::test(start_paused = true)]
    async fn what_is_in_a_terminal_is_read_however_late_it_is_looked_at() {
        let (pty, end) = pty_process::open().unwrap();
        let master = pty.as_fd().try_clone_to_owned().unwrap();
        let limits = Limits::default().pty;
        let terminal = Terminal::new(
            PtyId::from("p"),
            None,
            Size::check(80, 24, &limits).unwrap(),
            ((1, rustix::process::getpid()), master),
            (&limits, &Arc::new(Activity::new())),
            mpsc::channel(1).0,
        );
        let (mut reader, _writer) = pty.into_split();
        let mut output = Output::new(limits.frame_bytes);
        output.program_has_ended();
        // What it left running writes soon, and the service stands still meanwhile.
        rustix::io::write(&end, b"late").unwrap();
        advance(100 * QUIET).await;
        assert!(!output.is_over(&terminal));
        output.pass(&mut reader, &terminal).await;
        assert_eq!(output.read, 4);
        assert!(!output.is_over(&terminal));
        // It is still open, so only the silence says that there is no more.
        advance(QUIET).await;
        assert!(output.is_over(&terminal));
    }
}
