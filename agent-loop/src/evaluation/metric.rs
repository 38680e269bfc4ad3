//! What a candidate is measured by, and what is required of it.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::case_report::{CaseReport, Decision};
use super::suite_report::{CandidateReport, SuiteReport};

/// A number that a candidate has. It can be unknown, which is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Passes of the cases that were evaluated. One without a verdict is evaluated and not passed.
    PassRate,
    /// Evaluated cases of all, those without a verdict among them.
    Coverage,
    /// Commands that were ended at their limit, of all.
    TimeoutRate,
    /// The median of the durations of commands, in milliseconds.
    CommandDuration,
    /// Cost for each pass, in millionths.
    CostPerAccepted,
    /// Replies of the model for each case that was evaluated, with or without a verdict.
    Turns,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PassRate,
        Self::Coverage,
        Self::TimeoutRate,
        Self::CommandDuration,
        Self::CostPerAccepted,
        Self::Turns,
    ];

    /// The word in a report.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PassRate => "pass_rate",
            Self::Coverage => "coverage",
            Self::TimeoutRate => "timeout_rate",
            Self::CommandDuration => "command_duration_ms_p50",
            Self::CostPerAccepted => "cost_per_accepted_micros",
            Self::Turns => "turns",
        }
    }

    /// The number of a candidate, where it is known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a number to compare by")]
    pub fn of(self, candidate: &CandidateReport) -> Option<f64> {
        match self {
            Self::PassRate => candidate.pass_rate.rate,
            Self::Coverage => candidate.coverage.rate,
            Self::TimeoutRate => candidate.timeout_rate.rate,
            Self::CommandDuration => candidate.command_duration_ms_p50.map(|ms| ms as f64),
            Self::CostPerAccepted => {
                let each = candidate.cost.per_accepted_micros?;
                Some(each.get() as f64)
            }
            Self::Turns => {
                let cases = candidate.counts.evaluated();
                (cases > 0).then(|| candidate.turns as f64 / f64::from(cases))
            }
        }
    }

    /// What a case adds to it, where that is known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a number to compare by")]
    pub fn of_case(self, case: &CaseReport) -> Option<f64> {
        let truth = |yes| f64::from(u8::from(yes));
        match self {
            Self::PassRate => case
                .decision
                .is_evaluated()
                .then(|| truth(case.decision == Decision::Pass)),
            Self::Coverage => Some(truth(case.decision.is_evaluated())),
            Self::TimeoutRate => {
                let commands = case.commands.duration_ms.len();
                (commands > 0).then(|| f64::from(case.commands.timed_out) / commands as f64)
            }
            Self::CommandDuration => {
                let all = &case.commands.duration_ms;
                all.iter().max().map(|ms| *ms as f64)
            }
            Self::CostPerAccepted => {
                let cost = case.whole_cost();
                (cost.unknown_calls == 0).then(|| cost.known_micros.get() as f64)
            }
            Self::Turns => case.latency.map(|_| f64::from(case.turns)),
        }
    }

    /// Whether more of it is better.
    #[must_use]
    pub fn is_better_higher(self) -> bool {
        matches!(self, Self::PassRate | Self::Coverage)
    }

    /// Orders two values: what is unknown first, then the worst.
    pub(super) fn worst_first(self, one: Option<f64>, other: Option<f64>) -> Ordering {
        match (one, other) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) if self.is_better_higher() => one.total_cmp(&other),
            (Some(one), Some(other)) => other.total_cmp(&one),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is required of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Requirement {
    /// Of which number.
    pub metric: Metric,
    /// The limit: the least of what is better when higher, else the most.
    pub limit: f64,
}

impl Requirement {
    /// `metric` has to be at least `limit` where higher is better, and at most `limit` where not.
    #[must_use]
    pub fn new(metric: Metric, limit: f64) -> Self {
        Self { metric, limit }
    }

    /// Whether a candidate meets it. What is unknown does not.
    #[must_use]
    pub fn is_met_by(&self, candidate: &CandidateReport) -> bool {
        self.metric
            .of(candidate)
            .is_some_and(|value| match self.metric.is_better_higher() {
                true => value >= self.limit,
                false => value <= self.limit,
            })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.metric.is_better_higher() {
            true => "at least",
            false => "at most",
        };
        write!(f, "{} {word} {}", self.metric, self.limit)
    }
}

impl SuiteReport {
    /// The first requirement that a candidate does not meet, and the candidates by its
    /// metric, the worst first; `None` where all meet all. Look at the cases of the first one, by
    /// the same metric: [`CandidateReport::cases_by`].
    #[must_use]
    pub fn first_unmet(&self) -> Option<(Requirement, Vec<&CandidateReport>)> {
        let fails = |requirement: &&Requirement| {
            let met = |candidate| requirement.is_met_by(candidate);
            !self.candidates.iter().all(met)
        };
        let unmet = self.requirements.iter().find(fails)?;
        Some((*unmet, self.sorted_by(unmet.metric)))
    }
}
