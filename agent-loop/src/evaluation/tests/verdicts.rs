//! Cases whose checks gave no verdict.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Places, candidate, evaluation, number, right, suite_of};
use crate::budget::Budget;
use crate::evaluation::suite_report::CandidateReport;
use crate::evaluation::{
    Again, Candidate, CaseReport, Compare, Decision, Metric, Requirement, SuiteReport,
};
use crate::model::ScriptedModel;
use crate::test_kit::{CHECK, model, read, write};

/// Solves all cases but those with these numbers, and there ends the process with 0.
fn cheating(name: &str, hides: &'static [usize]) -> Candidate {
    let candidate = Candidate::new(name, move |case| {
        Arc::new(match hides.contains(&number(case.id())) {
            true => leaving(),
            false => right(),
        })
    });
    let mut budget = Budget::default().turns(4);
    budget.invalid_checks = 1;
    candidate
        .unwrap()
        .configure(move |attempt| attempt.budget(budget.clone()))
}

fn leaving() -> ScriptedModel {
    let leaves = write("amounts.py", "import os\nos._exit(0)\n");
    model([read("amounts.py"), leaves, CHECK.to_owned()])
}

#[tokio::test]
async fn whoever_hides_a_failure_is_not_better_for_it() {
    let (suite, out) = (suite_of(20), tempfile::tempdir().unwrap());
    let places = Places::default();
    let new = || {
        evaluation(&suite, &out, &places)
            .candidate(candidate("honest", &[3, 7]))
            .candidate(cheating("cheating", &[3, 7]))
            .require(Requirement::new(Metric::PassRate, 0.95))
            .again(Again::NotEvaluated)
    };
    let report = new().run().await.unwrap();
    let [honest, cheat] = &report.candidates[..] else {
        panic!("there are two candidates");
    };
    assert_eq!((honest.counts.fail, honest.counts.invalid), (2, 0));
    assert_eq!((cheat.counts.fail, cheat.counts.invalid), (0, 2));
    assert_eq!(honest.pass_rate.to_string(), "18/20");
    assert_eq!(cheat.pass_rate, honest.pass_rate);
    assert_eq!(cheat.coverage, honest.coverage);
    assert_eq!(cheat.coverage.to_string(), "20/20");
    for metric in [Metric::PassRate, Metric::Coverage] {
        assert_eq!(metric.of(cheat), metric.of(honest), "{metric}");
        let of_case = |report: &CandidateReport| metric.of_case(report.case("c03").unwrap());
        assert_eq!(of_case(cheat), of_case(honest), "{metric}");
    }
    // Neither meets the requirement.
    assert_eq!(report.exit_code(), 1);
    let (_, worst_first) = report.first_unmet().unwrap();
    assert_eq!(worst_first.len(), 2);

    let comparison = report.comparisons().remove(0).unwrap();
    assert_eq!((comparison.pairs(), comparison.neither), (20, 2));
    assert_eq!(comparison.not_paired, []);
    assert_eq!(comparison.difference, Some(0.0));
    assert_eq!(comparison.candidate.invalid, 2);

    // It is told beside the rate, in every form.
    let said = report.to_string();
    let beside = "cheating: passed 18/20, 2 of them without a verdict (coverage 20/20)";
    assert!(said.contains(beside), "{said}");
    assert!(said.contains("honest: passed 18/20 (coverage"), "{said}");
    let said = comparison.to_string();
    let line = "  without a verdict, so not passed, of cheating: 2\n";
    assert!(said.contains(line), "{said}");
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("18/20, 2 of them without a verdict"));
    assert!(page.contains("without a verdict, so not passed, cheating"));
    let json = fs::read_to_string(out.path().join("comparison-cheating.json")).unwrap();
    assert!(json.contains("\"invalid\": 2"), "{json}");

    // It is a result like others, so nobody gets another try for it.
    let made = places.made();
    let again = new().run().await.unwrap();
    assert_eq!((&again, places.made()), (&report, made));
}

/// A case for each decision, all else the same.
fn decided(template: &CaseReport, name: &str, decisions: &[Decision]) -> CandidateReport {
    let cases = decisions.iter().enumerate().map(|(at, decision)| {
        let mut case = template.clone();
        case.case = format!("c{at:02}");
        name.clone_into(&mut case.candidate);
        case.decision = *decision;
        case
    });
    CandidateReport::new(name, cases.collect())
}

fn any_decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        4 => Just(Decision::Pass),
        4 => Just(Decision::Fail),
        1 => Just(Decision::Invalid),
        1 => Just(Decision::NotEvaluated),
    ]
}

/// A report that was made, as a pattern for others.
fn template() -> SuiteReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let (suite, out) = (suite_of(1), tempfile::tempdir().unwrap());
    let run = evaluation(&suite, &out, &Places::default())
        .candidate(candidate("base", &[0]))
        .run();
    let report = runtime.block_on(run).unwrap();
    assert_eq!(report.candidates[0].counts.fail, 1);
    report
}

#[test]
fn no_failure_that_is_hidden_changes_a_rate_or_a_comparison() {
    let template = template();
    let case = &template.candidates[0].cases[0];
    let compare = Compare::new().coverage_bound(0.0);
    let decided = |name: &str, decisions: &[Decision]| decided(case, name, decisions);
    let cases = prop::collection::vec(
        (any_decision(), any_decision(), any::<bool>(), any::<bool>()),
        1..24,
    );
    proptest!(|(cases in cases)| {
        let base: Vec<_> = cases.iter().map(|case| case.0).collect();
        let open: Vec<_> = cases.iter().map(|case| case.1).collect();
        // Failures that are hidden, and passes that are lost by it.
        let [hidden, lost] = [false, true].map(|also_passes| -> Vec<_> {
            let hide = |case: &(Decision, Decision, bool, bool)| match case.1 {
                Decision::Fail if case.2 => Decision::Invalid,
                Decision::Pass if also_passes && case.3 => Decision::Invalid,
                decision => decision,
            };
            cases.iter().map(hide).collect()
        });
        let mut report = template.clone();
        report.candidates = vec![
            decided("base", &base),
            decided("open", &open),
            decided("hidden", &hidden),
            decided("lost", &lost),
        ];
        let [_, open, hidden, lost] = &report.candidates[..] else {
            unreachable!("there are four");
        };
        for metric in Metric::ALL {
            prop_assert_eq!(metric.of(hidden), metric.of(open), "{}", metric);
        }
        prop_assert_eq!((hidden.pass_rate, hidden.coverage), (open.pass_rate, open.coverage));
        prop_assert!(lost.pass_rate.hits <= open.pass_rate.hits);
        prop_assert_eq!(lost.pass_rate.of, open.pass_rate.of);
        let against = |name: &str| compare.in_one(&report, "base", name).map(|compared| {
            let p = compared.p_value.to_bits();
            (compared.candidate.paired_rate, compared.difference, p, compared.only_candidate)
        });
        prop_assert_eq!(against("hidden"), against("open"));
        // The other way round too: hiding does not help a baseline.
        let behind = |name: &str| compare.in_one(&report, name, "base").map(|compared| {
            (compared.baseline.paired_rate, compared.p_value.to_bits(), compared.only_candidate)
        });
        prop_assert_eq!(behind("hidden"), behind("open"));
    });
}
