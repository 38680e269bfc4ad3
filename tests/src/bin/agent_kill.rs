//! An attempt as a program of its own, for its test to kill: it works in the sandbox that it is told,
//! and stands still at one of its records. With `-fresh` it checks in sandboxes of their own.
//!
//!     agent_kill drive|resume[-fresh] URL TOKEN PROJECT RUN FOLDER [RECORD]

use std::io::Write as _;
use std::path::PathBuf;

use agent_loop::acceptance::CommandAcceptance;
use agent_loop::journal::observer_fn;
use agent_loop::workspace::{SandboxWorkspace, SandboxWorkspaces};
use agent_loop::{Attempt, Paths, RunDir, Task};
use polyaxon_client::{Client, Config, Token};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use polyaxon_tests::agent::{SOURCE, repair_by_turn};

/// A check that leaves a line outside of its place each time it runs, and takes a moment.
const CHECK: &str = "echo ran >> ../../../checks-that-ran; sleep 0.1; grep -q 'sum(xs)' amounts.py";
/// The same in a place where nothing else is.
const FRESH_CHECK: &str = "sleep 0.1; grep -q 'sum(xs)' amounts.py";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [how, url, token, project, run, folder, rest @ ..] = arguments.as_slice() else {
        return Err("how, URL, token, project, run and folder are needed".into());
    };
    let (how, is_fresh) = match how.strip_suffix("-fresh") {
        Some(how) => (how, true),
        None => (how.as_str(), false),
    };
    let folder = PathBuf::from(folder);
    let stop_at: Option<u64> = rest.first().map(|number| number.parse()).transpose()?;
    let client = Client::new(&Config::explicit(url)?.token(Token::new(token.as_str())?))?;
    let project = project.parse()?;
    let sandbox = SandboxClient::connect(&client, &project, run.parse()?);
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client, project, spec);
    let workspace = SandboxWorkspace::new(sandbox, "repair")?;

    let task =
        Task::new("total", "total(xs) must return the sum of xs.").file("amounts.py", SOURCE)?;
    let acceptance = match is_fresh {
        true => CommandAcceptance::new(["sh", "-c", FRESH_CHECK]).fresh(),
        false => CommandAcceptance::new(["sh", "-c", CHECK]),
    };
    let attempt = Attempt::new(
        task,
        repair_by_turn(),
        workspace,
        acceptance,
        Paths::editable(["amounts.py"])?,
    )
    .allow_checks(true)
    .fresh(places)
    .observer(observer_fn(move |record| {
        if Some(record.seq) == stop_at {
            let _nobody_reads = writeln!(std::io::stdout(), "stands still");
            loop {
                std::thread::park();
            }
        }
    }));
    let outcome = match how {
        "drive" => attempt.record_in(RunDir::create(folder)?).drive().await?,
        "resume" => attempt.resume(folder).await?,
        other => return Err(format!("{other} is no way to make an attempt").into()),
    };
    match outcome.exit_code() {
        0 => Ok(()),
        code => Err(format!("ended with {code}: {}", outcome.end).into()),
    }
}
