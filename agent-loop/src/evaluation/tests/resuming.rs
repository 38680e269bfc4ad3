use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Places, candidate, evaluation, suite_of, write_case};
use crate::budget::Budget;
use crate::evaluation::{Again, Decision, EvaluationError, Progress, SuiteReport};

/// Runs, and tells what was kept and why others were tried again.
async fn run(
    evaluation: crate::evaluation::Evaluation,
) -> (SuiteReport, usize, Vec<(String, u32, String)>) {
    let told = Arc::new(Mutex::new((0, Vec::new())));
    let tell = Arc::clone(&told);
    let evaluation = evaluation.on_progress(move |progress| {
        let mut told = tell.lock().unwrap();
        match progress {
            Progress::Planned { kept, .. } => told.0 = kept.len(),
            Progress::Began {
                case,
                attempt,
                instead_of: Some(earlier),
                ..
            } => told
                .1
                .push(((*case).to_owned(), *attempt, earlier.why.clone())),
            _ => {}
        }
    });
    let report = evaluation.run().await.unwrap();
    let (kept, anew) = std::mem::take(&mut *told.lock().unwrap());
    (report, kept, anew)
}

fn swap(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

#[tokio::test]
async fn evidence_in_the_wrong_folder_is_refused_and_made_anew() {
    let (suite, out) = (suite_of(4), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[1]));
    let (first, ..) = run(new()).await;
    let folder = |case: &str| out.path().join("base").join(case).join("1");
    // Two whole runs change places, and two others only their patches.
    swap(&folder("c00"), &folder("c01"));
    swap(
        &folder("c02").join("patch.diff"),
        &folder("c00").join("patch.diff"),
    );

    let collected = new().collect().unwrap();
    let base = collected.candidate("base").unwrap();
    assert_eq!((base.counts.pass, base.counts.not_evaluated), (1, 3));
    let said = |case: &str| base.case(case).unwrap().observed.clone();
    assert_eq!(
        said("c01"),
        "not run again: its evidence is refused: it is of try 1 of base:c00, \
         and the folder is of try 1 of base:c01"
    );
    for case in ["c00", "c02"] {
        let said = said(case);
        assert!(
            said.starts_with("not run again: its evidence is refused: patch.diff does not belong"),
            "{said}"
        );
    }

    let (second, kept, anew) = run(new()).await;
    assert_eq!(kept, 1);
    let tried: Vec<_> = anew
        .iter()
        .map(|(case, attempt, _)| (&**case, *attempt))
        .collect();
    assert_eq!(tried, [("c00", 2), ("c01", 2), ("c02", 2)]);
    let decisions = |report: &SuiteReport| -> Vec<Decision> {
        let cases = &report.candidate("base").unwrap().cases;
        cases.iter().map(|case| case.decision).collect()
    };
    assert_eq!(decisions(&second), decisions(&first));
    assert_eq!(
        second
            .candidate("base")
            .unwrap()
            .case("c00")
            .unwrap()
            .earlier
            .len(),
        1
    );
}

#[tokio::test]
async fn a_case_that_broke_off_is_run_anew_and_what_it_cost_is_counted() {
    let (suite, out) = (suite_of(2), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[]));
    run(new()).await;
    let half = out.path().join("base/c00/1");
    fs::remove_file(half.join("outcome.json")).unwrap();
    let journal = fs::read_to_string(half.join("actions.jsonl")).unwrap();
    let records: Vec<&str> = journal.split_inclusive('\n').collect();
    let second_reply = records
        .iter()
        .rposition(|line| line.contains("\"kind\":\"asked\""))
        .unwrap();
    fs::write(
        half.join("actions.jsonl"),
        records[..=second_reply].concat(),
    )
    .unwrap();
    let (report, kept, anew) = run(new()).await;
    assert_eq!(kept, 1);
    let [(case, 2, why)] = &anew[..] else {
        panic!("{anew:?}")
    };
    assert_eq!(case, "c00");
    assert!(
        why.starts_with("it was broken off: the attempt has no end:"),
        "{why}"
    );
    let base = report.candidate("base").unwrap();
    let earlier = &base.case("c00").unwrap().earlier[0];
    // Four questions, of which the last has no reply.
    assert_eq!(
        (earlier.attempt, earlier.calls, earlier.cost.unknown_calls),
        (1, 4, 4)
    );
    assert_eq!(base.cost.unknown_calls, 4 + 4 + 4);
    assert_eq!(base.counts.pass, 2);
}

#[tokio::test]
async fn evidence_of_other_settings_is_not_this_candidates() {
    let (suite, out) = (suite_of(2), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places);
    run(new().candidate(candidate("base", &[]))).await;
    let wider = candidate("base", &[]).configure(|attempt| attempt.budget(Budget::default()));
    let (_, kept, anew) = run(new().candidate(wider)).await;
    assert_eq!(kept, 0);
    assert_eq!(
        anew[0].2,
        "it was made otherwise: the budget is not the same"
    );
    let other = candidate("base", &[]).configure(|attempt| {
        attempt
            .budget(Budget::default())
            .system_prompt("Answer in JSON.")
    });
    let (report, _, anew) = run(new().candidate(other)).await;
    assert_eq!(anew[0].1, 3);
    assert_eq!(
        anew[0].2,
        "it was made otherwise: the prompt is not the same"
    );
    let earlier = &report
        .candidate("base")
        .unwrap()
        .case("c00")
        .unwrap()
        .earlier;
    assert_eq!(earlier.len(), 2);
}

#[tokio::test]
async fn what_was_not_evaluated_is_run_again_only_on_request() {
    let (suite, out) = (suite_of(3), tempfile::tempdir().unwrap());
    let mut places = Places::default();
    places.gone.insert("base:c00-1");
    places.missing.insert("base:c01-1");
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[2]));
    let (report, ..) = run(new()).await;
    let base = report.candidate("base").unwrap();
    assert_eq!((base.counts.fail, base.counts.not_evaluated), (1, 2));
    assert_eq!(
        base.case("c01").unwrap().observed,
        "there was no place to work in: storage error"
    );
    // What the operator needs is in the file, and nowhere else.
    let path = out.path().join("base/c01/1/case.json");
    let written = fs::read_to_string(path).unwrap();
    assert!(written.contains("\"detail\": \"no quota\""), "{written}");
    assert!(!format!("{report:?}").contains("quota"));
    // A case that never began has shown nothing, so it is not finished.
    let (_, kept, anew) = run(new()).await;
    assert_eq!((kept, anew.len()), (2, 1));
    assert_eq!(anew[0], ("c01".to_owned(), 2, "it never began".to_owned()));
    let (report, kept, anew) = run(new().again(Again::NotEvaluated)).await;
    assert_eq!((kept, anew.len()), (2, 1));
    assert!(
        anew[0]
            .2
            .starts_with("it was not evaluated: the workspace failed"),
        "{anew:?}"
    );
    let counts = report.candidate("base").unwrap().counts;
    // The one that failed stays failed: nobody tries until it passes.
    assert_eq!((counts.pass, counts.fail), (2, 1));
}

#[tokio::test]
async fn what_is_cancelled_is_run_the_next_time() {
    let (suite, out) = (suite_of(3), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[]));
    let report = new().cancel_on(std::future::ready(())).run().await.unwrap();
    let base = report.candidate("base").unwrap();
    assert_eq!(base.counts.not_evaluated, 3);
    assert_eq!(base.case("c00").unwrap().observed, "not run");
    assert_eq!((places.made(), report.exit_code()), (0, 3));
    let (report, kept, _) = run(new()).await;
    assert_eq!(
        (kept, report.candidate("base").unwrap().counts.pass),
        (0, 3)
    );
}

#[tokio::test]
async fn another_suite_does_not_go_on_in_the_same_folder() {
    let (suite, out) = (suite_of(2), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[]));
    let held = new();
    run(new()).await;
    write_case(suite.path(), "c99");
    let error = new().run().await.unwrap_err();
    assert!(
        matches!(error, EvaluationError::OtherSuite { .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("the folder holds an evaluation of sums 1 ("),
        "{text}"
    );
    // The suite as it was goes on.
    assert_eq!(run(held).await.1, 2);
}

#[tokio::test]
async fn two_do_not_work_in_one_folder() {
    let (suite, out) = (suite_of(1), tempfile::tempdir().unwrap());
    let places = Places::default();
    let lock = fs::File::create(out.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[]));
    let error = new().run().await.unwrap_err();
    assert!(matches!(error, EvaluationError::Busy { .. }), "{error}");
    drop(lock);
    assert_eq!(run(new()).await.0.exit_code(), 0);
}

#[tokio::test]
async fn a_case_report_that_was_edited_is_made_again() {
    let (suite, out) = (suite_of(1), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || evaluation(&suite, &out, &places).candidate(candidate("base", &[0]));
    run(new()).await;
    let path = out.path().join("base/c00/1/case.json");
    let honest = fs::read_to_string(&path).unwrap();
    assert!(honest.contains("\"decision\": \"fail\""), "{honest}");
    fs::write(&path, honest.replace("\"fail\"", "\"pass\"")).unwrap();
    let (report, kept, _) = run(new()).await;
    assert_eq!(
        (kept, report.candidate("base").unwrap().counts.fail),
        (1, 1)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), honest);
}
