//! With what cargo 1.95 wrote, cut short.

use proptest::prelude::*;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn judged(tests: u32, receipt: &ExecReceipt) -> (&'static str, String) {
    let report = Report::parse(&receipt.stdout);
    match report.judge(receipt, Some(tests), LIMIT) {
        Judged::Pass { tests } => ("pass", tests.to_string()),
        Judged::Failures => ("fail", report.condensed()),
        Judged::Fail(why) => ("fail", why),
        Judged::Invalid(why) => ("invalid", why),
    }
}

/// The report of a program in which all is well.
fn program(passed: u32, ignored: u32) -> String {
    format!(
        "\nrunning {} tests\ntest a ... ok\n\ntest result: ok. {passed} passed; 0 failed; {ignored} \
         ignored; 0 measured; 2 filtered out; finished in 0.01s\n\n",
        passed + ignored
    )
}

#[test]
fn a_summary_is_read_as_strictly_as_it_is_written() {
    let ok = "test result: ok. 3 passed; 0 failed; 1 ignored; 2 measured; 4 filtered out; finished in 0.00s";
    let line = Line::parse(ok).unwrap();
    assert_eq!(
        line,
        Line {
            ok: true,
            passed: 3,
            failed: 0,
            ignored: 1,
            measured: 2
        }
    );
    assert_eq!((line.ran(), line.all()), (Some(5), Some(6)));
    let failed = ok.replace("ok", "FAILED");
    assert!(Line::parse(&failed).is_some_and(|line| !line.ok));
    for (from, to) in [
        ("test result: ", "result: "),
        ("ok", "OK"),
        ("3 passed", "-3 passed"),
        ("3 passed", "3 won"),
        ("0 failed; ", ""),
        ("0.00s", "soon"),
        ("; finished in 0.00s", ""),
        ("0.00s", "0.00s; and more"),
        ("4 filtered", "99999999999 filtered"),
    ] {
        let other = ok.replace(from, to);
        assert_ne!(other, ok);
        assert_eq!(Line::parse(&other), None, "{other}");
    }
    for (line, count) in [("running 1 test", Some(1)), ("running 0 tests", Some(0))] {
        assert_eq!(beginning(line), count);
    }
    for line in [
        "running",
        "running x tests",
        " running 1 test",
        "running 1 tests.",
    ] {
        assert_eq!(beginning(line), None, "{line}");
    }
}

#[test]
fn the_programs_of_a_run_are_added_up_and_what_was_ignored_is_told() {
    let all = [program(2, 0), program(3, 1), program(0, 0)].concat();
    let ok = ExecReceipt::exited(0).stdout(all);
    assert_eq!(judged(5, &ok), ("pass", "5".to_owned()));
    let why = "- 5 of 6 tests ran, 1 ignored; an ignored test is not a passed one";
    assert_eq!(judged(6, &ok), ("fail", why.to_owned()));
    for tests in [4, 7] {
        let why = format!("5 tests ran, and {tests} should have");
        assert_eq!(judged(tests, &ok), ("invalid", why));
    }
    let none = ExecReceipt::exited(0).stdout(program(0, 0));
    assert_eq!(judged(1, &none), ("invalid", "no test ran".to_owned()));
    let ignored = ExecReceipt::exited(0).stdout(program(0, 2));
    assert_eq!(judged(2, &ignored).0, "fail");
}

const FAILED: &str = "
running 7 tests
test high ... ok
test low ... FAILED
test slow ... ignored

failures:

---- low stdout ----

thread 'low' (11042) panicked at tests/clamp.rs:3:12:
assertion `left == right` failed: with

a message
  left: 0
 right: 1
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

---- no_panic stdout ----
note: test did not panic as expected at tests/clamp.rs:15:4
---- returned stdout ----
    noise
Error: ParseIntError { kind: InvalidDigit }

---- other stdout ----

thread 'other' (11045) panicked at tests/clamp.rs:18:12:
xyz
note: panic did not contain expected string
      panic message: \"xyz\"
 expected substring: \"abc\"

failures:
    low
    no_panic
    other
    returned
    silent

test result: FAILED. 1 passed; 5 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

";

const DOC_FAILED: &str = "
running 2 tests
test src/lib.rs - (line 1) ... FAILED
test src/lib.rs - clamp (line 2) ... FAILED

failures:

---- src/lib.rs - (line 1) stdout ----
error[E0308]: mismatched types
 --> src/lib.rs:2:14
  |
2 | let x: i32 = \"a\";
  |        ---   ^^^ expected `i32`, found `&str`
  |        |
  |        expected due to this

error: aborting due to 1 previous error

Couldn't compile the test.
---- src/lib.rs - clamp (line 2) stdout ----
Test executable failed (exit status: 101).

stderr:

thread 'main' (11092) panicked at /tmp/rustdoctest928OVr/doctest_bundle_2024.rs:6:1:
assertion failed: false
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace



failures:
    src/lib.rs - (line 1)
    src/lib.rs - clamp (line 2)

test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s

all doctests ran in 0.07s; merged doctests compilation took 0.04s
";

#[test]
fn a_failure_is_a_line_for_the_model() {
    let failed = |text: String| judged(3, &ExecReceipt::exited(101).stdout(text));
    let said = "- low: assertion `left == right` failed: with, a message, left: 0, right: 1 (tests/clamp.rs:3:12)\n\
        - no_panic: test did not panic as expected at tests/clamp.rs:15:4\n\
        - other: panic did not contain expected string, panic message: \"xyz\", expected substring: \"abc\"\n\
        - returned: noise, Error: ParseIntError { kind: InvalidDigit }\n\
        - and 1 more";
    let text = [&program(2, 0), FAILED].concat();
    assert_eq!(failed(text), ("fail", said.to_owned()));
    let said = "- src/lib.rs - (line 1): error[E0308]: mismatched types --> src/lib.rs:2:14: expected `i32`, found `&str`\n\
        - src/lib.rs - clamp (line 2): assertion failed: false";
    assert_eq!(failed(DOC_FAILED.to_owned()), ("fail", said.to_owned()));
    // Before Rust 1.73 the message stood between the two.
    let old = "running 1 test\n---- t stdout ----\nthread 't' panicked at 'no', src/lib.rs:1:2\n\
        note: run with `RUST_BACKTRACE=1`\n\nfailures:\n    t\n\ntest result: FAILED. 0 passed; 1 \
        failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    let said = "- t: 'no', src/lib.rs:1:2".to_owned();
    assert_eq!(failed(old.to_owned()), ("fail", said));
}

const NOT_COMPILED: &str = "   Compiling clamp v0.1.0 (/w/t)
error[E0425]: cannot find value `hi` in this scope
 --> src/lib.rs:2:19
  |
2 |     if x ^ y > high { hi } else { x }
  |                       ^^ not found in this scope

error[E0308]: mismatched types
 --> src/lib.rs:4:25
  |
4 | pub fn other() -> i32 { \"x\" }
  |                   ---   ^^^ expected `i32`, found `&str`
  |                   |
  |                   expected `i32` because of return type

For more information about this error, try `rustc --explain E0425`.
error: could not compile `clamp` (lib) due to 2 previous errors
warning: build failed, waiting for other jobs to finish...
";

#[test]
fn what_does_not_compile_fails_with_the_first_errors() {
    let failed = |stderr: &str| judged(3, &ExecReceipt::exited(101).stderr(stderr));
    let first = "error[E0425]: cannot find value `hi` in this scope --> src/lib.rs:2:19: not found in this scope";
    let second = "error[E0308]: mismatched types --> src/lib.rs:4:25: expected `i32`, found `&str`";
    let said = format!("- it does not compile:\n- {first}\n- {second}");
    assert_eq!(failed(NOT_COMPILED), ("fail", said.clone()));
    // The same once more for the tests in it.
    assert_eq!(failed(&NOT_COMPILED.repeat(2)), ("fail", said));
    let many: String = (0..6)
        .map(|n| format!("error: no {n}\n --> src/lib.rs:{n}:1\n\n"))
        .collect();
    let many = format!("{many}error: could not compile `a` (lib) due to 6 previous errors\n");
    let (word, said) = failed(&many);
    assert_eq!((word, said.lines().count()), ("fail", 6));
    assert!(
        said.ends_with("- error: no 3 --> src/lib.rs:3:1\n- and 2 more"),
        "{said}"
    );
    let short =
        "src/lib.rs:1:2: error: no\nerror: could not compile `a` (lib) due to 1 previous error\n";
    let (word, said) = failed(short);
    assert_eq!(word, "fail");
    assert!(
        said.starts_with("- it does not compile: src/lib.rs:1:2: error: no"),
        "{said}"
    );
}

#[test]
fn a_program_that_ends_early_fails_and_says_how() {
    let ended = |code: i32, how: &str| {
        let stderr = format!(
            "     Running tests/clamp.rs (/w/cache/clamp-1)\n\nthread 'deep' (1) has overflowed its \
             stack\nerror: test failed, to rerun pass `--test clamp`\n\nCaused by:\n  process didn't \
             exit successfully: `/w/cache/clamp-1` ({how})\n"
        );
        let receipt = ExecReceipt::exited(code).stderr(stderr);
        judged(3, &receipt.stdout("\nrunning 2 tests\ntest low ... ok\n"))
    };
    let said = "- the test program of `--test clamp` ended early: signal: 6, SIGABRT: process abort \
        signal; thread 'deep' (1) has overflowed its stack";
    let abort = ended(101, "signal: 6, SIGABRT: process abort signal");
    assert_eq!(abort, ("fail", said.to_owned()));
    assert_eq!(ended(3, "exit status: 3").0, "fail");
    assert_eq!(ended(101, "signal: 9, SIGKILL: kill").0, "invalid");
    let late = ExecReceipt::timed_out(LIMIT);
    assert_eq!(judged(3, &late).1, "- the tests did not end within 30 s");
}

#[test]
fn what_shows_nothing_says_why() {
    let stopped = |code, stderr: &str| judged(3, &ExecReceipt::exited(code).stderr(stderr));
    let ended = "the tests ended with exit code 101 and without a summary: ";
    let table = [
        (
            101,
            "error: cannot create the lock file /w/Cargo.lock because --locked was passed\nhelp: x\n",
            format!("{ended}error: cannot create the lock file /w/Cargo.lock because --locked was passed help: x"),
        ),
        (
            101,
            "    Updating index\nerror: no matching package named `a` found\n",
            format!("{ended}error: no matching package named `a` found"),
        ),
        (
            101,
            "error: linker `cc` not found\n  |\n\nerror: could not compile `a` (lib test) due to 1 previous error\n",
            format!("{ended}error: linker `cc` not found | error: could not compile `a` (lib test) due to 1 previous error"),
        ),
        // The compiler itself was killed.
        (
            101,
            "error: could not compile `a` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)\n",
            format!("{ended}error: could not compile `a` (lib) Caused by: process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)"),
        ),
        (
            127,
            "env: 'cargo': No such file or directory\n",
            "the test command could not be started: env: 'cargo': No such file or directory".to_owned(),
        ),
        (
            1,
            "error: rustup could not choose a version of cargo to run\n",
            "the tests ended with exit code 1 and without a summary: error: rustup could not choose a version of cargo to run".to_owned(),
        ),
        (0, "error: x\n", "the tests ended with exit code 0 and without a summary".to_owned()),
    ];
    for (code, stderr, why) in table {
        assert_eq!(stopped(code, stderr), ("invalid", why), "{stderr}");
    }
}

#[test]
fn reports_that_do_not_hold_together_are_no_pass() {
    let whole = program(2, 0);
    let line = whole
        .lines()
        .find(|line| line.starts_with("test result"))
        .unwrap();
    let table = [
        // A test that ends the process leaves a report without an end, whatever comes after it.
        (
            0,
            "\nrunning 2 tests\ntest low ... ok\n".to_owned() + &whole,
        ),
        (0, whole.clone() + "\nrunning 2 tests\ntest low ... ok\n"),
        // A summary that nothing has begun, one too many, or one of another number.
        (0, line.to_owned()),
        (0, format!("{whole}{line}\n")),
        (0, whole.replace("running 2", "running 3")),
        // A forged one beside the true one counts more than should run.
        (0, whole.repeat(2)),
        // Exit status and reports disagree.
        (0, FAILED.to_owned()),
        (1, whole.clone()),
        (101, whole.clone()),
    ];
    for (code, stdout) in table {
        let receipt = ExecReceipt::exited(code).stdout(stdout.clone());
        assert_eq!(judged(2, &receipt).0, "invalid", "{code} {stdout}");
    }
    let mut cut = ExecReceipt::exited(0).stdout(whole.clone());
    assert_eq!(judged(2, &cut).0, "pass");
    cut.stdout_truncated = true;
    let why = "the output was cut before the summary of the tests".to_owned();
    assert_eq!(judged(2, &cut), ("invalid", why));
    // What could be forged to look as if it failed, fails.
    let failed = ExecReceipt::exited(101).stdout(whole + FAILED);
    assert_eq!(judged(2, &failed).0, "fail");
}

/// Pieces of reports, whole and broken.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        (0..4_u32, 0..3_u32).prop_map(|(passed, ignored)| program(passed, ignored)),
        Just(FAILED.to_owned()),
        Just(DOC_FAILED.to_owned()),
        Just(NOT_COMPILED.to_owned()),
        "running [0-9]{1,11} tests?\n",
        "test result: (ok|FAILED)\\. [0-9]{1,11} passed; [0-9] failed; [0-9]{1,11} ignored; 0 \
            measured; 0 filtered out; finished in 0.0[0-9]s\n",
        "(failures:|---- a stdout ----|    a|note: |thread 'a' panicked at |error: |error\\[E1\\]: |  \\| \\^|error: could not compile `a` due to |error: test failed, to rerun pass |process didn't exit successfully: |` \\(signal: 6|\n)",
        "\\PC{0,12}\n",
    ];
    let whole = (0..4_u32, 0..3_u32).prop_map(|(passed, ignored)| program(passed, ignored));
    let whole = prop_oneof![3 => whole, 1 => "[a-z.]{0,9}\n"];
    let broken = proptest::collection::vec(piece, 0..8);
    let whole = proptest::collection::vec(whole, 1..5);
    prop_oneof![broken, whole].prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic_and_told_in_a_few_lines(stdout in text(), stderr in text(), code in prop_oneof![2 => Just(0), 1 => Just(101), 1 => Just(1)], other in proptest::option::of(0..5_u32)) {
        let receipt = ExecReceipt::exited(code).stdout(stdout.clone()).stderr(stderr);
        let ran = Report::parse(&receipt.stdout).total.map_or(1, |total| total.ran);
        let tests = other.unwrap_or(ran);
        let (word, said) = judged(tests, &receipt);
        prop_assert!(said.lines().count() <= MOST_FAILURES + 2, "{}", said);
        prop_assert!(said.lines().all(|line| line.len() <= 2 * MOST_SAID), "{}", said);
        if word == "pass" {
            // Only where the reports are whole, and say this number.
            let lines = || stdout.lines();
            let summaries: Vec<Line> = lines().filter_map(Line::parse).collect();
            let begun: Vec<u32> = lines().filter_map(beginning).collect();
            let all: Vec<u32> = summaries.iter().map(|line| line.all().unwrap()).collect();
            prop_assert_eq!(begun, all);
            prop_assert!(summaries.iter().all(|line| line.ok && line.failed == 0));
            let ran: u32 = summaries.iter().map(|line| line.ran().unwrap()).sum();
            prop_assert_eq!((code, ran), (0, tests));
        }
    }
}
