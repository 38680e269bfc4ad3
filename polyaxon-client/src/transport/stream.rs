//! An answer whose body is read while it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use hyper::body::Body as _;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::classify;
use super::operation::Operation;
use crate::error::Error;

/// Pieces that are smaller than this are put together where several are there.
const SMALL: usize = 8 << 10;
/// How much is put together at most.
const BATCH: usize = 64 << 10;
/// Small pieces that come so soon after the last ones are a burst, and are gathered for a moment:
/// to wake the reader for each of them takes longer than to read them all.
const BURST: Duration = Duration::from_millis(2);
/// How long.
const GATHER: Duration = Duration::from_millis(1);
/// How many batches wait for a reader that is slower than the network. What is beyond waits in the
/// sockets, and so in the service.
const WAITING: usize = 2;

/// An answer that has begun: its head, and its body piece by piece. Dropping it closes the
/// connection, unless the body was read to its end.
///
/// The body is read by a task of its own, which ends with this value. The HTTP library hands each
/// piece over by itself, from one task to another: small pieces, as events are, would cost a change
/// of threads each. The task takes what is there at once.
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub struct AnswerStream {
    operation: Operation,
    host: String,
    head: Parts,
    pieces: mpsc::Receiver<Result<Bytes, Error>>,
    reader: JoinHandle<()>,
}

impl AnswerStream {
    pub(super) fn new(operation: &Operation, host: &str, response: reqwest::Response) -> Self {
        // The body of the request may be large, and is of no use any more.
        let mut operation = operation.clone();
        operation.body = None;
        let (head, body) = http::Response::from(response).into_parts();
        let (tell, pieces) = mpsc::channel(WAITING);
        let reader = Reader {
            body,
            operation: operation.clone(),
            host: host.to_owned(),
        };
        Self {
            operation,
            host: host.to_owned(),
            head,
            pieces,
            reader: tokio::spawn(reader.run(tell)),
        }
    }

    /// The call that was answered.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation.name
    }

    /// The status, of 2xx.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The next bytes, as many as have come, never none; `None` at the end of the body.
    ///
    /// # Errors
    /// [`Error::Transport`] where the body breaks off, or nothing comes for as long as
    /// [`Operation::idle`] says. Nothing can be read after it.
    ///
    /// # Cancel safety
    /// Cancel safe: no byte is lost.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let idle: Duration = self.operation.idle;
        match timeout(idle, self.pieces.recv()).await {
            Ok(piece) => piece.transpose(),
            Err(_) => Err(classify::silence(&self.operation, &self.host, idle)),
        }
    }

    /// The next bytes if they are there, as [`chunk`](Self::chunk) gives them, but for its limit for
    /// silence: for those who await `chunk` where nothing is there.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk), but for silence.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        self.pieces.poll_recv(context).map(Option::transpose)
    }

    /// The error of a body that came whole and says what it must not, or stops before it should.
    #[must_use]
    pub fn broken(&self, problem: impl Into<String>) -> Error {
        classify::broken(&self.operation, &self.host, problem.into())
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads a body to its end, or until nobody wants it.
struct Reader {
    body: reqwest::Body,
    operation: Operation,
    host: String,
}

impl Reader {
    async fn run(mut self, tell: mpsc::Sender<Result<Bytes, Error>>) {
        let mut batch = BytesMut::new();
        let mut sent = None::<Instant>;
        let mut next = poll_fn(|context| self.poll(context)).await;
        loop {
            let large = match next {
                Some(Ok(bytes)) if bytes.len() < SMALL => {
                    batch.extend_from_slice(&bytes);
                    None
                }
                Some(Ok(bytes)) => Some(bytes),
                Some(Err(error)) => {
                    if send(&tell, batch).await {
                        // Nobody is left to want it where this fails.
                        let _ = tell.send(Err(error)).await;
                    }
                    return;
                }
                None => {
                    send(&tell, batch).await;
                    return;
                }
            };
            let mut gathered = false;
            let more = loop {
                if large.is_some() || batch.len() >= BATCH {
                    break Poll::Pending;
                }
                // The library's task needs its turn to hand over what has come already.
                let ready = match self.ready_now().await {
                    Poll::Pending => {
                        yield_now().await;
                        self.ready_now().await
                    }
                    ready @ Poll::Ready(_) => ready,
                };
                if ready.is_ready() || gathered || !is_burst(sent) {
                    break ready;
                }
                gathered = true;
                sleep(GATHER).await;
            };
            next = match more {
                Poll::Ready(more) => more,
                Poll::Pending => {
                    if !send(&tell, batch.split()).await {
                        return;
                    }
                    sent = Some(Instant::now());
                    if let Some(bytes) = large
                        && tell.send(Ok(bytes)).await.is_err()
                    {
                        return;
                    }
                    poll_fn(|context| self.poll(context)).await
                }
            };
        }
    }

    /// What [`poll`](Self::poll) says at this moment.
    async fn ready_now(&mut self) -> Poll<Option<Result<Bytes, Error>>> {
        poll_fn(|context| Poll::Ready(self.poll(context))).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
            return Poll::Ready(match frame {
                // Trailers, and empty pieces, are nobody's concern.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => Some(Ok(bytes)),
                    _ => continue,
                },
                Some(Err(error)) => {
                    Some(Err(classify::failure(&self.operation, &self.host, error)))
                }
                None => None,
            });
        }
    }
}

/// Whether the last pieces were sent just now.
fn is_burst(sent: Option<Instant>) -> bool {
    sent.is_some_and(|at| at.elapsed() < BURST)
}

/// Whether somebody still wants it.
async fn send(tell: &mpsc::Sender<Result<Bytes, Error>>, batch: BytesMut) -> bool {
    batch.is_empty() || tell.send(Ok(batch.freeze())).await.is_ok()
}
