//! When a candidate makes its models, and which of them are asked.

use std::fs;
use std::sync::{Arc, Mutex};

use super::{Places, candidate, entries, evaluation, number, right, suite_of, wrong};
use crate::budget::Budget;
use crate::evaluation::{Candidate, Decision, SuiteReport};
use crate::model::{Model, Recording, Replay};

/// The second case fails.
fn script(case: &str) -> Arc<dyn Model> {
    Arc::new(match number(case) {
        1 => wrong(),
        _ => right(),
    })
}

fn of_four_turns(candidate: Candidate) -> Candidate {
    candidate.configure(|attempt| attempt.budget(Budget::default().turns(4)))
}

fn decisions(report: &SuiteReport) -> Vec<Decision> {
    let cases = report.candidates[0].cases.iter();
    cases.map(|case| case.decision).collect()
}

#[tokio::test]
async fn a_suite_is_recorded_and_played_again() {
    let (suite, calls) = (suite_of(2), tempfile::tempdir().unwrap());
    let file = |case: &str| calls.path().join(case);
    let folder = calls.path().to_owned();
    // A cassette is made where there is nothing, and only once.
    let recorded = Candidate::new("recorded", move |case| {
        let recording = Recording::create(script(case.id()), folder.join(case.id()));
        Arc::new(recording.unwrap())
    });
    let folder = calls.path().to_owned();
    let replayed = Candidate::new("replayed", move |case| {
        Arc::new(Replay::open(folder.join(case.id())).unwrap())
    });
    let mut reports = Vec::new();
    for candidate in [recorded, replayed] {
        let out = tempfile::tempdir().unwrap();
        let new = evaluation(&suite, &out, &Places::default());
        let run = new.candidate(of_four_turns(candidate.unwrap())).run();
        reports.push(run.await.unwrap());
    }
    assert_eq!(decisions(&reports[0]), [Decision::Pass, Decision::Fail]);
    assert_eq!(decisions(&reports[1]), decisions(&reports[0]));
    for case in ["c00", "c01"] {
        // The label, and four calls.
        let lines = fs::read_to_string(file(case)).unwrap().lines().count();
        assert_eq!(lines, 1 + 4, "{case}");
        let [one, other] = [&reports[0], &reports[1]].map(|report| {
            let case = report.candidates[0].case(case).unwrap();
            (case.tree, case.turns, case.calls, case.usage)
        });
        assert_eq!(one, other, "{case}");
    }
}

#[tokio::test]
async fn a_model_is_made_once_a_case_and_put_into_something_for_a_try_only() {
    let (suite, out) = (suite_of(2), tempfile::tempdir().unwrap());
    let calls = tempfile::tempdir().unwrap();
    let made = Arc::new(Mutex::new(Vec::new()));
    let new = || {
        let (made, folder) = (Arc::clone(&made), calls.path().to_owned());
        let candidate = Candidate::new("base", move |case| {
            made.lock().unwrap().push(case.id().to_owned());
            script(case.id())
        });
        let candidate = candidate
            .unwrap()
            .around_each_try(move |model, case, number| {
                let file = folder.join(format!("{}-{number}", case.id()));
                Arc::new(Recording::create(model, file).unwrap())
            });
        evaluation(&suite, &out, &Places::default()).candidate(of_four_turns(candidate))
    };
    let taken = || std::mem::take(&mut *made.lock().unwrap());
    let report = new().run().await.unwrap();
    assert_eq!(taken(), ["c00", "c01"]);
    assert_eq!(entries(calls.path()), ["c00-1", "c01-1"]);

    // What is kept, or only looked at, is compared and not asked.
    assert_eq!(new().collect().unwrap().candidates, report.candidates);
    assert_eq!(taken(), ["c00", "c01"]);
    assert_eq!(new().run().await.unwrap(), report);
    assert_eq!(taken(), ["c00", "c01"]);

    // Neither is one that only has to be written to its end.
    let outcome = |case: &str| out.path().join("base").join(case).join("1/outcome.json");
    fs::remove_file(outcome("c00")).unwrap();
    assert_eq!(new().run().await.unwrap(), report);
    assert_eq!(taken(), ["c00", "c01"]);
    assert_eq!(entries(calls.path()), ["c00-1", "c01-1"]);

    // Of a case that is made anew it is the next try.
    fs::write(outcome("c01"), "{}").unwrap();
    let report = new().run().await.unwrap();
    assert_eq!(report.candidates[0].case("c01").unwrap().attempt, 2);
    assert_eq!(taken(), ["c00", "c01"]);
    assert_eq!(entries(calls.path()), ["c00-1", "c01-1", "c01-2"]);
    let other = candidate("base", &[1]);
    let kept = evaluation(&suite, &out, &Places::default()).candidate(other);
    assert_eq!(kept.run().await.unwrap(), report);
}
