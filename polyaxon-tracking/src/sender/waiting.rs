//! What waits to be sent, and which of it is tried next.
//!
//! What fails in a way that can pass is put back, and what is behind it goes on: only what has to stay
//! in order waits for it. Once two fail one after the other it is taken for the server's trouble, and
//! nothing is tried for a while.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::{Cause, Parcel};

/// How long the first try that failed is waited for, and the longest wait: while the run goes on,
/// and once it has ended.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
const LONGEST_WAIT_AT_THE_END: Duration = Duration::from_secs(2);

/// So often one is tried that the server seems too busy for, while it takes others.
const TRIES_AMONG_OTHERS: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In the order of their numbers.
    entries: VecDeque<Entry>,
    /// How many there ever were.
    taken: u64,
    /// How many calls the server has answered with yes or no.
    answered: u64,
    trouble: Option<Trouble>,
    stage: Stage,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parcel: Parcel,
    number: u64,
    /// The final status, which waits for all others until time is short.
    is_last: bool,
    setback: Option<Setback>,
}

/// It was tried, in vain so far.
#[derive(Debug)]
struct Setback {
    /// None where the time was up before there was an answer.
    cause: Option<Cause>,
    tries: u32,
    /// How many others were answered before the first of them.
    answered: u64,
    wait: Duration,
    tried: Instant,
    retry: Instant,
}

/// Tries have failed since the last that did not.
#[derive(Debug)]
struct Trouble {
    cause: Cause,
    /// None as long as it can be the parcel's trouble and not the server's.
    wait: Option<Duration>,
    retry: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Goes,
    /// The run has ended.
    Ended,
    /// The time is nearly up: statuses go before everything else.
    Short,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To send the entry at this place.
    Send(usize),
    /// To wait, as all that could be sent has failed.
    Wait(Instant),
    Nothing,
}

impl Entry {
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    pub(super) fn has_failed(&self) -> bool {
        self.setback.is_some()
    }

    pub(super) fn cause(&self) -> Option<&Cause> {
        self.setback.as_ref()?.cause.as_ref()
    }

    fn is_status(&self) -> bool {
        matches!(self.parcel, Parcel::Status(_))
    }
}

impl Waiting {
    pub(super) fn add(&mut self, parcel: Parcel) {
        self.push(parcel, false);
    }

    /// The final status.
    pub(super) fn add_last(&mut self, parcel: Parcel) {
        self.push(parcel, true);
    }

    fn push(&mut self, parcel: Parcel, is_last: bool) {
        self.taken += 1;
        self.entries.push_back(Entry {
            parcel,
            number: self.taken,
            is_last,
            setback: None,
        });
    }

    /// What comes of an entry that was sent, and takes its place.
    pub(super) fn follow_up(&mut self, index: usize, sent: &Entry, parcel: Parcel) {
        let entry = Entry {
            parcel,
            number: sent.number,
            is_last: false,
            setback: None,
        };
        self.entries.insert(index.min(self.entries.len()), entry);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of what was taken last.
    pub(super) fn newest(&self) -> u64 {
        self.taken
    }

    /// The number of what has waited longest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.number)
    }

    /// Why something waits that was tried.
    pub(super) fn cause(&self) -> Option<&Cause> {
        let own = self.entries.iter().find_map(Entry::cause);
        own.or(self.trouble.as_ref().map(|trouble| &trouble.cause))
    }

    /// Whether something was tried in vain.
    pub(super) fn is_behind(&self) -> bool {
        self.trouble.is_some() || self.entries.iter().any(Entry::has_failed)
    }

    /// Never tried before tried, and of these the one whose try is the longest ago: whatever fails for
    /// ever, all others have their turn.
    pub(super) fn next(&self, now: Instant) -> Next {
        if let Some(trouble) = self.trouble.as_ref().filter(|trouble| trouble.retry > now) {
            return Next::Wait(trouble.retry);
        }
        let is_short = self.stage == Stage::Short && self.entries.iter().any(Entry::is_status);
        let mut ahead = HashSet::new();
        let mut due: Option<(Instant, usize)> = None;
        let mut soonest: Option<Instant> = None;
        for (index, entry) in self.entries.iter().enumerate() {
            if is_short && !entry.is_status() || entry.is_last && !is_short && index > 0 {
                continue;
            }
            let keys = entry.parcel.keys();
            let must_wait = keys.iter().any(|key| ahead.contains(key));
            ahead.extend(keys);
            match &entry.setback {
                _ if must_wait => {}
                None => return Next::Send(index),
                Some(setback) if setback.retry > now => {
                    let first = soonest.map_or(setback.retry, |time| time.min(setback.retry));
                    soonest = Some(first);
                }
                Some(setback) => {
                    if due.is_none_or(|(tried, _)| setback.tried < tried) {
                        due = Some((setback.tried, index));
                    }
                }
            }
        }
        match (due, soonest) {
            (Some((_, index)), _) => Next::Send(index),
            (None, Some(time)) => Next::Wait(time),
            (None, None) => Next::Nothing,
        }
    }

    /// Takes an entry out, to be sent. It is handed back to one of the following.
    pub(super) fn take(&mut self, index: usize) -> Option<Entry> {
        self.entries.remove(index)
    }

    /// The server has answered, with whatever: it is there.
    pub(super) fn answered(&mut self) {
        self.answered += 1;
        if self.trouble.take().is_some_and(|it| it.wait.is_some()) {
            self.retry_now();
        }
    }

    /// Whether this one has failed once more and often enough, while the server had time for others.
    pub(super) fn fails_alone(&self, entry: &Entry) -> bool {
        let before = entry.setback.as_ref();
        before.is_some_and(|it| it.tries + 1 >= TRIES_AMONG_OTHERS && it.answered < self.answered)
    }

    /// A try has failed that took so long, and another can do better.
    pub(super) fn failed(&mut self, index: usize, mut entry: Entry, cause: Cause, took: Duration) {
        let now = Instant::now();
        let longest = match self.stage {
            Stage::Goes => LONGEST_WAIT,
            Stage::Ended | Stage::Short => LONGEST_WAIT_AT_THE_END,
        };
        let longer = |wait: Duration| (wait * 2).min(longest);
        let is_first = entry.setback.is_none();
        let wait = match self.trouble.take().map(|trouble| trouble.wait) {
            None => None,
            // One that fails again says nothing of the others.
            Some(None) => is_first.then_some(FIRST_WAIT),
            Some(Some(wait)) => Some(longer(wait)),
        };
        tracing::debug!(error = %cause, ?wait, "a part of a tracked run cannot be sent for now");
        self.trouble = Some(Trouble {
            cause: Cause::clone(&cause),
            wait,
            retry: now + wait.unwrap_or_default(),
        });
        let (wait, tries, answered) = match &entry.setback {
            None => (FIRST_WAIT, 0, self.answered),
            Some(before) => (longer(before.wait), before.tries, before.answered),
        };
        entry.setback = Some(Setback {
            cause: Some(cause),
            tries: tries + 1,
            answered,
            wait,
            tried: now,
            // The others get as much time as it has taken.
            retry: now + wait.max(took),
        });
        self.put_back(index, entry);
    }

    /// A try was broken off, for the sake of others.
    pub(super) fn interrupted(&mut self, index: usize, mut entry: Entry) {
        let now = Instant::now();
        let setback = entry.setback.get_or_insert(Setback {
            cause: None,
            tries: 0,
            answered: self.answered,
            wait: FIRST_WAIT,
            tried: now,
            retry: now,
        });
        setback.tried = now;
        setback.retry = now;
        self.put_back(index, entry);
    }

    fn put_back(&mut self, index: usize, entry: Entry) {
        self.entries.insert(index.min(self.entries.len()), entry);
    }

    /// What waits for another try is tried as soon as can be.
    pub(super) fn retry_now(&mut self) {
        let now = Instant::now();
        if let Some(trouble) = &mut self.trouble {
            trouble.retry = now;
        }
        for setback in self.entries.iter_mut().filter_map(|it| it.setback.as_mut()) {
            setback.retry = now;
        }
    }

    /// The run has ended: tries follow each other more closely.
    pub(super) fn end(&mut self) {
        self.stage = Stage::Ended;
        self.retry_now();
        if let Some(wait) = self.trouble.as_mut().and_then(|it| it.wait.as_mut()) {
            *wait = FIRST_WAIT;
        }
        for setback in self.entries.iter_mut().filter_map(|it| it.setback.as_mut()) {
            setback.wait = FIRST_WAIT;
        }
    }

    pub(super) fn is_short(&self) -> bool {
        self.stage == Stage::Short
    }

    /// The time is nearly up: statuses go first from now on, and the final one waits for no other
    /// that has failed. Those are answered.
    pub(super) fn hurry(&mut self) -> Vec<Entry> {
        self.stage = Stage::Short;
        self.retry_now();
        let is_vain = |entry: &Entry| entry.is_status() && !entry.is_last && entry.has_failed();
        let (vain, rest) = self.drain().partition(is_vain);
        self.entries = rest;
        vain.into()
    }

    /// Why an entry was not sent that waits at the end.
    pub(super) fn cause_of(&self, entry: &Entry) -> Option<Cause> {
        let trouble = self.trouble.as_ref().filter(|it| it.wait.is_some());
        let cause = entry.cause().or(trouble.map(|trouble| &trouble.cause));
        cause.cloned()
    }

    pub(super) fn drain(&mut self) -> std::collections::vec_deque::IntoIter<Entry> {
        std::mem::take(&mut self.entries).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use polyaxon_client::InvalidInput;
    use serde_json::json;

    use super::*;

    fn input(name: &str) -> Parcel {
        let body = json!({"inputs": {name: 1}, "merge": true});
        Parcel::Change {
            body: body.as_object().unwrap().clone(),
            room: 1,
        }
    }

    fn status(kind: &str) -> Parcel {
        Parcel::Status(json!({"type": kind}))
    }

    fn file(path: &str) -> Parcel {
        Parcel::File(path.to_owned())
    }

    fn lineage(name: &str) -> Parcel {
        Parcel::lineage(vec![json!({"name": name})], 0)
    }

    fn waiting(parcels: impl IntoIterator<Item = Parcel>) -> Waiting {
        let mut waiting = Waiting::default();
        for parcel in parcels {
            waiting.add(parcel);
        }
        waiting
    }

    fn fail(waiting: &mut Waiting, index: usize) {
        let entry = waiting.take(index).unwrap();
        let cause = Arc::new(InvalidInput::new("test", "fails").into());
        waiting.failed(index, entry, cause, Duration::ZERO);
    }

    fn succeed(waiting: &mut Waiting, index: usize) {
        drop(waiting.take(index).unwrap());
        waiting.answered();
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_keeps_back_what_replaces_it_and_nothing_else() {
        let parcels = || {
            [
                input("a"),
                file("a.txt"),
                status("running"),
                lineage("l"),
                input("b"),
                status("processing"),
                lineage("l"),
                file("b.txt"),
            ]
        };
        let cases = [
            (0, Some(4)),
            (1, None),
            (2, Some(5)),
            (3, Some(6)),
            (7, None),
        ];
        for (failing, kept_back) in cases {
            let mut waiting = waiting(parcels());
            fail(&mut waiting, failing);
            let mut sent = Vec::new();
            while let Next::Send(index) = waiting.next(Instant::now()) {
                sent.push(waiting.entries[index].number);
                succeed(&mut waiting, index);
            }
            let rest: Vec<u64> = waiting.drain().map(|entry| entry.number - 1).collect();
            let expected: Vec<u64> = std::iter::once(failing as u64).chain(kept_back).collect();
            assert_eq!(rest, expected);
            assert!(sent.is_sorted());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_for_ever_is_tried_ever_more_seldom() {
        let mut waiting = waiting([file("bad")]);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let Next::Send(index) = waiting.next(Instant::now()) else {
                panic!("{waiting:?}")
            };
            fail(&mut waiting, index);
            // What comes now has its turn at once.
            waiting.add(file("good"));
            assert_eq!(waiting.next(Instant::now()), Next::Send(1));
            succeed(&mut waiting, 1);
            let Next::Wait(retry) = waiting.next(Instant::now()) else {
                panic!("{waiting:?}")
            };
            waits.push((retry - Instant::now()).as_millis());
            tokio::time::advance(retry - Instant::now()).await;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_in_trouble_is_left_alone_and_then_all_are_tried_in_turn() {
        let mut waiting = waiting((0..4).map(|number| file(&number.to_string())));
        let mut tried = Vec::new();
        let started = Instant::now();
        for _ in 0..6 {
            let index = match waiting.next(Instant::now()) {
                Next::Send(index) => index,
                Next::Wait(time) => {
                    tokio::time::advance(time - Instant::now()).await;
                    let Next::Send(index) = waiting.next(Instant::now()) else {
                        panic!("{waiting:?}")
                    };
                    index
                }
                Next::Nothing => panic!("{waiting:?}"),
            };
            tried.push((index, started.elapsed().as_millis()));
            fail(&mut waiting, index);
        }
        let expected = [(0, 0), (1, 0), (2, 500), (3, 1500), (0, 3500), (1, 7500)];
        assert_eq!(tried, expected);
        // Once one got through, all are tried.
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(waiting.next(Instant::now()), Next::Send(2));
        succeed(&mut waiting, 2);
        for _ in 0..3 {
            assert!(matches!(waiting.next(Instant::now()), Next::Send(_)));
            succeed(&mut waiting, 0);
        }
        assert!(waiting.is_empty() && !waiting.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn the_final_status_waits_for_all_others_until_time_is_short() {
        let mut waiting = waiting([file("bad"), status("processing"), status("warning")]);
        waiting.add_last(status("succeeded"));
        waiting.end();
        fail(&mut waiting, 0);
        assert_eq!(waiting.next(Instant::now()), Next::Send(1));
        fail(&mut waiting, 1);
        // The file, the status, and what is behind that.
        assert!(matches!(waiting.next(Instant::now()), Next::Wait(_)));
        let vain = waiting.hurry();
        assert_eq!(vain.len(), 1);
        assert!(matches!(&vain[0].parcel, Parcel::Status(it) if it["type"] == "processing"));
        for expected in ["warning", "succeeded"] {
            let Next::Send(index) = waiting.next(Instant::now()) else {
                panic!("{waiting:?}")
            };
            let parcel = &waiting.entries[index].parcel;
            assert!(matches!(parcel, Parcel::Status(it) if it["type"] == expected));
            succeed(&mut waiting, index);
        }
        // What time is left is the file's.
        assert_eq!(waiting.next(Instant::now()), Next::Send(0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_fails_alone_that_has_failed_often_while_others_went() {
        let mut waiting = waiting([status("custom"), file("good")]);
        for others in [false, true] {
            for tries in 0..3 {
                let Some(entry) = waiting.take(0) else {
                    panic!("{waiting:?}")
                };
                assert_eq!(waiting.fails_alone(&entry), others, "{tries}");
                waiting.put_back(0, entry);
                fail(&mut waiting, 0);
            }
            if !others {
                succeed(&mut waiting, 1);
            }
        }
    }
}
