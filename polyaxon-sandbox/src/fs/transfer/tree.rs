//! Directories that are to go from one end to the other, as values.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::unpack::Caps;
use super::{Account, Listener, Progress};

/// What becomes of a directory that is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// What comes is added to it. A file of the same name is replaced, what has no counterpart
    /// stays. Not at once: who looks meanwhile sees a part.
    #[default]
    Merge,
    /// It is moved away and removed when the new one has its name. For a moment between two renames
    /// neither is there.
    Replace,
    /// It stays, and the transfer fails with [`FileError::Exists`](crate::fs::FileError::Exists).
    Refuse,
}

/// How a directory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TreeMethod {
    /// As one archive, by the `tar` of the sandbox.
    Archive,
    /// File by file, as the sandbox has no `tar` or it failed.
    FileByFile,
}

/// Something that is not at the destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its path below the directory.
    pub name: String,
    /// Why, in a few words.
    pub reason: String,
}

impl LeftOut {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self {
            name: path.display().to_string(),
            reason: reason.into(),
        }
    }
}

/// What the transfer of a directory did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TreeReceipt {
    /// How many regular files there are now.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many links there are now.
    pub links: u64,
    /// What is not there: devices, FIFOs and sockets, links that would lead out of the directory,
    /// what vanished meanwhile or may not be read.
    pub left_out: Vec<LeftOut>,
    /// What was written to while it was read, as the archiver says it.
    pub changed: Vec<String>,
    /// How it went.
    pub method: TreeMethod,
    /// From the start to the end.
    pub duration: Duration,
    /// How many requests were sent.
    pub requests: u64,
    /// How many steps were tried again.
    pub retries: u64,
}

impl TreeReceipt {
    pub(super) fn new(account: &Account, method: TreeMethod) -> Self {
        let plain = account.receipt(0, None);
        Self {
            files: 0,
            bytes: 0,
            links: 0,
            left_out: Vec::new(),
            changed: Vec::new(),
            method,
            duration: plain.duration,
            requests: plain.requests,
            retries: plain.retries,
        }
    }
}

/// A directory of this machine that is to be one of the sandbox.
///
/// It goes as one archive in pages of 4 MiB, which the `tar` of the sandbox unpacks; without one,
/// file by file. Modes, times of change and links are kept, owners are not: all belongs to the user
/// of the sandbox. Devices, FIFOs and sockets are left out, and the receipt says so. The memory it
/// takes does not depend on the size.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::{Existing, UploadDir};
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
/// std::fs::create_dir(folder.path().join("src"))?;
/// std::fs::write(folder.path().join("src/main.py"), "print(1)\n")?;
///
/// let upload = UploadDir::new(folder.path(), "/workspace/project").existing(Existing::Refuse);
/// let receipt = sandbox.fs().upload_dir(&upload).await?;
/// assert_eq!((receipt.files, receipt.bytes), (1, 9));
/// assert_eq!(sandbox.fs().read_text("/workspace/project/src/main.py").await?, "print(1)\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an UploadDir does nothing until it is passed to `fs().upload_dir`"]
pub struct UploadDir {
    pub(super) from: PathBuf,
    pub(super) to: String,
    pub(super) existing: Existing,
    pub(super) listener: Listener,
}

impl UploadDir {
    /// What is in `from` on this machine to the directory `to` of the sandbox, whose parent is
    /// there.
    pub fn new(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            existing: Existing::default(),
            listener: Listener::default(),
        }
    }

    /// What becomes of a directory that is there. Default: what comes is added to it.
    pub fn existing(mut self, rule: Existing) -> Self {
        self.existing = rule;
        self
    }

    /// Calls `tell` after each page, with the bytes of the archive or of the files.
    pub fn on_progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(tell);
        self
    }
}

/// A directory of the sandbox that is to be one of this machine.
///
/// The `tar` of the sandbox packs it into a file in its `/tmp`, which comes in pages and is unpacked
/// on the way; without `tar` it comes file by file. What is unpacked goes into a new folder beside
/// the destination first.
///
/// The sandbox is not trusted with it: a name that leads out of the directory fails the whole, and
/// nothing of it is kept. Links that could lead out, devices and FIFOs are left out, and the receipt
/// says so; setuid bits and owners are dropped.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::DownloadDir;
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
/// sandbox.fs().mkdir("/workspace/out").await?;
/// sandbox.fs().write("/workspace/out/report.txt", "all is well\n").await?;
///
/// let local = folder.path().join("out");
/// let download = DownloadDir::new("/workspace/out", &local).max_bytes(1 << 30);
/// let receipt = sandbox.fs().download_dir(&download).await?;
/// assert_eq!((receipt.files, receipt.left_out.len()), (1, 0));
/// assert_eq!(std::fs::read_to_string(local.join("report.txt"))?, "all is well\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a DownloadDir does nothing until it is passed to `fs().download_dir`"]
pub struct DownloadDir {
    pub(super) from: String,
    pub(super) to: PathBuf,
    pub(super) existing: Existing,
    pub(super) caps: Caps,
    pub(super) listener: Listener,
}

impl DownloadDir {
    /// What is in the directory `from` of the sandbox to the folder `to` of this machine, whose
    /// parent is there.
    pub fn new(from: impl Into<String>, to: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            existing: Existing::default(),
            caps: Caps {
                entries: 1_000_000,
                bytes: 64 << 30,
            },
            listener: Listener::default(),
        }
    }

    /// What becomes of a folder that is there. Default: what comes is added to it.
    pub fn existing(mut self, rule: Existing) -> Self {
        self.existing = rule;
        self
    }

    /// How many files, directories and links may come. Default: a million. More fail the whole.
    pub fn max_entries(mut self, count: u64) -> Self {
        self.caps.entries = count;
        self
    }

    /// How many bytes the files may have together. Default: 64 GiB. More fail the whole.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.caps.bytes = bytes;
        self
    }

    /// Calls `tell` after each page, with the bytes of the archive or of the files.
    pub fn on_progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(tell);
        self
    }
}
