//! The sender: the only one that talks to the server for a run, one call after the other.
//!
//! What can be sent is, whatever fails before it: see `waiting`. The final status comes last, and is
//! sent before the time for everything is up, be all else sent or not.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polyaxon_client::RunUuid;
use polyaxon_client::runs::{Runs, Upload};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use crate::artifact::RunFolder;
use crate::kind::Place;
use crate::plan::Plan;
use crate::queue::Room;
use crate::report::Sending;
use crate::sent::Sent;
use crate::writer::lineage_of;
use crate::{series, summary};
use given_up::{Flush, GivenUp};
pub(crate) use mail::Mail;
use mail::{Ended, Letter};
pub(crate) use parcel::Parcel;
use uploads::Uploads;
pub(crate) use uploads::{Seen, files_below};
use waiting::{Entry, Next, Waiting};

mod given_up;
mod mail;
mod parcel;
mod uploads;
mod waiting;

/// How often the run's folder is looked through for files to upload.
const PASS: Duration = Duration::from_secs(10);

/// Of the time for sending what is left of a run that has ended, the final status has the last: a part
/// of it, and this at most.
const FOR_THE_STATUS: Duration = Duration::from_secs(10);

/// A call's failure, shared by all that wait behind it.
type Cause = Arc<polyaxon_client::Error>;

/// What the sender needs to know, and where it is. It runs on a thread of its own, with a runtime
/// of its own: so what is left to be sent when the program's runtime ends is still sent.
#[derive(Debug)]
pub(crate) struct Sender {
    letters: UnboundedReceiver<Letter>,
    /// Letters that came while a call was under way.
    deferred: VecDeque<Letter>,
    route: Route,
    room: Arc<Room>,
    is_behind: Arc<AtomicBool>,
    waiting: Waiting,
    sent: u64,
    given_up: GivenUp,
    flushes: Vec<Flush>,
    uploads: Option<Uploads>,
    next_pass: Instant,
    /// The records of event files that the server has.
    summaries: HashMap<String, Value>,
    ending: Option<Ending>,
    /// Once the run has ended. Known before that is told, where a call is under way.
    times: Option<Times>,
}

/// Where it all goes.
#[derive(Clone, Debug)]
struct Route {
    runs: Runs,
    run: RunUuid,
    namespace: String,
    store: Option<String>,
    folder: RunFolder,
    /// Whether the server is the open-source edition, once it was asked.
    is_community: Option<bool>,
}

/// When everything has to be sent.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// All but the final status.
    parts: Instant,
    all: Instant,
}

impl Times {
    fn within(limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            parts: now + (limit - FOR_THE_STATUS.min(limit / 4)),
            all: now + limit,
        }
    }
}

/// What a call has to make way for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The end of the run: it has failed before.
    Ended,
    /// The final status.
    Parts,
    /// Nothing, as long as there is time.
    All,
}

/// The run has ended.
#[derive(Debug)]
struct Ending {
    answer: std::sync::mpsc::Sender<Ended>,
}

impl Mail {
    /// Both ends, where the run is sent at all.
    pub(crate) fn open(plan: &Plan, room: &Arc<Room>) -> (Option<Self>, Option<Sender>) {
        let Some(post) = &plan.post else {
            return (None, None);
        };
        let (letters, receiver) = unbounded_channel();
        let is_behind = Arc::new(AtomicBool::new(false));
        let uploads = post.duties.has_uploads();
        let sender = Sender {
            letters: receiver,
            deferred: VecDeque::new(),
            route: Route {
                runs: post.runs.clone(),
                run: plan.folder.uuid,
                namespace: post.namespace.clone(),
                store: post.store.clone(),
                folder: plan.folder.clone(),
                is_community: None,
            },
            room: Arc::clone(room),
            is_behind: Arc::clone(&is_behind),
            waiting: Waiting::default(),
            sent: 0,
            given_up: GivenUp::default(),
            flushes: Vec::new(),
            uploads: uploads.then(|| Uploads::new(plan.folder.root.clone())),
            next_pass: Instant::now(),
            summaries: HashMap::new(),
            ending: None,
            times: None,
        };
        (Some(Self::new(letters, is_behind, post)), Some(sender))
    }
}

impl Sender {
    /// Sends until the run has ended or nobody is there to end it. Blocks.
    pub(crate) fn run(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.deliver()),
            Err(error) => tracing::error!(%error, "a run cannot be sent: no runtime"),
        }
    }

    async fn deliver(&mut self) {
        self.next_pass = Instant::now() + PASS;
        loop {
            while let Some(letter) = self.deferred.pop_front() {
                self.open(letter);
            }
            while let Ok(letter) = self.letters.try_recv() {
                self.open(letter);
            }
            let now = Instant::now();
            if self.ending.is_some() {
                if self.waiting.is_empty() || self.times.is_some_and(|times| times.all <= now) {
                    return self.finish();
                }
                if !self.waiting.is_short() && self.times.is_some_and(|it| it.parts <= now) {
                    self.make_way();
                }
            } else if self.uploads.is_some() && self.next_pass <= now {
                self.look_for_files(Scan::Due);
            }
            let next = self.waiting.next(now);
            self.answer_flushes(next);
            let retry = match next {
                Next::Send(index) => {
                    self.send(index).await;
                    continue;
                }
                Next::Wait(retry) => Some(retry),
                Next::Nothing => None,
            };
            if !self.wait(retry).await {
                return;
            }
        }
    }

    /// Waits for a letter or for the next time that something is due. Answers false where nothing
    /// comes any more.
    async fn wait(&mut self, retry: Option<Instant>) -> bool {
        let pass = self.uploads.as_ref().map(|_| self.next_pass);
        let has_ended = self.ending.is_some();
        let parts = self.times.filter(|_| !self.waiting.is_short());
        let times = [
            retry,
            parts.map(|times| times.parts),
            self.times.map(|times| times.all),
            pass.filter(|_| !has_ended),
        ];
        let wake = times.into_iter().flatten().min();
        let letter = match wake {
            None => self.letters.recv().await,
            Some(time) => match tokio::time::timeout_at(time, self.letters.recv()).await {
                Ok(letter) => letter,
                Err(_) => return true,
            },
        };
        match letter {
            Some(letter) => {
                self.open(letter);
                true
            }
            // The writer is gone. What waits for the end of the run waits no more.
            None if !has_ended => false,
            None => {
                let pause = wake.unwrap_or_else(Instant::now);
                tokio::time::sleep_until(pause).await;
                true
            }
        }
    }

    fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Parcel(parcel) => self.waiting.add(parcel),
            Letter::Flush(answer) => {
                self.look_for_files(Scan::All);
                let flush = self.given_up.flush(self.waiting.newest(), answer);
                self.flushes.push(flush);
                // What failed before may be due only much later.
                self.waiting.retry_now();
            }
            Letter::Last(last, answer) => {
                self.look_for_files(Scan::All);
                for parcel in last.parcels {
                    if let Some(parcel) = parcel.without(&self.summaries) {
                        self.waiting.add(parcel);
                    }
                }
                if let Some(condition) = last.status {
                    self.waiting.add_last(Parcel::Status(condition));
                }
                // They can be known already, where a call was under way when the run ended.
                self.times.get_or_insert_with(|| Times::within(last.limit));
                self.ending = Some(Ending { answer });
                self.waiting.end();
            }
        }
    }

    fn look_for_files(&mut self, scan: Scan) {
        let Some(uploads) = &mut self.uploads else {
            return;
        };
        self.next_pass = Instant::now() + PASS;
        for path in uploads.changed(scan == Scan::All) {
            self.waiting.add(Parcel::File(path));
        }
    }

    /// Tries the parcel at this place.
    async fn send(&mut self, index: usize) {
        let Some(entry) = self.waiting.take(index) else {
            return;
        };
        // Looked at before it is read: what is added meanwhile is for the next time.
        let seen = match (&entry.parcel, &mut self.uploads) {
            (Parcel::File(path), Some(uploads)) => match uploads.look(path) {
                Some(seen) => Some(seen),
                // It is gone. What was uploaded of it stays.
                None => return self.close(&entry.parcel),
            },
            _ => None,
        };
        let until = match (
            entry.is_last() || self.waiting.is_short(),
            entry.has_failed(),
        ) {
            (true, _) => Until::All,
            (false, true) if self.ending.is_none() => Until::Ended,
            (false, _) => Until::Parts,
        };
        let route = self.route.clone();
        let started = Instant::now();
        match self.meanwhile(until, route.send(&entry.parcel)).await {
            None => self.waiting.interrupted(index, entry),
            Some(Ok(())) => {
                self.sent += 1;
                self.waiting.answered();
                self.close(&entry.parcel);
                if let (Parcel::File(path), Some(seen)) = (&entry.parcel, seen) {
                    self.uploaded(index, &entry, path, seen);
                }
            }
            Some(Err(error)) => {
                let route = self.route.clone();
                let worth = self.meanwhile(until, route.is_worth_waiting(&error)).await;
                if let Some(Some(known)) = worth.map(|(_, known)| known) {
                    self.route.is_community = Some(known);
                }
                // A database that is locked for one call and for no other is not: the call is refused.
                let is_locked = error.status().is_some_and(|status| status.as_u16() == 405);
                let is_meant = is_locked && self.waiting.fails_alone(&entry);
                match worth {
                    None | Some((true, _)) if !is_meant => {
                        let took = started.elapsed();
                        self.waiting.failed(index, entry, Arc::new(error), took);
                        if self.waiting.is_short() {
                            self.make_way();
                        }
                    }
                    _ => {
                        if !matches!(error, polyaxon_client::Error::InvalidInput(_)) {
                            self.waiting.answered();
                        }
                        self.give_up(&entry.parcel, seen, error);
                    }
                }
            }
        }
        let is_behind = self.waiting.is_behind() || !self.given_up.is_empty();
        self.is_behind.store(is_behind, Ordering::Release);
    }

    /// Waits for a call, and takes letters meanwhile: that the run has ended, for one, from when on
    /// there is a deadline. `None` where the call has to make way first.
    async fn meanwhile<T>(&mut self, until: Until, call: impl Future<Output = T>) -> Option<T> {
        let mut call = std::pin::pin!(call);
        let mut is_open = true;
        loop {
            let due = self.times.map(|times| match until {
                Until::Ended => Instant::now(),
                Until::Parts => times.parts,
                Until::All => times.all,
            });
            // Far away as long as there is none.
            let deadline = due.unwrap_or_else(|| Instant::now() + PASS);
            tokio::select! {
                result = &mut call => return Some(result),
                letter = self.letters.recv(), if is_open => match letter {
                    Some(letter) => {
                        if let Letter::Last(last, _) = &letter {
                            self.times = Some(Times::within(last.limit));
                        }
                        self.deferred.push_back(letter);
                    }
                    None => is_open = false,
                },
                () = tokio::time::sleep_until(deadline), if due.is_some() => return None,
            }
        }
    }

    /// For the final status: earlier ones that have failed are not tried any more.
    fn make_way(&mut self) {
        for entry in self.waiting.hurry() {
            self.given_up.add(entry.parcel.unsent(entry.cause()));
            self.close(&entry.parcel);
        }
    }

    /// The parcel is not sent again as it is: the server refuses it, or its file cannot be read.
    fn give_up(&mut self, parcel: &Parcel, seen: Option<Seen>, error: polyaxon_client::Error) {
        if let (Parcel::File(path), Some(uploads), Some(seen)) = (parcel, &mut self.uploads, seen) {
            self.given_up.forget_file(path);
            match error {
                // It went away between the look at it and the reading.
                polyaxon_client::Error::InvalidInput(_) if uploads.look(path).is_none() => {
                    return self.close(parcel);
                }
                polyaxon_client::Error::InvalidInput(_) => uploads.unread(path),
                _ => uploads.refused(path, seen),
            }
        }
        let is_ours = matches!(error, polyaxon_client::Error::InvalidInput(_));
        let part = parcel.unsent(Some(&Arc::new(error)));
        let (what, why) = (&part.what, part.why());
        match is_ours {
            true => tracing::warn!(?what, why, "a part of a tracked run cannot be sent"),
            false => tracing::warn!(?what, why, "the server refused a part of a tracked run"),
        }
        self.given_up.add(part);
        self.close(parcel);
    }

    /// The server has the file, and is told what it holds. At the end, that is told of all files.
    fn uploaded(&mut self, index: usize, entry: &Entry, path: &str, seen: Seen) {
        // An earlier version that was refused is not missed any more.
        self.given_up.forget_file(path);
        if let Some(uploads) = &mut self.uploads {
            uploads.uploaded(path, seen);
        }
        if self.times.is_none() {
            self.summarise(index, entry, path);
        }
    }

    /// The parcel is done with.
    fn close(&mut self, parcel: &Parcel) {
        self.room.give_back(parcel.room());
    }

    /// Of what was taken before a flush, nothing waits any more, or all that waits has failed.
    fn answer_flushes(&mut self, next: Next) {
        let oldest = self.waiting.oldest();
        let is_done = |flush: &mut Flush| oldest.is_none_or(|oldest| oldest > flush.due);
        for flush in self.flushes.extract_if(.., is_done) {
            self.given_up.done(flush);
        }
        let cause = match next {
            Next::Send(_) => None,
            Next::Wait(_) | Next::Nothing => self.waiting.cause(),
        };
        if let Some(cause) = cause {
            for flush in self.flushes.drain(..) {
                flush.not_yet(self.waiting.len(), cause);
            }
        }
    }

    /// Tells the server what the event file holds that it just got.
    fn summarise(&mut self, index: usize, entry: &Entry, path: &str) {
        let Some((place, name)) = event_file(path) else {
            return;
        };
        let file = series::open(&self.route.folder.join(path));
        let read = file.and_then(|file| summary::of_events(file, place.line_kind()));
        // A file that cannot be read now is in the report of the end, where it is read again.
        let Ok(Some(summary)) = read else {
            return;
        };
        let mut record = lineage_of(place, name, summary.json);
        if let Some(store) = &self.route.store {
            record.insert("connection".to_owned(), store.as_str().into());
        }
        let record = Value::from(record);
        if self.summaries.get(path) != Some(&record) {
            self.summaries.insert(path.to_owned(), record.clone());
            let parcel = Parcel::lineage(vec![record], 0);
            self.waiting.follow_up(index, entry, parcel);
        }
    }

    /// Answers what was sent, and what not.
    fn finish(&mut self) {
        self.answer_flushes(Next::Nothing);
        self.flushes.drain(..).for_each(Flush::ended);
        for entry in self.waiting.drain() {
            let cause = self.waiting.cause_of(&entry);
            self.given_up.add(entry.parcel.unsent(cause.as_ref()));
            self.close(&entry.parcel);
        }
        if let Some(ending) = self.ending.take() {
            let route = &self.route;
            let files = self.uploads.as_ref();
            let ended = Ended {
                sent: self.sent,
                unsent: self.given_up.take(),
                files: files.map(|files| Sent::new(&route.runs, route.run, files.sent())),
            };
            // The writer waits for it.
            let _ = ending.answer.send(ended);
        }
    }
}

/// Which of the files that changed are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// Those whose time it is: one that grows is not sent whole again for every line.
    Due,
    All,
}

impl Route {
    async fn send(&self, parcel: &Parcel) -> Result<(), polyaxon_client::Error> {
        match parcel {
            Parcel::Change { body, .. } => self.runs.update(self.run, body).await,
            Parcel::Lineage { records, .. } => self.runs.log_lineage(self.run, records).await,
            Parcel::Status(condition) => self.runs.log_condition(self.run, condition).await,
            Parcel::File(path) => {
                let upload = Upload::new(self.folder.join(path), path.as_str());
                self.runs.upload(&self.namespace, self.run, &upload).await
            }
        }
    }

    /// Whether the same call can do better later; and whether the server is the open-source
    /// edition, where that was found out.
    async fn is_worth_waiting(&self, error: &polyaxon_client::Error) -> (bool, Option<bool>) {
        let status = error.status().map(|status| status.as_u16());
        if !error.is_retryable() || status != Some(405) {
            return (error.is_retryable(), None);
        }
        // The open-source server says so when its database is locked; any other means it.
        match self.is_community {
            Some(known) => (known, Some(known)),
            None => match self.runs.is_community_server().await {
                Ok(known) => (known, Some(known)),
                Err(_) => (true, None),
            },
        }
    }
}

/// Which series a path below the run's folder is of.
fn event_file(path: &str) -> Option<(Place, &str)> {
    let path = path.strip_suffix(".plx")?;
    if let Some(name) = path.strip_prefix("resources/metric/") {
        return Some((Place::Resources, name));
    }
    let (kind, name) = path.strip_prefix("events/")?.split_once('/')?;
    let kind = serde_json::from_value(kind.into()).ok()?;
    Some((Place::Events(kind), name))
}

/// For the report: what could not be sent, in the words of its members.
fn names_of(records: &[Value]) -> Sending {
    let name = |record: &Value| Some(record.get("name")?.as_str()?.to_owned());
    Sending::Lineage(records.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArtifactKind;

    #[test]
    fn event_files_are_told_from_others_by_their_paths() {
        let table = [
            (
                "events/metric/loss.plx",
                Some((Place::Events(ArtifactKind::Metric), "loss")),
            ),
            ("resources/metric/cpu.plx", Some((Place::Resources, "cpu"))),
            ("events/bogus/x.plx", None),
            ("outputs/events/metric/x.plx", None),
            ("events/metric/x.txt", None),
            ("plxlogs/logs.jsonl", None),
        ];
        for (path, expected) in table {
            assert_eq!(event_file(path), expected, "{path}");
        }
    }
}
