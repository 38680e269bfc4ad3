//! The half of an attachment that is written to.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{Sink as _, SinkExt as _};
use polyaxon_client::Effect;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use super::reader::Reading;
use super::request::check_size;
use super::socket::{self, Socket, detached};
use super::{PtyControl, PtyId};
use crate::error::Error;
use crate::process::Signal;

/// The largest frame of input that is sent. Services take 1 MiB; smaller ones let a resize
/// through between two of them.
const INPUT_BYTES: usize = 64 * 1024;

/// The half of a terminal that is written to. As [`AsyncWrite`], shutting it down detaches.
#[must_use = "dropping it closes the connection, if the reader is dropped too"]
pub struct PtyWriter {
    pty_id: PtyId,
    /// `None` once the connection was left.
    sink: Option<SplitSink<Socket, Message>>,
    _reading: Arc<Reading>,
}

impl fmt::Debug for PtyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PtyWriter")
            .field("pty_id", &self.pty_id)
            .finish_non_exhaustive()
    }
}

impl PtyWriter {
    pub(super) fn new(
        sink: SplitSink<Socket, Message>,
        pty_id: PtyId,
        reading: Arc<Reading>,
    ) -> Self {
        Self {
            pty_id,
            sink: Some(sink),
            _reading: reading,
        }
    }

    /// Sends the frame that closes the connection, and writes nothing after it.
    pub(super) async fn leave(&mut self, until: Instant) {
        if let Some(mut sink) = self.sink.take() {
            let frame = CloseFrame {
                code: CloseCode::Normal,
                reason: "".into(),
            };
            // Where it cannot be sent, the connection is lost anyway.
            let _sent = timeout_at(until, sink.send(Message::Close(Some(frame)))).await;
        }
    }

    /// The terminal.
    #[must_use]
    pub fn pty_id(&self) -> &PtyId {
        &self.pty_id
    }

    /// Types these bytes into the terminal, as they are: a line ends with `\r` or `\n`, `\x03` is
    /// Ctrl-C. Returns when the connection has taken them, which is not when the program has read
    /// them; a program that does not read makes the service wait, and in the end this.
    ///
    /// # Errors
    /// [`Error::Detached`]: with effect *not applied* where the connection was closed before, with
    /// *unknown* where it broke meanwhile.
    ///
    /// # Cancel safety
    /// Not cancel safe: some of the bytes may have been typed, in pieces of 64 KiB.
    pub async fn write(&mut self, bytes: impl Into<Bytes> + Send) -> Result<(), Error> {
        let mut bytes: Bytes = bytes.into();
        let mut effect = Effect::NotApplied;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(INPUT_BYTES));
            self.send(Message::Binary(piece), effect).await?;
            effect = Effect::Unknown;
        }
        Ok(())
    }

    /// Tells the terminal its new size, each number 1 to [`Pty::SIZE_MAX`](super::Pty::SIZE_MAX).
    /// A service that cannot do it says so by [`PtyOutput::Refused`](super::PtyOutput::Refused).
    ///
    /// # Errors
    /// `InvalidInput` where it cannot be, before anything is sent; otherwise as
    /// [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is done.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), Error> {
        check_size(cols, rows)?;
        self.control(&PtyControl::Resize { cols, rows }).await
    }

    /// Sends a signal, as [`Ptys::signal`](super::Ptys::signal) does. A service that does not take
    /// it says so by [`PtyOutput::Refused`](super::PtyOutput::Refused).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is done.
    pub async fn signal(&mut self, signal: &Signal) -> Result<(), Error> {
        self.control(&PtyControl::Signal(signal.clone())).await
    }

    async fn control(&mut self, control: &PtyControl) -> Result<(), Error> {
        let text = Message::text(control.to_string());
        self.send(text, Effect::NotApplied).await
    }

    async fn send(&mut self, message: Message, before: Effect) -> Result<(), Error> {
        let sent = match &mut self.sink {
            Some(sink) => sink.send(message).await,
            None => Err(tungstenite::Error::AlreadyClosed),
        };
        sent.map_err(|error| self.gone(&error, before))
    }

    /// Polls the connection, and says what became of it.
    fn poll_sink<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut SplitSink<Socket, Message>>) -> Poll<Result<T, tungstenite::Error>>,
    ) -> Poll<io::Result<T>> {
        let polled = match &mut self.sink {
            Some(sink) => ready!(poll(Pin::new(sink))),
            None => Err(tungstenite::Error::AlreadyClosed),
        };
        Poll::Ready(polled.map_err(|error| {
            let error = self.gone(&error, Effect::NotApplied);
            io::Error::new(io::ErrorKind::ConnectionAborted, error)
        }))
    }

    /// What became of a frame that was not sent, where nothing before it had `before`.
    fn gone(&self, error: &tungstenite::Error, before: Effect) -> Error {
        let effect = match error {
            tungstenite::Error::ConnectionClosed
            | tungstenite::Error::AlreadyClosed
            | tungstenite::Error::Protocol(tungstenite::error::ProtocolError::SendAfterClosing) => {
                before
            }
            _ => Effect::Unknown,
        };
        detached(&self.pty_id, effect, socket::plain(error))
    }
}

impl AsyncWrite for PtyWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_sink(|sink| sink.poll_ready(context)))?;
        let piece = bytes
            .get(..bytes.len().min(INPUT_BYTES))
            .unwrap_or_default();
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        let sent = self.poll_sink(|sink| Poll::Ready(sink.start_send(message)));
        sent.map_ok(|()| piece.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sink(|sink| sink.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sink(|sink| sink.poll_close(context))
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<PtyWriter>();
};
