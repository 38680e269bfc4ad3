//! How fast values are taken and written, and in how much memory, beside lines that were made before
//! through a buffered writer, and beside the Python module, in one run:
//!
//! ```sh
//! REAL_POLYAXON_PYTHON=…/bin/python cargo bench -p polyaxon-tracking --bench speed
//! ```
//!
//! `cargo xtask compare --tracking` provides that Python. Without the variable it is left out.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a program for people; a failure is a failed measurement"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_local::LocalServer;
use polyaxon_tracking::{Error, TrackedRun, Tracking};
use serde::{Deserialize, Serialize};

/// How many values make a rate that can be measured.
const VALUES: u32 = 500_000;
/// How many Python logs in a time that can be waited for. Starts and ends are those of runs of so many.
const PYTHON_VALUES: u32 = 10_000;
/// How many the memory is looked at with.
const MANY: u32 = 1_000_000;
const ROUNDS: usize = 5;

/// What one side needs for a run, in seconds and kilobytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Figures {
    start: f64,
    calls: f64,
    end: f64,
    #[serde(default)]
    after_kb: u64,
    #[serde(default)]
    peak_kb: u64,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo asks every bench for its tests too.
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    if let [word, folder] = &arguments[..]
        && word == "memory"
    {
        let figures = memory(Path::new(folder)).await;
        println!("{}", serde_json::to_string(&figures).unwrap());
        return;
    }
    let python = std::env::var_os("REAL_POLYAXON_PYTHON");
    let project = ProjectRef::new("default", "speed").unwrap();
    let server = LocalServer::builder().project(project.clone()).start();
    let server = server.await.unwrap();
    let config = Config::explicit(server.url()).unwrap();
    let client = Client::new(&config.token(Token::new(server.token()).unwrap())).unwrap();
    let (mut lines, mut written) = (Vec::new(), Vec::new());
    let (mut offline, mut online) = (Vec::new(), Vec::new());
    let (mut offline_few, mut online_few) = (Vec::new(), Vec::new());
    let (mut python_offline, mut python_online) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let to_server = |name| Tracking::new(&client, &project).folder(at(name));
        lines.push(buffered(&at("lines")));
        let many = tracked(Tracking::offline(at("offline")), VALUES).await;
        written.push(many.0);
        offline.push(many.1);
        online.push(tracked(to_server("online"), VALUES).await.1);
        offline_few.push(tracked(Tracking::offline(at("few")), PYTHON_VALUES).await.1);
        online_few.push(tracked(to_server("online-few"), PYTHON_VALUES).await.1);
        if let Some(python) = &python {
            let run = |way| in_python(python, way, PYTHON_VALUES, folder.path(), &server);
            python_offline.push(run("offline"));
            python_online.push(run("online"));
        }
        println!("round {} of {ROUNDS}", round + 1);
    }
    let rate = |figures: &[Figures], values: u32| f64::from(values) / median(figures, |f| f.calls);
    println!(
        "\n{:22} {:>12} {:>14} {:>12}",
        "", "start", "values/s", "end"
    );
    let show = |name: &str, ends: &[Figures], rate: f64| {
        let ms = |of: fn(&Figures) -> f64| median(ends, of) * 1000.0;
        println!(
            "{name:22} {:>9.1} ms {rate:>14.0} {:>9.1} ms",
            ms(|f| f.start),
            ms(|f| f.end)
        );
    };
    show("offline", &offline_few, rate(&offline, VALUES));
    show("online", &online_few, rate(&online, VALUES));
    if python.is_some() {
        let of = |figures: &[Figures]| rate(figures, PYTHON_VALUES);
        show("Python, offline", &python_offline, of(&python_offline));
        show("Python, online", &python_online, of(&python_online));
        println!(
            "log_metric: {:.0} times as fast offline, {:.0} times online",
            rate(&offline, VALUES) / of(&python_offline),
            rate(&online, VALUES) / of(&python_online)
        );
    }
    let (lines, written) = (middle(&mut lines), middle(&mut written));
    println!(
        "{VALUES} values, from the call to the disk: {:.1} ms; their lines, made before, through a buffered \
         writer: {:.1} ms, {:.2} of the time",
        written * 1000.0,
        lines * 1000.0,
        lines / written
    );
    let folder = tempfile::tempdir().unwrap();
    let ours = Command::new(std::env::current_exe().unwrap())
        .arg("memory")
        .arg(folder.path())
        .output()
        .unwrap();
    show_memory("memory", &answer(&ours));
    if let Some(python) = &python {
        let theirs = in_python(python, "offline", MANY, folder.path(), &server);
        show_memory("memory, Python", &theirs);
    }
}

fn show_memory(name: &str, figures: &Figures) {
    let mb = |kb: u64| kb as f64 / 1024.0;
    println!(
        "{name}: {:.1} MB after {MANY} values, {:.1} MB at the most, its end included",
        mb(figures.after_kb),
        mb(figures.peak_kb)
    );
}

/// How long it took until the values were on the disk, and what the run needed.
async fn tracked(tracking: Tracking, values: u32) -> (f64, Figures) {
    let tracking = tracking.queue_capacity(values as usize);
    // The time has a fraction of six digits but for one line in a million.
    let size: u64 = (0..values).map(|step| line(step).len() as u64 - 7).sum();
    let before = Instant::now();
    let run = TrackedRun::start(tracking).await.unwrap();
    let start = before.elapsed();
    let before = Instant::now();
    for step in 0..values {
        run.log_metric(step, "loss", 1.0 / f64::from(step + 1))
            .unwrap();
    }
    let calls = before.elapsed();
    let path = run.path().join("events/metric/loss.plx");
    wait_for_size(&path, size).await;
    File::open(path).unwrap().sync_all().unwrap();
    let written = before.elapsed();
    let before = Instant::now();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let figures = Figures {
        start: start.as_secs_f64(),
        calls: calls.as_secs_f64(),
        end: before.elapsed().as_secs_f64(),
        ..Figures::default()
    };
    (written.as_secs_f64(), figures)
}

async fn wait_for_size(path: &Path, size: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(path).map_or(0, |file| file.len()) < size {
        assert!(Instant::now() < until, "the values are not written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn line(step: u32) -> String {
    let value = 1.0 / f64::from(step + 1);
    format!("\n{step}|2026-01-31 12:00:00.123456+00:00|{value:?}")
}

/// The same lines, made before, through a buffered writer to the disk.
fn buffered(path: &Path) -> f64 {
    let lines: Vec<String> = (0..VALUES).map(line).collect();
    let before = Instant::now();
    let mut writer = std::io::BufWriter::new(File::create(path).unwrap());
    for line in &lines {
        writer.write_all(line.as_bytes()).unwrap();
    }
    writer.into_inner().unwrap().sync_all().unwrap();
    before.elapsed().as_secs_f64()
}

/// In a process of its own, with the usual queue.
async fn memory(folder: &Path) -> Figures {
    let run = TrackedRun::start(Tracking::offline(folder)).await.unwrap();
    for step in 0..MANY {
        while let Err(Error::QueueFull { .. }) = run.log_metric(step, "loss", f64::from(step)) {
            run.flush().await.unwrap();
        }
    }
    let after_kb = status("VmRSS:");
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    Figures {
        after_kb,
        peak_kb: status("VmHWM:"),
        ..Figures::default()
    }
}

/// Kilobytes of this process, as Linux tells them.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

fn in_python(
    python: &OsStr,
    way: &str,
    count: u32,
    folder: &Path,
    server: &LocalServer,
) -> Figures {
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/speed.py"))
        .arg(folder.join(format!("python-{count}")))
        .args([&count.to_string(), way])
        .env("HOME", folder)
        .env("POLYAXON_HOST", server.url())
        .env("POLYAXON_AUTH_TOKEN", server.token())
        .env("POLYAXON_ARTIFACTS_ROOT", folder.join("artifacts"))
        .output()
        .unwrap();
    answer(&output)
}

/// What the last line says.
fn answer(output: &std::process::Output) -> Figures {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn median(figures: &[Figures], of: fn(&Figures) -> f64) -> f64 {
    middle(&mut figures.iter().map(of).collect::<Vec<_>>())
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
