//! Plays a journal: gives a machine the answers that are in it, and compares the records that the
//! machine makes of them with those that are there.

mod places;

use std::collections::VecDeque;

use crate::acceptance::{At, Verdict};
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::journal::{
    Durability, Ended, Event, Intended, Placed, Placing, Prepared, Receipt, Record, ReplyRecord,
    Resumed, Stopped,
};
use crate::machine::{Circumstances, Effect, Machine};
use crate::model::{ModelError, ModelReply};
use crate::outcome::End;
use crate::patch;

pub(crate) use places::{FreshPlaces, LeftOver};

/// What playing a journal has led to.
pub(crate) struct Played {
    pub(crate) machine: Machine,
    /// Records that come next and are not there.
    pub(crate) expected: VecDeque<(Event, Durability)>,
    /// The place of the command that was last started, before it was started.
    pub(crate) prepared: Option<Prepared>,
    /// The fresh places of commands.
    pub(crate) places: FreshPlaces,
    /// The last request for which a place was made.
    pub(crate) last_place: Option<RequestId>,
    /// The last record, with what became of the workspace after it.
    pub(crate) ended: Option<Ended>,
    pub(crate) differences: Vec<Difference>,
}

/// A record that is not what it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The number of the record, from 0.
    pub(crate) at: u64,
    pub(crate) kind: &'static str,
    /// What should be there; nothing where nothing can be.
    pub(crate) expected: Option<Box<Event>>,
}

/// Plays `records`. Where one of them is of another kind than it should be, the rest is not played.
pub(crate) fn play<'a>(machine: Machine, records: impl IntoIterator<Item = &'a Record>) -> Played {
    let mut played = Played {
        machine,
        expected: VecDeque::new(),
        prepared: None,
        places: FreshPlaces::default(),
        last_place: None,
        ended: None,
        differences: Vec::new(),
    };
    for record in records {
        if !played.take(record.seq, &record.event) {
            break;
        }
    }
    played
}

impl Played {
    /// Takes the next record. False where the rest makes no sense after it.
    fn take(&mut self, at: u64, event: &Event) -> bool {
        let found = match event {
            Event::Resumed(resumed) if self.ended.is_none() => {
                return self.resume(at, resumed);
            }
            Event::Stopped(Stopped { stop }) => match &mut self.ended {
                Some(ended) => {
                    ended.stop = stop.clone();
                    return true;
                }
                None => None,
            },
            Event::Placing(placing) if self.is_asked_for_now(placing) => {
                self.places.asked(placing);
                return true;
            }
            Event::Placed(placed) if self.is_made_now(placed) => {
                self.places.made(placed);
                return true;
            }
            Event::Left(left) if self.ended.is_none() && self.places.leave(&left.id) => {
                return true;
            }
            Event::Prepared(prepared) if self.is_being_run(prepared) => {
                self.prepared = Some(prepared.clone());
                return true;
            }
            Event::Ended(ended) if self.ended.is_none() => self.end(ended),
            _ if self.ended.is_some() => None,
            _ => self.next(event),
        };
        let is_like = found
            .as_ref()
            .is_some_and(|found| found.kind() == event.kind());
        if !found.as_ref().is_some_and(|found| is_same(found, event)) {
            self.differences.push(Difference {
                at,
                kind: event.kind(),
                expected: found.map(Box::new),
            });
        }
        if let Event::Intent(intent) = event
            && matches!(intent.effect, Intended::Stage { .. })
        {
            self.last_place = Some(intent.id.clone());
        }
        if let (true, Event::Ended(ended)) = (is_like, event) {
            self.ended = Some(ended.clone());
        }
        is_like
    }

    /// What should be there in place of `event`.
    fn next(&mut self, event: &Event) -> Option<Event> {
        if self.expected.is_empty() {
            if !self.is_consistent(event) || !self.machine.take(event) {
                return None;
            }
            self.expected.extend(self.machine.take_records());
        }
        self.expected.pop_front().map(|(event, _)| event)
    }

    /// Whether a receipt of a command agrees with what was written down before it ran.
    fn is_consistent(&self, event: &Event) -> bool {
        let Event::Receipt(Receipt {
            answer: crate::journal::Answer::Stage(run),
            ..
        }) = event
        else {
            return true;
        };
        self.prepared.as_ref().is_some_and(|prepared| {
            (&prepared.id, prepared.place) == (&run.id, run.place)
                && (&prepared.identity, &prepared.before) == (&run.identity, &run.before)
        })
    }

    /// Where the command `id` is to run, if it is being carried out now.
    fn running_at(&self, id: &RequestId) -> Option<At> {
        match self.machine.doing() {
            Some((doing, Effect::Stage { check, stage, .. }))
                if doing == id && self.expected.is_empty() =>
            {
                check.plan.stages.get(*stage).map(|stage| stage.at)
            }
            _ => None,
        }
    }

    /// Whether a fresh place is asked for by what is being carried out.
    fn is_asked_for_now(&self, placing: &Placing) -> bool {
        self.running_at(&placing.id) == Some(At::Fresh) && self.places.is_asked_anew(placing)
    }

    /// Whether a fresh place belongs to what is being carried out, and is fresh.
    fn is_made_now(&self, placed: &Placed) -> bool {
        self.running_at(&placed.id) == Some(At::Fresh)
            && self.places.is_new(placed, self.machine.workspace())
    }

    /// Whether a command is about to be started where it should be.
    fn is_being_run(&self, prepared: &Prepared) -> bool {
        match self.running_at(&prepared.id) {
            Some(At::Fresh) => self.places.is_at(&prepared.id, &prepared.identity),
            Some(At::Here) => places::is_beside(self.machine.workspace(), &prepared.identity),
            None => false,
        }
    }

    /// Records that were lost are made again after it; where none were, something was interrupted.
    fn resume(&mut self, at: u64, resumed: &Resumed) -> bool {
        if at == 0 {
            self.differences.push(Difference {
                at,
                kind: "resumed",
                expected: None,
            });
            return false;
        }
        if self.expected.is_empty() {
            self.machine.resumed(resumed.clone());
            self.expected.extend(self.machine.take_records());
            self.expected.pop_front();
        }
        true
    }

    /// The last record as it should be, with what only it can say taken from it.
    fn end(&mut self, ended: &Ended) -> Option<Event> {
        if !self.expected.is_empty() {
            return self.expected.pop_front().map(|(event, _)| event);
        }
        if self.machine.ended().is_none() {
            match ended.end {
                End::Cancelled => self.machine.cancel(),
                _ => drop(self.machine.next(ended.elapsed)),
            }
        }
        if let Some((event, _)) = self.machine.take_records().into_iter().next() {
            return Some(event);
        }
        let end = self.machine.ended()?;
        let summary = self.machine.summary();
        let patch = patch::diff(summary.base, summary.known).ok()?;
        let circumstances = Circumstances {
            patch_sha256: Digest::of(&patch),
            stop: ended.stop.clone(),
            total: ended.total,
            files_kept: ended.files_kept,
            evidence_errors: ended.evidence_errors.clone(),
        };
        Some(Event::Ended(summary.ended(end, circumstances)))
    }
}

/// Whether two records are the same. A score may lose its last bit on its way through a text.
fn is_same(computed: &Event, read: &Event) -> bool {
    let (Event::Judged(left), Event::Judged(right)) = (computed, read) else {
        return computed == read;
    };
    let mut left = left.clone();
    if let (Verdict::Pass { score: Some(x), .. }, Verdict::Pass { score: Some(y), .. }) =
        (&mut left.verdict, &right.verdict)
        && (*x - y).abs() <= 2.0 * f64::EPSILON * y.abs()
    {
        *x = *y;
    }
    left == *right
}

/// A reply as the model gave it.
pub(crate) fn reply(record: &ReplyRecord) -> Result<ModelReply, ModelError> {
    match record {
        ReplyRecord::Reply {
            text,
            finish,
            usage,
            cost,
            served_by,
            queue,
        } => {
            let mut reply = ModelReply::new(text).finish(*finish).usage(*usage);
            reply.cost = *cost;
            reply.served_by.clone_from(served_by);
            reply.queue = *queue;
            Ok(reply)
        }
        ReplyRecord::Failed(error) => Err(error.clone()),
    }
}
