//! A run of a server, brought into a folder.

use std::path::{Path, PathBuf};

use polyaxon_client::{Client, RunRef};
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;

use crate::blocking::blocking;
use crate::error::Error;
use crate::files;
use crate::outputs;
use crate::time;
use crate::writer::{LINEAGES, RECORD};

/// Brings a run of a server into the folder `root/runs/UUID`: its record, its lineage, its files,
/// in the form of a run that was tracked there. Files that are there already are replaced, others
/// are left alone. The record comes last: a folder without one is not complete.
///
/// # Errors
/// [`Error::Client`] where the server does not know the run or cannot be reached;
/// [`Error::Io`] where a file cannot be written; [`Error::InvalidPath`] where the server names a
/// file that is not below the folder.
///
/// # Cancel safety
/// Dropping the future leaves a folder that is not complete. Another pull completes it.
///
/// # Examples
/// ```
/// use polyaxon_client::{Client, Config, RunRef, Token};
/// use polyaxon_tracking::{TrackedRun, Tracking, pull, read_metric_series};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
/// # let client = Client::new(&config)?;
/// # let project = server.project().clone();
/// let tracking = Tracking::new(&client, &project).folder(folder.path().join("run"));
/// let run = TrackedRun::start(tracking).await?;
/// run.log_metric(1, "loss", 0.5)?;
/// run.end().await?.ensure_complete()?;
///
/// let pulled = pull(&client, &RunRef::new(project, run.uuid()), folder.path()).await?;
/// let loss = read_metric_series(pulled.join("events/metric/loss.plx"))?;
/// assert_eq!(loss.last().map(|point| point.value), Some(0.5));
/// # Ok(())
/// # }
/// ```
pub async fn pull(client: &Client, run: &RunRef, root: impl AsRef<Path>) -> Result<PathBuf, Error> {
    let runs = client.runs(&run.project);
    let folder = root.as_ref().join("runs").join(run.run.to_string());
    let record = runs.record(run.run).await?;
    let conditions = runs.conditions(run.run).await?;
    let lineages = runs.lineage_values(run.run).await?;
    let namespace = record
        .get("settings")
        .and_then(|settings| settings.get("namespace"))
        .and_then(Value::as_str)
        .unwrap_or("polyaxon")
        .to_owned();
    let sizes = runs.artifact_sizes(&namespace, run.run).await?;
    make(&folder).await?;
    for path in sizes.keys() {
        let place = outputs::below(&folder, Path::new(path))?;
        if let Some(parent) = place.parent() {
            make(parent).await?;
        }
        let mut download = runs.artifact(&namespace, run.run, path).await?;
        let failed = |error| Error::io("write", &place)(error);
        let (file, name) = new_file(&place).await?;
        let mut file = tokio::fs::File::from_std(file);
        while let Some(bytes) = download.chunk().await? {
            file.write_all(&bytes).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        drop(file);
        let target = place.clone();
        let named = blocking(move || name.persist(target)).await?;
        named.map_err(|error| failed(error.error))?;
    }
    let lineages = lineages.into_iter().map(|record| match record {
        Value::Object(members) => without_nulls(members).into(),
        other => other,
    });
    let lineages: Vec<Value> = lineages.collect();
    if !lineages.is_empty() {
        write(&folder.join(LINEAGES), &Value::from(lineages)).await?;
    }
    write(&folder.join(RECORD), &local_form(record, conditions)).await?;
    Ok(folder)
}

async fn make(folder: &Path) -> Result<(), Error> {
    let made = tokio::fs::create_dir_all(folder).await;
    made.map_err(Error::io("create", folder))
}

/// A file beside `place`, to be named so once it is whole.
async fn new_file(place: &Path) -> Result<(std::fs::File, tempfile::TempPath), Error> {
    let folder = place.parent().unwrap_or(Path::new(".")).to_owned();
    let made = blocking(move || files::temporary(&folder)).await?;
    made.map(tempfile::NamedTempFile::into_parts)
        .map_err(Error::io("create", place))
}

async fn write(path: &Path, json: &Value) -> Result<(), Error> {
    let (place, json) = (path.to_owned(), json.to_string());
    let written = blocking(move || files::replace_for_good(&place, json.as_bytes())).await?;
    written.map_err(Error::io("write", path))
}

/// The record as a run's folder has it: no members without a value, times with an offset, and the
/// history of its statuses.
fn local_form(record: Map<String, Value>, conditions: Vec<Value>) -> Value {
    let mut record = without_nulls(record);
    // What the platform itself is made of; inputs, outputs and other members are free.
    if let Some(Value::Object(settings)) = record.get_mut("settings") {
        *settings = without_nulls(std::mem::take(settings));
    }
    for (name, value) in &mut record {
        let instant = value.as_str().filter(|_| name.ends_with("_at"));
        if let Some(instant) = instant.and_then(time::read) {
            *value = time::iso(instant).into();
        }
    }
    record.insert("status_conditions".to_owned(), conditions.into());
    record.into()
}

/// The members that have a value.
fn without_nulls(mut members: Map<String, Value>) -> Map<String, Value> {
    members.retain(|_, value| !value.is_null());
    members
}
