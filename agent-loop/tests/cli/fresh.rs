//! Sandboxes that are made for one check: named before they are used, and ended by whoever cleans up.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_loop::acceptance::CommandAcceptance;
use agent_loop::journal::{Event, Placed, ReadJournal};
use agent_loop::workspace::{SandboxWorkspace, SandboxWorkspaces};
use agent_loop::{Attempt, Outcome, Paths, RunDir, ScriptedModel, Task, verify};
use polyaxon_client::runs::RunStatus;
use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

use super::{CHECK, FINISH, FIX, Said, agent_loop, program};

/// In the environment of the program that is killed: its folder, project and run.
const CHILD: &str = "AGENT_LOOP_TEST_CHILD";

pub(super) fn client(url: &str, token: &str) -> Client {
    let config = Config::explicit(url).unwrap();
    Client::new(&config.token(Token::new(token).unwrap())).unwrap()
}

/// An attempt in `sandbox` that is recorded in `folder` and checks in a sandbox of its own.
async fn attempt(client: &Client, sandbox: SandboxClient, folder: &Path, check: &str) -> Outcome {
    let places = SandboxWorkspaces::new(
        client.clone(),
        sandbox.project().clone(),
        SandboxSpec::image("python:3.12-slim"),
    );
    let workspace = SandboxWorkspace::new(sandbox, "repair").unwrap();
    let task = Task::new("amounts", "Make it right.");
    let model = ScriptedModel::new([FIX, CHECK, FINISH]);
    let acceptance = CommandAcceptance::new(["sh", "-c", check]).fresh();
    let paths = Paths::editable(["amounts.py"]).unwrap();
    Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .fresh(places)
        .record_in(RunDir::create(folder).unwrap())
        .drive()
        .await
        .unwrap()
}

/// The fresh place that a journal names, while it may be written.
fn placed(folder: &Path) -> Placed {
    let journal = ReadJournal::read(folder).unwrap();
    let placed = journal.known().find_map(|record| match &record.event {
        Event::Placed(placed) => Some(placed.clone()),
        _ => None,
    });
    placed.unwrap()
}

fn run_of(placed: &Placed) -> RunUuid {
    let run = placed.identity.get("sandbox_run_uuid").unwrap();
    run.as_str().unwrap().parse().unwrap()
}

async fn status(client: &Client, project: &ProjectRef, run: RunUuid) -> RunStatus {
    client.runs(project).statuses(run).await.unwrap().status
}

pub(super) fn reap(server: &LocalServer, folder: &Path) -> Said {
    let home = tempfile::tempdir().unwrap();
    let variables = [
        ("POLYAXON_HOST", server.url()),
        ("POLYAXON_AUTH_TOKEN", server.token()),
    ];
    let arguments = ["reap", folder.to_str().unwrap()];
    tokio::task::block_in_place(|| program(home.path(), &arguments, &variables))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_evidence_of_a_check_says_in_which_sandbox_it_ran() {
    let server = LocalServer::start().await.unwrap();
    let (client, project) = (client(server.url(), server.token()), server.project());
    let spec = SandboxSpec::image("python:3.12-slim");
    let sandbox = SandboxClient::launch(&client, project, &spec)
        .await
        .unwrap();
    let own = sandbox.run_uuid();
    let folder = tempfile::tempdir().unwrap();
    let outcome = attempt(&client, sandbox, folder.path(), "test -f amounts.py").await;
    assert!(outcome.is_accepted(), "{:?}", outcome.end);
    let placed = placed(folder.path());
    let run = run_of(&placed);
    assert_ne!(run, own);

    // The journal names it before it is used, and says that its end was asked for.
    let journal = ReadJournal::read(folder.path()).unwrap();
    let kinds: Vec<&str> = journal.known().map(|record| record.event.kind()).collect();
    let at = |kind: &str| kinds.iter().position(|found| *found == kind).unwrap();
    assert_eq!(at("placed") + 1, at("prepared"));
    assert!(at("judged") < at("left") && at("left") < at("ended"));
    let left = journal.known().find_map(|record| match &record.event {
        Event::Left(left) => Some((left.id.clone(), left.stop.to_string())),
        _ => None,
    });
    let requested = "requested, not confirmed".to_owned();
    assert_eq!(left, Some((placed.id.clone(), requested)));

    // So do the outcome, the page, and the lines for people.
    let places = std::slice::from_ref(&placed.identity);
    assert_eq!(outcome.checks[0].places, places);
    let kept = fs::read(folder.path().join("outcome.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["checks"][0]["places"][0], placed.identity);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let name = format!("sandbox run {run} of {project}");
    assert!(page.contains(&name));
    let said = agent_loop(&["show", folder.path().to_str().unwrap()]);
    for line in [
        format!("request {}: fresh place, {name}", placed.id),
        format!(
            "request {}: stop of the fresh place: requested, not confirmed",
            placed.id
        ),
    ] {
        assert!(said.out.contains(&line), "{}", said.out);
    }
    let verification = verify(folder.path()).unwrap();
    assert!(verification.proves_acceptance(), "{verification}");

    // Asked for is not confirmed: reap looks.
    let said = reap(&server, folder.path());
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let line = format!(
        "{}: fresh place of {}: run {run} of {project} has ended already: stopped",
        folder.path().display(),
        placed.id
    );
    assert!(said.out.lines().any(|said| said == line), "{}", said.out);
    assert_eq!(status(&client, project, run).await, RunStatus::Stopped);
    server.stop().await.unwrap();
}

/// Ends the program with the test, whatever becomes of it.
pub(super) struct Killed(pub(super) Child);

impl Killed {
    /// One test of this program as a program of its own, which is `told` what to do by `variable`.
    pub(super) fn start(test: &str, variable: &str, told: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(variable, told)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_ends_the_fresh_sandbox_of_a_program_that_was_killed_in_the_middle_of_a_check() {
    if let Ok(told) = std::env::var(CHILD) {
        // This is the program that is killed.
        let [url, token, project, run, folder] = told.split('\n').collect::<Vec<_>>()[..] else {
            panic!("{told}");
        };
        let client = client(url, token);
        let (project, run) = (project.parse().unwrap(), run.parse().unwrap());
        let sandbox = SandboxClient::connect(&client, &project, run);
        attempt(&client, sandbox, Path::new(folder), "sleep 90").await;
        return;
    }
    let server = LocalServer::start().await.unwrap();
    let (client, project) = (client(server.url(), server.token()), server.project());
    let spec = SandboxSpec::image("python:3.12-slim");
    let sandbox = SandboxClient::launch(&client, project, &spec)
        .await
        .unwrap();
    let own = sandbox.run_uuid();
    let folder = tempfile::tempdir().unwrap();
    let told = [
        server.url().to_owned(),
        server.token().to_owned(),
        project.to_string(),
        own.to_string(),
        folder.path().display().to_string(),
    ];
    let test =
        "fresh::reap_ends_the_fresh_sandbox_of_a_program_that_was_killed_in_the_middle_of_a_check";
    let mut child = Killed::start(test, CHILD, &told.join("\n"));
    let begun = Instant::now();
    let journal = folder.path().join("actions.jsonl");
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains(r#""kind":"prepared""#)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "no stage");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The command runs by now, or is being started.
    tokio::time::sleep(Duration::from_millis(300)).await;
    child.0.kill().unwrap();
    child.0.wait().unwrap();

    let placed = placed(folder.path());
    let run = run_of(&placed);
    assert_ne!(run, own);
    for run in [own, run] {
        assert_eq!(status(&client, project, run).await, RunStatus::Running);
    }
    let said = reap(&server, folder.path());
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let shown = folder.path().display();
    let lines = [
        format!("{shown}: run {own} of {project}: stop confirmed: stopped"),
        format!(
            "{shown}: fresh place of {}: run {run} of {project}: stop confirmed: stopped",
            placed.id
        ),
    ];
    assert_eq!(said.out.lines().collect::<Vec<_>>(), lines);
    // Nothing runs.
    for run in [own, run] {
        assert_eq!(status(&client, project, run).await, RunStatus::Stopped);
    }
    let again = reap(&server, folder.path());
    assert_eq!(again.out.matches("has ended already: stopped").count(), 2);
    server.stop().await.unwrap();
}

#[test]
fn reap_says_where_a_journal_cannot_say_what_is_left_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("actions.jsonl"), "{}\n{}\n").unwrap();
    let folder = folder.path().to_str().unwrap();
    let said = agent_loop(&["reap", folder, "--host", "http://127.0.0.1:9"]);
    assert_eq!(said.status, Some(3));
    let sentence = "whether fresh places are left over is not known";
    assert!(said.err.contains(sentence), "{}", said.err);
}
