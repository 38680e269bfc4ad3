//! What becomes of runs that are there: ended, put away, made again.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Runs;
use super::model::{LiveState, Run};
use crate::error::{Error, InvalidInput};
use crate::ids::{ProjectRef, RunUuid};
use crate::transport::Operation;

/// What a run that is made from another has of its own. What is not said is as it was.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::RunAgain;
///
/// let again = RunAgain::new().name("second-try").meta("attempt", 2).copy_dir("outputs/model");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[must_use = "a RunAgain does nothing until it is passed to `restart`, `copy` or `resume`"]
pub struct RunAgain {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    meta_info: Map<String, Value>,
    #[serde(skip)]
    files: Vec<String>,
    #[serde(skip)]
    dirs: Vec<String>,
}

impl RunAgain {
    /// The same again.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this laid over the operation: `{"params": {"seed": {"value": 7}}}`.
    pub fn content(mut self, content: &Value) -> Self {
        self.content = Some(content.to_string());
        self
    }

    /// With this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// With this description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With this tag. The first one replaces those that the run had.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// With this member of `meta_info`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta_info.insert(key.into(), value.into());
        self
    }

    /// Compiles the operation as it was sent once more, instead of taking what it was compiled to.
    pub fn recompile(self) -> Self {
        self.meta("recompile", true)
    }

    /// Begins with a copy of this file: a path below the folder of the run that is copied.
    pub fn copy_file(mut self, path: impl Into<String>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Begins with a copy of this folder: a path below the folder of the run that is copied.
    pub fn copy_dir(mut self, path: impl Into<String>) -> Self {
        self.dirs.push(path.into());
        self
    }

    /// The body of a copy of `run`.
    fn copied_from(&self, run: RunUuid) -> Result<Self, InvalidInput> {
        let mut body = self.clone();
        let mut copied = Map::new();
        for (name, paths) in [("files", &self.files), ("dirs", &self.dirs)] {
            let below = paths.iter().map(|path| below(run, path));
            let below = below.collect::<Result<Vec<Value>, _>>()?;
            if !below.is_empty() {
                copied.insert(name.to_owned(), below.into());
            }
        }
        if !copied.is_empty() {
            body.meta_info
                .insert("copy_artifacts".to_owned(), copied.into());
        }
        Ok(body)
    }

    fn without_copies(&self) -> Result<&Self, InvalidInput> {
        match self.files.is_empty() && self.dirs.is_empty() {
            true => Ok(self),
            false => Err(InvalidInput::new(
                "artifacts",
                "only a copy begins with some",
            )),
        }
    }
}

/// A path as the platform has it: with the run before it.
fn below(run: RunUuid, path: &str) -> Result<Value, InvalidInput> {
    let mut steps = path.split('/');
    match path.is_empty() || steps.any(|step| matches!(step, "" | "." | "..")) {
        false => Ok(format!("{run}/{path}").into()),
        true => Err(InvalidInput::new(
            "artifacts",
            format!("{path:?} is no path below the run's folder"),
        )),
    }
}

/// What is done to many runs with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Many {
    /// As [`Runs::stop`].
    Stop,
    /// As [`Runs::skip`].
    Skip,
    /// As [`Runs::approve`].
    Approve,
    /// As [`Runs::invalidate`].
    Invalidate,
    /// As [`Runs::archive`].
    Archive,
    /// As [`Runs::restore`].
    Restore,
    /// As [`Runs::delete`].
    Delete,
}

impl Runs {
    /// Ends a run that nothing was started for yet as skipped. The platform answers with success
    /// where something was, and then does nothing: its status says what became of it.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is skipped.
    pub async fn skip(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.skip", run, "/skip").await
    }

    /// Lets no other run take this one for its own: it is no hit of the cache any more.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether that is so.
    pub async fn invalidate(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.invalidate", run, "/invalidate").await
    }

    /// Takes a run out of the lists. One that has not ended is stopped by that.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is archived.
    pub async fn archive(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.archive", run, "/archive").await
    }

    /// Puts an archived run back into the lists. Its status stays what archiving has made of it.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is back.
    pub async fn restore(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.restore", run, "/restore").await
    }

    /// Deletes a run: no list has it any more. [`get`](Self::get) still finds it for a while, with
    /// the status that it had, also where that is `running`: stop it first, and wait for its end.
    /// [`is_gone`](Self::is_gone) says whether it is deleted.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there never was such a run. Harmless to repeat, and
    /// repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is deleted.
    pub async fn delete(&self, run: RunUuid) -> Result<(), Error> {
        let operation = Operation::delete("runs.delete", self.path_of(run, "")).harmless();
        self.transport().send(operation).await.map(drop)
    }

    /// Whether a run is in no list any more: archived, deleted, or not known at all.
    ///
    /// # Errors
    /// [`Error::Api`] but for the status 404, [`Error::Transport`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn is_gone(&self, run: RunUuid) -> Result<bool, Error> {
        match self.get(run).await {
            Ok(run) => Ok(run.live_state.is_some_and(|state| state != LiveState::Live)),
            Err(error) if error.status() == Some(http::StatusCode::NOT_FOUND) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Moves a run to another project of the same owner.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a project of another owner; [`Error::Api`] with status 400 where
    /// there is no such project. Not sent twice: the second would not find the run here.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which project has the run.
    pub async fn transfer(&self, run: RunUuid, to: &ProjectRef) -> Result<(), Error> {
        if to.owner() != self.project().owner() {
            let problem = format!("{to} has another owner than {}", self.project());
            return Err(InvalidInput::new("project", problem).into());
        }
        let operation = Operation::post("runs.transfer", self.path_of(run, "/transfer"));
        let operation = operation.json(&serde_json::json!({"project": to.name()}))?;
        self.transport().send(operation).await.map(drop)
    }

    /// Makes a new run of the operation of this one. Its `original` names this one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where files are to be copied; [`Error::Api`] with status 400 for a
    /// run without an operation. Never sent twice, as twice would be two runs.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a run behind whose id nobody knows.
    pub async fn restart(&self, run: RunUuid, again: &RunAgain) -> Result<Run, Error> {
        self.again("runs.restart", run, "/restart", again.without_copies()?)
            .await
    }

    /// Makes a new run of the operation of this one, that begins with its files: those that `again`
    /// names, else all.
    ///
    /// The platform copies when the new run starts; that a file is not there is not noticed before.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a path that leads out of the run's folder; else as
    /// [`restart`](Self::restart).
    ///
    /// # Cancel safety
    /// As [`restart`](Self::restart).
    pub async fn copy(&self, run: RunUuid, again: &RunAgain) -> Result<Run, Error> {
        self.again("runs.copy", run, "/copy", &again.copied_from(run)?)
            .await
    }

    /// Lets a run that has ended go on, under its own id. Its inputs are those that the operation
    /// declares again, and its `finished_at` and `duration` stay what they were until it ends anew.
    ///
    /// # Errors
    /// [`Error::Api`] with status 400 where it has not ended, or has no operation;
    /// [`Error::InvalidInput`] where files are to be copied. Not sent twice.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run goes on.
    pub async fn resume(&self, run: RunUuid, again: &RunAgain) -> Result<Run, Error> {
        self.again("runs.resume", run, "/resume", again.without_copies()?)
            .await
    }

    /// Does the same to many runs at once. Runs that are not in this project are passed over
    /// without a word.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open to which runs it was done.
    pub async fn many(&self, what: Many, runs: &[RunUuid]) -> Result<(), Error> {
        if runs.is_empty() {
            return Ok(());
        }
        let (name, word) = match what {
            Many::Stop => ("runs.stop_many", "stop"),
            Many::Skip => ("runs.skip_many", "skip"),
            Many::Approve => ("runs.approve_many", "approve"),
            Many::Invalidate => ("runs.invalidate_many", "invalidate"),
            Many::Archive => ("runs.archive_many", "archive"),
            Many::Restore => ("runs.restore_many", "restore"),
            Many::Delete => ("runs.delete_many", "delete"),
        };
        let path = format!("{}/{word}", self.path());
        let operation = match what {
            Many::Delete => Operation::delete(name, path),
            _ => Operation::post(name, path),
        };
        let operation = operation
            .harmless()
            .json(&serde_json::json!({"uuids": runs}))?;
        self.transport().send(operation).await.map(drop)
    }

    /// Asks for what can be asked for more than once.
    pub(super) async fn ask(
        &self,
        name: &'static str,
        run: RunUuid,
        rest: &str,
    ) -> Result<(), Error> {
        let operation = Operation::post(name, self.path_of(run, rest)).harmless();
        self.transport().send(operation).await.map(drop)
    }

    async fn again(
        &self,
        name: &'static str,
        run: RunUuid,
        rest: &str,
        again: &RunAgain,
    ) -> Result<Run, Error> {
        let operation = Operation::post(name, self.path_of(run, rest)).json(again)?;
        self.transport().send(operation).await?.json()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_copy_names_its_files_with_the_run_and_nothing_outside_of_it() {
        let run: RunUuid = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
        let again = RunAgain::new()
            .name("n")
            .content(&json!({"tags": []}))
            .copy_file("outputs/a.txt")
            .copy_dir("events");
        let body = serde_json::to_value(again.copied_from(run).unwrap()).unwrap();
        let want = json!({"name": "n", "content": "{\"tags\":[]}", "meta_info": {"copy_artifacts": {
            "files": [format!("{run}/outputs/a.txt")], "dirs": [format!("{run}/events")]}}});
        assert_eq!(body, want);
        for path in ["", "/etc", "a/../../b", "a//b", "."] {
            let error = RunAgain::new().copy_dir(path).copied_from(run).unwrap_err();
            assert_eq!(error.field(), "artifacts", "{path:?}");
        }
        again.without_copies().unwrap_err();
        let plain = RunAgain::new();
        assert_eq!(
            serde_json::to_value(plain.without_copies().unwrap()).unwrap(),
            json!({})
        );
        assert_eq!(
            serde_json::to_value(plain.copied_from(run).unwrap()).unwrap(),
            json!({})
        );
    }
}
