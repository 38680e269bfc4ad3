//! A file of this machine to the sandbox.

use std::fs::{File, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{Account, Listener, Overwrite, Progress, TransferReceipt, hex, random_word};
use super::{disk, local};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fs::append::{Appender, Begin};
use crate::fs::buffers::Buffers;
use crate::fs::entry::FileType;
use crate::fs::error::{FileError, local as local_error};
use crate::fs::files::{Fs, checked};
use crate::path::{AbsPath, FileMode};

/// How many bytes one request brings unless told otherwise. The service takes 16 MiB at most.
const PAGE: usize = 4 << 20;
/// The most that the service takes at once.
const LARGEST: usize = 16 << 20;

/// A file of this machine that is to be a file of the sandbox.
///
/// The destination is the old file or the new one, never a part: the bytes go to a new file beside
/// it, `{name}.plx-{random}.part`, which is given its name by `mv` when it is whole. A page whose
/// answer was lost is looked up by the size of that file, so none is ever added twice. The memory it
/// takes does not depend on the size.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::{Comparison, Upload};
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
/// let local = folder.path().join("data.csv");
/// std::fs::write(&local, "a,b\n1,2\n")?;
///
/// let upload = Upload::new(&local, "/workspace/data.csv").sha256();
/// let receipt = sandbox.fs().upload(&upload).await?;
///
/// assert_eq!((receipt.bytes, receipt.comparison), (8, Comparison::Same));
/// assert_eq!(sandbox.fs().read_text("/workspace/data.csv").await?, "a,b\n1,2\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an Upload does nothing until it is passed to `fs().upload`"]
pub struct Upload {
    from: PathBuf,
    to: String,
    overwrite: Overwrite,
    mode: Option<FileMode>,
    page: usize,
    sha256: bool,
    resume: bool,
    in_place: bool,
    listener: Listener,
}

impl Upload {
    /// The file at `from` on this machine to `to` in the sandbox, whose directory is there.
    pub fn new(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            overwrite: Overwrite::default(),
            mode: None,
            page: PAGE,
            sha256: false,
            resume: false,
            in_place: false,
            listener: Listener::default(),
        }
    }

    /// What becomes of a file that is there. Default: it is replaced.
    pub fn overwrite(mut self, rule: Overwrite) -> Self {
        self.overwrite = rule;
        self
    }

    /// The mode of the file in the sandbox. Default: that of the file that is replaced; where there
    /// is none, that of the file on this machine.
    pub fn mode(mut self, mode: FileMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Computes the SHA-256 and has the sandbox compute it as well, before the file gets its name.
    /// Where the sandbox has no `sha256sum`, the receipt says so.
    pub fn sha256(mut self) -> Self {
        self.sha256 = true;
        self
    }

    /// Goes on where an earlier attempt stopped, and leaves what has arrived when this one stops.
    /// The part has a name that follows from the destination and from size and time of change of
    /// the file on this machine: one such upload at a time, and nobody removes what is left.
    pub fn resume(mut self) -> Self {
        self.resume = true;
        self
    }

    /// Writes to the destination itself, for a sandbox without `mv`. An upload that stops leaves a
    /// part under the real name. [`Overwrite::Refuse`] and [`resume`](Self::resume) are of no use
    /// then, and refused.
    pub fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// How many bytes one request brings, 1 byte to 16 MiB. Default: 4 MiB. Where a service takes
    /// less, the pages are halved.
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page = bytes.clamp(1, LARGEST);
        self
    }

    /// Calls `tell` after each page.
    pub fn on_progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(tell);
        self
    }

    fn check(&self) -> Result<(), Error> {
        let refuse =
            |field, problem: &str| Err(polyaxon_client::InvalidInput::new(field, problem).into());
        match (self.in_place, self.resume, self.overwrite) {
            (true, true, _) => refuse("resume", "is of no use in place"),
            (true, _, Overwrite::Refuse) => refuse("overwrite", "cannot be refused in place"),
            _ => Ok(()),
        }
    }
}

/// The file on this machine, open, as it was at first.
struct Source {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
    mode: FileMode,
}

impl Fs {
    /// Brings a file of this machine to the sandbox: see [`Upload`]. Links are followed, on both
    /// ends.
    ///
    /// # Errors
    /// [`FileError::NotRegular`] where one of the two is a directory, a FIFO or a device;
    /// [`FileError::Exists`] where the destination must not be replaced; [`Error::Local`] where
    /// the file cannot be read. Whatever stops it later is the source of a [`FileError::Upload`]:
    /// the destination is then as it was, and the part is removed if that can be done. Only where
    /// the answer to the last step was lost, and nothing could be looked up, the effect is unknown.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the destination as it was, or new and whole, and can leave a part
    /// beside it, `{name}.plx-….part`.
    pub async fn upload(&self, upload: &Upload) -> Result<TransferReceipt, Error> {
        upload.check()?;
        let path = checked(upload.to.as_str())?;
        Box::pin(self.put(upload, &path)).await
    }

    async fn put(&self, upload: &Upload, path: &AbsPath) -> Result<TransferReceipt, Error> {
        let mut account = Account::new();
        let source = open(upload).await?;
        let size = source.size;
        let (path, found) = self.followed(path, &account.tally).await?;
        if let Some(found) = &found {
            let path = || path.as_str().to_owned();
            if found.file_type != FileType::File {
                let (path, file_type) = (path(), found.file_type.clone());
                return Err(FileError::NotRegular { path, file_type }.into());
            }
            if upload.overwrite == Overwrite::Refuse {
                return Err(FileError::Exists { path: path() }.into());
            }
        }
        let mode = upload
            .mode
            .or(found.and_then(|found| found.mode))
            .unwrap_or(source.mode);
        let part = match upload.in_place {
            true => path.clone(),
            false => part_of(&path, upload, &source)?,
        };
        let sent = self.send(upload, source, &part, mode, &mut account).await;
        let digest = match sent {
            Ok(digest) => digest,
            Err(error) => return Err(self.stopped(upload, &path, &part, error).await),
        };
        if !upload.in_place {
            let placed = match upload.overwrite {
                Overwrite::Replace => self.move_over(&part, &path, &account.tally).await,
                Overwrite::Refuse => self.move_new(&part, &path, &account.tally).await,
            };
            match placed {
                Err(error) if error.effect() != polyaxon_client::Effect::NotApplied => {
                    return Err(error);
                }
                Err(error) => return Err(self.stopped(upload, &path, &part, error).await),
                Ok(()) => {}
            }
        }
        Ok(account.receipt(size, digest))
    }

    /// All pages, and what has to be true then.
    async fn send(
        &self,
        upload: &Upload,
        mut source: Source,
        part: &AbsPath,
        mode: FileMode,
        account: &mut Account,
    ) -> Result<Option<String>, Error> {
        let failed = |error| local_error("read", &upload.from, error);
        let (begin, start) = match upload.resume {
            true => self.left_before(part, source.size, account).await?,
            false => (Begin::Anew, 0),
        };
        account.resumed_from = start;
        let tally = account.tally.clone();
        let mut appender =
            Appender::new(self.clone(), part.clone(), begin, start, tally).mode(mode);
        let mut hash = upload.sha256.then(Sha256::new);
        let total = source.size;
        let total_known = Some(total);
        upload.listener.tell(start, total_known);
        let mut page = {
            let ready = blocking(move || {
                // The digest is of the whole file, and leaves the file where it goes on.
                match hash.is_some() {
                    true => hash = Some(local::hash_prefix(&mut source.file, start)?),
                    false => local::skip(&mut source.file, start)?,
                }
                Ok((source, hash))
            });
            (source, hash) = ready.await.map_err(failed)?;
            let length = next_length(upload.page, usize::MAX, total, start);
            let read = read(source, hash, length, Vec::new())
                .await
                .map_err(failed)?;
            (source, hash) = (read.source, read.hash);
            read.page
        };
        let mut read_to = start + length_of(&page);
        let buffers = Buffers::default();
        while !page.is_empty() {
            let length = next_length(upload.page, appender.page(), total, read_to);
            let sending = page.clone();
            let next = read(source, hash, length, buffers.take());
            // The next page is read while this one is sent.
            let (sent, next) = futures::join!(appender.push(sending), next);
            sent?;
            buffers.give(page);
            let next = next.map_err(failed)?;
            (source, hash, page) = (next.source, next.hash, next.page);
            read_to += length_of(&page);
            upload.listener.tell(appender.size(), total_known);
        }
        appender.ensure_begun().await?;
        let (now, modified) = local::state(&source.file).map_err(failed)?;
        if (now, modified) != (source.size, source.modified) || read_to != total {
            let path = upload.from.display().to_string();
            return Err(FileError::Changed { path }.into());
        }
        account.tally.request();
        let found = self.stat(part).await?.size;
        if found != total {
            return Err(FileError::Size {
                path: part.as_str().to_owned(),
                expected: total,
                found,
            }
            .into());
        }
        let digest = hash.map(hex);
        if let Some(digest) = &digest {
            account.compare(self, part, digest).await?;
        }
        Ok(digest)
    }

    /// How much of the part an earlier attempt has left.
    async fn left_before(
        &self,
        part: &AbsPath,
        size: u64,
        account: &Account,
    ) -> Result<(Begin, u64), Error> {
        account.tally.request();
        Ok(match self.try_stat(part).await? {
            Some(found) if found.size <= size && found.size > 0 => (Begin::Append, found.size),
            _ => (Begin::Anew, 0),
        })
    }

    /// Takes the part away, unless it is to be resumed, and says what is left.
    async fn stopped(
        &self,
        upload: &Upload,
        path: &AbsPath,
        part: &AbsPath,
        source: Error,
    ) -> Error {
        if upload.in_place {
            return source;
        }
        let of_use = upload.resume && is_passing(&source);
        let left = of_use || self.rm_all(part).await.is_err();
        FileError::Upload {
            path: path.as_str().to_owned(),
            left: left.then(|| part.as_str().to_owned()),
            source: Box::new(source),
        }
        .into()
    }
}

/// Whether what has arrived can be gone on with after such an error.
fn is_passing(error: &Error) -> bool {
    !matches!(
        error,
        Error::File(FileError::Changed { .. } | FileError::Digest { .. } | FileError::Size { .. })
    )
}

/// Where the bytes go until they are whole.
fn part_of(path: &AbsPath, upload: &Upload, source: &Source) -> Result<AbsPath, Error> {
    let word = match upload.resume {
        false => random_word(),
        true => {
            let mut hash = Sha256::new();
            hash.update(path.as_str());
            hash.update(format!("\0{}\0{:?}", source.size, source.modified));
            let mut word = hex(hash);
            word.truncate(12);
            word
        }
    };
    let name = format!("{}.plx-{word}.part", local::short(path.name()));
    Ok(path.parent().join(&name)?)
}

fn length_of(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// How much to read next: a page, what the service takes, what is left.
fn next_length(page: usize, most: usize, total: u64, at: u64) -> usize {
    let left = usize::try_from(total.saturating_sub(at)).unwrap_or(usize::MAX);
    page.min(most).min(left)
}

/// A page that was read, with what it was read from.
struct Read {
    source: Source,
    hash: Option<Sha256>,
    page: Bytes,
}

async fn read(
    mut source: Source,
    mut hash: Option<Sha256>,
    length: usize,
    space: Vec<u8>,
) -> std::io::Result<Read> {
    let work = move || {
        let page = local::read_page(&mut source.file, length, space)?;
        if let Some(hash) = &mut hash {
            hash.update(&page);
        }
        Ok(Read { source, hash, page })
    };
    blocking(work).await
}

/// Opens the file on this machine, if it is one: a FIFO would wait for its other end.
async fn open(upload: &Upload) -> Result<Source, Error> {
    let from = upload.from.clone();
    let opened = blocking(move || {
        let found = std::fs::metadata(&from)?;
        if !found.is_file() {
            return Ok(Err(kind_of(&found)));
        }
        let file = File::open(&from)?;
        let (size, modified) = local::state(&file)?;
        let mode = disk::mode_of(&found);
        Ok(Ok(Source {
            file,
            size,
            modified,
            mode,
        }))
    });
    let opened = opened
        .await
        .map_err(|error| local_error("open", &upload.from, error))?;
    opened.map_err(|file_type| {
        let path = upload.from.display().to_string();
        FileError::NotRegular { path, file_type }.into()
    })
}

fn kind_of(found: &Metadata) -> FileType {
    match found.is_dir() {
        true => FileType::Dir,
        false => FileType::Special,
    }
}
