//! Commands on their way to the writer, which takes all that wait at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::queue::Command;

/// How long the writer lets more come before it takes them. Callers wake it once in this time, and
/// not for every value; what cannot wait wakes it at once.
const GATHER: Duration = Duration::from_millis(1);

/// How many are enough to take without letting more come.
const ENOUGH: usize = 8192;

/// So many lie in one piece: of a long queue, what is done is freed while the rest waits.
const PIECE: usize = 1024;

/// So many empty pieces are kept to be filled again. New memory would cost each value more than its
/// place in it.
const SPARE: usize = 16;

#[derive(Debug)]
struct Mailbox {
    state: Mutex<State>,
    woken: Condvar,
    enough: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<Command>>,
    /// Empty pieces, to be filled again.
    spare: Vec<Vec<Command>>,
    count: usize,
    /// Whether one of them cannot wait for more.
    is_urgent: bool,
    /// The writer sleeps until so many wait; 0 while it is awake.
    wanted: usize,
    /// Nobody is there any more to take them.
    is_closed: bool,
}

impl State {
    fn push(&mut self, command: Command) {
        self.is_urgent |= command.is_urgent();
        self.count += 1;
        match self.waiting.back_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(command),
            // The first piece grows with what comes, the others will be full as a rule.
            last => {
                let room = if last.is_some() { PIECE } else { 1 };
                let spare = self.spare.pop();
                let mut piece = spare.unwrap_or_else(|| Vec::with_capacity(room));
                piece.push(command);
                self.waiting.push_back(piece);
            }
        }
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until so many wait, one of them is urgent, or the time is over.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        wanted: usize,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        while state.count < wanted && !state.is_urgent {
            state.wanted = wanted;
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.woken.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .woken
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.wanted = 0;
        state
    }
}

/// Both ends of the way to one writer. `capacity` is how many values can wait at all.
pub(crate) fn mailbox(capacity: usize) -> (Outbox, Inbox) {
    let mailbox = Arc::new(Mailbox {
        state: Mutex::default(),
        woken: Condvar::new(),
        // Those that fill a small queue are taken before it is full.
        enough: (capacity / 2).clamp(1, ENOUGH),
    });
    let inbox = Inbox {
        mailbox: Arc::clone(&mailbox),
        taken: VecDeque::new(),
        piece: Vec::new(),
        spare: Vec::new(),
    };
    (Outbox(mailbox), inbox)
}

/// The callers' end.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<Mailbox>);

impl Outbox {
    /// Hands commands over, in their order; answers whether there is still somebody to take them.
    pub(crate) fn send(&self, commands: impl IntoIterator<Item = Command>) -> bool {
        let mut state = self.0.lock();
        if state.is_closed {
            return false;
        }
        for command in commands {
            state.push(command);
        }
        let is_enough = state.count >= state.wanted || state.is_urgent;
        if state.wanted > 0 && is_enough {
            state.wanted = 0;
            drop(state);
            self.0.woken.notify_one();
        }
        true
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    mailbox: Arc<Mailbox>,
    /// Taken from what waited, and not handled yet.
    taken: VecDeque<Vec<Command>>,
    /// Of which this is the first piece, the next command last.
    piece: Vec<Command>,
    /// Those that were emptied.
    spare: Vec<Vec<Command>>,
}

impl Inbox {
    /// Waits for commands, for a time or until there are some, and takes them.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) {
        if !self.is_empty() {
            return;
        }
        let mut state = self.mailbox.sleep(self.mailbox.lock(), 1, limit);
        if !state.waiting.is_empty() {
            let enough = self.mailbox.enough;
            state = self.mailbox.sleep(state, enough, Some(GATHER));
        }
        Self::take(&mut self.taken, &mut self.spare, &mut state);
    }

    /// The next of those that were taken.
    pub(crate) fn next_taken(&mut self) -> Option<Command> {
        if self.piece.is_empty() {
            let mut next = self.taken.pop_front()?;
            next.reverse();
            let done = std::mem::replace(&mut self.piece, next);
            if done.capacity() == PIECE && self.spare.len() < SPARE {
                self.spare.push(done);
            }
        }
        self.piece.pop()
    }

    /// The next one that is there, taken or not.
    pub(crate) fn next_there(&mut self) -> Option<Command> {
        if self.is_empty() {
            Self::take(&mut self.taken, &mut self.spare, &mut self.mailbox.lock());
        }
        self.next_taken()
    }

    fn is_empty(&self) -> bool {
        self.piece.is_empty() && self.taken.is_empty()
    }

    /// Only where nothing is left of what was taken before.
    fn take(taken: &mut VecDeque<Vec<Command>>, spare: &mut Vec<Vec<Command>>, state: &mut State) {
        std::mem::swap(taken, &mut state.waiting);
        let room = SPARE.saturating_sub(state.spare.len()).min(spare.len());
        state.spare.extend(spare.drain(..room));
        state.count = 0;
        state.is_urgent = false;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.mailbox.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        // Whoever waits for the answer to one of them hears that there will be none.
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use tokio::sync::oneshot;

    fn progress(done: f64) -> Command {
        Command::Progress(done)
    }

    fn flush() -> (Command, oneshot::Receiver<Result<(), Error>>) {
        let (answer, answered) = oneshot::channel();
        (Command::Flush(answer), answered)
    }

    #[test]
    fn commands_of_many_threads_all_come_in_the_order_of_each() {
        let (outbox, mut inbox) = mailbox(16);
        const ENDS: [f64; 3] = [10_000.0, 20_000.0, 30_000.0];
        let mut last = [-1.0; 4];
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let outbox = outbox.clone();
                scope.spawn(move || {
                    for step in 0..1000_u32 {
                        assert!(outbox.send([progress(f64::from(thread * 10_000 + step))]));
                    }
                });
            }
            let mut count = 0;
            while count < 4000 {
                inbox.wait(Some(Duration::from_secs(10)));
                while let Some(Command::Progress(done)) = inbox.next_taken() {
                    // Each thread has numbers of its own.
                    let thread = ENDS.iter().filter(|end| **end <= done).count();
                    assert!(last[thread] < done, "{done} after {}", last[thread]);
                    last[thread] = done;
                    count += 1;
                }
            }
        });
        assert_eq!(last, [999.0, 10_999.0, 20_999.0, 30_999.0]);
    }

    #[test]
    fn a_long_queue_comes_in_its_order_and_nothing_is_left() {
        let (outbox, mut inbox) = mailbox(100_000);
        let count = u32::try_from(PIECE).unwrap() * 3 + 1;
        assert!(outbox.send((0..count).map(|step| progress(f64::from(step)))));
        for step in 0..count {
            let Some(Command::Progress(done)) = inbox.next_there() else {
                panic!("{step} is missing");
            };
            assert_eq!(done, f64::from(step));
        }
        assert!(inbox.next_there().is_none());
        // Every one of them is in memory while it waits.
        assert!(size_of::<Command>() <= 56, "{}", size_of::<Command>());
    }

    #[test]
    fn what_is_urgent_wakes_the_writer_and_nothing_ends_the_wait_early() {
        let (outbox, mut inbox) = mailbox(100_000);
        let before = Instant::now();
        inbox.wait(Some(Duration::from_millis(20)));
        assert!(before.elapsed() >= Duration::from_millis(20));
        assert!(inbox.next_there().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // So long that the writer is asleep by then, as a rule.
                std::thread::park_timeout(Duration::from_millis(5));
                assert!(outbox.send([flush().0]));
            });
            inbox.wait(None);
        });
        assert!(matches!(inbox.next_taken(), Some(Command::Flush(_))));
        // So does a single command that can wait.
        assert!(outbox.send([progress(0.5)]));
        inbox.wait(None);
        assert!(matches!(inbox.next_taken(), Some(Command::Progress(0.5))));
    }

    #[test]
    fn without_a_writer_nothing_is_taken_and_nobody_waits() {
        let (outbox, inbox) = mailbox(1);
        let (command, mut answered) = flush();
        assert!(outbox.send([command]));
        drop(inbox);
        answered.try_recv().unwrap_err();
        assert!(!outbox.send([progress(0.5)]));
    }
}
