//! An attachment to a terminal: both halves, and the way back to one that was lost.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use polyaxon_client::transport::Operation;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

use super::calls::route_of;
use super::exit::PtyExit;
use super::reader::{PtyOutput, PtyReader};
use super::writer::PtyWriter;
use super::{PtyEvent, PtyId, PtySession, PtyState, socket};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::process::Signal;

/// How long [`AttachedPty::detach`] waits for the service to close its side.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long [`AttachedPty::reattach`] waits for the service to notice that its own connection of
/// before is gone.
const STILL_ATTACHED_LIMIT: Duration = Duration::from_secs(5);

/// How to attach to a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an Attach does nothing until it is passed to `pty().attach`"]
pub struct Attach {
    pub(super) replay: Option<u32>,
    pub(super) silence: Duration,
}

impl Attach {
    /// How long a service may be silent unless [`silence`](Self::silence) says otherwise: 3
    /// minutes, six of its pings.
    pub const SILENCE: Duration = Duration::from_secs(180);

    /// Without replay: only what is written from now on is seen.
    pub fn new() -> Self {
        Self {
            replay: None,
            silence: Self::SILENCE,
        }
    }

    /// The last bytes of output that are sent again at first. Default: 0. A service keeps 256 KiB
    /// unless set up otherwise, and refuses to be asked for more than it keeps.
    pub fn replay_bytes(mut self, bytes: u32) -> Self {
        self.replay = Some(bytes);
        self
    }

    /// How long nothing at all may come, not even the service's ping (every 30 s unless set up
    /// otherwise), before the connection counts as lost. Default: [`SILENCE`](Self::SILENCE).
    pub fn silence(mut self, limit: Duration) -> Self {
        self.silence = limit;
        self
    }
}

impl Default for Attach {
    fn default() -> Self {
        Self::new()
    }
}

/// A terminal with a connection to it, to read from and to write to.
///
/// A task of its own reads all the time, so that an idle connection lives. It keeps up to 1 MiB
/// that nobody has taken yet; then it stops reading, and the program has to wait. A service gives
/// a client up who stays far behind (256 frames): that is [`Error::Detached`], and
/// [`reattach`](Self::reattach) goes on with what the service has kept.
///
/// Dropping it closes the connection: the program runs on, and somebody else can attach.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = polyaxon_sandbox::SandboxSpec::image("i");
/// # let sandbox = polyaxon_sandbox::SandboxClient::launch(&client, server.project(), &spec).await?;
/// use polyaxon_sandbox::pty::Pty;
///
/// let mut pty = sandbox.pty().open(&Pty::shell().size(100, 30)).await?;
/// pty.write("stty size; exit 7\n").await?;
/// let mut seen = Vec::new();
/// while let Some(bytes) = pty.read().await? {
///     seen.extend_from_slice(&bytes);
/// }
/// assert!(String::from_utf8_lossy(&seen).contains("30 100"));
/// assert_eq!(pty.exit().and_then(|exit| exit.code()), Some(7));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub struct AttachedPty {
    sandbox: SandboxClient,
    reader: PtyReader,
    writer: PtyWriter,
    at_first: AtFirst,
    how: Attach,
}

/// What the first frame says.
#[derive(Clone, Debug)]
struct AtFirst {
    pid: Option<u32>,
    state: PtyState,
    size: (u16, u16),
}

impl AttachedPty {
    pub(super) async fn attach(
        sandbox: SandboxClient,
        pty_id: PtyId,
        how: Attach,
    ) -> Result<Self, Error> {
        let mut operation = Operation::get("pty.attach", route_of(&pty_id, "/ws"));
        if let Some(bytes) = how.replay {
            operation = operation.query("replay_bytes", bytes.to_string());
        }
        let connection = sandbox.upgrade(operation).await?;
        let (sink, mut stream) = socket::socket(connection).await.split();
        let first = socket::first_frame(&mut stream, &pty_id, how.silence).await?;
        let at_first = match first {
            PtyEvent::Attached {
                pid,
                state,
                cols,
                rows,
                ..
            } => AtFirst {
                pid,
                state,
                size: (cols, rows),
            },
            other => {
                return Err(Error::Protocol {
                    operation: "pty.attach",
                    problem: format!("the first frame is not `attached` but {other}"),
                });
            }
        };
        let reader = PtyReader::start(stream, pty_id.clone(), how.silence);
        let writer = PtyWriter::new(sink, pty_id, reader.reading());
        Ok(Self {
            sandbox,
            reader,
            writer,
            at_first,
            how,
        })
    }

    /// The terminal.
    #[must_use]
    pub fn pty_id(&self) -> &PtyId {
        self.reader.pty_id()
    }

    /// The process that leads its session, as the service numbers it.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.at_first.pid
    }

    /// Whether its program ran when this was attached.
    #[must_use]
    pub fn state_at_first(&self) -> &PtyState {
        &self.at_first.state
    }

    /// Columns and rows when this was attached.
    #[must_use]
    pub fn size_at_first(&self) -> (u16, u16) {
        self.at_first.size
    }

    /// How its program ended, once that was read.
    #[must_use]
    pub fn exit(&self) -> Option<&PtyExit> {
        self.reader.exit()
    }

    /// As [`PtyReader::read`].
    ///
    /// # Errors
    /// As [`PtyReader::read`].
    ///
    /// # Cancel safety
    /// Cancel safe: no byte is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        self.reader.read().await
    }

    /// As [`PtyReader::wait`].
    ///
    /// # Errors
    /// As [`PtyReader::wait`].
    ///
    /// # Cancel safety
    /// Cancel safe; what was read until then is gone.
    pub async fn wait(&mut self) -> Result<PtyExit, Error> {
        self.reader.wait().await
    }

    /// As [`PtyWriter::write`].
    ///
    /// # Errors
    /// As [`PtyWriter::write`].
    ///
    /// # Cancel safety
    /// As [`PtyWriter::write`].
    pub async fn write(&mut self, bytes: impl Into<Bytes> + Send) -> Result<(), Error> {
        self.writer.write(bytes).await
    }

    /// As [`PtyWriter::resize`].
    ///
    /// # Errors
    /// As [`PtyWriter::resize`].
    ///
    /// # Cancel safety
    /// As [`PtyWriter::resize`].
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), Error> {
        self.writer.resize(cols, rows).await
    }

    /// As [`PtyWriter::signal`].
    ///
    /// # Errors
    /// As [`PtyWriter::signal`].
    ///
    /// # Cancel safety
    /// As [`PtyWriter::signal`].
    pub async fn signal(&mut self, signal: &Signal) -> Result<(), Error> {
        self.writer.signal(signal).await
    }

    /// Asks the service how the terminal is, over a call of its own: after
    /// [`Error::Detached`] that says whether the program runs on
    /// ([`PtySession::exit`] is `None`) or how it ended.
    ///
    /// # Errors
    /// As [`Ptys::get`](super::Ptys::get): `not_found` where it was deleted or forgotten.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ask(&self) -> Result<PtySession, Error> {
        self.sandbox.pty().get(self.pty_id()).await
    }

    /// Closes what is left of the connection and attaches anew to the same terminal. Unread output
    /// of before is dropped: read first what is there.
    ///
    /// `replay_bytes` of the last output come again. A terminal does not number its bytes, so
    /// nobody can tell what of them was seen before: where less was written meanwhile, some of it
    /// is repeated; where more was, some is missing. For a screen that is redrawn neither matters;
    /// what must be complete goes to a file, or through `exec_bg`.
    ///
    /// # Errors
    /// As [`Ptys::attach`](super::Ptys::attach): `gone` where the program has ended meanwhile
    /// ([`PtyExit::of`] tells how). Where the service has not noticed within 5 s that the
    /// connection of before is gone: `already_attached`. After an error the connection of before
    /// is closed.
    ///
    /// # Cancel safety
    /// Dropping the future closes both connections; it can be called again.
    pub async fn reattach(&mut self, replay_bytes: u32) -> Result<(), Error> {
        let pty_id = self.pty_id().clone();
        let how = self.how.replay_bytes(replay_bytes);
        self.leave().await;
        let until = Instant::now() + STILL_ATTACHED_LIMIT;
        let mut pause = Duration::from_millis(10);
        loop {
            match Self::attach(self.sandbox.clone(), pty_id.clone(), how).await {
                Err(error)
                    if error.service_status() == Some(409) && Instant::now() + pause < until =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(500));
                }
                attached => {
                    *self = attached?;
                    return Ok(());
                }
            }
        }
    }

    /// Closes the connection in an orderly way, and waits up to 2 s for the service to do the
    /// same. The program runs on. Unread output is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection, if less orderly.
    pub async fn detach(mut self) {
        self.leave().await;
    }

    /// Both halves, each to be used on its own. The connection is closed when both are dropped.
    pub fn split(self) -> (PtyReader, PtyWriter) {
        (self.reader, self.writer)
    }

    async fn leave(&mut self) {
        let until = Instant::now() + CLOSE_LIMIT;
        self.writer.leave(until).await;
        self.reader.leave(until).await;
    }
}

impl Stream for AttachedPty {
    type Item = Result<PtyOutput, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.reader).poll_next(context)
    }
}

impl AsyncRead for AttachedPty {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

impl AsyncWrite for AttachedPty {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<AttachedPty>();
};
