//! What became of everything that was taken, fault by fault. The table is printed:
//! `cargo test -p polyaxon-tracking --test server count -- --nocapture`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use polyaxon_client::RunUuid;
use polyaxon_local::{Fault, FaultRule};
use polyaxon_tracking::{Missing, Push, Report, Sending, TrackedRun, push};

use crate::ends::Process;
use crate::stage::{NAMESPACE, Stage};

pub(crate) const VALUES: usize = 500;
pub(crate) const INPUTS: usize = 50;
const FILES: usize = 5;

/// What became of a run. An input has a name of its own, so that each can be looked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    taken: usize,
    on_disk: usize,
    on_server: usize,
    unwritten: usize,
    inputs_taken: usize,
    inputs_on_disk: BTreeSet<String>,
    inputs_on_server: BTreeSet<String>,
    inputs_unsent: usize,
    files_on_server: usize,
    files_unsent: usize,
}

pub(crate) fn log(run: &TrackedRun) {
    for number in 0..INPUTS {
        run.log_inputs([(format!("i{number}"), number)]).unwrap();
    }
    for number in 0..FILES {
        let path = run.outputs_path(format!("{number}.txt")).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    for step in 0..VALUES {
        let step = i64::try_from(step).unwrap();
        run.log_metric(step, "loss", 0.5).unwrap();
    }
}

/// Whether all of [`log`] is in the folder of a run.
pub(crate) fn is_on_disk(folder: &Path) -> bool {
    lines_of(folder) == VALUES && inputs_of(folder).len() == INPUTS
}

fn lines_in(text: &str) -> usize {
    text.lines().filter(|line| line.ends_with("|0.5")).count()
}

fn lines_of(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("events/metric/loss.plx"));
    text.map_or(0, |text| lines_in(&text))
}

fn inputs_of(folder: &Path) -> BTreeSet<String> {
    let record = std::fs::read(folder.join("run.plx.json")).unwrap_or_default();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
    names(record.get("inputs"))
}

fn names(inputs: Option<&serde_json::Value>) -> BTreeSet<String> {
    let inputs = inputs.and_then(serde_json::Value::as_object);
    inputs
        .into_iter()
        .flat_map(|map| map.keys().cloned())
        .collect()
}

impl Count {
    /// Looks everywhere, once the server has recovered.
    async fn of(stage: &Stage, folder: &Path, run: RunUuid, report: Option<&Report>) -> Self {
        stage.server.faults().clear();
        let runs = stage.runs();
        let sizes = runs.artifact_sizes(NAMESPACE, run).await.unwrap();
        let on_server = match sizes.contains_key("events/metric/loss.plx") {
            true => lines_in(&stage.file(run, "events/metric/loss.plx").await),
            false => 0,
        };
        let unsent = |wanted: fn(&Sending) -> bool| {
            let unsent = report.into_iter().flat_map(Report::unsent);
            unsent.filter(|unsent| wanted(unsent.what())).count()
        };
        let unwritten = report.into_iter().flat_map(Report::unwritten);
        let values = unwritten.map(|lost| match lost.what() {
            Missing::Values(values) => usize::try_from(values).unwrap(),
            _ => 0,
        });
        let is_output = |path: &&String| path.starts_with("outputs/");
        Self {
            taken: VALUES,
            on_disk: lines_of(folder),
            on_server,
            unwritten: values.sum(),
            inputs_taken: INPUTS,
            inputs_on_disk: inputs_of(folder),
            inputs_on_server: names(stage.get(run).await.inputs.as_ref()),
            inputs_unsent: unsent(|what| *what == Sending::Record(vec!["inputs".to_owned()])),
            files_on_server: sizes.keys().filter(is_output).count(),
            files_unsent: unsent(
                |what| matches!(what, Sending::File(path) if path.starts_with("outputs/")),
            ),
        }
    }

    /// Nothing is missing that nobody has said.
    fn assert_accounted(&self, name: &str) {
        assert_eq!(
            self.on_disk + self.unwritten,
            self.taken,
            "{name}: {self:?}"
        );
        assert!(self.on_server <= self.on_disk, "{name}: {self:?}");
        let safe = self.inputs_on_disk.union(&self.inputs_on_server).count();
        assert_eq!(safe, self.inputs_taken, "{name}: {self:?}");
    }

    fn assert_sent(&self, name: &str) {
        self.assert_accounted(name);
        assert_eq!(self.on_server, self.taken, "{name}: {self:?}");
        assert_eq!(self.inputs_on_server.len(), self.inputs_taken, "{name}");
        assert_eq!((self.inputs_unsent, self.files_unsent), (0, 0), "{name}");
        assert_eq!(self.files_on_server, FILES, "{name}");
    }

    fn print(&self, name: &str) {
        println!(
            "{name:32} {:>6} {:>6} {:>6} {:>6} | {:>6} {:>6} {:>6} {:>6} | {:>6} {:>6}",
            self.taken,
            self.on_disk,
            self.on_server,
            self.unwritten,
            self.inputs_taken,
            self.inputs_on_disk.len(),
            self.inputs_on_server.len(),
            self.inputs_unsent,
            self.files_on_server,
            self.files_unsent,
        );
    }
}

fn print_head() {
    println!(
        "{:32} {:^27} | {:^27} | {:^13}\n{:32} {:>6} {:>6} {:>6} {:>6} | {:>6} {:>6} {:>6} {:>6} | {:>6} {:>6}",
        "",
        "values",
        "inputs",
        "files of 5",
        "fault",
        "taken",
        "disk",
        "sent",
        "report",
        "taken",
        "disk",
        "sent",
        "report",
        "sent",
        "report"
    );
}

/// One table after the other, so that they can be read.
#[tokio::test]
async fn what_was_taken_is_on_the_disk_or_sent_or_reported_whatever_happens() {
    print_head();
    at_the_start().await;
    with_a_server_in_trouble().await;
    with_a_full_disk().await;
    with_a_process_that_ends().await;
    with_two_processes().await;
}

async fn at_the_start() {
    let stage = Stage::new().await;
    let down = FaultRule::new(Fault::Close).path("*");
    stage.server.faults().add(down);
    let refused = TrackedRun::start(stage.tracking()).await;
    refused.unwrap_err();
    assert!(!stage.root().exists());
    Count::default().print("down at the start: an error");
}

async fn with_a_server_in_trouble() {
    let any = |fault| FaultRule::new(fault).path("*");
    let seconds = Duration::from_secs;
    let (ever, patient, short) = (seconds(600), seconds(60), seconds(2));
    // The fault, how long it lasts, and how long the end may take.
    let faults = [
        ("none", None, seconds(0), patient),
        (
            "405, five seconds",
            Some(any(Fault::Busy)),
            seconds(5),
            patient,
        ),
        (
            "502, two seconds",
            Some(any(Fault::BadGateway)),
            seconds(2),
            patient,
        ),
        (
            "429, two seconds",
            Some(any(Fault::TooManyRequests(1))),
            seconds(2),
            patient,
        ),
        (
            "closed, two seconds",
            Some(any(Fault::Close)),
            seconds(2),
            patient,
        ),
        ("closed for good", Some(any(Fault::Close)), ever, short),
        (
            "closed in the middle, 40 calls",
            Some(any(Fault::Close).skip(40)),
            ever,
            short,
        ),
        (
            "closed at the end, 56 calls",
            Some(any(Fault::Close).skip(56)),
            ever,
            short,
        ),
        (
            "silent for good",
            Some(any(Fault::StallAfter(0))),
            ever,
            short,
        ),
    ];
    for (name, fault, lasts, limit) in faults {
        let stage = Stage::new().await;
        let tracking = stage.tracking().send_limit(limit);
        let run = TrackedRun::start(tracking).await.unwrap();
        run.flush().await.unwrap();
        let is_short = lasts < limit;
        let has_fault = fault.is_some();
        if let Some(fault) = fault {
            stage.server.faults().add(fault);
        }
        log(&run);
        let faults = stage.server.faults().clone();
        let (report, ()) = tokio::join!(run.end(), async {
            if is_short && has_fault {
                tokio::time::sleep(lasts).await;
                faults.clear();
            }
        });
        let report = report.unwrap();
        let count = Count::of(&stage, run.path(), run.uuid(), Some(&report)).await;
        count.print(name);
        assert_eq!(report.unwritten().len(), 0, "{name}: {report:?}");
        if is_short {
            count.assert_sent(name);
            continue;
        }
        count.assert_accounted(name);
        // The last call may have been carried out all the same.
        let inputs = count.inputs_on_server.len() + count.inputs_unsent;
        assert!((INPUTS..=INPUTS + 1).contains(&inputs), "{name}: {count:?}");
        let files = count.files_on_server + count.files_unsent;
        assert!((FILES..=FILES + 1).contains(&files), "{name}: {count:?}");
        assert_is_pushed(&stage, run.path(), run.uuid(), name).await;
    }
}

/// What is in the folder is sent by a push.
async fn assert_is_pushed(stage: &Stage, folder: &Path, run: RunUuid, name: &str) {
    let pushed = push(&stage.client, &Push::new(folder)).await.unwrap();
    assert_eq!(pushed.refused().len(), 0, "{name}");
    let count = Count::of(stage, folder, run, None).await;
    count.assert_sent(name);
}

/// A disk of its own, as small as a test wants it. It goes with this value.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this process may not have one.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                println!(
                    "no disk of a few pages here, which is skipped: {}",
                    said.trim()
                );
                None
            }
            Err(error) => {
                println!("no disk of a few pages here, which is skipped: {error}");
                None
            }
        }
    }

    fn grow(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount
            .args(["-o", &format!("remount,size={size}")])
            .arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg("-l").arg(&self.0).status();
        println!("the disk of a few pages is gone: {ended:?}");
    }
}

/// The values of a run that are more than its disk can hold.
async fn with_a_full_disk() {
    for has_room_later in [false, true] {
        let name = match has_room_later {
            false => "disk full",
            true => "disk full, then room",
        };
        let stage = Stage::new().await;
        let Some(disk) = Disk::mount(&stage.root(), "64k") else {
            return;
        };
        let run = TrackedRun::start(stage.tracking()).await.unwrap();
        log(&run);
        run.flush().await.unwrap();
        // More than the disk can hold by far.
        let more = 20 * VALUES;
        for step in 0..more {
            let step = i64::try_from(step).unwrap();
            run.log_metric(step, "loss", 0.5).unwrap();
        }
        run.flush().await.unwrap_err();
        if has_room_later {
            disk.grow("8m");
        }
        let report = run.end().await.unwrap();
        let mut count = Count::of(&stage, run.path(), run.uuid(), Some(&report)).await;
        count.taken += more;
        count.print(name);
        match has_room_later {
            true => count.assert_sent(name),
            false => {
                count.assert_accounted(name);
                assert!(count.unwritten > 0 && count.on_disk > VALUES, "{count:?}");
                assert_eq!(count.on_server, count.on_disk, "{count:?}");
            }
        }
        drop(run);
    }
}

async fn with_a_process_that_ends() {
    // The way it ends, and what makes it.
    let ways = [
        ("SIGTERM, asked for", "signal", Some("-TERM")),
        ("panic", "panic", None),
        ("SIGKILL", "wait", Some("-KILL")),
    ];
    for (name, way, signal) in ways {
        for is_down in [false, true] {
            let stage = Stage::new().await;
            if is_down {
                // The run can be created, and then nothing gets through.
                let down = FaultRule::new(Fault::Close).path("*").skip(2);
                stage.server.faults().add(down);
            }
            let mut process = Process::start(&stage, way, is_down).await;
            if let Some(signal) = signal {
                process.signal(signal);
            }
            process.end().await;
            let folder = stage.root();
            let count = Count::of(&stage, &folder, process.run, None).await;
            let name = match is_down {
                false => name.to_owned(),
                true => format!("{name}, server down"),
            };
            count.print(&name);
            count.assert_accounted(&name);
            if is_down || way == "wait" {
                assert_is_pushed(&stage, &folder, process.run, &name).await;
            } else {
                count.assert_sent(&name);
            }
        }
    }
}

async fn with_two_processes() {
    let stage = Stage::new().await;
    let mut first = Process::start(&stage, "signal", false).await;
    let second = TrackedRun::start(stage.tracking().run(first.run))
        .await
        .unwrap();
    for number in 0..VALUES {
        let step = i64::try_from(number).unwrap();
        second.log_metric(step, "loss", 0.5).unwrap();
        second
            .log_inputs([(format!("second{}", number % 10), number)])
            .unwrap();
    }
    first.signal("-TERM");
    first.end().await;
    let report = second.end().await.unwrap();
    let mut count = Count::of(&stage, second.path(), first.run, Some(&report)).await;
    count.taken += VALUES;
    count.inputs_taken += 10;
    count.print("two processes on one run");
    count.assert_sent("two processes on one run");
}
