//! The half of an attachment that is read.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::stream::SplitStream;
use futures::{Stream, StreamExt as _};
use polyaxon_client::Effect;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::PtyId;
use super::exit::PtyExit;
use super::socket::{self, Socket, detached};
use crate::error::Error;

/// Pieces of output on the way from the reading task to the consumer.
const ON_THE_WAY: usize = 4;

/// What comes out of a terminal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PtyOutput {
    /// What the program wrote, and the echo of what was typed. Never empty; cut anywhere, in the
    /// middle of a character too.
    Bytes(Bytes),
    /// The service could do nothing with a frame of ours: a size or signal that it does not take.
    /// The attachment goes on.
    #[non_exhaustive]
    Refused {
        /// As in the error envelope.
        code: String,
        /// For people.
        message: String,
    },
    /// A control frame of a type that this version does not know.
    Other(Map<String, Value>),
    /// A text frame that is no control frame, as it came.
    Text(String),
    /// The program has ended. The last that comes.
    Exited(PtyExit),
}

impl PtyOutput {
    /// About what it takes to keep it.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Refused { code, message } => code.len() + message.len(),
            Self::Text(text) => text.len(),
            Self::Other(object) => object
                .iter()
                .map(|(key, value)| key.len() + value.to_string().len())
                .sum(),
            Self::Exited(_) => 0,
        }
    }
}

/// The task that reads; it ends with the last half that needs it.
pub(super) struct Reading(JoinHandle<()>);

impl Reading {
    pub(super) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The half of a terminal that is read. Output is read by a task of its own: see [`AttachedPty`](super::AttachedPty).
///
/// As a [`Stream`] it yields all that comes, control frames and the end included; as
/// [`AsyncRead`] the bytes alone, with end of file where the program has ended and an error of
/// kind `ConnectionAborted` where the connection was lost before.
///
/// Where it is dropped and the writer is not, reading goes on and what comes is dropped, so that
/// the program need not wait for anybody.
#[must_use = "streams do nothing unless polled"]
pub struct PtyReader {
    pty_id: PtyId,
    events: mpsc::Receiver<Result<PtyOutput, Error>>,
    rest: Bytes,
    exit: Option<PtyExit>,
    ended: bool,
    task: Arc<Reading>,
}

impl fmt::Debug for PtyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PtyReader")
            .field("pty_id", &self.pty_id)
            .field("exit", &self.exit)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl PtyReader {
    /// Starts the task that reads.
    pub(super) fn start(stream: SplitStream<Socket>, pty_id: PtyId, silence: Duration) -> Self {
        let (sender, events) = mpsc::channel(ON_THE_WAY);
        let task = tokio::spawn(socket::read(stream, pty_id.clone(), sender, silence));
        Self {
            pty_id,
            events,
            rest: Bytes::new(),
            exit: None,
            ended: false,
            task: Arc::new(Reading(task)),
        }
    }

    /// What keeps the reading going.
    pub(super) fn reading(&self) -> Arc<Reading> {
        Arc::clone(&self.task)
    }

    /// Reads until the connection ends, drops what comes, and hears no more after it.
    pub(super) async fn leave(&mut self, until: Instant) {
        while let Ok(Some(_)) = timeout_at(until, self.events.recv()).await {}
        self.task.stop();
        self.events.close();
    }

    /// The terminal.
    #[must_use]
    pub fn pty_id(&self) -> &PtyId {
        &self.pty_id
    }

    /// How its program ended, once that was read.
    #[must_use]
    pub fn exit(&self) -> Option<&PtyExit> {
        self.exit.as_ref()
    }

    /// The next bytes, never none; `None` when the program has ended, and then
    /// [`exit`](Self::exit) says how. Everything that is no output is skipped: who wants it reads
    /// this as a stream.
    ///
    /// # Errors
    /// [`Error::Detached`] where the connection ends before the program, once; `None` after it.
    /// The program may run on: ask [`Ptys::get`](super::Ptys::get), and attach again.
    ///
    /// # Cancel safety
    /// Cancel safe: no byte is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.next().await {
                Some(Ok(PtyOutput::Bytes(bytes))) => return Ok(Some(bytes)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            }
        }
    }

    /// Reads to the end of the program, drops the output, and says how it ended.
    ///
    /// # Errors
    /// [`Error::Detached`] where the connection ends before the program.
    ///
    /// # Cancel safety
    /// Cancel safe; what was read until then is gone.
    pub async fn wait(&mut self) -> Result<PtyExit, Error> {
        while self.read().await?.is_some() {}
        match &self.exit {
            Some(exit) => Ok(exit.clone()),
            None => Err(detached(
                &self.pty_id,
                Effect::NotApplied,
                "the end was told before",
            )),
        }
    }
}

impl Stream for PtyReader {
    type Item = Result<PtyOutput, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(PtyOutput::Bytes(rest))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let item = ready!(self.events.poll_recv(context)).unwrap_or_else(|| {
            let why = "what read the connection has ended";
            Err(detached(&self.pty_id, Effect::NotApplied, why))
        });
        match &item {
            Ok(PtyOutput::Exited(exit)) => {
                self.exit = Some(exit.clone());
                self.ended = true;
            }
            Ok(_) => {}
            Err(_) => self.ended = true,
        }
        Poll::Ready(Some(item))
    }
}

impl AsyncRead for PtyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.rest.is_empty() || buffer.remaining() == 0 {
                let count = self.rest.len().min(buffer.remaining());
                buffer.put_slice(self.rest.get(..count).unwrap_or_default());
                self.rest.advance(count);
                return Poll::Ready(Ok(()));
            }
            match ready!(self.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(PtyOutput::Bytes(bytes))) => self.rest = bytes,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let error = io::Error::new(io::ErrorKind::ConnectionAborted, error);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<PtyReader>();
};
