//! Which files of a run's folder a server has: `sent.plx.json`, for a later push.
//!
//! The server says of its files how large they are, and no more: one that was replaced by another of
//! the same size cannot be told from it. So what was sent is noted here, as it was then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polyaxon_client::RunUuid;
use polyaxon_client::runs::Runs;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::sender::Seen;

const SENT: &str = "sent.plx.json";

/// How often the note is written while files are sent. It is once more when that ends.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was sent of a folder, and where to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    host: String,
    run: RunUuid,
    files: BTreeMap<String, Seen>,
}

impl Sent {
    pub(crate) fn new(
        runs: &Runs,
        run: RunUuid,
        files: impl IntoIterator<Item = (String, Seen)>,
    ) -> Self {
        let host = runs.transport().host();
        Self {
            // A URL can hold a password too.
            host: format!("{}{}", host.origin().ascii_serialization(), host.path()),
            run,
            files: files.into_iter().collect(),
        }
    }

    /// Notes it in the folder. Where that fails there is no note: then everything is sent again.
    pub(crate) fn write(&self, folder: &Path) {
        let path = folder.join(SENT);
        let json = serde_json::to_vec(self).map_err(std::io::Error::from);
        if let Err(error) = json.and_then(|json| files::replace(&path, &json)) {
            tracing::debug!(%error, path = %path.display(), "what was sent is not noted");
            forget(folder);
        }
    }
}

/// Takes the note of an earlier process away.
pub(crate) fn forget(folder: &Path) {
    drop(fs::remove_file(folder.join(SENT)));
}

/// The note of a folder while its files are sent. It is written when this is dropped, too: whatever
/// a push breaks off with, another goes on from there.
#[derive(Debug)]
pub(crate) struct Notebook {
    folder: PathBuf,
    sent: Sent,
    written: Instant,
    is_changed: bool,
}

impl Notebook {
    /// The note that is there, where it is of the same run on the same server; else a new one.
    pub(crate) fn open(folder: &Path, runs: &Runs, run: RunUuid) -> Self {
        let mut sent = Sent::new(runs, run, []);
        let found = fs::read(folder.join(SENT)).ok();
        let found: Option<Sent> = found.and_then(|json| serde_json::from_slice(&json).ok());
        if let Some(found) = found.filter(|found| found.host == sent.host && found.run == run) {
            sent = found;
        }
        Self {
            folder: folder.to_owned(),
            sent,
            written: Instant::now(),
            is_changed: false,
        }
    }

    /// Whether the file was sent as it is now.
    pub(crate) fn has(&self, path: &str, seen: Seen) -> bool {
        self.sent.files.get(path) == Some(&seen)
    }

    /// The file was sent as it was seen before that.
    pub(crate) fn add(&mut self, path: &str, seen: Seen) {
        self.sent.files.insert(path.to_owned(), seen);
        self.is_changed = true;
        if self.written.elapsed() >= INTERVAL {
            self.write();
        }
    }

    fn write(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            self.sent.write(&self.folder);
            self.written = Instant::now();
        }
    }
}

impl Drop for Notebook {
    fn drop(&mut self) {
        self.write();
    }
}
