//! The calls on processes.

use std::time::Duration;

use polyaxon_client::InvalidInput;
use polyaxon_client::transport::Operation;

use super::background::{ExecList, ExecStarted, ExecStatus, LogStream};
use super::bg::BgExec;
use super::exec::Exec;
use super::id::ExecId;
use super::result::ExecResult;
use super::stream::event::Chunk;
use super::stream::{ExecEvents, Streaming};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::resolve::Lookup;
use crate::wire::{ExecAnswer, route};

/// The longest time limit that the service is known to take, and so the one that a command
/// without a limit of its own can have. Not confirmed for the service that is shipped.
const LONGEST_KNOWN: Duration = Duration::from_secs(300);
/// What starting, collecting and the way there and back may take on top.
const MARGIN: Duration = Duration::from_secs(30);
/// How much of each output `exec_with` keeps: as much as the service does for `exec`.
const KEPT: usize = 1 << 20;

/// The processes of a sandbox. A handle, cheap to clone.
///
/// | call | the command ends with its caller | output | its answer is lost |
/// |---|---|---|---|
/// | [`exec`](Self::exec) | yes | the first 1 MiB of each | unknown what it did |
/// | [`exec_stream`](Self::exec_stream), [`exec_with`](Self::exec_with) | no | all, as it comes | can be followed from there, once it has an id |
/// | [`exec_bg`](Self::exec_bg) | no | all, by pages | found by its tag |
/// | [`durable`](Self::durable) | no | all, as it comes | nothing is lost |
///
/// The service kills a command at its time limit, in the background too. The limits that are known
/// are 30 s by default and 300 s at most; they are not confirmed for the service that is shipped.
/// Nothing is clamped here: what the service refuses is an error with its own words.
#[derive(Clone, Debug)]
pub struct Process {
    pub(super) sandbox: SandboxClient,
}

impl Process {
    pub(crate) fn new(sandbox: SandboxClient) -> Self {
        Self { sandbox }
    }

    /// Executes a command and waits for its end.
    ///
    /// The client waits for the command's own time limit and half a minute more, so it is the
    /// service that ends a command that takes too long.
    ///
    /// The service keeps a record with the whole output until it is deleted or the sandbox ends.
    /// It is left there, as it is what [`full_output`](Self::full_output) reads, and to delete it
    /// takes a second request: [`bg`](Self::bg) with the result's id and
    /// [`delete`](BgExec::delete) do it.
    ///
    /// # Errors
    /// A command that ran and failed is a result, not an error. [`Error::Client`] says with
    /// [`effect`](Error::effect) whether the command ran: *not applied* where it was refused
    /// or could not start; *unknown* where the answer was lost. It is never sent twice when
    /// it may have run, and nothing on the wire can tell afterwards: where that matters use
    /// [`durable`](Self::durable).
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the service then ends the command (SIGTERM,
    /// and SIGKILL 5 s later).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use polyaxon_sandbox::process::Termination;
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let exec = Exec::new(["sh", "-c", "echo started; sleep 60"])
    ///     .timeout(Duration::from_millis(200));
    /// let result = sandbox.process().exec(&exec).await?;
    /// assert_eq!(result.termination, Termination::TimedOut);
    /// assert_eq!(result.stdout.text_lossy(), "started\n");
    /// // What was killed on the way is not parsed by mistake.
    /// assert!(result.stdout.text().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec(&self, exec: &Exec) -> Result<ExecResult, Error> {
        without_tag(exec)?;
        let operation = Operation::post("process.exec", route::EXEC)
            .json(exec)?
            .timeout(patience(exec));
        let answer: ExecAnswer = self.sandbox.send(operation).await?.json()?;
        ExecResult::from_answer(answer).map_err(|problem| Error::Protocol {
            operation: "process.exec",
            problem,
        })
    }

    /// Executes a command, hands what it writes to `on_output` as it comes, and waits for its end.
    /// The result keeps the first 1 MiB of each output, as [`exec`](Self::exec) does.
    ///
    /// # Errors
    /// As [`exec_stream`](Self::exec_stream) and its stream.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection. Other than with `exec` **the command goes on**
    /// until its time limit.
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
    /// let mut seen = String::new();
    /// let exec = Exec::shell("echo one; sleep 0.1; echo two");
    /// let result = sandbox.process().exec_with(&exec, |chunk| seen += &chunk.text()).await?;
    /// assert_eq!(seen, "one\ntwo\n");
    /// assert_eq!(result.ensure_success()?.stdout.text()?, seen);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec_with(
        &self,
        exec: &Exec,
        on_output: impl FnMut(&Chunk) + Send,
    ) -> Result<ExecResult, Error> {
        let events = self.exec_stream(exec).await?;
        events.collect_with(KEPT, on_output).await
    }

    /// Executes a command and gives out what it does as it does it.
    ///
    /// # Errors
    /// As [`exec`](Self::exec), up to the start of the stream. What comes later is said by the
    /// stream: see [`ExecEvents`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the command runs; it then goes on until its time
    /// limit. It can be found by [`list`](Self::list), but has no tag.
    pub async fn exec_stream(&self, exec: &Exec) -> Result<ExecEvents, Error> {
        self.exec_stream_with(exec, Streaming::new()).await
    }

    /// Executes a command and gives out what it does, as `how` says: see
    /// [`exec_stream`](Self::exec_stream).
    ///
    /// # Errors
    /// As [`exec_stream`](Self::exec_stream).
    ///
    /// # Cancel safety
    /// As [`exec_stream`](Self::exec_stream).
    pub async fn exec_stream_with(&self, exec: &Exec, how: Streaming) -> Result<ExecEvents, Error> {
        without_tag(exec)?;
        let command = exec.time_limit().map(|limit| limit.saturating_add(MARGIN));
        let operation = Operation::post("process.exec_stream", route::EXEC_STREAM)
            .json(exec)?
            .accept_events();
        let answer = self.sandbox.open(operation).await?;
        let limit = how.whole(command);
        Ok(ExecEvents::live(&self.sandbox, answer, &how, limit))
    }

    /// Starts a command that goes on by itself until its time limit, and returns as soon as it
    /// runs.
    ///
    /// # Errors
    /// As [`exec`](Self::exec); code `conflict` where the tag is taken. Where the effect is unknown
    /// and the command has a [`tag`](Exec::tag), [`resolve`](SandboxClient::resolve) finds out.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the command runs. With a tag it is found by
    /// [`list_tagged`](Self::list_tagged).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let exec = Exec::shell("echo done").tag("nightly");
    /// let started = sandbox.process().exec_bg(&exec).await?;
    /// let end = started.wait(Duration::from_secs(20)).await?;
    /// assert!(end.success());
    /// assert_eq!(started.output(1 << 20).await?.stdout.text()?, "done\n");
    /// started.delete().await?;
    /// assert!(sandbox.process().list_tagged("nightly").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec_bg(&self, exec: &Exec) -> Result<BgExec, Error> {
        let started = self.start(exec).await?;
        Ok(self.bg(started.exec_id))
    }

    pub(super) async fn start(&self, exec: &Exec) -> Result<ExecStarted, Error> {
        exec.check()?;
        let operation = Operation::post("process.exec_bg", route::EXEC_BG).json(exec)?;
        let started = async {
            let started: ExecStarted = self.sandbox.send(operation).await?.json()?;
            if started.exec_id.as_str().is_empty() {
                return Err(Error::Protocol {
                    operation: "process.exec_bg",
                    problem: "it has no exec_id".to_owned(),
                });
            }
            Ok(started)
        };
        started.await.map_err(|error: Error| match exec.tag_text() {
            Some(tag) if !tag.is_empty() => {
                let tag = tag.to_owned();
                error.uncertain(Lookup::StartedExec { tag })
            }
            _ => error,
        })
    }

    /// The exec with this id, of any kind. Nothing is sent, so nothing is checked: ask its
    /// [`status`](BgExec::status).
    #[must_use]
    pub fn bg(&self, exec_id: impl Into<ExecId>) -> BgExec {
        BgExec::new(self.sandbox.clone(), exec_id.into())
    }

    /// All the execs that the service has a record of, oldest first; those of
    /// [`exec`](Self::exec) and [`exec_stream`](Self::exec_stream) too.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list(&self) -> Result<Vec<ExecStatus>, Error> {
        self.listed(Operation::get("process.list", route::EXEC_BG))
            .await
    }

    /// The execs with this tag, oldest first. There is at most one where the service minds that
    /// tags are unique.
    ///
    /// # Errors
    /// [`Error::Client`]; code `invalid_request` for what cannot be a tag.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_tagged(&self, tag: &str) -> Result<Vec<ExecStatus>, Error> {
        let operation = Operation::get("process.list", route::EXEC_BG).query("tag", tag);
        let mut execs = self.listed(operation).await?;
        if !tag.is_empty() {
            // A service that does not know the parameter lists all of them.
            execs.retain(|exec| exec.tag.as_deref() == Some(tag));
        }
        Ok(execs)
    }

    async fn listed(&self, operation: Operation) -> Result<Vec<ExecStatus>, Error> {
        let list: ExecList = self.sandbox.send(operation).await?.json()?;
        Ok(list.execs)
    }

    /// The same result with the rest of what was cut, up to `limit` bytes of each output. It is
    /// read from the log, which the service keeps. Where nothing was cut, or the service has no log
    /// of it, the result comes back as it is; look at
    /// [`is_truncated`](super::Output::is_truncated).
    ///
    /// # Errors
    /// Where the log cannot be read.
    ///
    /// # Cancel safety
    /// Cancel safe.
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
    /// let result = sandbox.process().exec(&Exec::new(["seq", "400000"])).await?;
    /// assert!(result.stdout.is_truncated());
    /// let result = sandbox.process().full_output(result, 16 << 20).await?;
    /// assert!(result.stdout.text()?.ends_with("399999\n400000\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn full_output(&self, result: ExecResult, limit: usize) -> Result<ExecResult, Error> {
        let exec = self.bg(result.exec_id.clone());
        let stdout = exec.rest(LogStream::Stdout, result.stdout.clone(), limit);
        let stdout = stdout.await?;
        let stderr = exec.rest(LogStream::Stderr, result.stderr.clone(), limit);
        let stderr = stderr.await?;
        Ok(ExecResult {
            stdout,
            stderr,
            ..result
        })
    }
}

/// How long the end of a command is waited for. Longer than the service lets it run, so that it is
/// the service that gives up.
fn patience(exec: &Exec) -> Duration {
    let command = exec.time_limit().unwrap_or(LONGEST_KNOWN);
    command.saturating_add(MARGIN)
}

/// The service takes a tag for background execs only.
fn without_tag(exec: &Exec) -> Result<(), InvalidInput> {
    exec.check()?;
    match exec.tag_text() {
        None => Ok(()),
        Some(_) => Err(InvalidInput::new(
            "tag",
            "is for background execs: exec_bg and durable",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_waits_longer_than_the_command_may_run() {
        let plain = Exec::new(["true"]);
        assert_eq!(patience(&plain), Duration::from_secs(330));
        for limit in [
            Duration::from_millis(1),
            Duration::from_secs(3600),
            Duration::MAX,
        ] {
            let waits = patience(&plain.clone().timeout(limit));
            assert!(waits > limit || waits == Duration::MAX, "{limit:?}");
        }
    }
}
