//! `cargo xtask compare`: what others made from its package, our crates built for speed, and the
//! program that runs both: clients of a sandbox, or with `--agent-loop` loops; with `--tracking`, the
//! bench of tracked runs beside the Python module.

use anyhow::{Context as _, Result};

use crate::real;
use crate::step::{self, cargo};

pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let (list, program, flags) = match flags {
        ["--agent-loop", rest @ ..] => ("mini_swe_agent.txt", "agent_loop", rest),
        flags => ("polyaxon.txt", "compare", flags),
    };
    let python = real::python_with(list)?;
    let python = python
        .to_str()
        .context("the path of the Python is not UTF-8")?;
    if flags == ["--tracking"] {
        let bench = [
            "bench",
            "--package",
            "polyaxon-tracking",
            "--bench",
            "speed",
        ];
        let mut command = cargo(&bench)?;
        return step::run("tracking", command.env("REAL_POLYAXON_PYTHON", python));
    }
    let mut arguments = vec!["run", "--release", "--package", "polyaxon-benches"];
    arguments.extend(["--bin", program, "--", "--python", python]);
    arguments.extend(flags);
    step::run("compare", &mut cargo(&arguments)?)
}
