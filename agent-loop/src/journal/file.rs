//! A journal in a folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CorruptJournal, Durability, Journal, ReadJournal, Record};
use crate::digest::Digest;
use crate::evidence::{self, JOURNAL};
use crate::lock::Locked;

/// The folder of the bodies that are too large for a line.
pub(super) const BLOBS: &str = "blobs";
/// The largest body of a line, in bytes. A blob is a file of its own, with two syncs of its own, so
/// that source files of common sizes are better in their line.
pub(super) const MAX_INLINE: usize = 32 * 1024;
/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// Writes `actions.jsonl`, and `blobs/` beside it, in a folder.
///
/// The file is locked as long as the journal lives: there is one writer.
#[derive(Debug)]
pub struct FileJournal {
    file: Locked,
    folder: PathBuf,
    head: Option<Digest>,
    /// The lines that are being written. It is kept for its memory.
    lines: Vec<u8>,
    /// A record that failed to be written may have left half a line. Nothing may follow it.
    broken: bool,
}

impl FileJournal {
    /// Creates `actions.jsonl` in `folder`, which has to be there. It is its owner's alone (mode 0600
    /// on Unix), as its blobs are: all that a check has written is in it.
    ///
    /// # Errors
    /// Where there is one already, or it cannot be made, locked or synced.
    pub fn create(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref();
        let path = folder.join(JOURNAL);
        let file = evidence::owners_alone()
            .append(true)
            .create_new(true)
            .open(path)?;
        let file = Locked::new(file)?;
        evidence::sync_folder(folder)?;
        Ok(Self {
            file,
            folder: folder.to_owned(),
            head: None,
            lines: Vec::new(),
            broken: false,
        })
    }

    /// Goes on with the journal in `folder`: locks it, reads it, and takes away what a crash has left:
    /// a part of a last line, and temporary files (`.tmp-*`) in the folder.
    ///
    /// # Errors
    /// [`CorruptJournal::Busy`] where another program writes it, else as [`ReadJournal::read`].
    pub fn resume(folder: impl AsRef<Path>) -> Result<(Self, ReadJournal), CorruptJournal> {
        let folder = folder.as_ref();
        let (journal, read) = Self::open(folder)?;
        Self::mend(folder, &read)?;
        Ok((journal, read))
    }

    /// Locks and reads the journal in `folder`, and changes nothing.
    pub(crate) fn open(folder: &Path) -> Result<(Self, ReadJournal), CorruptJournal> {
        let path = folder.join(JOURNAL);
        let file = OpenOptions::new().append(true).open(path)?;
        let file = Locked::new(file).map_err(|error| match error {
            fs::TryLockError::WouldBlock => CorruptJournal::Busy,
            fs::TryLockError::Error(error) => error.into(),
        })?;
        let journal = ReadJournal::read(folder)?;
        let written = Self {
            file,
            folder: folder.to_owned(),
            head: journal.chain_head,
            lines: Vec::new(),
            broken: false,
        };
        Ok((written, journal))
    }

    /// Cuts off what a crash has left of a last line, as `read` has found it, and removes files that
    /// it has left without their names. Whoever calls it has the journal open.
    pub(crate) fn mend(folder: &Path, read: &ReadJournal) -> io::Result<()> {
        evidence::remove_leftovers(folder)?;
        let Some(torn) = read.torn_tail else {
            return Ok(());
        };
        let file = OpenOptions::new().write(true).open(folder.join(JOURNAL))?;
        file.set_len(torn.offset as u64)?;
        file.sync_all()
    }

    /// Writes a line for each of `records`, all of them at once.
    fn write<'a>(
        &mut self,
        records: impl IntoIterator<Item = (&'a Record, Durability)>,
    ) -> io::Result<()> {
        self.lines.clear();
        let (mut head, mut synced) = (self.head, false);
        for (record, durability) in records {
            head = Some(self.add_line(record, head)?);
            synced |= durability == Durability::Synced;
        }
        (&*self.file).write_all(&self.lines)?;
        if synced {
            self.file.sync_data()?;
        }
        self.head = head;
        Ok(())
    }

    /// Makes the line of a record, which follows the one with the digest `head`, and gives its own.
    /// Each member is written at its place: most of a line is its body, and a value of all of it
    /// would copy that once more.
    fn add_line(&mut self, record: &Record, head: Option<Digest>) -> io::Result<Digest> {
        let lines = &mut self.lines;
        let start = lines.len();
        let Record { seq, at, event } = record;
        write!(
            lines,
            r#"{{"v":{VERSION},"seq":{seq},"at_ms":{},"prev":"{}","kind":"{}","#,
            at.as_millisecond(),
            prev(head),
            event.kind()
        )?;
        let members = lines.len();
        lines.extend_from_slice(br#""body":"#);
        let body = lines.len();
        serde_json::to_writer(&mut *lines, &Body(event))?;
        if lines.len() - body > MAX_INLINE {
            let blob = write_blob(&self.folder, &lines.split_off(body))?;
            lines.truncate(members);
            write!(lines, r#""blob":"{blob}""#)?;
        }
        lines.push(b'}');
        let digest = Digest::of(lines.get(start..).unwrap_or_default());
        lines.push(b'\n');
        Ok(digest)
    }

    /// Writes records, and nothing more after the first failure.
    fn keep<'a>(
        &mut self,
        records: impl IntoIterator<Item = (&'a Record, Durability)>,
    ) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier record could not be written"));
        }
        let written = self.write(records);
        self.broken = written.is_err();
        written
    }
}

/// Writes a body that is too large for a line, where it is not there already.
fn write_blob(journal: &Path, bytes: &[u8]) -> io::Result<Digest> {
    let digest = Digest::of(bytes);
    let folder = journal.join(BLOBS);
    if !folder.is_dir() {
        fs::create_dir(&folder)?;
        evidence::sync_folder(journal)?;
    }
    let path = folder.join(digest.to_string());
    if !path.exists() {
        // What is in the folder of blobs is a whole one, also after a crash.
        evidence::write_private_from(journal, &path, bytes)?;
    }
    Ok(digest)
}

impl Journal for FileJournal {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        self.keep([(record, durability)])
    }

    fn append_all(&mut self, records: &[(Record, Durability)]) -> io::Result<()> {
        let records = records.iter();
        self.keep(records.map(|(record, durability)| (record, *durability)))
    }

    fn chain_head(&self) -> Option<Digest> {
        self.head
    }
}

/// What a line says about the one before it.
pub(super) fn prev(head: Option<Digest>) -> String {
    match head {
        None => "0".repeat(32),
        Some(digest) => {
            let mut text = digest.to_string();
            text.truncate(32);
            text
        }
    }
}

/// The body of an event, without its kind.
struct Body<'a>(&'a super::Event);

impl Serialize for Body<'_> {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use super::Event;
        match self.0 {
            Event::Started(body) => body.serialize(out),
            Event::Asked(body) => body.serialize(out),
            Event::Replied(body) => body.serialize(out),
            Event::Decided(body) => body.serialize(out),
            Event::Paused(body) => body.serialize(out),
            Event::Approval(body) => body.serialize(out),
            Event::Intent(body) => body.serialize(out),
            Event::Placing(body) => body.serialize(out),
            Event::Placed(body) => body.serialize(out),
            Event::Prepared(body) => body.serialize(out),
            Event::Receipt(body) => body.serialize(out),
            Event::Left(body) => body.serialize(out),
            Event::Judged(body) => body.serialize(out),
            Event::Turn(body) => body.serialize(out),
            Event::Resumed(body) => body.serialize(out),
            Event::Ended(body) => body.serialize(out),
            Event::Stopped(body) => body.serialize(out),
        }
    }
}
