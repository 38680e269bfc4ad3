//! Runs beside each other: what went in, what was measured, what came out.

mod table;

use std::collections::{BTreeMap, HashMap};

use futures::TryStreamExt as _;
use serde_json::Value;

use super::{EventSeries, ListRuns, Run, Runs};
use crate::error::Error;
use crate::ids::RunUuid;
pub use table::{Cell, Column, RunRow, RunTable};

/// How many runs' series are asked for with one call: their ids are in its URL.
const AT_ONCE: usize = 50;

/// Which columns a comparison has.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::Comparison;
///
/// let columns = Comparison::new()
///     .inputs(["model"])
///     .metrics(["check_passed"])
///     .outputs(["score", "timeout_rate"]);
/// let names: Vec<String> = columns.columns().iter().map(ToString::to_string).collect();
/// assert_eq!(names, ["inputs.model", "metrics.check_passed", "outputs.score", "outputs.timeout_rate"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a Comparison does nothing until it is passed to `compare`"]
pub struct Comparison {
    columns: Vec<Column>,
}

impl Comparison {
    /// No columns yet. A row always has the run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column.
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Adds inputs, a column each.
    pub fn inputs<N: Into<String>>(self, keys: impl IntoIterator<Item = N>) -> Self {
        let columns = keys.into_iter().map(|key| Column::Input(key.into()));
        self.with(columns)
    }

    /// Adds the last values of series of events, a column each. The last is the one of the highest
    /// step, and of those the one that was logged last; where no event has a step, the one that was
    /// logged last.
    pub fn metrics<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let columns = names.into_iter().map(|name| Column::Metric(name.into()));
        self.with(columns)
    }

    /// Adds outputs, a column each.
    pub fn outputs<N: Into<String>>(self, keys: impl IntoIterator<Item = N>) -> Self {
        let columns = keys.into_iter().map(|key| Column::Output(key.into()));
        self.with(columns)
    }

    /// The columns, in their order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn with(mut self, columns: impl Iterator<Item = Column>) -> Self {
        self.columns.extend(columns);
        self
    }
}

impl Runs {
    /// The runs of a list as a table, a row each, in the order of the list. Series are asked for with
    /// one call for 50 runs.
    ///
    /// # Errors
    /// As [`list`](Self::list). Series of a run that the server fails to read are no error of the
    /// comparison: its cells say so.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// use polyaxon_client::runs::{Column, Comparison, CreateRun, ListRuns};
    /// # use polyaxon_client::{Client, Config, Token};
    /// # use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
    /// # let runs = Client::new(&config)?.runs(server.project());
    /// for (name, score) in [("a", json!(0)), ("b", json!(0.75)), ("c", json!(null))] {
    ///     let run = runs.create(&CreateRun::unmanaged().name(name)).await?.uuid;
    ///     runs.update(run, json!({"outputs": {"score": score}}).as_object().unwrap()).await?;
    /// }
    /// runs.create(&CreateRun::unmanaged().name("d")).await?;
    ///
    /// let columns = Comparison::new().outputs(["score"]);
    /// let mut table = runs.compare(&ListRuns::new(), &columns).await?;
    /// table.sort_descending(&Column::Output("score".to_owned()));
    /// let shown = table.to_string();
    /// let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    /// assert!(lines[0].starts_with("run  status"));
    /// assert!(lines[1].starts_with("b") && lines[1].ends_with("0.75"));
    /// assert!(lines[2].starts_with("a") && lines[2].ends_with("   0"));
    /// assert!(lines[3].starts_with("c") && lines[3].ends_with("null"));
    /// assert!(lines[4].starts_with("d") && lines[4].ends_with("   -"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compare(
        &self,
        list: &ListRuns,
        comparison: &Comparison,
    ) -> Result<RunTable, Error> {
        let runs: Vec<Run> = self.stream(list).try_collect().await?;
        let metrics: Vec<&str> = comparison
            .columns
            .iter()
            .filter_map(|column| match column {
                Column::Metric(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let last = match metrics.is_empty() {
            true => HashMap::new(),
            false => self.last_values(&runs, &metrics).await?,
        };
        let rows = runs.into_iter().map(|run| {
            let cells = comparison.columns.iter().map(|column| match column {
                Column::Input(key) => Cell::of(run.inputs.as_ref(), key),
                Column::Output(key) => Cell::of(run.outputs.as_ref(), key),
                Column::Metric(name) => match last.get(&run.uuid) {
                    Some(Ok(values)) => values.get(name).cloned().unwrap_or(Cell::Missing),
                    Some(Err(why)) => Cell::Unreadable(why.clone()),
                    None => Cell::Missing,
                },
            });
            let cells = cells.collect();
            RunRow { run, cells }
        });
        let rows = rows.collect();
        Ok(RunTable::new(comparison.columns.clone(), rows))
    }

    /// The last values of series by run and name, or why they cannot be read.
    async fn last_values(
        &self,
        runs: &[Run],
        names: &[&str],
    ) -> Result<HashMap<RunUuid, Result<BTreeMap<String, Cell>, String>>, Error> {
        let mut values = HashMap::new();
        let Some(first) = runs.first() else {
            return Ok(values);
        };
        let namespace = match first.namespace() {
            Some(namespace) => namespace.to_owned(),
            None => self.namespace(first.uuid).await?,
        };
        for some in runs.chunks(AT_ONCE) {
            let ids: Vec<RunUuid> = some.iter().map(|run| run.uuid).collect();
            match self.events_of_runs(&namespace, &ids, "metric", names).await {
                Ok(series) => {
                    values.extend(
                        series
                            .into_iter()
                            .map(|(run, series)| (run, Ok(ends(series)))),
                    );
                }
                // One file that cannot be read fails the answer for all: which one, each can say.
                Err(error) if is_of_the_server(&error) => {
                    for run in ids {
                        let series = match self.events(&namespace, run, "metric", names).await {
                            Ok(series) => Ok(ends(series)),
                            Err(error) if is_of_the_server(&error) => Err(error.to_string()),
                            Err(error) => return Err(error),
                        };
                        values.insert(run, series);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(values)
    }
}

/// Whether the server failed, and was neither out of reach nor asked for what it refuses.
fn is_of_the_server(error: &Error) -> bool {
    error
        .status()
        .is_some_and(|status| status.is_server_error())
}

/// The last value of each series.
fn ends(series: Vec<EventSeries>) -> BTreeMap<String, Cell> {
    let ends = series.into_iter().filter_map(|series| {
        let steps = series.steps();
        let values = series.values();
        let at = (0..values.len()).max_by_key(|at| (steps.get(*at).copied().flatten(), *at))?;
        let cell = match values.get(at).copied().flatten() {
            Some(number) => Cell::Value(number.into()),
            None => Cell::NotFinite,
        };
        Some((series.name, cell))
    });
    ends.collect()
}

impl Cell {
    fn of(map: Option<&Value>, key: &str) -> Self {
        match map.and_then(|map| map.get(key)) {
            Some(value) => Self::Value(value.clone()),
            None => Self::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_value_is_that_of_the_highest_step() {
        let table = [
            (
                json!({"step": [0, 1, 2], "metric": [1.0, 2.0, 3.0]}),
                Cell::Value(json!(3.0)),
            ),
            (
                json!({"step": [5, 1, 2], "metric": [1.0, 2.0, 3.0]}),
                Cell::Value(json!(1.0)),
            ),
            (
                json!({"step": [2, 2, 1], "metric": [1.0, 2.0, 3.0]}),
                Cell::Value(json!(2.0)),
            ),
            (
                json!({"step": [null, null], "metric": [1.0, 0.0]}),
                Cell::Value(json!(0.0)),
            ),
            (
                json!({"step": [0.0, null], "metric": [1.0, 2.0]}),
                Cell::Value(json!(1.0)),
            ),
            (json!({"metric": [1.0, 2.0]}), Cell::Value(json!(2.0))),
            (
                json!({"step": [0, 1], "metric": [1.0, null]}),
                Cell::NotFinite,
            ),
        ];
        for (data, want) in table {
            let series = json!({"name": "loss", "kind": "metric", "data": data});
            let series: EventSeries = serde_json::from_value(series).unwrap();
            assert_eq!(ends(vec![series]).get("loss"), Some(&want), "{data}");
        }
        let none = json!({"name": "loss", "kind": "metric", "data": {"step": [], "metric": []}});
        assert_eq!(
            ends(vec![serde_json::from_value(none).unwrap()]),
            BTreeMap::new()
        );
    }
}
