use std::time::{Duration, Instant};

use polyaxon_client::runs::{RunStatus, Wait};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
use polyaxon_tests::local::{LocalSandbox, client_of};

#[tokio::test]
async fn a_sandbox_is_created_approved_ready_and_stopped() {
    let server = LocalServer::start().await.unwrap();
    let client = client_of(&server);
    let spec = SandboxSpec::image("python:3.12-slim")
        .name("lifecycle")
        .pending_approval();
    let pending = SandboxClient::create(&client, server.project(), &spec)
        .await
        .unwrap();
    let run = pending.run_uuid();
    let runs = client.runs(server.project());
    let before = runs.get(run).await.unwrap();
    assert!(before.awaits_approval());
    assert_eq!(before.name.as_deref(), Some("lifecycle"));

    let (tell, told) = std::sync::mpsc::channel();
    let wait = Wait::up_to(Duration::from_secs(20))
        .on_progress(move |now| tell.send(now.status.clone()).unwrap());
    let sandbox = pending.ready(wait).await.unwrap();
    let seen: Vec<RunStatus> = told.iter().collect();
    assert_eq!(seen.first(), Some(&RunStatus::Created));
    assert_eq!(seen.last(), Some(&RunStatus::Running));
    assert_eq!(sandbox.ping().await.unwrap().status, "ok");

    let status = sandbox
        .stop_and_wait(Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(status, RunStatus::Stopped);
    let history: Vec<RunStatus> = runs
        .statuses(run)
        .await
        .unwrap()
        .status_conditions
        .into_iter()
        .map(|c| c.kind)
        .collect();
    assert_eq!(history.first(), Some(&RunStatus::Created));
    assert_eq!(history.last(), Some(&RunStatus::Stopped));
    let error = sandbox.ping().await.unwrap_err();
    assert!(
        error.to_string().starts_with("ping was answered with 502"),
        "{error}"
    );
}

#[tokio::test]
async fn a_sandbox_ends_by_itself_when_its_time_is_over() {
    let server = LocalServer::start().await.unwrap();
    let client = client_of(&server);
    // A second is over so soon that it may not be seen to run: all that it was is in its history.
    let spec = SandboxSpec::image("i").termination_timeout(Duration::from_secs(1));
    let pending = SandboxClient::create(&client, server.project(), &spec)
        .await
        .unwrap();
    let runs = client.runs(server.project());
    let limit = Duration::from_secs(60);
    let statuses = runs
        .wait_until_final(pending.run_uuid(), limit)
        .await
        .unwrap();
    let history = &statuses.status_conditions;
    assert!(history.iter().any(|step| step.kind == RunStatus::Running));
    let last = statuses.status_conditions.last().unwrap();
    let why = format!("{:?} {:?}", last.reason, last.message);
    assert!(
        statuses.status.is_final() && why.to_lowercase().contains("time"),
        "{why}"
    );
}

#[tokio::test]
async fn commands_have_the_environment_of_the_spec() {
    let server = LocalServer::start().await.unwrap();
    let spec = SandboxSpec::image("i")
        .env("LEVEL", "high")
        .env("HOME", "/tmp");
    let sandbox = SandboxClient::launch(&client_of(&server), server.project(), &spec)
        .await
        .unwrap();
    let exec = Exec::shell("printf '%s %s %s' $LEVEL $HOME $EXTRA").env("EXTRA", "more");
    let result = sandbox.process().exec(&exec).await.unwrap();
    assert_eq!(result.stdout.text().unwrap(), "high /tmp more");
}

#[tokio::test]
async fn a_client_that_connects_by_run_uuid_uses_the_same_sandbox() {
    let local = LocalSandbox::start().await;
    local
        .sandbox
        .fs()
        .write("/tmp/shared", "one")
        .await
        .unwrap();
    let other = SandboxClient::connect(&local.client, &local.project, local.sandbox.run_uuid());
    assert_eq!(other.fs().read_text("/tmp/shared").await.unwrap(), "one");
}

#[tokio::test]
async fn two_sandboxes_see_nothing_of_each_other() {
    let local = LocalSandbox::start().await;
    let spec = SandboxSpec::image("python:3.12-slim");
    let other = SandboxClient::launch(&local.client, &local.project, &spec)
        .await
        .unwrap();
    local.sandbox.fs().write("/tmp/mine", "x").await.unwrap();
    assert_eq!(
        other.fs().stat("/tmp/mine").await.unwrap_err().code(),
        Some("not_found")
    );
}

#[tokio::test]
async fn dropping_the_service_leaves_no_process_and_no_folder() {
    let local = LocalSandbox::start().await;
    let folder = local.server.folder().to_owned();
    assert!(folder.is_dir());
    // A sandbox has process ids of its own: on this machine the process is known by its words.
    let word = format!(
        "600.{}",
        local
            .sandbox
            .run_uuid()
            .to_string()
            .replace(char::is_alphabetic, "")
    );
    let exec = Exec::shell(format!("sleep {word} & echo started"));
    local.sandbox.process().exec(&exec).await.unwrap();
    let words = format!("sleep\0{word}\0");
    // What was started has a command line of its own in a moment.
    let deadline = Instant::now() + Duration::from_secs(20);
    let count = || {
        command_lines()
            .iter()
            .filter(|line| **line == words)
            .count()
    };
    while count() != 1 {
        assert!(Instant::now() < deadline, "{} of {words:?}", count());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(local);
    assert!(!folder.exists());
    // A zombie has no command line any more.
    assert!(!command_lines().contains(&words));
}

fn command_lines() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}
