//! The writer: the only one that touches the files of a run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::artifact::RunFolder;
use crate::error::Error;
use crate::files::{self, EventFiles};
use crate::lineage::Lineages;
use crate::metrics::{EXTENSION, HEADER, push_event};
use crate::name::Name;
use crate::queue::{Command, Room};
use crate::record::{Ending, RunRecord};
use crate::report::{Missing, Report, Unwritten};
use crate::run::Tracking;
use crate::{series, summary};

/// How many commands are read from the queue before the files are written. Whatever waits up to
/// this many becomes one write a file.
const BATCH: usize = 8192;

/// How often the metadata files are written while the run goes on, and how soon a write that
/// failed is tried again.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Writer {
    folder: RunFolder,
    room: Arc<Room>,
    files: EventFiles,
    series: BTreeMap<Name, Series>,
    /// The series that have something to write.
    waiting: Vec<Name>,
    record: RunRecord,
    lineages: Lineages,
    record_changed: bool,
    lineages_changed: bool,
    /// Not before then are the metadata files written again.
    metadata_due: Instant,
    written: u64,
    /// What is missing and will not be tried again.
    lost: Vec<Unwritten>,
    /// One line of text at a time is made here.
    line: String,
}

#[derive(Debug, Default)]
struct Series {
    /// Bytes for the file, and how many values they are.
    bytes: Vec<u8>,
    values: u64,
    last: f64,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    cause: io::Error,
    retry: Instant,
}

impl Writer {
    /// Makes the folders of the run and its record, or finds those of a run that is continued.
    pub(crate) fn open(tracking: &Tracking, room: Arc<Room>) -> Result<Self, Error> {
        let folder = RunFolder::new(&tracking.offline_root, tracking.uuid)?;
        for name in ["outputs", "events", "assets"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        }
        let record_path = folder.join(RECORD);
        let writer = Self {
            record: RunRecord::start(tracking, tracking.uuid, &record_path)?,
            lineages: Lineages::load(&folder.join(LINEAGES))?,
            files: EventFiles::new(folder.root.clone()),
            folder,
            room,
            series: BTreeMap::new(),
            waiting: Vec::new(),
            record_changed: false,
            lineages_changed: false,
            metadata_due: Instant::now() + INTERVAL,
            written: 0,
            lost: Vec::new(),
            line: String::new(),
        };
        // From here on the folder is a run, even where the process is killed at once.
        let bytes = writer
            .record_json()
            .map_err(Error::io("write", &record_path))?;
        files::replace(&record_path, &bytes).map_err(Error::io("write", &record_path))?;
        Ok(writer)
    }

    pub(crate) fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Carries out commands until the run ends, or nobody is there to end it.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let command = match self.wake() {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => commands.recv_timeout(wait),
            };
            let goes_on = match command {
                Ok(command) => self.carry_out(command, commands),
                Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
                Err(RecvTimeoutError::Disconnected) => return self.abandon(commands),
            };
            // Take what else is there: it goes into the same writes.
            let mut more = commands.try_iter().take(BATCH);
            let goes_on = goes_on
                .is_continue()
                .then(|| more.try_for_each(|command| self.carry_out(command, commands)));
            if goes_on.is_none_or(|flow| flow.is_break()) {
                return;
            }
            self.write_events(Tries::Due);
            self.write_metadata_if_due();
        }
    }

    /// How long it can sleep where nothing comes.
    fn wake(&self) -> Option<Duration> {
        let retries = self
            .waiting
            .iter()
            .filter_map(|name| Some(self.series.get(name)?.failure.as_ref()?.retry));
        let metadata = self.metadata_changed().then_some(self.metadata_due);
        let next = retries.chain(metadata).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn carry_out(&mut self, command: Command, commands: &Receiver<Command>) -> ControlFlow<()> {
        match command {
            Command::Value(name, stamp, value) => {
                self.line.clear();
                push_event(&mut self.line, stamp, value);
                let series = self.series.entry(name.clone()).or_default();
                if series.bytes.is_empty() {
                    self.waiting.push(name);
                }
                series.bytes.extend_from_slice(self.line.as_bytes());
                series.values += 1;
                series.last = value;
                self.record_changed = true;
                self.record.mark_metrics();
            }
            Command::Change(change) => {
                self.record.apply(change);
                self.record_changed = true;
                self.room.give_back(1);
            }
            Command::Artifact(name, reference) => {
                let (record, failed) = reference.record(&name, &self.folder);
                self.lineages_changed |= self.lineages.put(record);
                if let Some((path, cause)) = failed {
                    self.lose(Missing::Hash, path, cause);
                }
                self.room.give_back(1);
            }
            Command::Flush(answer) => {
                let result = self.flush();
                // Whoever does not wait any more does not want to know.
                let _ = answer.send(result);
            }
            Command::End(ending, answer) => {
                let report = self.finish(&ending);
                if let Err(report) = answer.send(report) {
                    log_unread(&report);
                }
                return ControlFlow::Break(());
            }
            Command::Abandon => {
                self.room.close();
                // What callers on other threads are handing over this very moment comes along.
                for command in commands.try_iter() {
                    if !matches!(command, Command::Abandon) {
                        self.carry_out(command, commands)?;
                    }
                }
                self.abandon(commands);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn abandon(&mut self, commands: &Receiver<Command>) {
        let report = self.finish(&Ending::dropped());
        tracing::warn!(
            run = %self.folder.uuid,
            written = report.written,
            "a tracked run was dropped without being ended; it is recorded as failed"
        );
        log_unread(&report);
        let late = commands.try_iter().count();
        if late > 0 {
            tracing::error!(late, "logged while the runtime ended, and lost");
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write_events(Tries::All);
        let metadata = self.write_metadata(files::replace);
        let failed = self.waiting.iter().find_map(|name| {
            let series = self.series.get(name)?;
            Some((name, series.values, series.failure.as_ref()?))
        });
        if let Some((name, events, failure)) = failed {
            return Err(Error::NotYetWritten {
                events,
                path: self.event_path(name),
                source: same(&failure.cause),
            });
        }
        match metadata.into_iter().next() {
            None => Ok(()),
            Some(unwritten) => Err(Error::Io {
                action: "write",
                path: unwritten.path,
                source: unwritten.cause,
            }),
        }
    }

    fn write_events(&mut self, tries: Tries) {
        let now = Instant::now();
        for name in std::mem::take(&mut self.waiting) {
            let path = self.event_path(&name);
            let Some(series) = self.series.get_mut(&name) else {
                continue;
            };
            let is_due = series.failure.as_ref().is_none_or(|f| f.retry <= now);
            if is_due || tries == Tries::All {
                let result = self.files.append(&path, HEADER, &mut series.bytes);
                let left = values_in(&series.bytes);
                let done = series.values - left;
                series.values = left;
                self.written += done;
                self.room
                    .give_back(usize::try_from(done).unwrap_or(usize::MAX));
                series.failure = result.err().map(|cause| {
                    tracing::warn!(path = %path.display(), %cause, "an event file cannot be written");
                    Failure {
                        cause,
                        retry: now + INTERVAL,
                    }
                });
            }
            if !series.bytes.is_empty() {
                self.waiting.push(name);
            }
        }
    }

    fn metadata_changed(&self) -> bool {
        self.record_changed || self.lineages_changed
    }

    fn write_metadata_if_due(&mut self) {
        if self.metadata_changed() && self.metadata_due <= Instant::now() {
            for failed in self.write_metadata(files::replace) {
                let (path, cause) = (failed.path.display(), failed.cause);
                tracing::warn!(%path, %cause, "the metadata of a run cannot be written");
            }
        }
    }

    /// Writes what has changed. What could not be written is answered, and counts as changed still.
    fn write_metadata(&mut self, put: fn(&Path, &[u8]) -> io::Result<()>) -> Vec<Unwritten> {
        let mut failed = Vec::new();
        if self.record_changed {
            let path = self.folder.join(RECORD);
            match self.record_json().and_then(|json| put(&path, &json)) {
                Ok(()) => self.record_changed = false,
                Err(cause) => failed.push(Unwritten {
                    what: Missing::Record,
                    path,
                    cause,
                }),
            }
        }
        if self.lineages_changed && !self.lineages.is_empty() {
            let path = self.folder.join(LINEAGES);
            let json = self.lineages.to_json().map_err(io::Error::from);
            match json.and_then(|json| put(&path, &json)) {
                Ok(()) => self.lineages_changed = false,
                Err(cause) => failed.push(Unwritten {
                    what: Missing::Lineages,
                    path,
                    cause,
                }),
            }
        }
        self.metadata_due = Instant::now() + INTERVAL;
        failed
    }

    fn record_json(&self) -> io::Result<Vec<u8>> {
        let last = self
            .series
            .iter()
            .map(|(name, series)| (name.as_str().to_owned(), summary::finite(series.last)));
        Ok(self.record.to_json(last)?)
    }

    /// Events first, then what is derived from them, then the status: a run that says it has ended
    /// is complete.
    fn finish(&mut self, ending: &Ending) -> Report {
        self.write_events(Tries::All);
        for name in std::mem::take(&mut self.waiting) {
            let path = self.event_path(&name);
            if let Some(series) = self.series.get_mut(&name)
                && let Some(failure) = series.failure.take()
            {
                let values = series.values;
                self.lose(Missing::Values(values), path, failure.cause);
            }
        }
        self.summarise();
        self.record.end(ending);
        self.record_changed = true;
        let failed = self.write_metadata(files::replace_for_good);
        self.lost.extend(failed);
        Report {
            written: self.written,
            unwritten: std::mem::take(&mut self.lost),
        }
    }

    /// A lineage record for every metric of the run's folder, whoever wrote it. The files are read
    /// for that, as other processes may have written to them too.
    fn summarise(&mut self) {
        let folder = self.folder.join("events/metric");
        let paths = match event_files(&folder) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.lose(Missing::Summary, folder, error),
        };
        let mut last_values = Map::new();
        for (name, path) in paths {
            match series::open(&path).and_then(summary::of_metric) {
                Ok(None) => {}
                Ok(Some(summary)) => {
                    let record = lineage_of_metric(&name, summary.json);
                    self.lineages_changed |= self.lineages.put(record);
                    last_values.insert(name, summary::finite(summary.last));
                }
                Err(error) => self.lose(Missing::Summary, path, error),
            }
        }
        self.record.set_last_values(last_values);
    }

    fn lose(&mut self, what: Missing, path: PathBuf, cause: io::Error) {
        self.lost.push(Unwritten { what, path, cause });
    }

    fn event_path(&self, name: &Name) -> PathBuf {
        self.folder
            .join(&format!("events/metric/{}.{EXTENSION}", name.as_str()))
    }
}

const RECORD: &str = "run.plx.json";
const LINEAGES: &str = "lineages.plx.json";

/// Which of the files that failed before are tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tries {
    Due,
    All,
}

/// How many values are not, or not wholly, written when these bytes are left of them.
fn values_in(bytes: &[u8]) -> u64 {
    // Every value begins with its line break; what comes before the first is the rest of another.
    let begun = bytes.iter().filter(|byte| **byte == b'\n').count();
    let torn = bytes.first().is_some_and(|byte| *byte != b'\n');
    begun as u64 + u64::from(torn)
}

/// The event files of one kind by their names, in the order of these.
fn event_files(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == EXTENSION)
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            files.insert(name.to_owned(), path);
        }
    }
    Ok(files)
}

fn lineage_of_metric(name: &str, summary: Value) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("name".to_owned(), name.into());
    record.insert("kind".to_owned(), "metric".into());
    record.insert(
        "path".to_owned(),
        format!("events/metric/{name}.{EXTENSION}").into(),
    );
    record.insert("summary".to_owned(), summary);
    record.insert("is_input".to_owned(), json!(false));
    record
}

/// The log is all that is left where nobody reads a report.
fn log_unread(report: &Report) {
    for lost in report.unwritten() {
        let (path, cause) = (lost.path.display(), &lost.cause);
        tracing::error!(what = ?lost.what, %path, %cause, "lost at the end of a tracked run");
    }
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
