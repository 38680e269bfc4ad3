//! A directory of the sandbox to this machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::StatusCode;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::place::{check, place, stage};
use super::tree::{DownloadDir, TreeMethod, TreeReceipt};
use super::unpack::{Attributes, DirState, Incoming, Tree, Unpacked, member_path, unpack};
use super::{Account, disk, random_word};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fs::command::Ran;
use crate::fs::entry::{Entry, FileType, Stat};
use crate::fs::error::{FileError, local as local_error};
use crate::fs::files::{Fs, Mkdir, checked, is_missing, is_refused};
use crate::fs::pages::{MOST_PAGES, PAGE, Pages, Plan};
use crate::path::{AbsPath, FileMode};
use crate::process::ExecResult;

/// How many files are under way at once where they come one by one.
const FILES_AT_ONCE: usize = 8;
/// The page of a file that comes beside seven others.
const SMALL_PAGE: u64 = 512 << 10;
/// The folder that every sandbox has.
const TMP: &str = "/tmp";
/// What `tar` exits with where it has packed everything, and something changed meanwhile.
const SOME_DIFFER: i32 = 1;

impl Fs {
    /// Brings a directory of the sandbox to this machine: see [`DownloadDir`]. A link at `from` is
    /// followed, links in it are not.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing, [`FileError::NotDirectory`] where it is no
    /// directory; [`FileError::Exists`] where the destination, or a part of it, must not be
    /// replaced; [`FileError::Archive`] where something in it must not come here, or too much;
    /// [`Error::Local`] for this machine's part. Until the last step the destination is as it was;
    /// only where files are [added](super::Existing::Merge) to a folder, that step can stop in the
    /// middle.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the destination as it was, unless files are just being added to
    /// it. It can leave a directory of ours in the sandbox, `/tmp/plx-….part`.
    pub async fn download_dir(&self, download: &DownloadDir) -> Result<TreeReceipt, Error> {
        let path = checked(download.from.as_str())?;
        Box::pin(self.bring_dir(download, &path)).await
    }

    async fn bring_dir(
        &self,
        download: &DownloadDir,
        path: &AbsPath,
    ) -> Result<TreeReceipt, Error> {
        let account = Account::new();
        let (path, found) = self.followed(path, &account.tally).await?;
        let root = match found {
            Some(root) => root,
            // The service's own words for it.
            None => self.stat(&path).await?,
        };
        if root.file_type != FileType::Dir {
            let (path, file_type) = (path.as_str().to_owned(), root.file_type);
            return Err(FileError::NotDirectory { path, file_type }.into());
        }
        let stage = on_disk(download, |to, existing| {
            check(&to, existing)?;
            stage(&to).map_err(|error| local_error("make a folder beside", &to, error))
        })
        .await?;
        let packed = self.pack_there(&path, &account).await?;
        let (mut unpacked, changed, method) = match packed {
            Some((dir, changed)) => {
                let archive = dir.join("archive.tar")?;
                let unpacked = self.unpack_here(download, &archive, &stage, &account).await;
                account.tally.request();
                // What cannot be removed is left; the files are there.
                drop(self.rm_all(&dir).await);
                (unpacked?, changed, TreeMethod::Archive)
            }
            None => {
                let unpacked = self.one_by_one(download, &path, &stage, &account).await?;
                (unpacked, Vec::new(), TreeMethod::FileByFile)
            }
        };
        unpacked.dirs.push(root_state(&root));
        let dirs = std::mem::take(&mut unpacked.dirs);
        on_disk(download, move |to, existing| {
            place(stage, &to, existing, &dirs)
        })
        .await?;
        let mut receipt = TreeReceipt::new(&account, method);
        receipt.files = unpacked.files;
        receipt.bytes = unpacked.bytes;
        receipt.links = unpacked.links;
        receipt.left_out = unpacked.left_out;
        receipt.changed = changed;
        Ok(receipt)
    }

    /// Has the sandbox pack a directory: into which directory of ours, and what changed meanwhile.
    /// `None` where that did not work out, so that files have to come one by one.
    async fn pack_there(
        &self,
        path: &AbsPath,
        account: &Account,
    ) -> Result<Option<(AbsPath, Vec<String>)>, Error> {
        let dir = AbsPath::try_from(TMP)?.join(&format!("plx-{}.part", random_word()))?;
        let private = Mkdir::new().mode(FileMode::new(0o700)?);
        account.tally.request();
        if self.mkdir_with(&dir, private).await.is_err() {
            return Ok(None);
        }
        let (name, from) = (
            dir.join("archive.tar")?.root_relative(),
            path.root_relative(),
        );
        let command = ["tar", "-c", "-f", &name, "-C", &from, "."];
        let changed = match self.run_again(command, &account.tally).await {
            Ok(Ran::Ended(result)) => packed_all(&result),
            // It may have taken too long for one exec, for one.
            Ok(Ran::Missing) | Err(_) => None,
        };
        match changed {
            Some(changed) => Ok(Some((dir, changed))),
            None => {
                account.tally.request();
                self.rm_all(&dir).await?;
                Ok(None)
            }
        }
    }

    /// Reads the archive and unpacks it on the way.
    async fn unpack_here(
        &self,
        download: &DownloadDir,
        archive: &AbsPath,
        stage: &TempDir,
        account: &Account,
    ) -> Result<Unpacked, Error> {
        account.tally.request();
        let size = self.stat(archive).await?.size;
        let plan = Plan {
            path: archive.clone(),
            start: 0,
            end: None,
            known: size,
            page: PAGE,
            most: MOST_PAGES,
        };
        let mut pages = Pages::new(self.clone(), plan, account.tally.clone());
        let (give, take) = mpsc::channel::<Bytes>(1);
        let (root, caps) = (stage.path().to_owned(), download.caps);
        let archive = Incoming::new(take, pages.buffers());
        let unpacking = blocking(move || Ok(unpack(archive, &root, caps)));
        let mut broken = None;
        while let Some(page) = pages.next().await {
            match page {
                Err(error) => broken = Some(error),
                Ok(page) => match give.send(page).await {
                    Ok(()) => download.listener.tell(pages.position(), Some(size)),
                    // The end of the archive came before the end of its file, or an error did.
                    Err(_) => break,
                },
            }
        }
        drop(give);
        let unpacked = unpacking.await;
        let unpacked = unpacked.map_err(|error| local_error("unpack to", &download.to, error))?;
        match broken {
            Some(error) => Err(error),
            None => unpacked,
        }
    }

    /// Everything one by one, for a sandbox without `tar`. What may not be read is left out.
    async fn one_by_one(
        &self,
        download: &DownloadDir,
        path: &AbsPath,
        stage: &TempDir,
        account: &Account,
    ) -> Result<Unpacked, Error> {
        let mut tree = Tree::new(stage.path(), download.caps);
        let mut files = Vec::new();
        let mut walk = self.walk(path)?;
        while let Some(entry) = walk.next().await {
            account.tally.request();
            match entry {
                Ok(entry) => take(&mut tree, entry, &mut files)?,
                Err(error) if is_passed_over(&error.source) => {
                    let name = error.path.as_str().to_owned();
                    tree.leave_out(Path::new(&name), "a directory that cannot be listed");
                }
                Err(error) => return Err(error.source),
            }
        }
        let mut coming = stream::iter(files)
            .map(|file| self.fetch_file(path, stage.path(), file, account))
            .buffer_unordered(FILES_AT_ONCE);
        let mut bytes = 0;
        while let Some((name, result)) = coming.next().await {
            match result {
                Ok(count) => bytes += count,
                Err(error) if is_passed_over(&error) => {
                    tree.forget_file(&name, "it cannot be read, or vanished");
                }
                Err(error) => return Err(error),
            }
            download.listener.tell(bytes, None);
        }
        drop(coming);
        let finished = blocking(move || Ok(tree.finish()));
        let finished = finished.await;
        let mut unpacked =
            finished.map_err(|error| local_error("unpack to", &download.to, error))??;
        unpacked.bytes = bytes;
        Ok(unpacked)
    }

    /// One file, page by page.
    async fn fetch_file(
        &self,
        root: &AbsPath,
        stage: &Path,
        file: Coming,
        account: &Account,
    ) -> (PathBuf, Result<u64, Error>) {
        let to = stage.join(&file.path);
        let fetched = self.fetch_pages(root, &file, &to, account).await;
        (file.path, fetched)
    }

    async fn fetch_pages(
        &self,
        root: &AbsPath,
        file: &Coming,
        to: &Path,
        account: &Account,
    ) -> Result<u64, Error> {
        let failed = |error| local_error("write", to, error);
        let plan = Plan {
            path: root.join(&file.name)?,
            start: 0,
            end: None,
            known: file.size,
            page: SMALL_PAGE,
            most: 1,
        };
        let mut pages = Pages::new(self.clone(), plan, account.tally.clone());
        let mut first = pages.try_next().await?;
        let path = to.to_owned();
        let made = blocking(move || disk::new_private_file(&path));
        let mut open = made.await.map_err(failed)?;
        let attributes = file.attributes;
        while let Some(page) = first.take() {
            let written = blocking(move || {
                open.write_all(&page)?;
                Ok(open)
            });
            open = written.await.map_err(failed)?;
            first = pages.try_next().await?;
        }
        let dressed = blocking(move || disk::dress(&open, attributes));
        dressed.await.map_err(failed)?;
        Ok(pages.position())
    }
}

/// A file that is to come by itself.
struct Coming {
    name: String,
    path: PathBuf,
    size: u64,
    attributes: Attributes,
}

/// Takes an entry of a walk; files are noted in `files`.
fn take(tree: &mut Tree, entry: Entry, files: &mut Vec<Coming>) -> Result<(), Error> {
    // The service can say anything too.
    let path = member_path(entry.name.as_bytes())?;
    let attributes = Attributes {
        mode: entry.mode.unwrap_or(FileMode::FILE),
        modified: entry
            .modified
            .and_then(|time| SystemTime::try_from(time).ok()),
    };
    match entry.file_type {
        FileType::Dir => {
            tree.count(&path, 0)?;
            tree.dir(&path, attributes)
        }
        FileType::File => {
            tree.count(&path, entry.size)?;
            tree.expect_file(&path)?;
            files.push(Coming {
                name: entry.name,
                path,
                size: entry.size,
                attributes,
            });
            Ok(())
        }
        FileType::Symlink => {
            tree.count(&path, 0)?;
            tree.link(&path, entry.symlink_target.unwrap_or_default().as_bytes())
        }
        FileType::Special | FileType::Other(_) => {
            tree.leave_out(&path, "a device, a FIFO or a socket");
            Ok(())
        }
    }
}

/// Whether a failure is of one file alone.
fn is_passed_over(error: &Error) -> bool {
    is_missing(error)
        || is_refused(error, StatusCode::FORBIDDEN)
        || is_refused(error, StatusCode::CONFLICT)
}

/// What changed meanwhile, where `tar` has packed all there is; `None` where something is missing.
fn packed_all(result: &ExecResult) -> Option<Vec<String>> {
    let said = result.stderr.text_lossy();
    let lines = || said.lines().filter(|line| !line.trim().is_empty());
    let is_change = |line: &str| {
        [
            "changed as we read it",
            "removed before we read it",
            "socket ignored",
        ]
        .iter()
        .any(|words| line.contains(words))
    };
    match result.exit_code() {
        Some(0) => Some(Vec::new()),
        Some(SOME_DIFFER) if lines().all(is_change) && !result.stderr.is_truncated() => {
            Some(lines().map(str::to_owned).collect())
        }
        _ => None,
    }
}

/// What the destination gets, where it is new.
fn root_state(root: &Stat) -> DirState {
    DirState {
        path: PathBuf::new(),
        mode: root.mode.unwrap_or(FileMode::DIR),
        modified: root
            .modified
            .and_then(|time| SystemTime::try_from(time).ok()),
    }
}

/// Does work on the disk of this machine.
async fn on_disk<T: Send + 'static>(
    download: &DownloadDir,
    work: impl FnOnce(PathBuf, super::tree::Existing) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (to, existing) = (download.to.clone(), download.existing);
    let done = blocking(move || Ok(work(to, existing)));
    done.await
        .map_err(|error| local_error("write to", &download.to, error))?
}
