//! Programs that are killed while a sandbox is made for a check, or used by it: what they leave is
//! found by who goes on and by who cleans up, and there are never two.

use std::path::Path;
use std::time::{Duration, Instant};

use agent_loop::acceptance::CommandAcceptance;
use agent_loop::journal::{Event, ReadJournal};
use agent_loop::workspace::{SandboxWorkspace, SandboxWorkspaces, StopState};
use agent_loop::{
    Attempt, End, ModelError, ModelErrorKind, ModelReply, Outcome, Paths, RunDir, Task, Usage,
    model_fn, verify,
};
use http::Method;
use polyaxon_client::runs::{ListRuns, Run, RunStatus};
use polyaxon_client::{Client, ProjectRef};
use polyaxon_local::{Fault, FaultRule, LocalServer};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use tempfile::TempDir;

use super::fresh::{Killed, client, reap};
use super::{CHECK, FINISH, FIX};

/// In the environment of the program that is killed: server, token, project, run, folder, check.
const CHILD: &str = "AGENT_LOOP_TEST_KILLED";
const PATIENCE: Duration = Duration::from_secs(60);

/// An attempt in `sandbox` that checks in a sandbox of its own. What its model says depends on the
/// turn alone, so that another program hears the same.
fn attempt(client: &Client, sandbox: SandboxClient, check: &str) -> Attempt {
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client.clone(), sandbox.project().clone(), spec);
    let workspace = SandboxWorkspace::new(sandbox, "repair").unwrap();
    let model = model_fn("by turn", |request| {
        let turn = request.id.as_str().rsplit('.').nth(1);
        match turn.and_then(|turn| turn.parse().ok()) {
            Some(1) => Ok(ModelReply::new(FIX).usage(Usage::new(100, 20))),
            Some(2) => Ok(ModelReply::new(CHECK).usage(Usage::new(100, 20))),
            Some(3) => Ok(ModelReply::new(FINISH).usage(Usage::new(100, 20))),
            _ => Err(ModelError::new(ModelErrorKind::BadRequest, "at its end")),
        }
    });
    let acceptance = CommandAcceptance::new(["sh", "-c", check]).fresh();
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let task = Task::new("amounts", "Make it right.");
    Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .fresh(places)
}

/// Not a test: the program that is killed.
#[tokio::test]
async fn the_program_that_is_killed() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let [url, token, project, run, folder, check] = told.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    let client = client(url, token);
    let (project, run) = (project.parse().unwrap(), run.parse().unwrap());
    let sandbox = SandboxClient::connect(&client, &project, run);
    let folder = RunDir::create(folder).unwrap();
    let attempt = attempt(&client, sandbox, check).record_in(folder);
    attempt.drive().await.unwrap();
}

struct Case {
    server: LocalServer,
    client: Client,
    project: ProjectRef,
    own: SandboxClient,
    folder: TempDir,
    check: &'static str,
}

impl Case {
    async fn new(check: &'static str) -> Self {
        let server = LocalServer::start().await.unwrap();
        let client = client(server.url(), server.token());
        let project = server.project().clone();
        let spec = SandboxSpec::image("python:3.12-slim");
        let own = SandboxClient::launch(&client, &project, &spec);
        Self {
            own: own.await.unwrap(),
            server,
            client,
            project,
            folder: tempfile::tempdir().unwrap(),
            check,
        }
    }

    /// What becomes of the next call that makes a run.
    fn fault(&self, fault: Fault) {
        let rule = FaultRule::new(fault).path("*/runs").method(Method::POST);
        self.server.faults().add(rule.times(1));
    }

    /// Kills the program as soon as something is so.
    async fn killed_when(&self, is_so: impl AsyncFn() -> bool) {
        let told = [
            self.server.url(),
            self.server.token(),
            &self.project.to_string(),
            &self.own.run_uuid().to_string(),
            &self.folder.path().display().to_string(),
            self.check,
        ];
        let test = "killed::the_program_that_is_killed";
        let mut child = Killed::start(test, CHILD, &told.join("\n"));
        let begun = Instant::now();
        while !is_so().await {
            assert!(begun.elapsed() < PATIENCE, "it never came to that");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
    }

    async fn resume(&self) -> Outcome {
        let sandbox = SandboxClient::connect(&self.client, &self.project, self.own.run_uuid());
        let attempt = attempt(&self.client, sandbox, self.check);
        let outcome = attempt.resume(self.folder.path()).await.unwrap();
        let verification = verify(self.folder.path()).unwrap();
        assert!(verification.proves_acceptance(), "{verification}");
        outcome
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn events(&self) -> Vec<Event> {
        let journal = ReadJournal::read(self.path()).unwrap();
        journal.known().map(|record| record.event.clone()).collect()
    }

    fn count(&self, kind: &str) -> usize {
        let Ok(journal) = ReadJournal::read(self.path()) else {
            return 0;
        };
        let known = journal.known();
        known.filter(|record| record.event.kind() == kind).count()
    }

    /// How far the end of the fresh places has come, in order.
    fn ends(&self) -> Vec<StopState> {
        let left = self.events().into_iter().filter_map(|event| match event {
            Event::Left(left) => Some(left.stop),
            _ => None,
        });
        left.collect()
    }

    /// The sandboxes that were made for checks, the oldest first.
    async fn made(&self) -> Vec<Run> {
        let runs = self.client.runs(&self.project);
        let all = runs.all(&ListRuns::new()).await.unwrap().runs;
        let others = all.into_iter().rev();
        others
            .filter(|run| run.uuid != self.own.run_uuid())
            .collect()
    }

    /// How many sandboxes were made for checks, and that none is left once its end is confirmed,
    /// and that there were never two.
    async fn made_and_none_left(&self) -> usize {
        let runs = self.client.runs(&self.project);
        for run in self.made().await {
            let ended = runs.wait_until_final(run.uuid, PATIENCE).await.unwrap();
            assert_eq!(ended.status, RunStatus::Stopped);
        }
        let made = self.made().await;
        for (earlier, later) in made.iter().zip(made.iter().skip(1)) {
            let (ended, begun) = (earlier.finished_at.unwrap(), later.created_at.unwrap());
            assert!(ended <= begun, "{earlier:?} {later:?}");
        }
        made.len()
    }

    fn says_reap(&self) -> Vec<String> {
        let said = reap(&self.server, self.path());
        assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
        let shown = format!("{}: ", self.path().display());
        let lines = said.out.lines();
        lines.map(|line| line.replace(&shown, "")).collect()
    }

    /// The program is killed when its sandbox is made, and before it knows.
    async fn killed_in_between(&self) {
        // The head of the answer comes, and nothing after it.
        self.fault(Fault::StallAfter(0));
        self.killed_when(async || !self.made().await.is_empty())
            .await;
        assert_eq!((self.count("placing"), self.count("placed")), (1, 0));
        assert_eq!(self.made().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_nobody_was_told_of_is_gone_before_there_is_another() {
    let case = Case::new("test -f amounts.py").await;
    case.killed_in_between().await;
    let outcome = case.resume().await;
    assert_eq!(outcome.turns, 3);
    assert_eq!(case.made_and_none_left().await, 2);
    assert_eq!(case.ends(), [StopState::Confirmed, StopState::Requested]);
    assert_eq!((case.count("placing"), case.count("placed")), (2, 1));
    // Each was asked for under a name of its own, and the first had ended before the second.
    let events = case.events().into_iter();
    let said = events.filter_map(|event| match event {
        Event::Placing(placing) => Some(placing.announced["launch_id"].clone()),
        Event::Left(_) => Some("left".into()),
        _ => None,
    });
    let said: Vec<_> = said.collect();
    let names: Vec<_> = case
        .made()
        .await
        .iter()
        .map(|run| run.meta_info.as_ref().unwrap()["launch_id"].clone())
        .collect();
    assert_eq!(
        said,
        [
            names[0].clone(),
            "left".into(),
            names[1].clone(),
            "left".into()
        ]
    );
    let own = format!("run {} of {}", case.own.run_uuid(), case.project);
    let last = format!("run {} of {}", case.made().await[1].uuid, case.project);
    assert_eq!(
        case.says_reap(),
        [
            format!("{own}: stop confirmed: stopped"),
            format!("fresh place of amounts-1.2.2: {last} has ended already: stopped"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_ends_a_sandbox_that_nobody_was_told_of() {
    let case = Case::new("test -f amounts.py").await;
    case.killed_in_between().await;
    let run = case.made().await[0].uuid;
    let lines = case.says_reap();
    let about = format!(
        "fresh place of amounts-1.2.1: run {run} of {}",
        case.project
    );
    assert_eq!(lines[1], format!("{about}: stop confirmed: stopped"));
    assert_eq!(case.made_and_none_left().await, 1);
    assert_eq!(
        case.says_reap()[1],
        format!("{about} has ended already: stopped")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_sandbox_that_was_never_made_it_is_said_that_none_was_found() {
    let case = Case::new("test -f amounts.py").await;
    // The request does not arrive, and while it is looked for the program is killed.
    case.fault(Fault::Close);
    case.killed_when(async || case.server.faults().applied() == 1)
        .await;
    assert_eq!((case.count("placing"), case.count("placed")), (1, 0));
    let none = "fresh place of amounts-1.2.1: the platform knows no sandbox that was made for it";
    assert_eq!(case.says_reap()[1], none);
    assert_eq!(case.made_and_none_left().await, 0);

    let case = Case::new("test -f amounts.py").await;
    case.fault(Fault::Close);
    case.killed_when(async || case.server.faults().applied() == 1)
        .await;
    case.resume().await;
    // Nothing ended, so whoever cleans up looks again.
    assert_eq!(case.ends(), [StopState::NotRequested, StopState::Requested]);
    assert_eq!(case.made_and_none_left().await, 1);
    assert_eq!(case.says_reap()[1], none);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_goes_on_in_the_sandbox_that_it_was_started_in() {
    // It is killed before that is over, also on a machine that stands still for a while.
    let check = "echo ran >>../home/ran; sleep 10; test \"$(cat ../home/ran)\" = ran";
    let case = Case::new(check).await;
    case.killed_when(async || case.count("prepared") == 1).await;
    // Whether the command was started by then is not known: it is started by nobody else.
    let outcome = case.resume().await;
    let made = case.made_and_none_left().await;
    let looked_for = outcome.uncertain.len();
    assert_eq!((made, looked_for), (1 + looked_for, looked_for));

    let case = Case::new(check).await;
    let fresh = async || {
        let made = case.made().await;
        let run = made.first().filter(|_| case.count("prepared") == 1)?;
        Some(SandboxClient::connect(
            &case.client,
            &case.project,
            run.uuid,
        ))
    };
    case.killed_when(async || match fresh().await {
        Some(sandbox) => !sandbox.process().list().await.unwrap().is_empty(),
        None => false,
    })
    .await;
    let outcome = case.resume().await;
    // It ran once, and what it has shown is of the place that it was started in.
    assert_eq!(outcome.uncertain, []);
    let places: Vec<_> = case
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Placed(placed) => Some(placed.identity),
            _ => None,
        })
        .collect();
    assert_eq!(outcome.checks[0].places, places);
    assert_eq!((case.count("placing"), case.count("prepared")), (1, 1));
    assert_eq!(case.ends(), [StopState::Requested]);
    assert_eq!(case.made_and_none_left().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_whose_sandbox_has_ended_meanwhile_runs_in_another() {
    let case = Case::new("sleep 10; test -f amounts.py").await;
    case.killed_when(async || case.count("prepared") == 1).await;
    let run = case.made().await[0].uuid;
    let runs = case.client.runs(&case.project);
    runs.stop(run).await.unwrap();
    runs.wait_until_final(run, PATIENCE).await.unwrap();
    let outcome = case.resume().await;
    assert_eq!(outcome.uncertain.len(), 1);
    assert_eq!(case.ends(), [StopState::Confirmed, StopState::Requested]);
    assert_eq!(case.made_and_none_left().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_cancelled_while_a_sandbox_is_made_leaves_none() {
    let case = Case::new("test -f amounts.py").await;
    case.fault(Fault::StallAfter(0));
    let (client, project) = (case.client.clone(), case.project.clone());
    let is_made = async move {
        // The attempt's own, and the one for the check.
        while client
            .runs(&project)
            .all(&ListRuns::new())
            .await
            .unwrap()
            .runs
            .len()
            < 2
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let attempt = attempt(&case.client, case.own.clone(), case.check)
        .record_in(RunDir::create(case.path()).unwrap())
        .cancel_on(is_made);
    let outcome = attempt.drive().await.unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert_eq!((case.count("placing"), case.count("placed")), (1, 0));
    assert_eq!(case.ends(), [StopState::Confirmed]);
    assert_eq!(case.made_and_none_left().await, 1);
    assert!(verify(case.path()).unwrap().is_consistent());
}
