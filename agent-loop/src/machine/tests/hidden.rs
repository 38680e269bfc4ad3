//! What comes of a hidden stage stays unknown to the model, whatever code under test does there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::acceptance::{
    Acceptance, CommandAcceptance, Counter, Expected, IoCase, IoCases, all, then,
};
use crate::budget::Budget;
use crate::journal::{Event, ReadJournal};
use crate::manifest::{File, Tree};
use crate::outcome::Outcome;
use crate::test_kit::{
    CHECK, JumpingClock, acceptance, fast_folder, fix, model, path, paths, task,
};
use crate::workspace::{ExecReceipt, ExecSpec, MemoryWorkspace, WorkspaceError};
use crate::{Attempt, Private, RunDir, verify};

/// What the hidden checks hold and no prompt may. As a number of tests it is one, too.
const SECRET: &str = "47119";
/// What every one of them is told as.
const TOLD: &str = "- an independent verification did not pass";

type Ran = Result<ExecReceipt, WorkspaceError>;
type Channel = fn(&mut Tree) -> Ran;

fn kinds() -> Vec<(&'static str, Arc<dyn Acceptance>)> {
    let tests = || Arc::new(acceptance()) as Arc<dyn Acceptance>;
    let command = |counter: Counter| {
        let command = CommandAcceptance::new(["verify", SECRET]);
        let command = match counter {
            Counter::None => command,
            counter => command.counted_by(counter, 1),
        };
        let command = command.fixture("test_more.py", SECRET).unwrap();
        Arc::new(command.named("more").hidden()) as Arc<dyn Acceptance>
    };
    let call = |name: &str, xs: &str, sum: i64| IoCase::call(name, [xs], Expected::json(sum));
    let calls = [call("more", SECRET, 8), call("two", "1 2", 3).shown()];
    let input = |name: &str, xs: &str, sum: &str| IoCase::input(name, xs, Expected::text(sum));
    let inputs = [input("two", "1 2", "3").shown(), input("more", SECRET, "8")];
    let mut kinds: Vec<(&str, Arc<dyn Acceptance>)> = vec![
        (
            "unittest",
            Arc::new(acceptance().hidden("test_more.py", SECRET, 1).unwrap()),
        ),
        (
            "calls",
            Arc::new(IoCases::python("amounts.py", "total", calls).unwrap()),
        ),
        (
            "inputs",
            Arc::new(IoCases::command(["sum"], inputs).unwrap()),
        ),
        (
            "all of two",
            Arc::new(all([tests(), command(Counter::None)])),
        ),
        (
            "all, hidden first",
            Arc::new(all([command(Counter::None), tests()])),
        ),
    ];
    for (name, counter) in [
        ("exit code", Counter::None),
        ("counted by unittest", Counter::Unittest),
        ("counted by pytest", Counter::Pytest),
        ("counted by libtest", Counter::Libtest),
    ] {
        kinds.push((name, Arc::new(then([tests(), command(counter)]))));
    }
    kinds
}

/// What code under test can do in a stage that it can read everything of.
const CHANNELS: [(&str, Channel); 16] = [
    (
        "status 127",
        |_| Ok(ExecReceipt::exited(127).stderr(SECRET)),
    ),
    (
        "status 126",
        |_| Ok(ExecReceipt::exited(126).stderr(SECRET)),
    ),
    ("a status", |_| Ok(ExecReceipt::exited(47))),
    ("a status with output", |_| {
        Ok(ExecReceipt::exited(1).stdout(SECRET).stderr(SECRET))
    }),
    ("zero without a report", |_| {
        Ok(ExecReceipt::exited(0).stderr("none"))
    }),
    ("a file left behind", |files| {
        files.insert(path(&format!("work/{SECRET}")), File::new(*b""));
        Ok(passed())
    }),
    ("a file changed", |files| {
        files.insert(path("work/test_more.py"), File::new(*b"easy"));
        files.insert(path("work/amounts.py"), File::new(*b"other"));
        Ok(passed())
    }),
    ("no end", |_| {
        let ended = ExecReceipt::timed_out(std::time::Duration::from_secs(30));
        Ok(ended.stdout(SECRET).stderr(SECRET))
    }),
    ("no place for it", |_| {
        Err(WorkspaceError::Failed(Private::new(SECRET)))
    }),
    ("too much left", |_| Err(WorkspaceError::TooLarge(47_119))),
    ("a number of tests", |_| {
        let unittest = format!("Ran {SECRET} tests in 0.001s\n\nOK\n");
        let harness = format!(
            "running {SECRET} tests\ntest result: ok. {SECRET} passed; 0 failed; 0 ignored; 0 measured; \
             0 filtered out; finished in 0.00s\n"
        );
        Ok(ExecReceipt::exited(0).stderr(unittest).stdout(harness))
    }),
    ("a failure", |_| {
        let report = format!(
            "FAIL: test_{SECRET} (t.T)\nAssertionError: {SECRET}\n\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n"
        );
        let summary = format!("FAILED test_more.py::{SECRET} - {SECRET}\n1 failed in 0.01s\n");
        Ok(ExecReceipt::exited(1).stderr(report).stdout(summary))
    }),
    ("a failure of the harness", |_| {
        let report = format!(
            "running 1 test\ntest {SECRET} ... FAILED\n\nfailures:\n\n---- {SECRET} stdout ----\n\
             thread '{SECRET}' panicked at {SECRET}:\n{SECRET}\n\nfailures:\n    {SECRET}\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        );
        Ok(ExecReceipt::exited(101).stdout(report))
    }),
    ("words of cargo", |_| {
        Ok(ExecReceipt::exited(101).stderr(format!("error: {SECRET}\n")))
    }),
    ("errors of a compiler", |_| {
        let said =
            format!("error: {SECRET}\n\nerror: could not compile `a` (test) due to 1 error\n");
        Ok(ExecReceipt::exited(101).stderr(said))
    }),
    ("many answers", |_| {
        let answer = format!("{{\"type\": \"int\", \"text\": \"{SECRET}\", \"json\": {SECRET}}}\n");
        Ok(ExecReceipt::exited(0).stdout(answer.repeat(3)))
    }),
];

/// A run in which everything passes, whoever reads it.
fn passed() -> ExecReceipt {
    let harness = "running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; \
        0 filtered out; finished in 0.00s\n";
    ExecReceipt::exited(0)
        .stderr("Ran 1 test in 0.001s\n\nOK\n")
        .stdout(harness)
}

/// A place in which the visible stages pass, and `hidden` says what becomes of the others.
fn place(hidden: Channel) -> MemoryWorkspace {
    MemoryWorkspace::new(move |spec: &ExecSpec, files| {
        let input = String::from_utf8_lossy(&spec.stdin).into_owned();
        let is_hidden = files.get(&path("work/test_more.py")).is_some() || input.contains(SECRET);
        Ok(match (is_hidden, input.as_str()) {
            (true, _) => return hidden(files),
            (_, "1 2") => ExecReceipt::exited(0).stdout("3\n"),
            (_, "") => ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"),
            // Its answer tells all that it was given.
            _ => ExecReceipt::exited(0).stdout(format!(
                "{{\"type\": \"int\", \"text\": {input:?}, \"json\": 3}}\n"
            )),
        })
    })
}

/// The prompts of two checks with a write between them, and the outcome.
async fn prompts(acceptance: Arc<dyn Acceptance>, hidden: Channel) -> (Vec<String>, Outcome) {
    let folder = fast_folder();
    let again = crate::test_kit::write("amounts.py", "def total(xs): return sum(xs)\n");
    let script = [fix(), CHECK.to_owned(), again, CHECK.to_owned()];
    let place = place(hidden);
    let outcome = Attempt::new(task(), model(script), place.clone(), acceptance, paths())
        .allow_checks(true)
        .fresh(place)
        .budget(Budget::default().turns(4))
        .clock(JumpingClock::default())
        .record_in(RunDir::create(folder.path()).unwrap())
        .drive()
        .await
        .unwrap();
    let verification = verify(folder.path()).unwrap();
    assert!(verification.is_consistent(), "{verification}");
    let journal = ReadJournal::read(folder.path()).unwrap();
    let prompts = journal.known().filter_map(|record| match &record.event {
        Event::Asked(asked) => Some(asked.prompt.clone()),
        _ => None,
    });
    (prompts.collect(), outcome)
}

#[tokio::test]
async fn whatever_becomes_of_a_hidden_stage_the_model_is_told_the_same() {
    for (kind, acceptance) in kinds() {
        let mut told = BTreeSet::new();
        let mut verdicts = BTreeMap::new();
        for (channel, hidden) in CHANNELS {
            let (prompts, outcome) = prompts(Arc::clone(&acceptance), hidden).await;
            let all = prompts.concat();
            assert!(!all.contains(SECRET), "{kind}, {channel}: {all}");
            let verdict = outcome.checks[0].verdict.clone();
            // An exit status alone is all that some of them look at.
            if verdict != "pass" {
                assert_eq!(all.matches(TOLD).count(), 1, "{kind}, {channel}: {all}");
                told.insert(prompts);
            }
            *verdicts.entry(verdict).or_insert(0) += 1;
        }
        assert_eq!(told.len(), 1, "{kind}");
        // It is not that one verdict is all there is.
        let [passed, failed, invalid] =
            ["pass", "fail", "invalid"].map(|word| verdicts.get(word).copied().unwrap_or(0));
        assert!(failed > 0 && invalid > 0, "{kind}: {verdicts:?}");
        assert!(passed <= 3, "{kind}: {verdicts:?}");
    }
}

#[tokio::test]
async fn whoever_runs_the_attempt_is_told_the_reason() {
    let table = [
        (
            CHANNELS[0].1,
            "the test command could not be started: 47119",
        ),
        (
            CHANNELS[5].1,
            "47119 was changed or left behind by the check",
        ),
        (
            CHANNELS[8].1,
            "the check could not be carried out: storage error (code WS-CHECK)",
        ),
        (CHANNELS[10].1, "47119 tests ran, and 1 should have"),
    ];
    for (hidden, reason) in table {
        let acceptance = acceptance().hidden("test_more.py", SECRET, 1).unwrap();
        let (_, outcome) = prompts(Arc::new(acceptance), hidden).await;
        assert_eq!(outcome.checks[0].summary, reason);
    }
}

/// A check of one's own, which tells all that it sees.
struct Telling(bool);

impl Acceptance for Telling {
    fn revision(&self) -> crate::Digest {
        crate::Digest::of(b"telling")
    }

    fn names(&self) -> Vec<String> {
        vec!["own".to_owned()]
    }

    fn plan(&self, _name: &str) -> Option<crate::CheckPlan> {
        let stage = crate::Stage::new(ExecSpec::new(["own"]));
        let stage = stage.fixture(path("test_more.py"), File::new(SECRET));
        let stage = if self.0 { stage.hidden() } else { stage };
        Some(crate::CheckPlan::new(stage, crate::Level::ExitCode))
    }

    fn judge(&self, _evidence: &crate::Evidence<'_>) -> crate::Verdict {
        crate::Verdict::fail(format!("- all of it: {SECRET}"))
    }
}

#[tokio::test]
async fn a_check_of_ones_own_is_kept_from_the_model_where_its_stage_says_so() {
    for hidden in [true, false] {
        let (prompts, outcome) = prompts(Arc::new(Telling(hidden)), |_| Ok(passed())).await;
        let all = prompts.concat();
        assert_eq!(all.contains(SECRET), !hidden, "{all}");
        assert_eq!(all.contains(TOLD), hidden, "{all}");
        assert_eq!(outcome.checks[0].summary, "- all of it: 47119");
    }
}
