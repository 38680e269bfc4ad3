//! Giving a finished folder of this machine its place.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::disk;
use super::local::{short, split};
use super::tree::Existing;
use super::unpack::{Attributes, DirState};
use crate::error::Error;
use crate::fs::error::{FileError, local as local_error};

/// A new folder beside `destination`, removed when it is dropped.
pub(super) fn stage(destination: &Path) -> io::Result<TempDir> {
    let (folder, name) = split(destination)?;
    tempfile::Builder::new()
        .prefix(&format!(".{}.", short(&name)))
        .suffix(".part")
        .tempdir_in(folder)
}

/// Refuses early what could not be finished.
pub(super) fn check(destination: &Path, existing: Existing) -> Result<(), Error> {
    match std::fs::symlink_metadata(destination) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(local_error("look at", destination, error)),
        // A link to a directory is one to merge into, and nothing to replace.
        Ok(_) if existing == Existing::Merge && destination.is_dir() => Ok(()),
        Ok(found) if existing == Existing::Replace && found.is_dir() => Ok(()),
        Ok(_) => Err(exists(destination)),
    }
}

/// Moves what is in `stage` to `destination`. `dirs` are the directories in it, to be given their
/// modes when nothing has to be written to them any more.
pub(super) fn place(
    stage: TempDir,
    destination: &Path,
    existing: Existing,
    dirs: &[DirState],
) -> Result<(), Error> {
    check(destination, existing)?;
    let failed = |error| local_error("finish", destination, error);
    if existing == Existing::Merge && destination.exists() {
        let mut merged = Vec::new();
        merge(stage.path(), destination, Path::new(""), &mut merged)?;
        // What was there keeps its own mode.
        let made: Vec<DirState> = dirs
            .iter()
            .filter(|dir| merged.iter().any(|top| dir.path.starts_with(top)))
            .cloned()
            .collect();
        return dress(destination, &made).map_err(failed);
    }
    dress(stage.path(), dirs).map_err(failed)?;
    let old = match destination.exists() {
        true => Some(set_aside(destination).map_err(failed)?),
        false => None,
    };
    match std::fs::rename(stage.path(), destination) {
        Ok(()) => {
            // Nothing is left at its old name to be removed.
            drop(stage.keep());
            match old {
                Some(old) => old.close().map_err(failed),
                None => Ok(()),
            }
        }
        Err(error) => {
            if let Some(old) = old {
                std::fs::rename(old.path().join("old"), destination).map_err(failed)?;
            }
            match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                    Err(exists(destination))
                }
                _ => Err(failed(error)),
            }
        }
    }
}

/// Moves a directory out of the way, into a folder that is removed with it.
fn set_aside(destination: &Path) -> io::Result<TempDir> {
    let aside = stage(destination)?;
    std::fs::rename(destination, aside.path().join("old"))?;
    Ok(aside)
}

/// Moves every entry of `from` to `to`, and enters directories that are there already. `tops` gets
/// the directories that were moved as a whole.
fn merge(from: &Path, to: &Path, below: &Path, tops: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries = std::fs::read_dir(from).map_err(|error| local_error("list", from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| local_error("list", from, error))?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        let below = below.join(entry.file_name());
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let there = std::fs::symlink_metadata(&new).ok();
        match (is_dir, there.map(|there| there.is_dir())) {
            (true, Some(true)) => merge(&old, &new, &below, tops)?,
            // Neither through a link nor over a directory.
            (true, Some(false)) | (false, Some(true)) => return Err(exists(&new)),
            (_, None) | (false, Some(false)) => {
                std::fs::rename(&old, &new).map_err(|error| local_error("finish", &new, error))?;
                if is_dir {
                    tops.push(below);
                }
            }
        }
    }
    Ok(())
}

/// Gives directories their modes and times, the deepest first.
fn dress(root: &Path, dirs: &[DirState]) -> io::Result<()> {
    let mut dirs: Vec<&DirState> = dirs.iter().collect();
    dirs.sort_by_key(|dir| std::cmp::Reverse(dir.path.components().count()));
    for dir in dirs {
        let attributes = Attributes {
            mode: dir.mode,
            modified: dir.modified,
        };
        disk::dress_dir(&root.join(&dir.path), attributes)?;
    }
    Ok(())
}

fn exists(path: &Path) -> Error {
    let path = path.display().to_string();
    FileError::Exists { path }.into()
}
