//! All that is below a directory.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt as _};
use http::StatusCode;
use polyaxon_client::InvalidInput;

use super::entry::{Entry, FileType, Listing};
use super::error::FileError;
use super::files::{Fs, Ls, checked, is_refused};
use crate::error::Error;
use crate::path::AbsPath;

/// What one listing gives at most.
const MOST_ENTRIES: u32 = 10_000;

/// What is below a directory, entry by entry. Made by [`Fs::walk`].
///
/// A directory comes before what is in it. Links are not entered. A directory that cannot be listed
/// is an `Err` item that names it, and the walk goes on behind it; the same for one that holds more
/// entries than the wire can give, after those that came.
///
/// # Examples
/// ```
/// use futures::TryStreamExt as _;
/// use polyaxon_sandbox::fs::Mkdir;
/// # use polyaxon_sandbox::{SandboxClient, SandboxSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let spec = SandboxSpec::image("i");
/// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
/// let fs = sandbox.fs();
/// fs.mkdir_with("/workspace/src/deep", Mkdir::new().parents()).await?;
/// fs.write("/workspace/src/deep/a.py", "").await?;
///
/// let entries: Vec<_> = fs.walk("/workspace/src")?.try_collect().await?;
/// let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
/// assert_eq!(names, ["deep", "deep/a.py"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Walk(BoxStream<'static, Result<Entry, WalkError>>);

/// A directory of a walk that cannot be listed, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be listed")]
#[non_exhaustive]
pub struct WalkError {
    /// The directory.
    pub path: AbsPath,
    /// Why not.
    pub source: Error,
}

/// The part of a walk that is still to come.
struct Rest {
    fs: Fs,
    root: AbsPath,
    /// What was found and not given out.
    ready: VecDeque<Result<Entry, WalkError>>,
    /// Directories to list, the next one last, relative to the root.
    pending: Vec<String>,
    /// Whether to begin with one listing of everything.
    at_once: bool,
    /// How many entries a listing is asked for; `None` is what the service gives unasked.
    most: Option<u32>,
}

impl Rest {
    async fn next(mut self) -> Option<(Result<Entry, WalkError>, Self)> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some((item, self));
            }
            let below = self.pending.pop()?;
            if std::mem::take(&mut self.at_once) && self.everything().await {
                continue;
            }
            self.list(below).await;
        }
    }

    /// Asks for all at once, which is one request for what is not large. Whether that worked.
    async fn everything(&mut self) -> bool {
        let root = self.root.clone();
        match self.ls(&root, Ls::new().recursive()).await {
            Ok(listing) if !listing.truncated => {
                self.ready.extend(listing.entries.into_iter().map(Ok));
                true
            }
            // Too many for one listing, or something in it that fails the whole of it.
            _ => false,
        }
    }

    async fn ls(&mut self, path: &AbsPath, how: Ls) -> Result<Listing, Error> {
        let Some(most) = self.most else {
            return self.fs.ls_with(path, how).await;
        };
        match self.fs.ls_with(path, how.max_entries(most)).await {
            // A service that gives less.
            Err(error) if is_refused(&error, StatusCode::BAD_REQUEST) => {
                self.most = None;
                self.fs.ls_with(path, how).await
            }
            listed => listed,
        }
    }

    async fn list(&mut self, below: String) {
        let path = match below.as_str() {
            "" => Ok(self.root.clone()),
            below => self.root.join(below),
        };
        let listed = match &path {
            Ok(path) => self.ls(path, Ls::new()).await,
            Err(error) => Err(error.clone().into()),
        };
        let path = path.unwrap_or_else(|_| self.root.clone());
        let listing = match listed {
            Ok(listing) => listing,
            Err(source) => return self.ready.push_back(Err(WalkError { path, source })),
        };
        let Listing {
            entries, truncated, ..
        } = listing;
        let shown = entries.len();
        let mut inner = Vec::new();
        for mut entry in entries {
            if !below.is_empty() {
                entry.name = format!("{below}/{}", entry.name);
            }
            if entry.file_type == FileType::Dir {
                inner.push(entry.name.clone());
            }
            self.ready.push_back(Ok(entry));
        }
        self.pending.extend(inner.into_iter().rev());
        if truncated {
            let source = FileError::Truncated {
                path: path.as_str().to_owned(),
                shown,
            };
            let source = source.into();
            self.ready.push_back(Err(WalkError { path, source }));
        }
    }
}

impl Stream for Walk {
    type Item = Result<Entry, WalkError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").finish_non_exhaustive()
    }
}

impl Fs {
    /// All that is below a directory; the names are relative to it. One request where all of it
    /// fits into one listing of 10 000 entries, otherwise one for each directory.
    ///
    /// # Errors
    /// Only where the path cannot be one. What cannot be listed is an item of the stream.
    pub fn walk<P>(&self, path: P) -> Result<Walk, Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>>,
    {
        let rest = Rest {
            fs: self.clone(),
            root: checked(path)?,
            ready: VecDeque::new(),
            pending: vec![String::new()],
            at_once: true,
            most: Some(MOST_ENTRIES),
        };
        Ok(Walk(futures::stream::unfold(rest, Rest::next).boxed()))
    }
}
