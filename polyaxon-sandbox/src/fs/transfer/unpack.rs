//! Unpacking an archive that the sandbox made, which may say anything.
//!
//! It goes into a new folder that nobody else writes to. Names are checked, directories are made
//! one by one, files only where nothing is, and links last of all: so there is never a link that a
//! name could lead through. Of a link only such a text is taken that cannot lead out of the folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::{Buf as _, Bytes};
use tar::{Archive, Entry, EntryType, PaxExtensions};
use tokio::sync::mpsc;

use super::disk;
use super::tree::LeftOut;
use crate::error::Error;
use crate::fs::buffers::Buffers;
use crate::fs::error::{FileError, local as local_error};
use crate::path::FileMode;

/// The longest name, and the longest text of a link, in bytes.
const LONGEST_NAME: u64 = 4096;
/// The longest record of a member that says more about the next one.
const LONGEST_RECORD: u64 = 64 << 10;
/// How deep a tree may be.
const DEEPEST: usize = 256;

/// How much is unpacked at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caps {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// What was unpacked.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) links: u64,
    pub(super) left_out: Vec<LeftOut>,
    /// Directories by their path below the folder, with what they get when all is in its place.
    pub(super) dirs: Vec<DirState>,
}

/// What a directory gets when all is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirState {
    pub(super) path: PathBuf,
    pub(super) mode: FileMode,
    pub(super) modified: Option<SystemTime>,
}

/// What a member says beside its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    pub(super) mode: FileMode,
    pub(super) modified: Option<SystemTime>,
}

/// A folder that is being filled.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    caps: Caps,
    entries: u64,
    /// Directories that we made, relative to the root.
    made: HashSet<PathBuf>,
    /// Links that are made last: their path, and the text.
    links: Vec<(PathBuf, PathBuf)>,
    unpacked: Unpacked,
}

impl Tree {
    pub(super) fn new(root: &Path, caps: Caps) -> Self {
        Self {
            root: root.to_owned(),
            caps,
            entries: 0,
            made: HashSet::new(),
            links: Vec::new(),
            unpacked: Unpacked::default(),
        }
    }

    /// Counts an entry, and refuses one too many.
    pub(super) fn count(&mut self, name: &Path, bytes: u64) -> Result<(), Error> {
        self.entries += 1;
        self.unpacked.bytes = self.unpacked.bytes.saturating_add(bytes);
        if self.entries > self.caps.entries {
            let most = self.caps.entries;
            return Err(refused(
                name,
                format!("is one more than the {most} that may come"),
            ));
        }
        if self.unpacked.bytes > self.caps.bytes {
            let most = self.caps.bytes;
            return Err(refused(
                name,
                format!("makes more than the {most} bytes that may come"),
            ));
        }
        Ok(())
    }

    pub(super) fn leave_out(&mut self, name: &Path, reason: impl Into<String>) {
        self.unpacked.left_out.push(LeftOut::new(name, reason));
    }

    /// A directory, and those above it.
    pub(super) fn dir(&mut self, path: &Path, attributes: Attributes) -> Result<(), Error> {
        self.make_dirs(path)?;
        self.unpacked.dirs.push(DirState {
            path: path.to_owned(),
            mode: attributes.mode,
            modified: attributes.modified,
        });
        Ok(())
    }

    fn make_dirs(&mut self, path: &Path) -> Result<(), Error> {
        if path.as_os_str().is_empty() || self.made.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_dirs(parent)?;
        }
        match disk::make_private_dir(&self.root.join(path)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(twice(path)),
            Err(error) => return Err(local_error("make", path, error)),
        }
        self.made.insert(path.to_owned());
        Ok(())
    }

    /// A new file, for its owner only, and where it is.
    pub(super) fn file(&mut self, path: &Path) -> Result<File, Error> {
        if let Some(parent) = path.parent() {
            self.make_dirs(parent)?;
        }
        self.unpacked.files += 1;
        match disk::new_private_file(&self.root.join(path)) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(twice(path)),
            Err(error) => Err(local_error("make", path, error)),
        }
    }

    /// Makes the way to a file that somebody else will make, and counts it.
    pub(super) fn expect_file(&mut self, path: &Path) -> Result<(), Error> {
        if let Some(parent) = path.parent() {
            self.make_dirs(parent)?;
        }
        self.unpacked.files += 1;
        Ok(())
    }

    /// Says that such a file did not come.
    pub(super) fn forget_file(&mut self, path: &Path, reason: &str) {
        self.unpacked.files -= 1;
        self.leave_out(path, reason);
    }

    /// A second name of a file that was unpacked before.
    fn hard_link(&mut self, path: &Path, target: &Path) -> Result<(), Error> {
        let old = self.root.join(target);
        let is_file = std::fs::symlink_metadata(&old).is_ok_and(|found| found.is_file());
        if !is_file {
            return Err(refused(path, "is a link to no file of the archive"));
        }
        if let Some(parent) = path.parent() {
            self.make_dirs(parent)?;
        }
        self.unpacked.files += 1;
        match std::fs::hard_link(old, self.root.join(path)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(twice(path)),
            Err(error) => Err(local_error("link", path, error)),
        }
    }

    /// A link, to be made last; left out where it could lead out of the folder.
    pub(super) fn link(&mut self, path: &Path, text: &[u8]) -> Result<(), Error> {
        let depth = path.components().count().saturating_sub(1);
        match link_text(text, depth) {
            Ok(target) => self.links.push((path.to_owned(), target)),
            Err(reason) => self.leave_out(path, reason),
        }
        Ok(())
    }

    /// Makes the links.
    pub(super) fn finish(mut self) -> Result<Unpacked, Error> {
        for (path, text) in std::mem::take(&mut self.links) {
            if let Some(parent) = path.parent() {
                self.make_dirs(parent)?;
            }
            match disk::symlink(&text, &self.root.join(&path)) {
                Ok(()) => self.unpacked.links += 1,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(twice(&path));
                }
                Err(error) => return Err(local_error("link", &path, error)),
            }
        }
        Ok(self.unpacked)
    }
}

/// Unpacks an archive into `root`, a new folder of our own.
pub(super) fn unpack(archive: impl Read, root: &Path, caps: Caps) -> Result<Unpacked, Error> {
    let broken = |error: io::Error| FileError::Archive {
        name: String::new(),
        problem: format!("cannot be read: {error}"),
    };
    let mut tree = Tree::new(root, caps);
    let mut archive = Archive::new(archive);
    let mut next = Next::default();
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let entry = entry.map_err(broken)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => next.name = Some(record(entry, LONGEST_NAME)?),
            EntryType::GNULongLink => next.link = Some(record(entry, LONGEST_NAME)?),
            EntryType::XHeader => next.read_pax(&record(entry, LONGEST_RECORD)?)?,
            EntryType::XGlobalHeader => {}
            _ => member(entry, std::mem::take(&mut next), &mut tree)?,
        }
    }
    tree.finish()
}

/// What was said in advance about the next member.
#[derive(Default)]
struct Next {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<SystemTime>,
}

impl Next {
    fn read_pax(&mut self, records: &[u8]) -> Result<(), Error> {
        for record in PaxExtensions::new(records) {
            let record = record.map_err(|_| refused(Path::new(""), "has a record that is none"))?;
            let text = record.value().ok();
            match record.key_bytes() {
                b"path" => self.name = Some(record.value_bytes().to_vec()),
                b"linkpath" => self.link = Some(record.value_bytes().to_vec()),
                b"size" => self.size = text.and_then(|text| text.parse().ok()),
                b"mtime" => {
                    let seconds = text.and_then(|text| text.parse::<f64>().ok());
                    let since = seconds.and_then(|time| Duration::try_from_secs_f64(time).ok());
                    self.modified =
                        since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn member<R: Read>(mut entry: Entry<'_, R>, next: Next, tree: &mut Tree) -> Result<(), Error> {
    let header = entry.header();
    let name = next
        .name
        .unwrap_or_else(|| header.path_bytes().into_owned());
    let path = member_path(&name)?;
    let size = entry.size();
    if next.size.is_some_and(|said| said != size) {
        return Err(refused(&path, "says two sizes"));
    }
    let since = header.mtime().ok().map(Duration::from_secs);
    let attributes = Attributes {
        mode: FileMode::from_st_mode(header.mode().unwrap_or(0o600)),
        modified: next
            .modified
            .or_else(|| since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))),
    };
    let kind = header.entry_type();
    let link = next
        .link
        .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
        .unwrap_or_default();
    let holds_bytes = matches!(kind, EntryType::Regular | EntryType::Continuous);
    tree.count(&path, if holds_bytes { size } else { 0 })?;
    match kind {
        EntryType::Directory => tree.dir(&path, attributes),
        _ if path.as_os_str().is_empty() => Err(refused(&path, "has no name")),
        EntryType::Regular | EntryType::Continuous => {
            let mut file = tree.file(&path)?;
            let failed = |error| local_error("write", &path, error);
            let copied = io::copy(&mut entry, &mut file).map_err(failed)?;
            if copied != size {
                return Err(refused(&path, "is cut off"));
            }
            disk::dress(&file, attributes).map_err(failed)
        }
        EntryType::Link => {
            let target = member_path(&link)?;
            tree.hard_link(&path, &target)
        }
        EntryType::Symlink => tree.link(&path, &link),
        // Its size is not what follows it, so nothing behind it could be read.
        EntryType::GNUSparse => Err(refused(&path, "is a sparse file, which is not read")),
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            tree.leave_out(&path, "a device or a FIFO");
            Ok(())
        }
        _ => {
            tree.leave_out(&path, "of an unknown kind");
            Ok(())
        }
    }
}

/// A record about the next member, bounded.
fn record<R: Read>(mut entry: Entry<'_, R>, longest: u64) -> Result<Vec<u8>, Error> {
    if entry.size() > longest {
        return Err(refused(
            Path::new(""),
            "has a name or a record that is too long",
        ));
    }
    let mut bytes = Vec::new();
    entry
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::Archive {
            name: String::new(),
            problem: format!("cannot be read: {error}"),
        })?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

/// The path of a member below the folder; empty for the folder itself.
pub(super) fn member_path(name: &[u8]) -> Result<PathBuf, Error> {
    let shown = || PathBuf::from(String::from_utf8_lossy(name).into_owned());
    if name.starts_with(b"/") {
        return Err(refused(&shown(), "is absolute"));
    }
    if u64::try_from(name.len()).unwrap_or(u64::MAX) > LONGEST_NAME {
        return Err(refused(&shown(), "is too long"));
    }
    let mut path = PathBuf::new();
    let mut depth = 0;
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => continue,
            b".." => return Err(refused(&shown(), "leads out of its folder")),
            _ => {}
        }
        let part = disk::name(part).filter(|part| {
            // One part of a path here as well: on some systems more separates than a slash.
            Path::new(part).components().count() == 1 && Path::new(part).file_name().is_some()
        });
        let Some(part) = part.filter(|_| !name.contains(&0)) else {
            return Err(refused(&shown(), "cannot be a name here"));
        };
        depth += 1;
        if depth > DEEPEST {
            return Err(refused(&shown(), "is too deep"));
        }
        path.push(part);
    }
    Ok(path)
}

/// The text of a link that stands `depth` directories below the folder, if it cannot lead out. Steps
/// up are taken only at its start: behind a name, which can be another link, nobody knows where they
/// lead.
pub(super) fn link_text(text: &[u8], depth: usize) -> Result<PathBuf, &'static str> {
    if text.starts_with(b"/") {
        return Err("a link out of the directory");
    }
    let mut up = 0;
    let mut named = false;
    for part in text.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if named => return Err("a link whose way leads down and up"),
            b".." => up += 1,
            _ => named = true,
        }
    }
    if up > depth {
        return Err("a link out of the directory");
    }
    match disk::name(text) {
        Some(text) if !text.is_empty() => Ok(text.into()),
        _ => Err("a link to what cannot be a name here"),
    }
}

pub(super) fn refused(name: &Path, problem: impl Into<String>) -> Error {
    FileError::Archive {
        name: name.display().to_string(),
        problem: problem.into(),
    }
    .into()
}

fn twice(path: &Path) -> Error {
    refused(path, "comes twice, or is below a file")
}

/// Bytes that come through a channel, to read from a thread.
#[derive(Debug)]
pub(super) struct Incoming {
    pages: mpsc::Receiver<Bytes>,
    rest: Bytes,
    buffers: Buffers,
}

impl Incoming {
    pub(super) fn new(pages: mpsc::Receiver<Bytes>, buffers: Buffers) -> Self {
        Self {
            pages,
            rest: Bytes::new(),
            buffers,
        }
    }
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.pages.blocking_recv() {
                Some(page) => self.buffers.give(std::mem::replace(&mut self.rest, page)),
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        self.rest
            .copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
