//! Files of runs: what there is, up, down, away.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::api::Runs;
use crate::error::{Error, InvalidInput};
use crate::ids::RunUuid;
use crate::transport::{AnswerStream, Operation, error_of_answer};

/// One level of a folder of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactTree {
    /// The files by name, with their sizes in bytes.
    pub files: BTreeMap<String, u64>,
    /// The folders.
    pub dirs: Vec<String>,
}

/// As the server answers it: a folder that cannot be listed is an empty one with an error.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    files: BTreeMap<String, u64>,
    #[serde(default)]
    dirs: Vec<String>,
    #[serde(default)]
    error: Option<String>,
}

/// A file to upload: where it is here, and where it goes.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::Upload;
///
/// let report = Upload::new("target/report.html", "outputs/report.html")
///     .on_progress(|sent, total| println!("{sent} of {total} bytes"));
/// ```
#[derive(Clone)]
#[must_use = "an Upload does nothing until it is passed to `upload`"]
pub struct Upload {
    from: PathBuf,
    to: String,
    store: Option<String>,
    progress: Option<Arc<dyn Fn(u64, u64) + Send + Sync>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// The file `from` of this machine, to the path `to` below the run's folder.
    pub fn new(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            store: None,
            progress: None,
        }
    }

    /// Into the store of this name. Default: the run's.
    pub fn store(mut self, name: impl Into<String>) -> Self {
        self.store = Some(name.into());
        self
    }

    /// Is told how many bytes of the file were sent so far, and of how many. Where a call is repeated it begins
    /// anew.
    pub fn on_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(tell));
        self
    }
}

/// A file of a run that is being read. Dropping it stops that.
#[derive(Debug)]
#[must_use = "dropping it stops the download"]
pub struct Download {
    answer: AnswerStream,
    length: Option<u64>,
}

impl Download {
    /// How many bytes it has, where the server says so.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Transport`] where the connection breaks off.
    ///
    /// # Cancel safety
    /// Cancel safe: no byte is lost.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.answer.chunk().await
    }
}

impl Runs {
    /// What is in a folder of a run, one level deep; `""` is the run's own folder. A folder that is
    /// not there is an empty one.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such run, and with status 200 where the store
    /// could not be asked, which the server says in the answer and not by its status.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn artifact_tree(
        &self,
        namespace: &str,
        run: RunUuid,
        folder: &str,
    ) -> Result<ArtifactTree, Error> {
        let path = self.stream_path(namespace, &run.to_string(), "/artifacts/tree")?;
        let operation = Operation::get("runs.artifact_tree", path).query("path", folder);
        let answer = self.transport().send(operation.clone()).await?;
        let Listed { files, dirs, error } = answer.json()?;
        match error {
            Some(error) if !says_missing(&error, run, folder) => Err(error_of_answer(
                &operation,
                answer.status,
                &answer.headers,
                &answer.body,
            )),
            _ => Ok(ArtifactTree { files, dirs }),
        }
    }

    /// All files of a run by their paths, with their sizes in bytes.
    ///
    /// # Errors
    /// As [`artifact_tree`](Self::artifact_tree); it asks once a folder.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn artifact_sizes(
        &self,
        namespace: &str,
        run: RunUuid,
    ) -> Result<BTreeMap<String, u64>, Error> {
        self.artifact_sizes_below(namespace, run, "").await
    }

    /// The same, of a folder and those in it. The paths are below the run's folder.
    pub(super) async fn artifact_sizes_below(
        &self,
        namespace: &str,
        run: RunUuid,
        folder: &str,
    ) -> Result<BTreeMap<String, u64>, Error> {
        let mut sizes = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let tree = self.artifact_tree(namespace, run, &folder).await?;
            let below = |name: &str| match folder.is_empty() {
                true => name.to_owned(),
                false => format!("{folder}/{name}"),
            };
            for (name, size) in &tree.files {
                sizes.insert(below(name), *size);
            }
            folders.extend(tree.dirs.iter().map(|name| below(name)));
        }
        Ok(sizes)
    }

    /// Reads a file of a run.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn artifact(
        &self,
        namespace: &str,
        run: RunUuid,
        path: &str,
    ) -> Result<Download, Error> {
        let at = self.stream_path(namespace, &run.to_string(), "/artifact")?;
        let operation = Operation::get("runs.artifact", at)
            .query("path", path)
            .query("stream", "true")
            // Else the server can answer from a copy that it made when the file was read last.
            .query("force", "true")
            .accept_bytes()
            .any_answer();
        let answer = self.transport().open(operation).await?;
        let length = answer.headers().get(http::header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Download { answer, length })
    }

    /// Uploads a file of this machine; one that is there already is replaced. It is read while it
    /// is sent, as much of it as there is now.
    ///
    /// The client's limit of a call is here the time in which nothing moves, however long the whole
    /// takes: a file takes as long as its line needs. Once the last piece is on its way, the answer
    /// may take a second longer for every 64 KiB, and 5 minutes at most.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the file cannot be read or its path cannot be used;
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the file as it was, or with its new content, or, where the server
    /// does not take care, with a part of it: upload it again.
    pub async fn upload(
        &self,
        namespace: &str,
        run: RunUuid,
        upload: &Upload,
    ) -> Result<(), Error> {
        let (folder, name) = split(&upload.to)?;
        let metadata = tokio::fs::metadata(&upload.from).await;
        let length = match metadata {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(_) => return Err(unreadable(&upload.from, "is no file").into()),
            Err(error) => return Err(unreadable(&upload.from, &error.to_string()).into()),
        };
        let mut json = format!(
            "{{\"untar\":false,\"path\":{},\"overwrite\":true",
            serde_json::Value::from(folder)
        );
        if let Some(store) = &upload.store {
            json.push_str(&format!(
                ",\"connection\":{}",
                serde_json::Value::from(store.as_str())
            ));
        }
        json.push('}');
        let at = self.stream_path(namespace, &run.to_string(), "/artifact")?;
        let operation = Operation::post("runs.upload", at)
            .harmless()
            .any_answer()
            .upload(&upload.from, length, name, &json, upload.progress.clone())?;
        let answer = self.transport().send(operation).await?;
        // A page is what a proxy sends in the place of the service: to log in, for one.
        match answer.body.trim_ascii_start().starts_with(b"<") {
            false => Ok(()),
            true => Err(Error::Decode {
                operation: "runs.upload",
                at: ".".to_owned(),
                source: Box::new(InvalidInput::new("answer", "is a page for people")),
            }),
        }
    }

    /// Deletes a file of a run.
    ///
    /// # Errors
    /// [`Error::Api`] with status 400 where there is none. Not sent twice: the second would find
    /// none.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the file is there.
    pub async fn delete_artifact(
        &self,
        namespace: &str,
        run: RunUuid,
        path: &str,
    ) -> Result<(), Error> {
        let at = self.stream_path(namespace, &run.to_string(), "/artifact")?;
        let operation = Operation::delete("runs.delete_artifact", at).query("path", path);
        self.transport().send(operation).await.map(drop)
    }
}

/// Whether it is only that there is no such folder, as one that holds no file yet. Stores that are
/// disks say so in the words of the operating system, others by naming the path and nothing else.
fn says_missing(error: &str, run: RunUuid, folder: &str) -> bool {
    let reason = error
        .split_once(". Error ")
        .map_or(error, |(_, reason)| reason);
    let path = format!("{run}/{}", folder.trim_matches('/'));
    let path = path.trim_end_matches('/');
    let named = reason.trim_matches(['\'', '"', '/']);
    let above = named.strip_suffix(path);
    (reason.contains("No such file or directory") && reason.contains(path))
        || above.is_some_and(|above| !above.contains(char::is_whitespace))
}

/// The folder of a path, and the name in it.
fn split(path: &str) -> Result<(&str, &str), InvalidInput> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_step = |part: &str| part == ".." || part == ".";
    match name.is_empty() || path.starts_with('/') || path.split('/').any(is_step) {
        false => Ok((folder, name)),
        true => Err(InvalidInput::new(
            "path",
            format!("{path:?} is no path of a file below the run's folder"),
        )),
    }
}

fn unreadable(path: &Path, problem: &str) -> InvalidInput {
    InvalidInput::new("file", format!("{} {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_told_from_a_store_that_fails() {
        let run: RunUuid = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
        let table = [
            ("[Errno 2] No such file or directory: '/plx/RUN/a b'", true),
            ("bucket/plx/RUN/a b", true),
            ("'bucket/plx/RUN/a b/'", true),
            ("The specified bucket does not exist", false),
            ("[Errno 2] No such file or directory: '/etc/key'", false),
            ("[Errno 13] Permission denied: '/plx/RUN/a b'", false),
            ("no access to bucket/plx/RUN/a b", false),
            ("bucket/plx/RUN", false),
            ("Cannot connect to host store:9000", false),
            ("", false),
        ];
        for (reason, is_missing) in table {
            let error = format!("Could not list path RUN. Error {reason}");
            let error = error.replace("RUN", &run.to_string());
            assert_eq!(says_missing(&error, run, "a b"), is_missing, "{error}");
        }
        let own = format!("Could not list path {run}. Error bucket/{run}");
        assert!(says_missing(&own, run, ""));
    }
}
