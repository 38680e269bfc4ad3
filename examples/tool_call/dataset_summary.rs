//! The tool: a summary of a data set, by its identifier.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use agent_loop::tools::schemars::{self, JsonSchema};
use agent_loop::tools::{
    Contract, Evaluation, InputId, Limits, Refusal, ResolvedInputs, Tool, ToolCommand,
};
use serde::{Deserialize, Serialize};

const PROGRAM: &str = include_str!("fixture/summary.py");
const RESULT: &str = "summary.json";
/// The most columns of a call.
const MOST_COLUMNS: usize = 8;

/// Columns of a data set, to be summarised.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The data set.
    dataset: InputId,
    /// The columns to summarise, 1 to 8 of them.
    #[schemars(length(min = 1, max = 8))]
    columns: Vec<String>,
    /// What to say of each, beside how many numbers there are.
    #[serde(default)]
    statistics: Vec<Statistic>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Statistic {
    Minimum,
    Maximum,
    Mean,
}

/// What the program writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Summary {
    rows: u64,
    columns: BTreeMap<String, Column>,
    unknown: Vec<String>,
}

#[derive(Deserialize)]
struct Column {
    count: u64,
    missing: u64,
    #[serde(flatten)]
    statistics: BTreeMap<String, Option<f64>>,
}

/// Summarises columns of an approved data set.
pub(crate) struct DatasetSummary;

impl Tool for DatasetSummary {
    type Arguments = Arguments;
    type Result = Summary;

    fn contract(&self) -> Contract {
        let limits = Limits::default()
            .request_bytes(2 * 1024)
            .deadline(Duration::from_secs(20))
            .result_bytes(64 * 1024);
        Contract::new(
            "dataset_summary",
            "Counts and simple statistics of columns of a data set.",
        )
        .callers(["analyst"])
        .limits(limits)
        .repeatable()
    }

    fn inputs<'a>(&self, arguments: &'a Arguments) -> Vec<&'a InputId> {
        vec![&arguments.dataset]
    }

    fn command(
        &self,
        arguments: &Arguments,
        inputs: &ResolvedInputs,
    ) -> Result<ToolCommand, Refusal> {
        let count = arguments.columns.len();
        if !(1..=MOST_COLUMNS).contains(&count) {
            return Err(Refusal::new(format!(
                "{count} columns were asked for; 1 to {MOST_COLUMNS} can be"
            )));
        }
        let request = serde_json::json!({
            "columns": arguments.columns,
            "statistics": arguments.statistics,
        });
        let folder = inputs.path(&arguments.dataset)?;
        // A program of ours with fixed arguments; what the model says goes to its input.
        let command = ToolCommand::new(["python3", "-I", "-B", "summary.py", folder, RESULT])
            .file("summary.py", PROGRAM)?
            .stdin(request.to_string())
            .result_file(RESULT)?;
        Ok(command)
    }

    fn evaluate(&self, arguments: &Arguments, result: Summary) -> Evaluation {
        if !result.unknown.is_empty() {
            let unknown = result.unknown.join(", ");
            return Evaluation::reject(format!("the data set has no column {unknown}"));
        }
        // That the program ended with 0 is no proof that it has done its work.
        for name in &arguments.columns {
            let counted = result
                .columns
                .get(name)
                .map(|column| column.count + column.missing);
            if counted != Some(result.rows) {
                return Evaluation::reject(format!("column {name} was not counted to its end"));
            }
        }
        let mut summary = format!("{} rows", result.rows);
        for (name, column) in &result.columns {
            // Writing to a String cannot fail.
            let _ = write!(
                summary,
                "; {name}: {} numbers, {} missing",
                column.count, column.missing
            );
            for (statistic, value) in &column.statistics {
                let _ = match value {
                    Some(value) => write!(summary, ", {statistic} {value}"),
                    None => write!(summary, ", {statistic} unknown"),
                };
            }
        }
        Evaluation::accept(summary)
    }
}
