use std::sync::Arc;

use agent_loop::acceptance::{
    CommandAcceptance, Counter, Description, Expected, IoCase, IoCases, all, then,
};
use agent_loop::conformance;
use agent_loop::{
    Acceptance, CheckPlan, Digest, Evidence, ExecReceipt, ExecSpec, Level, Stage,
    UnittestAcceptance, Verdict,
};

fn ran(tests: u32) -> ExecReceipt {
    ExecReceipt::exited(0).stderr(format!("Ran {tests} tests in 0.1s\n\nOK\n"))
}

fn unit() -> Arc<dyn Acceptance> {
    let tests = UnittestAcceptance::new("test_a.py", "…", 2).unwrap();
    Arc::new(tests.hidden("test_b.py", "…", 1).unwrap())
}

fn lint() -> Arc<dyn Acceptance> {
    Arc::new(CommandAcceptance::new(["lint"]))
}

#[test]
fn our_own_pass() {
    let answers = "{\"type\": \"int\", \"text\": \"3\", \"json\": 3}\n";
    let cases = |call: bool| match call {
        true => IoCases::python("a.py", "f", [IoCase::call("c", [1], Expected::json(3))]),
        false => IoCases::command(
            ["sum"],
            [
                IoCase::input("a", "1 2", Expected::text("3")),
                IoCase::input("b", "2 2", Expected::text("4")),
            ],
        ),
    };
    let counted = CommandAcceptance::new(["t"]).counted_by(Counter::Unittest, 2);
    let table: [(Arc<dyn Acceptance>, Vec<ExecReceipt>); 9] = [
        (unit(), vec![ran(2), ran(1)]),
        (lint(), vec![ExecReceipt::exited(0)]),
        (Arc::new(counted), vec![ran(2)]),
        (
            Arc::new(CommandAcceptance::pytest("test_a.py", "…", 2).unwrap()),
            vec![ExecReceipt::exited(0).stdout(*b"2 passed in 0.1s\n")],
        ),
        (
            Arc::new(CommandAcceptance::cargo_test("tests/a.rs", "…", 2).unwrap()),
            vec![ExecReceipt::exited(0).stdout(
                *b"running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 \
                   filtered out; finished in 0.00s\n",
            )],
        ),
        (
            Arc::new(cases(true).unwrap()),
            vec![ExecReceipt::exited(0).stdout(answers)],
        ),
        (
            Arc::new(cases(false).unwrap()),
            vec![
                ExecReceipt::exited(0).stdout(*b"3\n"),
                ExecReceipt::exited(0).stdout(*b"4\n"),
            ],
        ),
        (
            Arc::new(then([lint(), unit()])),
            vec![ExecReceipt::exited(0), ran(2), ran(1)],
        ),
        (
            Arc::new(all([unit(), lint()])),
            vec![ran(2), ran(1), ExecReceipt::exited(0)],
        ),
    ];
    for (acceptance, passing) in table {
        let report = conformance::acceptance(&*acceptance, &passing);
        assert_eq!(report.failed(), [] as [&str; 0], "{report}");
        assert_eq!(report.passed(), 7, "{report}");
    }
}

/// Passes where the output says so, whatever the exit status; and counts its calls.
struct Gullible(std::sync::atomic::AtomicU32);

impl Acceptance for Gullible {
    fn revision(&self) -> Digest {
        Digest::of(b"gullible")
    }

    fn names(&self) -> Vec<String> {
        vec!["g".to_owned(), "g".to_owned()]
    }

    fn plan(&self, _name: &str) -> Option<CheckPlan> {
        Some(CheckPlan::new(
            Stage::new(ExecSpec::new(["g"])),
            Level::Counted,
        ))
    }

    fn judge(&self, _evidence: &Evidence<'_>) -> Verdict {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Verdict::pass(format!("call {calls}"))
    }

    fn description(&self) -> Option<Description> {
        lint().description()
    }
}

#[test]
fn one_that_believes_everything_fails_and_is_told_why() {
    let report = conformance::acceptance(&Gullible(0.into()), &[ExecReceipt::exited(0)]);
    assert_eq!(
        report.failed(),
        [
            "names_its_checks_and_plans_them",
            "plans_and_judges_the_same_each_time",
            "passes_what_has_to_pass",
            "passes_nothing_that_shows_nothing",
            "fails_at_each_stage_that_fails",
            "takes_any_bytes",
            "is_made_again_from_its_description",
        ]
    );
    let told = report.ensure().unwrap_err().to_string();
    assert!(told.contains("a name stands there twice"), "{told}");
    assert!(told.ends_with("acceptance: 0 of 7 cases passed, 7 failed, 0 not claimed"));
}
