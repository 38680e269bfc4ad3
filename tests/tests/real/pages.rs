//! What people see of tracked runs: the platform's own pages, in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use polyaxon_tracking::{ArtifactRef, At, Ending, TrackedRun, Tracking};
use serde_json::{Value, json};

use crate::program::Program;
use crate::provided;
use crate::tracking::Stage;

/// How long a page may take: it has its own limit for each step.
const PAGE_LIMIT: Duration = Duration::from_secs(180);

const LOSS: [f64; 4] = [0.5, 0.375, 0.25, 0.125];
const MATCHES: [f64; 4] = [0.0, 1.0, 0.0, 1.0];

/// A run with something for every page.
async fn track(stage: &Stage) -> TrackedRun {
    let tracking = Tracking::new(&stage.client, &stage.project)
        .name("candidate-7")
        .description("repairs the parser of amounts")
        .tag("nightly")
        .folder(stage.folder.join("run"));
    let run = TrackedRun::start(tracking).await.unwrap();
    run.log_inputs([("task_id", json!("parse-amounts")), ("lr", json!(0.0625))])
        .unwrap();
    run.log_outputs([("decision", "accepted")]).unwrap();
    run.log_artifact_ref(ArtifactRef::named_data("case-set-7"))
        .unwrap();
    // A minute apart, so that the axis of the charts has a place for each.
    let first: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
    for (minute, (loss, matches)) in (0_i32..).zip(LOSS.into_iter().zip(MATCHES)) {
        let at = At::from(minute).timestamp(first + SignedDuration::from_mins(minute.into()));
        run.log_metrics(at, [("loss", loss), ("fixture_matches", matches)])
            .unwrap();
    }
    run.log_capture().log("the check printed this").unwrap();
    let receipt = run.outputs_path("receipts/step-1.json").unwrap();
    std::fs::write(&receipt, r#"{"exit_code": 17}"#).unwrap();
    run.log_artifact_ref(ArtifactRef::file(&receipt).name("command-receipt"))
        .unwrap();
    drop(run.end().await.unwrap().ensure_complete().unwrap());
    run
}

/// Opens pages one after the other, and answers what they show.
pub(crate) fn look(folder: &Path, pages: &Value) -> Vec<Value> {
    let plan = folder.join("plan.json");
    let pictures = PathBuf::from(provided::get("REAL_PICTURES"));
    let told = json!({
        "chromium": provided::get("REAL_CHROMIUM").to_str().unwrap(),
        "profile": folder.join("profile"),
        "pictures": pictures,
        "pages": pages,
    });
    std::fs::write(&plan, told.to_string()).unwrap();
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/real/pages/pages.js"));
    node.arg(provided::get("REAL_PAGES")).arg(&plan);
    let node = Program::spawn(&mut node);
    let mut seen = Vec::new();
    for page in pages.as_array().unwrap() {
        let line = node.line(PAGE_LIMIT).unwrap();
        let one: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(one["name"], page["name"]);
        assert!(
            one.get("problem").is_none(),
            "{} of page {}, with the text\n{}",
            one["problem"],
            one["name"],
            one["text"].as_str().unwrap()
        );
        seen.push(one);
    }
    seen
}

/// The cells of a table between two texts of a page: all words but white space.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{text}"));
    let (table, _) = rest.split_once(end).unwrap_or_else(|| panic!("{rest}"));
    let lines = table.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_pages_of_the_platform_show_a_run_with_its_values_charts_files_and_lineage() {
    let stage = Stage::new("tracked-pages").await;
    let run = track(&stage).await;
    let failed = Tracking::new(&stage.client, &stage.project)
        .name("candidate-8")
        .folder(stage.folder.join("failed"));
    let failed = TrackedRun::start(failed).await.unwrap();
    let ending = Ending::failed("the check timed out").reason("CheckTimedOut");
    drop(
        failed
            .end_with(ending)
            .await
            .unwrap()
            .ensure_complete()
            .unwrap(),
    );

    let host = provided::get("REAL_CONTROL_PLANE").into_string().unwrap();
    let runs = format!("{host}/ui/{}/runs", stage.project);
    let of = |run: &TrackedRun, page: &str| format!("{runs}/{}{page}", run.uuid());
    let pages = json!([
        {"name": "table", "url": runs, "steps": [
            {"until": ["Runs (2)", "candidate-7", "candidate-8"]},
        ]},
        {"name": "run", "url": of(&run, ""), "steps": [
            {"until": ["succeeded", "task_id", "decision", "fixture_matches"]},
        ]},
        {"name": "lineage", "url": of(&run, ""), "steps": [
            {"until": ["task_id"]},
            {"click": "Artifacts"},
            {"until": ["command-receipt", "case-set-7", "fixture_matches"]},
        ]},
        {"name": "charts", "url": of(&run, "/dashboards"), "steps": [
            {"until": ["metric events", "loss", "fixture_matches"]},
            {"points": ["loss", "fixture_matches"]},
        ]},
        {"name": "files", "url": of(&run, "/artifacts"), "steps": [
            {"until": ["outputs", "events"]},
            {"click": "outputs"},
            {"click": "receipts"},
            {"until": ["step-1.json"]},
            {"click": "step-1.json"},
            {"until": ["outputs/receipts/step-1.json"]},
        ]},
        {"name": "logs", "url": of(&run, "/logs"), "steps": [
            {"until": ["the check printed this"]},
        ]},
        {"name": "statuses", "url": of(&failed, "/statuses"), "steps": [
            {"until": ["failed", "CheckTimedOut"]},
        ]},
    ]);
    let seen = look(&stage.folder, &pages);
    let text = |name: &str| {
        let page = seen.iter().find(|page| page["name"] == name).unwrap();
        page["text"].as_str().unwrap()
    };

    let table = between(text("table"), "Runs (2)", "Rows per page");
    for cell in ["candidate-7", "candidate-8", "nightly"] {
        assert!(table.contains(&cell), "{cell} of {table:?}");
    }
    let page = text("run");
    let inputs = between(page, "Inputs", "Rows per page");
    assert_eq!(
        inputs[inputs.len() - 4..],
        ["lr", "0.0625", "task_id", "parse-amounts"],
    );
    let (_, outputs) = page.split_once("Outputs").unwrap();
    let outputs = between(outputs, "Value", "Rows per page");
    let mut pairs: Vec<_> = outputs
        .chunks(2)
        .map(|pair| (pair[0], pair[1..].first().copied()))
        .collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [
            ("decision", Some("accepted")),
            ("fixture_matches", Some("1")),
            ("loss", Some("0.125")),
        ]
    );
    assert!(page.contains("repairs the parser of amounts"), "{page}");

    let (inputs, outputs) = text("lineage").split_once("Outputs").unwrap();
    assert!(inputs.contains("case-set-7"), "{inputs}");
    assert!(inputs.contains("Kind: data"), "{inputs}");
    for (name, kind) in [
        ("command-receipt", "file"),
        ("loss", "metric"),
        ("fixture_matches", "metric"),
    ] {
        let rows: Vec<&str> = outputs
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        let row = rows.iter().position(|cell| *cell == name);
        let row = row.unwrap_or_else(|| panic!("{name} of {outputs}"));
        assert_eq!(rows[row + 1..row + 3], [&format!("Kind: {kind}"), kind]);
    }

    // Every value that was logged is a point of its chart, and there are no others.
    let charts = seen.iter().find(|page| page["name"] == "charts").unwrap();
    let values = |name: &str| {
        let texts = charts["points"][name].as_array().unwrap().iter();
        let mut values: Vec<f64> = texts
            .map(|v| v.as_str().unwrap().parse().unwrap())
            .collect();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!(values("loss"), [0.125, 0.25, 0.375, 0.5]);
    assert_eq!(values("fixture_matches"), [0.0, 1.0]);
}
