//! The state folder of a sandbox: for each exec `{id}.json`, and `{id}.stdout` and `{id}.stderr`
//! once there is output.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use polyaxon_sandbox::process::LogStream;
use uuid::Uuid;

use super::record::{self, Cut, End, RECORD_BYTES, RecordFile, Started, Written};

/// A state folder that is ours alone, and how much of it is used.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Locked for as long as we are here.
    lock: File,
    used: AtomicU64,
    limit: u64,
}

/// A record of an earlier service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) id: String,
    pub(crate) started: Started,
    /// `None` where it cannot be known.
    pub(crate) end: Option<End>,
    pub(crate) stdout: Written,
    pub(crate) stderr: Written,
}

/// Why a record was not made.
#[derive(Debug)]
pub(crate) enum NotStored {
    Full,
    Disk(io::Error),
}

impl Drop for Store {
    fn drop(&mut self) {
        // A command that is just being started has a copy of the file for a moment, which would
        // keep it locked. Where this fails, the end of the last one does the same.
        drop(self.lock.unlock());
    }
}

impl Store {
    /// Takes the folder, made where it is not there, and reads what is in it, oldest first. All
    /// records and logs together may take `limit` bytes. Blocks.
    ///
    /// An error of the kind `WouldBlock` is a folder that somebody else uses.
    pub(crate) fn open(folder: &Path, limit: u64) -> io::Result<(Self, Vec<Recovered>)> {
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(folder)?;
        // Its usual place is below a folder that everybody can write, where a foreign one could
        // wait for us.
        let found = fs::symlink_metadata(folder)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it is a link, or belongs to another user"));
        }
        let folder = folder.canonicalize()?;
        let lock = private(&folder.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::WouldBlock, "another service uses it")
            }
            TryLockError::Error(error) => error,
        })?;
        let store = Self {
            folder,
            lock,
            used: AtomicU64::new(0),
            limit,
        };
        let recovered = store.recover()?;
        Ok((store, recovered))
    }

    fn recover(&self) -> io::Result<Vec<Recovered>> {
        let (mut ids, mut logs) = (HashSet::new(), Vec::new());
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str());
            let Some(id) = id.filter(|id| Uuid::try_parse(id).is_ok()) else {
                continue;
            };
            match path.extension().and_then(|kind| kind.to_str()) {
                Some("json") => _ = ids.insert(id.to_owned()),
                Some("stdout" | "stderr") => logs.push((id.to_owned(), path)),
                _ => {}
            }
        }
        // The record is the first that a delete removes.
        for (_, path) in logs.iter().filter(|(id, _)| !ids.contains(id)) {
            fs::remove_file(path)?;
        }
        let mut found = ids
            .into_iter()
            .map(|id| self.recover_one(id))
            .collect::<io::Result<Vec<_>>>()?;
        found.sort_by(|a, b| {
            let key = |one: &Recovered| (one.started.started_at, one.id.clone());
            key(a).cmp(&key(b))
        });
        Ok(found)
    }

    fn recover_one(&self, id: String) -> io::Result<Recovered> {
        let path = self.record(&id);
        let (started, end) = record::read(&path)?;
        let size = |stream| match fs::metadata(self.log(&id, stream)) {
            Ok(meta) => Ok(meta.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        };
        let [out, err] = [size(LogStream::Stdout)?, size(LogStream::Stderr)?];
        let bytes = (RECORD_BYTES as u64)
            .saturating_add(out)
            .saturating_add(err);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        // A disk can lose what was written last, and what is not there must not be waited for.
        let there = |size, told: Option<Written>| match told {
            Some(told) if told.stored <= size => told,
            Some(told) => Written {
                stored: size,
                cut: Some(Cut::DiskError),
                ..told
            },
            None => Written {
                stored: size,
                seen: size,
                cut: None,
            },
        };
        let changed = path.metadata()?.modified()?;
        Ok(Recovered {
            started: started.unwrap_or_else(|| Started {
                started_at: Timestamp::try_from(changed).unwrap_or(Timestamp::UNIX_EPOCH),
                tag: None,
            }),
            stdout: there(out, end.as_ref().map(|end| end.stdout)),
            stderr: there(err, end.as_ref().map(|end| end.stderr)),
            end,
            id,
        })
    }

    fn record(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    pub(super) fn log(&self, id: &str, stream: LogStream) -> PathBuf {
        self.folder.join(format!("{id}.{stream}"))
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes up to `wanted` bytes of what may still be used.
    pub(super) fn take(&self, wanted: u64) -> u64 {
        let mut got = 0;
        let _never = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                got = wanted.min(self.limit.saturating_sub(used));
                Some(used + got)
            });
        got
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _never = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Makes the record of a new exec. Blocks.
    pub(crate) fn create(&self, id: &str, started: &Started) -> Result<RecordFile, NotStored> {
        let bytes = RECORD_BYTES as u64;
        let got = self.take(bytes);
        if got < bytes {
            self.give_back(got);
            return Err(NotStored::Full);
        }
        RecordFile::create(&self.record(id), started).map_err(|error| {
            self.give_back(bytes);
            NotStored::Disk(error)
        })
    }

    /// Removes a record with its logs of `logged` bytes. Blocks.
    pub(crate) fn remove(&self, id: &str, logged: u64) -> io::Result<()> {
        let files = [
            self.record(id),
            self.log(id, LogStream::Stdout),
            self.log(id, LogStream::Stderr),
        ];
        for file in files {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.give_back(logged.saturating_add(RECORD_BYTES as u64));
        Ok(())
    }

    /// Up to `length` bytes of a log from `offset` on; fewer only at its end. Blocks.
    pub(crate) fn read(
        &self,
        id: &str,
        stream: LogStream,
        offset: u64,
        length: usize,
    ) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let file = File::open(self.log(id, stream))?;
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// A file for its owner only, made where it is not there.
pub(super) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
