//! A background exec, as its caller holds it.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use polyaxon_client::Effect;
use polyaxon_client::transport::Operation;
use tokio::time::{Instant, sleep, timeout};

use super::background::{ExecState, ExecStatus, LogPage, LogStream};
use super::cursor::Cursor;
use super::id::ExecId;
use super::interrupted::Interrupted;
use super::logs::{self, Logs, PageReader};
use super::output::Output;
use super::result::ExecResult;
use super::signal::Signal;
use super::stream::ExecEvents;
use super::stream::collect::Collector;
use super::stream::event::{Completion, StreamEvent};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::resolve::Lookup;
use crate::wire::{SignalRequest, route, segment};

/// How long the log may fail in a row while it is followed.
const PATIENCE: Duration = Duration::from_secs(60);
/// An offset that no output reaches: a request that follows from there is answered at the end.
const NEVER: u64 = 1 << 53;
/// How long a request that waits for the end may be held.
const HELD: Duration = Duration::from_secs(60);
/// An answer that came sooner was not waited for.
const AT_ONCE: Duration = Duration::from_millis(500);
/// The pauses between two questions of a service that does not wait.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the service takes to end what is deleted: SIGTERM, and SIGKILL 5 s later.
const DELETE_LIMIT: Duration = Duration::from_secs(60);

/// An exec that the service has a record of: one in the background, or any other by its id. A
/// handle, cheap to clone; its [`id`](Self::id) can be kept and made a handle again by
/// [`bg`](super::Process::bg).
///
/// Dropping it does nothing to the command. Its record and output stay until
/// [`delete`](Self::delete), or the end of the sandbox.
#[derive(Clone, Debug)]
pub struct BgExec {
    sandbox: SandboxClient,
    exec_id: ExecId,
}

impl BgExec {
    pub(super) fn new(sandbox: SandboxClient, exec_id: ExecId) -> Self {
        Self { sandbox, exec_id }
    }

    /// The id of the record.
    #[must_use]
    pub fn id(&self) -> &ExecId {
        &self.exec_id
    }

    /// The record as it is now.
    ///
    /// # Errors
    /// Code `not_found` where there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn status(&self) -> Result<ExecStatus, Error> {
        let operation = logs::record(&self.exec_id);
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    /// The record, asked for again while the service fails in a way that can pass.
    async fn status_within(&self, patience: Duration) -> Result<ExecStatus, Error> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            match self.status().await {
                Err(error) if error.is_retryable() && started.elapsed() + pause < patience => {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                status => return status,
            }
        }
    }

    /// One page of the log as it is now. [`follow`](Self::follow) reads all of it.
    ///
    /// # Errors
    /// Code `not_found` where there is no record.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn logs(&self, part: Logs) -> Result<LogPage, Error> {
        let operation = part.operation(&self.exec_id);
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    /// What the command writes to one output, from its start to its end: what is there already,
    /// and then what comes. [`StreamEvent::Started`] is not given out.
    ///
    /// The service is asked to hold each request until there is something to say; one that cannot
    /// is asked again and again, at first after 5 ms, then up to once a second. Requests that fail
    /// in a way that can pass are repeated for a minute.
    ///
    /// # Errors
    /// [`Error::Interrupted`] with how far the output was given out;
    /// [`follow_from`](Self::follow_from) goes on from there. The command is not affected: its end
    /// is told by [`wait`](Self::wait) all the same.
    pub fn follow(&self, stream: LogStream) -> ExecEvents {
        self.followed(&[stream], Cursor::default())
    }

    /// What the command writes to both outputs, as [`follow`](Self::follow).
    ///
    /// # Examples
    /// ```
    /// use polyaxon_sandbox::process::{Cursor, StreamEvent};
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let exec = sandbox.process().exec_bg(&Exec::shell("echo one; sleep 0.2; echo two")).await?;
    /// let mut events = exec.follow_both();
    /// let Some(StreamEvent::Output(first)) = events.next().await.transpose()? else {
    ///     unreachable!("it has not ended")
    /// };
    /// assert_eq!(first.text(), "one\n");
    /// // What is kept of it can go through a restart.
    /// let kept = serde_json::to_string(&(exec.id(), events.cursor()))?;
    /// drop(events);
    ///
    /// let (id, cursor): (String, Cursor) = serde_json::from_str(&kept)?;
    /// let rest = sandbox.process().bg(id).follow_from(cursor).collect(1 << 20).await?;
    /// assert_eq!(rest.stdout.text()?, "two\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_both(&self) -> ExecEvents {
        self.follow_from(Cursor::default())
    }

    /// What the command writes to both outputs behind `cursor`, as [`follow`](Self::follow).
    pub fn follow_from(&self, cursor: Cursor) -> ExecEvents {
        self.followed(&[LogStream::Stdout, LogStream::Stderr], cursor)
    }

    fn followed(&self, streams: &[LogStream], from: Cursor) -> ExecEvents {
        self.followed_for(streams, from, PATIENCE)
    }

    pub(super) fn followed_for(
        &self,
        streams: &[LogStream],
        from: Cursor,
        patience: Duration,
    ) -> ExecEvents {
        let logs = streams.iter().map(|&stream| {
            let (sandbox, exec_id) = (self.sandbox.clone(), self.exec_id.clone());
            let log = PageReader::new(sandbox, exec_id, stream, from.of(stream), patience);
            stream::try_unfold(log, async |mut log| {
                let chunk = log.next().await?;
                Ok(chunk.map(|chunk| (StreamEvent::Output(chunk), log)))
            })
            .boxed()
        });
        let exec = self.clone();
        let end = stream::once(async move {
            let status = exec.status_within(patience).await?;
            Ok(StreamEvent::Complete(Completion::of(&status)?))
        });
        let events = stream::select_all(logs).chain(end).boxed();
        let told = Interrupting {
            events,
            exec_id: self.exec_id.clone(),
            cursor: from,
        };
        let events = stream::unfold(told, async |mut told| {
            let event = told.next().await?;
            Some((event, told))
        });
        ExecEvents::log(&self.sandbox, self.exec_id.clone(), from, events.boxed())
    }

    /// All that the command has written and how it ended, once it has: up to `limit` bytes of each
    /// output.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    ///
    /// # Cancel safety
    /// Cancel safe: it can be asked again.
    pub async fn output(&self, limit: usize) -> Result<ExecResult, Error> {
        self.follow_both().collect(limit).await
    }

    /// Waits until the command has ended, for as long as `limit`.
    ///
    /// The status decides, so that a log that cannot be read does not matter. A state that is not
    /// known counts as the end only where the record says when that was.
    ///
    /// # Errors
    /// [`Error::StillRunning`] where the limit passes, with the last failure if there was one;
    /// [`Error::EndUnknown`] where the service does not know how the command ended; code
    /// `not_found` where there is no record.
    ///
    /// # Cancel safety
    /// Cancel safe: the command goes on, and can be waited for again.
    pub async fn wait(&self, limit: Duration) -> Result<Completion, Error> {
        Completion::of(&self.until_final(limit).await?)
    }

    async fn until_final(&self, limit: Duration) -> Result<ExecStatus, Error> {
        let started = Instant::now();
        let (mut waits, mut pause) = (true, SHORTEST_PAUSE);
        let mut last = (ExecState::Running, None);
        let mut noted = false;
        loop {
            match self.status().await {
                Ok(status) if status.is_final() => return Ok(status),
                Ok(status) => {
                    if let (ExecState::Other(word), false) = (&status.state, noted) {
                        tracing::warn!(
                            exec_id = self.exec_id.as_str(),
                            state = word.as_str(),
                            "a state that is not known, taken for not final"
                        );
                        noted = true;
                    }
                    last = (status.state, None);
                }
                Err(error) if error.is_retryable() => last.1 = Some(Box::new(error)),
                Err(error) => return Err(error),
            }
            let waited = started.elapsed();
            let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let (state, source) = last;
                return Err(Error::StillRunning {
                    exec_id: self.exec_id.clone(),
                    state,
                    waited,
                    source,
                });
            };
            if waits {
                waits = self.hold(left).await;
            } else {
                sleep(pause.min(left)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Has the service hold a request until the command ends. False where that is of no use.
    async fn hold(&self, left: Duration) -> bool {
        let asked = Instant::now();
        let limit = left.min(HELD);
        let operation = Logs::new()
            .stream(LogStream::Stdout)
            .offset(NEVER)
            .max_bytes(1)
            .operation(&self.exec_id)
            .query("follow", "true")
            .once()
            .timeout(HELD);
        match timeout(limit, self.sandbox.send(operation)).await {
            Ok(Ok(answer)) => match answer.json::<LogPage>() {
                Ok(page) => page.state.is_final() || asked.elapsed() >= AT_ONCE,
                Err(_) => false,
            },
            Ok(Err(_)) => false,
            // The caller's time is over, not the service's.
            Err(_) => true,
        }
    }

    /// Sends a signal to the process group of the command. Nothing happens where it has ended.
    ///
    /// # Errors
    /// Code `invalid_request` for a signal that the service does not send: it knows the seven that
    /// [`Signal`] names. Where the effect is unknown, [`resolve`](SandboxClient::resolve) can tell
    /// whether the signal ended the command. It is not sent again by itself: a command can count.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was sent.
    pub async fn signal(&self, signal: Signal) -> Result<(), Error> {
        let path = format!("{}/signal", self.path());
        let body = SignalRequest {
            signal: signal.as_str().to_owned(),
        };
        let operation = Operation::post("process.signal", path).json(&body)?;
        let sent = self.sandbox.send(operation).await;
        sent.map(drop).map_err(|error| {
            let exec_id = self.exec_id.clone();
            error.uncertain(Lookup::SignaledExec { exec_id, signal })
        })
    }

    /// Ends the command: SIGTERM, and SIGKILL where it has not ended within `grace`. Returns how it
    /// ended. The record stays.
    ///
    /// # Errors
    /// As [`signal`](Self::signal) and [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which signals were sent.
    pub async fn terminate(&self, grace: Duration) -> Result<Completion, Error> {
        self.end_with(Signal::Term).await?;
        match self.wait(grace).await {
            Err(Error::StillRunning { .. }) => {}
            ended => return ended,
        }
        self.end_with(Signal::Kill).await?;
        self.wait(Duration::from_secs(10)).await
    }

    /// Sends a signal that may be sent twice, as the command is to end anyway.
    async fn end_with(&self, signal: Signal) -> Result<(), Error> {
        match self.signal(signal.clone()).await {
            Err(error) if error.effect() == Effect::Unknown => self.signal(signal).await,
            sent => sent,
        }
    }

    /// Removes the record and the output. A command that runs is ended first: SIGTERM, and SIGKILL
    /// 5 s later. Returns when it is gone.
    ///
    /// Sent again where the answer is lost: an id is never used twice.
    ///
    /// # Errors
    /// Code `not_found` where there is no record. Where the effect is unknown even so,
    /// [`resolve`](SandboxClient::resolve) finds out.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is removed.
    pub async fn delete(&self) -> Result<(), Error> {
        let operation = Operation::delete("process.delete", self.path()).timeout(DELETE_LIMIT);
        let Err(error) = self.sandbox.send(operation.clone()).await else {
            return Ok(());
        };
        if error.effect() != Effect::Unknown {
            return Err(error);
        }
        match self.sandbox.send(operation).await {
            Ok(_) => Ok(()),
            // The first one has done it, or the record was not there: it is gone.
            Err(error) if error.service_status() == Some(404) => Ok(()),
            Err(_) => {
                let exec_id = self.exec_id.clone();
                Err(error.uncertain(Lookup::DeletedExec { exec_id }))
            }
        }
    }

    /// What was cut of an output, from its log.
    pub(super) async fn rest(
        &self,
        stream: LogStream,
        kept: Output,
        limit: usize,
    ) -> Result<Output, Error> {
        if !kept.is_truncated() || self.exec_id.as_str().is_empty() {
            return Ok(kept);
        }
        let mut collector = Collector::new(limit);
        // Where bytes were replaced, how many were kept is not known.
        let from = match kept.text_lossy().contains(char::REPLACEMENT_CHARACTER) {
            true => 0,
            false => {
                collector.keep(stream, kept.bytes());
                u64::try_from(kept.bytes().len()).unwrap_or(u64::MAX)
            }
        };
        let (sandbox, exec_id) = (self.sandbox.clone(), self.exec_id.clone());
        let mut log = PageReader::new(sandbox, exec_id, stream, from, PATIENCE);
        while !collector.is_full(stream) {
            match log.next().await {
                Ok(Some(chunk)) => collector.add(&chunk),
                Ok(None) => break,
                Err(error) if logs::is_absent(&error) => return Ok(kept),
                Err(error) => return Err(error),
            }
        }
        Ok(collector.output(stream, kept.was_timed_out()))
    }

    fn path(&self) -> String {
        format!("{}/{}", route::EXEC_BG, segment(self.exec_id.as_str()))
    }
}

/// Says in an error how far the output was given out.
struct Interrupting {
    events: stream::BoxStream<'static, Result<StreamEvent, Error>>,
    exec_id: ExecId,
    cursor: Cursor,
}

impl Interrupting {
    async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        Some(match self.events.next().await? {
            Ok(event) => {
                if let StreamEvent::Output(chunk) = &event {
                    self.cursor.advance(chunk.stream, chunk.end);
                }
                Ok(event)
            }
            // It says that itself, and is no failure to follow.
            Err(error @ Error::EndUnknown { .. }) => Err(error),
            Err(source) => Err(Error::Interrupted(Box::new(Interrupted {
                exec_id: Some(self.exec_id.clone()),
                cursor: self.cursor,
                sandbox_answers: None,
                source,
                only_read: true,
            }))),
        })
    }
}
