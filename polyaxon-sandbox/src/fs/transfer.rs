//! Whole files and directories between this machine and the sandbox.

mod disk;
mod download;
mod download_dir;
mod local;
mod pack;
mod place;
mod tree;
mod unpack;
mod upload;
mod upload_dir;

pub use download::Download;
pub use tree::{DownloadDir, Existing, LeftOut, TreeMethod, TreeReceipt, UploadDir};
pub use upload::Upload;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::command::Ran;
use super::error::FileError;
use super::files::Fs;
use super::tally::Tally;
use crate::error::Error;
use crate::path::AbsPath;

/// What becomes of what is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overwrite {
    /// It is replaced at once, by what is whole: who looks meanwhile sees the old or the new.
    #[default]
    Replace,
    /// It stays, and the transfer fails with [`FileError::Exists`].
    Refuse,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that are there, those of an earlier attempt that is resumed included.
    pub bytes: u64,
    /// How many there will be, as far as that is known.
    pub total: Option<u64>,
}

/// What a transfer did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TransferReceipt {
    /// How many bytes the files have.
    pub bytes: u64,
    /// SHA-256 of a single file, 64 hex digits, where it was asked for.
    pub sha256: Option<String>,
    /// Whether the sandbox computed the same SHA-256.
    pub comparison: Comparison,
    /// From the start to the end.
    pub duration: Duration,
    /// How many requests were sent.
    pub requests: u64,
    /// How many steps were tried again.
    pub retries: u64,
    /// How many bytes an earlier attempt had brought.
    pub resumed_from: u64,
}

/// Whether both ends have the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Comparison {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// The SHA-256 is the same on both ends.
    Same,
    /// The sandbox has no `sha256sum`, so it could not be asked.
    NotAvailable,
}

/// Is told how far a transfer is.
#[derive(Clone, Default)]
struct Listener(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl Listener {
    fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    fn tell(&self, bytes: u64, total: Option<u64>) {
        if let Some(tell) = &self.0 {
            tell(Progress { bytes, total });
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(_)" } else { "None" })
    }
}

/// What is counted and computed on the way, and becomes a receipt in the end.
#[derive(Debug)]
pub(super) struct Account {
    begun: Instant,
    tally: Tally,
    resumed_from: u64,
    comparison: Comparison,
}

impl Account {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            tally: Tally::default(),
            resumed_from: 0,
            comparison: Comparison::NotAsked,
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.clone()
    }

    pub(super) fn receipt(&self, bytes: u64, sha256: Option<String>) -> TransferReceipt {
        TransferReceipt {
            bytes,
            sha256,
            comparison: self.comparison,
            duration: self.begun.elapsed(),
            requests: self.tally.requests(),
            retries: self.tally.retries(),
            resumed_from: self.resumed_from,
        }
    }

    /// Lets the sandbox compute the SHA-256 of a file and compares it with ours.
    async fn compare(&mut self, fs: &Fs, path: &AbsPath, ours: &str) -> Result<(), Error> {
        let command = "sha256sum";
        let name = path.root_relative();
        let ran = fs.run_again([command, "--", &name], &self.tally).await?;
        let result = match ran {
            Ran::Missing => {
                self.comparison = Comparison::NotAvailable;
                return Ok(());
            }
            ran => ran.succeeded(command)?,
        };
        let said = result.stdout.text_lossy();
        // A name with odd characters is announced by a backslash before the digits.
        let digits: String = said.trim_start_matches('\\').chars().take(64).collect();
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let problem = "it printed no digest".to_owned();
            return Err(FileError::Command { command, problem }.into());
        }
        if !digits.eq_ignore_ascii_case(ours) {
            return Err(FileError::Digest {
                path: path.as_str().to_owned(),
                expected: ours.to_owned(),
                found: digits,
            }
            .into());
        }
        self.comparison = Comparison::Same;
        Ok(())
    }
}

/// The digest as 64 hex digits.
fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A word that nobody else has used.
fn random_word() -> String {
    let mut word = uuid::Uuid::new_v4().simple().to_string();
    word.truncate(12);
    word
}
