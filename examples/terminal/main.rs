//! A shell in a sandbox, as if it were here: raw mode, window size, exit code.
//!
//!     cargo run --example terminal -- --local
//!     cargo run --example terminal -- --project OWNER/PROJECT --run UUID -- bash -l
//!
//! Without `--run` a sandbox is started, and stopped at the end. Ctrl-] leaves, and the program
//! runs on where the sandbox does. The exit code is that of the program; 128 and a number where a
//! signal ended it.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program for the terminal")]

mod screen;
mod session;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use examples::Place;
use polyaxon_client::ProjectRef;
use polyaxon_sandbox::pty::Pty;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

use crate::screen::RawMode;
use crate::session::{Ended, Session};

/// A shell in a sandbox.
#[derive(Parser)]
struct Flags {
    /// Start the sandbox service in this process, and a sandbox in it.
    #[arg(long, conflicts_with_all = ["host", "run"])]
    local: bool,
    /// URL of a Polyaxon installation. Default: `POLYAXON_HOST`, or the configuration files.
    #[arg(long)]
    host: Option<String>,
    /// The project of the sandbox.
    #[arg(long, value_name = "OWNER/PROJECT")]
    project: Option<ProjectRef>,
    /// A sandbox that runs. Default: one is started, and stopped at the end.
    #[arg(long, value_name = "UUID")]
    run: Option<String>,
    /// The image of a sandbox that is started.
    #[arg(long, default_value = "python:3.12-slim")]
    image: String,
    /// The program and its arguments. Default: the service's shell.
    #[arg(last = true)]
    command: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let flags = Flags::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    let code = runtime.block_on(run(&flags));
    // A thread may wait for a key that nobody will press.
    runtime.shutdown_background();
    Ok(ExitCode::from(code?))
}

async fn run(flags: &Flags) -> Result<u8> {
    let project = flags.project.as_ref();
    let place = match flags.local {
        true => Place::local(project).await?,
        false => Place::remote(flags.host.as_deref(), project)?,
    };
    let sandbox = match &flags.run {
        Some(run) => SandboxClient::connect(&place.client, &place.project, run.parse()?),
        None => {
            let spec = SandboxSpec::image(&flags.image).name("terminal");
            SandboxClient::launch(&place.client, &place.project, &spec).await?
        }
    };
    let code = shell(&sandbox, flags).await;
    if flags.run.is_none() {
        sandbox.stop().await?;
    }
    place.close().await?;
    code
}

async fn shell(sandbox: &SandboxClient, flags: &Flags) -> Result<u8> {
    let (cols, rows) = screen::size().unwrap_or((80, 24));
    let pty = match flags.command.is_empty() {
        true => Pty::shell(),
        false => Pty::new(&flags.command),
    };
    let attached = sandbox.pty().open(&pty.size(cols, rows)).await;
    let attached = attached.context("no terminal could be started")?;
    let pty_id = attached.pty_id().clone();
    // From here to the end of this function, however it ends, the keyboard is the sandbox's.
    let raw = RawMode::enter()?;
    let ended = Session::new(sandbox.clone())?.run(attached).await;
    drop(raw);
    Ok(match ended? {
        Ended::Exited(exit) => u8::try_from(exit.shell_code()).unwrap_or(u8::MAX),
        Ended::Left(code) => {
            eprintln!(
                "terminal {pty_id} of run {} is left as it is",
                sandbox.run_uuid()
            );
            code
        }
    })
}
