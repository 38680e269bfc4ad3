//! A command that is executed once and told whole, whatever is lost on the way.

use std::time::Duration;

use polyaxon_client::{Effect, Error as ClientError, InvalidInput, RunUuid};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::background::LogStream;
use super::bg::BgExec;
use super::calls::Process;
use super::cursor::Cursor;
use super::exec::Exec;
use super::id::ExecId;
use super::result::ExecResult;
use super::stream::ExecEvents;
use super::stream::collect::Collector;
use super::stream::event::{Completion, StreamEvent};
use crate::error::Error;

/// How long the sandbox may be out of reach.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a command is looked for whose start was not answered. One that was received is there
/// within milliseconds.
const SETTLE: Duration = Duration::from_secs(1);

/// What is kept of a durable exec to go on with it after a restart of the caller: by which name it
/// is found, and how far its output was given out. It holds neither the command nor any secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DurableHandle {
    /// The sandbox that it is in.
    pub run: RunUuid,
    /// The tag, by which it is found where its id is not known.
    pub tag: String,
    /// Its id, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<ExecId>,
    /// How far its output was given out.
    #[serde(default)]
    pub cursor: Cursor,
}

/// A command in the background that is executed once, and whose output is given out without a gap
/// and without a repetition: over lost answers, lost connections, and restarts of the caller.
///
/// It is a background exec with a tag that nobody else uses. Where the answer to its start is lost,
/// it is looked for by that tag; it is started again only where the service surely refuses to
/// start it twice, which is found out with two `true` of another tag. Its output is read by pages
/// from an offset on, so that nothing depends on one connection.
///
/// The service's time limit holds for it too: 30 s by default and 300 s at most are known. Where
/// the service is restarted, the command may be lost: [`Error::EndUnknown`].
///
/// # Examples
/// ```
/// use polyaxon_sandbox::process::{DurableHandle, StreamEvent};
/// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = SandboxSpec::image("i");
/// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
/// let process = sandbox.process();
/// let exec = Exec::shell("echo one; sleep 0.2; echo two");
/// let mut durable = process.durable(&exec);
/// let before = serde_json::to_string(durable.handle())?; // kept before anything is sent
/// let Some(StreamEvent::Output(first)) = durable.next().await.transpose()? else {
///     unreachable!("it writes before it ends")
/// };
/// assert_eq!(first.text(), "one\n");
/// let after = serde_json::to_string(durable.handle())?;
/// drop(durable); // the caller ends here, and begins anew
///
/// let handle: DurableHandle = serde_json::from_str(&after)?;
/// let rest = process.reattach(handle)?.collect(1 << 20).await?;
/// assert_eq!(rest.stdout.text()?, "two\n");
/// // Its record was deleted with that: with the older handle it would not be found.
/// assert!(process.list().await?.is_empty());
/// # assert_ne!(before, after);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it is not started before it is read or `start` is called"]
pub struct Durable {
    process: Process,
    exec: Option<Exec>,
    handle: DurableHandle,
    /// Whether a start may have been sent.
    sent: bool,
    keep: bool,
    patience: Duration,
    events: Option<ExecEvents>,
    completion: Option<Completion>,
    /// What was collected, while the record is being deleted.
    collected: Option<ExecResult>,
}

impl Process {
    /// Prepares a command to be executed once, and its output to be told whole, whatever is lost on
    /// the way. Nothing is sent so far: [`Durable::handle`] can be kept first.
    ///
    /// A [`tag`](Exec::tag) of the command's own is used; then it has to be of this one piece of
    /// work, and a command that has it already is taken for the one that was meant.
    pub fn durable(&self, exec: &Exec) -> Durable {
        let tag = exec.tag_text().map_or_else(unique_tag, str::to_owned);
        let handle = DurableHandle {
            run: self.sandbox.run_uuid(),
            tag,
            exec_id: None,
            cursor: Cursor::default(),
        };
        // Only the caller knows whether a tag of its own was used before.
        let sent = exec.tag_text().is_some();
        Durable::new(self.clone(), handle, sent).or_start(exec)
    }

    /// Goes on with a durable exec where its handle says. Nothing is sent so far.
    ///
    /// # Errors
    /// Where the handle is of another sandbox.
    pub fn reattach(&self, handle: DurableHandle) -> Result<Durable, InvalidInput> {
        let run = self.sandbox.run_uuid();
        if handle.run != run {
            let problem = format!("is of run {}, and this is run {run}", handle.run);
            return Err(InvalidInput::new("handle", problem));
        }
        Ok(Durable::new(self.clone(), handle, true))
    }
}

impl Durable {
    fn new(process: Process, handle: DurableHandle, sent: bool) -> Self {
        Self {
            process,
            exec: None,
            handle,
            sent,
            keep: false,
            patience: PATIENCE,
            events: None,
            completion: None,
            collected: None,
        }
    }

    /// Starts this command where none is found: for a handle that was kept before the start.
    pub fn or_start(mut self, exec: &Exec) -> Self {
        self.exec = Some(exec.clone().tag(self.handle.tag.as_str()));
        self
    }

    /// Keeps the service's record, which [`collect`](Self::collect) deletes otherwise.
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// How long the sandbox may be out of reach before that is an error. Default: 2 minutes. It can
    /// be gone on with after the error, too.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What to keep, to go on from here: [`Process::reattach`]. It changes with each event.
    #[must_use]
    pub fn handle(&self) -> &DurableHandle {
        &self.handle
    }

    /// How the command ended, once that was given out.
    #[must_use]
    pub fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    /// Starts the command, or finds it where it was started. Does nothing where that is done.
    ///
    /// # Errors
    /// As [`exec_bg`](Process::exec_bg). Where the effect is unknown, the command was not found, and
    /// it could not be sent again because the service does not mind whether tags are unique; it can
    /// be called again, and looks first. [`Error::NotStarted`] where there is none, and no command
    /// to start.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the command was started. Called again it finds it.
    pub async fn start(&mut self) -> Result<BgExec, Error> {
        if let Some(exec_id) = &self.handle.exec_id {
            return Ok(self.process.bg(exec_id.clone()));
        }
        let exec_id = self.started().await?;
        self.handle.exec_id = Some(exec_id.clone());
        Ok(self.process.bg(exec_id))
    }

    async fn started(&mut self) -> Result<ExecId, Error> {
        if self.sent
            && let Some(exec_id) = self.seeker().find().await?
        {
            return Ok(exec_id);
        }
        let Some(exec) = self.exec.clone() else {
            let tag = self.handle.tag.clone();
            return Err(Error::NotStarted { tag });
        };
        let began = Instant::now();
        // The first failure of which nobody knows whether it has started the command. What comes
        // after it says nothing of it, so it is the error in the end.
        let mut unknown = None;
        loop {
            self.sent = true;
            let error = match self.process.start(&exec).await {
                Ok(started) => return Ok(started.exec_id),
                Err(error) => error,
            };
            if error.service_status() == Some(409) {
                // It has the tag already, so it is the one that was meant.
                if let Some(exec_id) = existing(&error) {
                    return Ok(exec_id);
                }
                let found = self.seeker().find().await;
                return found
                    .and_then(|found| found.ok_or(error))
                    .map_err(|error| unknown.unwrap_or(error));
            }
            let is_over = began.elapsed() > self.patience;
            if error.effect() == Effect::NotApplied {
                if is_over || !error.is_retryable() {
                    return Err(unknown.unwrap_or(error));
                }
            } else {
                match self.seeker().settled().await {
                    Ok(Some(exec_id)) => return Ok(exec_id),
                    Ok(None) if !is_over && self.seeker().tags_are_unique().await => {}
                    Ok(None) | Err(_) => return Err(unknown.unwrap_or(error)),
                }
                unknown.get_or_insert(error);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn seeker(&self) -> Seeker<'_> {
        Seeker {
            process: &self.process,
            tag: &self.handle.tag,
            patience: self.patience,
        }
    }

    /// What the command does, from the handle's cursor on; it is started where it is not. `None`
    /// behind [`StreamEvent::Complete`]. [`StreamEvent::Started`] is not given out.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`BgExec::follow`]. Other than a stream it can be read on after
    /// an error: it goes on where it was.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        if self.completion.is_some() {
            return None;
        }
        let event = match self.event().await {
            Ok(event) => event?,
            Err(error) => {
                self.events = None;
                return Some(Err(error));
            }
        };
        match &event {
            StreamEvent::Output(chunk) => self.handle.cursor.advance(chunk.stream, chunk.end),
            StreamEvent::Complete(completion) => self.completion = Some(completion.clone()),
            _ => {}
        }
        Some(Ok(event))
    }

    async fn event(&mut self) -> Result<Option<StreamEvent>, Error> {
        if self.events.is_none() {
            let exec = self.start().await?;
            let both = [LogStream::Stdout, LogStream::Stderr];
            self.events = Some(exec.followed_for(&both, self.handle.cursor, self.patience));
        }
        match &mut self.events {
            Some(events) => events.next().await.transpose(),
            None => Ok(None),
        }
    }

    /// Executes the command to its end, or goes on with it, and returns what it wrote behind the
    /// handle's cursor: up to `limit` bytes of each output. The service's record is deleted then,
    /// unless it is to be [kept](Self::keep).
    ///
    /// # Errors
    /// As [`next`](Self::next). The cursor is then where it was before, so that the call can be
    /// made again and nothing is missing.
    ///
    /// # Cancel safety
    /// Cancel safe: the command goes on, and the call can be made again.
    pub async fn collect(&mut self, limit: usize) -> Result<ExecResult, Error> {
        if self.collected.is_none() {
            self.collected = Some(self.read_on(limit).await?);
        }
        let exec = self.start().await?;
        if !self.keep
            && let Err(error) = exec.delete().await
        {
            // The result is worth more than the record.
            tracing::debug!(%error, exec_id = exec.id().as_str(), "a record is left");
        }
        self.collected.take().ok_or_else(no_end)
    }

    /// What comes behind the cursor, which moves only if all of it comes.
    async fn read_on(&mut self, limit: usize) -> Result<ExecResult, Error> {
        let before = self.handle.cursor;
        let ended = self.completion.clone();
        let mut back = Back {
            durable: self,
            to: Some((before, ended)),
        };
        let mut collector = Collector::new(limit);
        while let Some(event) = back.durable.next().await {
            if let StreamEvent::Output(chunk) = event? {
                collector.add(&chunk);
            }
        }
        let exec = back.durable.start().await?;
        let completion = back.durable.completion.clone().ok_or_else(no_end)?;
        back.to = None;
        Ok(collector.finish(exec.id().clone(), completion))
    }
}

/// Looks for the command.
struct Seeker<'a> {
    process: &'a Process,
    tag: &'a str,
    patience: Duration,
}

impl Seeker<'_> {
    /// The command by its tag.
    async fn find(&self) -> Result<Option<ExecId>, Error> {
        let began = Instant::now();
        loop {
            match self.process.list_tagged(self.tag).await {
                // The oldest: a service that does not mind can have several.
                Ok(found) => return Ok(found.into_iter().next().map(|exec| exec.exec_id)),
                Err(error) if error.is_retryable() && began.elapsed() < self.patience => {
                    sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The command by its tag, waited for as long as it can take to appear.
    async fn settled(&self) -> Result<Option<ExecId>, Error> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let found = self.find().await?;
            if found.is_some() || Instant::now() >= deadline {
                return Ok(found);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the service refuses a tag that is taken. Found out with a command that does nothing.
    async fn tags_are_unique(&self) -> bool {
        let nothing = Exec::new(["true"]).tag(unique_tag());
        let Ok(first) = self.process.exec_bg(&nothing).await else {
            return false;
        };
        let second = self.process.exec_bg(&nothing).await;
        let is_refused = matches!(&second, Err(error) if error.service_status() == Some(409));
        for probe in std::iter::once(first).chain(second) {
            // What stays of it does no harm.
            let _deleted = probe.delete().await;
        }
        is_refused
    }
}

fn no_end() -> Error {
    Error::Protocol {
        operation: "process.logs",
        problem: "the output ended, and the end of the command was not told".to_owned(),
    }
}

/// Puts the cursor back, unless all went well.
struct Back<'a> {
    durable: &'a mut Durable,
    to: Option<(Cursor, Option<Completion>)>,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        if let Some((cursor, completion)) = self.to.take() {
            self.durable.handle.cursor = cursor;
            self.durable.completion = completion;
            self.durable.events = None;
        }
    }
}

/// The id that a refusal names.
fn existing(error: &Error) -> Option<ExecId> {
    let Some(ClientError::Api(answer)) = error.as_client() else {
        return None;
    };
    let id = answer.details()?.get("existing_id")?.as_str()?;
    (!id.is_empty()).then(|| ExecId::from(id))
}

fn unique_tag() -> String {
    format!("durable-{}", uuid::Uuid::new_v4().simple())
}
