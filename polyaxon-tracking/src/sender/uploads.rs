//! Which files of a run have to be uploaded, and when.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// What is known of the files that the server has.
#[derive(Debug)]
pub(super) struct Uploads {
    root: PathBuf,
    known: HashMap<String, Known>,
    /// Those that the server refused, as they were then: it is asked again for others only.
    refused: HashMap<String, Seen>,
    /// Those that are to be uploaded and were not yet.
    asked: HashSet<String>,
}

/// A file as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    size: u64,
    changed: SystemTime,
}

impl Seen {
    pub(crate) fn size(self) -> u64 {
        self.size
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    seen: Seen,
    at: Instant,
}

/// A file up to this size is uploaded whenever it has changed.
const SMALL: u64 = 64 * 1024;

/// A larger one once it has grown by half, or after this time. So what is uploaded of a file that
/// grows steadily is three times its size at most, and that of every five minutes.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

impl Uploads {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            known: HashMap::new(),
            refused: HashMap::new(),
            asked: HashSet::new(),
        }
    }

    /// The files that the server has not, by their paths below the root: `all` of them, or those
    /// whose time it is.
    pub(super) fn changed(&mut self, all: bool) -> Vec<String> {
        let now = Instant::now();
        let mut changed = Vec::new();
        for (path, seen) in files_below(&self.root) {
            let is_due = match self.known.get(&path) {
                None => true,
                Some(known) => known.seen != seen && (all || is_due(*known, seen, now)),
            };
            let is_due = is_due && self.refused.get(&path) != Some(&seen);
            if is_due && self.asked.insert(path.clone()) {
                changed.push(path);
            }
        }
        changed
    }

    /// The file as it is now; `None` where it is gone. It can come back, and is asked for then.
    pub(super) fn look(&mut self, path: &str) -> Option<Seen> {
        let metadata = fs::metadata(self.root.join(path)).ok();
        let seen = metadata.as_ref().and_then(seen);
        if seen.is_none() {
            self.asked.remove(path);
        }
        seen
    }

    /// The server refuses the file as it was seen.
    pub(super) fn refused(&mut self, path: &str, seen: Seen) {
        self.asked.remove(path);
        self.refused.insert(path.to_owned(), seen);
    }

    /// The file could not be read. The next look for files finds it again.
    pub(super) fn unread(&mut self, path: &str) {
        self.asked.remove(path);
    }

    /// What the server has, as it was seen.
    pub(super) fn sent(&self) -> impl Iterator<Item = (String, Seen)> {
        let files = self.known.iter();
        files.map(|(path, known)| (path.clone(), known.seen))
    }

    /// The server has the file as it was seen.
    pub(super) fn uploaded(&mut self, path: &str, seen: Seen) {
        self.asked.remove(path);
        self.refused.remove(path);
        let at = Instant::now();
        self.known.insert(path.to_owned(), Known { seen, at });
    }
}

fn is_due(known: Known, seen: Seen, now: Instant) -> bool {
    seen.size <= SMALL
        || seen.size >= known.seen.size.saturating_add(known.seen.size / 2)
        || now.duration_since(known.at) >= PATIENCE
}

fn seen(metadata: &fs::Metadata) -> Option<Seen> {
    Some(Seen {
        size: metadata.len(),
        changed: metadata.is_file().then(|| metadata.modified().ok())??,
    })
}

/// The files of a run's folder, by their paths below it, in the order of these. Left out: the
/// records that are for a later push, files that are being made, git's own folders, and links.
pub(crate) fn files_below(root: &Path) -> Vec<(String, Seen)> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        // A folder that is gone, or cannot be read, has no files.
        let Ok(entries) = fs::read_dir(root.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = match folder.is_empty() {
                true => name.clone(),
                false => format!("{folder}/{name}"),
            };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && name != ".git" {
                folders.push(path);
            } else if kind.is_file()
                && !is_ours(&name)
                && let Some(seen) = entry.metadata().ok().as_ref().and_then(seen)
            {
                files.push((path, seen));
            }
        }
    }
    files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    files
}

fn is_ours(name: &str) -> bool {
    let is_record = name.ends_with(".plx.json") || name.ends_with(".plx.index");
    is_record || (name.starts_with(".plx-") && name.ends_with(".tmp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_uploaded_when_they_are_new_or_changed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for path in [
            "outputs/b.txt",
            "outputs/a/deep.txt",
            "run.plx.json",
            ".plx-abc.tmp",
            "code/.git/config",
        ] {
            write(path, "1");
        }
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
        let mut uploads = Uploads::new(folder.path().to_owned());
        let mut changed = |all| {
            let changed = uploads.changed(all);
            for path in &changed {
                let seen = uploads.look(path).unwrap();
                uploads.uploaded(path, seen);
            }
            changed
        };
        assert_eq!(changed(false), ["outputs/a/deep.txt", "outputs/b.txt"]);
        assert_eq!(changed(true), [""; 0]);
        write("outputs/b.txt", "12");
        assert_eq!(changed(false), ["outputs/b.txt"]);
    }

    #[test]
    fn a_large_file_is_not_uploaded_again_for_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut uploads = Uploads::new(folder.path().to_owned());
        let mut sent = 0;
        for size in (SMALL..SMALL * 20).step_by(1000) {
            fs::write(&path, vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
            for path in uploads.changed(false) {
                let seen = uploads.look(&path).unwrap();
                sent += seen.size;
                uploads.uploaded(&path, seen);
            }
        }
        assert!(sent < SMALL * 20 * 3, "{sent}");
        assert_eq!(uploads.changed(false), [""; 0]);
        assert_eq!(uploads.changed(true), ["log"]);
        // Asked for already.
        assert_eq!(uploads.changed(true), [""; 0]);
    }

    #[test]
    fn a_file_that_was_gone_or_refused_is_asked_for_once_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ckpt.bin");
        let mut uploads = Uploads::new(folder.path().to_owned());
        fs::write(&path, "1").unwrap();
        assert_eq!(uploads.changed(true), ["ckpt.bin"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(uploads.look("ckpt.bin"), None);
        fs::write(&path, "12").unwrap();
        assert_eq!(uploads.changed(true), ["ckpt.bin"]);
        let seen = uploads.look("ckpt.bin").unwrap();
        uploads.refused("ckpt.bin", seen);
        assert_eq!(uploads.changed(true), [""; 0]);
        fs::write(&path, "123").unwrap();
        assert_eq!(uploads.changed(true), ["ckpt.bin"]);
        // One that cannot be read now perhaps can be later.
        uploads.unread("ckpt.bin");
        assert_eq!(uploads.changed(true), ["ckpt.bin"]);
    }
}
