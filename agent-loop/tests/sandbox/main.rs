//! A folder in a Polyaxon sandbox as a workspace, on the local service.
#![expect(
    clippy::unwrap_used,
    reason = "the lint does not see that helpers of a test are one"
)]

use std::sync::Arc;
use std::time::Duration;

use agent_loop::acceptance::{CommandAcceptance, UnittestAcceptance};
use agent_loop::outcome::AcceptanceState;
use agent_loop::workspace::{
    Lookup, Precondition, SandboxWorkspace, SandboxWorkspaces, StopState, Workspaces as _,
};
use agent_loop::{
    Acceptance as _, Attempt, Digest, End, Entry, ExecSpec, File, Level, Manifest, Model, Observer,
    Outcome, Paths, Private, Record, RelPath, RequestId, RunDir, ScriptedModel, StopAtEnd, Task,
    Workspace, WorkspaceError,
};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{Fault, FaultRule, Limits, LocalServer};
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
    let task = Task::new("amounts", "total(xs) must return the sum of xs.");
    let task = task
        .file("amounts.py", WRONG)
        .unwrap()
        .file("test_amounts.py", TESTS)
        .unwrap();
    let acceptance = UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap();
    let acceptance = acceptance.search_path(std::env::var("PATH").unwrap());
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

#[tokio::test]
async fn a_write_happens_where_its_condition_holds() {
    let Place { workspace, .. } = &place().await;
    let old = Digest::of(b"old");
    assert_eq!(workspace.list().await.unwrap().iter().len(), 0);
    put(workspace, "deep/er/a.txt", "old", Precondition::Absent)
        .await
        .unwrap();
    let conflict = Err(WorkspaceError::Conflict(Some(old)));
    assert_eq!(
        put(workspace, "deep/er/a.txt", "new", Precondition::Absent).await,
        conflict
    );
    let other = Precondition::Is(Digest::of(b"other"));
    assert_eq!(
        put(workspace, "deep/er/a.txt", "new", other).await,
        conflict
    );
    assert_eq!(
        put(workspace, "b.txt", "new", Precondition::Is(old)).await,
        Err(WorkspaceError::Conflict(None))
    );
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 3).await.unwrap(),
        b"old"
    );
    put(workspace, "deep/er/a.txt", "newer", Precondition::Is(old))
        .await
        .unwrap();
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 5).await.unwrap(),
        b"newer"
    );
    assert_eq!(
        workspace.get(&path("deep/er/a.txt"), 4).await,
        Err(WorkspaceError::TooLarge(5))
    );
    assert_eq!(
        workspace.get(&path("b.txt"), 9).await,
        Err(WorkspaceError::NotFound)
    );
    assert_eq!(
        workspace.get(&path("no/b.txt"), 9).await,
        Err(WorkspaceError::NotFound)
    );
}

#[tokio::test]
async fn bytes_and_modes_are_listed_as_they_are() {
    let Place { workspace, .. } = &place().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let (script, data) = (
        File::new(*b"#!/bin/sh\n").executable(true),
        File::new(bytes),
    );
    for (name, file) in [
        ("r.sh", &script),
        ("d.bin", &data),
        ("empty", &File::new("")),
    ] {
        workspace
            .put(&id("t-1.1.1"), &path(name), file, Precondition::Absent)
            .await
            .unwrap();
    }
    let manifest = workspace.list().await.unwrap();
    assert_eq!(manifest.get(&path("r.sh")), Some(&script.entry()));
    assert_eq!(manifest.get(&path("d.bin")), Some(&data.entry()));
    assert_eq!(manifest.get(&path("empty")), Some(&File::new("").entry()));
}

#[tokio::test]
async fn links_are_reported_and_never_followed() {
    let Place {
        workspace, sandbox, ..
    } = &place().await;
    put(workspace, "amounts.py", "x", Precondition::Absent)
        .await
        .unwrap();
    shell(sandbox, "mkdir ../out && echo secret > ../out/victim && ln -s ../out link && ln -s ../out/victim last && ln -s ../out/new dangling").await;
    for name in ["link/victim", "last", "dangling", "link"] {
        let read = workspace.get(&path(name), 99).await.unwrap_err();
        assert!(
            matches!(read, WorkspaceError::Refused(_)),
            "{name}: {read:?}"
        );
        for before in [
            Precondition::Absent,
            Precondition::Is(Digest::of(b"secret\n")),
        ] {
            let written = put(workspace, name, "x", before).await.unwrap_err();
            assert!(
                matches!(written, WorkspaceError::Refused(_)),
                "{name}: {written:?}"
            );
        }
    }
    let through = put(workspace, "link/new", "x", Precondition::Absent)
        .await
        .unwrap_err();
    assert!(matches!(through, WorkspaceError::Refused(_)), "{through:?}");
    shell(
        sandbox,
        "test \"$(cat ../out/victim)\" = secret && test ! -e ../out/new",
    )
    .await;
    let manifest = workspace.list().await.unwrap();
    assert_eq!(manifest.get(&path("link")), Some(&Entry::link("../out")));
    assert_eq!(
        manifest.get(&path("dangling")),
        Some(&Entry::link("../out/new"))
    );
    assert_eq!(manifest.iter().len(), 4);
    // And a workspace with a link in it is not taken over.
    let outcome = attempt(workspace.clone(), script()).drive().await.unwrap();
    assert!(
        matches!(outcome.end, End::WorkspaceFailed { .. }),
        "{:?}",
        outcome.end
    );
}

#[tokio::test]
async fn a_fresh_folder_is_empty_new_and_removed() {
    let Place {
        workspace, sandbox, ..
    } = &place().await;
    put(workspace, "a", "x", Precondition::Absent)
        .await
        .unwrap();
    let place = workspace.fresh_dir(&id("t-1.3.1")).await.unwrap();
    assert_eq!(place.list().await.unwrap().iter().len(), 0);
    place
        .put(
            &id("t-1.3.1"),
            &path("work/b"),
            &File::new("y"),
            Precondition::Absent,
        )
        .await
        .unwrap();
    let spec = ExecSpec::new(["sh", "-c", "cat b; cat; echo $X; echo e >&2; exit 3"]);
    let spec = spec.env("X", "v").stdin(*b"in").dir(path("work"));
    let receipt = place.exec(&id("t-1.3.1"), &spec).await.unwrap();
    assert_eq!((receipt.exit_code, receipt.timed_out), (Some(3), false));
    assert_eq!(
        (&receipt.stdout[..], &receipt.stderr[..]),
        (&b"yinv\n"[..], &b"e\n"[..])
    );
    let again = workspace.fresh_dir(&id("t-1.3.1")).await;
    assert!(matches!(again.err(), Some(WorkspaceError::Failed(_))));
    assert_eq!(place.stop().await, StopState::Confirmed);
    assert!(
        sandbox
            .fs()
            .ls("/tmp/repair.checks")
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert_eq!(workspace.list().await.unwrap().iter().len(), 1);
}

#[tokio::test]
async fn a_command_ends_at_its_limit_and_keeps_the_end_of_its_output() {
    let Place { workspace, .. } = &place().await;
    put(workspace, "a", "x", Precondition::Absent)
        .await
        .unwrap();
    let spec =
        ExecSpec::new(["sh", "-c", "echo begun; sleep 60"]).limit(Duration::from_millis(700));
    let receipt = workspace.exec(&id("t-1.1.1"), &spec).await.unwrap();
    assert_eq!((receipt.timed_out, receipt.exit_code), (true, None));
    assert_eq!(receipt.stdout, b"begun\n");
    let spec = ExecSpec::new(["sh", "-c", "printf 0123456789 >&2"]).keep_bytes(4);
    let receipt = workspace.exec(&id("t-1.1.2"), &spec).await.unwrap();
    assert_eq!(
        (&receipt.stderr[..], receipt.stderr_truncated),
        (&b"6789"[..], true)
    );
    let spec = ExecSpec::new(["no-such-program"]);
    let error = workspace.exec(&id("t-1.1.3"), &spec).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Failed(_)), "{error:?}");
    assert_eq!(
        workspace.lookup(&id("t-1.1.3")).await,
        Ok(Lookup::NeverStarted)
    );
}

#[tokio::test]
async fn a_command_whose_answer_is_lost_is_found_by_its_id_and_ran_once() {
    let Place {
        workspace, server, ..
    } = &place().await;
    put(workspace, "a", "x", Precondition::Absent)
        .await
        .unwrap();
    let line = "echo run >>count; until [ -e go ]; do sleep .05; done; echo done";
    let spec = ExecSpec::new(["sh", "-c", line]);
    // The command is started and the answer to that is lost; and the call is given up.
    server.faults().add(
        FaultRule::new(Fault::BadGateway)
            .path("*/exec/bg")
            .times(1)
            .carried_out(),
    );
    let call = id("t-1.2.1");
    let started = async {
        while workspace.get(&path("count"), 99).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        early = workspace.exec(&call, &spec) => panic!("{early:?}"),
        () = started => {}
    }
    assert_eq!(workspace.lookup(&call).await.unwrap(), Lookup::Running);
    put(workspace, "go", "", Precondition::Absent)
        .await
        .unwrap();
    let mut found = workspace.lookup(&call).await.unwrap();
    while found == Lookup::Running {
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = workspace.lookup(&call).await.unwrap();
    }
    let Lookup::Finished(receipt) = found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (receipt.exit_code, &receipt.stdout[..]),
        (Some(0), &b"done\n"[..])
    );
    // The same id is the same command.
    let again = workspace.exec(&call, &spec).await.unwrap();
    assert_eq!(again.stdout, b"done\n");
    assert_eq!(workspace.get(&path("count"), 99).await.unwrap(), b"run\n");
}

#[tokio::test]
async fn a_fresh_sandbox_runs_commands_as_a_user_who_cannot_change_what_was_put() {
    let Place { server, client, .. } = &place().await;
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client.clone(), server.project().clone(), spec);
    let (first, second) = (id("t-1.1.1"), id("t-1.2.1"));
    let (place, other) = tokio::join!(places.fresh(&first), places.fresh(&second));
    let (place, other) = (place.unwrap(), other.unwrap());
    assert_ne!(
        place.identity()["sandbox_run_uuid"],
        other.identity()["sandbox_run_uuid"]
    );
    assert!(other.stop().await.is_requested());
    let can = place.capabilities();
    assert!(
        can.other_uid && can.kills_tree && can.exec_lookup,
        "{can:?}"
    );
    assert_eq!(can.ttl, Some(Duration::from_secs(1800)));
    let file = File::new("fixture");
    place
        .put(&first, &path("work/t.py"), &file, Precondition::Absent)
        .await
        .unwrap();
    let line = "echo x >t.py; echo x >new; mv ../work ../other; rm -f t.py; chmod 777 . t.py; \
        echo x >../home/mine && cat ../home/mine; \
        (setsid sh -c 'sleep 1; echo late >../home/late; sleep 60' &) ; id -u";
    let spec = ExecSpec::new(["sh", "-c", line]).dir(path("work"));
    let receipt = place.exec(&first, &spec).await.unwrap();
    let said = String::from_utf8_lossy(&receipt.stdout).into_owned();
    let user: u32 = said.strip_prefix("x\n").unwrap().trim().parse().unwrap();
    assert!((60_000..65_000).contains(&user), "{said}");
    let files = place.list().await.unwrap();
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["home/mine", "work/t.py"]);
    assert_eq!(files.get(&path("work/t.py")), Some(&file.entry()));
    // What it left running was ended with it.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(place.list().await.unwrap(), files);
    assert!(place.stop().await.is_requested());
}

#[tokio::test]
async fn a_folder_in_a_sandbox_that_isolates_has_a_home_and_a_cache_for_the_command() {
    let Place { server, client, .. } = &place().await;
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client.clone(), server.project().clone(), spec);
    let sandbox = places.fresh(&id("t-1.1.1")).await.unwrap();
    let folder = sandbox.fresh_dir(&id("a:t-1.2.1")).await.unwrap();
    assert!(folder.capabilities().other_uid);
    let call = id("t-1.2.1");
    let file = File::new("fixture");
    let (name, absent) = (path("work/t.py"), Precondition::Absent);
    let put = folder.put(&call, &name, &file, absent).await;
    put.unwrap();
    // Nor has its path a colon, which would end it in `PATH` and its like.
    let line = "case $PWD in *:*) exit 1; esac; echo x >new; echo h >../home/h && echo c >../cache/c && mkdir ../cache/more";
    let spec = ExecSpec::new(["sh", "-c", line]).dir(path("work"));
    let receipt = folder.exec(&call, &spec).await.unwrap();
    assert_eq!(receipt.exit_code, Some(0), "{receipt:?}");
    let files = folder.list().await.unwrap();
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["cache/c", "home/h", "work/t.py"]);
    assert!(folder.stop().await.is_requested());
    sandbox.stop().await;
}

#[tokio::test]
async fn a_fresh_sandbox_is_found_again_by_what_was_said_of_it_and_ended() {
    let Place { server, client, .. } = &place().await;
    let places = || {
        let spec = SandboxSpec::image("python:3.12-slim");
        SandboxWorkspaces::new(client.clone(), server.project().clone(), spec)
    };
    let call = id("t-1.1.1");
    let announced = places().announce(&call);
    assert_ne!(places().announce(&call), announced);
    let made = places().life_limit(Duration::from_secs(60));
    let place = made.fresh_as(&call, &announced).await.unwrap();
    let identity = place.identity();

    // Another program sees the same place, with all that it can do.
    let again = places().reopen(&call, &identity).await.unwrap();
    assert_eq!(again.identity(), identity);
    assert_eq!(again.capabilities(), place.capabilities());
    assert_eq!(again.capabilities().ttl, Some(Duration::from_secs(60)));
    // What was written down of it before it was said whom commands run as claims no isolation.
    let mut of_before = identity.clone();
    of_before.as_object_mut().unwrap().remove("commands_run_as");
    let less = places().reopen(&call, &of_before).await.unwrap();
    assert!(!less.capabilities().other_uid && !less.capabilities().kills_tree);
    // A command whose program has not seen its end, with a process that it has left.
    let line = "(setsid sh -c 'sleep 2; echo late >home/late; sleep 60' &) ; sleep 1; echo done";
    let spec = ExecSpec::new(["sh", "-c", line]);
    let given_up = tokio::time::timeout(Duration::from_millis(600), place.exec(&call, &spec));
    given_up.await.unwrap_err();
    let mut found = again.lookup(&call).await.unwrap();
    while found == Lookup::Running {
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = again.lookup(&call).await.unwrap();
    }
    let Lookup::Finished(receipt) = found else {
        panic!("{found:?}");
    };
    assert_eq!(receipt.stdout, b"done\n");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(again.list().await.unwrap(), Manifest::default());

    // What was said before it was made ends it as well as what it says of itself.
    let nobody = serde_json::json!({"kind": "somewhere else"});
    let never = places().announce(&call);
    for (said, state) in [
        (&nobody, StopState::NotRequested),
        (&serde_json::Value::Null, StopState::NotRequested),
        (&never, StopState::NotRequested),
        (&announced, StopState::Confirmed),
        (&announced, StopState::Confirmed),
        (&identity, StopState::Confirmed),
    ] {
        assert_eq!(places().end(&call, said).await, state, "{said}");
    }
    for (said, expected) in [
        (&identity, WorkspaceError::NotFound),
        (&announced, WorkspaceError::Uncertain(Private::default())),
        (&nobody, WorkspaceError::Uncertain(Private::default())),
    ] {
        let error = places().reopen(&call, said).await.err().unwrap();
        assert_eq!(error.to_string(), expected.to_string(), "{said}");
    }
    let refused = places().fresh_as(&call, &nobody).await.err().unwrap();
    assert_eq!(refused.to_string(), "refused");
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

#[tokio::test]
async fn a_folder_has_a_plain_name() {
    let Place { sandbox, .. } = &place().await;
    let longest = "x".repeat(64);
    for name in ["a", "repair-1_b", &longest] {
        SandboxWorkspace::new(sandbox.clone(), name).unwrap();
    }
    for name in ["", ".", "..", "a/b", "a b", "ä", &format!("{longest}x")] {
        let error = SandboxWorkspace::new(sandbox.clone(), name).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{name:?} cannot name a folder")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn of_output_that_the_service_has_dropped_the_end_of_the_rest_is_kept() {
    // So many bytes are kept there of `0123456789`, and at most three here.
    for (stored, expected) in [(10, "789"), (9, "678"), (2, "01"), (0, "")] {
        let mut limits = Limits::default();
        limits.exec_log = stored;
        let server = LocalServer::builder().limits(limits).start().await.unwrap();
        let place = place_on(server).await;
        let put = put(&place.workspace, "a", "x", Precondition::Absent);
        put.await.unwrap();
        let spec = ExecSpec::new(["printf", "0123456789"]).keep_bytes(3);
        let receipt = place.workspace.exec(&id("t-1.1.2"), &spec).await.unwrap();
        assert_eq!(receipt.exit_code, Some(0));
        let kept = String::from_utf8(receipt.stdout).unwrap();
        assert_eq!((&*kept, receipt.stdout_truncated), (expected, true));
        assert_eq!(receipt.stdout_total, Some(10), "{stored}");
    }
}

#[tokio::test]
async fn what_a_check_inherits_arrives_as_it_is_or_not_at_all() {
    let server = LocalServer::start().await.unwrap();
    let token = Token::new(server.token()).unwrap();
    let client = Client::new(&Config::explicit(server.url()).unwrap().token(token)).unwrap();
    let told = [
        ("BLANKS", "  a  b "),
        ("QUOTES", "'a\" `id` \\"),
        ("SUBSTITUTED", "$(id) $HOME ${PATH}"),
        ("LINES", "a\nb=c\n"),
        ("GLOB", "* /* ?"),
        ("EMPTY", ""),
        ("LEFT", "not asked for"),
    ];
    let spec = told.iter().fold(
        SandboxSpec::image("python:3.12-slim"),
        |spec, (name, value)| spec.env(*name, *value),
    );
    let sandbox = SandboxClient::launch(&client, server.project(), &spec);
    let sandbox = sandbox.await.unwrap();
    let here = SandboxWorkspace::new(sandbox, "repair").unwrap();
    put(&here, "x", "", Precondition::Absent).await.unwrap();
    let places = SandboxWorkspaces::new(client, server.project().clone(), spec);
    let fresh = places.fresh(&id("t-1.1.2")).await.unwrap();
    let path = std::env::var("PATH").unwrap();
    let workspaces: [&dyn Workspace; 2] = [&here, &*fresh];
    for (number, workspace) in workspaces.into_iter().enumerate() {
        let words = |argv: &'static [&'static str], inherited: &'static [&'static str], name| {
            let acceptance = CommandAcceptance::new(argv.iter().copied())
                .variable("OWN", "$(id) \"*\"")
                .variable("GLOB", "its own")
                .inherit(inherited.iter().copied())
                .unwrap();
            let spec = acceptance.plan("check").unwrap().stages.remove(0).spec;
            async move {
                let id = id(&format!("t-1.{number}.{name}"));
                let receipt = workspace.exec(&id, &spec).await.unwrap();
                assert_eq!(receipt.exit_code, Some(0), "{receipt:?}");
                let text = String::from_utf8(receipt.stdout).unwrap();
                let words = text.split_terminator('\0').map(ToOwned::to_owned);
                words.collect::<Vec<_>>()
            }
        };
        let names = &[
            "BLANKS",
            "QUOTES",
            "SUBSTITUTED",
            "LINES",
            "GLOB",
            "EMPTY",
            "UNSET",
            "PATH",
        ];
        let mut seen = words(&["env", "-0"], names, 1).await;
        let mut expected: Vec<String> = told
            .iter()
            .filter(|(name, _)| !["LEFT", "GLOB"].contains(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        expected.extend(
            [
                "GLOB=its own",
                "HOME=../home",
                "LANG=C.UTF-8",
                "OWN=$(id) \"*\"",
            ]
            .map(ToOwned::to_owned),
        );
        expected.push(format!("PATH={path}"));
        seen.sort();
        expected.sort();
        assert_eq!(seen, expected);
        // The words of the command are what they are, too.
        let argv = &["printf", "%s\\0", "$(id)", "* a", "'\"", "", "a\nb"];
        let seen = words(argv, &["BLANKS"], 2).await;
        assert_eq!(seen, ["$(id)", "* a", "'\"", "", "a\nb"]);
        let seen = words(&["env", "-0"], &["UNSET"], 3).await;
        let usual = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert!(seen.iter().any(|word| word == usual), "{seen:?}");
        assert_eq!(seen.len(), 5, "{seen:?}");
    }
    fresh.stop().await;
}
