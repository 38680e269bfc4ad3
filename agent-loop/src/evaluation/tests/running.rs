use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Places, candidate, evaluation, load, number, right, suite_of};
use crate::budget::{Budget, Micros};
use crate::evaluation::{Candidate, Decision, Evaluation, EvaluationError, Metric, Requirement};
use crate::model::{ModelReply, ScriptedModel, model_fn};
use crate::test_kit::{CHECK, FINISH, fix, read};

#[tokio::test]
async fn trouble_of_others_is_no_failure_of_the_candidate() {
    let (suite, out) = (suite_of(10), tempfile::tempdir().unwrap());
    let mut places = Places::default();
    places.gone.extend(["new:c08-1", "new:c09-1"]);
    let report = evaluation(&suite, &out, &places)
        .candidate(candidate("base", &[0]))
        .candidate(candidate("new", &[0, 1]))
        .coverage_bound(0.8)
        .run()
        .await
        .unwrap();
    let new = report.candidate("new").unwrap();
    let counts = &new.counts;
    assert_eq!((counts.pass, counts.fail), (6, 2));
    assert_eq!((counts.invalid, counts.not_evaluated), (0, 2));
    assert!(
        report
            .to_string()
            .contains("new: passed 6/8 (coverage 8/10), 95 %: 41 to 93 %;"),
        "{report}"
    );
    let gone = new.case("c08").unwrap();
    assert_eq!(gone.decision, Decision::NotEvaluated);
    assert!(
        gone.observed.starts_with("the workspace failed"),
        "{}",
        gone.observed
    );

    // Eight of ten are enough here, and only the eight make pairs.
    assert_eq!(report.exit_code(), 0);
    let comparison = report.comparisons().remove(0).unwrap();
    assert_eq!(comparison.pairs(), 8);
    assert_eq!((comparison.both, comparison.neither), (6, 1));
    assert_eq!(comparison.only_baseline, ["c01"]);
    let unpaired: Vec<_> = comparison.not_paired.iter().map(|one| &*one.case).collect();
    assert_eq!(unpaired, ["c08", "c09"]);

    let collected = evaluation(&suite, &out, &places)
        .candidate(candidate("base", &[0]))
        .candidate(candidate("new", &[0, 1]))
        .collect()
        .unwrap();
    assert_eq!(collected.candidates, report.candidates);
    // By default nine of ten have to be evaluated.
    assert_eq!(collected.exit_code(), 3);
    let refused = collected.comparisons().remove(0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "new: only 8/10 cases were evaluated, and 0.9 of them have to be"
    );
}

#[tokio::test]
async fn so_many_run_at_once_and_every_place_is_ended() {
    let (suite, out) = (suite_of(12), tempfile::tempdir().unwrap());
    let places = Places::default();
    let report = evaluation(&suite, &out, &places)
        .candidate(candidate("base", &[]))
        .parallel(3)
        .run()
        .await
        .unwrap();
    assert_eq!(report.candidate("base").unwrap().counts.pass, 12);
    assert_eq!(places.most.load(Ordering::SeqCst), 3);
    assert_eq!(
        (places.made(), places.in_use.load(Ordering::SeqCst)),
        (12, 0)
    );
}

#[tokio::test]
async fn a_panic_ends_one_case_and_its_place() {
    let (suite, out) = (suite_of(3), tempfile::tempdir().unwrap());
    let places = Places::default();
    let report = evaluation(&suite, &out, &places)
        .candidate(
            Candidate::new("base", |case| match number(case.id()) {
                1 => Arc::new(model_fn("panics", |_| panic!("a mistake of ours"))),
                _ => Arc::new(right()),
            })
            .unwrap(),
        )
        .coverage_bound(0.5)
        .run()
        .await
        .unwrap();
    let base = report.candidate("base").unwrap();
    assert_eq!((base.counts.pass, base.counts.not_evaluated), (2, 1));
    assert_eq!(
        base.case("c01").unwrap().observed,
        "the attempt ended by a panic"
    );
    assert_eq!(places.stopped.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_cost_that_is_not_known_is_not_nothing() {
    let (suite, out) = (suite_of(4), tempfile::tempdir().unwrap());
    let priced = |text: String| Ok(ModelReply::new(text).cost(Micros::new(30)));
    let replies = || {
        [
            read("amounts.py"),
            fix(),
            CHECK.to_owned(),
            FINISH.to_owned(),
        ]
    };
    let report = evaluation(&suite, &out, &Places::default())
        .candidate(
            Candidate::new("priced", move |_| {
                Arc::new(ScriptedModel::of(replies().map(priced)))
            })
            .unwrap(),
        )
        .candidate(candidate("free", &[]))
        .candidate(candidate("none", &[0, 1, 2, 3]))
        .require(Requirement::new(Metric::CostPerAccepted, 200.0))
        .run()
        .await
        .unwrap();
    let cost = |name| &report.candidate(name).unwrap().cost;
    assert_eq!(cost("priced").known_micros, Micros::new(480));
    assert_eq!(cost("priced").per_accepted(), "0.000120");
    assert_eq!(
        cost("free").per_accepted(),
        "unknown: so is the cost of 16 calls"
    );
    assert_eq!(cost("none").per_accepted_micros, None);
    // What is unknown meets no requirement, and comes before what is known.
    let (unmet, worst_first) = report.first_unmet().unwrap();
    assert_eq!(unmet.to_string(), "cost_per_accepted_micros at most 200");
    let names: Vec<_> = worst_first.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["free", "none", "priced"]);
    assert_eq!(report.exit_code(), 1);
}

#[tokio::test]
async fn the_worst_by_what_is_not_met_comes_first() {
    let (suite, out) = (suite_of(4), tempfile::tempdir().unwrap());
    let report = evaluation(&suite, &out, &Places::default())
        .candidate(candidate("good", &[3]))
        .candidate(candidate("bad", &[1, 2]))
        .require(Requirement::new(Metric::Coverage, 1.0))
        .require(Requirement::new(Metric::PassRate, 0.75))
        .run()
        .await
        .unwrap();
    let (unmet, worst_first) = report.first_unmet().unwrap();
    assert_eq!((unmet.metric, unmet.limit), (Metric::PassRate, 0.75));
    assert_eq!(worst_first[0].name, "bad");
    let cases: Vec<_> = worst_first[0]
        .cases_by(Metric::PassRate)
        .iter()
        .map(|case| &*case.case)
        .collect();
    assert_eq!(cases, ["c01", "c02", "c00", "c03"]);
    let page = std::fs::read_to_string(out.path().join("report.html")).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(at("bad/c01/1/report.html") < at("bad/c00/1/report.html"));
    assert!(at("bad/c00/1/report.html") < at("good/c03/1/report.html"));
    assert!(
        page.contains("<span class=\"badge bad\">bad 50.0 %</span>"),
        "{page}"
    );
    assert!(out.path().join("bad/c01/1/report.html").is_file());
}

#[tokio::test]
async fn what_is_put_together_wrongly_is_refused_before_anything_is_done() {
    let suite = suite_of(1);
    let out = tempfile::tempdir().unwrap();
    let places = Places::default();
    let new = || Evaluation::new(load(&suite), places.clone(), out.path().join("out"));
    let error = new()
        .candidate(candidate("a", &[]))
        .run()
        .await
        .unwrap_err();
    assert!(
        matches!(error, EvaluationError::ChecksNotAllowed),
        "{error}"
    );
    let error = new().allow_checks(true).run().await.unwrap_err();
    assert!(matches!(error, EvaluationError::NoCandidate), "{error}");
    let twice = new()
        .candidate(candidate("a", &[]))
        .candidate(candidate("a", &[]));
    let error = twice.allow_checks(true).run().await.unwrap_err();
    assert_eq!(error.to_string(), "two candidates are called \"a\"");
    let no_turns =
        candidate("a", &[]).configure(|attempt| attempt.budget(Budget::default().turns(0)));
    let error = new()
        .candidate(no_turns)
        .allow_checks(true)
        .run()
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "a cannot attempt the case c00");
    assert_eq!(places.made(), 0);
    assert!(!out.path().join("out/a").exists());
}
