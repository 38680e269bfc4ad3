//! The readers of what a caller sends, for the targets in `fuzz/`. There only under `cfg(fuzzing)`
//! (and in the crate's own tests, so that they keep it building); no part of the API.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use polyaxon_sandbox::FileMode;
use polyaxon_sandbox::wire::{ExecRequest, MkdirRequest, PtyRequest, ResizeRequest, SignalRequest};

use crate::daemon::{CleanPath, Query, body};
use crate::fs::Tree;
use crate::limits::Limits;
use crate::process::Command;

/// What a query says, each parameter read in one of the ways there are.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadQuery {
    /// The text of `tag`.
    pub tag: Option<String>,
    /// The cleaned `path`.
    pub path: Option<String>,
    /// `offset`, from 0.
    pub offset: Option<u64>,
    /// `length`, from 1.
    pub length: Option<u64>,
    /// `recursive`.
    pub recursive: Option<bool>,
}

/// Reads a query; `None` where all of it is refused.
#[must_use]
pub fn query(text: &str) -> Option<ReadQuery> {
    let limits = Limits::default();
    let query = Query::parse(Some(text)).ok()?;
    let path = query.path("path", limits.path_bytes).ok();
    Some(ReadQuery {
        tag: query.text("tag").map(str::to_owned),
        path: path.map(|path| path.as_str().to_owned()),
        offset: query.number("offset", 0, 0).ok(),
        length: query.number("length", 1, 1).ok(),
        recursive: query.flag("recursive", false).ok(),
    })
}

/// What is left of an exec request that is taken.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadExec {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The names in `env`.
    pub names: Vec<String>,
    /// The cleaned `workdir`.
    pub workdir: Option<String>,
    /// The decoded `stdin`.
    pub stdin: Option<Bytes>,
    /// The time limit in milliseconds.
    pub timeout_ms: u128,
}

/// Reads the body of an exec; `None` where it is refused.
#[must_use]
pub fn exec(bytes: &[u8]) -> Option<ReadExec> {
    let request: ExecRequest = body::parse(bytes).ok()?;
    let command = Command::check(request, &Limits::default()).ok()?;
    let mut words = vec![command.program];
    words.extend(command.arguments);
    Some(ReadExec {
        words,
        names: command.env.into_keys().collect(),
        workdir: command.workdir.map(|path| path.as_str().to_owned()),
        stdin: command.stdin,
        timeout_ms: command.timeout.as_millis(),
    })
}

/// Reads the other bodies; how many of them `bytes` can be.
#[must_use]
pub fn other_bodies(bytes: &[u8]) -> usize {
    [
        body::parse::<PtyRequest>(bytes).is_ok(),
        body::parse::<ResizeRequest>(bytes).is_ok(),
        body::parse::<SignalRequest>(bytes).is_ok(),
        body::parse::<MkdirRequest>(bytes).is_ok(),
    ]
    .into_iter()
    .filter(|taken| *taken)
    .count()
}

/// Cleans a path; `None` where it is refused.
#[must_use]
pub fn clean(path: &str) -> Option<String> {
    let clean = CleanPath::new("path", path, Limits::default().path_bytes).ok()?;
    Some(clean.as_str().to_owned())
}

/// A folder that no path leads out of.
#[derive(Debug)]
pub struct Folder(Tree);

impl Folder {
    /// The folder at `root`, which is there.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
        Tree::open(root).map(Self)
    }

    /// Where a command with `workdir` would start.
    #[must_use]
    pub fn workdir(&self, path: &str) -> Option<PathBuf> {
        let path = CleanPath::new("workdir", path, Limits::default().path_bytes).ok()?;
        let folder = self.0.start_dir(Some(path.relative())).ok()?;
        std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()
    }

    /// The beginning of a file.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let path = CleanPath::new("path", path, Limits::default().path_bytes).ok()?;
        let page = self.0.read(path.relative(), 0, 4096).ok()?;
        Some(page.bytes)
    }

    /// Writes a file and says whether it could be written.
    #[must_use]
    pub fn write(&self, path: &str, bytes: &[u8]) -> bool {
        let path = CleanPath::new("path", path, Limits::default().path_bytes);
        let Ok(path) = path else { return false };
        let written = self
            .0
            .write(path.relative(), bytes, FileMode::FILE, true, false);
        written.is_ok()
    }

    /// Removes what is at `path`, with all that is in it, and says whether it could be removed.
    #[must_use]
    pub fn remove(&self, path: &str) -> bool {
        let path = CleanPath::new("path", path, Limits::default().path_bytes);
        path.is_ok_and(|path| !path.is_root() && self.0.remove(path.relative(), true).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_sees_what_a_handler_sees() {
        let read = query("path=/a/../b&offset=7&length=0&recursive=1&tag=x+y").unwrap();
        let want = ReadQuery {
            tag: Some("x y".to_owned()),
            path: Some("/b".to_owned()),
            offset: Some(7),
            length: None,
            recursive: None,
        };
        assert_eq!(read, want);
        assert_eq!(query("a=%"), None);
        let exec =
            exec(br#"{"command":["a","b"],"stdin":"eA==","workdir":"/w/","env":{"K":null}}"#);
        let exec = exec.unwrap();
        assert_eq!(
            (exec.words, exec.names),
            (vec!["a".into(), "b".into()], vec!["K".to_owned()])
        );
        assert_eq!(exec.workdir.as_deref(), Some("/w"));
        assert_eq!(
            (exec.stdin, exec.timeout_ms),
            (Some(Bytes::from_static(b"x")), 30_000)
        );
        assert_eq!(other_bodies(br#"{"cols":1,"rows":2}"#), 2);
        assert_eq!(clean("/a//b/."), Some("/a/b".to_owned()));
    }

    #[test]
    fn a_folder_writes_reads_and_removes() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        assert!(folder.write("/f", b"x"));
        assert_eq!(folder.read("/../f"), Some(b"x".to_vec()));
        assert_eq!(folder.workdir("/f"), None);
        assert!(folder.workdir("/tmp").is_some());
        assert!(folder.remove("/f") && !folder.remove("/"));
        assert_eq!(folder.read("/f"), None);
    }
}
