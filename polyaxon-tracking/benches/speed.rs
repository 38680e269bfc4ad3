//! How fast values are taken and written, beside a plain buffered writer and the Python module:
//! `REAL_POLYAXON_PYTHON=…/bin/python cargo bench -p polyaxon-tracking --bench speed`.
//!
//! Without the variable, the Python module is left out.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a program for people; a failure is a failed measurement"
)]

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use polyaxon_client::{Client, Config, Token};
use polyaxon_local::LocalServer;
use polyaxon_tracking::{TrackedRun, Tracking};

const VALUES: u32 = 200_000;
/// What Python does in a time that can be waited for.
const PYTHON_VALUES: u32 = 10_000;
const ROUNDS: usize = 5;

/// One way to do it: how long the start, the calls, and the end took.
#[derive(Clone, Copy)]
struct Times {
    start: Duration,
    calls: Duration,
    end: Duration,
}

#[tokio::main]
async fn main() {
    // Cargo asks every bench for its tests too.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:28} {:>12} {:>14} {:>12}", "", "start", "values/s", "end");
    let mut plain = Vec::new();
    let mut offline = Vec::new();
    let mut online = Vec::new();
    let mut python = Vec::new();
    let server = LocalServer::start().await.unwrap();
    let config = Config::explicit(server.url()).unwrap();
    let client = Client::new(&config.token(Token::new(server.token()).unwrap())).unwrap();
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        plain.push(buffered(folder.path()));
        offline.push(tracked(Tracking::offline(folder.path())).await);
        let tracking = Tracking::new(&client, server.project());
        online.push(tracked(tracking.folder(folder.path().join("online"))).await);
        python.extend(in_python(folder.path()));
    }
    show("a buffered writer, synced", &mut plain, VALUES);
    show("offline", &mut offline, VALUES);
    show("online, a local server", &mut online, VALUES);
    if !python.is_empty() {
        show("Python, offline", &mut python, PYTHON_VALUES);
    }
}

async fn tracked(tracking: Tracking) -> Times {
    let tracking = tracking.queue_capacity(VALUES as usize);
    let before = Instant::now();
    let run = TrackedRun::start(tracking).await.unwrap();
    let start = before.elapsed();
    let before = Instant::now();
    for step in 0..VALUES {
        run.log_metric(step, "loss", 1.0 / f64::from(step + 1))
            .unwrap();
    }
    let calls = before.elapsed();
    let before = Instant::now();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let end = before.elapsed();
    Times { start, calls, end }
}

/// The same lines, made before, through a buffered writer to the disk.
fn buffered(folder: &Path) -> Times {
    let lines: Vec<String> = (0..VALUES)
        .map(|step| {
            let value = 1.0 / f64::from(step + 1);
            format!("\n{step}|2026-01-31 12:00:00.123456+00:00|{value}")
        })
        .collect();
    let before = Instant::now();
    let file = std::fs::File::create(folder.join("plain")).unwrap();
    let start = before.elapsed();
    let before = Instant::now();
    let mut writer = std::io::BufWriter::new(file);
    for line in &lines {
        writer.write_all(line.as_bytes()).unwrap();
    }
    let calls = before.elapsed();
    let before = Instant::now();
    writer.into_inner().unwrap().sync_all().unwrap();
    let end = before.elapsed();
    Times { start, calls, end }
}

fn in_python(folder: &Path) -> Option<Times> {
    let program = std::env::var_os("REAL_POLYAXON_PYTHON")?;
    let script = r"
import sys, time
from polyaxon import tracking
root, count = sys.argv[1], int(sys.argv[2])
a = time.perf_counter()
run = tracking.Run(owner='o', project='p', is_offline=True, run_uuid='0' * 31 + '1',
    track_code=False, track_env=False, collect_resources=False, artifacts_path=root)
b = time.perf_counter()
for step in range(count):
    run.log_metric('loss', 1.0 / (step + 1), step=step)
c = time.perf_counter()
run.end()
d = time.perf_counter()
print()
print(b - a, c - b, d - c)
";
    let output = std::process::Command::new(program)
        .args(["-c", script])
        .arg(folder.join("python"))
        .arg(PYTHON_VALUES.to_string())
        .env("HOME", folder)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let times: Vec<f64> = text
        .lines()
        .last()?
        .split(' ')
        .filter_map(|time| time.parse().ok())
        .collect();
    let of = |index: usize| Duration::from_secs_f64(times[index]);
    Some(Times {
        start: of(0),
        calls: of(1),
        end: of(2),
    })
}

/// The medians.
fn show(name: &str, times: &mut [Times], values: u32) {
    let mut median = |of: fn(&Times) -> Duration| {
        times.sort_by_key(of);
        of(&times[times.len() / 2])
    };
    let rate = f64::from(values) / median(|times| times.calls).as_secs_f64();
    println!(
        "{name:28} {:>12.1?} {rate:>14.0} {:>12.1?}",
        median(|times| times.start),
        median(|times| times.end),
    );
}
