use super::{Places, candidate, evaluation, suite_of};
use crate::digest::Digest;
use crate::evaluation::{Compare, CompareError, Metric, SuiteReport};

async fn report(cases: usize) -> SuiteReport {
    let (suite, out) = (suite_of(cases), tempfile::tempdir().unwrap());
    evaluation(&suite, &out, &Places::default())
        .candidate(candidate("base", &[0, 1]))
        .candidate(candidate("new", &[1, 2, 3, 4, 5, 6]))
        .run()
        .await
        .unwrap()
}

#[tokio::test]
async fn pairs_are_counted_case_by_case() {
    let report = report(10).await;
    let comparison = Compare::new().in_one(&report, "base", "new").unwrap();
    assert_eq!((comparison.both, comparison.neither), (3, 1));
    assert_eq!(
        comparison.only_baseline,
        ["c02", "c03", "c04", "c05", "c06"]
    );
    assert_eq!(comparison.only_candidate, ["c00"]);
    // scipy: binomtest(1, 6, 0.5).pvalue
    assert!((comparison.p_value - 0.21875).abs() < 1e-12);
    assert!((comparison.difference.unwrap() + 0.4).abs() < 1e-12);
    let said = comparison.to_string();
    assert!(said.contains("10 pairs of suite"), "{said}");
    assert!(said.contains("4/10 to 8/10"), "{said}");
    assert!(said.contains("difference -40.0 points"), "{said}");
    assert!(said.contains("p = 0.2188"), "{said}");
    assert!(
        said.contains("lost: c02, c03, c04, c05, c06\n  won: c00\n"),
        "{said}"
    );
    let turned = Compare::new().in_one(&report, "new", "base").unwrap();
    assert_eq!(turned.only_candidate, comparison.only_baseline);
    assert_eq!(turned.p_value.to_bits(), comparison.p_value.to_bits());
}

#[tokio::test]
async fn what_would_mislead_is_refused() {
    let report_of_ten = report(10).await;
    let report_of_seven = report(7).await;
    let compare = Compare::new();
    let error = compare
        .across((&report_of_ten, "base"), (&report_of_seven, "new"))
        .unwrap_err();
    assert!(matches!(error, CompareError::OtherSuite { .. }), "{error}");
    let error = compare.in_one(&report_of_ten, "base", "newer").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no candidate \"newer\" in the report"
    );
    let mut judged_otherwise = report_of_ten.clone();
    judged_otherwise.candidates[1].cases[4].evaluator = Some(Digest::of(b"another"));
    let error = compare
        .in_one(&judged_otherwise, "base", "new")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the case c04 was judged by two evaluators"
    );
}

#[tokio::test]
async fn a_report_is_read_as_it_was_written() {
    let report = report(7).await;
    let json = serde_json::to_string(&report).unwrap();
    let read: SuiteReport = serde_json::from_str(&json).unwrap();
    assert_eq!(read.suite, report.suite);
    for (one, other) in read.candidates.iter().zip(&report.candidates) {
        assert_eq!((&one.counts, &one.cost), (&other.counts, &other.cost));
        assert_eq!((&one.cases, &one.levels), (&other.cases, &other.levels));
    }
    assert_eq!(read.candidates.len(), 2);
}

#[tokio::test]
async fn a_metric_knows_its_better_side() {
    let report = report(10).await;
    let worst = |metric| report.sorted_by(metric)[0].name.clone();
    assert_eq!(worst(Metric::PassRate), "new");
    for metric in Metric::ALL {
        let value = metric.of(&report.candidates[0]);
        let expected = match metric {
            Metric::PassRate => Some(0.8),
            Metric::Coverage => Some(1.0),
            Metric::TimeoutRate | Metric::CommandDuration => Some(0.0),
            Metric::CostPerAccepted => None,
            Metric::Turns => Some(4.0),
        };
        assert_eq!(value, expected, "{metric}");
    }
}
