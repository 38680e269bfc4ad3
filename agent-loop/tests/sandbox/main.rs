//! A folder in a Polyaxon sandbox as a workspace, on the local service.
#![expect(
    clippy::unwrap_used,
    reason = "the lint does not see that helpers of a test are one"
)]

mod commands;
mod files;
mod fresh;

use std::sync::Arc;
use std::time::Duration;

use agent_loop::acceptance::UnittestAcceptance;
use agent_loop::outcome::AcceptanceState;
use agent_loop::workspace::{Precondition, SandboxWorkspace, StopState};
use agent_loop::{
    Acceptance, Attempt, End, File, Level, Model, Observer, Outcome, Paths, Record, RelPath,
    RequestId, RunDir, ScriptedModel, StopAtEnd, Task, Workspace, WorkspaceError,
};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};

const WRONG: &str = "def total(xs):\n    return 0\n";
const RIGHT: &str = "def total(xs):\n    return sum(xs)\n";
const TESTS: &str = "import unittest, amounts\n\n\nclass T(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(amounts.total([1, 2]), 3)\n\n    def test_empty(self):\n        self.assertEqual(amounts.total([]), 0)\n";

struct Place {
    server: LocalServer,
    client: Client,
    sandbox: SandboxClient,
    workspace: SandboxWorkspace,
}

async fn place() -> Place {
    place_on(LocalServer::start().await.unwrap()).await
}

async fn place_on(server: LocalServer) -> Place {
    let token = Token::new(server.token()).unwrap();
    let config = Config::explicit(server.url()).unwrap().token(token);
    let client = Client::new(&config).unwrap();
    let spec = SandboxSpec::image("python:3.12-slim");
    let sandbox = SandboxClient::launch(&client, server.project(), &spec)
        .await
        .unwrap();
    let workspace = SandboxWorkspace::new(sandbox.clone(), "repair").unwrap();
    Place {
        server,
        client,
        sandbox,
        workspace,
    }
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn id(text: &str) -> RequestId {
    text.parse().unwrap()
}

async fn put(
    workspace: &SandboxWorkspace,
    name: &str,
    text: &str,
    before: Precondition,
) -> Result<(), WorkspaceError> {
    workspace
        .put(&id("t-1.1.1"), &path(name), &File::new(text), before)
        .await
}

async fn shell(sandbox: &SandboxClient, line: &str) {
    let exec = Exec::shell(line).workdir("/tmp/repair");
    sandbox
        .process()
        .exec(&exec)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
}

fn attempt(workspace: impl Workspace + 'static, model: impl Model + 'static) -> Attempt {
    let acceptance = UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap();
    let acceptance = acceptance.search_path(std::env::var("PATH").unwrap());
    attempt_with(workspace, model, acceptance)
}

fn attempt_with(
    workspace: impl Workspace + 'static,
    model: impl Model + 'static,
    acceptance: impl Acceptance + 'static,
) -> Attempt {
    let task = Task::new("amounts", "total(xs) must return the sum of xs.");
    let task = task
        .file("amounts.py", WRONG)
        .unwrap()
        .file("test_amounts.py", TESTS)
        .unwrap();
    let paths = Paths::editable(["amounts.py"])
        .unwrap()
        .readable(["test_amounts.py"])
        .unwrap();
    Attempt::new(task, model, workspace, acceptance, paths).allow_checks(true)
}

fn script() -> ScriptedModel {
    let write = serde_json::json!({"action": "write", "path": "amounts.py", "content": RIGHT});
    ScriptedModel::new([
        r#"{"action":"read","path":"amounts.py"}"#.to_owned(),
        write.to_string(),
        r#"{"action":"check"}"#.to_owned(),
        r#"{"action":"finish"}"#.to_owned(),
    ])
}

#[tokio::test]
async fn an_attempt_is_accepted_and_leaves_only_the_change() {
    let place = place().await;
    let folder = tempfile::tempdir().unwrap();
    let workspace = place
        .workspace
        .clone()
        .life_limit(Duration::from_secs(1800));
    let outcome: Outcome = attempt(workspace.clone(), script())
        .record_in(RunDir::create(folder.path()).unwrap())
        .drive()
        .await
        .unwrap();
    assert_eq!(outcome.end, End::Accepted, "{:?}", outcome.checks);
    assert_eq!(outcome.acceptance.level, Some(Level::Counted));
    let manifest = workspace.list().await.unwrap();
    assert_eq!(Some(manifest.hash()), outcome.acceptance.tree);
    assert_eq!(manifest.iter().len(), 2);
    // The place of the check is gone.
    assert!(
        place
            .sandbox
            .fs()
            .ls("/tmp/repair.checks")
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    let written = std::fs::read(folder.path().join("workspace.json")).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        written["sandbox_run_uuid"],
        place.sandbox.run_uuid().to_string()
    );
    assert_eq!(written["life_limit_s"], 1800);
    assert_eq!(written["capabilities"]["exec_lookup"], true);
    place.server.stop().await.unwrap();
}

/// Takes the service away when a kind of record is seen.
struct Cut {
    kind: &'static str,
    nth: u32,
    seen: std::sync::Mutex<u32>,
    server: std::sync::Mutex<Option<LocalServer>>,
}

impl Observer for Cut {
    fn on(&self, record: &Record) {
        let mut seen = self.seen.lock().unwrap();
        *seen += u32::from(record.event.kind() == self.kind);
        if *seen == self.nth {
            drop(self.server.lock().unwrap().take());
        }
    }
}

#[tokio::test]
async fn a_service_that_goes_away_ends_the_attempt_as_infrastructure() {
    // Before a read, before a write, before a check, before the last comparison.
    for nth in 2..=5 {
        let Place {
            server, workspace, ..
        } = place().await;
        let server = std::sync::Mutex::new(Some(server));
        let cut = Cut {
            kind: "intent",
            nth,
            seen: std::sync::Mutex::default(),
            server,
        };
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        let attempt = attempt(workspace, script()).observer(cut).record_in(run);
        let outcome = attempt.drive().await.unwrap();
        assert!(
            matches!(
                outcome.end,
                End::WorkspaceFailed { .. } | End::Uncertain { .. }
            ),
            "{nth}: {:?}",
            outcome.end
        );
        assert_eq!(
            (outcome.exit_code(), outcome.acceptance.state),
            (3, AcceptanceState::NotEvaluated)
        );
        assert!(folder.path().join("outcome.json").exists());
    }
}

#[tokio::test]
async fn the_end_of_the_workspace_is_the_end_of_the_sandbox() {
    let Place {
        workspace,
        sandbox,
        server: _server,
        ..
    } = place().await;
    let outcome = attempt(Arc::new(workspace), script())
        .stop_at_end(StopAtEnd::Always)
        .drive()
        .await
        .unwrap();
    assert_eq!(outcome.stop, StopState::Requested);
    assert!(outcome.stop.is_requested());
    let status = sandbox
        .stop_and_wait(Duration::from_secs(20))
        .await
        .unwrap();
    assert!(status.is_final(), "{status}");
}
