//! The project's own commands: `cargo xtask ci`, `cargo xtask tidy`, `cargo xtask real`.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod ci;
mod compare;
mod gates;
mod real;
mod step;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  ci     all that CI runs beside the tests: format, lints, docs, tidy, the examples
  tidy   the rules that a compiler cannot check
  real [PART]
         provisions real servers and a browser, below target/, and runs the tests that need them;
         with PART only those with this in their names
  gates [--offline]
         what a release has to pass: licences and known faults of dependencies, unused ones, each
         feature alone, semantic versions, every fuzz target for a minute
  compare [FLAGS]
         the same work by our client, the Python client and by hand, on one server; `--json FILE`
         keeps the figures, `--only TEXT` takes a part, `--short` only looks at the results;
         `--tracking` is the same for tracked runs, beside the Python module
  compare --agent-loop [FLAGS]
         what a turn of the agent loop costs, beside mini-swe-agent; `--json FILE`, `--short`";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Wherever it stands: nothing is begun for somebody who only asks.
    if arguments
        .iter()
        .any(|word| word == "--help" || word == "-h")
    {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["real"] => real::run(None),
        ["real", part] => real::run(Some(part)),
        ["gates", ref flags @ ..] => gates::run(flags),
        ["compare", ref flags @ ..] => compare::run(flags),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
