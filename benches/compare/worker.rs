//! A side as a process that does what it is told, one line of JSON each way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::place::{self, Place};

/// What is asked for. The meaning of the numbers is the scenario's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) scenario: String,
    pub(crate) count: u64,
    pub(crate) size: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Seconds, or what the scenario measures; as many as it takes.
    pub(crate) samples: Vec<f64>,
    /// What was achieved: the same on all sides, or the side did not do the work.
    pub(crate) check: String,
}

/// The process of a side.
pub(crate) struct Worker {
    name: &'static str,
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(name: &'static str, command: &mut Command, place: &Place) -> Result<Self> {
        let mut child = command
            .env(place::VARIABLE, serde_json::to_string(place)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let tell = child.stdin.take().context("no stdin")?;
        let hear = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self {
            name,
            child,
            tell,
            hear,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&mut self, task: &Task) -> Result<Done> {
        let mut line = serde_json::to_string(task)?;
        line.push('\n');
        let failed = || format!("{} did not do {task:?}", self.name);
        self.tell.write_all(line.as_bytes()).with_context(failed)?;
        self.tell.flush()?;
        let mut answer = String::new();
        self.hear.read_line(&mut answer)?;
        if answer.is_empty() {
            bail!("{}: it has ended", failed());
        }
        serde_json::from_str(&answer).with_context(|| format!("{}: {answer}", failed()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// The other end: does each task by `work`.
pub(crate) fn serve(mut work: impl FnMut(&Task) -> Result<Done>) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let done = work(&task).with_context(|| format!("{task:?}"))?;
        println!("{}", serde_json::to_string(&done)?);
    }
    Ok(())
}

/// The bytes of a process's memory: now, and at most since the last call of [`forget_peak`].
pub(crate) fn memory(process: u32) -> Result<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(number.context("no such field")?.parse::<u64>()? * 1024)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// Starts the search for the peak anew (proc(5), `clear_refs`).
pub(crate) fn forget_peak(process: u32) -> Result<()> {
    let path = format!("/proc/{process}/clear_refs");
    std::fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

/// Runs a program to its end and wants success.
pub(crate) fn run(program: &Path, arguments: &[String], place: &Place) -> Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .env(place::VARIABLE, serde_json::to_string(place)?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(())
}
