//! The `polyaxon-local` program: flags, and nothing else.

mod cli;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match cli::Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            let _nobody_listens = writeln!(io::stderr(), "polyaxon-local: {sentence}");
            ExitCode::FAILURE
        }
    }
}
