//! Runs a suite of small repairs with several candidates, a sandbox for each, and compares them.
//!
//!     cargo run --example evaluate -- --local --allow-checks --out evaluation-output
//!
//! Press Ctrl-C, or kill it, and run it again: what is finished is not run again. With a language
//! model and a Polyaxon installation:
//!
//!     cargo run --example evaluate -- --project OWNER/PROJECT --allow-checks \
//!         --model-url URL --model NAME

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod candidates;
mod flags;
mod show;

use std::process::ExitCode;
use std::sync::Arc;

use agent_loop::evaluation::{
    Again, Candidate, Evaluation, Metric, Requirement, Suite, SuiteReport,
};
use agent_loop::workspace::SandboxWorkspaces;
use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use examples::Place;
use polyaxon_sandbox::SandboxSpec;
use serde_json::json;

use flags::Flags;
use show::Show;

const MISUSE: u8 = 2;
const INFRASTRUCTURE: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.allow_checks {
        eprintln!(
            "nothing was run: checks execute code that a model wrote, with the authority of a \
             sandbox. Say --allow-checks to allow the checks of the suite."
        );
        return ExitCode::from(MISUSE);
    }
    let prepared = suite(&flags).and_then(|suite| Ok((suite, candidates::choose(&flags)?)));
    let (suite, (candidates, about)) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(MISUSE);
        }
    };
    println!("candidates: {about}");
    match run(&flags, suite, candidates).await {
        Ok(report) => ExitCode::from(report.exit_code()),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(INFRASTRUCTURE)
        }
    }
}

fn suite(flags: &Flags) -> Result<Suite> {
    let suite = Suite::load(&flags.suite)?;
    if flags.only.is_empty() {
        return Ok(suite);
    }
    if let Some(id) = flags.only.iter().find(|id| suite.case(id).is_none()) {
        bail!("--only {id}: the suite has no such case");
    }
    let chosen = suite.only(|case| flags.only.iter().any(|id| id == case.id()));
    chosen.map_err(|cases| anyhow::anyhow!("none of the {cases} cases is left"))
}

async fn run(flags: &Flags, suite: Suite, candidates: Vec<Candidate>) -> Result<SuiteReport> {
    let project = flags.place.project.as_ref();
    let place = match flags.place.local {
        true => Place::local(project).await?,
        false => Place::remote(flags.place.host.as_deref(), project)?,
    };
    if place.server.is_some() {
        println!(
            "sandbox service: in this process, a development double and no boundary against \
             hostile code"
        );
    }
    let spec = sandbox(&flags.place.image);
    let sandboxes = SandboxWorkspaces::new(place.client.clone(), place.project.clone(), spec);
    let result = evaluate(flags, suite, candidates, sandboxes).await;
    let closed = place.close().await;
    let report = result?;
    closed?;
    Ok(report)
}

/// A sandbox for every try and every independent verification.
fn sandbox(image: &str) -> SandboxSpec {
    let component = json!({
        // What code under test does not need is not there.
        "plugins": {"auth": false, "mountArtifactsStore": false},
        "run": {"kind": "service", "container": {"image": image}},
    });
    SandboxSpec::from_content(json!({"component": component})).name("evaluation")
}

async fn evaluate(
    flags: &Flags,
    suite: Suite,
    candidates: Vec<Candidate>,
    sandboxes: SandboxWorkspaces,
) -> Result<SuiteReport> {
    let show = Arc::new(Show::new());
    let tell = Arc::clone(&show);
    let mut evaluation = Evaluation::new(suite, sandboxes, &flags.out)
        .allow_checks(flags.allow_checks)
        .parallel(flags.parallel)
        .coverage_bound(flags.coverage)
        .again(match flags.again {
            true => Again::NotEvaluated,
            false => Again::Never,
        })
        .on_progress(move |progress| tell.tell(progress))
        .cancel_on(async {
            // Without the signal there is nothing to wait for.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        });
    if let Some(share) = flags.pass_rate {
        evaluation = evaluation.require(Requirement::new(Metric::PassRate, share));
    }
    for candidate in candidates {
        evaluation = evaluation.candidate(candidate);
    }
    let report = evaluation.run().await.context("the evaluation")?;
    show.done();
    print!("{report}");
    for comparison in report.comparisons() {
        match comparison {
            Ok(comparison) => print!("{comparison}"),
            Err(why) => println!("no comparison: {why}"),
        }
    }
    if let Some((requirement, worst_first)) = report.first_unmet() {
        let names: Vec<_> = worst_first.iter().map(|one| one.name.as_str()).collect();
        println!(
            "not met: {requirement}; the worst first: {}",
            names.join(", ")
        );
    }
    println!("report: {}", flags.out.join("report.html").display());
    Ok(report)
}
