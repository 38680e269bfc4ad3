//! Programs that are ended after a try is decided, and before all of it is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::sync::oneshot;

use super::{Places, candidate, evaluation, suite_of};
use crate::evaluation::{Candidate, CaseReport, Decision, Progress, SuiteReport};
use crate::model::{Model, model_fn};
use crate::test_kit::{CHECK, reply};

/// An evaluation of one case with a candidate that is not resumable, as a whole.
struct Whole {
    suite: TempDir,
    out: TempDir,
    places: Places,
}

impl Whole {
    /// One that has failed.
    async fn failed() -> Self {
        let whole = Self {
            suite: suite_of(1),
            out: tempfile::tempdir().unwrap(),
            places: Places::default(),
        };
        let report = whole.run(&[0]).await;
        assert_eq!(report.candidates[0].counts.fail, 1);
        whole
    }

    async fn run(&self, fails: &'static [usize]) -> SuiteReport {
        let new = evaluation(&self.suite, &self.out, &self.places);
        let run = new.candidate(candidate("base", fails)).run();
        run.await.unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.out.path().join("base/c00/1")
    }
}

/// Takes away what is written after the records.
fn without_files(folder: &Path) {
    for name in ["outcome.json", "patch.diff", "case.json", "report.html"] {
        let path = folder.join(name);
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
}

fn only(report: &SuiteReport) -> &CaseReport {
    &report.candidates[0].cases[0]
}

#[tokio::test]
async fn what_has_failed_gets_no_second_chance_by_the_end_of_its_program() {
    let whole = Whole::failed().await;
    let folder = whole.folder();
    let journal = folder.join("actions.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let records: Vec<&str> = text.split_inclusive('\n').collect();
    let files = ["outcome.json", "patch.diff"].map(|name| fs::read(folder.join(name)).unwrap());
    let mut completed = Vec::new();
    for kept in 1..=records.len() {
        let second = whole.out.path().join("base/c00/2");
        if second.exists() {
            fs::remove_dir_all(second).unwrap();
        }
        without_files(&folder);
        fs::write(&journal, records[..kept].concat()).unwrap();
        // From now on it would pass.
        let report = whole.run(&[]).await;
        let case = only(&report);
        match case.attempt {
            1 => {
                assert_eq!(case.decision, Decision::Fail, "{kept}");
                assert_eq!((case.calls, case.earlier.len()), (4, 0), "{kept}");
                completed.push(kept);
            }
            _ => assert_eq!((case.attempt, case.decision), (2, Decision::Pass), "{kept}"),
        }
        if kept == records.len() {
            let written = ["outcome.json", "patch.diff"];
            let written = written.map(|name| fs::read(folder.join(name)).unwrap());
            assert_eq!(written, files);
            assert!(folder.join("report.html").is_file());
        }
        // What was completed is kept like everything else.
        assert_eq!(whole.run(&[]).await, report, "{kept}");
    }
    // From the receipt of the last action on: no turn is left after it.
    let last = records
        .iter()
        .rposition(|line| line.contains("\"kind\":\"receipt\""));
    let decided: Vec<_> = (last.unwrap() + 1..=records.len()).collect();
    assert!(decided.len() > 2, "{decided:?}");
    assert_eq!(completed, decided);
}

#[tokio::test]
async fn what_is_completed_is_kept_and_no_place_is_made_for_it() {
    let whole = Whole::failed().await;
    without_files(&whole.folder());
    let collected = evaluation(&whole.suite, &whole.out, &whole.places)
        .candidate(candidate("base", &[]))
        .collect()
        .unwrap();
    assert_eq!(
        only(&collected).observed,
        "not run again: it was broken off: the attempt is over, and outcome.json is missing"
    );
    let new = evaluation(&whole.suite, &whole.out, &whole.places)
        .candidate(candidate("base", &[]))
        .on_progress(|progress| match progress {
            Progress::Planned { kept, left } => assert_eq!((kept.len(), *left), (1, 0)),
            other => panic!("{other:?}"),
        });
    assert_eq!(only(&new.run().await.unwrap()).decision, Decision::Fail);
    assert_eq!(whole.places.made(), 1);
}

#[tokio::test]
async fn what_was_cancelled_is_completed_and_then_run() {
    let (suite, out) = (suite_of(1), tempfile::tempdir().unwrap());
    let (cancel, cancelled) = oneshot::channel::<()>();
    // Asked for the first time, the model has everything cancelled.
    let cancel = Arc::new(Mutex::new(Some(cancel)));
    let checks = || {
        let cancel = Arc::clone(&cancel);
        let model: Arc<dyn Model> = Arc::new(model_fn("checks", move |_| {
            drop(cancel.lock().unwrap().take());
            reply(CHECK)
        }));
        Candidate::new("base", move |_| Arc::clone(&model)).unwrap()
    };
    let new = || evaluation(&suite, &out, &Places::default()).candidate(checks());
    let cancelled = async {
        cancelled.await.unwrap_err();
    };
    let report = new().cancel_on(cancelled).run().await.unwrap();
    assert_eq!(only(&report).observed, "cancelled");
    without_files(&out.path().join("base/c00/1"));
    let report = new().run().await.unwrap();
    let case = only(&report);
    assert_eq!((case.attempt, case.decision), (2, Decision::Fail));
    assert_eq!(case.earlier[0].why, "it was cancelled");
}
