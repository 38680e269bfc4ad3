//! The recipe with a real interpreter, and the judgement of what it reports.

use super::*;
use crate::acceptance::StageRun;
use crate::acceptance::test_kit::check;
use crate::manifest::Tree;
use crate::test_kit::{RIGHT, TESTS, WRONG, acceptance, path, running};
use crate::workspace::{Capabilities, ExecReceipt};

/// What two tests with this end come to.
fn judged(receipt: &ExecReceipt) -> Judged {
    let report = Report::parse(&String::from_utf8_lossy(&receipt.stderr));
    let counted = Counted {
        receipt,
        summaries: &report.summaries,
        truncated: receipt.stderr_truncated,
        failing: &[1],
        tests: Some(2),
        limit: Duration::from_secs(1),
    };
    counted.judge()
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files
        .iter()
        .map(|(name, text)| (path(name), File::new(*text)))
        .collect()
}

/// The verdict's word and its text.
async fn verdict_on(amounts: &str, more: &[(&str, &str)]) -> (&'static str, String) {
    let mut files = tree(&[("amounts.py", amounts)]);
    for (name, text) in more {
        files.insert(path(name), File::new(*text));
    }
    let verdict = check(&acceptance(), "unit", &files, &running()).await;
    let text = match &verdict {
        Verdict::Pass { summary, .. } => summary.clone(),
        Verdict::Fail { feedback } => feedback.clone(),
        Verdict::Invalid { why } => why.clone(),
    };
    (verdict.word(), text)
}

#[tokio::test]
async fn right_code_passes_and_wrong_code_fails() {
    assert_eq!(
        verdict_on(RIGHT, &[]).await,
        ("pass", "2 tests passed".to_owned())
    );
    let said =
        "- test_two: `def test_two(self): self.assertEqual(amounts.total([1,2]),3)` failed: 0 != 3";
    assert_eq!(verdict_on(WRONG, &[]).await, ("fail", said.to_owned()));
}

#[tokio::test]
async fn no_way_around_the_tests_is_a_pass() {
    let body = "def total(xs):\n    return 0\n";
    let with = |text: &str| format!("{text}\n{body}");
    let table = [
        (
            "the process is ended with 0 on import",
            with("import os\nos._exit(0)"),
            "invalid",
            "the tests ended with exit code 0 and without a summary",
        ),
        (
            "SystemExit(0) on import",
            with("raise SystemExit(0)"),
            "fail",
            "amounts.py cannot be imported: line 1: raise SystemExit(0): SystemExit: 0",
        ),
        (
            "a failing suite whose exit is turned into 0",
            with("import atexit, os\natexit.register(os._exit, 0)"),
            "invalid",
            "the tests ended with exit code 0, and their report says FAILED with 1 failed",
        ),
        (
            "every test is skipped",
            "import unittest\ndef total(xs):\n    raise unittest.SkipTest('x')\n".to_owned(),
            "fail",
            "- 2 of 2 tests were skipped",
        ),
        (
            "the module is skipped",
            with("import unittest\nraise unittest.SkipTest('x')"),
            "fail",
            "- 1 of 1 tests were skipped",
        ),
        (
            "the process kills itself",
            with("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
            "invalid",
            "without a summary",
        ),
        (
            "a summary is printed before the real one",
            with("import sys\nsys.stderr.write('Ran 2 tests in 0.001s\\n\\nOK\\n')"),
            "invalid",
            "the output holds more than one summary",
        ),
    ];
    for (name, amounts, word, said) in table {
        let (found, text) = verdict_on(&amounts, &[]).await;
        assert_eq!(found, word, "{name}: {text}");
        assert!(text.contains(said), "{name}: {text}");
    }
}

/// What this level cannot stop, and says so by its name: the report is made where the code runs.
#[tokio::test]
async fn a_forged_report_passes_at_this_level() {
    let forged = "import os, sys\nsys.stderr.write('Ran 2 tests in 0.001s\\n\\nOK\\n')\nsys.stderr.flush()\nos._exit(0)\n";
    assert_eq!(verdict_on(forged, &[]).await.0, "pass");
    let plan = acceptance().plan("unit").unwrap();
    assert_eq!(plan.level, Level::Counted);
}

#[tokio::test]
async fn files_of_the_workspace_do_not_stand_in_for_the_standard_library() {
    let quit = "import os\nos._exit(0)\n";
    for name in [
        "unittest.py",
        "unittest/__init__.py",
        "json.py",
        "random.py",
        "re.py",
        "sitecustomize.py",
        "usercustomize.py",
        "os.py",
        "conftest.py",
    ] {
        let (word, text) = verdict_on(WRONG, &[(name, quit)]).await;
        assert_eq!(word, "fail", "{name}: {text}");
        // A package of that name is walked into by the discovery, which then refuses: right code
        // does not pass beside it either.
        let (word, text) = verdict_on(RIGHT, &[(name, quit)]).await;
        let is_package = name == "unittest/__init__.py";
        assert_eq!(
            word,
            if is_package { "fail" } else { "pass" },
            "{name}: {text}"
        );
    }
}

#[tokio::test]
async fn edits_of_equal_length_within_one_second_are_seen() {
    let right = "def total(xs):\n    return sum(xs)+0\n";
    let wrong = "def total(xs):\n    return sum(xs)+1\n";
    assert_eq!(right.len(), wrong.len());
    let place = running();
    for round in 0..4 {
        for (source, word) in [(wrong, "fail"), (right, "pass")] {
            let verdict = check(
                &acceptance(),
                "unit",
                &tree(&[("amounts.py", source)]),
                &place,
            )
            .await;
            assert_eq!(verdict.word(), word, "round {round}");
        }
    }
}

#[tokio::test]
async fn a_suite_without_tests_or_with_another_number_is_no_pass() {
    let empty = UnittestAcceptance::new("test_amounts.py", "import amounts\n", 1).unwrap();
    let files = tree(&[("amounts.py", RIGHT)]);
    assert_eq!(
        check(&empty, "unit", &files, &running()).await,
        Verdict::invalid("no test ran")
    );
    let three = UnittestAcceptance::new("test_amounts.py", TESTS, 3).unwrap();
    let verdict = check(&three, "unit", &files, &running()).await;
    assert_eq!(verdict, Verdict::invalid("2 tests ran, and 3 should have"));
}

#[tokio::test]
async fn a_test_that_does_not_end_fails_at_its_limit() {
    let slow = acceptance().limit(Duration::from_millis(800));
    let files = tree(&[("amounts.py", "def total(xs):\n    while True: pass\n")]);
    let verdict = check(&slow, "unit", &files, &running()).await;
    assert_eq!(
        verdict,
        Verdict::fail("- the tests did not end within 0.8 s")
    );
}

#[tokio::test]
async fn an_interpreter_that_is_missing_is_nobodys_failure() {
    let lost = acceptance().search_path("/nonexistent");
    let verdict = check(&lost, "unit", &tree(&[("amounts.py", RIGHT)]), &running()).await;
    let Verdict::Invalid { why } = verdict else {
        panic!("{verdict:?}")
    };
    assert!(
        why.starts_with("the test command could not be started: env: "),
        "{why}"
    );
}

#[tokio::test]
async fn failures_are_condensed_to_a_line_each() {
    let tests = r#"import unittest
from decimal import Decimal
import amounts


class Amounts(unittest.TestCase):
    def test_decimal(self):
        self.assertEqual(amounts.parse("1.50"), Decimal("1.50"))

    def test_thousands(self):
        self.assertEqual(
            amounts.parse("$1,234.50"),
            Decimal("1234.50"),
        )

    def test_invalid(self):
        for text in ["", "x"]:
            with self.subTest(text=text):
                with self.assertRaises(ValueError):
                    amounts.parse(text)

    def test_none(self):
        self.assertRaises(TypeError, amounts.parse, None)
"#;
    let acceptance = UnittestAcceptance::new("test_amounts.py", tests, 4).unwrap();
    let condensed = async |amounts: &str| {
        let verdict = check(
            &acceptance,
            "unit",
            &tree(&[("amounts.py", amounts)]),
            &running(),
        )
        .await;
        let Verdict::Fail { feedback } = verdict else {
            panic!("{verdict:?}")
        };
        feedback
    };
    let decimal = "from decimal import Decimal\n\ndef parse(text):\n    return Decimal(text.replace('$', ''))\n";
    insta::assert_snapshot!(condensed(decimal).await, @r#"
    - test_invalid (text=''): `amounts.parse(text)` must raise ValueError, but it raised decimal.InvalidOperation, which is not a ValueError.
    - test_invalid (text='x'): `amounts.parse(text)` must raise ValueError, but it raised decimal.InvalidOperation, which is not a ValueError.
    - test_none: `self.assertRaises(TypeError, amounts.parse, None)` must raise TypeError, but it raised AttributeError, which is not a TypeError.
    - test_thousands: `amounts.parse("$1,234.50")` raised decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>] at `return Decimal(text.replace('$', ''))`
    "#);
    let float = "def parse(text):\n    return 1.5\n";
    insta::assert_snapshot!(condensed(float).await, @r#"
    - test_invalid (text=''): `with self.assertRaises(ValueError): amounts.parse(text)` failed: ValueError not raised
    - test_invalid (text='x'): `with self.assertRaises(ValueError): amounts.parse(text)` failed: ValueError not raised
    - test_none: `self.assertRaises(TypeError, amounts.parse, None)` failed: TypeError not raised by parse
    - test_thousands: `self.assertEqual(amounts.parse("$1,234.50"),Decimal("1234.50"),)` failed: 1.5 != Decimal('1234.50')
    "#);
    insta::assert_snapshot!(condensed("def parse(text):\n    return (\n").await, @r#"
    - amounts.py cannot be imported: line 2: return (: SyntaxError: '(' was never closed
    "#);
    insta::assert_snapshot!(condensed("import nosuch\n").await, @r#"
    - amounts.py cannot be imported: line 1: import nosuch: ModuleNotFoundError: No module named 'nosuch'
    "#);
    insta::assert_snapshot!(condensed("x = 1\n").await, @r#"
    - test_decimal: `self.assertEqual(amounts.parse("1.50"), Decimal("1.50"))` raised AttributeError: module 'amounts' has no attribute 'parse'
    - test_invalid (text=''): `amounts.parse(text)` must raise ValueError, but it raised AttributeError, which is not a ValueError.
    - test_invalid (text='x'): `amounts.parse(text)` must raise ValueError, but it raised AttributeError, which is not a ValueError.
    - test_none: `self.assertRaises(TypeError, amounts.parse, None)` must raise TypeError, but it raised AttributeError, which is not a TypeError.
    - and 1 more
    "#);
}

#[test]
fn exit_status_and_report_have_to_agree() {
    let ok = "Ran 2 tests in 0.001s\n\nOK\n";
    let failed = "Ran 2 tests in 0.001s\n\nFAILED (errors=1)\n";
    let table = [
        (Some(0), ok, "pass"),
        (Some(1), ok, "invalid"),
        (Some(0), failed, "invalid"),
        (Some(1), failed, "fail"),
        (Some(2), failed, "invalid"),
        (None, ok, "invalid"),
        (Some(124), "", "invalid"),
        (
            Some(1),
            "Ran 2 tests in 0.001s\n\nFAILED (skipped=1)\n",
            "invalid",
        ),
        (Some(0), "Ran 0 tests in 0.001s\n\nOK\n", "invalid"),
        (
            Some(5),
            "Ran 0 tests in 0.001s\n\nNO TESTS RAN\n",
            "invalid",
        ),
        (
            Some(0),
            "Ran 0 tests in 0.001s\n\nNO TESTS RAN\n",
            "invalid",
        ),
        (
            Some(1),
            "Ran 2 tests in 0.001s\n\nFAILED (unexpected successes=1)\n",
            "fail",
        ),
        (
            Some(0),
            "Ran 2 tests in 0.001s\n\nOK (expected failures=1)\n",
            "invalid",
        ),
        (Some(0), "Ran 1 test in 0.001s\n\nOK\n", "invalid"),
        (Some(0), "Ran 3 tests in 0.001s\n\nOK\n", "invalid"),
    ];
    for (code, stderr, word) in table {
        let mut receipt = ExecReceipt::exited(0).stderr(stderr);
        receipt.exit_code = code;
        let found = match judged(&receipt) {
            Judged::Pass { .. } => "pass",
            Judged::Fail(_) | Judged::Failures => "fail",
            Judged::Invalid(_) => "invalid",
        };
        assert_eq!(found, word, "{code:?} {stderr:?}");
    }
    let mut cut = ExecReceipt::exited(1).stderr("noise");
    cut.stderr_truncated = true;
    let cut_before = "the output was cut before the summary of the tests";
    assert_eq!(judged(&cut), Judged::Invalid(cut_before.to_owned()));
}

#[test]
fn what_hidden_tests_say_stays_hidden() {
    let acceptance = acceptance().hidden("test_hidden.py", "secret", 1).unwrap();
    let plan = acceptance.plan("unit").unwrap();
    assert_eq!(
        plan.stages.iter().map(|stage| stage.at).collect::<Vec<_>>(),
        [At::Here, At::Fresh]
    );
    let run = |stderr: &str, code| {
        let receipt = ExecReceipt::exited(code).stderr(stderr);
        StageRun::new(
            "t.1.1".parse().unwrap(),
            Capabilities::default(),
            Default::default(),
            receipt,
        )
    };
    let first = run("Ran 2 tests in 0.001s\n\nOK\n", 0);
    let judged = |second: StageRun| {
        acceptance.judge(&Evidence::new(
            &plan,
            &Tree::new(),
            &[first.clone(), second],
        ))
    };
    let verdict = judged(run(
        "secret\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n",
        1,
    ));
    assert_eq!(
        verdict,
        Verdict::fail("- an independent verification did not pass")
    );
    let verdict = judged(run("Ran 1 test in 0.001s\n\nOK\n", 0));
    assert_eq!(verdict, Verdict::pass("1 tests passed"));
}

#[test]
fn the_command_is_short_and_its_names_are_relative() {
    let acceptance = UnittestAcceptance::new("tests/test_a.py", "x", 1)
        .unwrap()
        .fixture("tests/data.json", "{}")
        .unwrap();
    let stage = &acceptance.plan("unit").unwrap().stages[0];
    let argv = stage.spec.argv.join(" ");
    assert!(
        argv.len() <= 4096
            && argv.contains("HOME=../home")
            && argv.contains("pycache_prefix=../cache")
    );
    assert!(
        argv.ends_with(r#"argv=["u", "discover", "-s", "tests", "-p", "test_a.py"])"#),
        "{argv}"
    );
    assert_eq!(stage.fixtures.len(), 2);
    assert!(acceptance.plan("other").is_none());
    for name in [
        "test-a.py",
        "1.py",
        ".py",
        "test_a.txt",
        "a b.py",
        "tést.py",
        "a*.py",
    ] {
        let error = UnittestAcceptance::new(name, "x", 1).unwrap_err();
        assert!(matches!(error, InvalidTests::Name(_)), "{name}");
    }
    let error = UnittestAcceptance::new("test_a.py", "x", 0).unwrap_err();
    assert_eq!(error, InvalidTests::NoTests(path("test_a.py")));
    UnittestAcceptance::new("../test_a.py", "x", 1).unwrap_err();
}
