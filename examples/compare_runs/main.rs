//! Compares candidates of one revision of a case set: all runs that have it among their inputs, as a
//! table, sorted by the output that failed its requirement.
//!
//!     cargo run --example compare_runs -- --local
//!
//! On a Polyaxon installation:
//!
//!     cargo run --example compare_runs -- --project OWNER/PROJECT --case-set-revision r7 \
//!         --requirement 'score>=0.9' --requirement 'timeout_rate<=0.05'

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod requirement;
mod sample;

use anyhow::Result;
use clap::Parser;
use examples::Place;
use polyaxon_client::ProjectRef;
use polyaxon_client::runs::{Column, Comparison, ListRuns, RunQuery, RunTable, Runs};
use requirement::Requirement;

/// Compares candidates of one revision of a case set.
#[derive(Parser)]
struct Flags {
    /// Start a control plane in this process, and put a few sample runs into it.
    #[arg(long, conflicts_with = "host")]
    local: bool,
    /// URL of a Polyaxon installation. Default: `POLYAXON_HOST`, or the configuration files.
    #[arg(long)]
    host: Option<String>,
    /// The project of the candidates.
    #[arg(long, value_name = "OWNER/PROJECT")]
    project: Option<ProjectRef>,
    /// The revision of the case set: the runs' input `case_set_revision`, as text.
    #[arg(long, default_value = sample::REVISION)]
    case_set_revision: String,
    /// What an output has to be, such as `score>=0.9`; can be given more than once. Default: the
    /// requirements of the sample runs.
    #[arg(long = "requirement", value_name = "OUTPUT>=NUMBER")]
    requirements: Vec<Requirement>,
    /// The output to sort by. Default: the one whose requirement most candidates fail.
    #[arg(long, value_name = "OUTPUT")]
    sort_by: Option<String>,
    /// Inputs to show beside the outputs.
    #[arg(long, value_delimiter = ',', default_value = "model,prompt_revision")]
    inputs: Vec<String>,
    /// Series of events whose last values to show.
    #[arg(long, value_delimiter = ',', default_value = "check_passed")]
    metrics: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let project = flags.project.as_ref();
    let place = match flags.local {
        true => Place::local(project).await?,
        false => Place::remote(flags.host.as_deref(), project)?,
    };
    let compared = async {
        if flags.local {
            sample::fill(&place.client, &place.project).await?;
        }
        compare(&place.client.runs(&place.project), &flags).await
    };
    let compared = compared.await;
    place.close().await?;
    compared
}

async fn compare(runs: &Runs, flags: &Flags) -> Result<()> {
    let requirements = match flags.requirements.is_empty() {
        true => sample::requirements()?,
        false => flags.requirements.clone(),
    };
    let mut outputs: Vec<&str> = Vec::new();
    let named = requirements.iter().map(Requirement::output);
    for output in named.chain(flags.sort_by.as_deref()) {
        if !outputs.contains(&output) {
            outputs.push(output);
        }
    }
    let candidates = RunQuery::new()
        .input("case_set_revision")
        .eq(&flags.case_set_revision);
    let columns = Comparison::new()
        .inputs(&flags.inputs)
        .metrics(&flags.metrics)
        .outputs(outputs);
    let list = ListRuns::new().matching(&candidates)?;
    let mut table = runs.compare(&list, &columns).await?;

    let failed = failed(&table, &requirements);
    sort(&mut table, flags.sort_by.as_deref(), &requirements);
    println!(
        "case set revision {}: {} candidates\n",
        flags.case_set_revision,
        table.rows().len()
    );
    print!("{table}");
    println!("\n{} fail a requirement:", failed.len());
    for line in failed {
        println!("  {line}");
    }
    Ok(())
}

/// The candidates that fail, a line each.
fn failed(table: &RunTable, requirements: &[Requirement]) -> Vec<String> {
    let rows = table.rows().iter().filter_map(|row| {
        let problems = requirements.iter().filter_map(|requirement| {
            let cell = table.cell(row, &requirement.column())?;
            (!requirement.is_met(cell)).then(|| format!("{requirement} but it is {cell}"))
        });
        let problems: Vec<String> = problems.collect();
        let id = row.run.uuid.to_string();
        let name = row.run.name.as_deref().unwrap_or(&id);
        (!problems.is_empty()).then(|| format!("{name}: {}", problems.join(", ")))
    });
    rows.collect()
}

/// The best first, by what was asked for, or by what most candidates fail.
fn sort(table: &mut RunTable, by: Option<&str>, requirements: &[Requirement]) {
    let fails = |requirement: &&Requirement| {
        let column = requirement.column();
        let cells = table
            .rows()
            .iter()
            .filter_map(|row| table.cell(row, &column));
        cells.filter(|cell| !requirement.is_met(cell)).count()
    };
    let found = match by {
        Some(output) => requirements.iter().find(|known| known.output() == output),
        None => requirements.iter().rev().max_by_key(fails),
    };
    match (found, by) {
        (Some(requirement), _) if requirement.smaller_is_better() => {
            table.sort_ascending(&requirement.column());
        }
        (Some(requirement), _) => table.sort_descending(&requirement.column()),
        (None, Some(output)) => table.sort_descending(&Column::Output(output.to_owned())),
        (None, None) => {}
    }
}
