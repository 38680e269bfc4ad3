//! An attempt in a tracked run: what its files hold.
#![expect(
    clippy::unwrap_used,
    reason = "the lint does not see that helpers of a test are one"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_loop::acceptance::{CommandAcceptance, all};
use agent_loop::model::ModelReply;
use agent_loop::tracking::TrackingObserver;
use agent_loop::workspace::{Fault, FaultAt, Operation};
use agent_loop::{
    Acceptance, Attempt, ExecReceipt, MemoryWorkspace, Micros, Model, ModelError, ModelRequest,
    Outcome, Paths, Price, Private, RunDir, ScriptedModel, Task, UnittestAcceptance, Usage,
    WorkspaceError,
};
use futures::future::BoxFuture;
use polyaxon_tracking::{TrackedRun, Tracking, read_metric_series};
use serde_json::{Value, json};

const WRITE_WRONG: &str = r#"{"action":"write","path":"amounts.py","content":"wrong\n"}"#;
const WRITE_SLOW: &str = r#"{"action":"write","path":"amounts.py","content":"slow\n"}"#;
const WRITE_RIGHT: &str = r#"{"action":"write","path":"amounts.py","content":"right\n"}"#;
const CHECK: &str = r#"{"action":"check"}"#;
const FINISH: &str = r#"{"action":"finish"}"#;

/// What a check says of the file: each content takes its own time.
fn workspace() -> MemoryWorkspace {
    MemoryWorkspace::new(|spec, files| {
        if spec.argv.iter().any(|word| word == "lint") {
            let mut receipt = ExecReceipt::exited(3).stdout("x".repeat(9));
            receipt.duration = Duration::from_millis(5);
            return Ok(receipt);
        }
        let path = "work/amounts.py".parse().unwrap();
        let source: &[u8] = files.get(&path).unwrap().bytes();
        let (mut receipt, took) = match source {
            b"right\n" => {
                let said = "Ran 2 tests in 0.001s\n\nOK\n";
                (ExecReceipt::exited(0).stderr(said), 30)
            }
            b"slow\n" => (ExecReceipt::timed_out(Duration::from_secs(1)), 100),
            _ => {
                let said = "secret-output\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n";
                (ExecReceipt::exited(1).stderr(said), 10)
            }
        };
        receipt.duration = Duration::from_millis(took);
        Ok(receipt)
    })
}

fn replies(texts: &[&str]) -> Vec<Result<ModelReply, ModelError>> {
    let known = |text: &&str| Ok(ModelReply::new(*text).usage(Usage::new(100, 20)));
    texts.iter().map(known).collect()
}

struct Tracked {
    run: Arc<TrackedRun>,
    observer: TrackingObserver,
    price: Option<Price>,
    evidence: PathBuf,
    kept: tempfile::TempDir,
}

/// A script with a price.
struct Priced {
    script: ScriptedModel,
    price: Option<Price>,
}

impl Model for Priced {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn price(&self) -> Option<Price> {
        self.price.clone()
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.script.propose(request)
    }
}

impl Tracked {
    async fn start() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let tracking = Tracking::offline(kept.path().join("offline"));
        let run = Arc::new(TrackedRun::start(tracking).await.unwrap());
        Self {
            observer: TrackingObserver::new(Arc::clone(&run)),
            run,
            price: None,
            evidence: kept.path().join("evidence"),
            kept,
        }
    }

    async fn attempt(
        &self,
        workspace: MemoryWorkspace,
        replies: Vec<Result<ModelReply, ModelError>>,
    ) -> Outcome {
        let acceptance = UnittestAcceptance::new("test_amounts.py", "tests\n", 2).unwrap();
        self.attempt_by(acceptance, workspace, replies).await
    }

    async fn attempt_by(
        &self,
        acceptance: impl Acceptance + 'static,
        workspace: MemoryWorkspace,
        replies: Vec<Result<ModelReply, ModelError>>,
    ) -> Outcome {
        self.prepared(acceptance, workspace, replies)
            .record_in(RunDir::create(&self.evidence).unwrap())
            .drive()
            .await
            .unwrap()
    }

    fn prepared(
        &self,
        acceptance: impl Acceptance + 'static,
        workspace: MemoryWorkspace,
        replies: Vec<Result<ModelReply, ModelError>>,
    ) -> Attempt {
        let task = Task::new("amounts", "Return a sum.")
            .attempt(2)
            .repository_revision("0a1b2c")
            .file("amounts.py", "start\n")
            .unwrap();
        let paths = Paths::editable(["amounts.py"]).unwrap();
        let model = Priced {
            script: ScriptedModel::of(replies),
            price: self.price.clone(),
        };
        Attempt::new(task, model, workspace, acceptance, paths)
            .allow_checks(true)
            .seed(7)
            .observer(self.observer.clone())
    }

    /// The steps and values of a metric; none where there is no such file.
    fn points(&self, metric: &str) -> Vec<(i128, f64)> {
        let path = self.run.path().join(format!("events/metric/{metric}.plx"));
        if !path.exists() {
            return Vec::new();
        }
        let series = read_metric_series(path).unwrap();
        assert_eq!(series.unreadable_lines(), 0);
        let points = series.points().iter();
        points
            .map(|point| (point.step.unwrap(), point.value))
            .collect()
    }

    fn json(&self, path: impl AsRef<Path>) -> Value {
        serde_json::from_slice(&std::fs::read(self.run.path().join(path)).unwrap()).unwrap()
    }

    /// Ends the run, which has to have got everything.
    async fn end(&self) {
        let report = self.run.end().await.unwrap();
        assert_eq!(report.missing(), 0, "{report:?}");
    }
}

#[tokio::test]
async fn an_attempt_is_told_with_the_fixed_names() {
    let mut tracked = Tracked::start().await;
    tracked.observer = tracked.observer.clone().case_set_revision("cases-1");
    tracked.price = Some(Price::new(
        Micros::new(1_000_000),
        Micros::new(2_000_000),
        "a list",
    ));
    let mut script = replies(&[WRITE_WRONG, CHECK, WRITE_SLOW, CHECK, WRITE_RIGHT, CHECK]);
    // What a provider says goes before the price; what nobody knows has no point.
    let mut stated = ModelReply::new(FINISH).usage(Usage::new(50, 5));
    stated.cost = Some(Micros::new(7));
    script.push(Ok(stated));
    script[0] = Ok(ModelReply::new(WRITE_WRONG));
    let outcome = tracked.attempt(workspace(), script).await;
    assert!(outcome.is_accepted(), "{:?}", outcome.end);
    tracked
        .observer
        .finish(&outcome, Some(&tracked.evidence))
        .unwrap();
    tracked.end().await;

    let record = tracked.json("run.plx.json");
    let inputs = &record["inputs"];
    assert_eq!(inputs["task_id"], "amounts");
    assert_eq!(inputs["attempt"], 2);
    assert_eq!(inputs["repository_revision"], "0a1b2c");
    assert_eq!(inputs["case_set_revision"], "cases-1");
    assert_eq!(inputs["model"], "scripted");
    assert_eq!(inputs["model_settings"]["seed"], 7);
    let revisions = &outcome.revisions;
    assert_eq!(inputs["prompt_revision"], json!(revisions.prompt));
    let tools = json!(revisions.tool_definitions);
    assert_eq!(inputs["tool_definitions_digest"], tools);
    let evaluator = json!(revisions.evaluation_manifest);
    assert_eq!(inputs["evaluator_revision"], evaluator);
    // A workspace in memory is no run.
    assert_eq!(inputs.get("sandbox_run_uuid"), None);

    let outputs = &record["outputs"];
    assert_eq!(outputs["acceptance"], "accepted");
    assert_eq!(outputs["evidence_level"], "counted");
    assert_eq!(outputs["end"], "accepted");
    assert_eq!(outputs["turns"], 7);
    assert_eq!(outputs["tree_digest"], json!(outcome.acceptance.tree));
    assert_eq!(outputs["timeout_rate"], json!(1.0 / 3.0));
    assert_eq!(outputs["command_duration_ms_p50"], 30.0);
    assert_eq!(outputs["cost_micros_known"], 5 * 140 + 7);
    assert_eq!(outputs["unknown_cost_calls"], 1);

    let points = |name| tracked.points(name);
    assert_eq!(
        points("command_duration_ms"),
        [(2, 10.0), (4, 100.0), (6, 30.0)]
    );
    assert_eq!(points("command_timed_out"), [(2, 0.0), (4, 1.0), (6, 0.0)]);
    assert_eq!(points("check_passed"), [(2, 0.0), (4, 0.0), (6, 1.0)]);
    let turns: Vec<i128> = points("model_duration_ms")
        .iter()
        .map(|point| point.0)
        .collect();
    assert_eq!(turns, [1, 2, 3, 4, 5, 6, 7]);
    let known = [
        (2, 100.0),
        (3, 100.0),
        (4, 100.0),
        (5, 100.0),
        (6, 100.0),
        (7, 50.0),
    ];
    assert_eq!(points("input_tokens"), known);
    assert_eq!(points("output_tokens")[5], (7, 5.0));
    let priced = [
        (2, 140.0),
        (3, 140.0),
        (4, 140.0),
        (5, 140.0),
        (6, 140.0),
        (7, 7.0),
    ];
    assert_eq!(points("cost_micros"), priced);

    let receipt = tracked.json("outputs/receipts/step-4.json");
    assert_eq!(receipt["task_id"], "amounts");
    assert_eq!(receipt["step"], 4);
    assert_eq!(receipt["tool"], "unit");
    assert_eq!(receipt["exit_code"], Value::Null);
    assert_eq!(receipt["timed_out"], true);
    assert_eq!(receipt["duration_ms"], 100);
    assert_eq!(receipt["stdout_truncated"], false);
    assert_eq!(receipt["verdict"], "fail");
    let passed = tracked.json("outputs/receipts/step-6.json");
    assert_eq!(
        (&passed["exit_code"], &passed["verdict"]),
        (&json!(0), &json!("pass"))
    );
    let failed = tracked.run.path().join("outputs/receipts/step-2.json");
    let failed = std::fs::read_to_string(failed).unwrap();
    assert!(!failed.contains("secret-output"), "{failed}");
}

#[tokio::test]
async fn the_evidence_is_kept_with_its_lineage() {
    let tracked = Tracked::start().await;
    let script = replies(&[WRITE_RIGHT, CHECK, FINISH]);
    let outcome = tracked.attempt(workspace(), script).await;
    std::fs::write(tracked.evidence.join("case.json"), "{}\n").unwrap();
    tracked
        .observer
        .finish(&outcome, Some(&tracked.evidence))
        .unwrap();
    tracked.end().await;

    let lineages = tracked.json("lineages.plx.json");
    let mut artifacts: Vec<_> = lineages
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["kind"] != "metric")
        .map(|record| {
            (
                record["name"].as_str().unwrap(),
                record["path"].as_str().unwrap(),
            )
        })
        .collect();
    artifacts.sort_unstable();
    let uuid = tracked.run.uuid().to_string();
    let below = |path: &str| {
        path.split_once(&uuid).map_or_else(
            || path.to_owned(),
            |at| at.1.trim_start_matches('/').to_owned(),
        )
    };
    let artifacts: Vec<_> = artifacts
        .iter()
        .map(|(name, path)| (*name, below(path)))
        .collect();
    let wanted = [
        ("actions", "outputs/actions.jsonl"),
        ("case-report", "outputs/case.json"),
        ("command-receipt", "outputs/receipts"),
        ("outcome", "outputs/outcome.json"),
        ("patch", "outputs/patch.diff"),
        ("report", "outputs/report.html"),
    ];
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(name, path)| (*name, (*path).to_owned()))
        .collect();
    assert_eq!(artifacts, wanted);
    for (_, path) in &wanted[..2] {
        let name = path.rsplit('/').next().unwrap();
        let copy = std::fs::read(tracked.run.path().join(path)).unwrap();
        assert_eq!(copy, std::fs::read(tracked.evidence.join(name)).unwrap());
    }
}

#[tokio::test]
async fn what_nobody_knows_has_no_point_and_no_output() {
    let tracked = Tracked::start().await;
    // The check is carried out and its answer is lost, and nothing can be asked about it.
    let lost = WorkspaceError::Uncertain(Private::new("reset"));
    let workspace = workspace().fault(Fault::new(Operation::Exec, 1, FaultAt::After, lost));
    let script = replies(&[WRITE_RIGHT, CHECK]);
    let outcome = tracked.attempt(workspace, script).await;
    tracked.observer.finish(&outcome, None).unwrap();
    tracked.end().await;
    let outputs = tracked.json("run.plx.json")["outputs"].clone();
    assert_ne!(outputs["acceptance"], "accepted");
    for unknown in ["timeout_rate", "command_duration_ms_p50", "evidence_level"] {
        assert_eq!(outputs.get(unknown), None, "{unknown}");
    }
    for metric in [
        "command_duration_ms",
        "command_timed_out",
        "check_passed",
        "cost_micros",
    ] {
        assert_eq!(tracked.points(metric), [], "{metric}");
    }
    let receipt = tracked.json("outputs/receipts/step-2.json");
    assert_eq!(receipt["error"], "uncertain");
    assert_eq!(receipt.get("exit_code"), None);
    assert_eq!(receipt.get("verdict"), None);
}

#[tokio::test]
async fn each_command_of_a_check_has_a_receipt_of_its_own() {
    let tracked = Tracked::start().await;
    let tests = UnittestAcceptance::new("test_amounts.py", "tests\n", 2).unwrap();
    let lint = CommandAcceptance::new(["lint"]).named("lint");
    let both = all([Arc::new(tests) as Arc<dyn Acceptance>, Arc::new(lint)]);
    let script = replies(&[WRITE_RIGHT, CHECK]);
    let outcome = tracked.attempt_by(both, workspace(), script).await;
    tracked.observer.finish(&outcome, None).unwrap();
    tracked.end().await;
    let durations = tracked.points("command_duration_ms");
    assert_eq!(durations, [(2, 30.0), (2, 5.0)]);
    assert_eq!(tracked.points("check_passed"), [(2, 0.0)]);
    for (name, stage, code) in [("step-2.json", 0, 0), ("step-2.2.json", 1, 3)] {
        let receipt = tracked.json(format!("outputs/receipts/{name}"));
        assert_eq!(receipt["step"], 2);
        assert_eq!(receipt["stage"], stage);
        assert_eq!(receipt["exit_code"], code);
        // The verdict is that of the check.
        assert_eq!(receipt["verdict"], "fail");
    }
}

#[tokio::test]
async fn an_attempt_that_goes_on_is_told_once() {
    let tests = || UnittestAcceptance::new("test_amounts.py", "tests\n", 2).unwrap();
    let script = [WRITE_WRONG, CHECK, WRITE_RIGHT, CHECK, FINISH];
    let mut tracked = Tracked::start().await;
    // The second check never ends, and then the program does.
    let hangs = workspace().fault(Fault::hang(Operation::Exec, 2, FaultAt::Before));
    let broken = tracked
        .prepared(tests(), hangs.clone(), replies(&script))
        .record_in(RunDir::create(&tracked.evidence).unwrap())
        .drive();
    let told = async {
        while tracked.points("model_duration_ms").len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = broken => unreachable!("the check hangs"),
        done = tokio::time::timeout(Duration::from_secs(60), told) => done.unwrap(),
    }
    let uuid = tracked.run.uuid();
    tracked.end().await;

    // In the run that it had, and in another.
    for run in [Some(uuid), None] {
        let mut tracking = Tracking::offline(tracked.kept.path().join("offline"));
        if let Some(uuid) = run {
            tracking = tracking.run(uuid);
        }
        tracked.run = Arc::new(TrackedRun::start(tracking).await.unwrap());
        tracked.observer = TrackingObserver::new(Arc::clone(&tracked.run));
        // The scripted model begins anew; what was said before is in the journal.
        let rest = replies(&script[4..]);
        let outcome = tracked
            .prepared(tests(), hangs.clone(), rest)
            .resume(&tracked.evidence)
            .await
            .unwrap();
        assert!(outcome.is_accepted(), "{:?}", outcome.end);
        tracked
            .observer
            .finish(&outcome, Some(&tracked.evidence))
            .unwrap();
        tracked.end().await;
        let turns = tracked.points("model_duration_ms").into_iter();
        assert_eq!(
            turns.map(|point| point.0).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        assert_eq!(tracked.points("check_passed"), [(2, 0.0), (4, 1.0)]);
        let durations = tracked.points("command_duration_ms");
        assert_eq!(durations, [(2, 10.0), (4, 30.0)]);
        let record = tracked.json("run.plx.json");
        assert_eq!(record["inputs"]["task_id"], "amounts");
        assert_eq!(record["outputs"]["acceptance"], "accepted");
        assert_eq!(record["outputs"]["command_duration_ms_p50"], 20.0);
        assert_eq!(
            tracked.json("outputs/receipts/step-4.json")["verdict"],
            "pass"
        );
    }
}

#[tokio::test]
async fn an_attempt_goes_on_without_its_tracking_and_the_end_says_so() {
    let tracked = Tracked::start().await;
    tracked.end().await;
    let script = replies(&[WRITE_RIGHT, CHECK, FINISH]);
    let outcome = tracked.attempt(workspace(), script).await;
    assert!(outcome.is_accepted());
    let error = tracked
        .observer
        .finish(&outcome, Some(&tracked.evidence))
        .unwrap_err();
    assert_eq!(error.what, "the inputs");
    assert_eq!(error.source.to_string(), "the run has ended");
    // Inputs, three calls, a command with its reference, a verdict, the outputs at the end twice;
    // then once more the outputs, the reference, and three files.
    assert!(error.count > 10, "{}", error.count);
    // It was told once.
    tracked.observer.finish(&outcome, None).unwrap_err();
}
