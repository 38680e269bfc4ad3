use super::*;
use crate::acceptance::StageRun;
use crate::manifest::{Manifest, Tree};
use crate::workspace::Capabilities;

fn judged(acceptance: &CommandAcceptance, receipt: ExecReceipt) -> (&'static str, String) {
    let plan = acceptance.plan(&acceptance.name).unwrap();
    let id = "t-1.1.1".parse().unwrap();
    let run = StageRun::new(id, Capabilities::default(), Manifest::default(), receipt);
    let verdict = acceptance.judge(&Evidence::new(&plan, &Tree::new(), &[run]));
    let text = match &verdict {
        Verdict::Pass { summary, .. } => summary.clone(),
        Verdict::Fail { feedback } => feedback.clone(),
        Verdict::Invalid { why } => why.clone(),
    };
    (verdict.word(), text)
}

#[test]
fn an_exit_code_passes_at_its_level_and_shows_what_was_written() {
    let lint = CommandAcceptance::new(["lint"]);
    assert_eq!(lint.plan("check").unwrap().level, Level::ExitCode);
    assert_eq!(lint.plan("other"), None);
    let passed = ("pass", "the command ended with exit code 0".to_owned());
    assert_eq!(judged(&lint, ExecReceipt::exited(0)), passed);
    let failed = ExecReceipt::exited(124)
        .stdout(*b"\x1b[2Jout")
        .stderr(*b"err\n");
    let said = "- the command ended with exit code 124 and wrote:\n\\u{1b}[2Jout\nerr";
    assert_eq!(judged(&lint, failed), ("fail", said.to_owned()));
    let late = ExecReceipt::timed_out(Duration::from_secs(30));
    let said = "- the tests did not end within 30 s".to_owned();
    assert_eq!(judged(&lint, late), ("fail", said));
    let missing = ExecReceipt::exited(127).stderr(*b"env: 'lint': No such file");
    assert_eq!(judged(&lint, missing).0, "invalid");
    assert_eq!(judged(&lint, ExecReceipt::default()).0, "invalid");
    let hidden = judged(&lint.hidden(), ExecReceipt::exited(1).stdout(*b"secret 42"));
    assert_eq!(hidden, ("fail", super::super::HIDDEN.to_owned()));
}

#[test]
fn pytest_passes_where_exit_code_and_counts_agree() {
    let tests = CommandAcceptance::pytest("test_a.py", "…", 3).unwrap();
    let plan = tests.plan("unit").unwrap();
    assert_eq!(
        (plan.level, plan.stages[0].tests),
        (Level::Counted, Some(3))
    );
    assert!(
        plan.stages[0]
            .spec
            .argv
            .contains(&"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1".to_owned())
    );
    let table = [
        (0, "...  [100%]\n3 passed in 0.05s\n", "pass"),
        (0, "3 passed, 1 warning in 0.05s\n", "pass"),
        (1, "1 failed, 2 passed in 0.05s\n", "fail"),
        (2, "1 error in 0.05s\n", "fail"),
        (0, "2 passed, 1 skipped in 0.05s\n", "fail"),
        (0, "3 passed, 1 deselected in 0.05s\n", "fail"),
        // Exit status and counts disagree, or are not those that should be.
        (0, "1 failed, 2 passed in 0.05s\n", "invalid"),
        (1, "3 passed in 0.05s\n", "invalid"),
        (3, "1 failed, 2 passed in 0.05s\n", "invalid"),
        (0, "2 passed in 0.05s\n", "invalid"),
        (0, "4 passed in 0.05s\n", "invalid"),
        (0, "2 passed, 1 xfailed in 0.05s\n", "invalid"),
        (0, "2 passed, 1 xpassed in 0.05s\n", "invalid"),
        (5, "no tests ran in 0.03s\n", "invalid"),
        (0, "", "invalid"),
        (0, "3 passed in 0.05s\n3 passed in 0.05s\n", "invalid"),
    ];
    for (code, stdout, word) in table {
        let receipt = ExecReceipt::exited(code).stdout(stdout);
        assert_eq!(judged(&tests, receipt).0, word, "{code} {stdout:?}");
    }
    let zero = CommandAcceptance::pytest("test_a.py", "…", 0);
    assert!(matches!(zero, Err(InvalidTests::NoTests(_))));
}

#[test]
fn tests_of_cargo_are_built_beside_the_copy_and_counted() {
    let tests = CommandAcceptance::cargo_test("tests/a-b_1.rs", "…", 2).unwrap();
    let plan = tests.plan("unit").unwrap();
    let stage = &plan.stages[0];
    assert_eq!((plan.level, stage.tests), (Level::Counted, Some(2)));
    let argv = stage.spec.argv[4..].join(" ");
    assert_eq!(
        argv,
        "CARGO_TARGET_DIR=../cache CARGO_TERM_COLOR=never cargo test --offline --test a-b_1"
    );
    let names = "${CARGO_HOME+CARGO_HOME=\"$CARGO_HOME\"} ${PATH+PATH=\"$PATH\"} \
                 ${RUSTUP_HOME+RUSTUP_HOME=\"$RUSTUP_HOME\"}";
    assert!(stage.spec.argv[2].contains(names), "{:?}", stage.spec.argv);
    let lock = RelPath::parse("Cargo.lock").unwrap();
    assert_eq!(stage.may_change, [lock]);
    let report = "running 3 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; \
                  0 filtered out; finished in 0.00s\n";
    let passed = judged(&tests, ExecReceipt::exited(0).stdout(report));
    assert_eq!(passed, ("pass", "2 tests passed".to_owned()));
    let stderr = "error: no\nerror: could not compile `a` (lib) due to 1 previous error\n";
    let broken = ExecReceipt::exited(101).stderr(stderr);
    let said = "- it does not compile:\n- error: no".to_owned();
    assert_eq!(judged(&tests, broken.clone()), ("fail", said));
    let hidden = judged(&tests.hidden(), broken);
    assert_eq!(hidden, ("fail", super::super::HIDDEN.to_owned()));
    for path in [
        "tests/a.py",
        "tests/.rs",
        "tests/-a.rs",
        "tests/a/b.rs",
        "a.rs",
        "tests/ä.rs",
    ] {
        let error = CommandAcceptance::cargo_test(path, "", 1).unwrap_err();
        assert!(
            matches!(&error, InvalidTests::CargoName(_)),
            "{path}: {error}"
        );
    }
    let zero = CommandAcceptance::cargo_test("tests/a.rs", "", 0);
    assert!(matches!(zero, Err(InvalidTests::NoTests(_))));
}

#[test]
fn every_setting_is_in_the_plan() {
    let plain = || CommandAcceptance::new(["a"]);
    let changed = [
        plain().counted_by(Counter::Unittest, 1),
        plain().fixture("t.py", "x").unwrap(),
        plain().variable("A", "b"),
        plain().inherit(["A"]).unwrap(),
        plain().inherit(["A", "PATH"]).unwrap(),
        plain().dir("sub").unwrap(),
        plain().may_change("out").unwrap(),
        plain().search_path("/x"),
        plain().limit(Duration::from_secs(1)),
        plain().fresh(),
    ];
    let digest = |one: &CommandAcceptance| one.plan("check").unwrap().digest();
    let mut seen = BTreeSet::from([digest(&plain())]);
    for one in &changed {
        assert!(seen.insert(digest(one)), "{one:?}");
    }
    assert_ne!(plain().hidden().revision(), plain().revision());
}

#[test]
fn what_is_inherited_is_known_by_its_names_alone() {
    let argv = |acceptance: CommandAcceptance| {
        let plan = acceptance.plan("check").unwrap();
        plan.stages[0].spec.argv.join(" ")
    };
    let plain = || CommandAcceptance::new(["t", "$(id)"]).variable("B", "`id`");
    assert_eq!(
        argv(plain().search_path("/x")),
        "env -i PATH=/x LANG=C.UTF-8 HOME=../home B=`id` t $(id)"
    );
    let inherits = plain().search_path("/x").inherit(["C", "A"]).unwrap();
    assert_eq!(
        argv(inherits.clone()),
        "sh -c exec env -i LANG=C.UTF-8 HOME=../home ${A+A=\"$A\"} ${C+C=\"$C\"} \"$@\" \
         sh PATH=/x B=`id` t $(id)"
    );
    // A portable check: where programs are is not in it.
    let [one, other] = ["/x", "/y"].map(|path| {
        let acceptance = plain().search_path(path).inherit(["PATH"]).unwrap();
        acceptance.plan("check").unwrap().digest()
    });
    assert_eq!(one, other);
    let described = serde_json::to_value(&inherits).unwrap();
    assert_eq!(described["inherit"], serde_json::json!(["A", "C"]));
    assert_eq!(serde_json::to_value(plain()).unwrap().get("inherit"), None);
}
