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

use std::collections::HashMap;
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

/// What lines need until they are on the disk, in seconds.
#[derive(Clone, Copy, Debug)]
struct Lines {
    /// On a processor: in the calls, and in the writer's thread.
    calls: f64,
    writer: f64,
    /// Until the system has brought it all to the disk.
    sync: f64,
    /// From the first call to the end, on the clock.
    all: f64,
}

impl Lines {
    /// What is left where the values have been taken before.
    fn without_calls(&self) -> f64 {
        self.writer + self.sync
    }
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
    show_lines(&written, &lines);
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

/// Values to the disk, beside their lines to the disk.
fn show_lines(values: &[Lines], lines: &[Lines]) {
    println!(
        "\n{:22} {:>12} {:>12} {:>12} {:>12}",
        format!("{VALUES} lines"),
        "CPU, calls",
        "CPU, writer",
        "sync",
        "on the clock"
    );
    for (name, of) in [("values", values), ("lines made before", lines)] {
        println!(
            "{name:22} {:>9.1} ms {:>9.1} ms {:>9.1} ms {:>9.1} ms",
            median(of, |l| l.calls) * 1000.0,
            median(of, |l| l.writer) * 1000.0,
            median(of, |l| l.sync) * 1000.0,
            median(of, |l| l.all) * 1000.0
        );
    }
    let ratio = |of: fn(&Lines) -> f64| median(lines, of) / median(values, of);
    println!(
        "speed beside lines made before: {:.2} from the first call to the disk, {:.2} of the writer alone \
         (its CPU and the sync)",
        ratio(|l| l.all),
        ratio(Lines::without_calls)
    );
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
async fn tracked(tracking: Tracking, values: u32) -> (Lines, Figures) {
    let tracking = tracking.queue_capacity(values as usize);
    // The time has a fraction of six digits but for one line in a million.
    let size: u64 = (0..values).map(|step| line(step).len() as u64 - 7).sum();
    let before = Instant::now();
    let run = TrackedRun::start(tracking).await.unwrap();
    let start = before.elapsed();
    let cpu_before = cpu();
    let before = Instant::now();
    for step in 0..values {
        run.log_metric(step, "loss", 1.0 / f64::from(step + 1))
            .unwrap();
    }
    let calls = before.elapsed();
    let (cpu_calls, _) = cpu_since(&cpu_before);
    let path = run.path().join("events/metric/loss.plx");
    wait_for_size(&path, size).await;
    let (_, cpu_writer) = cpu_since(&cpu_before);
    let before_sync = Instant::now();
    File::open(path).unwrap().sync_all().unwrap();
    let lines = Lines {
        calls: cpu_calls,
        writer: cpu_writer,
        sync: before_sync.elapsed().as_secs_f64(),
        all: before.elapsed().as_secs_f64(),
    };
    let before = Instant::now();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    let figures = Figures {
        start: start.as_secs_f64(),
        calls: calls.as_secs_f64(),
        end: before.elapsed().as_secs_f64(),
        ..Figures::default()
    };
    (lines, figures)
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
fn buffered(path: &Path) -> Lines {
    let lines: Vec<String> = (0..VALUES).map(line).collect();
    let cpu_before = cpu();
    let before = Instant::now();
    let mut writer = std::io::BufWriter::new(File::create(path).unwrap());
    for line in &lines {
        writer.write_all(line.as_bytes()).unwrap();
    }
    let file = writer.into_inner().unwrap();
    let (cpu_here, _) = cpu_since(&cpu_before);
    let before_sync = Instant::now();
    file.sync_all().unwrap();
    Lines {
        calls: 0.0,
        writer: cpu_here,
        sync: before_sync.elapsed().as_secs_f64(),
        all: before.elapsed().as_secs_f64(),
    }
}

/// Nanoseconds on a processor by thread, as Linux tells them; nothing elsewhere.
fn cpu() -> HashMap<String, u64> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    threads
        .filter_map(|thread| {
            let thread = thread.ok()?;
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
            Some((thread.file_name().into_string().ok()?, nanoseconds))
        })
        .collect()
}

/// Seconds on a processor since then: of the main thread, which makes the calls, and of the others.
fn cpu_since(before: &HashMap<String, u64>) -> (f64, f64) {
    let main = std::process::id().to_string();
    let (mut here, mut others) = (0, 0);
    for (thread, now) in cpu() {
        let spent = now - before.get(&thread).copied().unwrap_or_default();
        match thread == main {
            true => here += spent,
            false => others += spent,
        }
    }
    (here as f64 / 1e9, others as f64 / 1e9)
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

fn median<T>(figures: &[T], of: impl Fn(&T) -> f64) -> f64 {
    middle(&mut figures.iter().map(of).collect::<Vec<_>>())
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
