//! The server as a value: started by one call, gone when it is dropped.

mod builder;
mod listen;
mod thread;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use polyaxon_client::ProjectRef;
use tokio::sync::oneshot;

pub use self::builder::LocalServerBuilder;
use crate::auth::Secret;
use crate::closing::Closer;
use crate::error::Error;
use crate::report::Report;

/// How long a drop waits for the server's end.
const DROP_LIMIT: Duration = Duration::from_secs(10);

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
    stop: Closer,
    /// Both say how it ended: one for `stop`, one for `drop`.
    ended: Option<oneshot::Receiver<Result<(), Error>>>,
    dropped: Mutex<mpsc::Receiver<()>>,
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

    /// Stops the server: kills what its runs have started, ends their calls, removes its folder.
    ///
    /// # Errors
    /// [`Error::Stop`] where something is left behind.
    ///
    /// # Cancel safety
    /// Dropping the future drops the server, which stops it all the same.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.close();
        let lost = || Error::Stop {
            left: "its threads ended by a panic".to_owned(),
        };
        match self.ended.take() {
            Some(ended) => ended.await.unwrap_or_else(|_| Err(lost())),
            None => Ok(()),
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.stop.close();
        // An error is a closed channel: the thread has ended.
        let dropped = self
            .dropped
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let _ended = dropped.recv_timeout(DROP_LIMIT);
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
