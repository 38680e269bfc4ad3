//! Commands in a folder of a sandbox: limits, lost answers, output and variables.

use std::time::Duration;

use agent_loop::acceptance::CommandAcceptance;
use agent_loop::workspace::{
    Lookup, Precondition, SandboxWorkspace, SandboxWorkspaces, Workspaces as _,
};
use agent_loop::{Acceptance as _, ExecSpec, Workspace, WorkspaceError};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{Fault, FaultRule, Limits, LocalServer};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

use super::{Place, attempt_with, id, path, place, place_on, put, script};

#[tokio::test]
async fn a_command_ends_at_its_limit_and_keeps_the_end_of_its_output() {
    let Place { workspace, .. } = &place().await;
    put(workspace, "a", "x", Precondition::Absent)
        .await
        .unwrap();
    // Time enough to begin, whatever the machine does.
    let spec = ExecSpec::new(["sh", "-c", "echo begun; sleep 300"]).limit(Duration::from_secs(10));
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
async fn a_check_may_fill_the_folders_beside_its_copy() {
    let place = place().await;
    let line = "mkdir -p ../cache ../home && truncate -s 140M ../cache/large && seq 10001 | sed s-^-../cache/- | xargs touch && \
                touch '../home/a\n' && grep -q 'sum(xs)' amounts.py";
    let acceptance = CommandAcceptance::new(["sh", "-c", line]);
    let attempt = attempt_with(place.workspace.clone(), script(), acceptance);
    let outcome = attempt.drive().await.unwrap();
    assert!(outcome.is_accepted(), "{:?}", outcome.checks);
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
