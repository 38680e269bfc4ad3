//! A directory of this machine to the sandbox.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use polyaxon_client::Effect;
use tokio::sync::mpsc;

use super::pack::{Entries, Found, Outgoing, Packed, pack};
use super::tree::{Existing, LeftOut, TreeMethod, TreeReceipt, UploadDir};
use super::{Account, disk, local, random_word};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fs::append::{Appender, Begin};
use crate::fs::buffers::Buffers;
use crate::fs::command::Ran;
use crate::fs::entry::FileType;
use crate::fs::error::{FileError, local as local_error};
use crate::fs::files::{Fs, Mkdir, checked};
use crate::path::{AbsPath, FileMode};

/// How much of the archive goes in one request.
const PAGE: usize = 4 << 20;
/// How many files are under way at once where they go one by one.
const FILES_AT_ONCE: usize = 8;
/// The folder that every sandbox has, for what cannot be beside the destination.
const TMP: &str = "/tmp";

/// Where things go on their way.
struct Work {
    /// A directory of our own.
    dir: AbsPath,
    /// What the archive is unpacked into: a directory in `dir`, or the destination itself.
    tree: AbsPath,
    /// Whether the tree is the destination itself, to which files are added.
    merges: bool,
}

impl Fs {
    /// Brings a directory of this machine to the sandbox: see [`UploadDir`].
    ///
    /// # Errors
    /// [`FileError::Exists`] where the destination must not be replaced, or is no directory;
    /// [`Error::Local`] where the folder cannot be read; [`FileError::Changed`] where a file became
    /// shorter while it was packed. What stops it later is the source of a [`FileError::Upload`]: the
    /// destination is as it was then. Only where files are [added](Existing::Merge) to a directory
    /// that was there, a failure leaves some of them, and the effect is unknown.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the destination as it was, or new and whole; where files are added
    /// to a directory that was there, some of them. It can leave a directory of ours beside the
    /// destination or in `/tmp`, `{name}.plx-….part`.
    pub async fn upload_dir(&self, upload: &UploadDir) -> Result<TreeReceipt, Error> {
        let path = checked(upload.to.as_str())?;
        Box::pin(self.put_dir(upload, &path)).await
    }

    async fn put_dir(&self, upload: &UploadDir, path: &AbsPath) -> Result<TreeReceipt, Error> {
        let account = Account::new();
        let from = upload.from.clone();
        let mode = blocking(move || {
            let found = std::fs::metadata(&from)?;
            match found.is_dir() {
                true => Ok(disk::mode_of(&found)),
                false => Err(io::ErrorKind::NotADirectory.into()),
            }
        });
        let mode = mode
            .await
            .map_err(|error| local_error("list", &upload.from, error))?;
        let (path, found) = self.followed(path, &account.tally).await?;
        let there = match found.map(|found| found.file_type) {
            None => false,
            Some(FileType::Dir) if upload.existing != Existing::Refuse => true,
            Some(_) => {
                let path = path.as_str().to_owned();
                return Err(FileError::Exists { path }.into());
            }
        };
        let work = self.prepare(upload, &path, there, mode, &account).await?;
        let filled = self.fill(upload, &work, &account).await;
        let placed = match filled {
            Ok(done) if work.merges => Ok(done),
            Ok(done) => self
                .swap(&work, &path, there, &account)
                .await
                .map(|()| done),
            Err(error) => Err(error),
        };
        account.tally.request();
        let cleared = self.rm_all(&work.dir).await;
        match placed {
            Ok((packed, method)) => {
                let mut receipt = TreeReceipt::new(&account, method);
                receipt.files = packed.files;
                receipt.bytes = packed.bytes;
                receipt.links = packed.links;
                receipt.left_out = packed.left_out;
                receipt.changed = packed.changed;
                Ok(receipt)
            }
            Err(error) if work.merges || error.effect() != Effect::NotApplied => Err(error),
            Err(source) => Err(FileError::Upload {
                path: path.as_str().to_owned(),
                left: cleared.is_err().then(|| work.dir.as_str().to_owned()),
                source: Box::new(source),
            }
            .into()),
        }
    }

    /// Makes the directories that are needed on the way.
    async fn prepare(
        &self,
        upload: &UploadDir,
        path: &AbsPath,
        there: bool,
        mode: FileMode,
        account: &Account,
    ) -> Result<Work, Error> {
        let merges = there && upload.existing == Existing::Merge;
        let name = format!("{}.plx-{}.part", local::short(path.name()), random_word());
        let private = Mkdir::new().mode(FileMode::new(0o700)?);
        // The archive can be anywhere; a tree that gets its name by a rename has to be beside it.
        let parent = match merges {
            true => AbsPath::try_from(TMP)?,
            false => path.parent(),
        };
        let dir = parent.join(&name)?;
        account.tally.request();
        self.mkdir_with(&dir, private).await?;
        if merges {
            let tree = path.clone();
            return Ok(Work { dir, tree, merges });
        }
        let tree = dir.join("tree")?;
        account.tally.request();
        self.mkdir_with(&tree, Mkdir::new().mode(mode)).await?;
        Ok(Work { dir, tree, merges })
    }

    /// Brings everything into the tree.
    async fn fill(
        &self,
        upload: &UploadDir,
        work: &Work,
        account: &Account,
    ) -> Result<(Packed, TreeMethod), Error> {
        let archive = work.dir.join("archive.tar")?;
        let packed = self.send_archive(upload, &archive, account).await?;
        let (name, into) = (archive.root_relative(), work.tree.root_relative());
        // Owners are those of the sandbox, modes those of the archive.
        let command = ["tar", "-x", "-p", "-o", "-f", &name, "-C", &into];
        match self.run_again(command, &account.tally).await? {
            Ran::Missing => {
                account.tally.request();
                self.rm_all(&archive).await?;
                let sent = self.send_files(upload, &work.tree, account).await?;
                Ok((sent, TreeMethod::FileByFile))
            }
            ran => {
                ran.succeeded("tar")?;
                Ok((packed, TreeMethod::Archive))
            }
        }
    }

    async fn send_archive(
        &self,
        upload: &UploadDir,
        archive: &AbsPath,
        account: &Account,
    ) -> Result<Packed, Error> {
        let private = FileMode::new(0o600)?;
        let tally = account.tally.clone();
        let mut appender =
            Appender::new(self.clone(), archive.clone(), Begin::Anew, 0, tally).mode(private);
        let (give, mut take) = mpsc::channel::<Bytes>(1);
        let from = upload.from.clone();
        let buffers = Buffers::default();
        let out = Outgoing::new(give, PAGE, buffers.clone());
        let packing = blocking(move || Ok(pack(&from, out)));
        while let Some(page) = take.recv().await {
            appender.push(page.clone()).await?;
            buffers.give(page);
            upload.listener.tell(appender.size(), None);
        }
        let packed = packing.await;
        packed.map_err(|error| local_error("pack", &upload.from, error))?
    }

    /// Gives the tree its name. What was there is moved away first.
    async fn swap(
        &self,
        work: &Work,
        path: &AbsPath,
        there: bool,
        account: &Account,
    ) -> Result<(), Error> {
        if !there {
            return self.move_over(&work.tree, path, &account.tally).await;
        }
        let old = work.dir.join("old")?;
        self.move_over(path, &old, &account.tally).await?;
        match self.move_over(&work.tree, path, &account.tally).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.move_over(&old, path, &account.tally).await?;
                Err(error)
            }
        }
    }

    /// Everything one by one, for a sandbox without `tar`.
    async fn send_files(
        &self,
        upload: &UploadDir,
        tree: &AbsPath,
        account: &Account,
    ) -> Result<Packed, Error> {
        let root = upload.from.clone();
        let listed = blocking(move || Ok(list(&root)));
        let listed = listed
            .await
            .map_err(|error| local_error("list", &upload.from, error))?;
        let (found, mut packed) = listed?;
        let mut files = Vec::new();
        for Found { path, metadata } in found {
            let Some(name) = path.to_str() else {
                let left_out = LeftOut::new(&path, "its name is no text");
                packed.left_out.push(left_out);
                continue;
            };
            let to = tree.join(name)?;
            let mode = disk::mode_of(&metadata);
            if metadata.is_dir() {
                account.tally.request();
                let made = Mkdir::new().parents().mode(mode);
                self.mkdir_with(&to, made).await?;
                packed.dirs += 1;
            } else if metadata.is_file() {
                files.push((upload.from.join(path), to, mode));
            } else if metadata.is_symlink() {
                let left_out = LeftOut::new(&path, "a link, which takes `tar` to be made");
                packed.left_out.push(left_out);
            } else {
                let left_out = LeftOut::new(&path, "a device, a FIFO or a socket");
                packed.left_out.push(left_out);
            }
        }
        let mut sent = stream::iter(files)
            .map(|(from, to, mode)| self.send_file(from, to, mode, account))
            .buffer_unordered(FILES_AT_ONCE);
        while let Some(bytes) = sent.try_next().await? {
            packed.files += 1;
            packed.bytes += bytes;
            upload.listener.tell(packed.bytes, None);
        }
        drop(sent);
        Ok(packed)
    }

    /// One file, page by page, in place.
    async fn send_file(
        &self,
        from: PathBuf,
        to: AbsPath,
        mode: FileMode,
        account: &Account,
    ) -> Result<u64, Error> {
        let failed = |error| local_error("read", &from, error);
        let tally = account.tally.clone();
        let mut appender = Appender::new(self.clone(), to, Begin::Anew, 0, tally).mode(mode);
        let opening = from.clone();
        let opened = blocking(move || std::fs::File::open(opening));
        let mut file = opened.await.map_err(failed)?;
        loop {
            let read = blocking(move || {
                let page = local::read_page(&mut file, PAGE / FILES_AT_ONCE, Vec::new())?;
                Ok((file, page))
            });
            let (back, page) = read.await.map_err(failed)?;
            file = back;
            if page.is_empty() {
                break;
            }
            appender.push(page).await?;
        }
        appender.ensure_begun().await?;
        Ok(appender.size())
    }
}

/// All that is in a folder.
fn list(root: &std::path::Path) -> Result<(Vec<Found>, Packed), Error> {
    let mut packed = Packed::default();
    let mut entries = Entries::of(root)?;
    let mut all = Vec::new();
    while let Some(found) = entries.next(&mut packed.left_out)? {
        all.push(found);
    }
    Ok((all, packed))
}
