//! One call in its sandbox: its files, its command, and what that leaves.

use std::time::Duration;

use polyaxon_client::Effect;
use polyaxon_sandbox::fs::Mkdir;
use polyaxon_sandbox::process::BgExec;
use polyaxon_sandbox::{Error, Exec, ExecResult, SandboxClient};
use tokio::time::{Instant, sleep, timeout_at};

use super::contract::{Limits, ToolCommand};
use crate::ids::RequestId;
use crate::manifest::Tree;
use crate::path::RelPath;
use crate::private::Private;
use crate::workspace::{Precondition, SandboxWorkspace, Workspace as _, WorkspaceError};

/// How long after the deadline the end of a command is waited for. The service ends it at its
/// limit, and has to tell, also where its machine stood still for some seconds.
const GRACE: Duration = Duration::from_secs(10);
/// How long a command is looked for whose start was not answered. One that was received is there
/// within milliseconds.
const SETTLE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// A call in its sandbox.
#[derive(Debug)]
pub(super) struct Execution<'a> {
    pub(super) sandbox: &'a SandboxClient,
    pub(super) request_id: &'a RequestId,
    /// The tag of the command, and the name of the folder.
    pub(super) tag: &'a str,
    pub(super) limits: &'a Limits,
    pub(super) deadline: Instant,
    /// Whether to start the command twice does no harm.
    pub(super) repeatable: bool,
}

/// Why a command has no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Surely nothing was started.
    NotStarted(Private),
    /// It may have been.
    Unknown(Private),
}

/// Why a file of the command cannot be had.
#[derive(Debug)]
pub(super) enum Unfetched {
    /// It has more bytes than it may.
    TooLarge(u64),
    /// It is a link, a folder, or behind a link.
    NoFile(Private),
    /// The sandbox does not give it now.
    Unavailable(Private),
}

impl Execution<'_> {
    /// The command of this call, where it was started before.
    pub(super) async fn find(&self) -> Result<Option<BgExec>, Private> {
        let process = self.sandbox.process();
        match timeout_at(self.deadline + GRACE, process.list_tagged(self.tag)).await {
            // The oldest: a service that does not mind tags can have several.
            Ok(Ok(found)) => Ok(found
                .into_iter()
                .next()
                .map(|exec| process.bg(exec.exec_id))),
            Ok(Err(error)) => Err(Private::from_error(&error)),
            Err(_) => Err(Private::new("no answer within the deadline")),
        }
    }

    /// Puts the files into the folder of the call, which is empty before: an earlier try, of which
    /// no command was started, can have left parts of them.
    pub(super) async fn put(&self, files: &Tree) -> Result<(), Private> {
        let all = timeout_at(self.deadline, self.put_all(files)).await;
        all.unwrap_or_else(|_| Err(Private::new("no time left")))
    }

    async fn put_all(&self, files: &Tree) -> Result<(), Private> {
        let folder = self.folder();
        let fs = self.sandbox.fs();
        fs.rm_all(folder.as_str())
            .await
            .map_err(|error| Private::from_error(&error))?;
        fs.mkdir_with(folder.as_str(), Mkdir::new().parents())
            .await
            .map_err(|error| Private::from_error(&error))?;
        let workspace = self.workspace()?;
        for (path, file) in files.iter() {
            let put = workspace.put(self.request_id, path, file, Precondition::Absent);
            put.await.map_err(|error| private(&error))?;
        }
        Ok(())
    }

    /// Starts the command and waits for its end.
    pub(super) async fn run(&self, command: &ToolCommand) -> Result<ExecResult, Trouble> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return Err(Trouble::NotStarted(Private::new("no time left")));
        }
        let mut exec = Exec::new(command.argv.iter().cloned())
            .workdir(self.folder())
            .stdin(command.stdin.clone())
            .timeout(left)
            .tag(self.tag);
        for (name, value) in &command.env {
            exec = exec.env(name, value);
        }
        let started = timeout_at(self.deadline + GRACE, self.start(&exec)).await;
        let started = started.unwrap_or_else(|_| Err(no_answer()))?;
        self.end_of(&started).await
    }

    /// Starts the command, once. Where it may have been started, it is looked for; where it is not
    /// found, only one that does no harm is started again.
    async fn start(&self, exec: &Exec) -> Result<BgExec, Trouble> {
        let process = self.sandbox.process();
        let error = match process.exec_bg(exec).await {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        // The tag is taken by this very call, from an earlier try.
        let is_taken = error.status().is_some_and(|status| status.as_u16() == 409);
        if error.effect() == Effect::NotApplied && !is_taken {
            return Err(Trouble::NotStarted(Private::from_error(&error)));
        }
        if let Some(started) = self.settled().await? {
            return Ok(started);
        }
        if self.repeatable
            && let Ok(started) = process.exec_bg(exec).await
        {
            return Ok(started);
        }
        let found = self.find().await.map_err(Trouble::Unknown)?;
        found.ok_or_else(|| Trouble::Unknown(Private::from_error(&error)))
    }

    /// The command, waited for as long as it can take to appear.
    async fn settled(&self) -> Result<Option<BgExec>, Trouble> {
        let until = Instant::now() + SETTLE;
        loop {
            let found = self.find().await.map_err(Trouble::Unknown)?;
            if found.is_some() || Instant::now() >= until {
                return Ok(found);
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for the end of a command that was started, now or before.
    pub(super) async fn end_of(&self, exec: &BgExec) -> Result<ExecResult, Trouble> {
        let output = exec.output(self.limits.result_bytes);
        match timeout_at(self.deadline + GRACE, output).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(Trouble::Unknown(Private::from_error(&error))),
            Err(_) => Err(no_answer()),
        }
    }

    /// A file in the folder of the call, whole or not at all; `None` where there is none.
    pub(super) async fn fetch(
        &self,
        path: &RelPath,
        max: u64,
    ) -> Result<Option<Vec<u8>>, Unfetched> {
        let workspace = self.workspace().map_err(Unfetched::Unavailable)?;
        let got = timeout_at(self.deadline + GRACE, workspace.get(path, max)).await;
        match got {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(WorkspaceError::NotFound)) => Ok(None),
            Ok(Err(WorkspaceError::TooLarge(bytes))) => Err(Unfetched::TooLarge(bytes)),
            Ok(Err(WorkspaceError::Refused(detail))) => Err(Unfetched::NoFile(detail)),
            Ok(Err(error)) => Err(Unfetched::Unavailable(private(&error))),
            Err(_) => Err(Unfetched::Unavailable(Private::new("no time left"))),
        }
    }

    /// Removes what the call has left in the sandbox; also the service's record of the command,
    /// where nobody needs it any more.
    pub(super) async fn clean(&self, record: Option<&ExecResult>) -> Result<(), Error> {
        self.sandbox.fs().rm_all(self.folder().as_str()).await?;
        match record {
            Some(result) => {
                let exec = self.sandbox.process().bg(result.exec_id.clone());
                exec.delete().await
            }
            None => Ok(()),
        }
    }

    fn folder(&self) -> String {
        format!("/tmp/{}", self.tag)
    }

    /// The folder, with a look at every component of a path: a command can leave links.
    fn workspace(&self) -> Result<SandboxWorkspace, Private> {
        SandboxWorkspace::new(self.sandbox.clone(), self.tag)
            .map_err(|error| Private::from_error(&error))
    }
}

fn no_answer() -> Trouble {
    Trouble::Unknown(Private::new("no answer within the deadline"))
}

/// The detail of an error, which does not show it by itself.
fn private(error: &WorkspaceError) -> Private {
    match error {
        WorkspaceError::Refused(detail)
        | WorkspaceError::Failed(detail)
        | WorkspaceError::Uncertain(detail)
        | WorkspaceError::Gone(detail) => Private::new(format!("{error}: {}", detail.reveal())),
        WorkspaceError::NotFound | WorkspaceError::Conflict(_) | WorkspaceError::TooLarge(_) => {
            Private::from_error(error)
        }
    }
}
