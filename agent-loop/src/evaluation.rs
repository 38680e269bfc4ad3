//! Suites of cases, and how candidates do on them.
//!
//! A [`Suite`] is a folder of cases with one digest. An [`Evaluation`] runs every case with every
//! [`Candidate`], so many at a time, each in a place of its own, and goes on where it was broken
//! off. A [`SuiteReport`] keeps apart what passed, what failed, what gave no verdict and what was
//! not evaluated, and has no rate without its coverage. A case without a verdict counts as not passed,
//! so that nobody gains by hiding a failure. [`Compare`] lays two candidates side by
//! side, on the same suite and case by case.

mod candidate;
mod case_report;
mod compare;
mod error;
mod folder;
mod html;
mod metric;
mod name;
mod new_case;
mod run;
mod signal;
pub mod statistics;
mod suite;
mod suite_report;
#[cfg(test)]
mod tests;

pub use candidate::Candidate;
pub use case_report::{CaseReport, Commands, Decision, Earlier};
pub use compare::{Compare, CompareError, Comparison, NotPaired, Side};
pub use error::EvaluationError;
pub use metric::{Metric, Requirement};
pub use name::InvalidName;
pub use new_case::NewCase;
pub use run::{Again, Evaluation, Progress};
pub use suite::{Case, Suite, SuiteError, SuiteRef};
pub use suite_report::{CandidateCost, CandidateReport, Counts, Rate, SuiteReport};
