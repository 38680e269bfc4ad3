//! The server as a value: started by one call, gone when it is dropped.

mod builder;
mod daemon;
mod listen;
mod thread;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use polyaxon_client::ProjectRef;

pub use self::builder::LocalServerBuilder;
pub use self::daemon::{LocalDaemon, LocalDaemonBuilder};
use self::thread::Thread;
use crate::auth::Secret;
use crate::error::Error;
use crate::faults::Faults;
use crate::report::Report;

/// A running server.
///
/// It lives on threads of its own, so it can be dropped anywhere, in async code and out of it, and
/// it answers while the thread that started it is busy. **Dropping it waits** until every process
/// that it started is killed and its folder is removed, a few milliseconds as a rule and at most
/// ten seconds: a test that ends leaves nothing behind. [`stop`](Self::stop) is the same without
/// blocking a thread.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), polyaxon_local::Error> {
/// let server = polyaxon_local::LocalServer::start().await?;
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// assert_eq!(server.project().to_string(), "local/agent-lab");
/// server.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "the server stops when it is dropped"]
pub struct LocalServer {
    address: SocketAddr,
    url: String,
    token: Secret,
    project: ProjectRef,
    projects: Vec<ProjectRef>,
    folder: PathBuf,
    report: Report,
    faults: Faults,
    thread: Thread,
}

impl LocalServer {
    /// Starts a server with the defaults of [`builder`](Self::builder).
    ///
    /// # Errors
    /// As [`LocalServerBuilder::start`].
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// A server on a free port of 127.0.0.1, with a folder of its own below the system's folder
    /// for temporary files, a random token, and the projects `local/agent-lab`, `acme/agent-lab`,
    /// `default/agent-lab` and `default/quick-start`.
    pub fn builder() -> LocalServerBuilder {
        LocalServerBuilder::new()
    }

    /// The address to give to clients: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that every call has to carry. A secret: do not print it.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.expose()
    }

    /// The projects it was started with. `POST /api/v1/{owner}/projects/create` adds others.
    #[must_use]
    pub fn projects(&self) -> &[ProjectRef] {
        &self.projects
    }

    /// The first of its projects.
    #[must_use]
    pub fn project(&self) -> &ProjectRef {
        &self.project
    }

    /// Where the folders of its runs are, one for each, named by its uuid. It is removed when the
    /// server stops.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What keeps commands away from the rest of the machine, and what does not.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The faults of its answers, to be changed while it runs. None by default.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Stops the server: kills what its runs have started, ends their calls, removes its folder.
    ///
    /// # Errors
    /// [`Error::Stop`] where something is left behind.
    ///
    /// # Cancel safety
    /// Dropping the future drops the server, which stops it all the same.
    pub async fn stop(self) -> Result<(), Error> {
        self.thread.stop().await
    }
}

impl fmt::Debug for LocalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalServer")
            .field("url", &self.url)
            .field("token", &self.token)
            .field("projects", &self.projects)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn sync<T: Send + Sync>() {}
    sync::<LocalServer>();
    sync::<LocalServerBuilder>();
};
