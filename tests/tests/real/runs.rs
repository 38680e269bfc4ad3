//! The runs API against the open-source control plane. It schedules nothing, so a test plays the
//! agent where a run has to come further than `queued`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polyaxon_client::runs::{CreateRun, RunStatus, Runs, StatusCondition, Wait};
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, Effect, Error, ProjectRef, RunUuid, Token};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use serde_json::{Value, json};

use crate::program::Program;
use crate::provided::{self, scratch, script};

const LIMIT: Duration = Duration::from_secs(60);

fn client(url: &str) -> Client {
    let config = Config::explicit(url).unwrap();
    Client::new(&config.token(Token::new("a-token-of-the-test").unwrap())).unwrap()
}

/// A client of the server that all tests share.
fn shared() -> Client {
    client(provided::get("REAL_CONTROL_PLANE").to_str().unwrap())
}

/// A project that no other test has.
async fn project(client: &Client, name: &str) -> ProjectRef {
    let create = Operation::post("projects.create", "/api/v1/default/projects/create")
        .json(&json!({"name": name}))
        .unwrap();
    client.transport().send(create).await.unwrap();
    ProjectRef::new("default", name).unwrap()
}

pub(crate) async fn runs(name: &str) -> (Client, Runs) {
    let client = shared();
    let project = project(&client, name).await;
    let runs = client.runs(&project);
    (client, runs)
}

/// Writes a status, as an agent does.
pub(crate) async fn post(client: &Client, runs: &Runs, run: RunUuid, condition: Value) {
    let path = format!("/api/v1/{}/runs/{run}/statuses", runs.project());
    let operation = Operation::post("runs.post_status", path)
        .json(&json!({"condition": condition}))
        .unwrap();
    client.transport().send(operation).await.unwrap();
}

fn running() -> Value {
    json!({"type": "running", "status": true, "reason": "Test"})
}

/// The statuses that a run has had.
fn history(conditions: &[StatusCondition]) -> Vec<&str> {
    conditions
        .iter()
        .map(|condition| condition.kind.as_str())
        .collect()
}

/// A job that waits for its approval.
fn unapproved() -> CreateRun {
    CreateRun::operation(&json!({
        "kind": "operation",
        "isApproved": false,
        "component": {"kind": "component",
            "run": {"kind": "job", "container": {"image": "busybox", "command": ["true"]}}},
    }))
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_sandbox_is_compiled_to_a_service_and_queued() {
    let (client, runs) = runs("managed").await;
    let spec = SandboxSpec::image("python:3.12-slim")
        .cpu("500m..1")
        .memory("512Mi..1Gi")
        .env("LEVEL", "debug")
        .plugin("auth", false)
        .name("amount-parser-repair")
        .description("a sandbox of a test")
        .tag("a")
        .tag("b")
        .meta("attempt", 3);
    let pending = SandboxClient::create(&client, runs.project(), &spec)
        .await
        .unwrap();
    let run = runs.get(pending.run_uuid()).await.unwrap();

    assert_eq!(run.uuid, pending.run_uuid());
    assert_eq!(run.name.as_deref(), Some("amount-parser-repair"));
    assert_eq!(run.owner.as_deref(), Some("default"));
    assert_eq!(run.project.as_deref(), Some("managed"));
    assert_eq!(run.kind.as_deref(), Some("service"));
    assert_eq!(run.status, Some(RunStatus::Queued));
    assert_eq!(run.pending, None);
    assert_eq!(run.tags, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(run.meta_info.as_ref().unwrap()["attempt"], 3);
    assert!(run.created_at.is_some() && run.started_at.is_none() && run.finished_at.is_none());

    // What the platform has made of the document, all of it.
    let compiled: Value = serde_json::from_str(run.content.as_deref().unwrap()).unwrap();
    assert_eq!(compiled["plugins"], json!({"auth": false, "sandbox": true}));
    assert_eq!(compiled["termination"], json!({"timeout": 1800}));
    let service = &compiled["run"];
    assert_eq!(service["kind"], "service");
    assert_eq!(service["container"]["image"], "python:3.12-slim");
    assert_eq!(
        service["container"]["resources"],
        json!({"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}})
    );
    assert_eq!(
        service["container"]["env"],
        json!([{"name": "LEVEL", "value": "debug", "value_from": null}])
    );

    let statuses = runs.statuses(run.uuid).await.unwrap();
    assert_eq!(statuses.status, RunStatus::Queued);
    assert_eq!(
        history(&statuses.status_conditions),
        ["created", "compiled", "queued"]
    );
    assert!(
        statuses
            .status_conditions
            .iter()
            .all(|condition| condition.last_transition_time.is_some())
    );
    assert_eq!(runs.namespace(run.uuid).await.unwrap(), "polyaxon");
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn an_unmanaged_run_is_what_its_caller_says() {
    let (client, runs) = runs("unmanaged").await;
    let run = runs
        .create(&CreateRun::unmanaged().name("mine"))
        .await
        .unwrap()
        .uuid;
    let created = runs.get(run).await.unwrap();
    assert_eq!(created.status, Some(RunStatus::Created));
    assert_eq!(created.name.as_deref(), Some("mine"));
    assert_eq!(created.content, None);

    post(&client, &runs, run, running()).await;
    let now = runs
        .wait_for(run, &RunStatus::Running, LIMIT)
        .await
        .unwrap();
    let last = now.status_conditions.last().unwrap();
    assert_eq!(
        (last.kind.as_str(), last.reason.as_deref()),
        ("running", Some("Test"))
    );
    assert!(runs.get(run).await.unwrap().started_at.is_some());
    assert_eq!(runs.namespace(run).await.unwrap(), "polyaxon");

    // Nothing has to be torn down, so a stop ends it without an agent; asked twice it is the same.
    runs.stop(run).await.unwrap();
    let end = runs.wait_until_final(run, LIMIT).await.unwrap();
    assert_eq!(end.status, RunStatus::Stopped);
    runs.stop(run).await.unwrap();
    assert_eq!(
        runs.get(run).await.unwrap().status,
        Some(RunStatus::Stopped)
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_that_is_not_approved_takes_two_approvals() {
    let (_, runs) = runs("two-approvals").await;
    let run = runs.create(&unapproved()).await.unwrap().uuid;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let now = runs.get(run).await.unwrap();
        assert!(now.awaits_approval(), "{:?}", now.pending);
        seen.push(now.status.unwrap());
        runs.approve(run).await.unwrap();
    }
    let now = runs.get(run).await.unwrap();
    assert!(!now.awaits_approval());
    seen.push(now.status.unwrap());
    assert_eq!(
        seen,
        [RunStatus::Created, RunStatus::Compiled, RunStatus::Queued]
    );
    // One more does nothing.
    runs.approve(run).await.unwrap();
    assert_eq!(runs.get(run).await.unwrap().status, Some(RunStatus::Queued));
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn waiting_approves_a_run_as_often_as_it_takes_and_only_where_that_is_wanted() {
    let (client, runs) = runs("waiting-approves").await;
    let run = runs.create(&unapproved()).await.unwrap().uuid;
    let error = runs
        .wait_for(run, &RunStatus::Queued, Duration::from_secs(3))
        .await
        .unwrap_err();
    assert!(
        error.to_string().ends_with(", it waits for: approval"),
        "{error}"
    );
    let Error::WaitTimedOut { last, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(last, RunStatus::Created);

    let now = runs
        .wait_for(run, &RunStatus::Queued, Wait::up_to(LIMIT).approve())
        .await
        .unwrap();
    assert_eq!(now.status, RunStatus::Queued);
    assert!(!runs.get(run).await.unwrap().awaits_approval());

    // A sandbox that is made to wait takes one.
    let spec = SandboxSpec::image("busybox").pending_approval();
    let pending = SandboxClient::create(&client, runs.project(), &spec)
        .await
        .unwrap();
    let run = pending.run_uuid();
    assert!(runs.get(run).await.unwrap().awaits_approval());
    runs.wait_for(run, &RunStatus::Queued, Wait::up_to(LIMIT).approve())
        .await
        .unwrap();
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_that_nobody_schedules_is_waited_for_until_the_limit() {
    let (client, runs) = runs("never-scheduled").await;
    let pending = SandboxClient::create(&client, runs.project(), &SandboxSpec::image("busybox"))
        .await
        .unwrap();
    let run = pending.run_uuid();
    let limit = Duration::from_secs(2);
    let started = Instant::now();
    let error = runs
        .wait_for(run, &RunStatus::Running, limit)
        .await
        .unwrap_err();
    assert!(started.elapsed() < limit + Duration::from_secs(30));
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(error.is_retryable());
    let Error::WaitTimedOut {
        run: of,
        last,
        waited,
        hint,
        source,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((of, last, hint.as_str()), (run, RunStatus::Queued, ""));
    assert!(waited >= limit, "{waited:?}");
    assert!(source.is_none(), "{source:?}");

    // As a sandbox it is a launch that failed, and the error names the run that is left.
    let error = pending.ready(limit).await.unwrap_err();
    let polyaxon_sandbox::Error::Launch {
        run: left, source, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(left, run);
    assert!(
        source.to_string().contains("is still queued after"),
        "{source}"
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_stop_of_a_queued_run_is_a_request_until_an_agent_confirms_it() {
    let (client, runs) = runs("stopping").await;
    let pending = SandboxClient::create(&client, runs.project(), &SandboxSpec::image("busybox"))
        .await
        .unwrap();
    let run = pending.run_uuid();
    let error = pending
        .sandbox()
        .stop_and_wait(Duration::from_secs(2))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is still stopping after"),
        "{error}"
    );

    post(
        &client,
        &runs,
        run,
        json!({"type": "stopped", "status": true}),
    )
    .await;
    let end = pending.sandbox().stop_and_wait(LIMIT).await.unwrap();
    assert_eq!(end, RunStatus::Stopped);
    assert!(runs.get(run).await.unwrap().finished_at.is_some());
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn each_step_of_a_run_is_told_while_it_is_waited_for() {
    let (client, runs) = runs("steps").await;
    let pending = SandboxClient::create(&client, runs.project(), &SandboxSpec::image("busybox"))
        .await
        .unwrap();
    let run = pending.run_uuid();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let wait = Wait::up_to(LIMIT).on_progress({
        let told = Arc::clone(&told);
        move |now| told.lock().unwrap().push(now.status.to_string())
    });
    let agent = async {
        for step in ["scheduled", "starting", "running"] {
            post(&client, &runs, run, json!({"type": step, "status": true})).await;
            // The next step once this one was told.
            while told.lock().unwrap().last().is_none_or(|last| last != step) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let (now, ()) = tokio::join!(runs.wait_for(run, &RunStatus::Running, wait), agent);
    assert_eq!(
        history(&now.unwrap().status_conditions),
        [
            "created",
            "compiled",
            "queued",
            "scheduled",
            "starting",
            "running"
        ]
    );
    assert!(
        told.lock()
            .unwrap()
            .ends_with(&["scheduled", "starting", "running"].map(str::to_owned))
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_that_has_failed_ends_the_wait_with_its_reason() {
    let (client, runs) = runs("failed").await;
    let pending = SandboxClient::create(&client, runs.project(), &SandboxSpec::image("busybox"))
        .await
        .unwrap();
    let run = pending.run_uuid();
    let oom = json!({"type": "failed", "status": true, "reason": "OOMKilled", "message": "too little memory"});
    post(&client, &runs, run, oom).await;
    let error = runs
        .wait_for(run, &RunStatus::Running, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("run {run} has ended as failed: too little memory (OOMKilled)")
    );
    assert!(!error.is_retryable());

    // Created, and failed before anybody could run it: an input has no value.
    let content = json!({
        "kind": "operation",
        "component": {"kind": "component",
            "inputs": [{"name": "revision", "type": "str"}],
            "run": {"kind": "job", "container": {"image": "busybox", "args": ["{{ revision }}"]}}},
    });
    let run = runs
        .create(&CreateRun::operation(&content))
        .await
        .unwrap()
        .uuid;
    let error = runs
        .wait_for(run, &RunStatus::Queued, LIMIT)
        .await
        .unwrap_err();
    let Error::RunEnded {
        status, message, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(status, RunStatus::Failed);
    assert!(message.unwrap().starts_with("Failed to compile."));
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn what_does_not_exist_is_said_in_the_words_of_the_service() {
    let (client, runs) = runs("refusals").await;
    let nowhere = ProjectRef::new("default", "no-such-project").unwrap();
    let no_run: RunUuid = "0123456789abcdef0123456789abcdef".parse().unwrap();
    let no_project = "404 Not Found: No Project matches the given query.";
    let no_such_run = "404 Not Found: No Run matches the given query.";

    let unknown = client.runs(&nowhere);
    let errors = [
        (
            unknown.create(&CreateRun::unmanaged()).await.unwrap_err(),
            "runs.create",
            no_project,
        ),
        (
            unknown.get(no_run).await.unwrap_err(),
            "runs.get",
            no_such_run,
        ),
        (runs.get(no_run).await.unwrap_err(), "runs.get", no_such_run),
        (
            runs.statuses(no_run).await.unwrap_err(),
            "runs.statuses",
            no_such_run,
        ),
        (
            runs.stop(no_run).await.unwrap_err(),
            "runs.stop",
            no_such_run,
        ),
        (
            runs.approve(no_run).await.unwrap_err(),
            "runs.approve",
            no_such_run,
        ),
        (
            runs.namespace(no_run).await.unwrap_err(),
            "runs.namespace",
            no_such_run,
        ),
        (
            runs.wait_for(no_run, &RunStatus::Running, LIMIT)
                .await
                .unwrap_err(),
            "runs.statuses",
            no_such_run,
        ),
    ];
    for (error, operation, said) in errors {
        assert_eq!(
            error.to_string(),
            format!("{operation} was answered with {said}")
        );
        assert_eq!(error.effect(), Effect::NotApplied, "{operation}");
        assert!(!error.is_retryable(), "{operation}");
    }

    // Content that is none is refused whole.
    let mut broken = CreateRun::operation(&json!({"kind": "nonsense"}));
    broken.name = Some("broken".to_owned());
    let error = runs.create(&broken).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(
        error
            .to_string()
            .starts_with("runs.create was answered with 400 Bad Request: ")
    );
}

/// The one server of these tests with a short patience: its database is locked from outside.
#[tokio::test]
#[ignore = "needs a real server"]
async fn a_server_whose_database_is_busy_is_asked_again_where_that_does_no_harm() {
    let folder = scratch("busy-control-plane");
    let mut command = script("REAL_POLYAXON_PYTHON", "control_plane.py");
    command
        .arg(&folder)
        .arg("0.05")
        .stderr(std::fs::File::create(folder.join("server.log")).unwrap());
    let server = Program::spawn(&mut command);
    let client = client(server.ready()["ready"].as_str().unwrap());
    let runs = client.runs(&project(&client, "busy").await);
    let run = runs.create(&CreateRun::unmanaged()).await.unwrap().uuid;

    let mut command = script("REAL_POLYAXON_PYTHON", "lock_database.py");
    let lock = Program::spawn(command.arg(folder.join(".polyaxon/plx.db")));
    lock.ready();
    // It could be carried out or not, so creating is not repeated.
    let error = runs.create(&CreateRun::unmanaged()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "runs.create was answered with 405 Method Not Allowed"
    );
    assert!(error.is_retryable());
    assert_eq!(error.effect(), Effect::Unknown);
    // A stop is repeated, and fails alike where the lock stays.
    let started = Instant::now();
    let error = runs.stop(run).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "runs.stop was answered with 405 Method Not Allowed"
    );
    assert!(
        started.elapsed() >= Duration::from_millis(700),
        "{:?}",
        started.elapsed()
    );

    // A stop that meets the lock and outlives it is carried out.
    let (stopped, ()) = tokio::join!(runs.stop(run), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        drop(lock);
    });
    stopped.unwrap();
    let end = runs.wait_until_final(run, LIMIT).await.unwrap();
    assert_eq!(end.status, RunStatus::Stopped);
}
