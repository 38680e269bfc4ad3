//! What a turn of the agent loop costs beside the model and the sandbox: CPU time, over the number of
//! turns and the size of what is said, beside mini-swe-agent with a stub model in the same run. Of
//! ours also what the turns alone cost, what of it is the rendering of requests, and what the start
//! and the end cost beside them.
//!
//!     cargo xtask compare --agent-loop

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod ours;
mod watch;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

use ours::{Cost, Keeps};

const TURNS: [u32; 3] = [12, 60, 250];
const BYTES: [usize; 2] = [1 << 10, 10 << 10];
/// What a turn may cost without rendering the request, in microseconds.
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
            let mut costs = [const { Vec::<Cost>::new() }; OURS.len()];
            let mut others = [const { Vec::new() }; MINI.len()];
            let mut rendering = Vec::new();
            for _ in 0..rounds {
                for (costs, (_, keeps)) in costs.iter_mut().zip(OURS) {
                    costs.push(ours::run(turns, bytes, keeps)?);
                }
                rendering.push(ours::rendering(turns, bytes)?);
                for (figures, (_, file)) in others.iter_mut().zip(MINI) {
                    figures.push(mini.run(turns, bytes, file)?);
                }
            }
            rows.push(Row {
                bytes,
                turns,
                rendering: median(rendering),
                ours: costs.map(|costs| middle(&costs)),
                mini: others.map(median),
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

/// What a column shows, and how much it is.
type Figure = (&'static str, f64);

struct Row {
    bytes: usize,
    turns: u32,
    rendering: f64,
    ours: [Cost; OURS.len()],
    mini: [f64; MINI.len()],
}

const OURS: [(&str, Keeps); 3] = [
    ("ours, nothing kept", Keeps::Nothing),
    ("ours, file in memory", Keeps::InMemory),
    ("ours, file on disk", Keeps::OnDisk),
];
/// The other side, and whether it writes its file.
const MINI: [(&str, bool); 2] = [("mini, nothing kept", false), ("mini, file on disk", true)];

impl Row {
    /// Whole runs, by side.
    fn whole(&self) -> Vec<Figure> {
        let mini = MINI.iter().zip(&self.mini);
        self.ours_by(|cost| cost.whole)
            .chain(mini.map(|((side, _), figure)| (*side, *figure)))
            .collect()
    }

    /// The turns of ours alone, by what is kept, and the rendering that is not in them.
    fn turns_alone(&self) -> Vec<Figure> {
        self.ours_by(|cost| cost.turn - self.rendering)
            .chain([("rendering", self.rendering)])
            .collect()
    }

    /// What is beside the turns of ours, by what is kept.
    fn start_and_end(&self) -> Vec<Figure> {
        self.ours_by(Cost::start_and_end).collect()
    }

    fn ours_by(&self, figure: impl Fn(Cost) -> f64) -> impl Iterator<Item = Figure> {
        let sides = OURS.iter().zip(&self.ours);
        sides.map(move |((side, _), cost)| (*side, figure(*cost)))
    }

    fn json(&self) -> Value {
        let object = |figures: Vec<Figure>| -> Map<String, Value> {
            let rounded = |figure: f64| json!((figure * 10.0).round() / 10.0);
            let members = figures.into_iter();
            members
                .map(|(side, figure)| (side.to_owned(), rounded(figure)))
                .collect()
        };
        json!({
            "bytes": self.bytes,
            "turns": self.turns,
            "whole": object(self.whole()),
            "turns_alone": object(self.turns_alone()),
            "start_and_end": object(self.start_and_end()),
        })
    }
}

fn show(rows: &[Row], counted: ours::Counted, rounds: usize) {
    println!("CPU time of a whole run by its turns in microseconds, the median of {rounds} rounds");
    table(rows, Row::whole);
    println!("of it the turns alone, without rendering the request, and the rendering");
    table(rows, Row::turns_alone);
    println!("and the start and the end: files taken over, the patch, the last record, the report");
    table(rows, Row::start_and_end);
    for (at, (side, keeps)) in OURS.iter().enumerate() {
        let turn = |row: &Row| row.ours.get(at).map(|cost| cost.turn - row.rendering);
        let worst = rows.iter().filter_map(turn).fold(0.0, f64::max);
        let word = match worst <= MOST {
            true => "holds",
            false => "does not hold",
        };
        // What a disk and its file system take is not the loop's.
        if *keeps != Keeps::OnDisk {
            println!("{side}: at most {MOST} us a turn without rendering {word}: {worst:.1}");
        }
    }
    println!(
        "synced records: {} for {} effects, and one for the end",
        counted.syncs, counted.effects
    );
}

fn table(rows: &[Row], columns: impl Fn(&Row) -> Vec<Figure>) {
    print!("{:>8} {:>6}", "bytes", "turns");
    for (side, _) in rows.iter().take(1).flat_map(&columns) {
        print!("{side:>24}");
    }
    println!();
    for row in rows {
        print!("{:>8} {:>6}", row.bytes, row.turns);
        for (_, figure) in columns(row) {
            print!("{figure:>24.1}");
        }
        println!();
    }
}

/// The medians of the parts.
fn middle(costs: &[Cost]) -> Cost {
    let part = |part: fn(&Cost) -> f64| median(costs.iter().map(part).collect());
    Cost {
        whole: part(|cost| cost.whole),
        turn: part(|cost| cost.turn),
    }
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
