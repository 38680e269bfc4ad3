//! Records what a command in a sandbox did, in a tracked run: inputs, a receipt file with its
//! reference, metrics. No output of the command is kept.
//!
//!     cargo run --example record_receipt -- --local
//!
//! Against a running sandbox of a Polyaxon installation:
//!
//!     SANDBOX_RUN_UUID=… AGENT_TASK_ID=… cargo run --example record_receipt -- --project OWNER/PROJECT
//!
//! The run is tracked on the same server, in the same project: as a new run, or in a pod as the
//! pod's. What the server then has of it is read back. With `--offline` it stays in a folder, which
//! the Polyaxon command line can push.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use examples::{OpenSandbox, Place, SandboxFlags};
use polyaxon_client::RunUuid;
use polyaxon_sandbox::Exec;
use polyaxon_tracking::{ArtifactRef, TrackedRun, Tracking, read_metric_series};
use serde_json::{Value, json};

/// Executes a small calculation in a sandbox and records the receipt.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    sandbox: SandboxFlags,
    /// The task that the command belongs to.
    #[arg(long, env = "AGENT_TASK_ID", default_value = "fixture-total")]
    task_id: String,
    /// Keep the tracked run in a folder and send it nowhere.
    #[arg(long)]
    offline: bool,
    /// Where the files of the tracked run are.
    #[arg(long, default_value = "receipt-output")]
    out: PathBuf,
}

/// What is measured.
const METRICS: [&str; 3] = [
    "command_duration_ms",
    "command_timed_out",
    "fixture_matches",
];

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let open = flags.sandbox.open("record-receipt").await?;
    let recorded = record(&open, &flags).await;
    open.close().await?;
    recorded
}

/// Where the run is tracked. In a pod, its run is the one that this program records.
fn tracking(place: &Place, flags: &Flags) -> Result<Tracking> {
    if flags.offline {
        return Ok(Tracking::offline(&flags.out));
    }
    if std::env::var_os("POLYAXON_IS_MANAGED").is_some() && !flags.sandbox.local {
        return Ok(Tracking::from_env()?);
    }
    // Two runs with one folder would mix their files.
    let folder = flags.out.join(RunUuid::random().to_string());
    Ok(Tracking::new(&place.client, &place.project).folder(folder))
}

async fn record(open: &OpenSandbox, flags: &Flags) -> Result<()> {
    let (place, sandbox) = (&open.place, &open.sandbox);
    let run = TrackedRun::start(tracking(place, flags)?.name("record-receipt")).await?;
    let sandbox_run = sandbox.run_uuid().to_string();
    run.log_inputs([
        ("task_id", json!(flags.task_id)),
        ("sandbox_run_uuid", json!(sandbox_run)),
    ])?;

    sandbox
        .ping()
        .await
        .context("the sandbox does not answer")?;
    let exec =
        Exec::new(["python3", "-c", "print(sum([2, 3, 5]))"]).timeout(Duration::from_secs(10));
    let result = sandbox.process().exec(&exec).await?;
    let matches = result.stdout.text().is_ok_and(|text| text.trim() == "10");

    let facts = result.receipt();
    let receipt = json!({
        "task_id": flags.task_id,
        "sandbox_run_uuid": sandbox_run,
        "step": 1,
        "tool": "calculate_fixture_total",
        "exit_code": facts.exit_code,
        "duration_ms": facts.duration_ms,
        "timed_out": facts.timed_out,
        "stdout_truncated": facts.stdout_truncated,
        "stderr_truncated": facts.stderr_truncated,
        "fixture_matches": matches,
    });
    let path = run.outputs_path("receipts/step-1.json")?;
    std::fs::write(&path, serde_json::to_vec_pretty(&receipt)?)?;
    run.log_artifact_ref(ArtifactRef::file(&path).name("command-receipt"))?;
    let truth = |yes: bool| if yes { 1.0 } else { 0.0 };
    run.log_metrics(
        1,
        METRICS.into_iter().zip([
            result.duration.as_secs_f64() * 1000.0,
            truth(facts.timed_out),
            truth(matches),
        ]),
    )?;
    let folder = run.path().to_owned();
    let report = run.end().await?.ensure_complete()?;
    println!("run: {}", run.uuid());
    println!("receipt: {}", path.display());
    println!("{} metric values written", report.written());

    println!("metrics, read back:");
    for name in METRICS {
        let series = read_metric_series(folder.join(format!("events/metric/{name}.plx")))?;
        let point = series
            .last()
            .with_context(|| format!("{name} was not written"))?;
        println!(
            "  {name} = {} (step {})",
            point.value,
            point.step.unwrap_or_default()
        );
    }
    // In a pod, the platform collects the files when it gets to it.
    if report.sent() > 0 && std::env::var_os("POLYAXON_IS_MANAGED").is_none() {
        read_back(place, run.uuid(), &receipt).await?;
    }
    ensure!(matches, "the command did not print 10");
    Ok(())
}

/// What the server has: the metrics, the lineage of the receipt, and the receipt itself.
async fn read_back(place: &Place, run: RunUuid, receipt: &Value) -> Result<()> {
    let runs = place.client.runs(&place.project);
    let found = runs.get(run).await?;
    let namespace = found.namespace().unwrap_or("polyaxon");
    println!("on the server:");
    for series in runs.events(namespace, run, "metric", METRICS).await? {
        println!("  {} = {:?}", series.name, series.values());
    }
    let record = runs.lineage_record(run, "command-receipt").await?;
    let path = record.path.context("the receipt has no path")?;
    println!("  {} is {} ({})", record.name, path, record.kind);
    let mut download = runs.artifact(namespace, run, &path).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = download.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    let there: Value = serde_json::from_slice(&bytes)?;
    ensure!(
        there == *receipt,
        "another receipt is on the server: {there}"
    );
    Ok(())
}
