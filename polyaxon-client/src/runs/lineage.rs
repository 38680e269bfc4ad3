//! What a run read and made.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api::Runs;
use crate::error::{Error, InvalidInput};
use crate::ids::RunUuid;
use crate::transport::Operation;

/// One thing that a run read or made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LineageRecord {
    /// Its name, one a run and state.
    pub name: String,
    /// Its kind, in the platform's words: `metric`, `file`, `model`.
    pub kind: String,
    /// Where it is: below the run's folder, or elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is known of it: a hash, the range of steps, statistics.
    #[serde(default)]
    pub summary: Value,
    /// Whether the run read it.
    #[serde(default)]
    pub is_input: Option<bool>,
    /// Equal where the data is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The run, as its id or as its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Free members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_info: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    results: Vec<Value>,
}

/// How many records are asked for at once. The platform's own client asks for so many.
const PAGE: usize = 5000;

impl Runs {
    /// Adds records to the lineage of a run: all of them, or none. One of the same name and state
    /// is replaced.
    ///
    /// Each is an object with `name`, `kind`, `summary` and what else the platform knows; it
    /// refuses members that it does not.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether they are there.
    pub async fn log_lineage(&self, run: RunUuid, records: &[Value]) -> Result<(), Error> {
        let body = serde_json::json!({"artifacts": records});
        let path = self.path_of(run, "/lineage/artifacts");
        let operation = Operation::post("runs.log_lineage", path).harmless();
        self.transport()
            .send(operation.json(&body)?)
            .await
            .map(drop)
    }

    /// The lineage of a run.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such run; [`Error::Decode`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lineage(&self, run: RunUuid) -> Result<Vec<LineageRecord>, Error> {
        let records = self.lineage_values(run).await?;
        let read = |record| {
            serde_json::from_value(record).map_err(|error| Error::Decode {
                operation: "runs.lineage",
                at: "results".to_owned(),
                source: Box::new(error),
            })
        };
        records.into_iter().map(read).collect()
    }

    /// The lineage of a run as the server has it, members included that this crate does not know.
    ///
    /// # Errors
    /// As [`lineage`](Self::lineage).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lineage_values(&self, run: RunUuid) -> Result<Vec<Value>, Error> {
        let mut records = Vec::new();
        loop {
            let path = self.path_of(run, "/lineage/artifacts");
            let mut operation =
                Operation::get("runs.lineage", path).query("limit", PAGE.to_string());
            if !records.is_empty() {
                operation = operation.query("offset", records.len().to_string());
            }
            let page: Page = self.transport().send(operation).await?.json()?;
            let count = page.results.len();
            records.extend(page.results);
            if count < PAGE {
                return Ok(records);
            }
        }
    }

    /// One record of a run's lineage.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name that cannot be part of a path; [`Error::Api`] with
    /// status 404 where there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lineage_record(&self, run: RunUuid, name: &str) -> Result<LineageRecord, Error> {
        let path = self.path_of(run, &record_path(name)?);
        let operation = Operation::get("runs.lineage_record", path);
        self.transport().send(operation).await?.json()
    }

    /// Takes a record out of a run's lineage. The file that it names stays.
    ///
    /// # Errors
    /// As [`lineage_record`](Self::lineage_record). Not sent twice: the second would find none.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the record is there.
    pub async fn delete_lineage(&self, run: RunUuid, name: &str) -> Result<(), Error> {
        let path = self.path_of(run, &record_path(name)?);
        let operation = Operation::delete("runs.delete_lineage", path);
        self.transport().send(operation).await.map(drop)
    }
}

/// Names with a slash have no path, encoded or not.
fn record_path(name: &str) -> Result<String, InvalidInput> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(format!("/lineage/artifacts/{name}")),
        false => Err(InvalidInput::new(
            "name",
            format!("{name:?} is not made of letters, digits, `-` and `_`"),
        )),
    }
}
