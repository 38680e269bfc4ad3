//! The log of an exec, page by page.

use std::time::Duration;

use bytes::Bytes;
use polyaxon_client::Error as ClientError;
use polyaxon_client::transport::Operation;
use tokio::time::{Instant, sleep};

use super::background::{ExecState, ExecStatus, LogPage, LogStream};
use super::id::ExecId;
use super::stream::border;
use super::stream::event::Chunk;
use crate::client::SandboxClient;
use crate::error::Error;
use crate::wire::{route, segment};

/// How much one page is asked for: the most that the service gives.
const PAGE: u64 = 1 << 20;
/// How long the service holds a request that follows, and what may come on top.
const FOLLOW_LIMIT: Duration = Duration::from_secs(60);
/// An empty answer that came sooner was not waited for.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Where a gateway gives up on a request that took so long, it was the waiting.
const TOO_LONG: Duration = Duration::from_secs(5);
/// The pauses between two questions of a service that does not follow.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Which part of a log. Default: standard output from its start, of the service's own size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a Logs does nothing until it is passed to `logs`"]
pub struct Logs {
    stream: Option<LogStream>,
    offset: Option<u64>,
    max_bytes: Option<u64>,
}

impl Logs {
    /// Standard output from its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which output.
    pub fn stream(mut self, stream: LogStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// From which byte of the output on. Default: 0.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// How many bytes at most. Default: the service's, which is 64 KiB; it gives 1 MiB at most.
    pub fn max_bytes(mut self, count: u64) -> Self {
        self.max_bytes = Some(count);
        self
    }

    pub(super) fn operation(self, exec_id: &ExecId) -> Operation {
        let path = format!("{}/{}/logs", route::EXEC_BG, segment(exec_id.as_str()));
        let mut operation = Operation::get("process.logs", path);
        if let Some(stream) = self.stream {
            operation = operation.query("stream", stream.as_str());
        }
        if let Some(offset) = self.offset {
            operation = operation.query("offset", offset.to_string());
        }
        if let Some(count) = self.max_bytes {
            operation = operation.query("max_bytes", count.to_string());
        }
        operation
    }
}

/// The record of an exec.
pub(super) fn record(exec_id: &ExecId) -> Operation {
    let path = format!("{}/{}", route::EXEC_BG, segment(exec_id.as_str()));
    Operation::get("process.get", path)
}

/// Reads one output of an exec from an offset on, to its end.
#[derive(Debug)]
pub(super) struct PageReader {
    sandbox: SandboxClient,
    exec_id: ExecId,
    stream: LogStream,
    offset: u64,
    /// Whether the service holds a request until there is something to say.
    follows: bool,
    /// How long it may fail in a row.
    patience: Duration,
    pause: Duration,
    ended: bool,
}

impl PageReader {
    pub(super) fn new(
        sandbox: SandboxClient,
        exec_id: ExecId,
        stream: LogStream,
        offset: u64,
        patience: Duration,
    ) -> Self {
        Self {
            sandbox,
            exec_id,
            stream,
            offset,
            follows: true,
            patience,
            pause: SHORTEST_PAUSE,
            ended: false,
        }
    }

    /// Where the next piece begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next piece; `None` where the command is over and all of it was read.
    ///
    /// A character that the service has cut in two at the end of a page is read again with the
    /// next one.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        while !self.ended {
            let page = self.ask().await?;
            let count = page
                .next_offset
                .checked_sub(self.offset)
                .ok_or_else(|| self.nonsense("goes back", page.next_offset))?;
            if count == 0 && !page.data.is_empty() {
                return Err(self.nonsense("stays, with data,", page.next_offset));
            }
            self.ended = page.eof && self.is_over(&page.state).await?;
            let mut text = Bytes::from(page.data);
            let suspicious = match self.ended {
                true => 0,
                false => border::suspicious(&text, count),
            };
            text.truncate(border::without_last(text.len(), suspicious));
            if text.is_empty() {
                // Nothing new, or the beginning of a character alone.
                let was_held = self.follows && suspicious == 0;
                if !self.ended && !was_held {
                    sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
                continue;
            }
            self.pause = SHORTEST_PAUSE;
            let held = u64::try_from(suspicious).unwrap_or_default();
            let (start, end) = (self.offset, page.next_offset.saturating_sub(held));
            self.offset = end;
            return Ok(Some(Chunk {
                stream: self.stream,
                lossy: u64::try_from(text.len()).ok() != end.checked_sub(start),
                bytes: text,
                start,
                end,
            }));
        }
        Ok(None)
    }

    /// Whether an exec in this state, whose log has nothing more now, is over.
    async fn is_over(&self, state: &ExecState) -> Result<bool, Error> {
        match state {
            // A page does not say whether that is an end, a record does.
            ExecState::Other(_) => {
                let answer = self.sandbox.send(record(&self.exec_id)).await?;
                Ok(answer.json::<ExecStatus>()?.is_final())
            }
            state => Ok(state.is_final()),
        }
    }

    /// One page, asked for again while the service fails in a way that can pass.
    async fn ask(&mut self) -> Result<LogPage, Error> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            let asked = Instant::now();
            let error = match self.ask_once().await {
                Ok(page) => {
                    let empty = page.data.is_empty() && !(page.eof && page.state.is_final());
                    if empty && asked.elapsed() < AT_ONCE {
                        self.follows = false;
                    }
                    return Ok(page);
                }
                Err(error) => error,
            };
            let status = error.as_client().and_then(ClientError::status);
            let status = status.map_or(0, |status| status.as_u16());
            if self.follows && (matches!(status, 400 | 404) || asked.elapsed() > TOO_LONG) {
                // A service that does not know the parameter, or a gateway that does not wait.
                self.follows = false;
                continue;
            }
            let asked_for = match error.as_client() {
                Some(ClientError::Api(answer)) => answer.retry_after().unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let wait = pause.max(asked_for);
            if !error.is_retryable() || started.elapsed() + wait > self.patience {
                return Err(error);
            }
            sleep(wait).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    async fn ask_once(&self) -> Result<LogPage, Error> {
        let part = Logs::new()
            .stream(self.stream)
            .offset(self.offset)
            .max_bytes(PAGE);
        let mut operation = part.operation(&self.exec_id).once();
        if self.follows {
            operation = operation.query("follow", "true").timeout(FOLLOW_LIMIT);
        }
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    fn nonsense(&self, what: &str, next: u64) -> Error {
        let (stream, offset) = (self.stream, self.offset);
        Error::Protocol {
            operation: "process.logs",
            problem: format!("the offset of {stream} {what} from {offset} to {next}"),
        }
    }
}

/// Whether an error says that there is no such record or log, so that there is no use in asking.
pub(super) fn is_absent(error: &Error) -> bool {
    matches!(error.service_status(), Some(400 | 404 | 405 | 501))
}
