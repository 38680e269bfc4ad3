//! Files: `fs/read`, `fs/write`, `fs/ls`, `fs/mkdir`, `fs/rm`, `fs/stat`.

mod inside;
mod listing;
mod place;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderMap};
use polyaxon_sandbox::FileMode;
use polyaxon_sandbox::fs::{Listing, Stat, Written};
use polyaxon_sandbox::wire::{MkdirRequest, PathAnswer, header};

pub(crate) use self::tree::{HOME, TMP, Tree};
use crate::blocking::blocking;
use crate::daemon::{CleanPath, Query, Refusal, Sandbox, body};
use crate::pod::Pod;
use crate::process::workdir_not_found;

type Result<T> = std::result::Result<T, Refusal>;

/// The files of a sandbox, off the async threads.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    tree: Arc<Tree>,
}

impl Files {
    /// Makes the folders that every sandbox has in `root`.
    pub(crate) async fn open(root: &Path) -> io::Result<Self> {
        let root = root.to_owned();
        let tree = blocking(move || Tree::open(&root)).await?;
        Ok(Self {
            tree: Arc::new(tree),
        })
    }

    /// All files of the machine, or the container, that the service runs in. Commands start in
    /// `workdir`, which exists.
    pub(crate) fn everything(workdir: &Path) -> Self {
        Self {
            tree: Arc::new(Tree::everything(workdir)),
        }
    }

    /// The files inside a pod.
    pub(crate) fn inside(pod: Arc<Pod>) -> Self {
        Self {
            tree: Arc::new(Tree::inside(pod)),
        }
    }

    /// The directory at `path` for a command to start in; where none is given, where commands of
    /// this sandbox start.
    pub(crate) async fn workdir(&self, path: Option<CleanPath>) -> Result<OwnedFd> {
        let wanted = path.clone();
        let opened = self
            .work(move |tree| tree.start_dir(wanted.as_ref().map(CleanPath::relative)))
            .await;
        opened.map_err(|error| {
            let path = path.as_ref().map_or("/", CleanPath::as_str);
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => workdir_not_found(path),
                _ => Refusal::file(path, error),
            }
        })
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tree) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let tree = Arc::clone(&self.tree);
        blocking(move || work(&tree)).await
    }

    /// Does `work` with `path` below the root.
    async fn at<T: Send + 'static>(
        &self,
        path: &CleanPath,
        work: impl FnOnce(&Tree, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let wanted = path.clone();
        self.work(move |tree| work(tree, wanted.relative()))
            .await
            .map_err(|error| Refusal::file(path.as_str(), error))
    }
}

/// `GET fs/read`: a page of a file.
pub(crate) async fn read(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let query = Query::parse(query.as_deref())?;
    let path = query.path("path", sandbox.limits.path_bytes)?;
    let offset = query.number("offset", 0, 0)?;
    let (default, max) = (sandbox.limits.read_bytes, sandbox.limits.read_bytes_max);
    let length = up_to(&query, "length", default, max)?;
    let page = sandbox
        .files
        .at(&path, move |tree, path| tree.read(path, offset, length))
        .await?;
    let next = offset + page.bytes.len() as u64;
    let headers = [
        (CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (header::NEXT_OFFSET, next.to_string()),
        (header::EOF, page.eof.to_string()),
    ];
    Ok((headers, page.bytes).into_response())
}

/// `POST fs/write`: replaces a file, or appends to it.
pub(crate) async fn write(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Written>> {
    let query = Query::parse(query.as_deref())?;
    let path = query.path("path", sandbox.limits.path_bytes)?;
    let mode = match query.text("mode") {
        Some(text) => parse_mode(text)?,
        None => FileMode::FILE,
    };
    let create = query.flag("create", true)?;
    let append = query.flag("append", false)?;
    let bytes = body::bytes(&headers, body, sandbox.limits.write_bytes).await?;
    let size = bytes.len() as u64;
    let created = sandbox
        .files
        .at(&path, move |tree, path| {
            tree.write(path, &bytes, mode, create, append)
        })
        .await?;
    Ok(Json(Written::new(path.as_str().to_owned(), size, created)))
}

/// `GET fs/ls`: the entries of a directory.
pub(crate) async fn ls(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Listing>> {
    let query = Query::parse(query.as_deref())?;
    let path = query.path("path", sandbox.limits.path_bytes)?;
    let recursive = query.flag("recursive", false)?;
    let (default, max) = (sandbox.limits.ls_entries, sandbox.limits.ls_entries_max);
    let max_entries = up_to(&query, "max_entries", default, max)?;
    let (entries, truncated) = sandbox
        .files
        .at(&path, move |tree, path| {
            listing::list(tree.dir(path)?, recursive, max_entries)
        })
        .await?;
    let path = path.as_str().to_owned();
    Ok(Json(Listing::new(path, entries, truncated)))
}

/// `POST fs/mkdir`: makes a directory.
pub(crate) async fn mkdir(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PathAnswer>> {
    let request: MkdirRequest = body::json(&headers, body, sandbox.limits.json_body).await?;
    let path = CleanPath::new("path", &request.path, sandbox.limits.path_bytes)?;
    let mode = parse_mode(&request.mode)?;
    let parents = request.parents;
    sandbox
        .files
        .at(&path, move |tree, path| tree.mkdir(path, parents, mode))
        .await?;
    Ok(done(&path))
}

/// `DELETE fs/rm`: removes a file, a link, an empty directory, or with `recursive` a whole tree.
pub(crate) async fn rm(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Json<PathAnswer>> {
    let query = Query::parse(query.as_deref())?;
    let path = query.path("path", sandbox.limits.path_bytes)?;
    let recursive = query.flag("recursive", false)?;
    if path.is_root() {
        return Err(Refusal::forbidden("/: the root of a sandbox stays"));
    }
    sandbox
        .files
        .at(&path, move |tree, path| tree.remove(path, recursive))
        .await?;
    Ok(done(&path))
}

/// `GET fs/stat`: what is at a path; links are not followed.
pub(crate) async fn stat(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Stat>> {
    let query = Query::parse(query.as_deref())?;
    let path = query.path("path", sandbox.limits.path_bytes)?;
    let name = path.as_str().to_owned();
    let stat = sandbox
        .files
        .at(&path, move |tree, path| listing::stat(tree, path, name))
        .await?;
    Ok(Json(stat))
}

fn done(path: &CleanPath) -> Json<PathAnswer> {
    Json(PathAnswer {
        path: path.as_str().to_owned(),
    })
}

/// A number of 1 to `max`.
fn up_to(query: &Query, name: &str, default: usize, max: usize) -> Result<usize> {
    let number = query.number(name, default as u64, 1)?;
    match usize::try_from(number) {
        Ok(number) if number <= max => Ok(number),
        _ => Err(Refusal::invalid(format!(
            "{name}: {number} is above the limit of {max}"
        ))),
    }
}

/// Octal text. Bits beyond the permissions are refused.
fn parse_mode(text: &str) -> Result<FileMode> {
    text.parse()
        .map_err(|error: polyaxon_client::InvalidInput| Refusal::invalid(error.to_string()))
}
