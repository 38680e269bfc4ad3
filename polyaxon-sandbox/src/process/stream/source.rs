//! Where the events of a streamed exec come from: the answer of `exec/stream`, and its log where
//! the answer lacks something.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use polyaxon_client::Error as ClientError;
use polyaxon_client::transport::{AnswerStream, Operation, SseDecoder};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::background::{ExecStatus, LogPage, LogStream};
use super::super::cursor::Cursor;
use super::super::id::ExecId;
use super::super::interrupted::Interrupted;
use super::super::logs::{Logs, PageReader, record};
use super::border;
use super::decode::{Decoded, decode};
use super::event::{Chunk, Completion, StreamEvent};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::wire::route;

/// How long a ping may take that shows whether a silent sandbox is still there.
const PROBE: Duration = Duration::from_secs(2);
/// How long the log may fail in a row.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often in a row a cut character may turn out to be none, before no more is looked for: then
/// the output is no text.
const FRUITLESS: u32 = 8;
/// The longest character, with the longest that can stand before it.
const WINDOW: u64 = 8;

/// The state of one stream.
pub(super) struct Source {
    pub(super) sandbox: SandboxClient,
    pub(super) answer: AnswerStream,
    pub(super) decoder: SseDecoder,
    /// How long nothing at all may come.
    pub(super) idle: Duration,
    /// When the command must have ended.
    pub(super) deadline: Option<Instant>,
    pub(super) ready: VecDeque<StreamEvent>,
    pub(super) todo: Option<Todo>,
    /// What the stream has skipped, being read from the log up to an offset.
    pub(super) gap: Option<Box<(PageReader, u64)>>,
    pub(super) exec_id: Option<ExecId>,
    /// Behind what the stream has told.
    pub(super) told: Cursor,
    /// Behind what has come, from the stream or the log.
    pub(super) come: Cursor,
    /// Behind what is ready or was given out. What lies between is held back: it can be the
    /// beginning of a character.
    pub(super) settled: Cursor,
    pub(super) fruitless: u32,
    pub(super) complete: bool,
    /// What to end with, once all that is ready was given out.
    pub(super) failed: Option<Error>,
}

/// What has to be asked for before the stream can go on.
pub(super) enum Todo {
    /// A character that may be cut at the border to this text.
    Mend {
        stream: LogStream,
        text: Bytes,
        end: u64,
    },
    /// Whether all the output was told of a command that has ended, by its record.
    Close {
        completion: Completion,
        record: Option<Box<ExecStatus>>,
    },
}

/// What [`Source::step`] came to.
pub(super) enum Step {
    Event(StreamEvent),
    /// [`Source::work`] has to be awaited.
    Work,
    End,
}

impl Source {
    /// The next event, as far as that needs no I/O.
    pub(super) fn step(&mut self) -> Result<Step, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Step::Event(event));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.complete {
                return Ok(Step::End);
            }
            if self.todo.is_some() || self.gap.is_some() {
                return Ok(Step::Work);
            }
            let event = match self.decoder.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(Step::Work),
                Err(error) => return Err(self.broken(error.to_string())),
            };
            match decode(&event) {
                Ok(Decoded::Output { stream, text, end }) => self.output(stream, text, end)?,
                Ok(Decoded::Ping) => {}
                Ok(Decoded::Complete(completion)) => {
                    let record = None;
                    self.todo = Some(Todo::Close { completion, record });
                }
                Ok(Decoded::Event(event)) => {
                    if let StreamEvent::Started(started) = &event
                        && !started.exec_id.as_str().is_empty()
                    {
                        self.exec_id = Some(started.exec_id.clone());
                    }
                    self.ready.push_back(event);
                }
                Ok(Decoded::Failed(why)) => {
                    return Err(self.nonsense(format!("the service gave up: {why}")));
                }
                Err(problem) => return Err(self.nonsense(problem)),
            }
        }
    }

    /// Takes what has come, if something has and nothing else has to be done first. At full speed
    /// that is so nearly always, and much cheaper than to await it with its limits.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.todo.is_some() || self.gap.is_some() {
            return Poll::Pending;
        }
        let read = ready!(self.answer.poll_chunk(context));
        self.failed = self.came(read).err();
        Poll::Ready(())
    }

    /// What has to be awaited before the next step.
    ///
    /// # Cancel safety
    /// Not cancel safe: it is kept, and polled to its end.
    pub(super) async fn work(&mut self) -> Result<(), Error> {
        if let Some(gap) = self.gap.take() {
            return self.fill(gap).await;
        }
        match self.todo.take() {
            None => self.read().await,
            Some(Todo::Mend { stream, text, end }) => {
                self.mend(stream, text, end).await;
                Ok(())
            }
            Some(Todo::Close { completion, record }) => {
                let record = match record {
                    Some(record) => Some(record),
                    None => self.status().await.map(Box::new),
                };
                self.close(completion, record)
            }
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let far = Instant::now() + Duration::from_secs(86400 * 365);
        let deadline = self.deadline.unwrap_or(far);
        let read = timeout(self.idle, self.answer.chunk());
        let problem = match timeout_at(deadline, read).await {
            Ok(Ok(read)) => return self.came(read),
            Ok(Err(_)) => format!("nothing came for {:.1?}", self.idle),
            Err(_) => "the time limit of the command has passed, and its end was not told".into(),
        };
        let source = self.answer.broken(problem).into();
        let answers = self.probe().await;
        Err(self.interrupted(source, Some(answers)))
    }

    fn came(&mut self, read: Result<Option<Bytes>, ClientError>) -> Result<(), Error> {
        match read {
            Ok(Some(bytes)) => {
                self.decoder.push(bytes);
                Ok(())
            }
            Ok(None) => Err(self.broken("the stream ended before the command did")),
            Err(error) => Err(self.interrupted(error.into(), None)),
        }
    }

    /// Whether the sandbox answers at all.
    async fn probe(&self) -> bool {
        let limit = PROBE.min(self.idle / 2);
        let ping = Operation::get("ping", route::PING).once().timeout(limit);
        matches!(timeout(limit, self.sandbox.send(ping)).await, Ok(Ok(_)))
    }

    fn output(&mut self, stream: LogStream, text: Bytes, end: Option<u64>) -> Result<(), Error> {
        let told = self.told.of(stream);
        let come = self.come.of(stream);
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let end = end.unwrap_or_else(|| told.saturating_add(length));
        let count = end.checked_sub(told).ok_or_else(|| {
            self.nonsense(format!(
                "the offset of {stream} goes back from {told} to {end}"
            ))
        })?;
        self.told.advance(stream, end);
        if count > length || (told < come && come < end) {
            // Text is never shorter than what it stands for, so some of it was not told; or some
            // of it was read from the log for such a reason before.
            self.skipped(stream, end)?;
        } else if told < come {
            // All of it was.
        } else if self.settled.of(stream) < come {
            self.todo = Some(Todo::Mend { stream, text, end });
        } else {
            self.settle(stream, text, end);
        }
        Ok(())
    }

    /// Makes output ready that begins where the settled one ends.
    fn settle(&mut self, stream: LogStream, mut text: Bytes, end: u64) {
        let start = self.settled.of(stream);
        self.come.advance(stream, end);
        let held = match self.fruitless < FRUITLESS && self.exec_id.is_some() {
            true => border::suspicious(&text, end.saturating_sub(start)),
            false => 0,
        };
        text.truncate(border::without_last(text.len(), held));
        let end = end.saturating_sub(u64::try_from(held).unwrap_or_default());
        self.settled.advance(stream, end);
        if !text.is_empty() {
            self.ready.push_back(StreamEvent::Output(Chunk {
                stream,
                lossy: u64::try_from(text.len()).ok() != end.checked_sub(start),
                bytes: text,
                start,
                end,
            }));
        }
    }

    /// Puts a character together that was cut at the border to this text. Where the log does not
    /// help, its halves stay replaced.
    async fn mend(&mut self, stream: LogStream, text: Bytes, end: u64) {
        let held = self.held(stream);
        let log = self.page(stream, self.settled.of(stream)).await;
        let mended = log.and_then(|page| border::mend(held, &text, &page.data));
        let (text, mended) = mended.unwrap_or_else(|| {
            (
                [border::replacements(held).as_bytes(), &text].concat(),
                false,
            )
        });
        self.fruitless = if mended { 0 } else { self.fruitless + 1 };
        self.settle(stream, text.into(), end);
    }

    fn held(&self, stream: LogStream) -> usize {
        let held = self.come.of(stream).saturating_sub(self.settled.of(stream));
        usize::try_from(held).unwrap_or_default()
    }

    async fn page(&self, stream: LogStream, offset: u64) -> Option<LogPage> {
        let part = Logs::new().stream(stream).offset(offset).max_bytes(WINDOW);
        let operation = part.operation(self.exec_id.as_ref()?);
        self.sandbox.send(operation).await.ok()?.json().ok()
    }

    /// Has what the stream lacks of an output read from the log, up to `end`.
    fn skipped(&mut self, stream: LogStream, end: u64) -> Result<(), Error> {
        let Some(exec_id) = self.exec_id.clone() else {
            return Err(self.nonsense(format!("{stream} has a gap before {end}")));
        };
        let (sandbox, from) = (self.sandbox.clone(), self.settled.of(stream));
        let log = PageReader::new(sandbox, exec_id, stream, from, PATIENCE);
        self.gap = Some(Box::new((log, end)));
        Ok(())
    }

    async fn fill(&mut self, mut gap: Box<(PageReader, u64)>) -> Result<(), Error> {
        let (log, end) = &mut *gap;
        let chunk = match log.next().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => {
                let problem = format!("the log ends at {}, before {end}", log.offset());
                return Err(self.nonsense(problem));
            }
            Err(error) => return Err(self.interrupted(error, None)),
        };
        let stream = chunk.stream;
        self.settled.advance(stream, chunk.end);
        self.come.advance(stream, chunk.end);
        if chunk.end < *end {
            self.gap = Some(gap);
        }
        self.ready.push_back(StreamEvent::Output(chunk));
        Ok(())
    }

    /// Compares what was told with the service's record, and has what is missing read.
    ///
    /// A service that reads the output one more time at the end can have told only a part of what
    /// the command wrote last, while its log has all of it.
    fn close(
        &mut self,
        completion: Completion,
        record: Option<Box<ExecStatus>>,
    ) -> Result<(), Error> {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let written = record.as_ref().map_or(0, |record| record.bytes(stream));
            if written > self.come.of(stream) {
                self.skipped(stream, written)?;
                self.todo = Some(Todo::Close { completion, record });
                return Ok(());
            }
        }
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let held = self.held(stream);
            if held > 0 {
                // No more comes: it was no character.
                self.fruitless = FRUITLESS;
                let text = border::replacements(held).into();
                self.settle(stream, text, self.come.of(stream));
            }
        }
        // The connection can be used again where the answer was read to its end.
        let _end = self.answer.chunk().now_or_never();
        self.ready.push_back(StreamEvent::Complete(completion));
        self.complete = true;
        Ok(())
    }

    async fn status(&self) -> Option<ExecStatus> {
        let operation = record(self.exec_id.as_ref()?);
        self.sandbox.send(operation).await.ok()?.json().ok()
    }

    fn broken(&self, problem: impl Into<String>) -> Error {
        self.interrupted(self.answer.broken(problem).into(), None)
    }

    fn nonsense(&self, problem: String) -> Error {
        let operation = self.answer.operation();
        let source = Error::Protocol { operation, problem };
        self.interrupted(source, None)
    }

    fn interrupted(&self, source: Error, sandbox_answers: Option<bool>) -> Error {
        Error::Interrupted(Box::new(Interrupted {
            exec_id: self.exec_id.clone(),
            cursor: self.settled,
            sandbox_answers,
            source,
            only_read: false,
        }))
    }
}
