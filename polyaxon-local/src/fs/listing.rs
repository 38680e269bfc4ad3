//! What is in a directory, and what is at a path.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::rc::Rc;

use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use jiff::Timestamp;
use polyaxon_sandbox::FileMode;
use polyaxon_sandbox::fs::{Entry, FileType, Stat};

use super::tree::Tree;

/// Up to `max` entries of `dir`, and whether there are more. Names are sorted within a directory,
/// and a directory's own entries come before those of its subdirectories. Links are not entered.
///
/// An entry that vanishes meanwhile is left out. A subdirectory that may not be read fails the
/// listing, as the daemon does it: leaving its content out would look like an empty directory.
pub(crate) fn list(dir: Dir, recursive: bool, max: usize) -> io::Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    // The next one to list is the last: its name relative to the listed directory, the directory
    // that it is in, and its name there. Only directories on the way down are held open.
    let mut pending = vec![(String::new(), Rc::new(dir), OsString::from("."))];
    while let Some((prefix, parent, name)) = pending.pop() {
        let dir = match parent.open_dir(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound && !prefix.is_empty() => continue,
            dir => Rc::new(dir?),
        };
        drop(parent);
        let mut names = dir
            .entries()?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        let mut below = Vec::new();
        for name in names {
            let meta = match dir.symlink_metadata(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                meta => meta?,
            };
            if entries.len() == max {
                return Ok((entries, true));
            }
            let path = format!("{prefix}{}", name.to_string_lossy());
            entries.push(entry(&dir, Path::new(&name), path.clone(), &meta));
            if recursive && meta.is_dir() {
                below.push((format!("{path}/"), Rc::clone(&dir), name));
            }
        }
        pending.extend(below.into_iter().rev());
    }
    Ok((entries, false))
}

fn entry(dir: &Dir, name: &Path, path: String, meta: &Metadata) -> Entry {
    let mut entry = Entry::new(path, file_type(meta), meta.len(), mode(meta));
    entry.modified = modified(meta);
    entry.symlink_target = target(dir, name, meta);
    entry
}

/// What is at `path`, which the answer calls `name`.
pub(crate) fn stat(tree: &Tree, path: &str, name: String) -> io::Result<Stat> {
    let meta = tree.metadata(path)?;
    let mut stat = Stat::new(name, file_type(&meta), meta.len(), mode(&meta));
    stat.modified = modified(&meta);
    stat.uid = Some(meta.uid());
    stat.gid = Some(meta.gid());
    if meta.is_symlink() {
        let target = tree.link(path).ok();
        stat.symlink_target = target.map(|text| text.to_string_lossy().into_owned());
    }
    Ok(stat)
}

fn file_type(meta: &Metadata) -> FileType {
    if meta.is_symlink() {
        FileType::Symlink
    } else if meta.is_dir() {
        FileType::Dir
    } else if meta.is_file() {
        FileType::File
    } else {
        FileType::Special
    }
}

fn mode(meta: &Metadata) -> FileMode {
    FileMode::from_st_mode(meta.mode())
}

fn modified(meta: &Metadata) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(meta.mtime_nsec()).ok()?;
    Timestamp::new(meta.mtime(), nanoseconds).ok()
}

/// The text of a link, wherever it points. It is read, not followed.
fn target(dir: &Dir, path: &Path, meta: &Metadata) -> Option<String> {
    let target = meta
        .is_symlink()
        .then(|| dir.read_link_contents(path))?
        .ok()?;
    Some(target.to_string_lossy().into_owned())
}
