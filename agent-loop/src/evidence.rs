//! The folder of a run, in which its evidence is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::digest::Digest;
use crate::manifest::Tree;
use crate::outcome::Outcome;

/// The folder of a run: `workspace.json`, `actions.jsonl` with `blobs`, `acceptance.json`,
/// `patch.diff`, `outcome.json`, `report.html`, and `files` where they are kept.
///
/// Of what is hidden from the model, these hold:
///
/// | file | what |
/// |---|---|
/// | `acceptance.json` | hidden tests and expected answers, whole: what the evaluator can be made again from |
/// | `actions.jsonl`, `blobs` | all that the commands of hidden stages have written, so what a hidden test that failed has expected |
/// | `report.html` | the same, in parts |
/// | `outcome.json` | a line of each check that did not pass; where a hidden stage came to no verdict it can quote what code under test has written |
///
/// What looks like a secret in the output of a check, by the name it stands behind, is in `actions.jsonl`
/// and `blobs` alone: the others, and the model, have `<redacted>` in its place.
///
/// Each of them is its owner's alone (mode 0600 on Unix), in every run, since the output of any check
/// can hold what is not meant for all who use a machine. `workspace.json`, `patch.diff` and `files`
/// come from the workspace and can be read by everyone, and shown to others. The whole folder can be
/// shown only where no check has anything to hide.
///
/// # Examples
/// ```no_run
/// use agent_loop::RunDir;
///
/// // As soon as the workspace has a name, and before anything is done in it:
/// let run = RunDir::create("agent-output")?;
/// run.write_workspace(&serde_json::json!({"run_uuid": "8aac02e3a62a4f0aaa257c59da5eab80"}))?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    folder: PathBuf,
}

impl RunDir {
    /// The folder, made where it is not there.
    ///
    /// # Errors
    /// Where it cannot be made, or holds the journal of another attempt.
    pub fn create(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        if folder.join(JOURNAL).exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the folder holds the journal of another attempt",
            ));
        }
        Ok(Self { folder })
    }

    /// The folder of a run that was begun.
    ///
    /// # Errors
    /// Where it is no folder.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        match fs::metadata(&folder)?.is_dir() {
            true => Ok(Self { folder }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes `workspace.json`: what a person needs to find the workspace again, and to end it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_workspace<T: Serialize>(&self, identity: &T) -> io::Result<()> {
        write_file(&self.folder.join(WORKSPACE), &pretty(identity)?)
    }

    pub(crate) fn has_workspace(&self) -> bool {
        self.folder.join(WORKSPACE).exists()
    }

    /// The digest of `workspace.json`, where it is there.
    pub(crate) fn workspace_digest(&self) -> Option<Digest> {
        let bytes = fs::read(self.folder.join(WORKSPACE)).ok()?;
        Some(Digest::of(&bytes))
    }

    /// Writes what the evaluator can be made again from.
    pub(crate) fn write_acceptance(&self, description: &[u8]) -> io::Result<()> {
        write_private(&self.folder.join(ACCEPTANCE), description)
    }

    pub(crate) fn write_patch(&self, patch: &[u8]) -> io::Result<()> {
        write_file(&self.folder.join(PATCH), patch)
    }

    pub(crate) fn write_outcome(&self, outcome: &Outcome) -> io::Result<()> {
        write_private(&self.folder.join(OUTCOME), &pretty(outcome)?)
    }

    /// Writes every file of `tree` below `files`.
    pub(crate) fn write_files(&self, tree: &Tree) -> io::Result<()> {
        let root = self.folder.join(FILES);
        fs::create_dir_all(&root)?;
        for (path, file) in tree.iter() {
            // No component is `..` or absolute, so this stays below `root`.
            let at = root.join(path.as_str());
            if let Some(folder) = at.parent() {
                fs::create_dir_all(folder)?;
            }
            write(&self.folder, &at, file.bytes(), readable_by_all)?;
        }
        Ok(())
    }
}

/// What happened.
pub(crate) const JOURNAL: &str = "actions.jsonl";
/// What finds the workspace again.
pub(crate) const WORKSPACE: &str = "workspace.json";
/// What the evaluator can be made again from.
pub(crate) const ACCEPTANCE: &str = "acceptance.json";
/// The change.
pub(crate) const PATCH: &str = "patch.diff";
/// How it ended.
pub(crate) const OUTCOME: &str = "outcome.json";
/// The workspace's files at the end, where they are kept.
pub(crate) const FILES: &str = "files";

/// A value as it is written to a file.
pub(crate) fn pretty<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Writes a file so that there is either the old one or the whole new one, whatever happens.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(folder_of(path), path, bytes, readable_by_all)
}

/// The same, for nobody but its owner: what a check has written can be in it.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_private_from(folder_of(path), path, bytes)
}

/// The same, by way of a temporary file in the folder `by` of the same file system.
pub(crate) fn write_private_from(by: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(by, path, bytes, |_| Ok(()))
}

/// Removes the temporary files in `folder` that programs have left which were ended before they could
/// give them their names. Only for whoever alone writes there: those of a write under way are among
/// them.
///
/// # Errors
/// Where the folder cannot be read, or such a file not be removed.
pub(crate) fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_temporary(&entry.file_name().to_string_lossy()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a name is that of a file that is being written, `.tmp-<process>-<number>`.
pub(crate) fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix(TEMPORARY);
    let numbers = numbers.and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Whether a part of a name is the number of a process, or another.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn write(
    by: &Path,
    path: &Path,
    bytes: &[u8],
    permit: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut temporary = Temporary::create(by)?;
    let mut file = &temporary.file;
    file.write_all(bytes)?;
    file.sync_all()?;
    permit(file)?;
    fs::rename(&temporary.path, path)?;
    temporary.is_renamed = true;
    sync_folder(folder_of(path))
}

/// What the name of a temporary file begins with.
const TEMPORARY: &str = ".tmp-";

/// A file of a name that nobody else uses. Removed by itself where it was not renamed.
struct Temporary {
    path: PathBuf,
    file: File,
    is_renamed: bool,
}

impl Temporary {
    fn create(folder: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{TEMPORARY}{}-{number}", std::process::id()));
            match owners_alone().create_new(true).open(&path) {
                Ok(file) => {
                    return Ok(Self {
                        path,
                        file,
                        is_renamed: false,
                    });
                }
                // What an earlier process of this number has left behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// A file that nobody but its owner can read or write, where it is made anew.
#[cfg(unix)]
pub(crate) fn owners_alone() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
pub(crate) fn owners_alone() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

/// A temporary file is its owner's alone; what comes from the workspace is read like any other file.
#[cfg(unix)]
fn readable_by_all(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable_by_all(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Makes the names in a folder durable. Without it a new file can be lost with the machine.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
    // Folders cannot be opened as files there.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outcome.json");
        write_file(&path, b"old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outcome.json");
        fs::create_dir(&path).unwrap();
        write_file(&path, b"new").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_another_folder_is_half_only_where_a_crash_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (run, path) = (folder.path().join("run"), folder.path().join("blob"));
        write_private_from(&run, &path, b"new").unwrap_err();
        assert!(!path.exists());
        fs::create_dir(&run).unwrap();
        write_private_from(&run, &path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    }

    #[test]
    fn what_a_crash_has_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let left = [".tmp-1-0", ".tmp-4194304-17"];
        let others = [
            ".tmp-",
            ".tmp-1-",
            ".tmp--1",
            ".tmp-1-a",
            ".tmp-x",
            "tmp-1-0",
            "a.tmp-1-0",
        ];
        for name in left.iter().chain(&others) {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        fs::create_dir(folder.path().join(".tmp-2-2")).unwrap();
        remove_leftovers(folder.path()).unwrap();
        let names = fs::read_dir(folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut expected: Vec<&str> = others.into_iter().chain([".tmp-2-2"]).collect();
        let mut names: Vec<String> = names.collect();
        names.sort();
        expected.sort_unstable();
        assert_eq!(names, expected);
        // What is written now is one of them until it has its name.
        let temporary = Temporary::create(folder.path()).unwrap();
        let name = temporary.path.file_name().unwrap().to_str().unwrap();
        assert!(is_temporary(name), "{name}");
    }

    #[test]
    fn a_folder_with_a_journal_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("a/b")).unwrap();
        assert!(!run.has_workspace());
        run.write_workspace(&serde_json::json!({"run_uuid": "x"}))
            .unwrap();
        assert!(run.has_workspace());
        fs::write(run.path().join("actions.jsonl"), "").unwrap();
        let error = RunDir::create(run.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
