//! A folder in a Polyaxon sandbox as a workspace.

mod command;
mod fresh;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use polyaxon_client::{Effect, Error as ClientError};
use polyaxon_sandbox::fs::{FileType, Fs, Ls, Mkdir, Stat, Write};
use polyaxon_sandbox::process::BgExec;
use polyaxon_sandbox::{AbsPath, Error, FileMode, SandboxClient};

use self::fresh::OtherUser;

use super::{
    Capabilities, ExecReceipt, ExecSpec, Lookup, Precondition, StopState, Workspace, WorkspaceError,
};
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{Entry, File, Manifest};
use crate::path::RelPath;
use crate::private::Private;

pub use self::fresh::SandboxWorkspaces;

/// The most entries of one listing: the service's own limit.
const MOST_ENTRIES: u32 = 10_000;
/// The most bytes that are read for one listing.
const MOST_LISTED: u64 = 128 * 1024 * 1024;
/// Files that are read at the same time for a listing.
const AT_ONCE: usize = 8;
/// How much of an output is kept of a command that is looked up.
const KEPT: usize = 1 << 20;
/// What the file that holds the mark of a place is called by, behind the name of the place. It is
/// beside the place, which is empty.
const MARK: &str = ".mark";
/// What these workspaces are called in the evidence.
const KIND: &str = "polyaxon_sandbox";
/// How much one request reads.
const PAGE: u64 = 4 << 20;

/// A folder of its own below `/tmp` in a Polyaxon sandbox.
///
/// | what | how, and what follows from it |
/// |---|---|
/// | links | each component of a path is looked at before it is used, and a link is refused. The service has no call that does both at once: a process in the sandbox can change a component in between |
/// | conditional write | read, compare, write, read: right as long as the loop is the only writer. What replaces a file is written beside the workspace and moved over it, so that another name of the old file keeps its bytes |
/// | listing | the service gives no digests, so every file is read |
/// | command | in the background, with a tag made of the folder's name, the request's id and a mark of the place; where an answer is lost, it is found again by that tag, and never started twice |
/// | [`fresh_dir`](Workspace::fresh_dir) | another folder beside it, which [`stop`](Workspace::stop) removes |
///
/// Commands get relative names only: some services map the paths of their file calls.
#[derive(Clone, Debug)]
pub struct SandboxWorkspace {
    sandbox: SandboxClient,
    root: AbsPath,
    role: Role,
    life_limit: Option<Duration>,
    /// The name of the folder, in the names of commands.
    name: String,
    /// What tells the commands of a place from those of all others, those of an earlier attempt with
    /// the same ids among them.
    mark: String,
    /// The user whom commands run as, where it is another one than the service's.
    isolation: Option<OtherUser>,
    /// The commands that were started.
    started: Arc<Mutex<BTreeSet<RequestId>>>,
    /// The command that runs.
    running: Arc<Mutex<Option<BgExec>>>,
    /// Whether the service has answered once. Where it then is not there, it has gone.
    reached: Arc<AtomicBool>,
}

/// What the end of the workspace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Sandbox,
    Folder,
}

/// A name that cannot be a folder's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a folder: 1 to 64 letters, digits, `-` and `_` can")]
#[non_exhaustive]
pub struct InvalidFolder {
    name: String,
}

impl SandboxWorkspace {
    /// The folder `/tmp/{name}` of `sandbox`. Nothing is sent. Its end is the sandbox's.
    ///
    /// # Errors
    /// Where `name` is not made of letters, digits, `-` and `_`.
    pub fn new(sandbox: SandboxClient, name: &str) -> Result<Self, InvalidFolder> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let root = match (1..=64).contains(&name.len()) && name.bytes().all(fits) {
            true => format!("/tmp/{name}").parse().ok(),
            false => None,
        };
        let root = root.ok_or_else(|| InvalidFolder {
            name: name.to_owned(),
        })?;
        let reached = Arc::new(AtomicBool::new(false));
        Ok(Self {
            sandbox,
            root,
            role: Role::Sandbox,
            life_limit: None,
            name: name.to_owned(),
            mark: String::new(),
            isolation: None,
            started: Arc::default(),
            running: Arc::default(),
            reached,
        })
    }

    /// Says how long the sandbox lives without anybody's help, for the evidence.
    #[must_use]
    pub fn life_limit(mut self, limit: Duration) -> Self {
        self.life_limit = Some(limit);
        self
    }

    fn fs(&self) -> Fs {
        self.sandbox.fs()
    }

    fn absolute(&self, path: &str) -> Result<AbsPath, WorkspaceError> {
        self.root
            .join(path)
            .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))
    }

    /// A name next to the workspace's own.
    fn next_to(&self, ending: &str) -> Result<AbsPath, WorkspaceError> {
        format!("{}{ending}", self.root)
            .parse()
            .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))
    }

    /// What is at `path`, without following it; `None` where nothing is.
    async fn look(&self, path: &AbsPath) -> Result<Option<Stat>, WorkspaceError> {
        match self.answered(self.fs().stat(path).await) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(self.read_failed(&error)),
        }
    }

    /// Looks at every folder that `path` is in, from the workspace itself on. True where all of
    /// them are there.
    async fn has_folders(&self, path: &RelPath) -> Result<bool, WorkspaceError> {
        let mut folders = vec![self.root.clone()];
        for parent in path.parents() {
            folders.push(self.absolute(parent)?);
        }
        for folder in &folders {
            match self.look(folder).await? {
                Some(stat) if stat.file_type == FileType::Dir => {}
                Some(_) => return Err(refused(&format!("{folder} is no folder"))),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The regular file at `path`; `None` where nothing is.
    async fn regular(&self, path: &RelPath) -> Result<Option<Stat>, WorkspaceError> {
        if !self.has_folders(path).await? {
            return Ok(None);
        }
        match self.look(&self.absolute(path.as_str())?).await? {
            Some(stat) if stat.file_type != FileType::File => {
                Err(refused(&format!("{path} is no regular file")))
            }
            stat => Ok(stat),
        }
    }

    async fn read(&self, path: &RelPath, max: u64) -> Result<Vec<u8>, WorkspaceError> {
        let stat = self.regular(path).await?.ok_or(WorkspaceError::NotFound)?;
        if stat.size > max {
            return Err(WorkspaceError::TooLarge(stat.size));
        }
        self.bytes(&self.absolute(path.as_str())?, max).await
    }

    /// The bytes of what is known to be a regular file. Its size is only a hint, so it is counted.
    async fn bytes(&self, path: &AbsPath, max: u64) -> Result<Vec<u8>, WorkspaceError> {
        let mut bytes = Vec::new();
        loop {
            let offset = bytes.len() as u64;
            let page = self.answered(self.fs().read_range(path, offset, PAGE).await);
            let page = page.map_err(|error| self.read_failed(&error))?;
            bytes.extend_from_slice(&page.bytes);
            if bytes.len() as u64 > max {
                return Err(WorkspaceError::TooLarge(bytes.len() as u64));
            }
            if page.eof {
                return Ok(bytes);
            }
            if page.bytes.is_empty() {
                return Err(WorkspaceError::Failed(Private::new(
                    "a page without bytes or end",
                )));
            }
        }
    }

    async fn write(
        &self,
        path: &RelPath,
        file: &File,
        before: Precondition,
    ) -> Result<(), WorkspaceError> {
        let there = match self.regular(path).await? {
            Some(_) => Some(Digest::of(
                &self
                    .bytes(&self.absolute(path.as_str())?, MOST_LISTED)
                    .await?,
            )),
            None => None,
        };
        let fits = match before {
            Precondition::Absent => there.is_none(),
            Precondition::Is(digest) => there == Some(digest),
        };
        if !fits {
            return Err(WorkspaceError::Conflict(there));
        }
        let folder = match path.parents().last() {
            Some(parent) => self.absolute(parent)?,
            None => self.root.clone(),
        };
        let made = self.fs().mkdir_with(&folder, Mkdir::new().parents()).await;
        self.answered(made)
            .map_err(|error| self.write_failed(&error))?;
        let mode = match file.is_executable() {
            true => FileMode::from_st_mode(0o755),
            false => FileMode::FILE,
        };
        let target = self.absolute(path.as_str())?;
        // What is there may have another name, or become a link: nothing is written into it.
        let place = match there {
            Some(_) => self.next_to(".put")?,
            None => target.clone(),
        };
        let how = Write::new().mode(mode);
        let written = self
            .fs()
            .write_with(&place, file.bytes().to_vec(), how)
            .await;
        self.answered(written)
            .map_err(|error| self.write_failed(&error))?;
        if there.is_some() {
            let renamed = self.answered(self.fs().rename(&place, &target).await);
            renamed.map_err(|error| self.write_failed(&error))?;
        }
        match self.bytes(&target, MOST_LISTED).await {
            Ok(bytes) if Digest::of(&bytes) == file.digest() => Ok(()),
            Err(gone @ WorkspaceError::Gone(_)) => Err(gone),
            _ => Err(WorkspaceError::Uncertain(Private::new(
                "not there after the write",
            ))),
        }
    }

    /// What is below `folder`, or in all of the workspace. Nothing where it is no folder.
    async fn manifest(&self, folder: Option<&RelPath>) -> Result<Manifest, WorkspaceError> {
        match self.look(&self.root).await? {
            None => return Ok(Manifest::default()),
            Some(stat) if stat.file_type != FileType::Dir => {
                return Err(refused("the workspace is no folder"));
            }
            Some(_) => {}
        }
        let mut top = self.root.clone();
        for part in folder.iter().flat_map(|folder| folder.as_str().split('/')) {
            top = top
                .join(part)
                .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?;
            match self.look(&top).await? {
                Some(stat) if stat.file_type == FileType::Dir => {}
                _ => return Ok(Manifest::default()),
            }
        }
        let top = &top;
        let how = Ls::new().recursive().max_entries(MOST_ENTRIES);
        let listing = self.answered(self.fs().ls_with(top, how).await);
        let listing = listing.map_err(|error| self.read_failed(&error))?;
        if listing.truncated {
            return Err(refused(&format!("more than {MOST_ENTRIES} entries")));
        }
        let total: u64 = listing.entries.iter().map(|entry| entry.size).sum();
        if total > MOST_LISTED {
            return Err(WorkspaceError::TooLarge(total));
        }
        let mut entries = Vec::new();
        let mut files = Vec::new();
        for entry in listing.entries {
            let path = RelPath::parse(&entry.name)
                .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?;
            match entry.file_type {
                FileType::Dir => {}
                FileType::File => {
                    let executable = entry.mode.is_some_and(|mode| mode.bits() & 0o100 != 0);
                    files.push((path, executable));
                }
                FileType::Symlink => {
                    entries.push((path, Entry::link(entry.symlink_target.unwrap_or_default())));
                }
                _ => entries.push((path, Entry::Other)),
            }
        }
        let read = stream::iter(files)
            .map(|(path, executable)| async move {
                let place = top.join(path.as_str());
                let place =
                    place.map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?;
                let bytes = self.bytes(&place, MOST_LISTED).await?;
                let entry = Entry::file(bytes.len() as u64, Digest::of(&bytes), executable);
                Ok::<_, WorkspaceError>((path, entry))
            })
            .buffered(AT_ONCE);
        let read: Vec<_> = read.try_collect().await?;
        Ok(entries.into_iter().chain(read).collect())
    }

    async fn empty_folder(&self, id: &RequestId) -> Result<Self, WorkspaceError> {
        let (beside, root) = self.folder_of(id)?;
        let made = self.fs().mkdir_with(&beside, Mkdir::new().parents()).await;
        self.answered(made)
            .map_err(|error| self.read_failed(&error))?;
        match self.look(&beside).await? {
            Some(stat) if stat.file_type == FileType::Dir => {}
            _ => return Err(refused(&format!("{beside} is no folder"))),
        }
        let mark = jiff::Timestamp::now().as_nanosecond();
        let mark = Digest::of(format!("{root} {mark} {}", std::process::id()).as_bytes()).short();
        let place = self.beside(root.clone(), mark.clone());
        // Before the folder: one without a mark would not be found again, and so not be removed.
        if self.look(&root).await?.is_none() {
            let written = self.fs().write(&place.next_to(MARK)?, mark).await;
            self.answered(written)
                .map_err(|error| self.read_failed(&error))?;
        }
        // Without its parents: it has to be new.
        let made = self.fs().mkdir(&root).await;
        self.answered(made)
            .map_err(|error| self.read_failed(&error))?;
        place.with_folders().await
    }

    async fn remove_folder(&self) -> Result<(), Error> {
        self.fs().rm_all(&self.root).await?;
        let mark = format!("{}{MARK}", self.root);
        self.fs().rm_all(mark).await
    }

    /// The folder that [`empty_folder`](Self::empty_folder) has made, whichever program did.
    async fn folder_again(&self, id: &RequestId) -> Result<Self, WorkspaceError> {
        let (_, root) = self.folder_of(id)?;
        let place = self.beside(root, String::new());
        let mark = self.answered(self.fs().read_text(&place.next_to(MARK)?).await);
        let mark = mark.map_err(|error| self.read_failed(&error))?;
        Ok(Self { mark, ..place })
    }

    /// The folder of all places beside this one, and the one of `id` in it.
    fn folder_of(&self, id: &RequestId) -> Result<(AbsPath, AbsPath), WorkspaceError> {
        let refused = |error| WorkspaceError::Refused(Private::from_error(&error));
        let beside = self.next_to(".checks")?;
        // A colon ends a path in `PATH` and its like, so there are programs that cannot run below a
        // folder with one, cargo among them. An id has no `+`.
        let root = beside.join(&id.as_str().replace(':', "+"));
        let root = root.map_err(refused)?;
        Ok((beside, root))
    }

    fn beside(&self, root: AbsPath, mark: String) -> Self {
        Self {
            root,
            mark,
            role: Role::Folder,
            running: Arc::default(),
            ..self.clone()
        }
    }

    /// Notes that the service has answered.
    fn answered<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        let from_service = match &answer {
            Ok(_) => true,
            Err(error) => match error.as_client() {
                Some(ClientError::Api(answer)) => !answer.is_from_gateway(),
                _ => false,
            },
        };
        if from_service {
            self.reached.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// What a failed call means that changes nothing.
    fn read_failed(&self, error: &Error) -> WorkspaceError {
        let detail = Private::from_error(error);
        match self.is_gone(error) {
            true => WorkspaceError::Gone(detail),
            false => WorkspaceError::Failed(detail),
        }
    }

    /// What a failed call means that changes something.
    fn write_failed(&self, error: &Error) -> WorkspaceError {
        match error.effect() {
            Effect::NotApplied => self.read_failed(error),
            Effect::Applied | Effect::Unknown => {
                WorkspaceError::Uncertain(Private::from_error(error))
            }
        }
    }

    /// Whether the service was there and is not any more. The client has tried for a while.
    fn is_gone(&self, error: &Error) -> bool {
        let is_unreachable = match error.as_client() {
            Some(ClientError::Transport { .. } | ClientError::RunEnded { .. }) => true,
            Some(ClientError::Api(error)) => {
                error.is_from_gateway() && matches!(error.status().as_u16(), 404 | 502 | 503 | 504)
            }
            _ => false,
        };
        is_unreachable && self.reached.load(Ordering::Relaxed)
    }
}

fn is_not_found(error: &Error) -> bool {
    // A gateway's 404 means that there is no sandbox.
    matches!(error.as_client(), Some(ClientError::Api(answer)) if !answer.is_from_gateway())
        && error.code() == Some("not_found")
}

fn refused(problem: &str) -> WorkspaceError {
    WorkspaceError::Refused(Private::new(problem))
}

impl Workspace for SandboxWorkspace {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            exec_lookup: true,
            lstat: true,
            kills_tree: self.isolation.is_some(),
            other_uid: self.isolation.is_some(),
            ttl: self.life_limit,
            ..Capabilities::default()
        }
    }

    fn identity(&self) -> serde_json::Value {
        let mut identity = serde_json::json!({
            "kind": KIND,
            "project": self.sandbox.project().to_string(),
            "sandbox_run_uuid": self.sandbox.run_uuid(),
            "folder": self.root.as_str(),
            "life_limit_s": self.life_limit.map(|limit| limit.as_secs()),
        });
        if let (Some(user), Some(members)) = (self.isolation, identity.as_object_mut()) {
            members.insert("commands_run_as".to_owned(), user.id().into());
        }
        identity
    }

    fn get<'a>(
        &'a self,
        path: &'a RelPath,
        max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
        self.read(path, max).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
        self.manifest(None).boxed()
    }

    fn list_below<'a>(
        &'a self,
        folder: &'a RelPath,
    ) -> BoxFuture<'a, Result<Manifest, WorkspaceError>> {
        self.manifest(Some(folder)).boxed()
    }

    fn put<'a>(
        &'a self,
        _id: &'a RequestId,
        path: &'a RelPath,
        file: &'a File,
        before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.write(path, file, before).boxed()
    }

    /// # Cancel safety
    /// Dropping the future leaves the command running, until its limit or until
    /// [`stop`](Workspace::stop).
    fn exec<'a>(
        &'a self,
        id: &'a RequestId,
        spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
        self.run(id, spec).boxed()
    }

    fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
        self.find(id, KEPT).boxed()
    }

    fn fresh_dir<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { Ok(Arc::new(self.empty_folder(id).await?) as Arc<dyn Workspace>) }.boxed()
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { Ok(Arc::new(self.folder_again(id).await?) as Arc<dyn Workspace>) }.boxed()
    }

    fn stop(&self) -> BoxFuture<'_, StopState> {
        async move {
            self.end_running().await;
            let (asked, state) = match self.role {
                Role::Sandbox => (self.sandbox.stop().await, StopState::Requested),
                Role::Folder => (self.remove_folder().await, StopState::Confirmed),
            };
            match asked {
                Ok(()) => state,
                Err(error) => StopState::failed(Private::from_error(&error)),
            }
        }
        .boxed()
    }
}
