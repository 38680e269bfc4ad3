//! A run that was tracked in a folder, sent to a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyaxon_client::runs::{Runs, Upload};
use polyaxon_client::{Client, ProjectRef, RunRef, RunUuid};
use serde_json::{Map, Value};

use crate::blocking::blocking;
use crate::error::Error;
use crate::report::{Sending, Unsent};
use crate::sender::{Seen, files_below};
use crate::sent::Notebook;
use crate::writer::{LINEAGES, RECORD};

/// A folder of a run, and as what it is sent.
///
/// # Examples
/// ```
/// use polyaxon_client::{Client, Config, Token};
/// use polyaxon_tracking::{Push, TrackedRun, Tracking, push};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let run = TrackedRun::start(Tracking::offline(folder.path())).await?;
/// run.log_metric(1, "loss", 0.5)?;
/// run.end().await?.ensure_complete()?;
///
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
/// # let client = Client::new(&config)?;
/// # let project = server.project();
/// let folder = Push::new(run.path()).project(project.clone());
/// let pushed = push(&client, &folder).await?;
/// assert_eq!((pushed.run().run, pushed.files()), (run.uuid(), 1));
/// // Again: what is there is not sent twice.
/// let again = push(&client, &folder).await?;
/// assert_eq!((again.files(), again.kept()), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Push does nothing until it is passed to `push`"]
pub struct Push {
    folder: PathBuf,
    project: Option<ProjectRef>,
    uuid: Option<RunUuid>,
    name: Option<String>,
    everything: bool,
}

impl Push {
    /// The folder of a run, with its `run.plx.json`, whoever wrote it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            project: None,
            uuid: None,
            name: None,
            everything: false,
        }
    }

    /// To this project. Default: the one that the folder names.
    pub fn project(mut self, project: ProjectRef) -> Self {
        self.project = Some(project);
        self
    }

    /// As another run. Default: the one that the folder names.
    pub fn run(mut self, uuid: RunUuid) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Under another name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sends all files, those too that were sent before and have not changed since: where the
    /// server's copies are not what was sent.
    pub fn everything(mut self) -> Self {
        self.everything = true;
        self
    }
}

/// What came of a push.
#[derive(Debug)]
#[must_use = "what was not sent is said here and nowhere else"]
pub struct Pushed {
    run: RunRef,
    files: usize,
    kept: usize,
    refused: Vec<Unsent>,
}

impl Pushed {
    /// The run on the server.
    #[must_use]
    pub fn run(&self) -> &RunRef {
        &self.run
    }

    /// How many files were sent.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    /// How many files the server had already, as they are now: from an earlier push, or from the
    /// run itself.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// What the server did not take, and files that cannot be read here: the cause says which. Everything
    /// else was sent.
    #[must_use]
    pub fn refused(&self) -> &[Unsent] {
        &self.refused
    }
}

/// Sends the folder of a run to a server: its record, its lineage where it has one, its files.
///
/// It can be repeated, after it was broken off too: a run that is there already gets what is
/// missing. Nothing is deleted, here or there.
///
/// A file is left out only where it was sent before, by a push or by the run itself, to the same
/// server and run, has not changed since (its size and its time of change), and is there in that
/// size. What was sent is noted in the folder's `sent.plx.json`. Where that is missing, because the
/// process of the run was killed or the folder cannot be written to, all files are sent.
///
/// # Errors
/// [`Error::Io`] and [`Error::Metadata`] where the folder holds no run; [`Error::Surroundings`]
/// where nobody names a project; [`Error::Client`] where the server cannot be reached or refuses
/// the run. One file that it fails on holds up no other: those are sent before the error. Where it
/// fails on two in a row, none is sent any more.
///
/// # Cancel safety
/// Dropping the future leaves a part of the run on the server. Another push completes it.
pub async fn push(client: &Client, push: &Push) -> Result<Pushed, Error> {
    let folder = Folder::read(push).await?;
    let runs = client.runs(&folder.project);
    let run = folder.uuid;
    let is_new = match runs.sync(&Value::from(folder.record.clone())).await {
        Ok(()) => true,
        // There already, or brought there by a try whose answer was lost. Else it is no use.
        Err(error) => match runs.get(run).await {
            Ok(_) => false,
            Err(_) => return Err(error.into()),
        },
    };
    let mut refused = Vec::new();
    if !is_new {
        refused.extend(folder.complete_record(&runs).await?);
    }
    if !folder.lineages.is_empty() {
        let sent = runs.log_lineage(run, &folder.lineages).await;
        let names = || Sending::Lineage(folder.lineages.iter().filter_map(name_of).collect());
        refused.extend(refusal(sent, names)?);
    }
    let found = runs.get(run).await?;
    let namespace = found.namespace().unwrap_or("polyaxon");
    let there = match is_new || push.everything {
        true => std::collections::BTreeMap::new(),
        false => runs.artifact_sizes(namespace, run).await?,
    };
    let (mut files, mut kept) = (0, 0);
    // The first failure that can pass, and whether the last file failed so.
    let (mut failure, mut has_failed) = (None, false);
    let mut notebook = Notebook::open(&push.folder, &runs, run);
    for (path, seen) in folder.files {
        // By the size alone a file cannot be told from an older one.
        if there.get(&path) == Some(&seen.size()) && notebook.has(&path, seen) {
            kept += 1;
            continue;
        }
        let upload = Upload::new(push.folder.join(&path), path.as_str());
        let sent = runs.upload(namespace, run, &upload).await;
        match refusal(sent, || Sending::File(path.clone())) {
            Ok(None) => {
                files += 1;
                notebook.add(&path, seen);
            }
            Ok(Some(unsent)) => refused.push(unsent),
            // It can be this file's fault alone.
            Err(error) if !has_failed => {
                has_failed = true;
                failure.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(failure.unwrap_or(error)),
        }
        has_failed = false;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(Pushed {
        run: RunRef::new(folder.project, run),
        files,
        kept,
        refused,
    })
}

/// A folder as it was read.
struct Folder {
    record: Map<String, Value>,
    lineages: Vec<Value>,
    project: ProjectRef,
    uuid: RunUuid,
    files: Vec<(String, Seen)>,
}

impl Folder {
    async fn read(push: &Push) -> Result<Self, Error> {
        let folder = push.folder.clone();
        let read = move || -> Result<_, Error> {
            let record: Map<String, Value> = read_json(&folder.join(RECORD))?
                .ok_or_else(|| Error::io("read", &folder.join(RECORD))(missing()))?;
            let lineages: Vec<Value> = read_json(&folder.join(LINEAGES))?.unwrap_or_default();
            let files = files_below(&folder);
            Ok((record, lineages, files))
        };
        let (mut record, lineages, files) = blocking(read).await??;
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        let project = match (&push.project, text("project")) {
            (Some(project), _) => project.clone(),
            (None, None) => {
                return Err(Error::Surroundings {
                    variable: "the project".to_owned(),
                    problem: "is named neither here nor in the folder".to_owned(),
                });
            }
            (None, Some(name)) => {
                let owner = text("owner").unwrap_or(ProjectRef::DEFAULT_OWNER);
                let project = ProjectRef::new(owner, name);
                project.map_err(polyaxon_client::Error::from)?
            }
        };
        let uuid = match push.uuid {
            Some(uuid) => uuid,
            None => {
                let uuid = text("uuid").unwrap_or_default().parse();
                uuid.map_err(polyaxon_client::Error::from)?
            }
        };
        let mut set = |name: &str, value: String| record.insert(name.to_owned(), value.into());
        set("uuid", uuid.to_string());
        set("owner", project.owner().to_owned());
        set("project", project.name().to_owned());
        if let Some(name) = &push.name {
            set("name", name.clone());
        }
        Ok(Self {
            record,
            lineages,
            project,
            uuid,
            files,
        })
    }

    /// Gives a run that is there already what its record lacks: members that are missing or other,
    /// and statuses that it never had.
    async fn complete_record(&self, runs: &Runs) -> Result<Vec<Unsent>, Error> {
        const MEMBERS: [&str; 7] = [
            "name",
            "description",
            "readme",
            "tags",
            "inputs",
            "outputs",
            "meta_info",
        ];
        let mut refused = Vec::new();
        let members = MEMBERS.iter().filter_map(|name| {
            let value = self.record.get(*name).filter(|value| !value.is_null())?;
            Some(((*name).to_owned(), value.clone()))
        });
        let mut patch: Map<String, Value> = members.collect();
        if !patch.is_empty() {
            let names: Vec<String> = patch.keys().cloned().collect();
            patch.insert("merge".to_owned(), true.into());
            let sent = runs.update(self.uuid, &patch).await;
            refused.extend(refusal(sent, || Sending::Record(names))?);
        }
        let known = runs.conditions(self.uuid).await?;
        let is_known = |condition: &Value| {
            let kind = condition.get("type");
            known.iter().any(|known| known.get("type") == kind)
        };
        let ours = self.record.get("status_conditions");
        let ours = ours.and_then(Value::as_array).into_iter().flatten();
        for condition in ours.filter(|condition| !is_known(condition)) {
            let sent = runs.log_condition(self.uuid, condition).await;
            let status = condition.get("type").cloned().unwrap_or_default();
            let status = serde_json::from_value(status);
            let status = status.unwrap_or(polyaxon_client::runs::RunStatus::Unknown);
            refused.extend(refusal(sent, || Sending::Status(status))?);
        }
        Ok(refused)
    }
}

/// What the server refused for good is noted; where it cannot be reached, it is no use to go on.
fn refusal(
    sent: Result<(), polyaxon_client::Error>,
    what: impl FnOnce() -> Sending,
) -> Result<Option<Unsent>, Error> {
    match sent {
        Ok(()) => Ok(None),
        Err(error) if error.is_retryable() => Err(error.into()),
        Err(error) => Ok(Some(Unsent {
            what: what(),
            cause: Some(Arc::new(error)),
        })),
    }
}

fn name_of(record: &Value) -> Option<String> {
    Some(record.get("name")?.as_str()?.to_owned())
}

fn missing() -> std::io::Error {
    std::io::ErrorKind::NotFound.into()
}

/// What a file holds; `None` where there is none.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|source| Error::Metadata {
        path: path.to_owned(),
        source,
    })
}
