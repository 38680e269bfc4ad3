//! A file of the sandbox as something to read from.

use std::io;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures::Stream;
use futures::future::BoxFuture;
use polyaxon_client::InvalidInput;
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf, SeekFrom};

use super::entry::{FileType, Stat};
use super::files::{Fs, checked};
use super::pages::{MOST_PAGES, PAGE, Pages, Plan};
use super::tally::Tally;
use crate::error::Error;
use crate::path::AbsPath;

/// A file of the sandbox, read in order: an [`AsyncRead`] and [`AsyncSeek`], or a [`Stream`] of
/// pages. Made by [`Fs::reader`].
///
/// Nothing is sent until it is polled. The first request asks for the size, which is only a hint:
/// the end is where the service says that the file ends. Pages are asked for ahead of their use
/// where the answers let wait for themselves, three at once at most; what holds them is bounded by
/// that. A page whose answer breaks off is asked for again, from the byte where it broke. A file
/// that changes meanwhile is read as each page finds it.
///
/// # Cancel safety
/// Reading is cancel safe: bytes that were not given out are given out next. Dropping the reader
/// closes its connections; nothing changes in the sandbox.
///
/// # Examples
/// ```
/// use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
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
/// fs.write("/tmp/log", "one\ntwo\nthree\n").await?;
///
/// let mut lines = BufReader::new(fs.reader("/tmp/log")?).lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
///
/// let mut part = String::new();
/// fs.reader("/tmp/log")?.range(4..7).read_to_string(&mut part).await?;
/// assert_eq!(part, "two");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is read until it is polled"]
pub struct FileReader {
    fs: Fs,
    path: AbsPath,
    page: u64,
    most: usize,
    /// Where reading goes on.
    at: u64,
    /// The byte behind the last one wanted.
    end: Option<u64>,
    state: State,
}

enum State {
    /// Nothing is under way.
    Idle,
    /// Asks for the size, to know how far reading ahead is of use.
    Looking(BoxFuture<'static, Result<Stat, Error>>),
    /// Pages are under way, and what is left of the last one.
    Reading(Box<Pages>, Bytes),
    /// Asks for the size to seek from the end.
    Seeking(i64, BoxFuture<'static, Result<Stat, Error>>),
    /// After an error.
    Failed,
}

impl FileReader {
    fn new(fs: Fs, path: AbsPath) -> Self {
        Self {
            fs,
            path,
            page: PAGE,
            most: MOST_PAGES,
            at: 0,
            end: None,
            state: State::Idle,
        }
    }

    /// Only these bytes. A range that ends behind the end of the file ends with the file. Default:
    /// the whole file.
    pub fn range(mut self, range: impl RangeBounds<u64>) -> Self {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        self.at = match range.start_bound() {
            Included(start) => *start,
            Excluded(start) => start.saturating_add(1),
            Unbounded => 0,
        };
        self.end = match range.end_bound() {
            Included(end) => Some(end.saturating_add(1)),
            Excluded(end) => Some(*end),
            Unbounded => None,
        };
        self.state = State::Idle;
        self
    }

    /// How many bytes one request asks for, 1 byte to 16 MiB. Default: 4 MiB.
    pub fn page_size(mut self, bytes: u64) -> Self {
        self.page = bytes.clamp(1, 16 << 20);
        self
    }

    /// How many requests may be under way at once. Default: 3. One at least.
    pub fn parallel(mut self, requests: usize) -> Self {
        self.most = requests.max(1);
        self
    }

    /// The offset of the byte that is read next.
    #[must_use]
    pub fn position(&self) -> u64 {
        match &self.state {
            State::Reading(pages, rest) => pages.position() - rest_of(rest),
            _ => self.at,
        }
    }

    /// Goes to an offset from the start of the file. What was read ahead is forgotten.
    pub fn seek_to(&mut self, offset: u64) {
        self.at = offset;
        self.state = State::Idle;
    }

    /// The next page; with an [`Error`] that says what is wrong.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            match &mut self.state {
                State::Failed => return Poll::Ready(None),
                State::Idle | State::Seeking(..) => {
                    if self.end.is_some_and(|end| self.at >= end) {
                        return Poll::Ready(None);
                    }
                    self.state = State::Looking(self.look());
                }
                State::Looking(stat) => {
                    let known = match ready!(stat.as_mut().poll(cx)) {
                        // Only a regular file is the same for requests that come at once.
                        Ok(stat) if stat.file_type == FileType::File => stat.size,
                        Ok(_) => 0,
                        Err(error) => {
                            self.state = State::Failed;
                            return Poll::Ready(Some(Err(error)));
                        }
                    };
                    let plan = Plan {
                        path: self.path.clone(),
                        start: self.at,
                        end: self.end,
                        known: self.end.unwrap_or(u64::MAX).min(known),
                        page: self.page,
                        most: self.most,
                    };
                    let pages = Pages::new(self.fs.clone(), plan, Tally::default());
                    self.state = State::Reading(Box::new(pages), Bytes::new());
                }
                State::Reading(pages, rest) if !rest.is_empty() => {
                    self.at = pages.position();
                    return Poll::Ready(Some(Ok(std::mem::take(rest))));
                }
                State::Reading(pages, _) => {
                    let page = ready!(Pin::new(&mut **pages).poll_next(cx));
                    self.at = pages.position();
                    if let Some(Err(_)) = &page {
                        self.state = State::Failed;
                    }
                    return Poll::Ready(page);
                }
            }
        }
    }

    fn look(&self) -> BoxFuture<'static, Result<Stat, Error>> {
        let (fs, path) = (self.fs.clone(), self.path.clone());
        Box::pin(async move {
            let (path, found) = fs.followed(&path, &Tally::default()).await?;
            match found {
                Some(stat) => Ok(stat),
                // The service's own words for it.
                None => fs.stat(&path).await,
            }
        })
    }
}

fn rest_of(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Pages, in order. Ends after the first error.
impl Stream for FileReader {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_page(cx)
    }
}

impl AsyncRead for FileReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut page = match ready!(self.poll_page(cx)) {
            None => return Poll::Ready(Ok(())),
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            Some(Ok(page)) => page,
        };
        let count = page.len().min(buffer.remaining());
        buffer.put_slice(page.get(..count).unwrap_or_default());
        page.advance(count);
        if let State::Reading(_, rest) = &mut self.state {
            *rest = page;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for FileReader {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let before_start = || io::Error::new(io::ErrorKind::InvalidInput, "before the start");
        let here = self.position();
        match position {
            SeekFrom::Start(offset) => self.seek_to(offset),
            SeekFrom::Current(by) => {
                let offset = here.checked_add_signed(by).ok_or_else(before_start)?;
                self.seek_to(offset);
            }
            SeekFrom::End(by) => self.state = State::Seeking(by, self.look()),
        }
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        if let State::Seeking(by, stat) = &mut self.state {
            let by = *by;
            let size = match ready!(stat.as_mut().poll(cx)) {
                Ok(stat) => stat.size,
                Err(error) => {
                    self.state = State::Failed;
                    return Poll::Ready(Err(io::Error::other(error)));
                }
            };
            let Some(offset) = size.checked_add_signed(by) else {
                self.state = State::Idle;
                let error = io::Error::new(io::ErrorKind::InvalidInput, "before the start");
                return Poll::Ready(Err(error));
            };
            self.seek_to(offset);
        }
        Poll::Ready(Ok(self.position()))
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader")
            .field("path", &self.path)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl Fs {
    /// A file of the sandbox to read from, as [`AsyncRead`] or as a stream of pages. Nothing is
    /// sent before it is polled. Links are followed.
    ///
    /// # Errors
    /// Only where the path cannot be one. Reading fails as [`read`](Self::read) does; the
    /// [`Error`] is inside the [`io::Error`].
    pub fn reader<P>(&self, path: P) -> Result<FileReader, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>>,
    {
        Ok(FileReader::new(self.clone(), checked(path)?))
    }
}
