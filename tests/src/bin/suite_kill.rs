//! An evaluation as a program of its own, for its test to kill: it stands still at a record of a case.
//!
//!     suite_kill URL TOKEN PROJECT SUITE FOLDER [CASE RECORD]

use std::io::Write as _;
use std::sync::Arc;

use agent_loop::StopAtEnd;
use agent_loop::evaluation::{Candidate, Evaluation, Suite};
use agent_loop::journal::{Observer, observer_fn};
use agent_loop::workspace::SandboxWorkspaces;
use polyaxon_client::{Client, Config, Token};
use polyaxon_sandbox::SandboxSpec;
use polyaxon_tests::agent::repair_by_turn;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, token, project, suite, folder, rest @ ..] = arguments.as_slice() else {
        return Err("URL, token, project, suite and folder are needed".into());
    };
    let stop_at = match rest {
        [case, record] => Some((case.clone(), record.parse::<u64>()?)),
        _ => None,
    };
    let client = Client::new(&Config::explicit(url)?.token(Token::new(token.as_str())?))?;
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client, project.parse()?, spec);
    let candidate = Candidate::new("repair", |_case| Arc::new(repair_by_turn()))?
        .resumable(true)
        // What was done in the sandboxes is for the test to look at.
        .configure(|attempt| attempt.stop_at_end(StopAtEnd::Never));
    let report = Evaluation::new(Suite::load(suite)?, places, folder)
        .candidate(candidate)
        .allow_checks(true)
        .parallel(1)
        .observe(move |case, _candidate| {
            let (_, record) = stop_at.clone().filter(|(id, _)| id == case.id())?;
            let stands_still = observer_fn(move |seen| {
                if seen.seq == record {
                    let _nobody_reads = writeln!(std::io::stdout(), "stands still");
                    loop {
                        std::thread::park();
                    }
                }
            });
            Some(Arc::new(stands_still) as Arc<dyn Observer>)
        })
        .run()
        .await?;
    match report.exit_code() {
        0 => Ok(()),
        code => Err(format!("ended with {code}").into()),
    }
}
