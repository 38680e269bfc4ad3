//! Series of events of one run, or of many.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::api::Runs;
use crate::error::Error;
use crate::ids::RunUuid;
use crate::transport::Operation;

/// A series of events of a run, column by column.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct EventSeries {
    /// Its name, as the platform stores it.
    pub name: String,
    /// Its kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// `timestamp`, where there are any `step`, and the kind's own column, of one length.
    #[serde(default)]
    pub data: Map<String, Value>,
}

impl EventSeries {
    /// The column of the series' own kind as numbers, in the order in which they were logged. What
    /// is not a number, or infinite, comes as `None`: the platform does not tell them apart.
    #[must_use]
    pub fn values(&self) -> Vec<Option<f64>> {
        let column = self.kind.as_deref().unwrap_or("metric");
        self.column(column).iter().map(Value::as_f64).collect()
    }

    /// The steps, `None` where there is none.
    #[must_use]
    pub fn steps(&self) -> Vec<Option<i64>> {
        // The platform makes floats of them where one is missing.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a step that is no integer was none"
        )]
        let step = |value: &Value| {
            value
                .as_i64()
                .or_else(|| value.as_f64().map(|step| step as i64))
        };
        self.column("step").iter().map(step).collect()
    }

    /// A column of the table.
    #[must_use]
    pub fn column(&self, name: &str) -> &[Value] {
        let column = self.data.get(name).and_then(Value::as_array);
        column.map_or(&[], Vec::as_slice)
    }
}

impl Runs {
    /// Series of a run, by their stored names; those without events are left out, and the order is
    /// not that of `names`. `kind` is `metric` for numbers.
    ///
    /// # Errors
    /// [`Error::Api`]: 404 where there is no such run, 400 for a kind that there is not, 500 of the
    /// community server where a file holds no events yet.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn events<N: AsRef<str>>(
        &self,
        namespace: &str,
        run: RunUuid,
        kind: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<EventSeries>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            data: Vec<EventSeries>,
        }
        let path = self.stream_path(namespace, &run.to_string(), &format!("/events/{kind}"))?;
        let operation = series(Operation::get("runs.events", path), names);
        let answer: Answer = self.transport().send(operation).await?.json()?;
        Ok(answer.data)
    }

    /// Series of many runs at once. A run that is not known has none.
    ///
    /// # Errors
    /// As [`events`](Self::events).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn events_of_runs<N: AsRef<str>>(
        &self,
        namespace: &str,
        runs: &[RunUuid],
        kind: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<BTreeMap<RunUuid, Vec<EventSeries>>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            data: BTreeMap<RunUuid, Vec<EventSeries>>,
        }
        if runs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let path = self.stream_path(namespace, "multi", &format!("/events/{kind}"))?;
        let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
        let operation = Operation::get("runs.events_of_runs", path).query("runs", runs.join(","));
        let answer: Answer = self
            .transport()
            .send(series(operation, names))
            .await?
            .json()?;
        Ok(answer.data)
    }

    /// How busy the machine was that the run was on: all series of it.
    ///
    /// # Errors
    /// As [`events`](Self::events).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn resources(
        &self,
        namespace: &str,
        run: RunUuid,
    ) -> Result<Vec<EventSeries>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            data: Vec<EventSeries>,
        }
        let path = self.stream_path(namespace, &run.to_string(), "/resources")?;
        let operation = Operation::get("runs.resources", path)
            .query("orient", "dict")
            .query("force", "true");
        let answer: Answer = self.transport().send(operation).await?.json()?;
        Ok(answer.data)
    }
}

fn series<N: AsRef<str>>(operation: Operation, names: impl IntoIterator<Item = N>) -> Operation {
    let names: Vec<N> = names.into_iter().collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    operation
        .query("names", names.join(","))
        .query("orient", "dict")
        // Else the server can answer from a copy that it made when the series was read last.
        .query("force", "true")
}
