//! Where files are kept and commands run.

mod memory;
mod places;
#[cfg(feature = "polyaxon")]
mod sandbox;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{File, Manifest};
use crate::path::RelPath;
use crate::private::Private;
use crate::serde_as;

pub use memory::{Fault, FaultAt, MemoryWorkspace, Operation};
pub use places::Workspaces;
#[cfg(feature = "polyaxon")]
pub use sandbox::{InvalidFolder, SandboxWorkspace, SandboxWorkspaces};

/// A place with files in it, in which commands run.
///
/// All paths are relative to the place; an implementation keeps to it, links included. Calls that
/// change something carry an id; it is never used for two different things. An implementation
/// repeats nothing by itself: what it does not know it says, as [`WorkspaceError::Uncertain`].
///
/// # Examples
/// One of your own, around another one:
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use agent_loop::workspace::{Capabilities, Lookup, Precondition, StopState};
/// use agent_loop::{
///     ExecReceipt, ExecSpec, File, Manifest, MemoryWorkspace, RelPath, RequestId, Workspace,
///     WorkspaceError,
/// };
/// use futures::future::BoxFuture;
///
/// /// Counts the bytes that are written.
/// struct Metered<W> {
///     inner: W,
///     written: AtomicU64,
/// }
///
/// impl<W: Workspace> Workspace for Metered<W> {
///     fn capabilities(&self) -> Capabilities {
///         self.inner.capabilities()
///     }
///
///     fn identity(&self) -> serde_json::Value {
///         self.inner.identity()
///     }
///
///     fn get<'a>(
///         &'a self,
///         path: &'a RelPath,
///         max: u64,
///     ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
///         self.inner.get(path, max)
///     }
///
///     fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
///         self.inner.list()
///     }
///
///     fn put<'a>(
///         &'a self,
///         id: &'a RequestId,
///         path: &'a RelPath,
///         file: &'a File,
///         before: Precondition,
///     ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
///         Box::pin(async move {
///             self.inner.put(id, path, file, before).await?;
///             self.written.fetch_add(file.bytes().len() as u64, Ordering::Relaxed);
///             Ok(())
///         })
///     }
///
///     fn exec<'a>(
///         &'a self,
///         id: &'a RequestId,
///         spec: &'a ExecSpec,
///     ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
///         self.inner.exec(id, spec)
///     }
///
///     fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
///         self.inner.lookup(id)
///     }
///
///     fn fresh_dir<'a>(
///         &'a self,
///         id: &'a RequestId,
///     ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
///         self.inner.fresh_dir(id) // what is written for a check is not counted
///     }
///
///     fn stop(&self) -> BoxFuture<'_, StopState> {
///         self.inner.stop()
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let memory = MemoryWorkspace::new(|_, _| Ok(ExecReceipt::exited(0)));
/// let metered = Metered { inner: memory, written: AtomicU64::new(0) };
/// let (id, path, file) = ("t-1.1.1".parse()?, "a.py".parse()?, File::new(*b"x = 1\n"));
/// metered.put(&id, &path, &file, Precondition::Absent).await?;
/// assert_eq!(metered.written.load(Ordering::Relaxed), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Workspace: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What a person needs to find it again, for `workspace.json`: the uuid of a run, its life
    /// limit. No secrets. Default: null.
    fn identity(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Reads a file of at most `max` bytes.
    fn get<'a>(
        &'a self,
        path: &'a RelPath,
        max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>>;

    /// Lists everything with its digest. Links are reported and never followed.
    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>>;

    /// Lists what is below `folder`, with paths relative to it; nothing where it is no folder.
    ///
    /// A check lists its copy so, and not what its command has written beside it: a cache has more
    /// and larger files than [`list`](Self::list) takes. A workspace that can read a part of itself
    /// does it here; the default lists all and leaves out the rest.
    fn list_below<'a>(
        &'a self,
        folder: &'a RelPath,
    ) -> BoxFuture<'a, Result<Manifest, WorkspaceError>> {
        Box::pin(async move { Ok(self.list().await?.below(folder.as_str())) })
    }

    /// Writes a whole file, and the folders it is in, where `before` is true of what is there.
    fn put<'a>(
        &'a self,
        id: &'a RequestId,
        path: &'a RelPath,
        file: &'a File,
        before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Runs a command to its end or its limit.
    ///
    /// # Cancel safety
    /// Dropping the future gives the command up; whether it goes on is for the implementation to say.
    fn exec<'a>(
        &'a self,
        id: &'a RequestId,
        spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>>;

    /// Finds out what became of the command that was started with `id`. Only asked where
    /// [`Capabilities::exec_lookup`] says that it is possible.
    fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>>;

    /// An empty place beside this one, in the same sandbox. [`stop`](Self::stop) removes it.
    fn fresh_dir<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>>;

    /// The place that [`fresh_dir`](Self::fresh_dir) has made for `id`, as it is now, for an attempt
    /// that goes on after its program was ended. Default: it cannot be found again.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] where there is none.
    fn reopen<'a>(
        &'a self,
        _id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        ready(Err(WorkspaceError::NotFound)).boxed()
    }

    /// Asks for the end of the place and of what runs in it.
    fn stop(&self) -> BoxFuture<'_, StopState>;
}

/// What a workspace can do. Everything is off where it is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "a list of independent facts")]
#[non_exhaustive]
pub struct Capabilities {
    /// The outcome of a command can be found out by its id after the answer was lost.
    pub exec_lookup: bool,
    /// A conditional write is one step. Where not, it is read, compare, write, read, under the
    /// assumption that nobody else writes in between.
    pub cas_put: bool,
    /// Links are seen as links on every component of a path.
    pub lstat: bool,
    /// The end of a command ends its whole tree of processes, daemons included.
    pub kills_tree: bool,
    /// Commands run as a user who cannot write the files that were put.
    pub other_uid: bool,
    /// The longest it lives without anybody's help, where there is a limit.
    #[serde(with = "serde_as::maybe_millis", rename = "ttl_ms")]
    pub ttl: Option<Duration>,
}

/// What has to be true before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum Precondition {
    /// There is nothing at the path.
    Absent,
    /// There is a file with this content.
    Is(Digest),
}

/// A command to run. No shell is involved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables that are added to the environment of the place.
    pub env: BTreeMap<String, String>,
    /// The folder it runs in. `None` is the place itself.
    pub dir: Option<RelPath>,
    /// What it reads from its standard input, which is closed after that.
    pub stdin: Vec<u8>,
    /// How long it may run. The attempt's limit for a check applies as well: the shorter one wins.
    pub limit: Duration,
    /// How many bytes of each output are kept.
    pub keep_bytes: usize,
}

impl ExecSpec {
    /// A command without input, in the place itself, of at most 30 s, with 256 KiB of each output.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            dir: None,
            stdin: Vec::new(),
            limit: Duration::from_secs(30),
            keep_bytes: 256 * 1024,
        }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Runs it in a folder of the place.
    #[must_use]
    pub fn dir(mut self, dir: RelPath) -> Self {
        self.dir = Some(dir);
        self
    }

    /// Gives it something to read.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Limits its time.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Limits what is kept of each output.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep_bytes = bytes;
        self
    }
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "a list of independent facts")]
#[non_exhaustive]
pub struct ExecReceipt {
    /// Its exit code, where it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it: `SIGKILL`.
    pub signal: Option<String>,
    /// Whether it was ended at its limit. An exit code of 124 says nothing about this.
    pub timed_out: bool,
    /// How long it ran.
    #[serde(with = "serde_as::millis", rename = "duration_ms")]
    pub duration: Duration,
    /// How long it waited before it ran, where that is known.
    #[serde(with = "serde_as::maybe_millis", rename = "queue_ms")]
    pub queue: Option<Duration>,
    /// What was kept of its standard output.
    #[serde(with = "serde_as::bytes")]
    pub stdout: Vec<u8>,
    /// What was kept of its standard error.
    #[serde(with = "serde_as::bytes")]
    pub stderr: Vec<u8>,
    /// How much it wrote to its standard output, where that is known.
    pub stdout_total: Option<u64>,
    /// How much it wrote to its standard error, where that is known.
    pub stderr_total: Option<u64>,
    /// Whether standard output is not whole.
    pub stdout_truncated: bool,
    /// Whether standard error is not whole.
    pub stderr_truncated: bool,
    /// Whether a process that was left over still held an output when the command ended.
    pub pipe_held: bool,
}

impl ExecReceipt {
    /// A command that ended by itself with `code` and wrote nothing.
    #[must_use]
    pub fn exited(code: i32) -> Self {
        Self {
            exit_code: Some(code),
            ..Self::default()
        }
    }

    /// A command that was ended at its limit.
    #[must_use]
    pub fn timed_out(duration: Duration) -> Self {
        Self {
            timed_out: true,
            signal: Some("SIGKILL".to_owned()),
            duration,
            ..Self::default()
        }
    }

    /// Says what it wrote to its standard output.
    #[must_use]
    pub fn stdout(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdout = bytes.into();
        self
    }

    /// Says what it wrote to its standard error.
    #[must_use]
    pub fn stderr(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stderr = bytes.into();
        self
    }

    /// How it ended, in a few words.
    #[must_use]
    pub fn ending(&self) -> String {
        match (self.timed_out, self.exit_code, self.signal.as_deref()) {
            (true, ..) => format!("ended at its limit after {:.1?}", self.duration),
            (_, Some(code), _) => format!("exit code {code}"),
            (_, None, Some(signal)) => signal.to_owned(),
            (_, None, None) => "no exit code".to_owned(),
        }
    }
}

/// What became of a command whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the four cases are complete")]
pub enum Lookup {
    /// It has ended.
    Finished(ExecReceipt),
    /// It is running.
    Running,
    /// It was never started, and will not be.
    NeverStarted,
    /// Nobody knows.
    Unknown,
}

/// How far the end of a workspace has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopState {
    /// Nobody has asked for it.
    #[default]
    NotRequested,
    /// It was asked for. That is no confirmation that anything has ended.
    Requested,
    /// It has ended.
    Confirmed,
    /// It was asked for in vain.
    #[non_exhaustive]
    Failed {
        /// Why.
        detail: Private,
    },
}

impl StopState {
    /// Whether the end was asked for, and the request arrived.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        matches!(self, Self::Requested | Self::Confirmed)
    }

    /// The request failed.
    #[must_use]
    pub fn failed(detail: Private) -> Self {
        Self::Failed { detail }
    }
}

impl fmt::Display for StopState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRequested => "not requested",
            Self::Requested => "requested, not confirmed",
            Self::Confirmed => "confirmed",
            Self::Failed { .. } => "the request failed",
        })
    }
}

/// A call of a workspace that did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "detail", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkspaceError {
    /// There is no file.
    #[error("there is no such file")]
    NotFound,
    /// It will not be done: a link, a folder, a place outside.
    #[error("refused")]
    Refused(Private),
    /// The precondition is not true; nothing was written. With the digest of what is there, where
    /// there is a file.
    #[error("something else is there")]
    Conflict(Option<Digest>),
    /// It is larger than allowed; with its size.
    #[error("too large: {0} bytes")]
    TooLarge(u64),
    /// It failed, and nothing was changed.
    #[error("storage error")]
    Failed(Private),
    /// The answer was lost. It may have been done, it may be done later.
    #[error("the outcome is not known")]
    Uncertain(Private),
    /// The place is not there any more.
    #[error("the workspace is gone")]
    Gone(Private),
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Workspace + ?Sized> Workspace for $type {
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn identity(&self) -> serde_json::Value {
                (**self).identity()
            }

            fn get<'a>(
                &'a self,
                path: &'a RelPath,
                max: u64,
            ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
                (**self).get(path, max)
            }

            fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
                (**self).list()
            }

            fn list_below<'a>(
                &'a self,
                folder: &'a RelPath,
            ) -> BoxFuture<'a, Result<Manifest, WorkspaceError>> {
                (**self).list_below(folder)
            }

            fn put<'a>(
                &'a self,
                id: &'a RequestId,
                path: &'a RelPath,
                file: &'a File,
                before: Precondition,
            ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
                (**self).put(id, path, file, before)
            }

            fn exec<'a>(
                &'a self,
                id: &'a RequestId,
                spec: &'a ExecSpec,
            ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
                (**self).exec(id, spec)
            }

            fn lookup<'a>(
                &'a self,
                id: &'a RequestId,
            ) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
                (**self).lookup(id)
            }

            fn fresh_dir<'a>(
                &'a self,
                id: &'a RequestId,
            ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
                (**self).fresh_dir(id)
            }

            fn reopen<'a>(
                &'a self,
                id: &'a RequestId,
            ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
                (**self).reopen(id)
            }

            fn stop(&self) -> BoxFuture<'_, StopState> {
                (**self).stop()
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<WorkspaceError>();
    check::<Arc<dyn Workspace>>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_time_limit_exit_code_or_signal() {
        assert_eq!(ExecReceipt::exited(124).ending(), "exit code 124");
        let late = ExecReceipt::timed_out(Duration::from_millis(1500));
        assert_eq!(late.ending(), "ended at its limit after 1.5s");
        let killed = ExecReceipt {
            signal: Some("SIGSEGV".to_owned()),
            ..ExecReceipt::default()
        };
        assert_eq!(killed.ending(), "SIGSEGV");
        assert_eq!(ExecReceipt::default().ending(), "no exit code");
    }

    #[test]
    fn a_receipt_keeps_bytes_that_are_no_text() {
        let receipt = ExecReceipt::exited(1)
            .stdout(*b"\x00\x1b[2J\x07\xff ok\n")
            .stderr(*b"e\n");
        let json = serde_json::to_string(&receipt).unwrap();
        assert_eq!(serde_json::from_str::<ExecReceipt>(&json).unwrap(), receipt);
        assert!(json.contains(r#""stderr":"e\n""#), "{json}");
    }

    #[test]
    fn an_error_shows_no_detail() {
        let detail = || Private::new("/home/op/.config");
        let errors = [
            WorkspaceError::Refused(detail()),
            WorkspaceError::Failed(detail()),
            WorkspaceError::Uncertain(detail()),
            WorkspaceError::Gone(detail()),
        ];
        for error in errors {
            assert!(!format!("{error} {error:?}").contains("/home"), "{error:?}");
        }
    }
}
