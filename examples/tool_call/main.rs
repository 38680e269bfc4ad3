//! Calls of a tool, as a model could make them: those that are allowed are carried out in a
//! sandbox, once, and those that are not are refused.
//!
//!     cargo run --example tool_call -- --local --out tool-output
//!
//! In a running sandbox of a Polyaxon installation:
//!
//!     SANDBOX_RUN_UUID=… cargo run --example tool_call -- --project OWNER/PROJECT --out tool-output
//!
//! Below `--out` are `receipts`, by which no call is carried out twice; `offline`, the controller's
//! own tracked run; and `answers.jsonl`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod dataset_summary;

use std::path::PathBuf;
use std::sync::Arc;

use agent_loop::tools::{
    ApprovedInputs, Bundle, Controller, Receipts, Session, Tenant, ToolCall, ToolOutcome,
};
use agent_loop::tracking::TrackedCalls;
use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use dataset_summary::DatasetSummary;
use examples::SandboxFlags;
use polyaxon_sandbox::SandboxClient;
use polyaxon_tracking::{TrackedRun, Tracking};

const ORDERS: &str = include_str!("fixture/orders.csv");

/// What the run of the sandbox is here.
const SESSION: &str = "The run of the sandbox that belongs to the session. It has to be running, \
                       with python3";

/// Makes a few calls of a tool.
#[derive(Parser)]
#[command(mut_arg("run_uuid", |run| run.help(SESSION)))]
struct Flags {
    #[command(flatten)]
    sandbox: SandboxFlags,
    /// Where receipts, answers and the tracked run are kept. Where it has those of an earlier run,
    /// that run's answers are given again, and nothing is executed.
    #[arg(long, default_value = "tool-output")]
    out: PathBuf,
}

/// What a model could ask for, by which request id, and what has to come of it.
const CALLS: [(&str, &str, &str, ToolOutcome); 6] = [
    (
        "task-1.1",
        "dataset_summary",
        r#"{"dataset": "orders", "columns": ["amount"], "statistics": ["minimum", "mean"]}"#,
        ToolOutcome::Succeeded,
    ),
    // Once more, as after a lost connection: the answer is known, and nothing is executed.
    (
        "task-1.1",
        "dataset_summary",
        r#"{"dataset": "orders", "columns": ["amount"], "statistics": ["minimum", "mean"]}"#,
        ToolOutcome::Succeeded,
    ),
    // There is such a data set, and it is another tenant's.
    (
        "task-1.2",
        "dataset_summary",
        r#"{"dataset": "payroll", "columns": ["amount"]}"#,
        ToolOutcome::Refused,
    ),
    // Which run it is, the session says.
    (
        "task-1.3",
        "dataset_summary",
        r#"{"dataset": "orders", "columns": ["amount"], "run_uuid": "8aac02e3a62a4f0aaa257c59da5eab80"}"#,
        ToolOutcome::Refused,
    ),
    (
        "task-1.4",
        "shell",
        r#"{"command": "cat /etc/passwd"}"#,
        ToolOutcome::Refused,
    ),
    (
        "task-1.5",
        "dataset_summary",
        r#"{"dataset": "orders", "columns": ["colour"]}"#,
        ToolOutcome::Rejected,
    ),
];

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    println!("model: scripted calls, no language model");
    let open = flags.sandbox.open("tool-call").await?;
    let called = call_all(&open.sandbox, &flags).await;
    open.close().await?;
    called
}

async fn call_all(sandbox: &SandboxClient, flags: &Flags) -> Result<()> {
    // What an application knows of whoever has logged in.
    let tenant = Tenant::new("acme");
    let session = Session::open(tenant.clone(), sandbox.clone())
        .await
        .context("the sandbox does not answer")?
        .role("analyst");

    let receipts = Receipts::open(flags.out.join("receipts"))
        .with_context(|| format!("--out {} cannot hold receipts", flags.out.display()))?;
    let inputs = ApprovedInputs::new()
        .approve(
            tenant,
            "orders".parse()?,
            Bundle::new().file("data.csv", ORDERS)?,
        )
        .approve(Tenant::new("other"), "payroll".parse()?, Bundle::new());
    let controller = Controller::new(receipts)
        .tool(DatasetSummary)?
        .inputs(inputs);
    let tracking = Tracking::offline(flags.out.join("offline")).name("tool-controller");
    let run = Arc::new(TrackedRun::start(tracking).await?);
    let tracked = TrackedCalls::new(Arc::clone(&run), controller.definitions_digest());
    let controller = controller.observer(tracked.clone());
    for tool in controller.definitions(&session) {
        println!("tool: {} {}", tool.name, tool.parameters);
    }

    let mut answers = String::new();
    for (request, tool, arguments, expected) in CALLS {
        println!("{request}: {tool} {arguments}");
        let call = ToolCall::new(request.parse()?, tool, arguments);
        let answer = controller.call(&session, &call).await;
        let line = serde_json::to_string(&answer)?;
        println!("  {line}");
        answers += &line;
        answers.push('\n');
        ensure!(answer.outcome == expected, "{request} should be {expected}");
    }
    std::fs::write(flags.out.join("answers.jsonl"), answers)?;
    tracked.finish()?;
    let report = run.end().await?.ensure_complete()?;
    println!(
        "tracked: {} ({} values)",
        run.path().display(),
        report.written()
    );
    Ok(())
}
