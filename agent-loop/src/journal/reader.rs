//! Reads a journal back, and finds out what is wrong with it.

use std::fs;
use std::io::{self, BufRead as _};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::file::{BLOBS, VERSION, prev};
use super::{Event, Record};
use crate::digest::Digest;
use crate::evidence::JOURNAL;

/// A journal that was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadJournal {
    /// Its records, in order, whole and chained.
    pub records: Vec<JournalEntry>,
    /// The digest of the last line.
    pub chain_head: Option<Digest>,
    /// What was at the end and is no record: a write that was interrupted. It was never acted on.
    pub torn_tail: Option<TornTail>,
}

/// A line of a journal.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum JournalEntry {
    /// A record that this version knows.
    Known(Box<Record>),
    /// A record of another kind, which says that it may be passed over.
    Skipped {
        /// Its number.
        seq: u64,
        /// Its kind.
        kind: String,
    },
}

/// The end of a journal that is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// How long it is.
    pub len: usize,
}

/// A journal that cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptJournal {
    /// A line in the middle is damaged.
    #[error("line {line} of the journal, at byte {offset}, {problem}")]
    #[non_exhaustive]
    Damaged {
        /// The line, from 1.
        line: usize,
        /// Where it begins.
        offset: usize,
        /// What is wrong, as a half sentence.
        problem: String,
    },
    /// Another program writes it.
    #[error("another program writes the journal")]
    Busy,
    /// A file could not be read.
    #[error("the journal cannot be read")]
    Io(#[from] io::Error),
}

impl ReadJournal {
    /// Reads `actions.jsonl` in `folder`, with its blobs.
    ///
    /// An end without a line feed, or with nothing but blanks and NULs, is what a crash leaves
    /// behind: it is cut off and said. The same goes for a last line that does not parse.
    ///
    /// # Errors
    /// [`CorruptJournal::Damaged`] where a line before the last one is no record, does not follow
    /// the one before it, or is of a kind that this version must not pass over.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, CorruptJournal> {
        let folder = folder.as_ref();
        let bytes = fs::read(folder.join(JOURNAL))?;
        Self::parse(&bytes, |digest| {
            fs::read(folder.join(BLOBS).join(digest.to_string()))
        })
    }

    /// The records that this version knows, in order.
    pub(crate) fn into_known(self) -> Vec<Record> {
        let entries = self.records.into_iter();
        entries
            .filter_map(|entry| match entry {
                JournalEntry::Known(record) => Some(*record),
                JournalEntry::Skipped { .. } => None,
            })
            .collect()
    }

    /// The records that this version knows.
    pub fn known(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter_map(|entry| match entry {
            JournalEntry::Known(record) => Some(&**record),
            JournalEntry::Skipped { .. } => None,
        })
    }

    /// Reads a journal from its bytes; `blob` finds the bodies that are not in it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(
        bytes: &[u8],
        blob: impl Fn(&Digest) -> io::Result<Vec<u8>>,
    ) -> Result<Self, CorruptJournal> {
        let mut journal = Self {
            records: Vec::new(),
            chain_head: None,
            torn_tail: None,
        };
        let lines = lines(bytes)?;
        let mut offset = 0;
        for (at, line) in lines.iter().enumerate() {
            let following = lines.get(at + 1..).unwrap_or_default();
            match journal.next(line, &blob) {
                Ok(entry) => journal.records.push(entry),
                Err(Problem::Unreadable(_)) if following.iter().all(|line| is_blank(line)) => {
                    journal.torn_tail = Some(TornTail {
                        offset,
                        len: bytes.len() - offset,
                    });
                    return Ok(journal);
                }
                Err(Problem::Unreadable(problem) | Problem::Wrong(problem)) => {
                    return Err(CorruptJournal::Damaged {
                        line: at + 1,
                        offset,
                        problem,
                    });
                }
                Err(Problem::Unchained) => {
                    // One of two lines is damaged. Where the line after them agrees with the
                    // second, it is the first.
                    let second_is_whole =
                        following.first().is_some_and(|next| is_chained(line, next));
                    let before = at
                        .checked_sub(1)
                        .and_then(|at| lines.get(at))
                        .map_or(0, |line| line.len());
                    let (line, offset) = match second_is_whole && before > 0 {
                        true => (at, offset - before),
                        false => (at + 1, offset),
                    };
                    let problem = "does not agree with the line beside it".to_owned();
                    return Err(CorruptJournal::Damaged {
                        line,
                        offset,
                        problem,
                    });
                }
            }
            offset += line.len();
        }
        Ok(journal)
    }
}

/// The lines, each with its line feed.
fn lines(mut rest: &[u8]) -> io::Result<Vec<&[u8]>> {
    let mut lines = Vec::new();
    while !rest.is_empty() {
        let all = rest;
        // It looks at many bytes at a time, and most of a journal is long lines.
        let (line, _) = all.split_at(rest.skip_until(b'\n')?);
        lines.push(line);
    }
    Ok(lines)
}

/// What is wrong with a line.
enum Problem {
    /// It is no record at all: it may be half of one.
    Unreadable(String),
    /// It is a record that must not be there.
    Wrong(String),
    /// It does not follow the line before it.
    Unchained,
}

fn is_blank(line: &[u8]) -> bool {
    line.iter()
        .all(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// Whether `next` says that it follows `line`.
fn is_chained(line: &[u8], next: &[u8]) -> bool {
    let digest = Digest::of(line.strip_suffix(b"\n").unwrap_or(line));
    serde_json::from_slice::<Line<'_>>(next).is_ok_and(|next| next.prev == prev(Some(digest)))
}

#[derive(Deserialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    at_ms: i64,
    prev: String,
    kind: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    blob: Option<Digest>,
    #[serde(default)]
    ext: bool,
}

impl ReadJournal {
    /// Reads the line that comes next.
    fn next(
        &mut self,
        line: &[u8],
        blob: &impl Fn(&Digest) -> io::Result<Vec<u8>>,
    ) -> Result<JournalEntry, Problem> {
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(Problem::Unreadable("does not end".to_owned()));
        };
        let parsed: Line<'_> = serde_json::from_slice(line)
            .map_err(|error| Problem::Unreadable(format!("is no record: {error}")))?;
        if parsed.v != VERSION {
            let problem = format!("has version {}, and this reads version {VERSION}", parsed.v);
            return Err(Problem::Wrong(problem));
        }
        if parsed.prev != prev(self.chain_head) {
            return Err(Problem::Unchained);
        }
        let expected = self.records.len() as u64;
        if parsed.seq != expected {
            let problem = format!("has number {}, and {expected} comes next", parsed.seq);
            return Err(Problem::Wrong(problem));
        }
        let entry = parsed.entry(blob).map_err(Problem::Wrong)?;
        self.chain_head = Some(Digest::of(line));
        Ok(entry)
    }
}

impl Line<'_> {
    fn entry(self, blob: &impl Fn(&Digest) -> io::Result<Vec<u8>>) -> Result<JournalEntry, String> {
        let large;
        let body = match (self.body, self.blob) {
            (Some(body), None) => body.get(),
            (None, Some(digest)) => {
                let bytes = blob(&digest).map_err(|error| format!("lacks its blob: {error}"))?;
                if Digest::of(&bytes) != digest {
                    return Err("has a blob with another content".to_owned());
                }
                large = String::from_utf8(bytes).map_err(|_| "has a blob that is no text")?;
                &large
            }
            _ => return Err("has not exactly one of body and blob".to_owned()),
        };
        let kind = serde_json::Value::from(self.kind.as_str());
        let event = serde_json::from_str::<Event>(&format!(r#"{{"kind":{kind},"body":{body}}}"#));
        match event {
            Ok(event) => {
                let at = Timestamp::from_millisecond(self.at_ms)
                    .map_err(|_| "has a time that is none".to_owned())?;
                Ok(JournalEntry::Known(Box::new(Record::new(
                    self.seq, at, event,
                ))))
            }
            Err(_) if self.ext => Ok(JournalEntry::Skipped {
                seq: self.seq,
                kind: self.kind,
            }),
            Err(error) => Err(format!("has no {:?} in it: {error}", self.kind)),
        }
    }
}
