//! What a server is started with.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use polyaxon_client::{InvalidInput, ProjectRef};
use tempfile::TempDir;

use super::LocalServer;
use super::thread::{Service, Thread};
use crate::auth::Secret;
use crate::control::{Control, Pods, Store};
use crate::error::Error;
use crate::faults::{FaultRule, Faults};
use crate::isolation::{Confinement, Isolation};
use crate::limits::Limits;
use crate::quirks::{Quirk, Quirks};
use crate::report::Report;

/// The projects that are known where none are given.
const PROJECTS: [(&str, &str); 4] = [
    ("local", "agent-lab"),
    ("acme", "agent-lab"),
    ("default", "agent-lab"),
    ("default", "quick-start"),
];

/// How to start a [`LocalServer`].
///
/// # Examples
/// ```
/// use polyaxon_local::{Limits, LocalServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut limits = Limits::default();
/// limits.execs_running = 2;
/// let server = LocalServer::builder()
///     .project("acme/parsers".parse()?)
///     .token("a token of the test")
///     .limits(limits)
///     .start()
///     .await?;
/// assert_eq!(server.token(), "a token of the test");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct LocalServerBuilder {
    listen: SocketAddr,
    root: Option<PathBuf>,
    token: Option<Secret>,
    projects: Vec<ProjectRef>,
    limits: Limits,
    quirks: Quirks,
    faults: Faults,
    isolation: Isolation,
    shown: Vec<PathBuf>,
}

impl LocalServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            root: None,
            token: None,
            projects: Vec::new(),
            limits: Limits::default(),
            quirks: Quirks::default(),
            faults: Faults::new(),
            isolation: Isolation::default(),
            shown: Vec::new(),
        }
    }

    /// The address to listen on; port 0 is a free one. Default: `127.0.0.1:0`.
    ///
    /// On any other address than a loopback one everybody who can reach it and has the token runs
    /// commands on this machine.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// The folder to keep sandboxes in, made if it is not there. Only a subfolder of its own, with
    /// a random name, is used and removed at the end; what else is there is not touched. Default:
    /// the system's folder for temporary files.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.root = Some(folder.into());
        self
    }

    /// The token that every call has to carry. Default: a random one.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Secret::new(token));
        self
    }

    /// A project in which runs can be created. The first call replaces the default ones.
    pub fn project(mut self, project: ProjectRef) -> Self {
        self.projects.push(project);
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

    /// Answers that go wrong on purpose. More can be added while the server runs:
    /// [`LocalServer::faults`].
    pub fn faults(self, rules: impl IntoIterator<Item = FaultRule>) -> Self {
        rules.into_iter().for_each(|rule| self.faults.add(rule));
        self
    }

    /// How far commands are kept away from the rest of the machine. Default: [`Isolation::Auto`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// A folder of this machine that pods show by the same path, read-only. The system's folders
    /// and what programs in `PATH` need are shown anyway. Without pods commands see all folders.
    pub fn show(mut self, folder: impl Into<PathBuf>) -> Self {
        self.shown.push(folder.into());
        self
    }

    /// Starts the server. When this returns it answers.
    ///
    /// # Errors
    /// [`Error::Config`] for a token that no header can carry, [`Error::Listen`] for an address
    /// that is taken or not ours, [`Error::Root`] for a folder that cannot be made or written,
    /// [`Error::Runtime`] where the system has no thread left, [`Error::Isolation`] where less
    /// isolation is there than [`Isolation::Require`] wants.
    ///
    /// # Cancel safety
    /// A server that was started when the future is dropped is stopped.
    pub async fn start(self) -> Result<LocalServer, Error> {
        let token = self.token.unwrap_or_else(Secret::random);
        check_token(&token)?;
        let mut projects = self.projects;
        if projects.is_empty() {
            projects = PROJECTS
                .into_iter()
                .map(|(owner, name)| ProjectRef::new(owner, name))
                .collect::<Result<_, _>>()
                .map_err(Error::Config)?;
        }
        let project = projects.first().cloned().ok_or_else(no_project)?;
        let (listener, address) = listen(self.listen)?;
        let folder = own_folder(self.root)?;

        let path = folder.path().to_owned();
        let confinement = Confinement::find(self.isolation, &path, &self.shown)?;
        let pods = Pods {
            shown: confinement.shown(),
            folder: path.clone(),
            signing_key: Secret::random(),
            limits: self.limits,
            quirks: self.quirks,
            faults: self.faults.clone(),
            store: Store::new(path.join("store")),
        };
        let control = Control::new(token.clone(), projects.iter().cloned(), pods);
        let service = Service::Plane(Box::new(control), folder);
        let thread = Thread::start(listener, service, self.faults.clone()).await?;
        Ok(LocalServer {
            url: format!("http://{address}"),
            report: Report::new(Some(address), &confinement),
            address,
            token,
            project,
            projects,
            folder: path,
            faults: self.faults,
            thread,
        })
    }
}

fn no_project() -> Error {
    Error::Config(InvalidInput::new("project", "is missing"))
}

pub(super) fn check_token(token: &Secret) -> Result<(), Error> {
    let text = token.expose();
    let fits =
        !text.is_empty() && text.trim() == text && text.bytes().all(|b| (b' '..=b'~').contains(&b));
    match fits {
        true => Ok(()),
        false => Err(Error::Config(InvalidInput::new(
            "token",
            "is empty, has space around it, or holds a character that a header cannot carry",
        ))),
    }
}

pub(super) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|source| Error::Listen { address, source })
}

/// A folder that nobody else uses, for its owner only.
fn own_folder(root: Option<PathBuf>) -> Result<TempDir, Error> {
    let root = root.unwrap_or_else(std::env::temp_dir);
    let make = |root: &Path| {
        std::fs::create_dir_all(root)?;
        // Links are resolved now: commands see their working directory without them.
        let root = root.canonicalize()?;
        tempfile::Builder::new()
            .prefix("polyaxon-local-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(root)
    };
    make(&root).map_err(|source| Error::Root { root, source })
}
