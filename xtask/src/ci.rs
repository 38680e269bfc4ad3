//! `cargo xtask ci`: what a change has to pass beside the tests.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::step::{self, cargo, root};
use crate::tidy;

/// The published crates, each with every set of features that it is used with. Built one by one:
/// in a build of the whole workspace the features of all its members come together.
const CRATES: [(&str, &[&str]); 5] = [
    ("polyaxon-client", &[]),
    ("polyaxon-sandbox", &[]),
    ("polyaxon-tracking", &[]),
    ("polyaxon-local", &[]),
    (
        "agent-loop",
        &["polyaxon", "openai", "tools", "tracking", "cli"],
    ),
];

pub(crate) fn run() -> Result<()> {
    step::run("format", &mut cargo(&["fmt", "--all", "--check"])?)?;
    step::run(
        "lints, all features",
        &mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ])?,
    )?;
    for (name, features) in CRATES {
        let sets: [&[&str]; 2] = [&[], &["--no-default-features"]];
        for set in sets {
            lint(name, set)?;
        }
        for feature in features {
            lint(name, &["--no-default-features", "--features", feature])?;
        }
    }
    step::run(
        "docs",
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"])?
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    tidy::run()?;
    // Whether they run, not how fast.
    step::run(
        "benches, each once",
        &mut cargo(&[
            "bench",
            "-p",
            "polyaxon-benches",
            "--profile",
            "dev",
            "--",
            "--test",
        ])?,
    )?;
    examples()
}

fn lint(name: &str, flags: &[&str]) -> Result<()> {
    let mut arguments = vec!["clippy", "--all-targets", "-p", name];
    arguments.extend(flags);
    arguments.extend(["--", "-D", "warnings"]);
    let title = format!(
        "lints, {name} {}",
        if flags.is_empty() {
            "by default".to_owned()
        } else {
            flags.join(" ")
        }
    );
    step::run(&title, &mut cargo(&arguments)?)
}

/// Runs the examples as the README says, and looks at what they left.
fn examples() -> Result<()> {
    let out = root()?.join("target/xtask/agent-output");
    fresh(&out)?;
    let out_text = out.to_str().context("the path of target/ is not UTF-8")?;
    step::run(
        "example coding_agent",
        &mut cargo(&[
            "run",
            "--quiet",
            "--example",
            "coding_agent",
            "--",
            "--local",
            "--allow-checks",
            "--out",
            out_text,
        ])?,
    )?;
    let outcome: Value = serde_json::from_str(&std::fs::read_to_string(out.join("outcome.json"))?)?;
    let state = outcome
        .pointer("/acceptance/state")
        .and_then(Value::as_str)
        .unwrap_or("nothing");
    ensure!(
        state == "accepted",
        "coding_agent ended with 0, and outcome.json says {state}"
    );

    let out = root()?.join("target/xtask/receipt-output");
    fresh(&out)?;
    let out_text = out.to_str().context("the path of target/ is not UTF-8")?;
    step::run(
        "example record_receipt",
        &mut cargo(&[
            "run",
            "--quiet",
            "--example",
            "record_receipt",
            "--",
            "--local",
            "--out",
            out_text,
        ])?,
    )?;

    let out = root()?.join("target/xtask/evaluation-output");
    fresh(&out)?;
    evaluate(&out)?;

    let local = |name, flags: &[&str]| {
        let mut arguments = vec!["run", "--quiet", "--example", name, "--", "--local"];
        arguments.extend(flags);
        step::run(&format!("example {name}"), &mut cargo(&arguments)?)
    };
    compare_runs()?;
    local("stream", &[])?;
    local("transfer", &[])?;
    let handle = root()?.join("target/xtask/background.json");
    if handle.exists() {
        std::fs::remove_file(&handle)?;
    }
    let handle = handle
        .to_str()
        .context("the path of target/ is not UTF-8")?;
    local("background", &["--handle", handle])?;
    tool_call()?;

    // It needs a terminal, which its test has; each wait in it has a limit.
    let build = [
        "build",
        "--quiet",
        "-p",
        "examples",
        "--example",
        "terminal",
    ];
    step::run("example terminal, built", &mut cargo(&build)?)?;
    let test = ["test", "--quiet", "-p", "examples", "--test", "terminal"];
    step::run("example terminal, in a terminal", &mut cargo(&test)?)
}

/// Six calls, of which two are executed: what was answered, and what the tracked run holds.
fn tool_call() -> Result<()> {
    let out = root()?.join("target/xtask/tool-output");
    fresh(&out)?;
    let folder = out.to_str().context("the path of target/ is not UTF-8")?;
    let arguments = ["run", "--quiet", "--example", "tool_call", "--", "--local"];
    let mut command = cargo(&arguments)?;
    step::run("example tool_call", command.args(["--out", folder]))?;
    let text = std::fs::read_to_string(out.join("answers.jsonl"))?;
    let answers: Vec<Value> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<serde_json::Result<_>>()?;
    let said = |index: usize, member: &str| {
        let answer = answers.get(index).and_then(|answer| answer.get(member));
        answer
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let outcomes: Vec<String> = (0..answers.len()).map(|at| said(at, "outcome")).collect();
    let expected = "succeeded succeeded refused refused refused rejected";
    ensure!(outcomes.join(" ") == expected, "tool_call: {outcomes:?}");
    let summary = "5 rows; amount: 4 numbers, 1 missing, mean 152.5, minimum 80";
    ensure!(
        said(0, "summary") == summary,
        "tool_call: {}",
        said(0, "summary")
    );
    ensure!(
        answers.first() == answers.get(1),
        "the same request got another answer"
    );
    let mut executed = 0;
    for run in std::fs::read_dir(out.join("offline/runs"))? {
        let receipts = run?.path().join("outputs/receipts");
        for step in 1..=answers.len() {
            let receipt = std::fs::read_to_string(receipts.join(format!("step-{step}.json")))?;
            let receipt: Value = serde_json::from_str(&receipt)?;
            executed += usize::from(receipt.get("exit_code").is_some());
        }
    }
    ensure!(
        executed == 2,
        "{executed} commands were executed, and not 2"
    );
    Ok(())
}

/// The example that compares runs, and what it has to say about its samples.
fn compare_runs() -> Result<()> {
    let command = [
        "run",
        "--quiet",
        "--example",
        "compare_runs",
        "--",
        "--local",
    ];
    let said = step::said("example compare_runs", &mut cargo(&command)?)?;
    let lines: Vec<&str> = said.lines().collect();
    let rows = lines
        .iter()
        .skip(2)
        .map_while(|line| line.split_whitespace().next());
    let rows: Vec<&str> = rows.collect();
    // The best by the output that failed most comes first, and what has no value last.
    let want = [
        "run",
        "no-timeouts",
        "short-prompt",
        "larger-model",
        "baseline",
        "crashed",
    ];
    ensure!(rows == want, "compare_runs shows the rows {rows:?}");
    let failed = "  baseline: timeout_rate<=0.05 but it is 0.2";
    ensure!(
        lines.contains(&failed),
        "compare_runs does not say:{failed}"
    );
    Ok(())
}

/// Four cases with both candidates; its test runs the whole suite.
fn evaluate(out: &Path) -> Result<()> {
    let out_text = out.to_str().context("the path of target/ is not UTF-8")?;
    let cases = "clamp,gcd-order,leap-year,range-sum";
    let mut arguments = vec!["run", "--quiet", "--example", "evaluate", "--", "--local"];
    arguments.extend(["--allow-checks", "--only", cases, "--out", out_text]);
    step::run("example evaluate", &mut cargo(&arguments)?)?;
    let report: Value = serde_json::from_str(&std::fs::read_to_string(out.join("report.json"))?)?;
    let passes = |at: &str| report.pointer(at).and_then(Value::as_u64);
    let seen = ["/candidates/0/counts/pass", "/candidates/1/counts/pass"].map(passes);
    ensure!(
        seen == [Some(4), Some(1)],
        "the candidates have passed {seen:?} of 4 cases, and not 4 and 1"
    );
    Ok(())
}

fn fresh(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
