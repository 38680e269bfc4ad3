//! The writer: the only one that touches the files of a run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::ArtifactKind;
use crate::artifact::RunFolder;
use crate::error::Error;
use crate::files::{self, Source};
use crate::kind::{EXTENSION, Place, SeriesKey};
use crate::line::{Clock, push_number};
use crate::lineage::Lineages;
use crate::mailbox::Inbox;
use crate::metrics::At;
use crate::name::Name;
use crate::plan::{Duties, Plan};
use crate::queue::{Command, Copying, Room, Then};
use crate::record::{Change, Ending, Merge, RunRecord};
use crate::report::{Missing, Report, Unwritten};
use crate::resources::Sampler;
use crate::run::LastPanic;
use crate::sender::{Mail, Parcel};
use crate::{sent, summary};
use lines::{Lines, Tries};
use progress::Progress;
pub(crate) use summaries::Summaries;

mod lines;
mod progress;
mod summaries;

/// How many commands are carried out before the files are written. Whatever waits up to this many
/// becomes one write a file.
const BATCH: usize = 8192;

/// How often the metadata files are written while the run goes on, and how soon a write that
/// failed is tried again.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Writer {
    folder: RunFolder,
    room: Arc<Room>,
    lines: Lines,
    record: RunRecord,
    lineages: Lineages,
    progress: Progress,
    sampler: Option<Sampler>,
    /// Where the run is sent.
    mail: Option<Mail>,
    /// What made the program drop the run, perhaps.
    panics: LastPanic,
    record_changed: bool,
    lineages_changed: bool,
    /// Not before then are the metadata files written again.
    metadata_due: Instant,
    /// Whether they are there.
    has_metadata: bool,
    /// What this process does for a run that is sent.
    duties: Option<Duties>,
    written: u64,
    /// What is missing and will not be tried again.
    lost: Vec<Unwritten>,
    /// One line of text at a time is made here.
    line: String,
    clock: Clock,
    /// The kind of the last event, where the record has its marks: this is asked for every value.
    marked: Option<ArtifactKind>,
}

impl Writer {
    /// Makes the folders of the run and its record, or finds those of a run that is continued.
    pub(crate) fn open(
        plan: &Plan,
        room: Arc<Room>,
        mail: Option<Mail>,
        panics: LastPanic,
    ) -> Result<Self, Error> {
        let folder = plan.folder.clone();
        let record_path = folder.join(RECORD);
        // Before anything is made in what may be the folder of another run.
        let record = RunRecord::start(&plan.introduction, folder.uuid, &folder.root, &record_path)?;
        for name in ["outputs", "events", "assets"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        }
        let mut writer = Self {
            record,
            lineages: Lineages::load(&folder.join(LINEAGES))?,
            lines: Lines::new(folder.clone()),
            folder,
            room,
            progress: Progress::default(),
            sampler: plan.resources.map(Sampler::every),
            mail,
            panics,
            record_changed: false,
            lineages_changed: false,
            metadata_due: Instant::now() + INTERVAL,
            has_metadata: record_path.exists(),
            duties: plan.post.as_ref().map(|post| post.duties),
            written: 0,
            lost: Vec::new(),
            line: String::new(),
            clock: Clock::default(),
            marked: None,
        };
        if plan.post.is_some() {
            // What this process sends is noted at its end.
            sent::forget(&writer.folder.root);
        }
        if let (Some(mail), true) = (&writer.mail, plan.resumes()) {
            for change in writer.record.changes() {
                mail.post(Parcel::change(&change, 0));
            }
            let lineages = writer.lineages.records();
            if !lineages.is_empty() {
                mail.post(Parcel::lineage(lineages.to_vec(), 0));
            }
        }
        // From here on the folder is a run, even where the process is killed at once.
        if writer.keeps_record() {
            let bytes = writer
                .record_json()
                .map_err(Error::io("write", &record_path))?;
            files::replace(&record_path, &bytes).map_err(Error::io("write", &record_path))?;
            writer.has_metadata = true;
        }
        Ok(writer)
    }

    pub(crate) fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Carries out commands until the run ends, or nobody is there to end it.
    pub(crate) fn run(mut self, commands: &mut Inbox) {
        loop {
            self.sample_if_due();
            self.write_lines(Tries::Due);
            self.write_metadata_if_due();
            commands.wait(self.wake());
            // They all go into the same writes.
            for _ in 0..BATCH {
                let Some(command) = commands.next_taken() else {
                    break;
                };
                if self.carry_out(command, commands).is_break() {
                    return;
                }
            }
        }
    }

    /// How long it can sleep where nothing comes.
    fn wake(&self) -> Option<Duration> {
        // Where there is no record as long as all is sent, it looks now and then whether it is.
        let metadata = self.record_changed || self.lineages_changed;
        let metadata = metadata.then_some(self.metadata_due);
        let sample = self.sampler.as_ref().map(Sampler::due);
        let times = [self.lines.retry_at(), metadata, sample];
        let next = times.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn carry_out(&mut self, command: Command, commands: &mut Inbox) -> ControlFlow<()> {
        match command {
            Command::Metric(name) => {
                let key = SeriesKey::event(ArtifactKind::Metric, name);
                self.lines.add_metric(key);
            }
            Command::Value(number) => {
                let (id, stamp, value) = number.into_parts();
                self.line.clear();
                push_number(&mut self.line, &mut self.clock, stamp, value);
                self.lines.push_metric(id, &self.line, value);
                self.record_changed = true;
                self.mark_events(ArtifactKind::Metric);
            }
            Command::Begin => {
                if let Some(mail) = &self.mail {
                    mail.status(&self.record);
                }
            }
            Command::Line(key, line) => self.push_line(key, &line),
            Command::Change(change) => self.change(change, 1),
            Command::Progress(done) => {
                if let Some(change) = self.progress.step(done) {
                    self.change(change, 0);
                }
                let held = self.progress.held();
                self.record_changed |= held.is_some();
                if let Some(change) = held {
                    self.record.apply(change);
                }
                self.room.give_back(1);
            }
            Command::Status(change) => {
                let (reason, message) = (&change.reason, change.message.as_deref());
                if self.record.set_status(change.status, reason, message) {
                    self.record_changed = true;
                    if let Some(mail) = &self.mail {
                        mail.status(&self.record);
                    }
                }
                self.room.give_back(1);
            }
            Command::Artifact(name, reference) => self.refer(&name, *reference),
            Command::Copy(copying) => self.copy(*copying),
            Command::Flush(answer) => match (self.flush(), &self.mail) {
                (Ok(()), Some(mail)) => mail.flush(answer),
                // Whoever does not wait any more does not want to know.
                (result, _) => drop(answer.send(result)),
            },
            Command::End(ending, answer) => {
                let report = self.finish(&ending, Patience::Full);
                if let Err(report) = answer.send(report) {
                    log_unread(&report);
                }
                return ControlFlow::Break(());
            }
            Command::Abandon => {
                self.room.close();
                // What callers on other threads are handing over this very moment comes along.
                while let Some(command) = commands.next_there() {
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

    /// Appends a line that is no number.
    fn push_line(&mut self, key: SeriesKey, line: &str) {
        if let Place::Events(kind) = key.place {
            self.mark_events(kind);
        }
        self.lines.push(key, line, None);
    }

    fn mark_events(&mut self, kind: ArtifactKind) {
        if self.marked != Some(kind) {
            self.mark(kind.flags());
            self.marked = Some(kind);
        }
    }

    /// Tells the platform's pages to look for things of some kind.
    fn mark(&mut self, flags: &[&'static str]) {
        let added = self.record.mark(flags);
        if added.is_empty() {
            return;
        }
        self.record_changed = true;
        if let Some(mail) = &self.mail {
            let flags = added.into_iter().map(|flag| (flag.to_owned(), true.into()));
            mail.post(Parcel::change(
                &Change::Meta(flags.collect(), Merge::Keep),
                0,
            ));
        }
    }

    /// Carries out a change of the record, which has taken this much room.
    fn change(&mut self, change: Change, room: usize) {
        match self.mail.as_ref().filter(|_| !change.is_nothing()) {
            Some(mail) => mail.post(Parcel::change(&change, room)),
            None => self.room.give_back(room),
        }
        self.record.apply(change);
        self.record_changed = true;
        // It may have said otherwise.
        self.marked = None;
    }

    fn refer(&mut self, name: &Name, reference: crate::artifact::Reference) {
        let flags = reference.flags();
        let (record, failed) = reference.record(name, &self.folder);
        if let Some((path, cause)) = failed {
            self.lose(Missing::Hash, path, cause);
        }
        match &self.mail {
            Some(mail) => mail.post(Parcel::lineage(vec![record.clone().into()], 1)),
            None => self.room.give_back(1),
        }
        self.lineages_changed |= self.lineages.put(record);
        self.mark(flags);
    }

    fn copy(&mut self, copying: Copying) {
        let copied = files::put(&copying.from, &copying.to);
        match copied {
            Ok(()) => match copying.then {
                Then::Line(key, line) => self.push_line(key, &line),
                Then::Artifact(name, reference) => self.refer(&name, reference),
            },
            Err(cause) => {
                let path = match copying.from {
                    Source::Path(from) => from,
                    Source::Bytes(_) => copying.to,
                };
                self.lose(Missing::Copy, path, cause);
                self.room.give_back(1);
            }
        }
    }

    fn sample_if_due(&mut self) {
        let Some(sampler) = self.sampler.as_mut().filter(|s| s.due() <= Instant::now()) else {
            return;
        };
        // The clock is within the years that the platform knows.
        let Ok(stamp) = At::now().stamp() else {
            return;
        };
        for (name, value) in sampler.sample() {
            self.line.clear();
            push_number(&mut self.line, &mut self.clock, stamp, value);
            let key = SeriesKey {
                place: Place::Resources,
                name: Name::of_ours(name),
            };
            self.lines.push(key, &self.line, Some(value));
        }
    }

    fn abandon(&mut self, commands: &mut Inbox) {
        let ending = Ending::dropped(self.panics.take());
        let report = self.finish(&ending, Patience::Short);
        tracing::warn!(
            run = %self.folder.uuid,
            written = report.written,
            "a tracked run was dropped without being ended; it is recorded as failed"
        );
        log_unread(&report);
        let late = std::iter::from_fn(|| commands.next_there()).count();
        if late > 0 {
            tracing::error!(late, "logged while the runtime ended, and lost");
        }
    }

    fn write_lines(&mut self, tries: Tries) {
        self.written += self.lines.write(tries, &self.room);
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write_lines(Tries::All);
        let metadata = match self.metadata_wanted() {
            true => self.write_metadata(files::replace),
            false => Vec::new(),
        };
        if let Some(failure) = self.lines.failure() {
            return Err(failure);
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

    /// Whether the record is in the folder while the run goes on, whatever the server takes.
    fn keeps_record(&self) -> bool {
        self.duties.is_none_or(Duties::has_record)
    }

    /// Whether the metadata files are to be written. Where the platform collects the folder, they
    /// are not, as long as the server takes everything.
    fn metadata_wanted(&self) -> bool {
        let is_behind = |mail: &Mail| mail.is_behind();
        let wanted = self.keeps_record() || self.mail.as_ref().is_some_and(is_behind);
        wanted && (self.record_changed || self.lineages_changed || !self.has_metadata)
    }

    fn write_metadata_if_due(&mut self) {
        if self.metadata_due > Instant::now() {
            return;
        }
        self.metadata_due = Instant::now() + INTERVAL;
        if self.metadata_wanted() {
            for failed in self.write_metadata(files::replace) {
                let (path, cause) = (failed.path.display(), failed.cause);
                tracing::warn!(%path, %cause, "the metadata of a run cannot be written");
            }
        }
    }

    /// Writes what has changed. What could not be written is answered, and counts as changed still.
    fn write_metadata(&mut self, put: fn(&Path, &[u8]) -> io::Result<()>) -> Vec<Unwritten> {
        let mut failed = Vec::new();
        if self.record_changed || !self.has_metadata {
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
        if (self.lineages_changed || !self.has_metadata) && !self.lineages.is_empty() {
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
        self.has_metadata = true;
        self.metadata_due = Instant::now() + INTERVAL;
        failed
    }

    fn record_json(&self) -> io::Result<Vec<u8>> {
        let last = self.lines.last_values();
        let last = last.map(|(name, value)| (name, summary::finite(value)));
        match self.duties.is_none_or(Duties::has_final_status) {
            true => Ok(self.record.to_json(last)?),
            false => Ok(self.record.clone().without_statuses().to_json(last)?),
        }
    }

    /// Events first, then what is derived from them, then the status: a run that says it has ended
    /// is complete.
    fn finish(&mut self, ending: &Ending, patience: Patience) -> Report {
        self.write_lines(Tries::All);
        for (values, path, cause) in self.lines.give_up() {
            self.lose(Missing::Values(values), path, cause);
        }
        let summaries = self.summarise();
        self.record.end(ending);
        self.record_changed = true;
        let mut report = Report {
            written: self.written,
            unwritten: Vec::new(),
            sent: 0,
            unsent: Vec::new(),
        };
        let mail = self.mail.take();
        let is_sent = mail.is_some();
        if let Some(mail) = mail {
            if let Some(change) = self.progress.take_held() {
                mail.post(Parcel::change(&change, 0));
            }
            let last = mail.last(summaries, &self.record, patience == Patience::Full);
            // On the disk before the sending begins, which may take its time: until it is done,
            // this is all that is sure.
            if mail.is_behind() {
                self.write_metadata_for_good();
            } else if self.keeps_record() {
                // What fails here is tried again where it turns out to be needed.
                drop(self.write_metadata(files::replace));
            }
            let ended = mail.finish(last);
            report.sent = ended.sent;
            report.unsent = ended.unsent;
            if let (Some(files), false) = (ended.files, report.unsent.is_empty()) {
                files.write(&self.folder.root);
            }
        }
        match is_sent && report.unsent.is_empty() {
            // The server has it all: nothing is left to be sent from here.
            true => self.remove_metadata(),
            false => {
                // Again where they were written before, for another process on the same run can have
                // taken them away.
                self.record_changed = true;
                self.lineages_changed = true;
                self.write_metadata_for_good();
            }
        }
        report.unwritten = std::mem::take(&mut self.lost);
        report
    }

    fn write_metadata_for_good(&mut self) {
        let failed = self.write_metadata(files::replace_for_good);
        self.lost.extend(failed);
    }

    fn remove_metadata(&self) {
        if self.has_metadata {
            for name in [RECORD, LINEAGES] {
                // One that stays makes a later push repeat what was sent, which does no harm.
                drop(fs::remove_file(self.folder.join(name)));
            }
        }
    }

    fn lose(&mut self, what: Missing, path: PathBuf, cause: io::Error) {
        self.lost.push(Unwritten { what, path, cause });
    }
}

/// How long the end of a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Somebody waits for it.
    Full,
    /// Nobody does but the end of a runtime.
    Short,
}

pub(crate) const RECORD: &str = "run.plx.json";
pub(crate) const LINEAGES: &str = "lineages.plx.json";

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

/// The lineage record of an event file.
pub(crate) fn lineage_of(place: Place, name: &str, summary: Value) -> Map<String, Value> {
    let mut record = Map::new();
    let kind = place.lineage_kind().as_str();
    let path = format!("{}/{name}.{EXTENSION}", place.folder());
    record.insert("name".to_owned(), name.into());
    record.insert("kind".to_owned(), kind.into());
    record.insert("path".to_owned(), path.into());
    record.insert("summary".to_owned(), summary);
    record.insert("is_input".to_owned(), false.into());
    record
}

/// The log is all that is left where nobody reads a report.
fn log_unread(report: &Report) {
    for lost in report.unwritten() {
        let (path, cause) = (lost.path.display(), &lost.cause);
        tracing::error!(what = ?lost.what, %path, %cause, "lost at the end of a tracked run");
    }
    for unsent in report.unsent() {
        tracing::error!(what = ?unsent.what, cause = unsent.why(), "not sent at the end of a tracked run");
    }
}
