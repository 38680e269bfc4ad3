//! Attempts, and calls of tools, that are tracked on the open-source control plane while they are
//! made in sandboxes of this machine.

use std::sync::Arc;

use agent_loop::tools::{
    Contract, Controller, Evaluation, InputId, Receipts, Refusal, ResolvedInputs, Session, Tenant,
    Tool, ToolCall, ToolCommand, ToolOutcome, schemars,
};
use agent_loop::tracking::{TrackedCalls, TrackingObserver};
use agent_loop::workspace::SandboxWorkspace;
use agent_loop::{
    Attempt, Budget, ModelReply, Outcome, Paths, RunDir, ScriptedModel, Task, UnittestAcceptance,
    Usage,
};
use polyaxon_client::runs::{ListRuns, RunQuery, RunStatus, Runs, Sort, SortField};
use polyaxon_client::{Client, RunUuid};
use polyaxon_sandbox::SandboxClient;
use polyaxon_tests::agent::{FIX, SOURCE, TESTS, check, finish, write};
use polyaxon_tests::local::LocalSandbox;
use polyaxon_tracking::{TrackedRun, Tracking};
use serde_json::{Value, json};

use crate::provided::scratch;
use crate::runs::runs;

const NAMESPACE: &str = "polyaxon";
const CASES: &str = "cases-7";

/// Makes an attempt with these replies, tracked on the server.
async fn attempt(
    client: &Client,
    runs: &Runs,
    sandbox: &SandboxClient,
    name: &str,
    replies: Vec<String>,
) -> (RunUuid, Outcome) {
    let folder = scratch("agent").join(name);
    let tracking = Tracking::new(client, runs.project())
        .name(name)
        .folder(folder.join("tracked"));
    let run = Arc::new(TrackedRun::start(tracking).await.unwrap());
    let observer = TrackingObserver::new(Arc::clone(&run)).case_set_revision(CASES);
    let task = Task::new("total", "total(xs) must return the sum of xs.")
        .repository_revision("0a1b2c")
        .file("amounts.py", SOURCE)
        .unwrap();
    let turns = u32::try_from(replies.len()).unwrap();
    let replies = replies
        .into_iter()
        .map(|text| Ok(ModelReply::new(text).usage(Usage::new(100, 20))));
    let workspace = SandboxWorkspace::new(sandbox.clone(), name).unwrap();
    let acceptance = UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap();
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let outcome = Attempt::new(
        task,
        ScriptedModel::of(replies),
        workspace,
        acceptance,
        paths,
    )
    .allow_checks(true)
    .budget(Budget::default().turns(turns))
    .record_in(RunDir::create(folder.join("evidence")).unwrap())
    .observer(observer.clone())
    .drive()
    .await
    .unwrap();
    observer
        .finish(&outcome, Some(&folder.join("evidence")))
        .unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.missing(), 0, "{report:?}");
    (run.uuid(), outcome)
}

async fn points(runs: &Runs, run: RunUuid, metric: &str) -> Vec<(Option<i64>, Option<f64>)> {
    let series = runs
        .events(NAMESPACE, run, "metric", [metric])
        .await
        .unwrap();
    let steps = series[0].steps().into_iter();
    steps.zip(series[0].values()).collect()
}

async fn file(runs: &Runs, run: RunUuid, path: &str) -> Vec<u8> {
    let mut body = runs.artifact(NAMESPACE, run, path).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// Names, kinds and paths of what is in a run's lineage, but for its metrics.
async fn artifacts(runs: &Runs, run: RunUuid) -> Vec<(String, String, String)> {
    let records = runs.lineage(run).await.unwrap().into_iter();
    let mut artifacts: Vec<_> = records
        .filter(|record| record.kind != "metric")
        .map(|record| (record.name, record.kind, record.path.unwrap_or_default()))
        .collect();
    artifacts.sort();
    artifacts
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn attempts_of_one_case_set_are_compared_on_the_server_and_lead_to_their_evidence() {
    let local = LocalSandbox::start().await;
    let (client, runs) = runs("tracked-attempts").await;
    let good = vec![write("wrong"), check(), write(FIX), check(), finish()];
    let (good, accepted) = attempt(&client, &runs, &local.sandbox, "good", good).await;
    let bad = vec![write("wrong"), check(), finish()];
    let (bad, refused) = attempt(&client, &runs, &local.sandbox, "bad", bad).await;
    assert!(accepted.is_accepted() && !refused.is_accepted());

    // From the failed candidate, or the case set, to the run.
    let list = |query: RunQuery| ListRuns::new().matching(&query).unwrap();
    let best_first = Sort::descending(SortField::metric("check_passed").unwrap());
    let of_cases = RunQuery::new().input("case_set_revision").eq(CASES);
    let of_cases = list(of_cases).sorted(&best_first);
    let page = runs.list(&of_cases).await.unwrap();
    let found: Vec<RunUuid> = page.runs.iter().map(|run| run.uuid).collect();
    assert_eq!(found, [good, bad]);
    let not_accepted = list(RunQuery::new().output("acceptance").eq("not_accepted"));
    let page = runs.list(&not_accepted).await.unwrap();
    assert_eq!(page.runs[0].uuid, bad);
    let outputs = page.runs[0].outputs.as_ref().unwrap();
    assert_eq!(outputs["end"], "exhausted_turns");
    assert_eq!(outputs.get("evidence_level"), None);
    let sandbox = local.sandbox.run_uuid().to_string();
    let of_sandbox = list(RunQuery::new().input("sandbox_run_uuid").eq(&sandbox));
    assert_eq!(runs.list(&of_sandbox).await.unwrap().runs.len(), 2);

    let run = runs.get(good).await.unwrap();
    // That it did its work and that its change is accepted are two things.
    assert_eq!(run.status, Some(RunStatus::Succeeded));
    let inputs = run.inputs.unwrap();
    assert_eq!(inputs["task_id"], "total");
    assert_eq!(inputs["repository_revision"], "0a1b2c");
    assert_eq!(inputs["prompt_revision"], json!(accepted.revisions.prompt));
    let outputs = run.outputs.unwrap();
    assert_eq!(outputs["acceptance"], "accepted");
    assert_eq!(outputs["evidence_level"], json!(accepted.acceptance.level));
    assert_eq!(outputs["turns"], 5);
    assert_eq!(outputs["timeout_rate"], 0.0);
    assert_eq!(outputs["unknown_cost_calls"], 5);

    let passed = [(Some(2), Some(0.0)), (Some(4), Some(1.0))];
    assert_eq!(points(&runs, good, "check_passed").await, passed);
    let tokens = points(&runs, good, "input_tokens").await;
    assert_eq!(
        tokens,
        [1, 2, 3, 4, 5].map(|step| (Some(step), Some(100.0)))
    );

    let there = artifacts(&runs, good).await;
    for (name, kind, path) in [
        ("actions", "file", "outputs/actions.jsonl"),
        ("command-receipt", "dir", "outputs/receipts"),
        ("outcome", "file", "outputs/outcome.json"),
        ("patch", "file", "outputs/patch.diff"),
    ] {
        let record = (name.to_owned(), kind.to_owned(), path.to_owned());
        assert!(there.contains(&record), "{record:?} is not among {there:?}");
    }
    assert_eq!(
        file(&runs, good, "outputs/patch.diff").await,
        accepted.patch
    );
    let receipt = file(&runs, good, "outputs/receipts/step-4.json").await;
    let receipt: Value = serde_json::from_slice(&receipt).unwrap();
    assert_eq!(receipt["sandbox_run_uuid"], sandbox);
    assert_eq!(receipt["exit_code"], 0);
    assert_eq!(receipt["verdict"], "pass");
}

/// Adds numbers, in the sandbox.
struct Add;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Numbers {
    numbers: Vec<u32>,
}

impl Tool for Add {
    type Arguments = Numbers;
    type Result = u64;

    fn contract(&self) -> Contract {
        Contract::new("add", "Adds numbers.").repeatable()
    }

    fn inputs<'a>(&self, _arguments: &'a Numbers) -> Vec<&'a InputId> {
        Vec::new()
    }

    fn command(
        &self,
        arguments: &Numbers,
        _inputs: &ResolvedInputs,
    ) -> Result<ToolCommand, Refusal> {
        let program = "import json, sys; print(sum(json.load(sys.stdin)))";
        let command = ToolCommand::new(["python3", "-I", "-c", program]);
        Ok(command.stdin(json!(arguments.numbers).to_string()))
    }

    fn evaluate(&self, arguments: &Numbers, result: u64) -> Evaluation {
        let right = arguments
            .numbers
            .iter()
            .copied()
            .map(u64::from)
            .sum::<u64>();
        match result == right {
            true => Evaluation::accept(result.to_string()),
            false => Evaluation::reject("the sum is wrong"),
        }
    }
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn calls_of_tools_are_told_in_the_run_of_their_controller() {
    let local = LocalSandbox::start().await;
    let (client, runs) = runs("tracked-calls").await;
    let folder = scratch("calls");
    let tracking = Tracking::new(&client, runs.project()).folder(folder.join("tracked"));
    let run = Arc::new(TrackedRun::start(tracking).await.unwrap());
    let receipts = Receipts::open(folder.join("receipts")).unwrap();
    let controller = Controller::new(receipts).tool(Add).unwrap();
    let tracked = TrackedCalls::new(Arc::clone(&run), controller.definitions_digest());
    let controller = controller.observer(tracked.clone());
    let session = Session::open(Tenant::new("acme"), local.sandbox.clone());
    let session = session.await.unwrap();
    for (id, arguments, outcome) in [
        ("r.1", r#"{"numbers": [2, 3, 5]}"#, ToolOutcome::Succeeded),
        ("r.2", r#"{"numbers": [-1]}"#, ToolOutcome::Refused),
    ] {
        let call = ToolCall::new(id.parse().unwrap(), "add", arguments);
        assert_eq!(controller.call(&session, &call).await.outcome, outcome);
    }
    tracked.finish().unwrap();
    let report = run.end().await.unwrap();
    assert_eq!(report.missing(), 0, "{report:?}");

    let inputs = runs.get(run.uuid()).await.unwrap().inputs.unwrap();
    let digest = json!(controller.definitions_digest());
    assert_eq!(inputs["tool_definitions_digest"], digest);
    let passed = points(&runs, run.uuid(), "check_passed").await;
    assert_eq!(passed, [(Some(1), Some(1.0))]);
    let receipt = file(&runs, run.uuid(), "outputs/receipts/step-1.json").await;
    let receipt: Value = serde_json::from_slice(&receipt).unwrap();
    assert_eq!(receipt["tool"], "add");
    let sandbox = local.sandbox.run_uuid().to_string();
    assert_eq!(receipt["sandbox_run_uuid"], sandbox);
    assert_eq!(receipt["evaluator_passed"], true);
    let there = artifacts(&runs, run.uuid()).await;
    let receipts = ["command-receipt", "dir", "outputs/receipts"].map(str::to_owned);
    assert_eq!(there, [receipts.into()]);
}
