//! Shows what a command in a sandbox writes while it writes it, line by line, and how it ended.
//!
//!     cargo run --example stream -- --local
//!     cargo run --example stream -- --local -- sh -c 'for i in 1 2 3; do date; sleep 1; done'
//!
//! Against a running sandbox of a Polyaxon installation:
//!
//!     SANDBOX_RUN_UUID=… cargo run --example stream -- --project OWNER/PROJECT -- COMMAND …
//!
//! Ctrl-C ends the command in the sandbox, too.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use examples::SandboxFlags;
use polyaxon_sandbox::process::{LogStream, Termination};
use polyaxon_sandbox::{Exec, SandboxClient};

/// What is executed where nothing else is said: six lines, two of them errors, and an exit code.
const DEFAULT: &str = "for i in 1 2; do echo \"step $i\"; sleep 0.2; echo \"note $i\" >&2; \
                       sleep 0.2; echo \"done $i\"; done; exit 3";

/// Executes a command in a sandbox and shows its output while it runs.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    sandbox: SandboxFlags,
    /// The program and its arguments. Default: a small one that shows both outputs.
    #[arg(last = true)]
    command: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let open = flags.sandbox.open("stream").await?;
    let shown = show(&open.sandbox, &flags.command).await;
    open.close().await?;
    shown
}

async fn show(sandbox: &SandboxClient, command: &[String]) -> Result<()> {
    let exec = match command {
        [] => Exec::shell(DEFAULT),
        command => Exec::new(command),
    };
    let started = Instant::now();
    let mut lines = sandbox.process().exec_stream(&exec).await?.lines();
    let mut counts = [0, 0];
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = tokio::signal::ctrl_c() => {
                let id = lines.events().exec_id().context("it has not started")?.clone();
                sandbox.process().bg(id).delete().await?;
                eprintln!("the command was ended");
                return Ok(());
            }
        };
        let Some(line) = line else { break };
        let line = line?;
        let at = started.elapsed().as_secs_f64();
        match line.stream {
            LogStream::Stdout => {
                counts[0] += 1;
                println!("{at:6.2} s  {}", line.text);
            }
            LogStream::Stderr => {
                counts[1] += 1;
                eprintln!("{at:6.2} s  stderr: {}", line.text);
            }
        }
    }
    let events = lines.events();
    let end = events.completion().context("the end was not told")?;
    println!("{:?} after {:.2?}", end.termination, end.duration);
    if let Some(id) = events.exec_id() {
        // The service keeps the output until it is told otherwise.
        sandbox.process().bg(id.clone()).delete().await?;
    }
    if command.is_empty() {
        ensure!(
            counts == [4, 2] && end.termination == Termination::Exited(3),
            "{counts:?} lines, {:?}",
            end.termination
        );
    }
    Ok(())
}
