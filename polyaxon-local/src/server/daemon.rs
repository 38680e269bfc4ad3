//! The daemon alone, as a pod of the platform has it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::builder::{check_token, listen};
use super::thread::{Daemon, Service, Thread};
use crate::auth::Secret;
use crate::error::Error;
use crate::faults::{FaultRule, Faults};
use crate::limits::Limits;
use crate::quirks::{Quirk, Quirks};

/// How long calls and commands get at the end where nothing else is said, as in the platform's
/// daemon.
const GRACE: Duration = Duration::from_secs(10);

/// The in-container daemon alone: the subpaths of a sandbox at the root of an address, for whoever
/// has the token of the daemon.
///
/// **It maps no paths and confines nothing**: its files are those of the file system that it runs
/// in, and commands get its own environment (without its token). That is what it is for inside a
/// container; anywhere else use [`LocalServer`](crate::LocalServer). Dropping it ends its commands
/// and waits until they are gone.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), polyaxon_local::Error> {
/// let daemon = polyaxon_local::LocalDaemon::builder("its token").start().await?;
/// assert!(daemon.url().starts_with("http://127.0.0.1:"));
/// daemon.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "the daemon stops when it is dropped"]
pub struct LocalDaemon {
    address: SocketAddr,
    workdir: PathBuf,
    faults: Faults,
    thread: Thread,
    /// Removed behind the end of the thread, where it is ours.
    state: Option<TempDir>,
}

impl LocalDaemon {
    /// A daemon on a free port of 127.0.0.1 whose commands start in the current directory.
    /// Callers show `token` in the header `X-Polyaxon-Sandbox-Token`.
    pub fn builder(token: impl Into<String>) -> LocalDaemonBuilder {
        LocalDaemonBuilder {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            workdir: None,
            state_dir: None,
            token: Secret::new(token),
            limits: Limits::default(),
            quirks: Quirks::default(),
            faults: Faults::new(),
            grace: GRACE,
        }
    }

    /// Its address: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where commands start that name no `workdir`.
    #[must_use]
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// The faults of its answers, to be changed while it runs.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Stops it: ends its commands and calls within the grace time.
    ///
    /// # Errors
    /// [`Error::Stop`] where something is left behind.
    ///
    /// # Cancel safety
    /// Dropping the future drops the daemon, which stops it all the same.
    pub async fn stop(self) -> Result<(), Error> {
        let stopped = self.thread.stop().await;
        let removed = self.state.map(TempDir::close).transpose();
        stopped.and(match removed {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Stop {
                left: format!("the records of execs could not be removed: {error}"),
            }),
        })
    }
}

impl fmt::Debug for LocalDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDaemon")
            .field("address", &self.address)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}

/// How to start a [`LocalDaemon`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct LocalDaemonBuilder {
    listen: SocketAddr,
    workdir: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    token: Secret,
    limits: Limits,
    quirks: Quirks,
    faults: Faults,
    grace: Duration,
}

impl LocalDaemonBuilder {
    /// The address to listen on; port 0 is a free one. Default: `127.0.0.1:0`.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Where commands start that name no `workdir`; made if it is not there. Default: the current
    /// directory. It confines nothing.
    pub fn workdir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workdir = Some(folder.into());
        self
    }

    /// Where the records and the output of execs are kept; made if it is not there. They are found
    /// again by the next daemon that is given this folder; two at once cannot use one. Default: a
    /// folder that is removed when the daemon stops.
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Other limits than those of the service.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What it does otherwise than the service that is described. Default: nothing.
    pub fn quirks(mut self, quirks: impl IntoIterator<Item = Quirk>) -> Self {
        quirks.into_iter().for_each(|quirk| self.quirks.add(quirk));
        self
    }

    /// Answers that go wrong on purpose.
    pub fn faults(self, rules: impl IntoIterator<Item = FaultRule>) -> Self {
        rules.into_iter().for_each(|rule| self.faults.add(rule));
        self
    }

    /// How long calls and commands get at the end. Default: 10 s.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Starts the daemon. When this returns it answers.
    ///
    /// # Errors
    /// [`Error::Config`] for a token that no header can carry, [`Error::Listen`] for an address
    /// that is taken or not ours, [`Error::Root`] for a `workdir` that is none and cannot be made,
    /// [`Error::State`] for a `state_dir` that cannot be used, [`Error::Runtime`] where the system has no thread left.
    ///
    /// # Cancel safety
    /// A daemon that was started when the future is dropped is stopped.
    pub async fn start(self) -> Result<LocalDaemon, Error> {
        check_token(&self.token)?;
        let workdir = self.workdir.unwrap_or_else(|| PathBuf::from("."));
        let workdir = folder(&workdir).map_err(|source| Error::Root {
            root: workdir,
            source,
        })?;
        let (listener, address) = listen(self.listen)?;
        let (state_dir, state) = match self.state_dir {
            Some(folder) => (folder, None),
            None => own_state()?,
        };
        let daemon = Daemon {
            workdir: workdir.clone(),
            state: state_dir,
            token: self.token,
            limits: self.limits,
            quirks: self.quirks,
            grace: self.grace,
        };
        let service = Service::Daemon(Box::new(daemon));
        let thread = Thread::start(listener, service, self.faults.clone()).await?;
        Ok(LocalDaemon {
            address,
            workdir,
            faults: self.faults,
            thread,
            state,
        })
    }
}

/// A folder for this daemon only.
fn own_state() -> Result<(PathBuf, Option<TempDir>), Error> {
    let made = tempfile::Builder::new()
        .prefix("polyaxon-local-state-")
        .tempdir();
    match made {
        Ok(folder) => Ok((folder.path().to_owned(), Some(folder))),
        Err(source) => Err(Error::State {
            folder: std::env::temp_dir(),
            source,
        }),
    }
}

fn folder(path: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(path)?;
    path.canonicalize()
}

const _: () = {
    const fn sync<T: Send + Sync>() {}
    sync::<LocalDaemon>();
    sync::<LocalDaemonBuilder>();
};
