//! What is settled before and after a run is created, so that a start that fails leaves none behind
//! that nobody knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polyaxon_client::RunUuid;
use polyaxon_client::runs::{RunStatus, Runs, StatusCondition};

use crate::blocking::blocking;
use crate::error::Error;
use crate::files;
use crate::record::RunRecord;
use crate::writer::RECORD;

/// Finds out whether a run can have its files in this folder. Leaves nothing in it.
pub(crate) async fn check(folder: PathBuf, run: Option<RunUuid>) -> Result<(), Error> {
    blocking(move || {
        RunRecord::check(&folder, &folder.join(RECORD), run)?;
        try_to_write(&folder)
    })
    .await?
}

fn try_to_write(folder: &Path) -> Result<(), Error> {
    let is_there = folder.exists();
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let written = files::temporary(folder).map(drop);
    if !is_there {
        // One that stays, because somebody else uses it by now, is no harm.
        drop(fs::remove_dir(folder));
    }
    written.map_err(Error::io("write", folder))
}

/// A run that this process has created on the server, and has not started yet.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) runs: Runs,
    pub(crate) run: RunUuid,
}

/// How long the server is asked to take the status of a run that could not be started.
const LIMIT: Duration = Duration::from_secs(5);

impl Created {
    /// Records it as failed, as far as that is possible, and names it in the error.
    pub(crate) async fn failed(self, error: Error) -> Error {
        let (reason, message) = ("NotStarted".to_owned(), with_causes(&error));
        let condition = StatusCondition::now(RunStatus::Failed, Some(reason), Some(message));
        let posted = self.runs.log_status(self.run, &condition);
        match tokio::time::timeout(LIMIT, posted).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(run = %self.run, %error, "a run that was not started has no status");
            }
            Err(_) => tracing::warn!(run = %self.run, "a run that was not started has no status"),
        }
        Error::NotStarted {
            run: self.run,
            source: Box::new(error),
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
