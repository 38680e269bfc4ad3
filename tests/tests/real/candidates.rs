//! The example `compare_runs` as a program: candidates of two revisions of a case set, tracked on
//! the open-source control plane.

use polyaxon_tracking::{Ending, TrackedRun, Tracking};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::provided;
use crate::tracking::Stage;

/// A candidate: name, model, revision of the cases, passed checks, outputs, why it failed.
type Candidate = (
    &'static str,
    &'static str,
    &'static str,
    &'static [f64],
    Value,
    Option<&'static str>,
);

/// In the order in which they are tracked, which is none of those that are asked for.
fn candidates() -> Vec<Candidate> {
    let outputs = |score: f64, timeouts: f64| json!({"score": score, "timeout_rate": timeouts});
    vec![
        ("slow", "m1", "r7", &[0.0, 1.0], outputs(0.97, 0.3), None),
        ("older", "m1", "r6", &[1.0], outputs(0.9, 0.05), None),
        (
            "both",
            "m2",
            "r7",
            &[0.0],
            outputs(0.4, 0.5),
            Some("a check failed"),
        ),
        ("weak", "m2", "r7", &[1.0, 0.5], outputs(0.5, 0.04), None),
        ("crashed", "m3", "r7", &[], json!({}), Some("it crashed")),
        ("precise", "m3", "r7", &[0.75], outputs(0.96, 0.02), None),
        ("slower", "m1", "r7", &[0.25], outputs(0.99, 0.75), None),
        // Begins like the other, and is a revision of its own.
        ("newer", "m1", "r70", &[1.0], outputs(1.0, 0.01), None),
        // Its checks were not counted, which is not the same as none that passed.
        ("uncounted", "m2", "r7", &[], outputs(0.91, 0.0), None),
    ]
}

async fn fill(stage: &Stage) {
    for (name, model, revision, passed, outputs, failure) in candidates() {
        let tracking = Tracking::new(&stage.client, &stage.project)
            .name(name)
            .folder(stage.folder.join(name));
        let run = TrackedRun::start(tracking).await.unwrap();
        run.log_inputs([("model", model), ("case_set_revision", revision)])
            .unwrap();
        for (step, value) in (0..).zip(passed) {
            run.log_metric(step, "check_passed", *value).unwrap();
        }
        run.log_outputs(outputs.as_object().unwrap()).unwrap();
        let ended = match failure {
            Some(why) => run.end_with(Ending::failed(why)).await,
            None => run.end().await,
        };
        drop(ended.unwrap().ensure_complete().unwrap());
    }
}

/// What the example prints: its first line, the words of the table's rows, and what it says below.
async fn compare(stage: &Stage, flags: &[&str]) -> (String, Vec<Vec<String>>, Vec<String>) {
    let mut example = Command::new(provided::get("REAL_COMPARE_RUNS"));
    example
        .arg("--host")
        .arg(provided::get("REAL_CONTROL_PLANE"))
        .args(["--project", &stage.project.to_string()])
        .args(["--requirement", "score>=0.9"])
        .args(["--requirement", "timeout_rate<=0.05"])
        .args(["--inputs", "model"])
        .args(flags)
        .env("HOME", &stage.folder)
        .env("POLYAXON_AUTH_TOKEN", "a-token-of-the-test");
    let output = example.output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{errors}");
    let mut parts = text.split("\n\n");
    let [head, table, below] = [(); 3].map(|()| parts.next().unwrap_or_default());
    assert_eq!(parts.next(), None, "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    (
        head.to_owned(),
        table.lines().map(words).collect(),
        below.lines().map(str::to_owned).collect(),
    )
}

fn first(rows: &[Vec<String>]) -> Vec<&str> {
    rows.iter().map(|row| row[0].as_str()).collect()
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_candidates_of_one_revision_are_compared_on_the_real_server() {
    let stage = Stage::new("candidates").await;
    fill(&stage).await;

    // Four keep no bound of the timeouts and three none of the score: the timeouts are the order.
    let (head, rows, below) = compare(&stage, &["--case-set-revision", "r7"]).await;
    assert_eq!(head, "case set revision r7: 7 candidates");
    assert_eq!(
        rows,
        [
            "run status inputs.model metrics.check_passed outputs.score outputs.timeout_rate",
            "uncounted succeeded m2 - 0.91 0.0",
            "precise succeeded m3 0.75 0.96 0.02",
            "weak succeeded m2 0.5 0.5 0.04",
            "slow succeeded m1 1.0 0.97 0.3",
            "both failed m2 0.0 0.4 0.5",
            "slower succeeded m1 0.25 0.99 0.75",
            "crashed failed m3 - - -",
        ]
        .map(|row| row.split(' ').map(str::to_owned).collect::<Vec<_>>())
    );
    assert_eq!(
        below,
        [
            "5 fail a requirement:",
            "  slow: timeout_rate<=0.05 but it is 0.3",
            "  both: score>=0.9 but it is 0.4, timeout_rate<=0.05 but it is 0.5",
            "  weak: score>=0.9 but it is 0.5",
            "  crashed: score>=0.9 but it is -, timeout_rate<=0.05 but it is -",
            "  slower: timeout_rate<=0.05 but it is 0.75",
        ]
    );

    let flags = ["--case-set-revision", "r7", "--sort-by", "score"];
    let (_, rows, sorted_below) = compare(&stage, &flags).await;
    assert_eq!(
        first(&rows),
        [
            "run",
            "slower",
            "slow",
            "precise",
            "uncounted",
            "weak",
            "both",
            "crashed"
        ]
    );
    assert_eq!(sorted_below, below);

    // At its bounds a candidate keeps to them.
    let (head, rows, below) = compare(&stage, &["--case-set-revision", "r6"]).await;
    assert_eq!(head, "case set revision r6: 1 candidates");
    assert_eq!(first(&rows), ["run", "older"]);
    assert_eq!(below, ["0 fail a requirement:"]);

    let (head, rows, below) = compare(&stage, &["--case-set-revision", "r8"]).await;
    assert_eq!(head, "case set revision r8: 0 candidates");
    assert_eq!(first(&rows), ["run"]);
    assert_eq!(below, ["0 fail a requirement:"]);
}
