//! Two candidates on the same cases.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::case_report::{CaseReport, Decision};
use super::statistics::{self, Interval};
use super::suite::SuiteRef;
use super::suite_report::{CandidateCost, Rate, SuiteReport, percent};
use crate::digest::Digest;

/// How two candidates are compared.
///
/// # Examples
/// ```no_run
/// use agent_loop::evaluation::{Compare, SuiteReport};
///
/// fn is_no_worse(report: &SuiteReport) -> Result<bool, Box<dyn std::error::Error>> {
///     let comparison = Compare::new().coverage_bound(0.95).in_one(report, "baseline", "new")?;
///     println!("{comparison}");
///     Ok(comparison.only_baseline.is_empty())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a Compare does nothing until it is given two candidates"]
pub struct Compare {
    coverage_bound: f64,
}

/// A comparison that would mislead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// They were not evaluated on the same cases.
    #[error(
        "the suites are different: {} {} ({}) and {} {} ({})",
        baseline.name, baseline.revision, baseline.case_set_revision.short(),
        candidate.name, candidate.revision, candidate.case_set_revision.short()
    )]
    #[non_exhaustive]
    OtherSuite {
        /// Of the baseline.
        baseline: Box<SuiteRef>,
        /// Of the candidate.
        candidate: Box<SuiteRef>,
    },
    /// A case was judged by two evaluators.
    #[error("the case {case} was judged by two evaluators")]
    #[non_exhaustive]
    OtherEvaluator {
        /// The case.
        case: String,
    },
    /// A candidate is not in its report.
    #[error("there is no candidate {name:?} in the report")]
    #[non_exhaustive]
    NoCandidate {
        /// Its name.
        name: String,
    },
    /// Too few cases of a candidate were evaluated.
    #[error("{name}: only {coverage} cases were evaluated, and {bound} of them have to be")]
    #[non_exhaustive]
    Coverage {
        /// The candidate.
        name: String,
        /// Evaluated cases of all.
        coverage: String,
        /// The least share.
        bound: f64,
    },
}

/// What a comparison has shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The digest of the suite of both.
    pub case_set_revision: Digest,
    /// The baseline.
    pub baseline: Side,
    /// The candidate.
    pub candidate: Side,
    /// Cases that both have passed.
    pub both: u32,
    /// Cases that neither has passed. One without a verdict is not passed, here as everywhere.
    pub neither: u32,
    /// Cases that only the baseline has passed.
    pub only_baseline: Vec<String>,
    /// Cases that only the candidate has passed.
    pub only_candidate: Vec<String>,
    /// Cases that make no pair, because one of the two was not evaluated, and why.
    pub not_paired: Vec<NotPaired>,
    /// How likely so uneven a split of the pairs that differ is where neither is better: `McNemar`'s
    /// exact test, two-sided.
    pub p_value: f64,
    /// How much higher the candidate's rate is over the pairs.
    pub difference: Option<f64>,
    /// The 95 % interval of that, by Bonett and Price.
    pub difference_interval: Option<Interval>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Evaluated cases of all.
    pub coverage: Rate,
    /// Passes of its evaluated cases.
    pub pass_rate: Rate,
    /// How many of its evaluated cases have no verdict. They count as not passed.
    pub invalid: u32,
    /// Passes of the pairs.
    pub paired_rate: Rate,
    /// What it has cost.
    pub cost: CandidateCost,
}

/// A case that makes no pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotPaired {
    /// The case.
    pub case: String,
    /// What is decided of it with the baseline.
    pub baseline: Decision,
    /// What is decided of it with the candidate.
    pub candidate: Decision,
}

impl Default for Compare {
    fn default() -> Self {
        Self::new()
    }
}

impl Compare {
    /// A comparison for which nine of ten cases have to be evaluated on both sides.
    pub fn new() -> Self {
        Self {
            coverage_bound: 0.9,
        }
    }

    /// The least share of the cases that has to be evaluated on each side. Default: 0.9.
    pub fn coverage_bound(mut self, share: f64) -> Self {
        self.coverage_bound = share;
        self
    }

    /// Compares two candidates of one evaluation.
    ///
    /// # Errors
    /// As [`across`](Self::across).
    pub fn in_one(
        &self,
        report: &SuiteReport,
        baseline: &str,
        candidate: &str,
    ) -> Result<Comparison, CompareError> {
        self.across((report, baseline), (report, candidate))
    }

    /// Compares two candidates of two evaluations.
    ///
    /// # Errors
    /// Where the suites or the evaluators are not the same, a candidate is not there, or too few of
    /// its cases were evaluated.
    pub fn across(
        &self,
        (baseline_report, baseline): (&SuiteReport, &str),
        (candidate_report, candidate): (&SuiteReport, &str),
    ) -> Result<Comparison, CompareError> {
        let (one, other) = (&baseline_report.suite, &candidate_report.suite);
        if one.case_set_revision != other.case_set_revision {
            return Err(CompareError::OtherSuite {
                baseline: Box::new(one.clone()),
                candidate: Box::new(other.clone()),
            });
        }
        let find = |report: &'_ SuiteReport, name: &str| {
            let found = report.candidate(name).cloned();
            let found = found.ok_or_else(|| CompareError::NoCandidate {
                name: name.to_owned(),
            })?;
            match found.is_covered(self.coverage_bound) {
                true => Ok(found),
                false => Err(CompareError::Coverage {
                    name: name.to_owned(),
                    coverage: found.coverage.to_string(),
                    bound: self.coverage_bound,
                }),
            }
        };
        let baseline = find(baseline_report, baseline)?;
        let candidate = find(candidate_report, candidate)?;
        let mut pairs = Pairs::default();
        for case in &baseline.cases {
            if let Some(other) = candidate.case(&case.case) {
                pairs.add(case, other)?;
            }
        }
        let count = |cases: &[String]| u32::try_from(cases.len()).unwrap_or(u32::MAX);
        let (only_baseline, only_candidate) =
            (count(&pairs.only_baseline), count(&pairs.only_candidate));
        let all = pairs.both + pairs.neither + only_baseline + only_candidate;
        let difference = statistics::paired_difference(only_candidate, only_baseline, all);
        let side = |report: super::CandidateReport, alone: u32| Side {
            name: report.name,
            coverage: report.coverage,
            pass_rate: report.pass_rate,
            invalid: report.counts.invalid,
            paired_rate: Rate::new(pairs.both + alone, all),
            cost: report.cost,
        };
        Ok(Comparison {
            case_set_revision: one.case_set_revision,
            baseline: side(baseline, only_baseline),
            candidate: side(candidate, only_candidate),
            both: pairs.both,
            neither: pairs.neither,
            only_baseline: pairs.only_baseline,
            only_candidate: pairs.only_candidate,
            not_paired: pairs.not_paired,
            p_value: statistics::mcnemar(only_baseline, only_candidate),
            difference: difference.map(|(estimate, _)| estimate),
            difference_interval: difference.map(|(_, interval)| interval),
        })
    }
}

#[derive(Default)]
struct Pairs {
    both: u32,
    neither: u32,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
    not_paired: Vec<NotPaired>,
}

impl Pairs {
    fn add(&mut self, baseline: &CaseReport, candidate: &CaseReport) -> Result<(), CompareError> {
        let case = || baseline.case.clone();
        let decisions = (baseline.decision, candidate.decision);
        if !(decisions.0.is_evaluated() && decisions.1.is_evaluated()) {
            self.not_paired.push(NotPaired {
                case: case(),
                baseline: decisions.0,
                candidate: decisions.1,
            });
            return Ok(());
        }
        if baseline.evaluator != candidate.evaluator {
            return Err(CompareError::OtherEvaluator { case: case() });
        }
        match decisions {
            (Decision::Pass, Decision::Pass) => self.both += 1,
            (Decision::Pass, _) => self.only_baseline.push(case()),
            (_, Decision::Pass) => self.only_candidate.push(case()),
            _ => self.neither += 1,
        }
        Ok(())
    }
}

impl Comparison {
    /// The pairs.
    #[must_use]
    pub fn pairs(&self) -> u32 {
        self.baseline.paired_rate.of
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (base, new) = (&self.baseline, &self.candidate);
        writeln!(
            f,
            "{} against {}, {} pairs of suite {}: {} to {}",
            new.name,
            base.name,
            self.pairs(),
            self.case_set_revision.short(),
            new.paired_rate,
            base.paired_rate
        )?;
        writeln!(
            f,
            "  both {}, neither {}, only {} {}, only {} {}, not paired {}",
            self.both,
            self.neither,
            base.name,
            self.only_baseline.len(),
            new.name,
            self.only_candidate.len(),
            self.not_paired.len()
        )?;
        if let (Some(difference), Some(interval)) = (self.difference, self.difference_interval) {
            writeln!(
                f,
                "  difference {:+.1} points, 95 %: {}; exact test: p = {:.4}",
                difference * 100.0,
                percent(interval),
                self.p_value
            )?;
        }
        for side in [base, new] {
            let name = &side.name;
            if side.invalid > 0 {
                writeln!(
                    f,
                    "  without a verdict, so not passed, of {name}: {}",
                    side.invalid
                )?;
            }
            writeln!(f, "  cost per pass of {name}: {}", side.cost.per_accepted())?;
        }
        let list = |cases: &[String]| cases.join(", ");
        if !self.only_baseline.is_empty() {
            writeln!(f, "  lost: {}", list(&self.only_baseline))?;
        }
        if !self.only_candidate.is_empty() {
            writeln!(f, "  won: {}", list(&self.only_candidate))?;
        }
        Ok(())
    }
}
