//! The `agent-loop` program: flags, and nothing else.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::Cli::parse().run().await
}
