//! Runs beside each other, and their files on disk, from the open-source control plane.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use polyaxon_client::RunUuid;
use polyaxon_client::runs::{
    Cell, Column, Comparison, CreateRun, ListRuns, RunTable, Runs, SaveArtifacts, Upload,
};
use serde_json::{Value, json};

use crate::provided::scratch;
use crate::runs::runs;

const NAMESPACE: &str = "polyaxon";

async fn upload(runs: &Runs, run: RunUuid, folder: &Path, path: &str, content: &[u8]) {
    let file = folder.join("up");
    std::fs::write(&file, content).unwrap();
    runs.upload(NAMESPACE, run, &Upload::new(file, path))
        .await
        .unwrap();
}

async fn candidate(runs: &Runs, name: &str, change: Value) -> RunUuid {
    let run = runs
        .create(&CreateRun::unmanaged().name(name))
        .await
        .unwrap()
        .uuid;
    runs.update(run, change.as_object().unwrap()).await.unwrap();
    run
}

fn names(table: &RunTable) -> Vec<&str> {
    table
        .rows()
        .iter()
        .map(|row| row.run.name.as_deref().unwrap())
        .collect()
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn runs_are_compared_by_inputs_last_metrics_and_outputs() {
    let (_, runs) = runs("comparison").await;
    let folder = scratch("comparison");
    let loss = "events/metric/loss.plx";
    let head = "step|timestamp|metric\n";
    let at = "2026-01-02 03:04:05.000001+00:00";
    let zero = candidate(
        &runs,
        "zero",
        json!({"inputs": {"model": "m1"}, "outputs": {"score": 0}}),
    )
    .await;
    let events = format!("{head}0|{at}|0.5\n1|{at}|0.25\n2|{at}|0.125\n");
    upload(&runs, zero, &folder, loss, events.as_bytes()).await;
    candidate(
        &runs,
        "null",
        json!({"inputs": {"model": "m2"}, "outputs": {"score": null}}),
    )
    .await;
    let late = candidate(
        &runs,
        "late",
        json!({"inputs": {"model": "m1"}, "outputs": {"score": 0.75}}),
    )
    .await;
    // Logged out of their order: the highest step is the last.
    let events = format!("{head}7|{at}|3.5\n1|{at}|9.5\n");
    upload(&runs, late, &folder, loss, events.as_bytes()).await;
    let none = candidate(&runs, "none", json!({"inputs": {}})).await;
    let events = format!("{head}0|{at}|1.0\n1|{at}|nan\n");
    upload(&runs, none, &folder, loss, events.as_bytes()).await;

    let columns = Comparison::new()
        .inputs(["model"])
        .metrics(["loss"])
        .outputs(["score"]);
    let mut table = runs
        .compare(&ListRuns::new().limit(3), &columns)
        .await
        .unwrap();
    assert_eq!(names(&table), ["zero", "null", "late", "none"]);
    let cells: Vec<&[Cell]> = table
        .rows()
        .iter()
        .map(|row| row.cells.as_slice())
        .collect();
    let value = |value: Value| Cell::Value(value);
    assert_eq!(
        cells[0],
        [value(json!("m1")), value(json!(0.125)), value(json!(0))]
    );
    assert_eq!(
        cells[1],
        [value(json!("m2")), Cell::Missing, value(Value::Null)]
    );
    assert_eq!(
        cells[2],
        [value(json!("m1")), value(json!(3.5)), value(json!(0.75))]
    );
    assert_eq!(cells[3], [Cell::Missing, Cell::NotFinite, Cell::Missing]);

    table.sort_descending(&Column::Output("score".to_owned()));
    assert_eq!(names(&table), ["late", "zero", "null", "none"]);
    let shown = table.to_string();
    let lines: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "run",
            "status",
            "inputs.model",
            "metrics.loss",
            "outputs.score"
        ]
    );
    assert_eq!(lines[1], ["late", "created", "m1", "3.5", "0.75"]);
    assert_eq!(lines[3], ["null", "created", "m2", "-", "null"]);
    table.sort_ascending(&Column::Metric("loss".to_owned()));
    assert_eq!(names(&table), ["zero", "late", "null", "none"]);

    // A file without events yet is no value, and no failure.
    let empty = candidate(&runs, "empty", json!({})).await;
    upload(&runs, empty, &folder, loss, head.as_bytes()).await;
    // One that a crash has cut fails the answer for all; the others are read all the same.
    let broken = candidate(&runs, "broken", json!({"inputs": {"model": "m3"}})).await;
    upload(
        &runs,
        broken,
        &folder,
        loss,
        format!("{head}0|2026\n").as_bytes(),
    )
    .await;
    let table = runs.compare(&ListRuns::new(), &columns).await.unwrap();
    assert_eq!(table.rows()[0].cells[1], value(json!(0.125)));
    assert_eq!(table.rows()[4].cells[1], Cell::Missing);
    assert!(matches!(&table.rows()[5].cells[1], Cell::Unreadable(why) if why.contains("500")));
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn files_of_a_run_are_saved_to_disk_with_progress() {
    let (_, runs) = runs("saved").await;
    let folder = scratch("saved");
    let run = runs.create(&CreateRun::unmanaged()).await.unwrap().uuid;
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    upload(&runs, run, &folder, "outputs/large.bin", &large).await;
    upload(&runs, run, &folder, "outputs/deep/er/é ü.txt", b"text").await;
    upload(&runs, run, &folder, "outputs/empty", b"").await;
    upload(&runs, run, &folder, "other.txt", b"not asked for").await;

    let told = Arc::new(Mutex::new(Vec::new()));
    let to: PathBuf = folder.join("down");
    let save = SaveArtifacts::new("outputs", &to).on_progress({
        let told = Arc::clone(&told);
        move |now| {
            told.lock().unwrap().push((now.bytes, now.total));
        }
    });
    let mut saved = runs.save_folder(NAMESPACE, run, &save).await.unwrap();
    saved.sort();
    assert_eq!(saved, ["deep/er/é ü.txt", "empty", "large.bin"]);
    assert!(std::fs::read(to.join("large.bin")).unwrap() == large);
    assert_eq!(std::fs::read(to.join("deep/er/é ü.txt")).unwrap(), b"text");
    assert_eq!(std::fs::read(to.join("empty")).unwrap(), b"");
    let told = told.lock().unwrap().clone();
    let total = large.len() as u64 + 4;
    assert!(told.iter().all(|(_, of)| *of == Some(total)));
    assert!(told.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(told.last().unwrap().0, total);
    let left: Vec<_> = std::fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");

    let one = SaveArtifacts::new("outputs/large.bin", to.join("one.bin"));
    assert_eq!(
        runs.save_file(NAMESPACE, run, &one).await.unwrap(),
        large.len() as u64
    );
    assert!(std::fs::read(to.join("one.bin")).unwrap() == large);
    let error = runs
        .save_file(
            NAMESPACE,
            run,
            &SaveArtifacts::new("outputs/none", to.join("none")),
        )
        .await
        .unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    assert!(!to.join("none").exists());
}
