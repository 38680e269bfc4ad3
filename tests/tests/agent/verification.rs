//! A change that was accepted here, verified by a job of its own; and what is hidden stays so.

use std::sync::Arc;
use std::time::Duration;

use agent_loop::acceptance::{
    CommandAcceptance, Expected, IoCase, IoCases, JobResult, JobVerification, VerificationError,
    then,
};
use agent_loop::workspace::{SandboxWorkspace, SandboxWorkspaces};
use agent_loop::{
    Acceptance, Attempt, Event, Level, MemoryJournal, Paths, ScriptedModel, Task,
    UnittestAcceptance,
};
use polyaxon_client::runs::ListRuns;
use polyaxon_sandbox::SandboxSpec;
use polyaxon_tests::agent::{Case, FIX, SOURCE, TESTS, check, finish, read, write};
use polyaxon_tests::local::LocalSandbox;
use serde_json::{Value, json};

/// Applies the patch to the file as it was, and asks what no model has seen.
const VERIFY: &str = "\
import base64, hashlib, subprocess, sys
patch = base64.b64decode(sys.argv[1])
assert hashlib.sha256(patch).hexdigest() == sys.argv[2]
open('amounts.py', 'w').write('def total(xs):\\n    return 0\\n')
subprocess.run(['git', 'apply', '-'], input=patch, check=True)
sys.path.insert(0, '.')
import amounts
sys.exit(0 if amounts.total([4, -9, 100]) == 95 else 1)
";

fn component(command: &[&str]) -> Value {
    let input = |name: &str, kind: &str| json!({"name": name, "type": kind});
    json!({
        "kind": "component",
        "inputs": [
            input("task_id", "str"),
            input("attempt", "int"),
            input("sandbox_run_uuid", "str"),
            input("patch_sha256", "str"),
            input("patch_base64", "str"),
        ],
        "run": {"kind": "job", "container": {"image": "python:3.12", "command": command}},
    })
}

#[tokio::test]
async fn a_job_verifies_the_patch_with_cases_of_its_own() {
    let local = LocalSandbox::start().await;
    let runs = local.client.runs(&local.project);
    let sandbox = local.sandbox.run_uuid();
    let command = [
        "python3",
        "-B",
        "-c",
        VERIFY,
        "{{ patch_base64 }}",
        "{{ patch_sha256 }}",
    ];
    let verification = JobVerification::new(component(&command)).limit(Duration::from_secs(60));
    // Both pass the two tests of the attempt, and one of them knows only these.
    let by_heart = "def total(xs):\n    return 3 if xs else 0\n";
    for (source, result) in [(FIX, JobResult::Pass), (by_heart, JobResult::Fail)] {
        let replies = [read(), write(source), check(), finish()];
        let made = Case::default().drive(&local.sandbox, replies).await;
        assert!(made.outcome.is_accepted());
        let verdict = verification
            .run(&runs, &made.outcome, sandbox)
            .await
            .unwrap();
        assert_eq!(verdict.verdict, result, "{verdict:?}");
        assert_eq!(verdict.patch_sha256, made.outcome.patch_sha256);
        let run = runs.get(verdict.run).await.unwrap();
        let inputs = run.inputs.unwrap();
        assert_eq!(inputs["sandbox_run_uuid"], json!(sandbox));
        assert_eq!(inputs["patch_sha256"], json!(made.outcome.patch_sha256));
        assert_eq!(
            (&inputs["task_id"], &inputs["attempt"]),
            (&json!("total"), &json!(1))
        );
    }
}

#[tokio::test]
async fn a_job_that_does_not_end_or_never_ran_says_nothing_about_the_change() {
    let local = LocalSandbox::start().await;
    let runs = local.client.runs(&local.project);
    let replies = [read(), write(FIX), check(), finish()];
    let made = Case::default().drive(&local.sandbox, replies).await;
    let slow = JobVerification::new(component(&["sleep", "300"])).limit(Duration::from_secs(2));
    let verdict = slow
        .run(&runs, &made.outcome, local.sandbox.run_uuid())
        .await
        .unwrap();
    assert_eq!(verdict.verdict, JobResult::Invalid);
    assert_eq!(verdict.status, "not ended within the limit");
    runs.stop(verdict.run).await.unwrap();
    // A job without the value of an input cannot be compiled: it fails, and has not looked.
    let mut component = component(&["true"]);
    let inputs = component["inputs"].as_array_mut().unwrap();
    inputs.push(json!({"name": "of_nobody", "type": "str"}));
    let verdict = JobVerification::new(component)
        .run(&runs, &made.outcome, local.sandbox.run_uuid())
        .await
        .unwrap();
    assert_eq!(verdict.verdict, JobResult::Invalid);
    assert_eq!(verdict.status, "failed, and never ran");
    // One that knows of no patch is not asked at all.
    let before = runs.all(&ListRuns::new()).await.unwrap().runs.len();
    let mut blind = self::component(&["true"]);
    let inputs = blind["inputs"].as_array_mut().unwrap();
    inputs.retain(|input| !input["name"].as_str().unwrap().starts_with("patch"));
    inputs.push(json!({"name": "patch_sha", "type": "str", "isOptional": true}));
    let refused = JobVerification::new(blind)
        .run(&runs, &made.outcome, local.sandbox.run_uuid())
        .await
        .unwrap_err();
    assert!(matches!(refused, VerificationError::NotBound), "{refused}");
    let after = runs.all(&ListRuns::new()).await.unwrap().runs.len();
    assert_eq!(after, before);
    // A patch that is too large to be a param is said before anything is sent.
    let mut large = made.outcome;
    large.patch = vec![b'x'; 70_000];
    let refused = slow
        .run(&runs, &large, local.sandbox.run_uuid())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, VerificationError::TooLarge(_)),
        "{refused}"
    );
}

#[tokio::test]
async fn hidden_tests_run_in_a_sandbox_of_their_own_and_stay_unknown() {
    let local = LocalSandbox::start().await;
    let hidden = TESTS
        .replace("[1, 2]), 3", "[40, 2]), 42")
        .replace("test_empty", "test_none");
    let places = SandboxWorkspaces::new(
        local.client.clone(),
        local.project.clone(),
        SandboxSpec::image("python:3.12-slim"),
    );
    let by_heart = "def total(xs):\n    return 3 if xs else 0\n";
    let task = Task::new("hidden", "total(xs) must return the sum of xs.")
        .file("amounts.py", SOURCE)
        .unwrap();
    let acceptance = UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap();
    let acceptance = acceptance.hidden("test_hidden.py", hidden, 2).unwrap();
    let replies = [
        read(),
        write(by_heart),
        check(),
        write(FIX),
        check(),
        finish(),
    ];
    let workspace = SandboxWorkspace::new(local.sandbox.clone(), "hidden").unwrap();
    let journal = MemoryJournal::new();
    let paths = Paths::editable(["amounts.py"]).unwrap();
    let outcome = Attempt::new(
        task,
        ScriptedModel::new(replies),
        workspace,
        acceptance,
        paths,
    )
    .allow_checks(true)
    .fresh(places)
    .journal(journal.clone())
    .drive()
    .await
    .unwrap();
    assert!(outcome.is_accepted(), "{}", outcome.end);
    // The first part runs beside the workspace, and a pass is worth what its weakest part is.
    assert_eq!(outcome.acceptance.level, Some(Level::Counted));
    let verdicts: Vec<&str> = outcome
        .checks
        .iter()
        .map(|check| check.verdict.as_str())
        .collect();
    assert_eq!(verdicts, ["fail", "pass"]);
    let prompts = journal
        .records()
        .into_iter()
        .filter_map(|(record, _)| match record.event {
            Event::Asked(asked) => Some(asked.prompt),
            _ => None,
        });
    let prompts: String = prompts.collect();
    assert!(prompts.contains("an independent verification did not pass"));
    assert!(
        !prompts.contains("hidden.py") && !prompts.contains("42"),
        "{prompts}"
    );
    // Each of the two hidden runs had a sandbox of its own, whose end was asked for.
    let runs = local.client.runs(&local.project);
    let all = runs.list(&ListRuns::new()).await.unwrap();
    assert_eq!(all.runs.len(), 3);
}

/// Nowhere but in what is hidden.
const SECRET: i64 = 47_119;

/// Code that is right and carries out what it finds of a hidden check: `found`, as an expression. It
/// does not hold the secret itself.
fn carrying(found: &str, out: &str) -> String {
    format!(
        "import os, sys, __main__\n\n\ndef carry(found):\n    if '471' '19' in found:\n        {out}\n\n\n\
         def total(xs):\n    return sum(xs)\n\n\n\
         def more():\n    return open('test_more.py').read() if os.path.exists('test_more.py') else ''\n\n\n\
         carry({found})\n"
    )
}

#[tokio::test]
async fn code_that_sees_a_hidden_check_can_tell_the_model_nothing_of_it() {
    let local = LocalSandbox::start().await;
    let hidden = TESTS
        .replace("[1, 2]), 3", &format!("[{}, 2]), {SECRET}", SECRET - 2))
        .replace("test_empty", "test_none");
    let tests = || UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap();
    let unittest: Arc<dyn Acceptance> =
        Arc::new(tests().hidden("test_more.py", hidden, 2).unwrap());
    let script = format!("import amounts; assert amounts.total([1, 2]) == 3, {SECRET}");
    let command = CommandAcceptance::new(["python3", "-B", "-c", &script]);
    let command = then([
        Arc::new(tests()) as Arc<dyn Acceptance>,
        Arc::new(command.named("more").hidden()),
    ]);
    let command: Arc<dyn Acceptance> = Arc::new(command);
    let call = |name: &str, xs: [i64; 2]| {
        let sum = xs.iter().sum::<i64>();
        IoCase::call(name, [Value::from(xs.to_vec())], Expected::json(sum))
    };
    let calls = [call("more", [SECRET, 2]), call("two", [1, 2]).shown()];
    let calls: Arc<dyn Acceptance> =
        Arc::new(IoCases::python("amounts.py", "total", calls).unwrap());
    let input =
        |name: &str, xs: &str, sum: i64| IoCase::input(name, xs, Expected::text(sum.to_string()));
    let reading = "import sys, amounts; text = sys.stdin.read(); amounts.carry(text); \
        print(amounts.total(map(int, text.split())))";
    let reading = format!("import sys; sys.path.insert(0, '.'); {reading}");
    let more = format!("{SECRET} 2");
    let inputs = [
        input("two", "1 2", 3).shown(),
        input("more", &more, SECRET + 2),
    ];
    let inputs: Arc<dyn Acceptance> =
        Arc::new(IoCases::command(["python3", "-B", "-c", &reading], inputs).unwrap());
    let [stderr, told] = [
        "os.write(2, found[-400:].encode()) and os._exit(127)",
        "sys.stderr.write(found) and sys.stderr.flush() or os._exit(1)",
    ];
    let asked = "repr(getattr(__main__, 'questions', ''))";
    let table = [
        (&unittest, "more()", stderr, "invalid"),
        (&unittest, "more()", told, "invalid"),
        (&command, "' '.join(sys.orig_argv)", stderr, "invalid"),
        (&command, "' '.join(sys.orig_argv)", told, "fail"),
        (&calls, asked, stderr, "invalid"),
        (&calls, asked, told, "fail"),
        (&inputs, "''", stderr, "invalid"),
        (&inputs, "''", told, "fail"),
    ];
    for (at, (acceptance, found, out, verdict)) in table.into_iter().enumerate() {
        let source = carrying(found, out);
        let task = Task::new(
            format!("carry-{at}"),
            "total(xs) must return the sum of xs.",
        )
        .file("amounts.py", SOURCE)
        .unwrap();
        let workspace =
            SandboxWorkspace::new(local.sandbox.clone(), &format!("carry-{at}")).unwrap();
        let places = SandboxWorkspaces::new(
            local.client.clone(),
            local.project.clone(),
            SandboxSpec::image("python:3.12-slim"),
        );
        let journal = MemoryJournal::new();
        let replies = [read(), write(&source), check(), write(SOURCE)];
        let outcome = Attempt::new(
            task,
            ScriptedModel::new(replies),
            workspace,
            Arc::clone(acceptance),
            Paths::editable(["amounts.py"]).unwrap(),
        )
        .allow_checks(true)
        .budget(agent_loop::Budget::default().turns(4))
        .fresh(places)
        .journal(journal.clone())
        .drive()
        .await
        .unwrap();
        let (mut prompts, mut receipts) = (String::new(), String::new());
        for (record, _) in journal.records() {
            match record.event {
                Event::Asked(asked) => prompts.push_str(&asked.prompt),
                Event::Receipt(receipt) => {
                    receipts.push_str(&serde_json::to_string(&receipt).unwrap());
                }
                _ => {}
            }
        }
        assert!(!prompts.contains(&SECRET.to_string()), "{at}: {prompts}");
        let sentence = "- an independent verification did not pass";
        assert!(prompts.contains(sentence), "{at}: {prompts}");
        let check = &outcome.checks[0];
        assert_eq!(check.verdict, verdict, "{at}: {check:?}\n{source}");
        // It was in reach there, and whoever runs the attempt can see it.
        let seen = receipts.contains(&SECRET.to_string()) || check.summary.contains("47119");
        assert!(seen, "{at}: {check:?}");
    }
}
