//! Small commands that have gone wrong elsewhere, in a real sandbox.

use std::time::{Duration, Instant};

use agent_loop::acceptance::CommandAcceptance;
use agent_loop::workspace::{Precondition, SandboxWorkspace};
use agent_loop::{
    Attempt, Budget, ExecReceipt, ExecSpec, File, MemoryJournal, Outcome, Paths, RelPath,
    ScriptedModel, Task, Workspace,
};
use polyaxon_sandbox::Exec;
use polyaxon_tests::agent::{FIX, SOURCE, check, read, write};
use polyaxon_tests::local::LocalSandbox;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

async fn ran(local: &LocalSandbox, spec: ExecSpec) -> ExecReceipt {
    let workspace = SandboxWorkspace::new(local.sandbox.clone(), "cases").unwrap();
    let id = "cases-1.1.1".parse().unwrap();
    let file = File::new(*b"");
    workspace
        .put(&id, &path("a"), &file, Precondition::Absent)
        .await
        .unwrap();
    workspace.exec(&id, &spec).await.unwrap()
}

/// One check by `argv`; what the model is told of it, and the outcome.
async fn checked(local: &LocalSandbox, argv: &[&str]) -> (String, Outcome) {
    let task = Task::new("cases", "Make it pass.")
        .file("amounts.py", SOURCE)
        .unwrap();
    let workspace = SandboxWorkspace::new(local.sandbox.clone(), "cases").unwrap();
    let acceptance = CommandAcceptance::new(argv.iter().copied());
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let model = ScriptedModel::new([read(), write(FIX), check(), read()]);
    let journal = MemoryJournal::new();
    let outcome = Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .budget(Budget::default().turns(4))
        .journal(journal.clone())
        .drive()
        .await
        .unwrap();
    let prompts = journal.records().into_iter();
    let prompts = prompts.filter_map(|(record, _)| match record.event {
        agent_loop::Event::Asked(asked) => Some(asked.prompt),
        _ => None,
    });
    (prompts.last().unwrap(), outcome)
}

#[tokio::test]
async fn output_is_kept_though_a_process_that_is_left_holds_it() {
    let local = LocalSandbox::start().await;
    let started = Instant::now();
    let line = "echo a; echo b >&2; sleep 90 &";
    let receipt = ran(&local, ExecSpec::new(["sh", "-c", line])).await;
    assert_eq!((receipt.exit_code, receipt.timed_out), (Some(0), false));
    assert_eq!(
        (&receipt.stdout[..], &receipt.stderr[..]),
        (&b"a\n"[..], &b"b\n"[..])
    );
    assert!(
        started.elapsed() < Duration::from_secs(45),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn an_exit_code_of_124_is_no_time_limit() {
    let local = LocalSandbox::start().await;
    let receipt = ran(&local, ExecSpec::new(["sh", "-c", "exit 124"])).await;
    assert_eq!((receipt.exit_code, receipt.timed_out), (Some(124), false));
    let (prompt, outcome) = checked(&local, &["sh", "-c", "exit 124"]).await;
    assert_eq!(outcome.checks[0].verdict, "fail");
    assert!(prompt.contains("exit code 124"), "{prompt}");
}

#[tokio::test]
async fn a_command_that_reads_gets_the_end_at_once() {
    let local = LocalSandbox::start().await;
    let limit = Duration::from_secs(90);
    let receipt = ran(&local, ExecSpec::new(["cat"]).limit(limit)).await;
    assert_eq!(
        (receipt.exit_code, &receipt.stdout[..]),
        (Some(0), &b""[..])
    );
    assert!(
        receipt.duration < Duration::from_secs(45),
        "{:?}",
        receipt.duration
    );
}

#[tokio::test]
async fn a_check_sees_the_environment_of_its_plan_and_no_other() {
    // This process has variables of cargo's, as an agent has its keys.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let local = LocalSandbox::start().await;
    let (prompt, _) = checked(&local, &["sh", "-c", "env; exit 1"]).await;
    let shown = prompt.split("wrote:").nth(1).unwrap();
    let mut names: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    // The last two are the shell's own.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    assert_eq!(names, ["HOME", "LANG", "PATH"], "{prompt}");
}

#[tokio::test]
async fn what_moves_a_cursor_reaches_no_prompt() {
    let local = LocalSandbox::start().await;
    let line = r"printf '\000\033[2J\007 ok\n'; exit 1";
    let (prompt, _) = checked(&local, &["sh", "-c", line]).await;
    assert!(prompt.contains(" ok"), "{prompt}");
    let raw = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    assert!(!prompt.contains(raw), "{prompt:?}");
}

#[tokio::test]
async fn a_write_leaves_another_name_of_the_same_file_alone() {
    let local = LocalSandbox::start().await;
    let workspace = SandboxWorkspace::new(local.sandbox.clone(), "cases").unwrap();
    let id = "cases-1.1.1".parse().unwrap();
    let (amounts, old) = (path("amounts.py"), File::new(SOURCE));
    workspace
        .put(&id, &amounts, &old, Precondition::Absent)
        .await
        .unwrap();
    let link = Exec::shell("ln amounts.py test_amounts.py").workdir("/tmp/cases");
    local
        .sandbox
        .process()
        .exec(&link)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    workspace
        .put(
            &id,
            &amounts,
            &File::new(FIX),
            Precondition::Is(old.digest()),
        )
        .await
        .unwrap();
    let tests = workspace
        .get(&path("test_amounts.py"), 1 << 16)
        .await
        .unwrap();
    assert_eq!(String::from_utf8(tests).unwrap(), SOURCE);
}

#[tokio::test]
async fn a_file_from_before_a_check_is_no_evidence_of_it() {
    let local = LocalSandbox::start().await;
    // A check that looks for results in a file, as people write it, and one that was there before.
    let line = "cat results.json 2>/dev/null && exit 0; exit 1";
    let task = Task::new("cases", "Make it pass.")
        .file("amounts.py", SOURCE)
        .unwrap()
        .file("results.json", "{\"passed\": 99}")
        .unwrap();
    let workspace = SandboxWorkspace::new(local.sandbox.clone(), "cases").unwrap();
    let tests = agent_loop::acceptance::Counter::Unittest;
    let acceptance = CommandAcceptance::new(["sh", "-c", line]).counted_by(tests, 2);
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let model = ScriptedModel::new([read(), write(FIX), check()]);
    let outcome = Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .budget(Budget::default().turns(3))
        .drive()
        .await
        .unwrap();
    assert_eq!(outcome.checks[0].verdict, "invalid", "{:?}", outcome.checks);
    assert!(!outcome.is_accepted());
}
