//! What waits to be appended to the files of a run.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use crate::artifact::RunFolder;
use crate::error::Error;
use crate::files::EventFiles;
use crate::kind::{MetricId, Place, SeriesKey};
use crate::queue::Room;

use super::INTERVAL;

/// The series of a run with the lines that wait for their files.
#[derive(Debug)]
pub(super) struct Lines {
    folder: RunFolder,
    files: EventFiles,
    series: Vec<Series>,
    /// Where in `series` each of them is; and the metrics, by their numbers.
    slots: BTreeMap<SeriesKey, usize>,
    metrics: Vec<usize>,
    /// The series that have something to write.
    waiting: Vec<usize>,
}

#[derive(Debug)]
struct Series {
    place: Place,
    path: PathBuf,
    header: String,
    /// Bytes for the file, and how many values they are.
    bytes: Vec<u8>,
    values: u64,
    /// The last number, of a series of numbers.
    last: Option<f64>,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    cause: io::Error,
    retry: Instant,
}

/// Which of the files that failed before are tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tries {
    Due,
    All,
}

impl Lines {
    pub(super) fn new(folder: RunFolder) -> Self {
        Self {
            files: EventFiles::new(folder.root.clone()),
            folder,
            series: Vec::new(),
            slots: BTreeMap::new(),
            metrics: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Appends a line to what waits; it begins with its line break.
    pub(super) fn push(&mut self, key: SeriesKey, line: &str, number: Option<f64>) {
        let slot = self.slot_of(key);
        self.push_at(slot, line, number);
    }

    /// Gives a metric the next number.
    pub(super) fn add_metric(&mut self, key: SeriesKey) {
        let slot = self.slot_of(key);
        self.metrics.push(slot);
    }

    /// As [`push`](Self::push), of a metric that was added: its number is sent behind its name.
    pub(super) fn push_metric(&mut self, MetricId(id): MetricId, line: &str, value: f64) {
        if let Some(slot) = self.metrics.get(id) {
            self.push_at(*slot, line, Some(value));
        }
    }

    fn slot_of(&mut self, key: SeriesKey) -> usize {
        if let Some(slot) = self.slots.get(&key) {
            return *slot;
        }
        let slot = self.series.len();
        self.series.push(Series {
            place: key.place,
            path: self.folder.join(&key.path()),
            header: key.header(),
            bytes: Vec::new(),
            values: 0,
            last: None,
            failure: None,
        });
        self.slots.insert(key, slot);
        slot
    }

    fn push_at(&mut self, slot: usize, line: &str, number: Option<f64>) {
        let Some(series) = self.series.get_mut(slot) else {
            return;
        };
        if series.bytes.is_empty() {
            self.waiting.push(slot);
        }
        series.bytes.extend_from_slice(line.as_bytes());
        series.values += 1;
        series.last = number;
    }

    /// When the next of the files that failed is due.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let of = |slot: &usize| Some(self.series.get(*slot)?.failure.as_ref()?.retry);
        self.waiting.iter().filter_map(of).min()
    }

    /// Writes what waits. Gives back the room of what is in its file; answers how many values of
    /// events that were.
    pub(super) fn write(&mut self, tries: Tries, room: &Room) -> u64 {
        let now = Instant::now();
        let mut written = 0;
        for slot in std::mem::take(&mut self.waiting) {
            let Some(series) = self.series.get_mut(slot) else {
                continue;
            };
            let is_due = series.failure.as_ref().is_none_or(|f| f.retry <= now);
            if is_due || tries == Tries::All {
                let result = self
                    .files
                    .append(&series.path, &series.header, &mut series.bytes);
                let left = values_in(&series.bytes);
                let done = series.values - left;
                series.values = left;
                if series.place.is_event() {
                    written += done;
                }
                if series.place != Place::Resources {
                    room.give_back(usize::try_from(done).unwrap_or(usize::MAX));
                }
                series.failure = result.err().map(|cause| {
                    let path = series.path.display();
                    tracing::warn!(%path, %cause, "an event file cannot be written");
                    Failure {
                        cause,
                        retry: now + INTERVAL,
                    }
                });
            }
            if !series.bytes.is_empty() {
                self.waiting.push(slot);
            }
        }
        written
    }

    /// What of it could not be written so far.
    pub(super) fn failure(&self) -> Option<Error> {
        self.waiting.iter().find_map(|slot| {
            let series = self.series.get(*slot)?;
            let failure = series.failure.as_ref()?;
            Some(Error::NotYetWritten {
                events: series.values,
                path: series.path.clone(),
                source: same(&failure.cause),
            })
        })
    }

    /// Gives up what waits: how many values of which file, and why.
    pub(super) fn give_up(&mut self) -> Vec<(u64, PathBuf, io::Error)> {
        let mut lost = Vec::new();
        for slot in std::mem::take(&mut self.waiting) {
            if let Some(series) = self.series.get_mut(slot)
                && let Some(failure) = series.failure.take()
            {
                lost.push((series.values, series.path.clone(), failure.cause));
            }
        }
        lost
    }

    /// The last value of every metric.
    pub(super) fn last_values(&self) -> impl Iterator<Item = (String, f64)> {
        self.slots.iter().filter_map(|(key, slot)| {
            let last = self.series.get(*slot)?.last;
            let last = last.filter(|_| key.place.is_event())?;
            Some((key.name.as_str().to_owned(), last))
        })
    }
}

/// How many values are not, or not wholly, written when these bytes are left of them.
fn values_in(bytes: &[u8]) -> u64 {
    // Every value begins with its line break; what comes before the first is the rest of another.
    let begun = bytes.iter().filter(|byte| **byte == b'\n').count();
    let torn = bytes.first().is_some_and(|byte| *byte != b'\n');
    begun as u64 + u64::from(torn)
}

/// The same error once more; those of the system have a number, which is all there is to them.
fn same(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_wholly_written_are_counted() {
        let table = [
            ("", 0),
            ("\n1|t|2.0", 1),
            ("2.0", 1),
            ("2.0\n1|t|2.0\n1", 3),
        ];
        for (bytes, expected) in table {
            assert_eq!(values_in(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }
}
