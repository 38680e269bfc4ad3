//! What a command does, while it does it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use polyaxon_client::transport::{AnswerStream, SseDecoder};
use tokio::time::Instant;

use self::event::{Chunk, Completion, StreamEvent};
use self::source::{Source, Step};
use super::cursor::Cursor;
use super::id::ExecId;
use crate::client::SandboxClient;
use crate::error::Error;

pub(super) mod border;
pub(super) mod collect;
mod decode;
pub(super) mod event;
pub(super) mod lines;
mod source;
mod text;

/// How a command is streamed. Default: 60 s of silence, events of 32 MiB, and, where the command
/// has a time limit, half a minute more than that in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a Streaming does nothing until it is passed to `exec_stream_with`"]
pub struct Streaming {
    idle: Duration,
    event_bytes: usize,
    limit: Option<Duration>,
}

impl Default for Streaming {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(60),
            event_bytes: 32 << 20,
            limit: None,
        }
    }
}

impl Streaming {
    /// As by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long nothing at all may come. The service says every 3 s that it is there, so that a
    /// command may be silent for longer. Default: 60 s.
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = limit;
        self
    }

    /// How large one event may be that the service sends, in bytes. It is held in memory as a
    /// whole. Default: 32 MiB; the service is known to send 1 MiB at most.
    pub fn event_bytes(mut self, limit: usize) -> Self {
        self.event_bytes = limit;
        self
    }

    /// How long all of it may take. Default: the time limit of the command and half a minute more;
    /// none where the command has none.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The limit for all of it, where the command itself has this one.
    pub(super) fn whole(&self, command: Option<Duration>) -> Option<Duration> {
        self.limit.or(command)
    }
}

/// What a command does, as a stream: that it runs, what it writes, how it ends.
///
/// It ends after [`StreamEvent::Complete`], or after the first error. The service's signs of life
/// are not given out. A reader that is slow holds up neither the command nor other calls.
///
/// # Errors
/// [`Error::Interrupted`] where the end of the command was not told: the stream broke off, fell
/// silent, or made no sense. It has the exec's id and how far the output was given out; with both
/// [`BgExec::follow_from`](super::BgExec::follow_from) goes on without a gap and without a
/// repetition.
///
/// # Cancel safety
/// Dropping the stream closes the connection. **The command goes on** until its time limit; its
/// output is kept. [`terminate`](Self::terminate) ends it. Dropping a future of
/// [`next`](Self::next) loses nothing.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::process::{StreamEvent, Termination};
/// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = SandboxSpec::image("i");
/// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
/// let exec = Exec::shell("echo one; echo two >&2; exit 3");
/// let mut events = sandbox.process().exec_stream(&exec).await?;
/// let mut written = 0;
/// while let Some(event) = events.next().await {
///     match event? {
///         StreamEvent::Output(chunk) => written += chunk.bytes.len(),
///         StreamEvent::Complete(end) => assert_eq!(end.termination, Termination::Exited(3)),
///         _ => {}
///     }
/// }
/// assert_eq!((written, events.cursor().stdout, events.cursor().stderr), (8, 4, 4));
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct ExecEvents {
    sandbox: SandboxClient,
    state: State,
    exec_id: Option<ExecId>,
    cursor: Cursor,
    completion: Option<Completion>,
}

enum State {
    /// Events can be taken.
    Ready(Box<Source>),
    /// Something has to come first.
    Working(BoxFuture<'static, (Box<Source>, Result<(), Error>)>),
    /// The log is followed.
    Log(BoxStream<'static, Result<StreamEvent, Error>>),
    Done,
}

impl ExecEvents {
    /// Reads the answer of `exec/stream`.
    pub(super) fn live(
        sandbox: &SandboxClient,
        answer: AnswerStream,
        how: &Streaming,
        limit: Option<Duration>,
    ) -> Self {
        let source = Source {
            sandbox: sandbox.clone(),
            answer,
            decoder: SseDecoder::with_limit(how.event_bytes),
            idle: how.idle,
            deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
            ready: std::collections::VecDeque::new(),
            todo: None,
            gap: None,
            exec_id: None,
            told: Cursor::default(),
            come: Cursor::default(),
            settled: Cursor::default(),
            fruitless: 0,
            complete: false,
            failed: None,
        };
        Self {
            sandbox: sandbox.clone(),
            state: State::Ready(Box::new(source)),
            exec_id: None,
            cursor: Cursor::default(),
            completion: None,
        }
    }

    /// Gives out what `events` says of an exec that was known before.
    pub(super) fn log(
        sandbox: &SandboxClient,
        exec_id: ExecId,
        from: Cursor,
        events: BoxStream<'static, Result<StreamEvent, Error>>,
    ) -> Self {
        Self {
            sandbox: sandbox.clone(),
            state: State::Log(events),
            exec_id: Some(exec_id),
            cursor: from,
            completion: None,
        }
    }

    /// The next event. `None` behind the last one, and behind an error.
    ///
    /// # Errors
    /// As said of the type.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The exec, as soon as the service has said its id.
    #[must_use]
    pub fn exec_id(&self) -> Option<&ExecId> {
        self.exec_id.as_ref()
    }

    /// How far the output was given out. To be kept, to go on from there after a restart:
    /// [`BgExec::follow_from`](super::BgExec::follow_from).
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// How the command ended, once that was given out.
    #[must_use]
    pub fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    /// Ends the command and removes its record: the service sends SIGTERM, and SIGKILL 5 s later
    /// to what is left of its process group. Returns when it is gone.
    ///
    /// # Errors
    /// As [`BgExec::delete`](super::BgExec::delete); [`Error::Interrupted`] where the command has
    /// no id so far and the stream breaks off before it comes.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the command was ended.
    pub async fn terminate(mut self) -> Result<(), Error> {
        while self.exec_id.is_none() {
            match self.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // Nothing to end: the command is over, and has no record.
                None => return Ok(()),
            }
        }
        match self.exec_id.take() {
            Some(exec_id) => self.sandbox.process().bg(exec_id).delete().await,
            None => Ok(()),
        }
    }

    /// Notes what is given out.
    fn noted(&mut self, event: StreamEvent) -> StreamEvent {
        match &event {
            StreamEvent::Output(Chunk { stream, end, .. }) => self.cursor.advance(*stream, *end),
            StreamEvent::Started(started) if !started.exec_id.as_str().is_empty() => {
                self.exec_id = Some(started.exec_id.clone());
            }
            StreamEvent::Complete(completion) => self.completion = Some(completion.clone()),
            _ => {}
        }
        event
    }
}

impl Stream for ExecEvents {
    type Item = Result<StreamEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let event = match &mut self.state {
                State::Done => return Poll::Ready(None),
                State::Log(events) => match std::task::ready!(events.poll_next_unpin(context)) {
                    Some(event) => event,
                    None => {
                        self.state = State::Done;
                        return Poll::Ready(None);
                    }
                },
                State::Ready(source) => match source.step() {
                    Ok(Step::Event(event)) => Ok(event),
                    Ok(Step::End) => {
                        self.state = State::Done;
                        return Poll::Ready(None);
                    }
                    Ok(Step::Work) if source.poll_read(context).is_ready() => continue,
                    Ok(Step::Work) => {
                        if let State::Ready(mut source) =
                            std::mem::replace(&mut self.state, State::Done)
                        {
                            self.state = State::Working(Box::pin(async move {
                                let result = source.work().await;
                                (source, result)
                            }));
                        }
                        continue;
                    }
                    Err(error) => Err(error),
                },
                State::Working(work) => {
                    let (mut source, result) = std::task::ready!(work.as_mut().poll(context));
                    // What is ready is given out first: the cursor of the error is behind it.
                    source.failed = result.err();
                    self.state = State::Ready(source);
                    continue;
                }
            };
            return Poll::Ready(Some(match event {
                Ok(event) => Ok(self.noted(event)),
                Err(error) => {
                    self.state = State::Done;
                    Err(error)
                }
            }));
        }
    }
}

impl fmt::Debug for ExecEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecEvents")
            .field("exec_id", &self.exec_id)
            .field("cursor", &self.cursor)
            .field("completion", &self.completion)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn check<T: Send>() {}
    check::<ExecEvents>();
};
