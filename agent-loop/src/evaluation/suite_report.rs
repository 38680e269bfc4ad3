//! What came of a suite: a number is never without what it is a part of.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case_report::{CaseReport, Decision};
use super::compare::{Compare, CompareError, Comparison};
use super::error::EvaluationError;
use super::html;
use super::metric::{Metric, Requirement};
use super::statistics::{self, Interval};
use super::suite::{self, SuiteRef};
use crate::acceptance::Level;
use crate::budget::Micros;
use crate::evidence;

/// What came of a suite. Written as `report.json`. The same evidence gives the same report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuiteReport {
    /// The suite.
    pub suite: SuiteRef,
    /// The least share of the cases that has to be evaluated.
    pub coverage_bound: f64,
    /// What was required of the candidates.
    pub requirements: Vec<Requirement>,
    /// The candidates, in the order in which they were given.
    pub candidates: Vec<CandidateReport>,
}

/// What came of a suite with one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CandidateReport {
    /// Its name.
    pub name: String,
    /// How many cases ended how.
    pub counts: Counts,
    /// Passes of the cases that were evaluated, those without a verdict among these:
    /// `pass / (pass + fail + invalid)`.
    pub pass_rate: Rate,
    /// Evaluated cases of all, those without a verdict among them.
    pub coverage: Rate,
    /// Commands that were ended at their limit, of all commands.
    pub timeout_rate: Rate,
    /// The median of the durations of commands, in milliseconds.
    pub command_duration_ms_p50: Option<u64>,
    /// Replies of the model in the cases that were evaluated.
    pub turns: u64,
    /// Money.
    pub cost: CandidateCost,
    /// How many passes have which level.
    pub levels: BTreeMap<Level, u32>,
    /// The cases, by their ids.
    pub cases: Vec<CaseReport>,
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// The change is accepted.
    pub pass: u32,
    /// It is not.
    pub fail: u32,
    /// The checks gave no verdict. In every rate such a case is evaluated and not passed; see
    /// [`Decision`].
    pub invalid: u32,
    /// Something else went wrong, or the case has not run.
    pub not_evaluated: u32,
}

impl Counts {
    fn of(cases: &[CaseReport]) -> Self {
        let mut counts = Self::default();
        for case in cases {
            *match case.decision {
                Decision::Pass => &mut counts.pass,
                Decision::Fail => &mut counts.fail,
                Decision::Invalid => &mut counts.invalid,
                Decision::NotEvaluated => &mut counts.not_evaluated,
            } += 1;
        }
        counts
    }

    /// The cases that count in the rates of the candidate: all but those that were not evaluated.
    #[must_use]
    pub fn evaluated(&self) -> u32 {
        self.pass + self.fail + self.invalid
    }

    /// All cases.
    #[must_use]
    pub fn all(&self) -> u32 {
        self.evaluated() + self.not_evaluated
    }
}

/// A share, with both numbers and its intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rate {
    /// How many.
    pub hits: u32,
    /// Of how many.
    pub of: u32,
    /// The share, where it is one of something.
    pub rate: Option<f64>,
    /// The 95 % interval of Wilson.
    pub wilson: Option<Interval>,
    /// The 95 % interval of Clopper and Pearson, which never claims too much.
    pub exact: Option<Interval>,
}

impl Rate {
    /// `hits` of `of`.
    #[must_use]
    pub fn new(hits: u32, of: u32) -> Self {
        Self {
            hits,
            of,
            rate: (of > 0).then(|| f64::from(hits) / f64::from(of)),
            wilson: statistics::wilson(hits, of),
            exact: statistics::exact(hits, of),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hits, self.of)
    }
}

/// What a candidate has cost, the tries that do not count among it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CandidateCost {
    /// The sum of what is known.
    pub known_micros: Micros,
    /// How many calls are not in it.
    pub unknown_calls: u32,
    /// Where the prices are from.
    pub price_basis: Vec<String>,
    /// All of it for each pass. Unknown where the cost of any call is, or nothing has passed.
    pub per_accepted_micros: Option<Micros>,
}

impl CandidateCost {
    fn of(cases: &[CaseReport], passes: u32) -> Self {
        let mut sum = Self::default();
        for case in cases {
            let cost = case.whole_cost();
            sum.known_micros = sum.known_micros.saturating_add(cost.known_micros);
            sum.unknown_calls = sum.unknown_calls.saturating_add(cost.unknown_calls);
            let basis = cost
                .price_basis
                .filter(|basis| !sum.price_basis.contains(basis));
            sum.price_basis.extend(basis);
        }
        if sum.unknown_calls == 0 && passes > 0 {
            let each = sum.known_micros.get().div_ceil(u64::from(passes));
            sum.per_accepted_micros = Some(Micros::new(each));
        }
        sum
    }

    /// The cost for each pass, in words: what is not known is said.
    #[must_use]
    pub fn per_accepted(&self) -> String {
        match (self.per_accepted_micros, self.unknown_calls) {
            (Some(each), _) => each.to_string(),
            (None, 0) => "nothing was accepted".to_owned(),
            (None, calls) => format!("unknown: so is the cost of {calls} calls"),
        }
    }
}

impl SuiteReport {
    /// The report of these cases. The order of the candidates is that of `names`.
    pub(super) fn new<'a>(
        suite: SuiteRef,
        names: impl Iterator<Item = &'a str>,
        mut reports: Vec<CaseReport>,
        coverage_bound: f64,
        requirements: Vec<Requirement>,
    ) -> Self {
        reports.sort_by(|one, other| one.case.cmp(&other.case));
        let candidates = names.map(|name| {
            let cases = reports.iter().filter(|report| report.candidate == name);
            CandidateReport::new(name, cases.cloned().collect())
        });
        Self {
            suite,
            candidates: candidates.collect(),
            coverage_bound,
            requirements,
        }
    }

    /// The candidate `name`.
    #[must_use]
    pub fn candidate(&self, name: &str) -> Option<&CandidateReport> {
        self.candidates
            .iter()
            .find(|candidate| candidate.name == name)
    }

    /// The candidates, the worst by `metric` first, and before them those of which it is unknown.
    #[must_use]
    pub fn sorted_by(&self, metric: Metric) -> Vec<&CandidateReport> {
        let mut sorted: Vec<_> = self.candidates.iter().collect();
        sorted.sort_by(|one, other| metric.worst_first(metric.of(one), metric.of(other)));
        sorted
    }

    /// The exit status of a program that made it: 0; 1 where a candidate does not meet a
    /// requirement; 3 where too few cases of one were evaluated, so that its rates say little.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let covered = |candidate: &CandidateReport| candidate.is_covered(self.coverage_bound);
        match (self.candidates.iter().all(covered), self.first_unmet()) {
            (false, _) => 3,
            (true, Some(_)) => 1,
            (true, None) => 0,
        }
    }

    /// Each candidate compared with the first one, or why that would mislead.
    #[must_use]
    pub fn comparisons(&self) -> Vec<Result<Comparison, CompareError>> {
        let Some((baseline, others)) = self.candidates.split_first() else {
            return Vec::new();
        };
        let compare = Compare::new().coverage_bound(self.coverage_bound);
        let compared = others
            .iter()
            .map(|other| compare.in_one(self, &baseline.name, &other.name));
        compared.collect()
    }

    /// Writes `report.json`, a `comparison-<candidate>.json` for each comparison, and `report.html`. The
    /// two reports quote lines of checks, so they are their owner's alone.
    pub(super) fn write(&self, folder: &Path) -> Result<(), EvaluationError> {
        let path = folder.join("report.json");
        evidence::pretty(self)
            .map_err(Into::into)
            .and_then(|text| evidence::write_private(&path, &text))
            .map_err(EvaluationError::io(&path))?;
        let comparisons = self.comparisons();
        for comparison in comparisons.iter().flatten() {
            let name = format!("comparison-{}.json", comparison.candidate.name);
            let path = folder.join(name);
            suite::write_json(&path, comparison).map_err(EvaluationError::io(&path))?;
        }
        let path = folder.join("report.html");
        evidence::write_private(&path, html::page(self, &comparisons).as_bytes())
            .map_err(EvaluationError::io(&path))
    }
}

impl CandidateReport {
    /// What these cases of one candidate come to.
    pub(super) fn new(name: &str, cases: Vec<CaseReport>) -> Self {
        let counts = Counts::of(&cases);
        let commands = || cases.iter().map(|case| &case.commands);
        let durations = commands().flat_map(|commands| commands.duration_ms.iter().copied());
        let durations: Vec<u64> = durations.collect();
        let timed_out = commands().map(|commands| commands.timed_out).sum();
        let evaluated = cases.iter().filter(|case| case.decision.is_evaluated());
        let mut levels = BTreeMap::new();
        for level in cases.iter().filter_map(|case| case.level) {
            *levels.entry(level).or_default() += 1;
        }
        Self {
            name: name.to_owned(),
            counts,
            pass_rate: Rate::new(counts.pass, counts.evaluated()),
            coverage: Rate::new(counts.evaluated(), counts.all()),
            timeout_rate: Rate::new(
                timed_out,
                u32::try_from(durations.len()).unwrap_or(u32::MAX),
            ),
            command_duration_ms_p50: median(durations),
            turns: evaluated.map(|case| u64::from(case.turns)).sum(),
            cost: CandidateCost::of(&cases, counts.pass),
            levels,
            cases,
        }
    }

    /// The cases, the worst by `metric` first, and before them those of which it is unknown.
    #[must_use]
    pub fn cases_by(&self, metric: Metric) -> Vec<&CaseReport> {
        let mut sorted: Vec<_> = self.cases.iter().collect();
        sorted.sort_by(|one, other| metric.worst_first(metric.of_case(one), metric.of_case(other)));
        sorted
    }

    /// Whether at least `bound` of the cases were evaluated.
    #[must_use]
    pub fn is_covered(&self, bound: f64) -> bool {
        self.coverage.rate.is_some_and(|rate| rate >= bound)
    }

    /// The case `id`.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<&CaseReport> {
        self.cases.iter().find(|case| case.case == id)
    }
}

/// The lower median: a number that was measured.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// `6/8 (coverage 8/10)`, and a line a candidate.
impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SuiteRef {
            name,
            revision,
            case_set_revision,
            cases,
        } = &self.suite;
        let digest = case_set_revision.short();
        writeln!(f, "suite {name} {revision} ({digest}), {cases} cases")?;
        for candidate in &self.candidates {
            writeln!(f, "{candidate}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CandidateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            pass,
            fail,
            invalid,
            not_evaluated,
        } = self.counts;
        write!(
            f,
            "{}: passed {}{} (coverage {})",
            self.name,
            self.pass_rate,
            without_verdict(invalid),
            self.coverage
        )?;
        if let Some(interval) = self.pass_rate.wilson {
            write!(f, ", 95 %: {}", percent(interval))?;
        }
        write!(
            f,
            "; pass {pass}, fail {fail}, invalid {invalid}, not evaluated {not_evaluated}; \
             timeouts {}; cost per pass: {}",
            self.timeout_rate,
            self.cost.per_accepted()
        )
    }
}

/// `, 2 of them without a verdict`, behind a rate that has such cases among its failures.
pub(super) fn without_verdict(invalid: u32) -> String {
    match invalid {
        0 => String::new(),
        cases => format!(", {cases} of them without a verdict"),
    }
}

/// `62 to 88 %`
pub(super) fn percent(interval: Interval) -> String {
    format!(
        "{:.0} to {:.0} %",
        interval.low * 100.0,
        interval.high * 100.0
    )
}
