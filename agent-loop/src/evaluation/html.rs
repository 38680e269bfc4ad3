//! The page about a suite.

use super::case_report::{CaseReport, Decision};
use super::compare::{CompareError, Comparison};
use super::metric::Metric;
use super::suite_report::{CandidateReport, Rate, SuiteReport, percent, without_verdict};
use crate::report::{Page, Tone};

/// The page, with comparisons.
pub(super) fn page(
    report: &SuiteReport,
    comparisons: &[Result<Comparison, CompareError>],
) -> String {
    let suite = &report.suite;
    let mut page = Page::new(&format!("{} {}", suite.name, suite.revision));
    page.element(
        "h1",
        "",
        &format!("{}, revision {}", suite.name, suite.revision),
    );
    page.open("dl", "");
    page.code_fact("case set revision", &suite.case_set_revision.to_string());
    page.fact("cases", &suite.cases.to_string());
    page.close("dl");
    candidates(&mut page, report);
    requirements(&mut page, report);
    for comparison in comparisons {
        compared(&mut page, comparison);
    }
    cases(&mut page, report);
    page.finish()
}

fn candidates(page: &mut Page, report: &SuiteReport) {
    page.heading("Candidates");
    page.open("div", "wide");
    page.open("table", "");
    let names = report
        .candidates
        .iter()
        .map(|candidate| candidate.name.clone());
    row_of(page, "th", "", names);
    for (name, number) in NUMBERS {
        row_of(page, "td", name, report.candidates.iter().map(number));
    }
    page.close("table");
    page.close("div");
    for candidate in &report.candidates {
        page.element("p", "dim", &candidate.name);
        shares(page, candidate);
    }
    let worth = report.candidates.iter().flat_map(|candidate| {
        let levels = candidate.levels.iter();
        levels.map(|(level, passes)| format!("{}: {passes} at level {level}", candidate.name))
    });
    let worth: Vec<_> = worth.collect();
    if !worth.is_empty() {
        page.element(
            "p",
            "dim",
            &format!("What the passes are worth: {}.", worth.join("; ")),
        );
    }
}

/// A number of a candidate, as it is shown.
type Number = fn(&CandidateReport) -> String;

/// What a candidate is shown with: a row each, so that two candidates fit on a phone.
const NUMBERS: [(&str, Number); 10] = [
    ("passed", |candidate| {
        let missing = without_verdict(candidate.counts.invalid);
        format!("{}{missing}", candidate.pass_rate)
    }),
    ("passed, 95 %", |candidate| {
        let interval = candidate.pass_rate.wilson.map(percent);
        interval.unwrap_or_else(|| "–".to_owned())
    }),
    ("coverage", |candidate| candidate.coverage.to_string()),
    ("pass", |candidate| candidate.counts.pass.to_string()),
    ("fail", |candidate| candidate.counts.fail.to_string()),
    ("invalid", |candidate| candidate.counts.invalid.to_string()),
    ("not evaluated", |candidate| {
        candidate.counts.not_evaluated.to_string()
    }),
    ("timeouts", |candidate| candidate.timeout_rate.to_string()),
    ("command, median", |candidate| {
        let median = candidate.command_duration_ms_p50;
        median.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms} ms"))
    }),
    ("cost per pass", |candidate| candidate.cost.per_accepted()),
];

fn row_of(page: &mut Page, tag: &'static str, name: &str, cells: impl Iterator<Item = String>) {
    page.open("tr", "");
    page.element(tag, "", name);
    for cell in cells {
        page.element(tag, "", &cell);
    }
    page.close("tr");
}

/// Passes and failures of all cases, as a bar; what is left is not evaluated.
fn shares(page: &mut Page, candidate: &CandidateReport) {
    let counts = &candidate.counts;
    let all = f64::from(counts.all());
    let parts = [
        ("pass", f64::from(counts.pass)),
        ("failed", f64::from(counts.fail)),
        ("void", f64::from(counts.invalid)),
    ];
    page.bar(all, &parts);
}

fn requirements(page: &mut Page, report: &SuiteReport) {
    if report.requirements.is_empty() {
        return;
    }
    page.heading("Requirements");
    for requirement in &report.requirements {
        page.open("p", "");
        page.text(&format!("{requirement} "));
        for candidate in report.sorted_by(requirement.metric) {
            let value = value(requirement.metric, requirement.metric.of(candidate));
            let tone = match requirement.is_met_by(candidate) {
                true => Tone::Good,
                false => Tone::Bad,
            };
            page.badge(tone, &format!("{} {value}", candidate.name));
            page.text(" ");
        }
        page.close("p");
    }
}

fn value(metric: Metric, value: Option<f64>) -> String {
    match (value, metric) {
        (None, _) => "unknown".to_owned(),
        (Some(value), Metric::PassRate | Metric::Coverage | Metric::TimeoutRate) => {
            format!("{:.1} %", value * 100.0)
        }
        (Some(value), _) => format!("{value:.1}"),
    }
}

fn compared(page: &mut Page, comparison: &Result<Comparison, CompareError>) {
    page.heading("Comparison");
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(why) => {
            page.open("p", "");
            page.badge(Tone::Warn, "refused");
            page.text(&format!(" {why}"));
            page.close("p");
            return;
        }
    };
    let (base, new) = (&comparison.baseline, &comparison.candidate);
    let pairs = comparison.pairs();
    page.element(
        "p",
        "",
        &format!("{} against {}, {pairs} pairs", new.name, base.name),
    );
    page.open("dl", "");
    let rate = |rate: &Rate| match rate.exact {
        Some(interval) => format!("{rate}, 95 %: {}", percent(interval)),
        None => rate.to_string(),
    };
    for side in [base, new] {
        page.fact(&side.name, &rate(&side.paired_rate));
        if side.invalid > 0 {
            let name = format!("without a verdict, so not passed, {}", side.name);
            page.fact(&name, &side.invalid.to_string());
        }
    }
    page.fact("both passed", &comparison.both.to_string());
    page.fact("neither passed", &comparison.neither.to_string());
    page.fact(
        &format!("only {}", base.name),
        &names(&comparison.only_baseline),
    );
    page.fact(
        &format!("only {}", new.name),
        &names(&comparison.only_candidate),
    );
    page.fact("not paired", &comparison.not_paired.len().to_string());
    if let (Some(points), Some(interval)) = (comparison.difference, comparison.difference_interval)
    {
        let text = format!("{:+.1} points, 95 %: {}", points * 100.0, percent(interval));
        page.fact("difference", &text);
    }
    page.fact(
        "exact test, two-sided",
        &format!("p = {:.4}", comparison.p_value),
    );
    page.fact(
        &format!("cost per pass, {}", base.name),
        &base.cost.per_accepted(),
    );
    page.fact(
        &format!("cost per pass, {}", new.name),
        &new.cost.per_accepted(),
    );
    page.close("dl");
}

fn names(cases: &[String]) -> String {
    match cases {
        [] => "0".to_owned(),
        cases => format!("{}: {}", cases.len(), cases.join(", ")),
    }
}

/// The cases, each with what came of it, those first that look worst by the requirement that is not
/// met.
fn cases(page: &mut Page, report: &SuiteReport) {
    page.heading("Cases");
    let metric = match report.first_unmet() {
        Some((requirement, _)) => requirement.metric,
        None => Metric::PassRate,
    };
    page.element("p", "dim", &format!("The worst by {metric} come first."));
    for candidate in report.sorted_by(metric) {
        page.element("p", "", &candidate.name);
        page.open("div", "wide");
        page.open("table", "");
        let heads = [
            ("case", false),
            ("decision", false),
            ("expected and observed", false),
            ("turns", true),
            ("took", true),
        ];
        page.row("th", &heads);
        for case in candidate.cases_by(metric) {
            row(page, case);
        }
        page.close("table");
        page.close("div");
    }
}

fn row(page: &mut Page, case: &CaseReport) {
    page.open("tr", "");
    page.open("td", "");
    match case.chain_head {
        Some(_) => page.link(&format!("{}/report.html", case.folder), &case.case),
        None => page.text(&case.case),
    }
    page.close("td");
    page.open("td", "");
    let tone = match case.decision {
        Decision::Pass => Tone::Good,
        Decision::Fail => Tone::Bad,
        Decision::Invalid => Tone::Warn,
        Decision::NotEvaluated => Tone::None,
    };
    page.badge(tone, case.decision.as_str());
    page.close("td");
    page.open("td", "");
    page.element("p", "dim", &case.expected);
    page.element("p", "", &case.observed);
    if case.resumed > 0 {
        let times = case.resumed;
        let text = format!("went on after its program was ended: {times} ×");
        page.element("p", "dim", &text);
    }
    for earlier in &case.earlier {
        page.element(
            "p",
            "dim",
            &format!("try {}: {}", earlier.attempt, earlier.why),
        );
    }
    page.close("td");
    page.element("td", "n", &case.turns.to_string());
    let took = case.took().map(|took| format!("{} ms", took.as_millis()));
    page.element("td", "n", &took.unwrap_or_else(|| "–".to_owned()));
    page.close("tr");
}
