//! What became of a call whose answer was lost: what to look for, and the look.

use std::time::Duration;

use polyaxon_client::transport::Operation;
use polyaxon_client::{Effect, RunUuid};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::client::{SandboxClient, Sandboxes};
use crate::error::Error;
use crate::fs::Stat;
use crate::path::AbsPath;
use crate::process::{ExecId, ExecList, ExecState, ExecStatus, Signal};
use crate::pty::{PtyId, PtyList, PtySession};
use crate::wire::{route, segment};

/// How long the service takes to end what is deleted: SIGTERM, and SIGKILL 5 s later.
const DELETE_GRACE: Duration = Duration::from_secs(6);
/// How long a process that was killed can still be told as running.
const REAP: Duration = Duration::from_millis(500);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// How to find out what a call did whose answer was lost. It is in the error:
/// [`Error::lookup`]. A value, so that it can be kept over a restart of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Lookup {
    /// A background exec was started with this tag, which has to be of this call alone.
    #[non_exhaustive]
    StartedExec {
        /// Its tag.
        tag: String,
    },
    /// How an exec ended was not told to the end.
    #[non_exhaustive]
    Exec {
        /// The exec.
        exec_id: ExecId,
    },
    /// A signal was sent to an exec.
    #[non_exhaustive]
    SignaledExec {
        /// The exec.
        exec_id: ExecId,
        /// The signal.
        signal: Signal,
    },
    /// The record of an exec was deleted.
    #[non_exhaustive]
    DeletedExec {
        /// The exec.
        exec_id: ExecId,
    },
    /// Bytes were added to a file whose size was known.
    #[non_exhaustive]
    Append {
        /// The file.
        path: AbsPath,
        /// Its size before.
        before: u64,
        /// How many bytes were added.
        length: u64,
    },
    /// A sandbox was created with this launch id, which has to be of this call alone.
    #[non_exhaustive]
    CreatedSandbox {
        /// Its launch id.
        launch_id: String,
    },
    /// A terminal was created with this tag, which has to be of this call alone.
    #[non_exhaustive]
    CreatedPty {
        /// Its tag.
        tag: String,
    },
    /// A terminal was deleted.
    #[non_exhaustive]
    DeletedPty {
        /// The terminal.
        pty_id: PtyId,
    },
}

/// What is known of a call after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It was carried out.
    #[non_exhaustive]
    Applied {
        /// What shows it.
        evidence: Evidence,
    },
    /// It has changed nothing so far. A request that is still on its way can arrive after the
    /// look: where that matters, repeat only what the service refuses to do twice.
    NotApplied,
    /// The look could not decide it.
    #[non_exhaustive]
    StillUnknown {
        /// Why not, as a half sentence.
        why: String,
    },
}

/// What shows that a call was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The service's record of the exec.
    Exec(Box<ExecStatus>),
    /// The service's record of the terminal.
    Pty(Box<PtySession>),
    /// The file has the size that it must have then, in bytes.
    Size(u64),
    /// What was to be deleted is gone.
    Gone,
    /// The run that was created.
    Run(RunUuid),
    /// The service's answer, of which no more was of use.
    Answer,
}

impl SandboxClient {
    /// Finds out what a call did whose error does not say so, where the wire allows it. Reads
    /// only.
    ///
    /// | call | looked for | what it cannot tell |
    /// |---|---|---|
    /// | [`exec_bg`](crate::process::Process::exec_bg) with a tag | a record with the tag | whose it is, where another call used the tag |
    /// | an exec whose stream broke off | its record | – |
    /// | a signal | whether that signal ended the exec | a signal that the command survives |
    /// | a delete | whether the record is gone | – |
    /// | an append to a file of known size | the size of the file | who made it another size |
    /// | creating a terminal with a tag | a terminal with the tag | as above |
    /// | creating a sandbox of this project, with a launch id | a run with the id | whose it is, where another call used the id |
    /// | a one-shot exec, an append without a size, anything else | – | all: it has no name on the wire. |
    ///
    /// A request that is still on its way, in a proxy for one, can arrive after the look. So
    /// *not applied* means: not so far.
    ///
    /// # Errors
    /// Where the look itself fails; it can be repeated.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn resolve(&self, error: &Error) -> Result<Resolution, Error> {
        if let Some(run) = error.run_uuid() {
            let evidence = Evidence::Run(run);
            return Ok(Resolution::Applied { evidence });
        }
        let effect = error.effect();
        if effect == Effect::NotApplied {
            return Ok(Resolution::NotApplied);
        }
        let found = match error.lookup() {
            Some(lookup) => self.look_up(&lookup).await,
            None => Ok(unknown("the call has no name on the wire")),
        };
        match (effect, found) {
            (Effect::Applied, Ok(applied @ Resolution::Applied { .. })) => Ok(applied),
            // The service has answered, whatever is found of it now.
            (Effect::Applied, _) => Ok(Resolution::Applied {
                evidence: Evidence::Answer,
            }),
            (_, found) => found,
        }
    }

    /// Finds out what a call did, by what its error said to look for: see
    /// [`resolve`](Self::resolve).
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn look_up(&self, lookup: &Lookup) -> Result<Resolution, Error> {
        match lookup {
            Lookup::StartedExec { tag } => self.started_exec(tag).await,
            Lookup::Exec { exec_id } => Ok(match self.record(exec_id).await? {
                Some(status) => applied(Evidence::Exec(Box::new(status))),
                None => unknown("there is no record of it"),
            }),
            Lookup::SignaledExec { exec_id, signal } => self.signaled_exec(exec_id, signal).await,
            Lookup::DeletedExec { exec_id } => self.deleted_exec(exec_id).await,
            Lookup::Append {
                path,
                before,
                length,
            } => self.appended(path, *before, *length).await,
            Lookup::CreatedSandbox { launch_id } => {
                let found = Sandboxes::over(self.runs().clone())
                    .created(launch_id)
                    .await?;
                Ok(match found {
                    Some(run) => applied(Evidence::Run(run.uuid)),
                    None => Resolution::NotApplied,
                })
            }
            Lookup::CreatedPty { tag } => self.created_pty(tag).await,
            Lookup::DeletedPty { pty_id } => self.deleted_pty(pty_id).await,
        }
    }

    async fn started_exec(&self, tag: &str) -> Result<Resolution, Error> {
        let operation = Operation::get("process.list", route::EXEC_BG).query("tag", tag);
        let list: ExecList = self.send(operation).await?.json()?;
        // A service that does not know the parameter lists all of them.
        let has_tag = |exec: &ExecStatus| exec.tag.as_deref() == Some(tag);
        let mut found = list.execs.into_iter().filter(has_tag);
        Ok(match (found.next(), found.next()) {
            (None, _) => Resolution::NotApplied,
            (Some(exec), None) => applied(Evidence::Exec(Box::new(exec))),
            (Some(_), Some(_)) => unknown("several commands have its tag"),
        })
    }

    async fn signaled_exec(&self, exec_id: &ExecId, signal: &Signal) -> Result<Resolution, Error> {
        let deadline = Instant::now() + REAP;
        loop {
            let Some(status) = self.record(exec_id).await? else {
                return Ok(unknown("the record of the exec is gone"));
            };
            let by_signal = status.state == ExecState::Signaled;
            if by_signal && status.signal.as_ref() == Some(signal) {
                return Ok(applied(Evidence::Exec(Box::new(status))));
            }
            if status.is_final() {
                return Ok(unknown(
                    "the exec has ended otherwise, and takes no signal any more",
                ));
            }
            match signal {
                // Nothing survives it, but its end may not be told yet.
                Signal::Kill if Instant::now() >= deadline => return Ok(Resolution::NotApplied),
                Signal::Kill => sleep(PAUSE).await,
                _ => {
                    return Ok(unknown(
                        "the command runs, as it can in spite of the signal",
                    ));
                }
            }
        }
    }

    async fn deleted_exec(&self, exec_id: &ExecId) -> Result<Resolution, Error> {
        let deadline = Instant::now() + DELETE_GRACE;
        while self.record(exec_id).await?.is_some() {
            // The service may be at it: it waits for the end of the command first.
            if Instant::now() >= deadline {
                return Ok(Resolution::NotApplied);
            }
            sleep(PAUSE).await;
        }
        Ok(applied(Evidence::Gone))
    }

    async fn appended(
        &self,
        path: &AbsPath,
        before: u64,
        length: u64,
    ) -> Result<Resolution, Error> {
        let operation = Operation::get("fs.stat", route::FS_STAT).query("path", path.as_str());
        let stat: Option<Stat> = self.found(operation).await?;
        let size = stat.map(|stat| stat.size);
        Ok(match size {
            Some(size) if length > 0 && size == before => Resolution::NotApplied,
            Some(size) if size == before.saturating_add(length) => applied(Evidence::Size(size)),
            None if before == 0 => Resolution::NotApplied,
            Some(size) => unknown(&format!("the file has {size} bytes")),
            None => unknown("the file is not there any more"),
        })
    }

    async fn created_pty(&self, tag: &str) -> Result<Resolution, Error> {
        let operation = Operation::get("pty.list", route::PTY).query("tag", tag);
        let list: PtyList = self.send(operation).await?.json()?;
        let has_tag = |pty: &PtySession| pty.tag.as_deref() == Some(tag);
        let mut found = list.sessions.into_iter().filter(has_tag);
        Ok(match (found.next(), found.next()) {
            (None, _) => Resolution::NotApplied,
            (Some(pty), None) => applied(Evidence::Pty(Box::new(pty))),
            (Some(_), Some(_)) => unknown("several terminals have its tag"),
        })
    }

    async fn deleted_pty(&self, pty_id: &PtyId) -> Result<Resolution, Error> {
        let deadline = Instant::now() + DELETE_GRACE;
        let path = format!("{}/{}", route::PTY, segment(pty_id.as_str()));
        loop {
            let operation = Operation::get("pty.get", path.as_str());
            if self.found::<PtySession>(operation).await?.is_none() {
                return Ok(applied(Evidence::Gone));
            }
            if Instant::now() >= deadline {
                return Ok(Resolution::NotApplied);
            }
            sleep(PAUSE).await;
        }
    }

    async fn record(&self, exec_id: &ExecId) -> Result<Option<ExecStatus>, Error> {
        let path = format!("{}/{}", route::EXEC_BG, segment(exec_id.as_str()));
        self.found(Operation::get("process.get", path)).await
    }

    /// The answer, or nothing where the service itself says that there is nothing. A page of a
    /// gateway does not say that.
    async fn found<T: serde::de::DeserializeOwned>(
        &self,
        operation: Operation,
    ) -> Result<Option<T>, Error> {
        match self.send(operation).await {
            Ok(answer) => Ok(Some(answer.json()?)),
            Err(error) if error.service_status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn applied(evidence: Evidence) -> Resolution {
    Resolution::Applied { evidence }
}

fn unknown(why: &str) -> Resolution {
    Resolution::StillUnknown {
        why: why.to_owned(),
    }
}
