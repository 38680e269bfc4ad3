use std::fs;

use super::{Places, candidate, evaluation, load, suite_of};
use crate::evaluation::{Decision, NewCase};
use crate::evidence::RunDir;
use crate::test_kit::{CHECK, TESTS, WRONG, acceptance, fix, model, paths, pretending, read};
use crate::{Attempt, Budget, Task};

/// A folder with the evidence of an attempt that was not accepted.
async fn failed(text: &str, source: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let task = Task::new("amounts", text)
        .file("amounts.py", source)
        .unwrap();
    let task = task.file("test_amounts.py", TESTS).unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    Attempt::new(
        task,
        model([read("amounts.py"), CHECK.to_owned()]),
        pretending(),
        acceptance(),
        paths(),
    )
    .allow_checks(true)
    .budget(Budget::default().turns(2))
    .record_in(run)
    .drive()
    .await
    .unwrap();
    folder
}

#[tokio::test]
async fn a_failure_becomes_a_case_that_candidates_run() {
    let folder = suite_of(1);
    let before = load(&folder);
    let run = failed("total(xs) must return the sum of xs.", WRONG).await;
    let suite = NewCase::of(run.path(), "the sum of all numbers")
        .unwrap()
        .add_to(folder.path(), "sums-of-numbers")
        .unwrap();
    assert_ne!(suite.digest(), before.digest());
    let text = fs::read_to_string(folder.path().join("suite.json")).unwrap();
    assert!(text.contains("\"revision\": 2"), "{text}");
    let case = suite.case("sums-of-numbers").unwrap();
    assert_eq!(case.expected(), "the sum of all numbers");
    assert_eq!(case.text(), "total(xs) must return the sum of xs.");
    let names: Vec<_> = case.files().iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["amounts.py"]);
    let task = fs::read_to_string(folder.path().join("cases/sums-of-numbers/task.json")).unwrap();
    assert!(
        task.contains("\"end\": \"exhausted: all turns are used\""),
        "{task}"
    );
    assert!(task.contains("\"changed\": {}"), "{task}");

    let out = tempfile::tempdir().unwrap();
    let base = crate::evaluation::Candidate::new("base", |case| {
        std::sync::Arc::new(match case.id() {
            "sums-of-numbers" => model([
                read("amounts.py"),
                fix(),
                CHECK.to_owned(),
                crate::test_kit::FINISH.to_owned(),
            ]),
            _ => super::wrong(),
        })
    });
    let report = evaluation(&folder, &out, &Places::default())
        .candidate(
            base.unwrap()
                .configure(|attempt| attempt.budget(Budget::default().turns(4))),
        )
        .run()
        .await
        .unwrap();
    let base = report.candidate("base").unwrap();
    assert_eq!(
        base.case("sums-of-numbers").unwrap().decision,
        Decision::Pass
    );
    assert_eq!(base.case("c00").unwrap().decision, Decision::Fail);
}

#[tokio::test]
async fn a_case_does_not_tell_what_the_attempt_knew() {
    let source =
        "# from /home/ada/work\nAPI_KEY = \"k-TEST-123456\"\ndef total(xs):\n    return 0\n";
    let run = failed(
        "As on /Users/grace: total(xs), with token=k-TEST-123456",
        source,
    )
    .await;
    let folder = suite_of(1);
    let new = NewCase::of(run.path(), "the sum").unwrap();
    assert_eq!(new.changed().len(), 2, "{:?}", new.changed());
    new.add_to(folder.path(), "clean").unwrap();
    let case = folder.path().join("cases/clean");
    for file in ["task.json", "files/amounts.py", "tests/test_amounts.py"] {
        let text = fs::read_to_string(case.join(file)).unwrap();
        for never in ["k-TEST-123456", "/ada", "/grace"] {
            assert!(!text.contains(never), "{file}: {text}");
        }
    }
    let source = fs::read_to_string(case.join("files/amounts.py")).unwrap();
    assert!(
        source.starts_with("# from /home/user/work\nAPI_KEY = \"<redacted>\"\n"),
        "{source}"
    );
}

#[tokio::test]
async fn what_can_be_no_case_is_refused_and_the_suite_stays_as_it_is() {
    let folder = suite_of(1);
    let before = load(&folder);
    let out = tempfile::tempdir().unwrap();
    evaluation(&folder, &out, &Places::default())
        .candidate(candidate("base", &[]))
        .run()
        .await
        .unwrap();
    let error = NewCase::of(out.path().join("base/c00/1"), "x")
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("the attempt was accepted"), "{error}");
    let error = NewCase::of(out.path(), "x").unwrap_err().to_string();
    assert!(error.ends_with("nothing is recorded"), "{error}");
    let run = failed("total", WRONG).await;
    let new = || NewCase::of(run.path(), "the sum").unwrap();
    let error = new().add_to(folder.path(), "c00").unwrap_err().to_string();
    assert!(error.ends_with("there is a case c00 already"), "{error}");
    new().add_to(folder.path(), "../out").unwrap_err();
    let hidden = new().hidden("no module.py", "x", 1).unwrap();
    hidden.add_to(folder.path(), "h").unwrap_err();
    assert_eq!(load(&folder), before);
    let hidden = new().hidden("test_more.py", TESTS, 2).unwrap();
    let suite = hidden.add_to(folder.path(), "h").unwrap();
    assert!(suite.case("h").unwrap().has_hidden_tests());
}
