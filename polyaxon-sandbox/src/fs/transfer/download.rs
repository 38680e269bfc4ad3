//! A file of the sandbox to this machine.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use super::disk;
use super::local::{self, Note, Part};
use super::{Account, Listener, Overwrite, Progress, TransferReceipt, hex};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fs::entry::{FileType, Stat};
use crate::fs::error::{FileError, local as local_error};
use crate::fs::files::{Fs, checked, is_missing};
use crate::fs::pages::{MOST_PAGES, PAGE, Pages, Plan};
use crate::path::{AbsPath, FileMode};

/// A file of the sandbox that is to be a file of this machine.
///
/// The destination is the old file or the new one, never a part: the bytes go to a new file beside
/// it, which gets its name when it is whole and on the disk. Until then its name is
/// `.{name}.{random}.part`. Pages of 4 MiB are asked for one after the other, and up to three at once
/// where the answers let wait for themselves; the memory it takes does not depend on the size.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::{Comparison, Download};
/// # use polyaxon_sandbox::{SandboxClient, SandboxSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = SandboxSpec::image("i");
/// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
/// # let folder = tempfile::tempdir()?;
/// sandbox.fs().write("/workspace/report.txt", "all is well\n").await?;
///
/// let local = folder.path().join("report.txt");
/// let download = Download::new("/workspace/report.txt", &local)
///     .sha256()
///     .on_progress(|now| println!("{} of {:?}", now.bytes, now.total));
/// let receipt = sandbox.fs().download(&download).await?;
///
/// assert_eq!(std::fs::read_to_string(local)?, "all is well\n");
/// assert_eq!((receipt.bytes, receipt.comparison), (12, Comparison::Same));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Download does nothing until it is passed to `fs().download`"]
pub struct Download {
    from: String,
    to: PathBuf,
    overwrite: Overwrite,
    mode: Option<FileMode>,
    page: u64,
    most: usize,
    sha256: bool,
    resume: bool,
    changes: Changes,
    durable: bool,
    listener: Listener,
}

/// What a change of the file meanwhile means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Fail,
    Allow,
}

impl Download {
    /// The file at `from` in the sandbox to `to` on this machine, whose folder is there.
    pub fn new(from: impl Into<String>, to: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            overwrite: Overwrite::default(),
            mode: None,
            page: PAGE,
            most: MOST_PAGES,
            sha256: false,
            resume: false,
            changes: Changes::Fail,
            durable: true,
            listener: Listener::default(),
        }
    }

    /// What becomes of a file that is there. Default: it is replaced.
    pub fn overwrite(mut self, rule: Overwrite) -> Self {
        self.overwrite = rule;
        self
    }

    /// The mode of the file on this machine. Default: that of the file in the sandbox.
    pub fn mode(mut self, mode: FileMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Computes the SHA-256 and has the sandbox compute it as well. Where the sandbox has no
    /// `sha256sum`, the receipt says so.
    pub fn sha256(mut self) -> Self {
        self.sha256 = true;
        self
    }

    /// Goes on where an earlier attempt stopped, if the file has the same size and time of change
    /// still, and keeps what is there when this one stops: in `.{name}.plx-resume.part` beside the
    /// destination, with a `.json` that says what it is a part of. Files whose size says nothing
    /// (of `/proc`) are never resumed.
    pub fn resume(mut self) -> Self {
        self.resume = true;
        self
    }

    /// Takes a file that changes meanwhile as each page finds it, up to the size that it had at
    /// first. Default: that is an error.
    pub fn allow_changes(mut self) -> Self {
        self.changes = Changes::Allow;
        self
    }

    /// How many bytes one request asks for, 1 byte to 16 MiB. Default: 4 MiB.
    pub fn page_size(mut self, bytes: u64) -> Self {
        self.page = bytes.clamp(1, 16 << 20);
        self
    }

    /// How many requests may be under way at once. Default: 3, of which as many are used as the
    /// round trip makes worth it. One at least.
    pub fn parallel(mut self, requests: usize) -> Self {
        self.most = requests.max(1);
        self
    }

    /// Does not wait until the bytes are on the disk. They can be lost with the power.
    pub fn without_sync(mut self) -> Self {
        self.durable = false;
        self
    }

    /// Calls `tell` after each page.
    pub fn on_progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(tell);
        self
    }
}

impl Fs {
    /// Brings a file of the sandbox to this machine: see [`Download`]. Links are followed. Broken
    /// answers are asked for again, from the byte where they broke.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing; [`FileError::NotRegular`] for a directory, a FIFO or
    /// a device, at once; [`FileError::Changed`] where the file was written to meanwhile;
    /// [`FileError::Digest`] where the sandbox computes another SHA-256; [`FileError::Exists`] where
    /// it must not be replaced; [`Error::Local`] for this machine's part. The destination is
    /// then as it was, and nothing else is left but what [`Download::resume`] keeps.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the destination as it was, and nothing else but what
    /// [`Download::resume`] keeps. Nothing changes in the sandbox.
    pub async fn download(&self, download: &Download) -> Result<TransferReceipt, Error> {
        let path = checked(download.from.as_str())?;
        Box::pin(self.bring(download, &path)).await
    }

    async fn bring(&self, download: &Download, path: &AbsPath) -> Result<TransferReceipt, Error> {
        let mut account = Account::new();
        let to = download.to.as_path();
        check_free(to, download.overwrite).await?;
        let (path, before) = self.regular(path, &account).await?;
        let (part, file, start) = self.open_part(download, &path, &before).await?;
        account.resumed_from = start;
        let fetched = self
            .fetch_into(download, &path, &before, file, start, &account)
            .await;
        let (file, bytes, hash) = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return Err(error),
        };
        if let Err(error) = self.unchanged(download, &path, &before, &account).await {
            discard(part).await;
            return Err(error);
        }
        let digest = hash.map(hex);
        if let Some(digest) = &digest
            && let Err(error) = account.compare(self, &path, digest).await
        {
            discard(part).await;
            return Err(error);
        }
        let mode = download.mode.or(before.mode).unwrap_or(FileMode::FILE);
        finish(download, &before, mode, file, part).await?;
        Ok(account.receipt(bytes, digest))
    }

    /// What is at a path, links followed, if it is a regular file.
    async fn regular(&self, path: &AbsPath, account: &Account) -> Result<(AbsPath, Stat), Error> {
        let (followed, found) = self.followed(path, &account.tally).await?;
        let Some(stat) = found else {
            // The service's own words for it.
            let stat = self.stat(&followed).await?;
            return Ok((followed, stat));
        };
        match stat.file_type {
            FileType::File => Ok((followed, stat)),
            file_type => {
                let path = path.as_str().to_owned();
                Err(FileError::NotRegular { path, file_type }.into())
            }
        }
    }

    async fn open_part(
        &self,
        download: &Download,
        path: &AbsPath,
        before: &Stat,
    ) -> Result<(Part, File, u64), Error> {
        let to = download.to.clone();
        let note = (download.resume && before.size > 0).then(|| Note {
            sandbox: self.sandbox().run_uuid().to_string(),
            path: path.as_str().to_owned(),
            size: before.size,
            modified: before.modified.map(|time| time.to_string()),
        });
        let opened = blocking(move || match note {
            Some(note) => Part::kept(&to, &note),
            None => Part::fleeting(&to).map(|(part, file)| (part, file, 0)),
        });
        opened
            .await
            .map_err(|error| local_error("write beside", &download.to, error))
    }

    /// Writes the pages as they come; the file, its size and its digest.
    async fn fetch_into(
        &self,
        download: &Download,
        path: &AbsPath,
        before: &Stat,
        mut file: File,
        start: u64,
        account: &Account,
    ) -> Result<(File, u64, Option<Sha256>), Error> {
        let failed = |error| local_error("write", &download.to, error);
        let mut hash = download.sha256.then(Sha256::new);
        if hash.is_some() && start > 0 {
            let hashed = blocking(move || {
                let hash = local::hash_prefix(&mut file, start)?;
                Ok((file, hash))
            });
            let (back, prefix) = hashed.await.map_err(failed)?;
            (file, hash) = (back, Some(prefix));
        }
        let plan = Plan {
            path: path.clone(),
            start,
            // A size of 0 says nothing: files of `/proc` have it.
            end: (before.size > 0).then_some(before.size),
            known: before.size,
            page: download.page,
            most: download.most,
        };
        let total = plan.end;
        let mut pages = Pages::new(self.clone(), plan, account.tally.clone());
        let buffers = pages.buffers();
        download.listener.tell(start, total);
        let mut next = pages.try_next().await?;
        while let Some(page) = next {
            let behind = pages.position();
            let buffers = buffers.clone();
            let write = blocking(move || {
                file.write_all(&page)?;
                if let Some(hash) = &mut hash {
                    hash.update(&page);
                }
                buffers.give(page);
                Ok((file, hash))
            });
            // The next page comes while this one is written.
            let (written, page) = futures::join!(write, pages.try_next());
            (file, hash) = written.map_err(failed)?;
            download.listener.tell(behind, total);
            next = page?;
        }
        Ok((file, pages.position(), hash))
    }

    async fn unchanged(
        &self,
        download: &Download,
        path: &AbsPath,
        before: &Stat,
        account: &Account,
    ) -> Result<(), Error> {
        if before.size == 0 || download.changes == Changes::Allow {
            return Ok(());
        }
        account.tally.request();
        let after = match self.stat(path).await {
            Ok(after) => Some(after),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let same = after
            .is_some_and(|after| (after.size, after.modified) == (before.size, before.modified));
        match same {
            true => Ok(()),
            false => {
                let path = path.as_str().to_owned();
                Err(FileError::Changed { path }.into())
            }
        }
    }
}

/// Refuses early what could not be finished.
async fn check_free(to: &Path, overwrite: Overwrite) -> Result<(), Error> {
    let path = to.to_owned();
    let found = blocking(move || match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.is_dir())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    });
    let found = found
        .await
        .map_err(|error| local_error("look at", to, error))?;
    match (found, overwrite) {
        (Some(true), _) | (Some(false), Overwrite::Refuse) => Err(exists(to)),
        _ => Ok(()),
    }
}

fn exists(to: &Path) -> Error {
    let path = to.display().to_string();
    FileError::Exists { path }.into()
}

/// Puts the file on the disk and gives it its name.
async fn finish(
    download: &Download,
    before: &Stat,
    mode: FileMode,
    file: File,
    part: Part,
) -> Result<(), Error> {
    let (to, overwrite, durable) = (download.to.clone(), download.overwrite, download.durable);
    let modified = before
        .modified
        .and_then(|time| SystemTime::try_from(time).ok());
    let finished = blocking(move || {
        disk::set_mode(&file, mode)?;
        if let Some(modified) = modified {
            file.set_modified(modified)?;
        }
        if durable {
            file.sync_all()?;
        }
        drop(file);
        part.finish(&to, overwrite)?;
        match durable {
            true => local::sync_folder(&to),
            false => Ok(()),
        }
    });
    finished.await.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&download.to),
        _ => local_error("finish", &download.to, error),
    })
}

/// Removes what is of no use any more. What cannot be removed is left.
async fn discard(part: Part) {
    drop(blocking(move || part.discard()).await);
}
