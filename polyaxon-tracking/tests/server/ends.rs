//! Processes that end in the middle of a run: by a signal, by a panic, by being killed.
//!
//! The process is this test program once more, which runs one of its tests.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use polyaxon_client::runs::{RunStatus, Statuses};
use polyaxon_client::{Client, Config, RunUuid, Token};
use polyaxon_local::{Fault, FaultRule};
use polyaxon_tracking::{Push, TrackedRun, Tracking, push};

use crate::count::{self, INPUTS, VALUES};
use crate::stage::Stage;

/// What the process is told, by its environment.
const URL: &str = "TRACKED_PROCESS_URL";

pub(crate) struct Process {
    child: tokio::process::Child,
    pub(crate) run: RunUuid,
}

impl Process {
    /// A process that logs what [`count::log`] does, says so once that is on the disk, and then
    /// does what `way` says. What nobody takes it sends for a few seconds at the most.
    pub(crate) async fn start(stage: &Stage, way: &str, is_down: bool) -> Self {
        let ready = stage.folder.path().join("ready");
        let child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ends::the_process"])
            .env(URL, stage.server.url())
            .env("TRACKED_PROCESS_TOKEN", stage.server.token())
            .env("TRACKED_PROCESS_PROJECT", stage.project().to_string())
            .env("TRACKED_PROCESS_FOLDER", stage.root())
            .env("TRACKED_PROCESS_READY", &ready)
            .env("TRACKED_PROCESS_WAY", way)
            .env("TRACKED_PROCESS_SENDS", if is_down { "3" } else { "60" })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let run = loop {
            match std::fs::read_to_string(&ready).map(|text| text.parse()) {
                Ok(Ok(run)) => break run,
                _ => assert!(Instant::now() < limit, "the process does not come so far"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Self { child, run }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        let sent = std::process::Command::new("kill")
            .args([name, &id])
            .status();
        assert!(sent.unwrap().success());
    }

    pub(crate) async fn end(&mut self) {
        let limit = Duration::from_secs(90);
        tokio::time::timeout(limit, self.child.wait())
            .await
            .unwrap()
            .unwrap();
    }

    async fn statuses(&self, stage: &Stage) -> Statuses {
        stage.runs().statuses(self.run).await.unwrap()
    }
}

fn values_in(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .skip(1)
        .filter(|line| line.ends_with("|0.5"))
        .count()
}

/// The process that the others start. By itself it has nothing to do.
#[tokio::test]
async fn the_process() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    let of = |name: &str| std::env::var(format!("TRACKED_PROCESS_{name}")).unwrap();
    let config = Config::explicit(&url).unwrap();
    let client = Client::new(&config.token(Token::new(of("TOKEN")).unwrap())).unwrap();
    let project = of("PROJECT").parse().unwrap();
    let tracking = Tracking::new(&client, &project).folder(of("FOLDER"));
    let tracking = tracking.send_limit(Duration::from_secs(of("SENDS").parse().unwrap()));
    let run = TrackedRun::start(tracking).await.unwrap();
    count::log(&run);
    if of("WAY") == "panic" {
        run.note_panics();
    }
    // What was taken is on the disk within moments.
    let limit = Instant::now() + Duration::from_secs(60);
    while !count::is_on_disk(run.path()) {
        assert!(Instant::now() < limit);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ready = of("READY");
    let report = || {
        let made = format!("{ready}.made");
        std::fs::write(&made, run.uuid().to_string()).unwrap();
        std::fs::rename(made, &ready).unwrap();
    };
    match of("WAY").as_str() {
        "signal" => {
            let end = run.end_on_signal();
            tokio::pin!(end);
            // The handlers are there once it was polled.
            tokio::select! {
                biased;
                _ = &mut end => {}
                () = tokio::task::yield_now() => report(),
            }
            drop(end.await.unwrap().ensure_complete().unwrap());
        }
        "panic" => {
            report();
            panic!("boom");
        }
        _ => {
            report();
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test]
async fn a_process_that_is_asked_to_end_has_ended_its_run() {
    let stage = Stage::new().await;
    let mut process = Process::start(&stage, "signal", false).await;
    process.signal("-TERM");
    process.end().await;
    let statuses = process.statuses(&stage).await;
    assert_eq!(statuses.status, RunStatus::Stopped);
    let last = statuses.status_conditions.last().unwrap();
    assert_eq!(last.reason.as_deref(), Some("Signal"));
    assert_eq!(last.message.as_deref(), Some("The process got SIGTERM"));
    let file = stage.file(process.run, "events/metric/loss.plx").await;
    assert_eq!(file.lines().count(), VALUES + 1);
}

#[tokio::test]
async fn a_panic_fails_the_run_and_is_named() {
    let stage = Stage::new().await;
    let mut process = Process::start(&stage, "panic", false).await;
    process.end().await;
    let statuses = process.statuses(&stage).await;
    assert_eq!(statuses.status, RunStatus::Failed);
    let last = statuses.status_conditions.last().unwrap();
    assert_eq!(last.reason.as_deref(), Some("Panicked"));
    let message = last.message.as_deref().unwrap();
    assert!(
        message.starts_with("Panicked at ") && message.ends_with(": boom"),
        "{message}"
    );
    let file = stage.file(process.run, "events/metric/loss.plx").await;
    assert_eq!(file.lines().count(), VALUES + 1);
}

#[tokio::test]
async fn a_run_that_was_killed_is_gone_on_with_or_pushed() {
    for goes_on in [true, false] {
        let stage = Stage::new().await;
        // The run can be created, and then nothing gets through.
        let down = FaultRule::new(Fault::Close).path("*").skip(2);
        stage.server.faults().add(down);
        let mut process = Process::start(&stage, "wait", true).await;
        process.signal("-KILL");
        process.end().await;
        stage.server.faults().clear();
        let events = stage.root().join("events/metric/loss.plx");
        assert_eq!(values_in(&events), VALUES);
        assert_eq!(stage.get(process.run).await.inputs, None);
        let values = match goes_on {
            true => {
                let tracking = stage.tracking().resume(process.run);
                let run = TrackedRun::start(tracking).await.unwrap();
                run.log_metric(1000, "loss", 0.5).unwrap();
                drop(run.end().await.unwrap().ensure_complete().unwrap());
                assert!(!stage.root().join("run.plx.json").exists());
                VALUES + 1
            }
            false => {
                let pushed = push(&stage.client, &Push::new(stage.root())).await.unwrap();
                assert_eq!((pushed.run().run, pushed.refused().len()), (process.run, 0));
                VALUES
            }
        };
        let file = stage.file(process.run, "events/metric/loss.plx").await;
        assert_eq!(file.lines().count(), values + 1);
        let found = stage.get(process.run).await;
        assert_eq!(found.outputs, Some(serde_json::json!({"loss": 0.5})));
        assert_eq!(found.inputs.unwrap().as_object().unwrap().len(), INPUTS);
        // Who pushes a run does not say that it has ended.
        let status = match goes_on {
            true => RunStatus::Succeeded,
            false => RunStatus::Running,
        };
        assert_eq!(process.statuses(&stage).await.status, status);
    }
}

/// Both append whole lines to the same files; the server has those of both in the end.
#[tokio::test]
async fn two_processes_on_one_run_lose_nothing_of_each_other() {
    let stage = Stage::new().await;
    let mut first = Process::start(&stage, "signal", false).await;
    let tracking = stage.tracking().run(first.run);
    let second = TrackedRun::start(tracking).await.unwrap();
    for step in 1000..2000 {
        second.log_metric(step, "loss", 0.5).unwrap();
    }
    first.signal("-TERM");
    first.end().await;
    drop(second.end().await.unwrap().ensure_complete().unwrap());
    assert_eq!(
        values_in(&stage.root().join("events/metric/loss.plx")),
        VALUES + 1000
    );
    let file = stage.file(first.run, "events/metric/loss.plx").await;
    assert_eq!(file.lines().count(), VALUES + 1001);
    let record = stage
        .runs()
        .lineage_record(first.run, "loss")
        .await
        .unwrap();
    assert_eq!(record.summary["metric"]["count"], VALUES as f64 + 1000.0);
}
