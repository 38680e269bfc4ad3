//! The run: rounds, medians, the table, the JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::Flags;
use crate::place::Place;
use crate::scenario::{Aim, Figure, MIB, Scenario};
use crate::worker::{self, Done, Task, Worker};

/// Who takes part, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Limit,
    Ours,
    Python,
    PythonBest,
}

const SIDES: [Side; 4] = [Side::Limit, Side::Ours, Side::Python, Side::PythonBest];

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Ours => "ours",
            Self::Python => "python",
            Self::PythonBest => "python, best",
        }
    }

    fn command(self, flags: &Flags) -> Result<Command> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/compare/python.py");
        let this = std::env::current_exe()?;
        let (program, arguments): (&Path, &[&str]) = match self {
            Self::Limit => (&this, &["raw"]),
            Self::Ours => (&this, &["ours"]),
            Self::Python => (&flags.python, &["-B", script, "default"]),
            Self::PythonBest => (&flags.python, &["-B", script, "best"]),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(command)
    }

    fn task(self, scenario: &Scenario, short: bool) -> Task {
        let python = match self {
            Self::Python => Some(0),
            Self::PythonBest => Some(1),
            Self::Limit | Self::Ours => None,
        };
        scenario.task(short, self == Self::Ours, python)
    }
}

/// What was measured of one scenario.
struct Row {
    scenario: Scenario,
    samples: BTreeMap<Side, Vec<f64>>,
    /// Bytes of memory that ours took above its start.
    grown: u64,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = place_of(&mut server).and_then(|place| measure(flags, &place));
    drop(server.stdin.take());
    let status = server.wait()?;
    let rows = result?;
    ensure!(status.success(), "the server: {status}");
    let about = about()?;
    if flags.short {
        println!(
            "{} scenarios, each once on every side: all did the work",
            rows.len()
        );
    } else {
        println!("\n{}\n\n{}", about, table(&rows));
    }
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&to_json(&about, &rows))?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn place_of(server: &mut std::process::Child) -> Result<Place> {
    let mut line = String::new();
    let stdout = server.stdout.take().context("no stdout")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
    serde_json::from_str(&line).context("the server did not come up")
}

fn measure(flags: &Flags, place: &Place) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for scenario in Scenario::all() {
        if flags
            .only
            .as_ref()
            .is_some_and(|text| !scenario.name.contains(text.as_str()))
        {
            continue;
        }
        let started = Instant::now();
        let row = if scenario.work == "startup" {
            startup(flags, place, scenario)?
        } else {
            compare(flags, place, scenario)?
        };
        println!(
            "   {}: {:.1} s",
            row.scenario.name,
            started.elapsed().as_secs_f64()
        );
        rows.push(row);
    }
    ensure!(!rows.is_empty(), "no scenario has that in its name");
    Ok(rows)
}

/// New workers for each scenario: none pays for what another left behind.
fn compare(flags: &Flags, place: &Place, scenario: Scenario) -> Result<Row> {
    if scenario.work == "download" {
        for side in SIDES {
            for short in [true, flags.short] {
                prepare(place, side.task(&scenario, short).size)?;
            }
        }
    }
    let takes_part = |side: &Side| *side == Side::Ours || !scenario.only_ours;
    let mut workers = Vec::new();
    for side in SIDES.into_iter().filter(takes_part) {
        let worker = Worker::start(side.name(), &mut side.command(flags)?, place)?;
        workers.push((side, worker));
    }
    let mut samples: BTreeMap<Side, Vec<f64>> = BTreeMap::new();
    let mut grown = 0;
    if !flags.short {
        // The first time is nobody's: connections, caches, the interpreter's own compiling.
        for (side, worker) in &mut workers {
            checked(worker, &side.task(&scenario, true))?;
        }
    }
    for round in 0..flags.rounds {
        // Nobody is always the first.
        let count = workers.len();
        workers.rotate_left(round % count);
        for (side, worker) in &mut workers {
            if round > 0 && scenario.python_once && *side >= Side::Python {
                continue;
            }
            let task = side.task(&scenario, flags.short);
            let before = worker::memory(worker.id())?.0;
            worker::forget_peak(worker.id())?;
            let done = checked(worker, &task)?;
            if *side == Side::Ours {
                let peak = worker::memory(worker.id())?.1;
                grown = grown.max(peak.saturating_sub(before));
            }
            let scale = if flags.short {
                1.0
            } else {
                scenario.scale(&task)
            };
            let all = samples.entry(*side).or_default();
            all.extend(done.samples.iter().map(|sample| sample * scale));
        }
    }
    Ok(Row {
        scenario,
        samples,
        grown,
    })
}

fn checked(worker: &mut Worker, task: &Task) -> Result<Done> {
    let done = worker.ask(task)?;
    let want = Scenario::achieved(task);
    ensure!(
        done.check == want,
        "{task:?} came to {:?} and not to {want:?}",
        done.check
    );
    Ok(done)
}

/// A file of this size, to be downloaded.
fn prepare(place: &Place, size: u64) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let line = format!(
        "test -e /tmp/large-{size} || yes 0123456789abcdef | head -c {size} > /tmp/large-{size}"
    );
    let exec = polyaxon_sandbox::Exec::shell(line).timeout(std::time::Duration::from_secs(120));
    let sandbox = place.sandbox()?;
    runtime.block_on(async { sandbox.process().exec(&exec).await?.ensure_success() })?;
    Ok(())
}

/// Whole processes, from their start to their end.
fn startup(flags: &Flags, place: &Place, scenario: Scenario) -> Result<Row> {
    let this = std::env::current_exe()?;
    let text = |part: &str| part.to_owned();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/compare/python.py");
    let url = format!("{}{}", place.url, place.path("ping"));
    let header = format!("Authorization: Token {}", place.token);
    let curl = [
        "--silent",
        "--fail",
        "--noproxy",
        "*",
        "--header",
        &header,
        &url,
    ]
    .map(text);
    let commands = [
        (Side::Limit, Path::new("curl"), curl.to_vec()),
        (Side::Ours, &this, vec![text("ping")]),
        (
            Side::Python,
            &flags.python,
            ["-B", script, "ping"].map(text).to_vec(),
        ),
    ];
    let count = if flags.short {
        scenario.short.0
    } else {
        scenario.count
    };
    let mut samples: BTreeMap<Side, Vec<f64>> = BTreeMap::new();
    for _ in 0..flags.rounds {
        for (side, program, arguments) in &commands {
            let count = if *side == Side::Python { 1 } else { count };
            for _ in 0..count {
                let started = Instant::now();
                worker::run(program, arguments, place)?;
                let took = started.elapsed().as_secs_f64();
                samples.entry(*side).or_default().push(took);
            }
        }
    }
    Ok(Row {
        scenario,
        samples,
        grown: 0,
    })
}

/// The value below which this share of the samples lies.
fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index within the list"
    )]
    let at = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(at).copied()
}

impl Row {
    fn median(&self, side: Side) -> Option<f64> {
        quantile(self.samples.get(&side)?, 0.5)
    }

    fn shown(&self, side: Side) -> String {
        let Some(samples) = self.samples.get(&side) else {
            return "–".to_owned();
        };
        let at = |share| quantile(samples, share).unwrap_or(f64::NAN);
        match self.scenario.figure {
            Figure::Calls => format!("{:.2} ms, p99 {:.2}", at(0.5) * 1e3, at(0.99) * 1e3),
            Figure::Whole => format!("{:.3} s ({:.3}…{:.3})", at(0.5), at(0.0), at(1.0)),
            Figure::Rate => format!("{:.0} MiB/s ({:.0}…{:.0})", at(0.5), at(0.0), at(1.0)),
        }
    }

    /// How many times faster than `side` ours is.
    fn times(&self, side: Side) -> Option<f64> {
        let (ours, other) = (self.median(Side::Ours)?, self.median(side)?);
        Some(match self.scenario.figure {
            Figure::Rate => ours / other,
            Figure::Calls | Figure::Whole => other / ours,
        })
    }

    fn is_met(&self) -> bool {
        let at_least = |side, times| self.times(side).is_some_and(|got| got >= times);
        let ours = self.median(Side::Ours).unwrap_or(f64::NAN);
        let limit = self.median(Side::Limit).unwrap_or(f64::NAN);
        let fast = match self.scenario.aim {
            Aim::Above(seconds) => ours - limit <= seconds,
            Aim::Below(seconds) => ours < seconds,
            Aim::Share(share) => at_least(Side::Limit, share),
            Aim::ShareAndTimes(share, times) => {
                at_least(Side::Limit, share) && at_least(Side::Python, times)
            }
            Aim::Times(times) => at_least(Side::Python, times),
            Aim::Memory => true,
        };
        fast && self.scenario.memory.is_none_or(|limit| self.grown <= limit)
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| scenario | limit | ours | python | python, best | ours : limit | python : ours | memory | aim | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let times = |side| {
            row.times(side)
                .map_or("–".to_owned(), |times| format!("{times:.2}"))
        };
        let memory = match row.scenario.memory {
            Some(limit) => format!("{} of {} MiB", row.grown.div_ceil(MIB), limit / MIB),
            None => format!("{} MiB", row.grown.div_ceil(MIB)),
        };
        let [limit, ours, python, best] = SIDES.map(|side| row.shown(side));
        text.push_str(&format!(
            "| {} | {limit} | {ours} | {python} | {best} | {} | {} | {memory} | {} | {} |\n",
            row.scenario.name,
            times(Side::Limit),
            times(Side::Python),
            row.scenario.aim.text(),
            if row.is_met() { "met" } else { "missed" },
        ));
    }
    text.push_str(
        "\nMedians; in brackets the smallest and the largest of the rounds. `ours : limit` is our speed \
         as a share of the limit's, `python : ours` how many times faster we are than the Python client \
         with its defaults. Where the Python client did a part of the work, its time is scaled up. \
         Memory: the most that our process took above its start.\n",
    );
    text
}

/// The machine and the commit.
fn about() -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism()?;
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let commit = commit.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    Ok(format!(
        "{model}, {cores} cores, commit {commit}, {build} build"
    ))
}

fn to_json(about: &str, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let sides: BTreeMap<&str, Value> = row
                .samples
                .iter()
                .map(|(side, samples)| {
                    let at = |share| quantile(samples, share);
                    let value = json!({"median": at(0.5), "p99": at(0.99), "least": at(0.0),
                                       "most": at(1.0), "samples": samples});
                    (side.name(), value)
                })
                .collect();
            json!({"scenario": row.scenario.name, "figure": format!("{:?}", row.scenario.figure),
                   "sides": sides, "memory_bytes": row.grown, "aim": row.scenario.aim.text(),
                   "met": row.is_met()})
        })
        .collect();
    json!({"about": about, "rows": rows})
}
