//! What is in the folder of a suite while a case is added, and stays there where the program is ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::evidence;
use crate::lock::Locked;

/// Who adds a case: of all programs and threads one at a time, as long as the value lives.
pub(in crate::evaluation) struct Adding {
    /// Where the case is made: beside its place, so that the suite has all of it or nothing.
    pub(in crate::evaluation) folder: PathBuf,
    _lock: Option<Locked>,
}

impl Adding {
    /// Waits for the others, and removes what those who were ended have left.
    pub(in crate::evaluation) fn to(suite: &Path) -> io::Result<Self> {
        let lock = alone(&suite.join("cases"))?;
        for entry in fs::read_dir(suite)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_unfinished) {
                match entry.file_type()?.is_dir() {
                    true => fs::remove_dir_all(entry.path())?,
                    false => fs::remove_file(entry.path())?,
                }
            }
        }
        Ok(Self {
            folder: suite.join(format!(".new-{}", std::process::id())),
            _lock: lock,
        })
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        // It is there where something has failed, which is told; that it cannot be removed either
        // says nothing more.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Whether an entry of a suite is a case that is being made, `.new-<process>`, or a file that is being
/// written.
pub(super) fn is_unfinished(name: &str) -> bool {
    let process = name.strip_prefix(".new-");
    process.is_some_and(evidence::is_number) || evidence::is_temporary(name)
}

#[cfg(unix)]
fn alone(folder: &Path) -> io::Result<Option<Locked>> {
    Locked::waiting(fs::File::open(folder)?).map(Some)
}

#[cfg(not(unix))]
fn alone(_folder: &Path) -> io::Result<Option<Locked>> {
    // Folders cannot be opened as files there.
    Ok(None)
}
