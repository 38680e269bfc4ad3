//! Runs of this crate beside recorded runs of the Python module: event files byte for byte, metadata
//! as the same JSON. Every difference that is allowed stands in the test that allows it.

use std::collections::BTreeMap;

use polyaxon_tracking::{Ending, Error, read_metric_series};
use serde_json::{Map, Value, json};

use crate::replay::{Replay, read_json, replay};

/// The two metadata files, recorded and made, with what differs between any two runs replaced.
struct Metadata {
    recorded: Value,
    made: Value,
    recorded_lineages: Vec<Value>,
    made_lineages: Vec<Value>,
}

impl Metadata {
    fn of(replay: &Replay) -> Self {
        let lineages = |text: String| -> Vec<Value> { serde_json::from_str(&text).unwrap() };
        let read = |path| std::fs::read_to_string(path).unwrap_or_else(|_| "[]".to_owned());
        Self {
            recorded: without_times(read_json(&replay.recorded.join("run.plx.json"))),
            made: without_times(read_json(&replay.made.join("run.plx.json"))),
            recorded_lineages: lineages(
                replay.text(&read(replay.recorded.join("lineages.plx.json"))),
            ),
            made_lineages: lineages(read(replay.made.join("lineages.plx.json"))),
        }
    }

    /// Leaves out what stands for these names, on the recorded side.
    fn forget(&mut self, names: &[&str]) {
        forget(&mut self.recorded, &mut self.recorded_lineages, names);
    }

    /// Leaves out what stands for these names, on both sides.
    fn forget_both(&mut self, names: &[&str]) {
        self.forget(names);
        forget(&mut self.made, &mut self.made_lineages, names);
    }

    /// The platform lists event files in the order of the folder, which is any.
    fn sort_lineages(&mut self) {
        for lineages in [&mut self.recorded_lineages, &mut self.made_lineages] {
            lineages.sort_by_key(|record| record["name"].as_str().unwrap().to_owned());
        }
    }

    fn assert_same(&self) {
        assert_same_json(&self.made, &self.recorded);
        let lineages = |records: &[Value]| Value::from(records.to_vec());
        assert_same_json(
            &lineages(&self.made_lineages),
            &lineages(&self.recorded_lineages),
        );
    }
}

/// Compares as text, in which 1 is not 1.0 and 0.0 not -0.0, and shows where it differs.
fn assert_same_json(made: &Value, recorded: &Value) {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    let (made, recorded) = (text(made), text(recorded));
    let around = |text: &str, line: usize| -> String {
        let lines = text.lines().skip(line.saturating_sub(20)).take(24);
        lines.collect::<Vec<_>>().join("\n")
    };
    if let Some(line) = made.lines().zip(recorded.lines()).position(|(a, b)| a != b) {
        panic!(
            "made:\n{}\nrecorded:\n{}",
            around(&made, line),
            around(&recorded, line)
        );
    }
    assert_eq!(made.len(), recorded.len());
}

fn forget(record: &mut Value, lineages: &mut Vec<Value>, names: &[&str]) {
    lineages.retain(|record| !names.contains(&record["name"].as_str().unwrap()));
    if let Some(outputs) = record.get_mut("outputs").and_then(Value::as_object_mut) {
        outputs.retain(|name, _| !names.contains(&name.as_str()));
    }
}

/// The record with its times replaced, once they have the right form.
fn without_times(mut record: Value) -> Value {
    fn time(value: &mut Value) {
        let text = value.as_str().unwrap();
        let instant: jiff::Timestamp = text.parse().unwrap();
        assert!(text.ends_with("+00:00") && text.contains('T'), "{text}");
        assert_eq!(instant.subsec_nanosecond() % 1000, 0, "{text}");
        assert!(matches!(text.len(), 25 | 32), "{text}");
        *value = "a time".into();
    }
    for name in ["created_at", "started_at", "finished_at"] {
        time(&mut record[name]);
    }
    for name in ["wait_time", "duration"] {
        assert!(record[name].as_f64().unwrap() >= 0.0);
        record[name] = "a length".into();
    }
    for condition in record["status_conditions"].as_array_mut().unwrap() {
        time(&mut condition["last_update_time"]);
        time(&mut condition["last_transition_time"]);
    }
    record
}

fn assert_same_events(replay: &Replay) {
    assert_eq!(replay.made_event_files(), replay.expected_event_files());
}

fn unmade_series(replay: &Replay) -> Vec<&str> {
    let mut series: Vec<&str> = replay
        .events
        .iter()
        .filter(|event| !event.is_made)
        .map(|event| event.series.as_str())
        .collect();
    series.sort_unstable();
    series.dedup();
    series
}

fn refusals(replay: &Replay) -> Vec<&str> {
    replay
        .refused
        .iter()
        .map(|(call, _)| call.as_str())
        .collect()
}

#[tokio::test]
async fn a_run_with_inputs_outputs_tags_metadata_and_metrics() {
    let replay = replay("offline-default", None).await;
    assert_eq!(replay.skipped, ["log_env "]);
    assert_eq!(refusals(&replay), [""; 0]);
    assert_eq!(unmade_series(&replay), [""; 0]);
    assert_same_events(&replay);
    let mut metadata = Metadata::of(&replay);
    // The environment and the machine's load are not tracked here.
    metadata.forget(&["env", "cpu", "memory", "load"]);
    metadata.sort_lineages();
    metadata.assert_same();
    assert!(replay.made.join("assets").is_dir());
}

#[tokio::test]
async fn numbers_of_all_sizes() {
    let replay = replay("offline-metric-values", None).await;
    // No number in Python either.
    let no_numbers = ["v34", "v35", "v36", "v37"].map(|name| format!("log_metric {name}"));
    assert_eq!(replay.skipped, no_numbers);
    assert_eq!(refusals(&replay), [""; 0]);
    assert_eq!(unmade_series(&replay), [""; 0]);
    assert_same_events(&replay);
    let mut metadata = Metadata::of(&replay);
    // The recorded summaries of these two are one off in the last place; ours are exact.
    for (name, exact) in [
        ("v01", 0.300_000_000_000_000_04),
        ("v28", 0.100_000_001_490_116_12),
    ] {
        let off = metadata.recorded["outputs"][name].as_f64().unwrap();
        assert_ne!(off, exact);
        metadata.recorded["outputs"][name] = exact.into();
        let lineages = &mut metadata.recorded_lineages;
        let record = lineages.iter_mut().find(|record| record["name"] == name);
        for value in record.unwrap()["summary"]["metric"]
            .as_object_mut()
            .unwrap()
            .values_mut()
        {
            if *value == json!(off) {
                *value = exact.into();
            }
        }
    }
    metadata.sort_lineages();
    metadata.assert_same();
}

#[tokio::test]
async fn steps_and_times() {
    let replay = replay("offline-steps-timestamps", None).await;
    // Steps beyond 64 bits, times without an offset or with another than that of UTC: made by
    // `tests/tests/tracking`, which converts more. Steps that are no integers have no type here.
    let without_counterpart = [
        "step04", "step05", "step07", "step09", "ts00", "ts01", "ts03", "ts05", "ts06", "ts07",
        "ts08", "ts11", "ts12", "ts13",
    ];
    let skipped = without_counterpart.map(|name| format!("log_metric {name}"));
    assert_eq!(replay.skipped, skipped);
    assert_eq!(refusals(&replay), [""; 0]);
    assert_same_events(&replay);
    let mut metadata = Metadata::of(&replay);
    metadata.forget(&without_counterpart);
    metadata.sort_lineages();
    metadata.assert_same();
}

#[tokio::test]
async fn names_are_cleaned_alike_but_two_are_never_made_one() {
    let replay = replay("offline-metric-names", None).await;
    // A name that is none or a number; an event of another kind.
    assert_eq!(
        replay.skipped,
        ["log_metric ", "log_metric ", "log_text dir/te xt"]
    );
    let collisions: Vec<&str> = replay
        .refused
        .iter()
        .filter(|(_, error)| matches!(error, Error::NameCollision { .. }))
        .map(|(call, _)| call.trim_start_matches("log_metric "))
        .collect();
    assert_eq!(
        collisions,
        [
            "train__loss",
            "a-b",
            "a b",
            "a  b",
            "a:b",
            "a=b",
            "a'b",
            "a\"b",
            "a\nb",
            "a\tb",
            "a//b",
            "a,b",
            "a - b",
        ]
    );
    let others: Vec<String> = replay
        .refused
        .iter()
        .filter(|(_, error)| !matches!(error, Error::NameCollision { .. }))
        .map(|(_, error)| error.to_string())
        .collect();
    assert_eq!(
        others,
        [
            "the name \"\" cannot be used: it is empty",
            "the name \"损失\" cannot be used: nothing is left of it, \
             for names are stored in ASCII letters, digits, _ and -",
        ]
    );
    let shared = ["a-b", "a__b", "ab", "train__loss"];
    let mut unmade = shared.to_vec();
    unmade.insert(0, "5");
    assert_eq!(unmade_series(&replay), unmade);
    // The recording has the summaries of these two, but not their files.
    let mut made = replay.made_event_files();
    for (series, number) in [("__abs__path", 29), ("__x__", 42)] {
        let file = made.remove(series).unwrap();
        assert!(
            file.starts_with(&format!("step|timestamp|metric\n{number}|2")),
            "{file}"
        );
        assert!(file.ends_with(&format!("+00:00|{number}.0")), "{file}");
    }
    assert_eq!(made, replay.expected_event_files());

    let mut metadata = Metadata::of(&replay);
    metadata.forget(&["5", "dir__te-xt"]);
    metadata.forget_both(&shared);
    for record in metadata
        .made_lineages
        .iter_mut()
        .chain(&mut metadata.recorded_lineages)
    {
        if matches!(record["name"].as_str(), Some("__abs__path" | "__x__")) {
            record["summary"]["timestamp"] = "a time".into();
        }
    }
    // The empty name came in one call with another input.
    assert_eq!(metadata.recorded["inputs"], json!({"": 3, "i-j": 1}));
    metadata.recorded.as_object_mut().unwrap().remove("inputs");
    metadata.sort_lineages();
    metadata.assert_same();
}

#[tokio::test]
async fn what_a_run_is_called_and_what_it_was_given() {
    let replay = replay("offline-io", None).await;
    // Values without a form in JSON, text for lists and numbers. (An integer of 71 bits and a set
    // have no counterpart in the recording's own form; others are tested elsewhere.)
    assert_eq!(
        replay.skipped,
        [
            "log_inputs ",
            "log_inputs ",
            "log_tags [six, seven]",
            "log_progress 0.5"
        ]
    );
    // An input `é` beside an input `e`; a progress beyond 1.
    let refusals: Vec<String> = replay
        .refused
        .iter()
        .map(|(_, error)| error.to_string())
        .collect();
    assert_eq!(
        refusals,
        [
            r#"input "é" would be stored as "e", as input "e" is already"#,
            "the progress is 1.5, which is not within 0 to 1",
        ]
    );
    assert_same_events(&replay);
    let mut metadata = Metadata::of(&replay);
    // A progress is a float here, whatever Python was given.
    assert_eq!(metadata.recorded["meta_info"]["progress"], json!(1));
    metadata.recorded["meta_info"]["progress"] = json!(1.0);
    metadata.assert_same();
}

#[tokio::test]
async fn a_run_that_failed() {
    let message = "An exception was raised during the run. Type: <class 'ValueError'>, \
        Value: boom 'quoted'\nsecond line";
    let ending = Ending::failed(message).reason("ExitHandler");
    let replay = replay("offline-exception", Some(ending)).await;
    assert_eq!(replay.skipped, [""; 0]);
    assert_same_events(&replay);
    Metadata::of(&replay).assert_same();
}

#[tokio::test]
async fn a_run_that_a_second_process_continues() {
    let replay = replay("offline-two-processes", None).await;
    assert_eq!(replay.skipped, ["log_text note", "log_text note"]);
    assert_eq!(unmade_series(&replay), [""; 0]);
    assert_same_events(&replay);
    let mut metadata = Metadata::of(&replay);
    metadata.forget(&["note"]);
    metadata.assert_same();
}

#[tokio::test]
async fn references_to_files_and_folders() {
    let replay = replay("offline-refs", None).await;
    // Paths outside of the outputs are refused here.
    assert_eq!(
        refusals(&replay),
        ["get_outputs_path /abs/x.txt", "get_outputs_path ../esc.txt"]
    );
    let mut metadata = Metadata::of(&replay);
    // Kinds of references that are not there yet, hashes of other things than bytes.
    let without_counterpart = [
        "cwd-relative",
        "content-hash",
        "nopath",
        "bogus-kind",
        "model-dir",
        "dataset2",
        "dataset3",
        "dataset4",
        "tensorboard",
        "abc",
        "manual",
        "m1",
        "m2",
        "env",
    ];
    metadata.forget(&without_counterpart);
    assert_eq!(
        metadata
            .recorded
            .as_object_mut()
            .unwrap()
            .remove("meta_info"),
        Some(json!({"has_model": true, "has_tensorboard": true}))
    );
    // The reference of this kind is offered by another call.
    assert_eq!(
        metadata.made.as_object_mut().unwrap().remove("meta_info"),
        Some(json!({"has_model": true}))
    );
    assert_eq!(metadata.made_lineages.len(), 13);
    metadata.assert_same();
}

/// What the reader makes of recorded files, and of the summaries that came with them.
#[tokio::test]
async fn recorded_event_files_are_read_back() {
    let mut files = 0;
    for case in [
        "offline-default",
        "offline-metric-values",
        "offline-steps-timestamps",
        "offline-metric-names",
        "offline-two-processes",
    ] {
        let recorded = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/golden/tracking")
            .join(case);
        let lineages = read_json(&recorded.join("lineages.plx.json"));
        let summaries: BTreeMap<&str, &Map<String, Value>> = lineages
            .as_array()
            .unwrap()
            .iter()
            .filter(|record| record["kind"] == "metric")
            .map(|record| {
                let metric = record["summary"]["metric"].as_object().unwrap();
                (record["path"].as_str().unwrap(), metric)
            })
            .collect();
        for (path, summary) in summaries {
            if path.contains("/__") {
                // Not in the recording.
                continue;
            }
            files += 1;
            let series = read_metric_series(recorded.join(path)).unwrap();
            assert_eq!(series.unreadable_lines(), 0, "{path}");
            let numbers: Vec<f64> = series
                .points()
                .iter()
                .map(|point| point.value)
                .filter(|value| !value.is_nan())
                .collect();
            let count = summary["count"].as_f64().unwrap();
            assert_eq!(numbers.len() as f64, count, "{path}");
            let last = series
                .last()
                .map(|point| point.value)
                .filter(|value| value.is_finite());
            if let (Some(last), Some(recorded)) = (last, summary["last"].as_f64()) {
                assert!(
                    (last - recorded).abs() <= recorded.abs() * f64::EPSILON,
                    "{path}"
                );
            } else {
                assert_eq!(last.is_none(), summary["last"].is_null(), "{path}");
            }
        }
    }
    assert_eq!(files, 99);
}
