//! Commands in a sandbox: started once under a name, and found again by it.

use std::sync::PoisonError;
use std::time::Duration;

use polyaxon_sandbox::process::{
    BgExec, Completion, ExecState, LogStream, Logs, Signal, Termination,
};
use polyaxon_sandbox::{Error, Exec};
use tokio::time::{Instant, sleep};

use super::SandboxWorkspace;
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::private::Private;
use crate::workspace::{ExecReceipt, ExecSpec, Lookup, WorkspaceError};

/// The longest tag that services take.
const LONGEST_TAG: usize = 128;
/// How long the service may be out of reach while a command is started.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much longer than its limit the end of a command is waited for.
const END_MARGIN: Duration = Duration::from_secs(10);
/// How long a command can be on its way to the service.
const SETTLE: Duration = Duration::from_secs(1);
/// How long to wait between two questions after a command that another call started.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How much of a log one request reads.
const PAGE: u64 = 1 << 20;

impl SandboxWorkspace {
    /// The command's name in the service, the same in each call: two workspaces of one sandbox can
    /// have commands of the same id.
    fn tag(&self, id: &RequestId) -> String {
        let tag = format!("{}:{id}:{}", self.name, self.mark);
        match tag.len() <= LONGEST_TAG {
            true => tag,
            false => Digest::of(tag.as_bytes()).to_string(),
        }
    }

    pub(super) async fn run(
        &self,
        id: &RequestId,
        spec: &ExecSpec,
    ) -> Result<ExecReceipt, WorkspaceError> {
        if !self.is_first(id) {
            return self.await_other(id, spec).await;
        }
        let dir = match &spec.dir {
            Some(dir) => self.absolute(dir.as_str())?,
            None => self.root.clone(),
        };
        let argv = self.isolation.iter().flat_map(|user| user.prefix());
        let mut exec = Exec::new(argv.chain(spec.argv.iter().cloned()))
            .workdir(dir.as_str())
            .stdin(spec.stdin.clone())
            .timeout(spec.limit)
            .tag(self.tag(id));
        for (name, value) in &spec.env {
            exec = exec.env(name, value);
        }
        let mut durable = self.sandbox.process().durable(&exec).patience(PATIENCE);
        let started = self.answered(durable.start().await);
        let exec = started.map_err(|error| self.write_failed(&error))?;
        self.note_running(Some(exec.clone()));
        let ended = self.until_ended(&exec, spec.limit.saturating_add(END_MARGIN));
        let completion = ended.await.map_err(|error| lost(&error))?;
        self.note_running(None);
        self.ended(&exec, &completion, spec.keep_bytes).await
    }

    /// Waits for the end of a command, and not on for a service that is out of reach.
    async fn until_ended(&self, exec: &BgExec, limit: Duration) -> Result<Completion, Error> {
        let until = Instant::now() + limit;
        let mut unreachable = 0;
        loop {
            match self.answered(exec.wait(PATIENCE).await) {
                Err(Error::StillRunning { source: None, .. }) if Instant::now() < until => {
                    unreachable = 0;
                }
                Err(Error::StillRunning {
                    source: Some(_), ..
                }) if unreachable < 2 && Instant::now() < until => unreachable += 1,
                ended => return ended,
            }
        }
    }

    /// What a command that has ended came to.
    async fn ended(
        &self,
        exec: &BgExec,
        completion: &Completion,
        keep: usize,
    ) -> Result<ExecReceipt, WorkspaceError> {
        if let Some(user) = &self.isolation {
            // What it left running could change files after the list of them was made.
            user.end_processes(&self.sandbox).await?;
        }
        let status = self
            .answered(exec.status().await)
            .map_err(|error| lost(&error))?;
        let (stdout, stderr) = (
            Kept::read(exec, LogStream::Stdout, status.stdout_bytes, keep),
            Kept::read(exec, LogStream::Stderr, status.stderr_bytes, keep),
        );
        let stdout = stdout.await.map_err(|error| lost(&error))?;
        let stderr = stderr.await.map_err(|error| lost(&error))?;
        let (exit_code, signal) = match &completion.termination {
            Termination::Exited(code) => (Some(*code), None),
            Termination::Signaled(signal) => (None, Some(signal.as_str().to_owned())),
            Termination::TimedOut => (None, Some(Signal::Kill.as_str().to_owned())),
        };
        Ok(ExecReceipt {
            exit_code,
            signal,
            timed_out: completion.termination == Termination::TimedOut,
            duration: completion.duration,
            queue: None,
            stdout_total: Some(stdout.total),
            stderr_total: Some(stderr.total),
            stdout_truncated: stdout.truncated,
            stderr_truncated: stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
            pipe_held: false,
        })
    }

    /// What became of the command that was started with `id`.
    pub(super) async fn find(&self, id: &RequestId, keep: usize) -> Result<Lookup, WorkspaceError> {
        let process = self.sandbox.process();
        let tag = self.tag(id);
        let mut listed = self.answered(process.list_tagged(&tag).await);
        if matches!(&listed, Ok(execs) if execs.is_empty()) {
            sleep(SETTLE).await;
            listed = self.answered(process.list_tagged(&tag).await);
        }
        let execs = listed.map_err(|error| self.read_failed(&error))?;
        let status = match execs.as_slice() {
            [] => return Ok(Lookup::NeverStarted),
            [status] => status,
            // It ran more than once: which of them is meant nobody knows.
            _ => return Ok(Lookup::Unknown),
        };
        if status.state == ExecState::FailedToStart {
            return Ok(Lookup::NeverStarted);
        }
        if !status.is_final() {
            return Ok(Lookup::Running);
        }
        let exec = process.bg(status.exec_id.clone());
        match self.answered(exec.wait(Duration::ZERO).await) {
            Ok(completion) => {
                let receipt = self.ended(&exec, &completion, keep).await?;
                Ok(Lookup::Finished(receipt))
            }
            Err(Error::EndUnknown { .. }) => Ok(Lookup::Unknown),
            Err(error) => Err(self.read_failed(&error)),
        }
    }

    /// Whether no call with this id was made before. Services differ in whether they start a
    /// command of the same name twice, so it is not left to them.
    fn is_first(&self, id: &RequestId) -> bool {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.insert(id.clone())
    }

    /// The end of a command that another call has started.
    async fn await_other(
        &self,
        id: &RequestId,
        spec: &ExecSpec,
    ) -> Result<ExecReceipt, WorkspaceError> {
        let until = Instant::now() + spec.limit.saturating_add(END_MARGIN);
        loop {
            match self.find(id, spec.keep_bytes).await? {
                Lookup::Finished(receipt) => return Ok(receipt),
                Lookup::Running | Lookup::NeverStarted if Instant::now() < until => {
                    sleep(LOOK_AGAIN).await;
                }
                _ => {
                    let detail = "another call with this id started it";
                    return Err(WorkspaceError::Uncertain(Private::new(detail)));
                }
            }
        }
    }

    fn note_running(&self, exec: Option<BgExec>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = exec;
    }

    /// Ends the command whose call was given up.
    pub(super) async fn end_running(&self) {
        let given_up = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(exec) = given_up
            && let Err(error) = exec.delete().await
        {
            // Its time limit ends it in any case.
            drop(error);
        }
    }
}

/// The command was started, and what became of it is not known here.
fn lost(error: &Error) -> WorkspaceError {
    WorkspaceError::Uncertain(Private::from_error(error))
}

/// The end of an output: it says how the command ended.
struct Kept {
    bytes: Vec<u8>,
    total: u64,
    truncated: bool,
}

impl Kept {
    async fn read(
        exec: &BgExec,
        stream: LogStream,
        total: u64,
        keep: usize,
    ) -> Result<Self, Error> {
        match Self::read_up_to(exec, stream, total, keep).await {
            Err(error) => match error.dropped_output() {
                // The end of what the service has kept, which can be nothing.
                Some(dropped) if dropped.stored_bytes < total => {
                    let bytes = match dropped.stored_bytes {
                        0 => Vec::new(),
                        end => Self::read_up_to(exec, stream, end, keep).await?.bytes,
                    };
                    Ok(Self {
                        bytes,
                        total,
                        truncated: true,
                    })
                }
                _ => Err(error),
            },
            read => read,
        }
    }

    /// What lies before byte `total`, and may be all.
    async fn read_up_to(
        exec: &BgExec,
        stream: LogStream,
        total: u64,
        keep: usize,
    ) -> Result<Self, Error> {
        let mut offset = total.saturating_sub(keep as u64);
        let mut bytes = Vec::new();
        loop {
            let part = Logs::new().stream(stream).offset(offset).max_bytes(PAGE);
            let page = exec.logs(part).await?;
            bytes.extend_from_slice(page.data.as_bytes());
            // What a process that was left over adds is none of the command's.
            if page.eof || page.next_offset <= offset || page.next_offset >= total {
                let end = page.next_offset;
                bytes.drain(..bytes.len().saturating_sub(keep));
                return Ok(Self {
                    truncated: total > keep as u64 || end < total,
                    bytes,
                    total,
                });
            }
            offset = page.next_offset;
        }
    }
}
