//! Adding to a file without ever adding twice.

use std::time::Duration;

use bytes::Bytes;
use polyaxon_client::transport::Operation;
use polyaxon_client::{Effect, InvalidInput};

use super::entry::{FileType, Stat, Written};
use super::error::FileError;
use super::files::{Fs, checked};
use super::tally::{Attempts, Tally};
use crate::error::Error;
use crate::path::{AbsPath, FileMode};
use crate::resolve::Lookup;
use crate::wire::route;

/// The smallest page that a service that finds pages too large is sent.
const SMALLEST: usize = 64 << 10;
/// What a request may take beside the time for its bytes.
const MARGIN: Duration = Duration::from_secs(30);
/// The slowest connection that is worth waiting for, in bytes a second.
const SLOWEST: u64 = 64 << 10;
/// How many links are followed by their text, as many as Linux follows.
const MOST_LINKS: u32 = 40;

/// A file that grows page by page. Its size is known, so that an append whose answer was lost can be
/// looked up: the size says whether it was carried out.
#[derive(Debug)]
pub(super) struct Appender {
    fs: Fs,
    path: AbsPath,
    mode: FileMode,
    /// Whether the next write makes or empties the file.
    begin: Begin,
    size: u64,
    page: usize,
    tally: Tally,
}

/// What the first write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Makes the file, or empties it.
    Anew,
    /// Empties the file, which has to be there.
    Existing,
    /// Adds to what is there.
    Append,
}

impl Appender {
    /// `size` is what the file has, where `begin` adds to it.
    pub(super) fn new(fs: Fs, path: AbsPath, begin: Begin, size: u64, tally: Tally) -> Self {
        Self {
            fs,
            path,
            mode: FileMode::FILE,
            begin,
            size: if begin == Begin::Append { size } else { 0 },
            page: usize::MAX,
            tally,
        }
    }

    /// The mode of the file where it is made.
    pub(super) fn mode(mut self, mode: FileMode) -> Self {
        self.mode = mode;
        self
    }

    /// What the file has now.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the file is there as far as we are concerned.
    pub(super) fn has_begun(&self) -> bool {
        self.begin == Begin::Append
    }

    /// How many bytes the service takes at once, as far as that is known.
    pub(super) fn page(&self) -> usize {
        self.page
    }

    /// Writes `bytes` behind what is there, in as many requests as the service needs.
    pub(super) async fn push(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        let mut first = true;
        while first || !bytes.is_empty() {
            first = false;
            let part = bytes.slice(..bytes.len().min(self.page));
            match self.part(part.clone()).await {
                Ok(written) => {
                    drop(bytes.split_to(written));
                }
                Err(error) if is_too_large(&error) && part.len() > SMALLEST => {
                    self.page = (part.len() / 2).max(SMALLEST);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes or empties the file where nothing was written so far.
    pub(super) async fn ensure_begun(&mut self) -> Result<(), Error> {
        match self.has_begun() {
            true => Ok(()),
            false => self.push(Bytes::new()).await,
        }
    }

    /// One page; returns how many of its bytes are in the file.
    async fn part(&mut self, bytes: Bytes) -> Result<usize, Error> {
        let mut attempts = Attempts::new(&self.tally);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        loop {
            let error = match self.send(bytes.clone(), length).await {
                Ok(()) => {
                    self.size += length;
                    self.begin = Begin::Append;
                    return Ok(bytes.len());
                }
                Err(error) => error,
            };
            // The first write replaces, so twice is like once.
            if self.has_begun() && error.effect() != Effect::NotApplied {
                if !error.is_retryable() {
                    return Err(error);
                }
                let found = match self.fs.followed(&self.path, &self.tally).await {
                    Ok((_, stat)) => stat.map_or(0, |stat| stat.size),
                    // Still nobody knows.
                    Err(_) => return Err(error),
                };
                let arrived = found.checked_sub(self.size).filter(|more| *more <= length);
                match arrived {
                    None => return Err(self.other_size(found)),
                    Some(0) => {}
                    Some(more) => {
                        self.size = found;
                        return Ok(usize::try_from(more).unwrap_or(bytes.len()));
                    }
                }
            }
            attempts.again_after(error).await?;
        }
    }

    async fn send(&self, bytes: Bytes, length: u64) -> Result<(), Error> {
        let operation = Operation::post("fs.write", route::FS_WRITE)
            .query("path", self.path.as_str())
            .query("mode", self.mode.to_string())
            .query("create", (self.begin == Begin::Anew).to_string())
            .query("append", self.has_begun().to_string())
            .bytes(bytes)
            .timeout(MARGIN + Duration::from_secs(length / SLOWEST))
            .once();
        self.tally.request();
        let written: Written = self.fs.sandbox().send(operation).await?.json()?;
        match written.bytes_written == length {
            true => Ok(()),
            false => Err(Error::ShortWrite {
                path: self.path.as_str().to_owned(),
                sent: length,
                written: written.bytes_written,
            }),
        }
    }

    fn other_size(&self, found: u64) -> Error {
        FileError::Size {
            path: self.path.as_str().to_owned(),
            expected: self.size,
            found,
        }
        .into()
    }
}

fn is_too_large(error: &Error) -> bool {
    // A gateway may be the one that finds it too large, and passes nothing on.
    matches!(error.as_client(), Some(polyaxon_client::Error::Api(answer))
        if answer.status() == http::StatusCode::PAYLOAD_TOO_LARGE)
}

impl Fs {
    /// Adds to the end of a file that has `size` bytes now, and returns what it has then. Where the
    /// answer is lost the size says whether the bytes were added, so they are never added twice.
    /// With a `size` of 0 a file that is not there is made. Links are followed.
    ///
    /// This is safe as long as nobody else writes to the file.
    ///
    /// # Errors
    /// [`FileError::Size`] where the file has another size; nothing was added then, unless somebody
    /// else writes to it at the same time. Otherwise as [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Dropping the future can leave the file as it was, with all the bytes, or with a part of them.
    /// [`stat`](Self::stat) tells.
    pub async fn append_at<P>(
        &self,
        path: P,
        size: u64,
        bytes: impl Into<Bytes> + Send,
    ) -> Result<u64, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let bytes = bytes.into();
        let tally = Tally::default();
        let (path, found) = self.followed(&path, &tally).await?;
        let begin = match &found {
            Some(_) => Begin::Append,
            None => Begin::Anew,
        };
        let found = found.map_or(0, |stat| stat.size);
        let mut appender = Appender::new(self.clone(), path, begin, found, tally);
        if found != size {
            appender.size = size;
            return Err(appender.other_size(found));
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let path = appender.path.clone();
        match appender.push(bytes).await {
            Ok(()) => Ok(appender.size()),
            Err(error) => Err(error.uncertain(Lookup::Append {
                path,
                before: size,
                length,
            })),
        }
    }

    /// Where a path leads when links are followed, and what is there, if anything is.
    pub(super) async fn followed(
        &self,
        path: &AbsPath,
        tally: &Tally,
    ) -> Result<(AbsPath, Option<Stat>), Error> {
        let mut path = path.cleaned();
        for _ in 0..MOST_LINKS {
            tally.request();
            let Some(stat) = self.try_stat(&path).await? else {
                return Ok((path, None));
            };
            let (FileType::Symlink, Some(target)) = (&stat.file_type, &stat.symlink_target) else {
                return Ok((path, Some(stat)));
            };
            path = match target.strip_prefix('/') {
                Some(_) => AbsPath::try_from(target.as_str())?.cleaned(),
                None => path.parent().join(target)?.cleaned(),
            };
        }
        Err(Error::Protocol {
            operation: "fs.stat",
            problem: format!("{path} is a link in a circle"),
        })
    }
}
