//! The calls on files.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use polyaxon_client::InvalidInput;
use polyaxon_client::transport::{Answer, Operation};

use super::entry::{Listing, Stat, Written};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::path::{AbsPath, FileMode};
use crate::wire::{MkdirRequest, header, route};

/// How much one request of [`Fs::read`] asks for. The service gives 16 MiB at most.
const PAGE: u64 = 4 << 20;

/// How much a request gives that asks for no number of bytes (section 7.1 of the description of the
/// wire).
const PAGE_OF_SERVICE: u64 = 1 << 20;

/// The files of a sandbox. A handle, cheap to clone.
///
/// Paths are absolute. Anything that can become an [`AbsPath`] is taken; what cannot is an error
/// that names the field, and nothing is sent.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::{FileType, Write};
/// # use polyaxon_sandbox::{SandboxClient, SandboxSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = SandboxSpec::image("i");
/// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
/// let fs = sandbox.fs();
/// fs.mkdir("/workspace/data").await?;
/// fs.write("/workspace/data/notes.txt", "one\n").await?;
/// fs.write_with("/workspace/data/notes.txt", "two\n", Write::new().append()).await?;
///
/// let part = fs.read_range("/workspace/data/notes.txt", 4, 64).await?;
/// assert_eq!((&part.bytes[..], part.eof), (&b"two\n"[..], true));
/// let listing = fs.ls("/workspace/data").await?;
/// assert_eq!(listing.entries[0].name, "notes.txt");
/// assert_eq!(fs.stat("/workspace/data").await?.file_type, FileType::Dir);
///
/// let error = fs.read("/workspace/none").await.unwrap_err();
/// assert_eq!(error.code(), Some("not_found"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fs {
    sandbox: SandboxClient,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The bytes.
    pub bytes: Bytes,
    /// The offset behind them.
    pub next_offset: u64,
    /// Whether the file ends there.
    pub eof: bool,
}

/// How a file is written. Default: created with mode `0644`, or replaced from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a Write does nothing until it is passed to `fs().write_with`"]
pub struct Write {
    mode: FileMode,
    create: bool,
    append: bool,
}

impl Default for Write {
    fn default() -> Self {
        Self {
            mode: FileMode::FILE,
            create: true,
            append: false,
        }
    }
}

impl Write {
    /// Creates or replaces.
    pub fn new() -> Self {
        Self::default()
    }

    /// The mode of a file that is created; one that exists keeps its own.
    pub fn mode(mut self, mode: FileMode) -> Self {
        self.mode = mode;
        self
    }

    /// Fails with `not_found` where there is no file yet.
    pub fn existing_only(mut self) -> Self {
        self.create = false;
        self
    }

    /// Adds to the end of the file. Never sent twice, as twice would add twice.
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }

    pub(super) fn appends(self) -> bool {
        self.append
    }

    pub(super) fn creates(self) -> bool {
        self.create
    }

    pub(super) fn mode_of_new(self) -> FileMode {
        self.mode
    }
}

/// How a directory is listed. Default: its own entries, the service's limit of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "an Ls does nothing until it is passed to `fs().ls_with`"]
pub struct Ls {
    recursive: bool,
    max_entries: Option<u32>,
}

impl Ls {
    /// Its own entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that is below it. Links are not entered.
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// How many entries at most. Default: the service's, which is 1000; it gives 10 000 at most.
    pub fn max_entries(mut self, count: u32) -> Self {
        self.max_entries = Some(count);
        self
    }
}

/// How a directory is made. Default: with mode `0755`, in a parent that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a Mkdir does nothing until it is passed to `fs().mkdir_with`"]
pub struct Mkdir {
    mode: FileMode,
    parents: bool,
}

impl Default for Mkdir {
    fn default() -> Self {
        Self {
            mode: FileMode::DIR,
            parents: false,
        }
    }
}

impl Mkdir {
    /// In a parent that is there.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the parents that are missing too; a directory that is there is fine then.
    pub fn parents(mut self) -> Self {
        self.parents = true;
        self
    }

    /// The mode of a directory that is made.
    pub fn mode(mut self, mode: FileMode) -> Self {
        self.mode = mode;
        self
    }
}

impl Fs {
    pub(crate) fn new(sandbox: SandboxClient) -> Self {
        Self { sandbox }
    }

    pub(super) fn sandbox(&self) -> &SandboxClient {
        &self.sandbox
    }

    /// A whole file, page by page; all of it is held in memory. Links are followed.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing, `conflict` for a directory. A file that changes
    /// meanwhile is read as each page finds it.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read<P>(&self, path: P) -> Result<Bytes, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let first = self.page(&path, 0, PAGE).await?;
        if first.eof {
            return Ok(first.bytes);
        }
        let mut whole = BytesMut::from(first.bytes);
        let mut offset = first.next_offset;
        loop {
            let page = self.page(&path, offset, PAGE).await?;
            whole.extend_from_slice(&page.bytes);
            if page.eof {
                return Ok(whole.freeze());
            }
            if page.next_offset <= offset {
                return Err(no_advance(offset));
            }
            offset = page.next_offset;
        }
    }

    /// A whole file as text.
    ///
    /// # Errors
    /// As [`read`](Self::read), and where it is not UTF-8.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read_text<P>(&self, path: P) -> Result<String, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let bytes = self.read(&path).await?;
        String::from_utf8(bytes.into()).map_err(|error| Error::Protocol {
            operation: "fs.read",
            problem: format!("{path} is not UTF-8: {}", error.utf8_error()),
        })
    }

    /// At most `length` bytes from `offset` on. Beyond the end there are none. One request: the
    /// service gives 16 MiB at most.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read_range<P>(&self, path: P, offset: u64, length: u64) -> Result<Page, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.page(&checked(path)?, offset, length).await
    }

    /// The bytes from `offset` on, as many as the service gives in one answer by itself: 1 MiB,
    /// unless it is set up otherwise.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read_page<P>(&self, path: P, offset: u64) -> Result<Page, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let operation = Operation::get("fs.read", route::FS_READ)
            .query("path", checked(path)?.as_str())
            .query("offset", offset.to_string())
            .accept_bytes();
        page(self.sandbox.send(operation).await?, offset, PAGE_OF_SERVICE)
    }

    async fn page(&self, path: &AbsPath, offset: u64, length: u64) -> Result<Page, Error> {
        if length == 0 {
            return Ok(Page {
                bytes: Bytes::new(),
                next_offset: offset,
                eof: false,
            });
        }
        let operation = Operation::get("fs.read", route::FS_READ)
            .query("path", path.as_str())
            .query("offset", offset.to_string())
            .query("length", length.to_string())
            .accept_bytes();
        page(self.sandbox.send(operation).await?, offset, length)
    }

    /// Creates a file with these bytes, or replaces what it held. One request: the service takes
    /// 16 MiB at most. Not atomic: who reads meanwhile can see a part. Links are followed.
    ///
    /// # Errors
    /// Code `not_found` where its directory is missing, `conflict` where the path is one;
    /// [`Error::ShortWrite`] where fewer bytes arrived.
    ///
    /// # Cancel safety
    /// Dropping the future can leave the file old, new or in part.
    pub async fn write<P>(&self, path: P, bytes: impl Into<Bytes> + Send) -> Result<Written, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.write_with(path, bytes, Write::new()).await
    }

    /// Writes a file as `how` says: see [`write`](Self::write).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Dropping the future can leave the file old, new or in part.
    pub async fn write_with<P>(
        &self,
        path: P,
        bytes: impl Into<Bytes> + Send,
        how: Write,
    ) -> Result<Written, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let bytes = bytes.into();
        let sent = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let operation = Operation::post("fs.write", route::FS_WRITE)
            .query("path", path.as_str())
            .query("mode", how.mode.to_string())
            .query("create", how.create.to_string())
            .query("append", how.append.to_string())
            .bytes(bytes);
        // Writing the same bytes again gives the same file; adding them again does not.
        let operation = if how.append {
            operation
        } else {
            operation.harmless()
        };
        let written: Written = self.sandbox.send(operation).await?.json()?;
        if written.bytes_written != sent {
            let path = path.into();
            return Err(Error::ShortWrite {
                path,
                sent,
                written: written.bytes_written,
            });
        }
        Ok(written)
    }

    /// What a path leads to. A link is not followed.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn stat<P>(&self, path: P) -> Result<Stat, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let operation = Operation::get("fs.stat", route::FS_STAT).query("path", path.as_str());
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    /// What a path leads to, or `None` where there is nothing. A link is not followed.
    ///
    /// # Errors
    /// As [`stat`](Self::stat), but for `not_found`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn try_stat<P>(&self, path: P) -> Result<Option<Stat>, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        match self.stat(path).await {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is something at a path. A link counts, wherever it leads.
    ///
    /// # Errors
    /// As [`stat`](Self::stat), but for `not_found`: no answer is never taken for "no".
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn exists<P>(&self, path: P) -> Result<bool, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        Ok(self.try_stat(path).await?.is_some())
    }

    /// The entries of a directory, by name. At most 1000: look at `truncated`.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing, `conflict` where it is no directory.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ls<P>(&self, path: P) -> Result<Listing, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.ls_with(path, Ls::new()).await
    }

    /// The entries of a directory as `how` says: see [`ls`](Self::ls).
    ///
    /// # Errors
    /// As [`ls`](Self::ls).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ls_with<P>(&self, path: P, how: Ls) -> Result<Listing, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let mut operation = Operation::get("fs.ls", route::FS_LS).query("path", path.as_str());
        if how.recursive {
            operation = operation.query("recursive", "true");
        }
        if let Some(count) = how.max_entries {
            operation = operation.query("max_entries", count.to_string());
        }
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    /// Makes a directory with mode `0755` whose parent is there.
    ///
    /// # Errors
    /// Code `conflict` where there is something already, `not_found` where the parent is missing.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was made.
    pub async fn mkdir<P>(&self, path: P) -> Result<(), Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.mkdir_with(path, Mkdir::new()).await
    }

    /// Makes a directory as `how` says: see [`mkdir`](Self::mkdir).
    ///
    /// # Errors
    /// As [`mkdir`](Self::mkdir); with [`parents`](Mkdir::parents) `conflict` only where the path
    /// is something else than a directory.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which directories were made.
    pub async fn mkdir_with<P>(&self, path: P, how: Mkdir) -> Result<(), Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?.into();
        let body = MkdirRequest {
            path,
            parents: how.parents,
            mode: how.mode.to_string(),
        };
        let operation = Operation::post("fs.mkdir", route::FS_MKDIR).json(&body)?;
        // A directory that is there is fine with `parents`, and a conflict without.
        let operation = if how.parents {
            operation.harmless()
        } else {
            operation
        };
        self.sandbox.send(operation).await.map(drop)
    }

    /// Removes a file, a link (not what it points to) or an empty directory.
    ///
    /// # Errors
    /// Code `not_found` where there is nothing, `conflict` where a directory holds something.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was removed.
    pub async fn rm<P>(&self, path: P) -> Result<(), Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.sandbox
            .send(rm(&checked(path)?, false))
            .await
            .map(drop)
    }

    /// Removes whatever is there with all that it holds; nothing there is fine. Links are removed,
    /// not followed.
    ///
    /// # Errors
    /// Code `forbidden` where the operating system refuses.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open how much was removed.
    pub async fn rm_all<P>(&self, path: P) -> Result<(), Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        self.sandbox
            .send(rm(&checked(path)?, true).harmless())
            .await
            .map(drop)
    }
}

pub(super) fn checked<P>(path: P) -> Result<AbsPath, Error>
where
    P: TryInto<AbsPath, Error: Into<InvalidInput>>,
{
    path.try_into().map_err(|error| error.into().into())
}

fn rm(path: &AbsPath, recursive: bool) -> Operation {
    Operation::delete("fs.rm", route::FS_RM)
        .query("path", path.as_str())
        .query("recursive", recursive.to_string())
}

fn page(answer: Answer, offset: u64, length: u64) -> Result<Page, Error> {
    let count = u64::try_from(answer.body.len()).unwrap_or(u64::MAX);
    let eof = page_ends(&answer.headers, offset, length, count)?;
    Ok(Page {
        bytes: answer.body,
        next_offset: offset.saturating_add(count),
        eof,
    })
}

/// Whether the file ends behind the `count` bytes that came, by the headers of the page, or by the
/// count where a proxy has dropped them.
pub(super) fn page_ends(
    headers: &HeaderMap,
    offset: u64,
    length: u64,
    count: u64,
) -> Result<bool, Error> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let end = offset.saturating_add(count);
    let next_offset = match text(header::NEXT_OFFSET) {
        None => end,
        Some(text) => text.parse().map_err(|_invalid| Error::Protocol {
            operation: "fs.read",
            problem: format!("{text:?} is no offset"),
        })?,
    };
    if next_offset != end {
        let problem = format!("{count} bytes from {offset} on cannot end at {next_offset}");
        return Err(Error::Protocol {
            operation: "fs.read",
            problem,
        });
    }
    Ok(match text(header::EOF) {
        Some(text) => text.eq_ignore_ascii_case("true"),
        None => count < length,
    })
}

/// Whether the service says that there is nothing. Services agree on the status more than on codes;
/// a page of a gateway says nothing about files.
pub(super) fn is_missing(error: &Error) -> bool {
    is_refused(error, StatusCode::NOT_FOUND)
}

/// Whether the service itself has answered with this status.
pub(super) fn is_refused(error: &Error, status: StatusCode) -> bool {
    match error.as_client() {
        Some(polyaxon_client::Error::Api(answer)) => {
            answer.status() == status && !answer.is_from_gateway()
        }
        _ => false,
    }
}

pub(super) fn no_advance(offset: u64) -> Error {
    let problem = format!("no bytes came at offset {offset}, and no end");
    Error::Protocol {
        operation: "fs.read",
        problem,
    }
}
