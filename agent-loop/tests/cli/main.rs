//! The `agent-loop` program, as people call it.
#![expect(
    clippy::unwrap_used,
    reason = "the lint does not see that helpers of a test are one"
)]

mod fresh;
mod killed;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use agent_loop::workspace::SandboxWorkspace;
use agent_loop::{
    Attempt, ExecReceipt, MemoryWorkspace, Paths, RunDir, ScriptedModel, Task, UnittestAcceptance,
    Workspace as _,
};
use polyaxon_client::runs::RunStatus;
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use tempfile::TempDir;

const FIX: &str = r#"{"action":"write","path":"amounts.py","content":"x = \u001b[2J1\n"}"#;
const CHECK: &str = r#"{"action":"check"}"#;
const FINISH: &str = r#"{"action":"finish"}"#;

/// A run in a folder.
async fn recorded(script: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let workspace = MemoryWorkspace::new(|_, _| {
        Ok(ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"))
    });
    let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2).unwrap();
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let task = Task::new("amounts", "Make it right.");
    let model = ScriptedModel::new(script.iter().copied());
    Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .record_in(RunDir::create(folder.path()).unwrap())
        .drive()
        .await
        .unwrap();
    folder
}

struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

/// The program with an environment of its own.
fn program(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_agent-loop"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    Said {
        status: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

fn agent_loop(arguments: &[&str]) -> Said {
    let home = tempfile::tempdir().unwrap();
    program(home.path(), arguments, &[])
}

fn text(folder: &TempDir) -> &str {
    folder.path().to_str().unwrap()
}

#[tokio::test]
async fn verify_says_what_is_proved_and_what_does_not_hold() {
    let accepted = recorded(&[FIX, CHECK, FINISH]).await;
    let said = agent_loop(&["verify", text(&accepted)]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let begin = format!(
        "{}: proved: accepted at level counted, tree ",
        text(&accepted)
    );
    assert!(said.out.starts_with(&begin), "{}", said.out);

    // One that is not accepted is not proved, and the worst of several counts.
    let unfinished = recorded(&[FIX, CHECK]).await;
    let said = agent_loop(&["verify", text(&accepted), text(&unfinished)]);
    assert_eq!(said.status, Some(1));
    assert!(
        said.out.contains("holds: not_evaluated, the model failed"),
        "{}",
        said.out
    );

    let head = "0".repeat(64);
    let said = agent_loop(&["verify", "--chain-head", &head, text(&accepted)]);
    assert_eq!(said.status, Some(1));
    assert!(
        said.out.contains("journal: has another last line"),
        "{}",
        said.out
    );

    // The description of the evaluator can come from elsewhere.
    let description = accepted.path().join("acceptance.json");
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("acceptance.json");
    fs::rename(&description, &moved).unwrap();
    let said = agent_loop(&["verify", text(&accepted)]);
    assert_eq!(said.status, Some(1));
    assert!(
        said.out.contains("verdicts not recomputed: evaluator "),
        "{}",
        said.out
    );
    let moved = moved.to_str().unwrap();
    let said = agent_loop(&["verify", "--acceptance", moved, text(&accepted)]);
    assert_eq!(said.status, Some(0), "{}", said.out);

    let patch = accepted.path().join("patch.diff");
    fs::write(patch, "another").unwrap();
    let said = agent_loop(&["verify", "--acceptance", moved, text(&accepted)]);
    assert_eq!(said.status, Some(1));
    let problem = "\n  patch.diff: does not lead from the first files to the last ones\n";
    assert!(said.out.contains(problem), "{}", said.out);
}

#[test]
fn misuse_is_told_apart_from_what_cannot_be_read() {
    let empty = tempfile::tempdir().unwrap();
    let nothing: [&[&str]; 4] = [
        &[],
        &["verify"],
        &["verify", "--chain-head", "x", "."],
        &["reap"],
    ];
    for arguments in nothing {
        assert_eq!(agent_loop(arguments).status, Some(2), "{arguments:?}");
    }
    for command in ["verify", "show", "reap"] {
        let said = agent_loop(&[command, text(&empty)]);
        assert_eq!((said.status, said.out.as_str()), (Some(3), ""), "{command}");
        assert!(said.err.starts_with("agent-loop: "), "{}", said.err);
        assert!(said.err.contains("cannot be read"), "{}", said.err);
    }
}

#[tokio::test]
async fn show_is_a_line_a_turn_with_nothing_that_a_terminal_obeys() {
    let folder = recorded(&["\u{1b}[31mno", FIX, CHECK, FINISH]).await;
    let said = agent_loop(&["show", text(&folder)]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    assert!(!said.out.contains('\u{1b}'), "{:?}", said.out);
    let lines: Vec<&str> = said.out.lines().collect();
    let head = "task amounts, attempt 1: model scripted, at most 12 turns, checks unit";
    assert_eq!(lines[0], head);
    let turns = [
        ("turn 1 ", "not an action"),
        ("turn 2 ", "done"),
        ("turn 3 ", "pass"),
        ("turn 4 ", "accepted"),
    ];
    for (turn, result) in turns {
        let line = lines.iter().find(|line| line.contains(turn)).unwrap();
        assert!(line.contains(result), "{line}");
    }
    assert!(
        said.out.contains("accepted at level counted: accepted"),
        "{}",
        said.out
    );

    // Half a run is shown as far as it goes.
    let file = folder.path().join("actions.jsonl");
    let bytes = fs::read(&file).unwrap();
    let third = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let third = third.map(|(at, _)| at).nth(2).unwrap();
    fs::write(&file, &bytes[..third + 9]).unwrap();
    let said = agent_loop(&["show", text(&folder)]);
    assert_eq!(said.status, Some(0));
    let end = "8 bytes at the end are no record\nnot over: the last record is receipt\n";
    assert!(said.out.ends_with(end), "{}", said.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_ends_what_is_left_running_and_says_what_is_confirmed() {
    let server = LocalServer::start().await.unwrap();
    let token = Token::new(server.token()).unwrap();
    let config = Config::explicit(server.url()).unwrap().token(token);
    let client = Client::new(&config).unwrap();
    let mut folders = Vec::new();
    let mut sandboxes = Vec::new();
    for at in 0..3 {
        let spec = SandboxSpec::image("python:3.12-slim").launch_id(format!("left-{at}"));
        let sandbox = SandboxClient::launch(&client, server.project(), &spec)
            .await
            .unwrap();
        let workspace = SandboxWorkspace::new(sandbox.clone(), "repair").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        // The loop's own form, what was kept before the sandbox was made, and one that a caller
        // chose.
        match at {
            0 => run.write_workspace(&workspace.identity()).unwrap(),
            1 => run
                .write_workspace(&serde_json::json!({
                    "project": server.project().to_string(),
                    "launch_id": "left-1",
                }))
                .unwrap(),
            _ => run
                .write_workspace(&serde_json::json!({"identity": workspace.identity()}))
                .unwrap(),
        }
        folders.push(folder);
        sandboxes.push(sandbox);
    }
    let home = tempfile::tempdir().unwrap();
    let variables = [
        ("POLYAXON_HOST", server.url()),
        ("POLYAXON_AUTH_TOKEN", server.token()),
    ];
    let [first, second, third] = [0, 1, 2].map(|at| text(&folders[at]));
    let arguments = ["reap", first, second, third];
    let reap = |arguments: &[&str]| {
        tokio::task::block_in_place(|| program(home.path(), arguments, &variables))
    };
    let said = reap(&arguments);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    for (folder, sandbox) in folders.iter().zip(&sandboxes) {
        let run = sandbox.run_uuid();
        let project = server.project();
        let line = format!(
            "{}: run {run} of {project}: stop confirmed: stopped",
            text(folder)
        );
        assert!(said.out.lines().any(|said| said == line), "{}", said.out);
        let status = sandbox.runs().statuses(run).await.unwrap().status;
        assert_eq!(status, RunStatus::Stopped);
    }
    let said = reap(&arguments);
    assert_eq!(said.status, Some(0));
    assert_eq!(
        said.out.matches("has ended already: stopped").count(),
        3,
        "{}",
        said.out
    );

    // A run that nobody knows, and a folder that names none.
    let other = tempfile::tempdir().unwrap();
    let project = server.project().to_string();
    let identity = serde_json::json!({"sandbox_run_uuid": "0".repeat(32), "project": project});
    RunDir::create(other.path())
        .unwrap()
        .write_workspace(&identity)
        .unwrap();
    let said = reap(&["reap", text(&other)]);
    assert_eq!(
        (said.status, said.out.as_str()),
        (Some(3), ""),
        "{}",
        said.err
    );
    fs::write(other.path().join("workspace.json"), "{}").unwrap();
    let said = reap(&["reap", text(&other), text(&folders[0])]);
    assert_eq!(said.status, Some(3));
    assert!(
        said.err.contains("names no run of a sandbox"),
        "{}",
        said.err
    );
    assert!(said.out.contains("has ended already"), "{}", said.out);
    // The token is nowhere.
    assert!(!said.err.contains(server.token()) && !said.out.contains(server.token()));
    server.stop().await.unwrap();
}
