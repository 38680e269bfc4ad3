//! The output of a command on its way to the disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use polyaxon_sandbox::process::LogStream;

use super::record::{Cut, Written};
use super::store::{Store, private};

/// One log while it is written.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: Option<File>,
    limit: u64,
    written: Written,
}

impl Log {
    /// The log of one output; it may take `limit` bytes. Its file is made with the first of them.
    pub(crate) fn new(store: &Store, id: &str, stream: LogStream, limit: u64) -> Self {
        Self {
            path: store.log(id, stream),
            file: None,
            limit,
            written: Written::default(),
        }
    }

    /// The log whose writing was lost behind what is `written`. Nothing can be added to it.
    pub(crate) fn resume(store: &Store, id: &str, stream: LogStream, written: Written) -> Self {
        Self {
            written,
            ..Self::new(store, id, stream, 0)
        }
    }

    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// Counts bytes that are not kept.
    pub(crate) fn drop_bytes(&mut self, count: usize, why: Cut) {
        if count > 0 {
            self.written.seen = self.written.seen.saturating_add(count as u64);
            self.written.cut.get_or_insert(why);
        }
    }

    /// Adds `bytes`, or as many as can be kept; from the first that cannot on, all are dropped.
    /// Blocks.
    pub(crate) fn append(&mut self, store: &Store, bytes: &[u8]) {
        if let Some(why) = self.written.cut {
            return self.drop_bytes(bytes.len(), why);
        }
        let wanted = bytes.len() as u64;
        let fits = wanted.min(self.limit.saturating_sub(self.written.stored));
        let granted = store.take(fits);
        let keep = usize::try_from(granted).unwrap_or(bytes.len());
        let (kept, failed) = self.write(bytes.get(..keep).unwrap_or(bytes));
        store.give_back(granted.saturating_sub(kept as u64));
        self.written.stored += kept as u64;
        self.written.seen += kept as u64;
        let why = match failed {
            Some(error) => {
                tracing::warn!(%error, "output of a command cannot be kept");
                Cut::from_io(&error)
            }
            None if granted < fits => Cut::StateLimit,
            None => Cut::LogLimit,
        };
        self.drop_bytes(bytes.len() - kept, why);
    }

    /// How many bytes were written, and what stopped it.
    fn write(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        if bytes.is_empty() {
            return (0, None);
        }
        if self.file.is_none() {
            match private(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) => return (0, Some(error)),
            }
        }
        let Some(file) = &mut self.file else {
            return (0, None);
        };
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match file.write(rest) {
                Ok(0) => return (done, Some(io::ErrorKind::WriteZero.into())),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Some(error)),
            }
        }
        (done, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(limit: u64) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), limit).unwrap().0;
        (folder, store)
    }

    fn written(stored: u64, seen: u64, cut: Option<Cut>) -> Written {
        Written { stored, seen, cut }
    }

    #[test]
    fn a_log_takes_no_more_than_its_limit_and_counts_on() {
        let (_folder, store) = store(1000);
        let mut log = Log::new(&store, "e", LogStream::Stdout, 5);
        log.append(&store, b"abc");
        assert_eq!(log.written(), written(3, 3, None));
        log.append(&store, b"de");
        assert_eq!(log.written(), written(5, 5, None));
        log.append(&store, b"f");
        log.append(&store, b"gh");
        assert_eq!(log.written(), written(5, 8, Some(Cut::LogLimit)));
        assert_eq!(store.read("e", LogStream::Stdout, 0, 99).unwrap(), b"abcde");
        assert_eq!(store.read("e", LogStream::Stdout, 2, 2).unwrap(), b"cd");
        assert_eq!(store.read("e", LogStream::Stdout, 9, 2).unwrap(), b"");
    }

    #[test]
    fn all_logs_together_take_no_more_than_the_limit_until_one_is_removed() {
        let (_folder, store) = store(10);
        let mut one = Log::new(&store, "1", LogStream::Stdout, 100);
        let mut two = Log::new(&store, "2", LogStream::Stderr, 100);
        one.append(&store, b"123456");
        two.append(&store, b"123456");
        assert_eq!(two.written(), written(4, 6, Some(Cut::StateLimit)));
        assert_eq!(store.take(1), 0);
        store.give_back(6);
        let mut three = Log::new(&store, "3", LogStream::Stdout, 100);
        three.append(&store, b"123456");
        assert_eq!(three.written(), written(6, 6, None));
        // What was dropped once leaves a gap, so nothing comes behind it.
        store.give_back(4);
        two.append(&store, b"7");
        assert_eq!(two.written(), written(4, 7, Some(Cut::StateLimit)));
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one_and_gives_its_budget_back() {
        let (folder, store) = store(1000);
        let path = |id: &str| folder.path().join(format!("{id}.stdout"));
        std::os::unix::fs::symlink("/dev/full", path("full")).unwrap();
        std::fs::create_dir(path("broken")).unwrap();
        for (id, cut) in [("full", Cut::DiskFull), ("broken", Cut::DiskError)] {
            let mut log = Log::new(&store, id, LogStream::Stdout, 100);
            log.append(&store, b"abc");
            assert_eq!(log.written(), written(0, 3, Some(cut)));
        }
        assert_eq!(store.take(5000), 1000);
    }
}
