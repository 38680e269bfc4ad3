//! The writer's end: what it hands to the sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polyaxon_client::runs::RunStatus;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::Parcel;
use crate::error::Error;
use crate::plan::{Duties, Post};
use crate::record::{Change, Merge, RunRecord};
use crate::report::Unsent;
use crate::sent::Sent;
use crate::writer::Summaries;

/// What became of it all.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How many calls the server took.
    pub(crate) sent: u64,
    /// What it did not get.
    pub(crate) unsent: Vec<Unsent>,
    /// The files that it has, where this process uploads them.
    pub(crate) files: Option<Sent>,
}

#[derive(Debug)]
pub(super) enum Letter {
    Parcel(Parcel),
    Flush(oneshot::Sender<Result<(), Error>>),
    /// The run has ended.
    Last(Last, std::sync::mpsc::Sender<Ended>),
}

/// What is sent once the run has ended, after its files.
#[derive(Debug)]
pub(crate) struct Last {
    pub(super) parcels: Vec<Parcel>,
    /// The final status.
    pub(super) status: Option<Value>,
    pub(super) limit: Duration,
}

/// Hands over what is to be sent. The channel has no bound of its own: what callers log has taken
/// room in the queue, which it keeps until it is sent, and what the writer adds is little.
#[derive(Debug)]
pub(crate) struct Mail {
    letters: UnboundedSender<Letter>,
    is_behind: Arc<AtomicBool>,
    duties: Duties,
    store: Option<String>,
    limit: Duration,
}

/// How long sending may go on when nobody waits for the end of the run but a runtime that ends.
const SHORT_LIMIT: Duration = Duration::from_secs(15);

impl Mail {
    pub(super) fn new(
        letters: UnboundedSender<Letter>,
        is_behind: Arc<AtomicBool>,
        post: &Post,
    ) -> Self {
        Self {
            letters,
            is_behind,
            duties: post.duties,
            store: post.store.clone(),
            limit: post.limit,
        }
    }

    pub(crate) fn post(&self, parcel: Parcel) {
        // The sender lives until it has the last letter.
        let _ = self.letters.send(Letter::Parcel(parcel));
    }

    /// Posts the newest status, where that is this process's to do.
    pub(crate) fn status(&self, record: &RunRecord) {
        if self.duties.has_statuses()
            && let Some(condition) = record.last_condition()
        {
            self.post(Parcel::Status(condition.clone()));
        }
    }

    /// Answers once the server has all that was posted before, or a try has failed.
    pub(crate) fn flush(&self, answer: oneshot::Sender<Result<(), Error>>) {
        let _ = self.letters.send(Letter::Flush(answer));
    }

    /// Whether there is something that the server has not and cannot be sent for now.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    /// What is left to be sent of a run that has ended.
    pub(crate) fn last(&self, summaries: Summaries, record: &RunRecord, patient: bool) -> Last {
        let mut parcels = Vec::new();
        let lineage = |records: Vec<Value>| {
            let records = records.into_iter().map(|record| self.in_store(record));
            Parcel::lineage(records.collect(), 0)
        };
        if self.duties.has_event_lineage() {
            parcels.push(lineage(summaries.events));
        }
        if !summaries.outputs.is_empty() {
            let outputs = Change::Outputs(summaries.outputs, Merge::Keep);
            parcels.push(Parcel::change(&outputs, 0));
        }
        if self.duties.has_event_lineage() {
            parcels.push(lineage(summaries.resources));
        }
        let is_final = record.status().is_some_and(RunStatus::is_final);
        let status = record.last_condition();
        let status = status.filter(|_| self.duties.has_final_status() && is_final);
        let status = status.cloned();
        let limit = match patient {
            true => self.limit,
            false => self.limit.min(SHORT_LIMIT),
        };
        Last {
            parcels,
            status,
            limit,
        }
    }

    /// The record of an event file with the store that the file ends up in.
    fn in_store(&self, mut record: Value) -> Value {
        if let (Some(store), Some(members)) = (&self.store, record.as_object_mut()) {
            members.insert("connection".to_owned(), store.as_str().into());
        }
        record
    }

    /// Waits until everything is sent, or the time for it is up.
    pub(crate) fn finish(self, last: Last) -> Ended {
        let (answer, answered) = std::sync::mpsc::channel();
        let sent = self.letters.send(Letter::Last(last, answer));
        match sent.ok().and_then(|()| answered.recv().ok()) {
            Some(ended) => ended,
            // No thread or runtime could be had for it.
            None => Ended {
                sent: 0,
                unsent: vec![Unsent {
                    what: crate::report::Sending::Record(Vec::new()),
                    cause: None,
                }],
                files: None,
            },
        }
    }
}
