//! What became of everything that was taken, fault by fault. The table is printed:
//! `cargo test -p polyaxon-tracking --test server count -- --nocapture`.

use std::time::Duration;

use polyaxon_local::{Fault, FaultRule};
use polyaxon_tracking::{Report, Sending, TrackedRun};

use crate::stage::{NAMESPACE, Stage};

const VALUES: usize = 500;
const INPUTS: usize = 50;
const FILES: usize = 5;

/// What became of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    values_on_disk: usize,
    values_on_server: usize,
    inputs_on_server: usize,
    inputs_reported: usize,
    files_on_server: usize,
    files_reported: usize,
}

async fn log(run: &TrackedRun) {
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

async fn count(stage: &Stage, run: &TrackedRun, report: &Report) -> Count {
    // The server has recovered.
    stage.server.faults().clear();
    let lines = |text: &str| text.lines().filter(|line| line.ends_with("|0.5")).count();
    let events = run.path().join("events/metric/loss.plx");
    let runs = stage.runs();
    let sizes = runs.artifact_sizes(NAMESPACE, run.uuid()).await.unwrap();
    let on_server = match sizes.contains_key("events/metric/loss.plx") {
        true => lines(&stage.file(run.uuid(), "events/metric/loss.plx").await),
        false => 0,
    };
    let inputs = stage.get(run.uuid()).await.inputs;
    let reported = |wanted: fn(&Sending) -> bool| {
        let unsent = report.unsent().iter();
        unsent.filter(|unsent| wanted(unsent.what())).count()
    };
    let is_output = |path: &&String| path.starts_with("outputs/");
    Count {
        values_on_disk: lines(&std::fs::read_to_string(events).unwrap()),
        values_on_server: on_server,
        inputs_on_server: inputs.map_or(0, |inputs| {
            inputs.as_object().map_or(0, serde_json::Map::len)
        }),
        inputs_reported: reported(|what| *what == Sending::Record(vec!["inputs".to_owned()])),
        files_on_server: sizes.keys().filter(is_output).count(),
        files_reported: reported(
            |what| matches!(what, Sending::File(path) if path.starts_with("outputs/")),
        ),
    }
}

#[tokio::test]
async fn what_was_taken_is_on_the_disk_and_sent_or_reported_whatever_the_server_does() {
    let any = |fault| FaultRule::new(fault).path("*");
    let seconds = Duration::from_secs;
    // The fault, how long it lasts, and how long the end may take.
    let faults = [
        ("none", None, seconds(0), seconds(30)),
        (
            "405, five seconds",
            Some(any(Fault::Busy)),
            seconds(5),
            seconds(30),
        ),
        (
            "502, two seconds",
            Some(any(Fault::BadGateway)),
            seconds(2),
            seconds(30),
        ),
        (
            "429, two seconds",
            Some(any(Fault::TooManyRequests(1))),
            seconds(2),
            seconds(30),
        ),
        (
            "closed, two seconds",
            Some(any(Fault::Close)),
            seconds(2),
            seconds(30),
        ),
        (
            "closed for good",
            Some(any(Fault::Close)),
            seconds(600),
            seconds(2),
        ),
        (
            "closed after 40 calls",
            Some(any(Fault::Close).skip(40)),
            seconds(600),
            seconds(2),
        ),
        (
            "silent for good",
            Some(any(Fault::StallAfter(0))),
            seconds(600),
            seconds(2),
        ),
    ];
    let all = Count {
        values_on_disk: VALUES,
        values_on_server: VALUES,
        inputs_on_server: INPUTS,
        files_on_server: FILES,
        ..Count::default()
    };
    println!(
        "{:24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "fault", "on disk", "on srv", "in srv", "in rep", "file srv", "file rep"
    );
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
        log(&run).await;
        let faults = stage.server.faults().clone();
        let (report, ()) = tokio::join!(run.end(), async {
            if is_short && has_fault {
                tokio::time::sleep(lasts).await;
                faults.clear();
            }
        });
        let report = report.unwrap();
        let count = count(&stage, &run, &report).await;
        println!(
            "{name:24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            count.values_on_disk,
            count.values_on_server,
            count.inputs_on_server,
            count.inputs_reported,
            count.files_on_server,
            count.files_reported
        );
        assert_eq!(report.unwritten().len(), 0, "{name}: {report:?}");
        match is_short {
            true => assert_eq!(count, all, "{name}: {report:?}"),
            false => {
                assert_eq!(count.values_on_disk, VALUES, "{name}");
                // The last call may have been carried out all the same.
                let inputs = count.inputs_on_server + count.inputs_reported;
                assert!((INPUTS..=INPUTS + 1).contains(&inputs), "{name}: {count:?}");
                let files = count.files_on_server + count.files_reported;
                assert!((FILES..=FILES + 1).contains(&files), "{name}: {count:?}");
                assert!(run.path().join("run.plx.json").exists(), "{name}");
            }
        }
    }
}
