//! All that a command wrote, put together.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::super::background::LogStream;
use super::super::id::ExecId;
use super::super::output::Output;
use super::super::result::ExecResult;
use super::ExecEvents;
use super::event::{Chunk, Completion, StreamEvent};
use crate::error::Error;

/// The output of a command up to a limit, while it comes.
#[derive(Debug)]
pub(crate) struct Collector {
    stdout: Kept,
    stderr: Kept,
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// What came in one piece is not copied.
    first: Bytes,
    more: BytesMut,
    truncated: bool,
    lossy: bool,
}

impl Collector {
    /// Keeps the first `limit` bytes of each output.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            stdout: Kept::default(),
            stderr: Kept::default(),
            limit,
        }
    }

    pub(crate) fn add(&mut self, chunk: &Chunk) {
        let limit = self.limit;
        let kept = self.of(chunk.stream);
        kept.lossy |= chunk.lossy;
        kept.add(&chunk.bytes, limit);
    }

    /// Keeps what was there before.
    pub(crate) fn keep(&mut self, stream: LogStream, bytes: &Bytes) {
        let limit = self.limit;
        self.of(stream).add(bytes, limit);
    }

    /// Whether more of this output is of no use.
    pub(crate) fn is_full(&mut self, stream: LogStream) -> bool {
        self.of(stream).truncated
    }

    /// One output, of which all was added that there is.
    pub(crate) fn output(&mut self, stream: LogStream, timed_out: bool) -> Output {
        std::mem::take(self.of(stream)).output(timed_out)
    }

    fn of(&mut self, stream: LogStream) -> &mut Kept {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }

    pub(crate) fn finish(self, exec_id: ExecId, completion: Completion) -> ExecResult {
        let Completion {
            termination,
            duration,
        } = completion;
        let timed_out = termination == super::super::result::Termination::TimedOut;
        ExecResult {
            exec_id,
            termination,
            stdout: self.stdout.output(timed_out),
            stderr: self.stderr.output(timed_out),
            duration,
        }
    }
}

impl Kept {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    fn add(&mut self, bytes: &Bytes, limit: usize) {
        let room = limit.saturating_sub(self.len());
        let size = if bytes.len() <= room && !self.truncated {
            bytes.len()
        } else {
            let room = if self.truncated { 0 } else { room };
            self.truncated = true;
            whole(bytes, room)
        };
        if size == 0 {
            return;
        }
        let bytes = bytes.slice(..size);
        if self.len() == 0 {
            self.first = bytes;
            return;
        }
        if self.more.is_empty() {
            self.more
                .extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.more.extend_from_slice(&bytes);
    }

    fn output(self, timed_out: bool) -> Output {
        let bytes = match self.more.is_empty() {
            true => self.first,
            false => self.more.freeze(),
        };
        Output::new(bytes, self.truncated, timed_out).with_lossy(self.lossy)
    }
}

/// How much of `bytes` can be kept of at most `room`, without a part of a character at its end.
fn whole(bytes: &[u8], room: usize) -> usize {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let room = room.min(bytes.len());
    (0..=room).rev().find(|&at| !is_inside(at)).unwrap_or(0)
}

impl ExecEvents {
    /// Follows the command to its end, and keeps the first `limit` bytes of each output.
    ///
    /// # Errors
    /// As the stream itself. What was written is not lost with it: the service keeps it, see
    /// [`BgExec::output`](super::super::BgExec::output).
    ///
    /// # Cancel safety
    /// Dropping the future drops the stream: see [`ExecEvents`].
    ///
    /// # Examples
    /// ```
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let exec = Exec::new(["seq", "100000"]);
    /// let result = sandbox.process().exec_stream(&exec).await?.collect(1000).await?;
    /// assert_eq!(result.stdout.bytes().len(), 1000);
    /// // What was cut is not taken for the whole by mistake.
    /// assert!(result.stdout.is_truncated() && result.stdout.text().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn collect(self, limit: usize) -> Result<ExecResult, Error> {
        self.collect_with(limit, |_chunk| {}).await
    }

    pub(crate) async fn collect_with(
        mut self,
        limit: usize,
        mut on_output: impl FnMut(&Chunk) + Send,
    ) -> Result<ExecResult, Error> {
        let mut collector = Collector::new(limit);
        while let Some(event) = self.next().await {
            if let StreamEvent::Output(chunk) = event? {
                on_output(&chunk);
                collector.add(&chunk);
            }
        }
        let completion = self.completion.take().ok_or_else(Self::no_end)?;
        let exec_id = self.exec_id.take().unwrap_or_default();
        Ok(collector.finish(exec_id, completion))
    }

    /// Follows the command to its end, and writes what it writes to these two as it comes. Both are
    /// flushed at the end.
    ///
    /// # Errors
    /// As the stream itself, and [`Error::Local`] where one of the two cannot be written; the
    /// stream can be read on then.
    ///
    /// # Cancel safety
    /// Not cancel safe: a piece can have been written in part.
    ///
    /// # Examples
    /// ```
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    /// let exec = Exec::shell("echo out; echo err >&2");
    /// let mut events = sandbox.process().exec_stream(&exec).await?;
    /// let end = events.copy_to(&mut stdout, &mut stderr).await?;
    /// assert!(end.success());
    /// assert_eq!((stdout, stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn copy_to<O, E>(
        &mut self,
        stdout: &mut O,
        stderr: &mut E,
    ) -> Result<Completion, Error>
    where
        O: AsyncWrite + Unpin + Send,
        E: AsyncWrite + Unpin + Send,
    {
        let unwritten = |stream: LogStream| {
            move |source| Error::Local {
                doing: format!("writing the {stream} of a command"),
                effect: polyaxon_client::Effect::Unknown,
                source,
            }
        };
        while let Some(event) = self.next().await {
            if let StreamEvent::Output(chunk) = event? {
                match chunk.stream {
                    LogStream::Stdout => stdout.write_all(&chunk.bytes).await,
                    LogStream::Stderr => stderr.write_all(&chunk.bytes).await,
                }
                .map_err(unwritten(chunk.stream))?;
            }
        }
        stdout.flush().await.map_err(unwritten(LogStream::Stdout))?;
        stderr.flush().await.map_err(unwritten(LogStream::Stderr))?;
        self.completion.clone().ok_or_else(Self::no_end)
    }

    fn no_end() -> Error {
        Error::Protocol {
            operation: "process.exec_stream",
            problem: "the stream was read before, and its end is not known".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::result::Termination;
    use super::*;

    fn collect(limit: usize, chunks: &[&'static str]) -> ExecResult {
        let mut collector = Collector::new(limit);
        for bytes in chunks {
            let (bytes, stream) = (Bytes::from_static(bytes.as_bytes()), LogStream::Stdout);
            collector.add(&Chunk {
                stream,
                bytes,
                start: 0,
                end: 0,
                lossy: false,
            });
        }
        collector.finish(
            ExecId::default(),
            Completion {
                termination: Termination::Exited(0),
                duration: Duration::ZERO,
            },
        )
    }

    #[test]
    fn what_is_beyond_the_limit_is_said_and_no_character_is_cut() {
        let table: [(usize, &[&str], &str, bool); 7] = [
            (5, &[], "", false),
            (5, &["abcde"], "abcde", false),
            (5, &["ab", "c", "de"], "abcde", false),
            (5, &["abc", "def"], "abcde", true),
            (5, &["abcdé", "x"], "abcd", true),
            (0, &["a"], "", true),
            (4, &["é", "漢", "a"], "é", true),
        ];
        for (limit, chunks, want, truncated) in table {
            let result = collect(limit, chunks);
            assert_eq!(result.stdout.bytes(), want, "{chunks:?}");
            assert_eq!(result.stdout.is_truncated(), truncated, "{chunks:?}");
        }
    }
}
