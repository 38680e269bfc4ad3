//! Writing the record of a run that the platform does not run itself.

use serde_json::{Map, Value};

use super::api::Runs;
use super::model::StatusCondition;
use crate::error::Error;
use crate::ids::RunUuid;
use crate::transport::Operation;

impl Runs {
    /// Changes members of a run's record: `name`, `description`, `readme`, `tags`, `inputs`,
    /// `outputs`, `meta_info`. With `merge: true` in the body, what is there already is kept, at
    /// the top level of the maps; else it is replaced.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the change is made.
    pub async fn update(&self, run: RunUuid, change: &Map<String, Value>) -> Result<(), Error> {
        let operation = Operation::patch("runs.update", self.path_of(run, "")).harmless();
        let sent = self.transport().send(operation.json(change)?).await;
        sent.map(drop)
    }

    /// Gives a run a status. The platform answers with success where it ignores it too: after a
    /// final status, and where the run is stopping and this one is not final.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated: the same status again is one entry.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run has the status.
    pub async fn log_status(&self, run: RunUuid, condition: &StatusCondition) -> Result<(), Error> {
        let condition = serde_json::to_value(condition).unwrap_or_default();
        self.log_condition(run, &condition).await
    }

    /// As [`log_status`](Self::log_status), with the condition as the wire has it.
    ///
    /// # Errors
    /// As [`log_status`](Self::log_status).
    ///
    /// # Cancel safety
    /// As [`log_status`](Self::log_status).
    pub async fn log_condition(&self, run: RunUuid, condition: &Value) -> Result<(), Error> {
        let body = serde_json::json!({"condition": condition});
        let operation = Operation::post("runs.log_status", self.path_of(run, "/statuses"));
        let sent = self.transport().send(operation.harmless().json(&body)?);
        sent.await.map(drop)
    }

    /// Brings a run to the server that was tracked elsewhere: its whole record, `uuid` and
    /// `created_at` included.
    ///
    /// # Errors
    /// [`Error::Api`] with status 400 where a run with this id is there already, which it also is
    /// where the answer to an earlier try was lost. Not sent twice.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is there.
    pub async fn sync(&self, record: &Value) -> Result<(), Error> {
        let operation = Operation::post("runs.sync", format!("{}/sync", self.path()));
        let sent = self.transport().send(operation.json(record)?).await;
        sent.map(drop)
    }

    /// The whole record of a run as the server has it, members included that this crate does not
    /// know.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn record(&self, run: RunUuid) -> Result<Map<String, Value>, Error> {
        let operation = Operation::get("runs.record", self.path_of(run, ""));
        self.transport().send(operation).await?.json()
    }

    /// The history of a run's statuses as the server has it.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn conditions(&self, run: RunUuid) -> Result<Vec<Value>, Error> {
        #[derive(serde::Deserialize)]
        struct Answer {
            #[serde(default)]
            status_conditions: Option<Vec<Value>>,
        }
        let operation = Operation::get("runs.statuses", self.path_of(run, "/statuses"));
        let answer: Answer = self.transport().send(operation).await?.json()?;
        Ok(answer.status_conditions.unwrap_or_default())
    }

    /// Whether the server is the open-source edition.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Transport`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn is_community_server(&self) -> Result<bool, Error> {
        #[derive(serde::Deserialize)]
        struct Installation {
            #[serde(default)]
            dist: Option<String>,
        }
        let operation = Operation::get("installation", "/api/v1/installation");
        let installation: Installation = self.transport().send(operation).await?.json()?;
        Ok(installation.dist.as_deref() == Some("ce"))
    }
}
