//! The same work through our client, through the Python client (with its defaults, and with the
//! best settings that it has) and without any client, side by side on one server: rounds are
//! interleaved, so that what disturbs the machine disturbs all.
//!
//! `cargo xtask compare` provisions the Python client, builds for speed and runs this.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod events;
mod ours;
mod place;
mod raw;
mod report;
mod scenario;
mod server;
mod worker;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
compare --python PROGRAM [--short] [--only TEXT] [--rounds N] [--json FILE]

  --python   a Python with the package polyaxon
  --short    each scenario once and small: checks results, measures nothing
  --only     the scenarios whose name has this text
  --rounds   how often each side does each scenario; 5 unless told otherwise
  --json     where the figures go, as JSON";

/// What the command line asks for.
struct Flags {
    python: PathBuf,
    short: bool,
    only: Option<String>,
    rounds: usize,
    json: Option<PathBuf>,
}

fn flags(arguments: &[String]) -> Result<Flags> {
    let (mut python, mut short, mut only, mut rounds, mut json) = (None, false, None, 5, None);
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--python" => python = Some(PathBuf::from(value()?)),
            "--short" => short = true,
            "--only" => only = Some(value()?.clone()),
            "--rounds" => rounds = value()?.parse().context("--rounds needs a number")?,
            "--json" => json = Some(PathBuf::from(value()?)),
            _ => bail!("{flag} is no flag\n{USAGE}"),
        }
    }
    let python = python.with_context(|| format!("--python is missing\n{USAGE}"))?;
    Ok(Flags {
        python,
        short,
        only,
        rounds: if short { 1 } else { rounds },
        json,
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // What the program starts of itself.
        ["server"] => server::serve(),
        ["ours"] => ours::work(),
        ["raw"] => raw::work(),
        ["ping"] => ours::ping_once(),
        _ => report::run(&flags(&arguments)?),
    }
}
