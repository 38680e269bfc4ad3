//! What a turn of the agent loop costs beside the model and the sandbox: CPU time, over the number of
//! turns and the size of what is said, beside mini-swe-agent with a stub model in the same run.
//!
//!     cargo xtask compare --agent-loop

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod ours;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use ours::Keeps;

const TURNS: [u32; 3] = [12, 60, 250];
const BYTES: [usize; 2] = [1 << 10, 10 << 10];
/// What a turn may cost, in microseconds.
const MOST: f64 = 50.0;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut python, mut json_file, mut rounds) = (None, None, 5);
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--python" => python = Some(arguments.next().context("--python needs a program")?),
            "--json" => json_file = Some(arguments.next().context("--json needs a file")?),
            "--short" => rounds = 1,
            other => bail!("{other} is no flag: --python PROGRAM, --json FILE, --short"),
        }
    }
    let mut mini = Mini::start(&python.context("--python is needed")?)?;
    let mut rows = Vec::new();
    for bytes in BYTES {
        for turns in TURNS {
            // What is only slow the first time is not asked for here.
            ours::run(turns, bytes, Keeps::Nothing)?;
            // One side after the other, again and again, so that the machine is the same for all.
            let mut figures = [const { Vec::new() }; SIDES.len()];
            for _ in 0..rounds {
                let sides = [
                    ours::run(turns, bytes, Keeps::Nothing)?,
                    ours::run(turns, bytes, Keeps::InMemory)?,
                    ours::run(turns, bytes, Keeps::OnDisk)?,
                    mini.run(turns, bytes, false)?,
                    mini.run(turns, bytes, true)?,
                ];
                for (figures, figure) in figures.iter_mut().zip(sides) {
                    figures.push(figure);
                }
            }
            rows.push(Row {
                bytes,
                turns,
                medians: figures.map(median),
            });
        }
    }
    let counted = ours::syncs()?;
    show(&rows, counted, rounds);
    if let Some(file) = json_file {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        let all = json!({
            "rounds": rounds, "us_per_turn": rows, "effects": counted.effects, "syncs": counted.syncs,
        });
        fs::write(&file, format!("{all:#}\n")).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

struct Row {
    bytes: usize,
    turns: u32,
    medians: [f64; SIDES.len()],
}

const SIDES: [&str; 5] = [
    "ours, nothing kept",
    "ours, file in memory",
    "ours, file on disk",
    "mini, nothing kept",
    "mini, file on disk",
];

impl Row {
    fn json(&self) -> Value {
        let mut row = json!({"bytes": self.bytes, "turns": self.turns});
        for (side, median) in SIDES.iter().zip(self.medians) {
            if let Some(row) = row.as_object_mut() {
                row.insert((*side).to_owned(), json!((median * 10.0).round() / 10.0));
            }
        }
        row
    }
}

fn show(rows: &[Row], counted: ours::Counted, rounds: usize) {
    println!("CPU time of a turn in microseconds, the median of {rounds} rounds");
    print!("{:>8} {:>6}", "bytes", "turns");
    for side in SIDES {
        print!("{side:>24}");
    }
    println!();
    for row in rows {
        print!("{:>8} {:>6}", row.bytes, row.turns);
        for median in row.medians {
            print!("{median:>24.1}");
        }
        println!();
    }
    let worst = rows.iter().map(|row| row.medians[0]).fold(0.0, f64::max);
    let word = if worst <= MOST {
        "holds"
    } else {
        "does not hold"
    };
    println!("{}: at most {MOST} us a turn {word}: {worst:.1}", SIDES[0]);
    println!(
        "synced records: {} for {} effects, and one for the end",
        counted.syncs, counted.effects
    );
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// mini-swe-agent in a process of its own.
struct Mini {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Mini {
    fn start(python: &str) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/agent_loop/mini.py");
        let mut child = Command::new(python)
            .args(["-B", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {python}"))?;
        Ok(Self {
            to: child.stdin.take().context("no input")?,
            from: BufReader::new(child.stdout.take().context("no output")?),
            child,
        })
    }

    fn run(&mut self, turns: u32, bytes: usize, file: bool) -> Result<f64> {
        let task = json!({"turns": turns, "bytes": bytes, "file": file});
        writeln!(self.to, "{task}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        ensure!(!line.is_empty(), "mini-swe-agent has ended");
        let answer: Value = serde_json::from_str(&line)?;
        let figure = answer.get("us_per_turn").and_then(Value::as_f64);
        figure.with_context(|| format!("{line} has no figure"))
    }
}

impl Drop for Mini {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
