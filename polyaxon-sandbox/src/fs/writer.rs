//! A file of the sandbox as something to write to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use polyaxon_client::InvalidInput;
use tokio::io::AsyncWrite;

use super::append::{Appender, Begin};
use super::files::{Fs, Write, checked};
use super::transfer::{Account, TransferReceipt};
use crate::error::Error;
use crate::path::AbsPath;

/// How much is put together before it is sent.
const PAGE: usize = 4 << 20;

/// A file of the sandbox that is written in order: an [`AsyncWrite`]. Made by [`Fs::writer`].
///
/// What is written is put together into pages of 4 MiB; one is under way while the next one fills,
/// and a writer that is ahead of both waits. A page whose answer was lost is looked up by the size
/// of the file, so it is never added twice; this is safe as long as nobody else writes to the file.
///
/// The bytes go to the file itself: who reads meanwhile sees a part. Use
/// [`upload`](Fs::upload) for a file that is to be the old or the new one at all times.
///
/// [`finish`](Self::finish) sends the rest and says what was done; `shutdown` of [`AsyncWrite`]
/// sends the rest. **Dropping the writer without one of them loses what was not sent**: the file
/// then holds what was flushed, and can hold the page that was under way.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::fs::Write;
/// use tokio::io::AsyncWriteExt as _;
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
/// let mut writer = fs.writer("/tmp/table.csv", Write::new()).await?;
/// for row in 0..3 {
///     writer.write_all(format!("{row},{}\n", row * row).as_bytes()).await?;
/// }
/// let receipt = writer.finish().await?;
/// assert_eq!((receipt.bytes, receipt.requests), (12, 1));
/// assert_eq!(fs.read_text("/tmp/table.csv").await?, "0,0\n1,1\n2,4\n");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent until it is written to and finished"]
pub struct FileWriter {
    state: State,
    filling: BytesMut,
    account: Account,
    start: u64,
}

enum State {
    Ready(Box<Appender>),
    Sending(BoxFuture<'static, (Box<Appender>, Result<(), Error>)>),
    /// After an error, or at the end.
    Closed,
}

impl FileWriter {
    fn new(appender: Appender, account: Account) -> Self {
        Self {
            start: appender.size(),
            state: State::Ready(Box::new(appender)),
            filling: BytesMut::new(),
            account,
        }
    }

    /// Sends what is left, and makes an empty file where nothing was written.
    ///
    /// # Errors
    /// As [`write`](Fs::write); [`FileError::Size`](super::FileError::Size) where somebody else has
    /// written to the file.
    ///
    /// # Cancel safety
    /// Dropping the future can leave out what was not sent.
    pub async fn finish(mut self) -> Result<TransferReceipt, Error> {
        let size = std::future::poll_fn(|cx| self.poll_finish(cx)).await?;
        Ok(self.account.receipt(size - self.start, None))
    }

    /// Waits for the page under way, and sends the rest.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            ready!(self.poll_ready(cx))?;
            if self.filling.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.send();
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Error>> {
        loop {
            ready!(self.poll_sent(cx))?;
            let State::Ready(appender) = &self.state else {
                return Poll::Ready(Err(closed()));
            };
            if appender.has_begun() {
                return Poll::Ready(Ok(appender.size()));
            }
            // An empty page makes an empty file.
            self.send();
        }
    }

    /// Waits until no page is under way.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &mut self.state {
            State::Ready(_) => Poll::Ready(Ok(())),
            State::Closed => Poll::Ready(Err(closed())),
            State::Sending(sending) => {
                let (appender, result) = ready!(sending.as_mut().poll(cx));
                self.state = match result {
                    Ok(()) => State::Ready(appender),
                    Err(_) => State::Closed,
                };
                Poll::Ready(result)
            }
        }
    }

    /// Sends what is put together. Only where no page is under way.
    fn send(&mut self) {
        let page: Bytes = self.filling.split().freeze();
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(mut appender) => State::Sending(Box::pin(async move {
                let result = appender.push(page).await;
                (appender, result)
            })),
            other => other,
        };
    }
}

fn closed() -> Error {
    InvalidInput::new("writer", "has failed before").into()
}

impl AsyncWrite for FileWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let ready = self.poll_ready(cx).map_err(io::Error::other)?;
        if self.filling.len() >= PAGE {
            ready!(ready);
            self.send();
            // Its future has to be polled once to begin.
            if let Poll::Ready(Err(error)) = self.poll_ready(cx) {
                return Poll::Ready(Err(io::Error::other(error)));
            }
        }
        let count = bytes.len().min(PAGE - self.filling.len());
        self.filling
            .extend_from_slice(bytes.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(cx).map_err(io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_finish(cx).map_ok(drop).map_err(io::Error::other)
    }
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter")
            .field("filling", &self.filling.len())
            .finish_non_exhaustive()
    }
}

impl Fs {
    /// A file of the sandbox to write to, page by page: see [`FileWriter`]. Only to append, the size
    /// of the file is asked for; otherwise nothing is sent before there is a page. Links are
    /// followed.
    ///
    /// # Errors
    /// Where the path cannot be one; to append, as [`stat`](Self::stat), and `not_found` only with
    /// [`Write::existing_only`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn writer<P>(&self, path: P, how: Write) -> Result<FileWriter, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let path = checked(path)?;
        let account = Account::new();
        let tally = account.tally();
        let (path, begin, size) = match (how.appends(), how.creates()) {
            (false, true) => (path, Begin::Anew, 0),
            (false, false) => (path, Begin::Existing, 0),
            (true, creates) => {
                let (path, found) = self.followed(&path, &tally).await?;
                match found {
                    Some(found) => (path, Begin::Append, found.size),
                    None if creates => (path, Begin::Anew, 0),
                    // The service's own words for it.
                    None => {
                        let found = self.stat(&path).await?;
                        (path, Begin::Append, found.size)
                    }
                }
            }
        };
        let appender = Appender::new(self.clone(), path, begin, size, tally);
        Ok(FileWriter::new(appender.mode(how.mode_of_new()), account))
    }
}
