//! A coding agent that repairs a small amount parser in a Polyaxon sandbox, and accepts a change
//! only where exactly these bytes passed the checks.
//!
//!     cargo run --example coding_agent -- --local --allow-checks --out agent-output
//!
//! A task of your own, with a language model:
//!
//!     cargo run --example coding_agent -- --local --allow-checks --model-url URL --model NAME \
//!         --task DIR --editable FILE --check 'python3 -m unittest -q'
//!
//! With a language model and a Polyaxon installation:
//!
//!     cargo run --example coding_agent -- --project OWNER/PROJECT --queue AGENT/QUEUE \
//!         --model-url URL --model NAME --allow-checks --out agent-output

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod flags;
mod models;
mod show;
mod tasks;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_loop::policy::{ActionKind, Rules, TerminalApprover};
use agent_loop::workspace::{SandboxWorkspace, StopState};
use agent_loop::{Attempt, Budget, Model, Outcome, RunDir, StopAtEnd, Workspace as _};
use anyhow::{Context as _, Result};
use clap::Parser as _;
use examples::Place;
use polyaxon_client::runs::Wait;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use serde_json::json;
use tokio::sync::watch;

use flags::Flags;
use tasks::Job;

/// How long the workspace lives whatever becomes of this program.
const LIFE_LIMIT: Duration = Duration::from_secs(1800);
/// How long to wait for it to be ready.
const READY_LIMIT: Duration = Duration::from_secs(600);
/// How long to wait for the answer to a stop request.
const STOP_LIMIT: Duration = Duration::from_secs(15);

const MISUSE: u8 = 2;
const INFRASTRUCTURE: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.allow_checks {
        eprintln!(
            "no check was run: checks execute code that a model wrote, with the authority of the \
             sandbox. Say --allow-checks to allow the supplied check command."
        );
        return ExitCode::from(MISUSE);
    }
    let prepared = models::choose(&flags).and_then(|model| {
        let job = Job::of(&flags)?;
        let folder = RunDir::create(&flags.out)
            .with_context(|| format!("--out {} cannot hold the evidence", flags.out.display()))?;
        Ok((model, job, folder))
    });
    let ((model, about), job, folder) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(MISUSE);
        }
    };
    println!("model: {about}");
    let project = flags.place.project.as_ref();
    let (place, status) = match flags.place.local {
        true => (Place::local(project).await, INFRASTRUCTURE),
        // Nothing is sent yet: what fails here are the flags and settings.
        false => (Place::remote(flags.place.host.as_deref(), project), MISUSE),
    };
    let place = match place {
        Ok(place) => place,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(status);
        }
    };
    match run(flags, model, job, folder, place).await {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(INFRASTRUCTURE)
        }
    }
}

async fn run(
    flags: Flags,
    model: Arc<dyn Model>,
    job: Job,
    folder: RunDir,
    place: Place,
) -> Result<Outcome> {
    if place.server.is_some() {
        println!(
            "sandbox service: in this process, a development double and no boundary against \
             hostile code"
        );
    }
    let result = in_workspace(flags, model, job, folder, &place).await;
    let closed = place.close().await;
    let outcome = result?;
    closed?;
    Ok(outcome)
}

/// Creates the workspace, and asks for its end on every way out of here.
async fn in_workspace(
    flags: Flags,
    model: Arc<dyn Model>,
    job: Job,
    folder: RunDir,
    place: &Place,
) -> Result<Outcome> {
    let interrupt = listen();
    let created = Instant::now();
    let spec = workspace_spec(&flags, &job);
    let pending = SandboxClient::create(&place.client, &place.project, &spec).await?;
    let sandbox = pending.sandbox().clone();
    let run = sandbox.run_uuid();
    println!("workspace: run {run} of {}", place.project);
    let keep = flags.keep_on_failure;
    let evidence = folder.path().display().to_string();
    // A task of its own: a panic in it ends here as an error, and the workspace is stopped.
    let work = tokio::spawn(async move {
        let workspace =
            SandboxWorkspace::new(pending.sandbox().clone(), &job.name)?.life_limit(LIFE_LIMIT);
        folder.write_workspace(&json!({
            "identity": workspace.identity(),
            "capabilities": workspace.capabilities(),
        }))?;
        let wait =
            Wait::up_to(READY_LIMIT).on_progress(|now| println!("workspace: {}", now.status));
        tokio::select! {
            ready = pending.ready(wait) => drop(ready?),
            () = interrupted(interrupt.clone()) => {
                anyhow::bail!("interrupted while the workspace was starting");
            }
        }
        attempt(
            &flags,
            model,
            job,
            folder,
            workspace,
            created.elapsed(),
            interrupt,
        )
        .await
    });
    let result = match work.await {
        Ok(result) => result,
        Err(panic) => Err(anyhow::anyhow!("the attempt ended by a panic").context(panic)),
    };
    let accepted = result.as_ref().is_ok_and(Outcome::is_accepted);
    if keep && !accepted {
        match place.server.is_some() {
            true => println!("workspace: run {run} ends with this program; its files are kept"),
            false => println!("workspace: run {run} is left running, for {LIFE_LIMIT:?} at most"),
        }
    } else if result
        .as_ref()
        .is_ok_and(|outcome| outcome.stop == StopState::Requested)
    {
        println!("workspace: the stop of run {run} was requested; a request is not a confirmation");
    } else {
        request_stop(&sandbox).await;
    }
    println!("evidence: {evidence}");
    result
}

fn workspace_spec(flags: &Flags, job: &Job) -> SandboxSpec {
    let component = json!({
        // What the workspace does not need is not there: no credentials, no artifact store.
        "plugins": {"auth": false, "mountArtifactsStore": false},
        "run": {"kind": "service", "container": {"image": flags.place.image}},
    });
    let mut spec = SandboxSpec::from_content(json!({"component": component}))
        .name(job.name.as_str())
        .cpu(flags.cpu.as_str())
        .memory(flags.memory.as_str())
        .termination_timeout(LIFE_LIMIT);
    if let Some(queue) = &flags.queue {
        spec = spec.queue(queue);
    }
    spec
}

async fn attempt(
    flags: &Flags,
    model: Arc<dyn Model>,
    job: Job,
    folder: RunDir,
    workspace: SandboxWorkspace,
    provision: Duration,
    interrupt: Interrupt,
) -> Result<Outcome> {
    let job = job.counted(&workspace).await?;
    let mut attempt = Attempt::new(job.task, model, workspace, job.acceptance, job.paths);
    if !flags.ask_before.is_empty() {
        let kinds = flags.ask_before.iter().copied().map(ActionKind::from);
        attempt = attempt
            .policy(Rules::new().ask_before(kinds))
            .approver(TerminalApprover::stdin());
    }
    if let Some(system) = job.system {
        attempt = attempt.system_prompt(system);
    }
    let outcome = attempt
        .order(job.order)
        .allow_checks(flags.allow_checks)
        .budget(
            Budget::default()
                .turns(flags.turns)
                .check_limit(flags.check_limit()),
        )
        .record_in(folder)
        .provisioned_in(provision)
        .observer(show::Turns)
        .cancel_on(interrupted(interrupt))
        .stop_at_end(match flags.keep_on_failure {
            true => StopAtEnd::Accepted,
            false => StopAtEnd::Always,
        })
        .keep_files(flags.keep_on_failure)
        .drive()
        .await?;
    show::outcome(&outcome);
    Ok(outcome)
}

async fn request_stop(sandbox: &SandboxClient) {
    let run = sandbox.run_uuid();
    match tokio::time::timeout(STOP_LIMIT, sandbox.stop()).await {
        Ok(Ok(())) => println!(
            "workspace: the stop of run {run} was requested; a request is not a confirmation"
        ),
        Ok(Err(error)) => eprintln!(
            "workspace: the stop of run {run} could not be requested: {:#}; it ends by itself \
             within {LIFE_LIMIT:?}",
            anyhow::Error::from(error)
        ),
        Err(_) => eprintln!("workspace: no answer to the stop request for run {run}"),
    }
}

/// Whether somebody has pressed Ctrl-C.
type Interrupt = watch::Receiver<bool>;

/// Listens from now on, so that a Ctrl-C while the workspace is being created does not end the
/// program before anybody knows the run.
fn listen() -> Interrupt {
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        // Without the signal there is nothing to wait for, and nothing is told.
        if tokio::signal::ctrl_c().await.is_ok() {
            println!("interrupted; ending in order");
            tell.send_replace(true);
        }
        std::future::pending::<()>().await;
    });
    told
}

/// Ready once somebody has pressed Ctrl-C.
async fn interrupted(mut interrupt: Interrupt) {
    if interrupt.wait_for(|told| *told).await.is_err() {
        std::future::pending::<()>().await;
    }
}
