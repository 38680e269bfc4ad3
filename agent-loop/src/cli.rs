//! What can be done with the folder of a run.

mod reap;
mod show;

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent_loop::acceptance::Description;
use agent_loop::{Digest, Verifier};
use clap::{Parser, Subcommand};

/// It holds, or it is done.
const FINE: u8 = 0;
/// It does not hold, or is not confirmed.
const NOT: u8 = 1;
/// Something could not be read, or not be reached.
const UNREADABLE: u8 = 3;

/// Proves, shows and cleans up after runs of the agent loop.
#[derive(Debug, Parser)]
#[command(name = "agent-loop", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Computes everything again that an acceptance rests on, without model and sandbox.
    ///
    /// Exit status: 0 where the acceptance of every folder is proved; 1 where one is not accepted,
    /// or something does not hold; 2 for misuse; 3 where a folder cannot be read.
    Verify {
        /// Folders of runs.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Judges with the evaluator in this file instead of `acceptance.json` in the folder.
        #[arg(long, value_name = "FILE")]
        acceptance: Option<PathBuf>,
        /// The digest of the journal's last line, from an outcome that was kept elsewhere.
        #[arg(long, value_name = "DIGEST")]
        chain_head: Option<Digest>,
    },
    /// Asks for the end of the sandboxes that attempts have left running, and waits for it: of the
    /// one in `workspace.json`, and of each fresh one in the journal of which no record says that it
    /// has ended, those included that were only asked for.
    ///
    /// Host and token are those of the environment, as for every client of Polyaxon. Exit status: 0
    /// where every run has ended; 1 where an end was requested and is not confirmed; 2 for misuse; 3
    /// where a folder names no run, its journal cannot be read, or the platform refuses.
    Reap {
        /// Folders of runs.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// How long to wait for each confirmation.
        #[arg(long, value_name = "SECONDS", default_value = "60")]
        wait: u64,
        /// The host, instead of the one of the environment.
        #[arg(long, value_name = "URL")]
        host: Option<String>,
    },
    /// Shows what has happened, a line a turn.
    ///
    /// Exit status: 0; 2 for misuse; 3 where the folder cannot be read.
    Show {
        /// The folder of a run.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl Cli {
    pub(crate) async fn run(self) -> ExitCode {
        ExitCode::from(match self.command {
            Command::Verify {
                folders,
                acceptance,
                chain_head,
            } => match acceptance.map(|file| described(&file)).transpose() {
                Ok(description) => {
                    let verify =
                        |folder: &PathBuf| verify(folder, description.as_ref(), chain_head);
                    folders.iter().map(verify).max().unwrap_or(FINE)
                }
                Err(problem) => complain(problem, UNREADABLE),
            },
            Command::Reap {
                folders,
                wait,
                host,
            } => reap::all(&folders, Duration::from_secs(wait), host.as_deref()).await,
            Command::Show { folder } => match show::timeline(&folder) {
                Ok(text) => {
                    say(text);
                    FINE
                }
                Err(error) => complain(chain(&error), UNREADABLE),
            },
        })
    }
}

fn verify(folder: &Path, description: Option<&Description>, chain_head: Option<Digest>) -> u8 {
    let mut verifier = Verifier::new(folder);
    if let Some(description) = description {
        verifier = verifier.acceptance(description.acceptance());
    }
    if let Some(chain_head) = chain_head {
        verifier = verifier.chain_head(chain_head);
    }
    match verifier.verify() {
        Ok(verification) => {
            say(format_args!("{}: {verification}", folder.display()));
            match verification.proves_acceptance() {
                true => FINE,
                false => NOT,
            }
        }
        Err(error) => complain(chain(&error), UNREADABLE),
    }
}

fn described(file: &Path) -> Result<Description, String> {
    let shown = file.display();
    let text = std::fs::read(file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    serde_json::from_slice(&text)
        .map_err(|error| format!("{shown} describes no evaluator: {error}"))
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

fn say(what: impl fmt::Display) {
    // Whoever closes the pipe has read enough.
    let _nobody_reads = writeln!(io::stdout(), "{what}");
}

fn complain(what: impl fmt::Display, status: u8) -> u8 {
    let _nobody_reads = writeln!(io::stderr(), "agent-loop: {what}");
    status
}
