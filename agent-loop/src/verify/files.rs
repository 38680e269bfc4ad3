//! The files beside the journal.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::problem::compare;
use super::{Part, Verification};
use crate::digest::Digest;
use crate::evidence::{ACCEPTANCE, FILES, JOURNAL, OUTCOME, PATCH, WORKSPACE, pretty};
use crate::journal::{Ended, Started};
use crate::manifest::Tree;
use crate::outcome::Outcome;
use crate::report::{self, REPORT};

/// Files that the loop writes.
const KNOWN: [&str; 8] = [
    JOURNAL, "blobs", ACCEPTANCE, FILES, OUTCOME, PATCH, REPORT, WORKSPACE,
];

/// The patch has to lead from the files at the start to those at the end.
pub(super) fn patch(folder: &Path, patch: &[u8], found: &mut Verification) -> io::Result<()> {
    let what = match read(&folder.join(PATCH))? {
        None => "is missing",
        Some(bytes) if bytes == patch => return Ok(()),
        Some(_) => "does not lead from the first files to the last ones",
    };
    found.say(Part::Patch, None, what.to_owned());
    Ok(())
}

/// The outcome has to be what the records come to, to the byte.
pub(super) fn outcome(
    folder: &Path,
    outcome: &Outcome,
    found: &mut Verification,
) -> io::Result<()> {
    let Some(bytes) = read(&folder.join(OUTCOME))? else {
        found.say(Part::Outcome, None, "is missing".to_owned());
        return Ok(());
    };
    if bytes == pretty(outcome)? {
        return Ok(());
    }
    let mut differences = Vec::new();
    match serde_json::from_slice(&bytes) {
        Ok(there) => compare(
            &serde_json::to_value(outcome)?,
            &there,
            "",
            &mut differences,
        ),
        Err(error) => differences.push(format!("cannot be read: {error}")),
    }
    if differences.is_empty() {
        differences.push("is not written as it was".to_owned());
    }
    for what in differences {
        found.say(Part::Outcome, None, what);
    }
    Ok(())
}

/// What finds the workspace again has to be what was there at the start.
pub(super) fn workspace(
    folder: &Path,
    started: &Started,
    found: &mut Verification,
) -> io::Result<()> {
    let there = read(&folder.join(WORKSPACE))?;
    let what = match (started.workspace_json, there) {
        (Some(_), None) => "is missing",
        (Some(digest), Some(bytes)) if digest != Digest::of(&bytes) => {
            "is not what it was at the start"
        }
        (None, Some(_)) => "was not there at the start",
        _ => return Ok(()),
    };
    found.say(Part::Workspace, None, what.to_owned());
    Ok(())
}

/// Every blob has to have the content that its name says, also one that no line names.
pub(super) fn blobs(folder: &Path, found: &mut Verification) -> io::Result<()> {
    for (name, bytes) in below(&folder.join("blobs"))? {
        if Digest::of(&bytes).to_string() != name {
            let what = format!("{name} has another content than its name says");
            found.say(Part::Blobs, None, what);
        }
    }
    Ok(())
}

/// The files that were kept have to be those at the end.
pub(super) fn kept(
    folder: &Path,
    ended: &Ended,
    tree: &Tree,
    found: &mut Verification,
) -> io::Result<()> {
    let root = folder.join(FILES);
    if !ended.files_kept {
        if root.exists() {
            found.say(Part::Files, None, "were not kept by the attempt".to_owned());
        }
        return Ok(());
    }
    let there = below(&root)?;
    let expected = tree
        .iter()
        .map(|(path, file)| (path.as_str(), file.bytes()));
    let expected: BTreeSet<_> = expected.collect();
    let there: BTreeSet<_> = there
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    let names: BTreeSet<_> = expected
        .symmetric_difference(&there)
        .map(|(name, _)| *name)
        .collect();
    for name in names {
        let what = format!("{name} is not what it was at the end");
        found.say(Part::Files, None, what);
    }
    Ok(())
}

/// The page, where there is one, has to be what the rest of the folder gives. It can be made again, so
/// nothing is lost without it.
pub(super) fn page(folder: &Path, found: &mut Verification) -> io::Result<()> {
    let Some(bytes) = read(&folder.join(REPORT))? else {
        return Ok(());
    };
    // Of evidence that does not hold, no page does.
    if found.is_consistent() && report::html(folder).ok().map(String::into_bytes) != Some(bytes) {
        let what = "is not the page about this evidence";
        found.say(Part::Report, None, what.to_owned());
    }
    Ok(())
}

/// What else is in the folder.
pub(super) fn others(folder: &Path, found: &mut Verification) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !KNOWN.contains(&&*name) {
            found.uncovered.push(name.into_owned());
        }
    }
    found.uncovered.sort();
    Ok(())
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every file below a folder, with its path in it.
fn below(root: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(root) {
                files.push((name.to_string_lossy().into_owned(), fs::read(&path)?));
            }
        }
    }
    Ok(files)
}
