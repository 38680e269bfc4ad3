//! What is on disk about an exec besides its output.
//!
//! A record is a file of one block with two halves: how the exec was started, and how it ended. The
//! file is written whole before anything is started, so the second half needs no new space: a full
//! disk cannot take the result of a command that ran. Each half is a JSON object with spaces behind
//! it. A half that was torn by a crash does not parse, since no part of a JSON object is one; then
//! the exec is an orphan, never a lost record.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A block of the usual file systems.
pub(crate) const RECORD_BYTES: usize = 4096;
const HALF: usize = RECORD_BYTES / 2;

/// How an exec was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
}

/// How an exec ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) pid: u64,
    pub(crate) exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    pub(crate) timed_out: bool,
    pub(crate) finished_at: Timestamp,
    pub(crate) duration_ms: u64,
    pub(crate) stdout: Written,
    pub(crate) stderr: Written,
}

/// One output of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Bytes in the log, from the first on.
    pub(crate) stored: u64,
    /// Bytes that the command has written.
    pub(crate) seen: u64,
    /// Why there are more of these, where there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<Cut>,
}

/// Why output was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cut {
    /// The log reached the limit for one.
    LogLimit,
    /// All records and logs together reached theirs.
    StateLimit,
    /// The disk is full.
    DiskFull,
    /// The disk fails in another way.
    DiskError,
}

impl Cut {
    pub(crate) fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::DiskError,
        }
    }

    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::LogLimit => "one log may not be larger",
            Self::StateLimit => "all records and logs together may not be larger",
            Self::DiskFull => "no space was left on the disk",
            Self::DiskError => "the disk did not take it",
        }
    }
}

/// The file of a record whose end is to come.
#[derive(Debug)]
pub(crate) struct RecordFile(File);

impl RecordFile {
    /// Writes the first half, and takes the space of the second.
    pub(crate) fn create(path: &Path, started: &Started) -> io::Result<Self> {
        let mut block = half(started)?;
        block.resize(RECORD_BYTES, b' ');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        match file.write_all(&block) {
            Ok(()) => Ok(Self(file)),
            Err(error) => {
                // What is there is no record of anything.
                let _as_it_is = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Writes the second half.
    pub(crate) fn end(&self, end: &End) -> io::Result<()> {
        self.0.write_all_at(&half(end)?, HALF as u64)
    }
}

/// A JSON object with spaces behind it.
fn half(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    if text.len() >= HALF {
        return Err(io::Error::other("a record is larger than its place"));
    }
    text.resize(HALF, b' ');
    Ok(text)
}

/// Reads what is legible of both halves.
pub(crate) fn read(path: &Path) -> io::Result<(Option<Started>, Option<End>)> {
    let mut block = Vec::with_capacity(RECORD_BYTES);
    let file = File::open(path)?;
    file.take(RECORD_BYTES as u64).read_to_end(&mut block)?;
    let (first, second) = block.split_at(block.len().min(HALF));
    Ok((parse(first), parse(second)))
}

fn parse<T: DeserializeOwned>(half: &[u8]) -> Option<T> {
    serde_json::from_slice(half).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn started() -> Started {
        Started {
            started_at: Timestamp::UNIX_EPOCH,
            tag: Some("t".repeat(128)),
        }
    }

    fn end() -> End {
        let most = Written {
            stored: u64::MAX,
            seen: u64::MAX,
            cut: Some(Cut::StateLimit),
        };
        End {
            pid: u64::MAX,
            exit_code: -1,
            signal: Some("SIG(64)".to_owned()),
            timed_out: true,
            finished_at: Timestamp::MAX,
            duration_ms: u64::MAX,
            stdout: most,
            stderr: most,
        }
    }

    #[test]
    fn a_record_takes_one_block_from_its_start_on_and_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let size = || path.metadata().unwrap().len();
        let file = RecordFile::create(&path, &started()).unwrap();
        assert_eq!(
            (size(), read(&path).unwrap()),
            (4096, (Some(started()), None))
        );
        file.end(&end()).unwrap();
        let whole = (Some(started()), Some(end()));
        assert_eq!((size(), read(&path).unwrap()), (4096, whole));
        // An id is never used twice.
        RecordFile::create(&path, &started()).unwrap_err();
    }

    proptest! {
        #[test]
        fn a_torn_file_gives_what_is_whole_in_it_and_nothing_else(at in 0..=RECORD_BYTES) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("r");
            RecordFile::create(&path, &started()).unwrap().end(&end()).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..at]).unwrap();
            let (first, second) = read(&path).unwrap();
            let (first_len, second_len) = (
                serde_json::to_vec(&started()).unwrap().len(),
                serde_json::to_vec(&end()).unwrap().len(),
            );
            prop_assert_eq!(first, (at >= first_len).then(started));
            prop_assert_eq!(second, (at >= HALF + second_len).then(end));
        }
    }
}
