//! What has to be true before a change is accepted.

mod command;
mod compose;
mod condense;
mod counted;
mod description;
pub(crate) mod io_cases;
#[cfg(feature = "polyaxon")]
mod job;
mod libtest;
mod plan;
mod pytest;
mod recipe;
mod report;
#[cfg(test)]
mod test_kit;
mod unittest;
mod variable;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{Manifest, Tree};
use crate::workspace::{Capabilities, ExecReceipt};

pub use command::{CommandAcceptance, Counter};
pub use compose::{Composed, all, then};
pub use description::Description;
pub use io_cases::{Expected, InvalidCases, IoCase, IoCases};
#[cfg(feature = "polyaxon")]
pub use job::{JobResult, JobVerdict, JobVerification, TooLarge, VerificationError};
pub use plan::{At, CheckPlan, PlanSummary, Stage, StageSummary};
pub use unittest::{InvalidTests, UnittestAcceptance};
pub use variable::InvalidVariable;
pub(crate) use variable::VariableName;

/// What the model is told where what failed must stay unknown to it.
pub(crate) const HIDDEN: &str = "- an independent verification did not pass";

/// Says how a change is checked, and judges what the check has shown.
///
/// It does no I/O. The same evidence must always get the same verdict, because whoever verifies a
/// run later judges again.
///
/// # Examples
/// One of your own:
/// ```
/// use agent_loop::{Acceptance, CheckPlan, Digest, Evidence, ExecReceipt, ExecSpec, Level, Stage, Verdict};
///
/// /// Accepts a list of names that is sorted.
/// struct Sorted;
///
/// impl Acceptance for Sorted {
///     fn revision(&self) -> Digest {
///         Digest::of(b"sorted 1") // changes with every change of what follows
///     }
///
///     fn names(&self) -> Vec<String> {
///         vec!["sorted".to_owned()]
///     }
///
///     fn plan(&self, name: &str) -> Option<CheckPlan> {
///         let command = ExecSpec::new(["sort", "--check", "names.txt"]);
///         (name == "sorted").then(|| CheckPlan::new(Stage::new(command), Level::ExitCode))
///     }
///
///     fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
///         match evidence.last().and_then(|(_stage, run)| run.receipt.exit_code) {
///             Some(0) => Verdict::pass("the names are sorted"),
///             Some(1) => Verdict::fail("- the names are not sorted"),
///             // It did not end by itself, or could not be started: that says nothing.
///             _ => Verdict::invalid("sort did not run to its end"),
///         }
///     }
/// }
/// # #[cfg(feature = "conformance")]
/// agent_loop::conformance::acceptance(&Sorted, &[ExecReceipt::exited(0)]).ensure()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Acceptance: Send + Sync {
    /// The revision of the evaluator: it changes whenever a plan or a judgement can change.
    fn revision(&self) -> Digest;

    /// The names of the checks. The first one is meant where the model names none.
    fn names(&self) -> Vec<String>;

    /// The plan of the check `name`, or `None` where there is no such check.
    fn plan(&self, name: &str) -> Option<CheckPlan>;

    /// Judges the stages that have run so far. [`Verdict::Pass`] before the last stage lets the
    /// next one run, anything else ends the check.
    fn judge(&self, evidence: &Evidence<'_>) -> Verdict;

    /// What whoever verifies a run later can make the same acceptance from. It is kept on the
    /// controller's side, as `acceptance.json` in the folder of the run, where neither the model nor
    /// the sandbox sees it; the journal has its digest. Default: none, as for every acceptance that
    /// is not of this crate, and whoever verifies has to bring it along.
    fn description(&self) -> Option<Description> {
        None
    }
}

/// How much a pass is worth. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// A command ended with zero.
    ExitCode,
    /// The exit status and the counted results agree, and as many tests ran as should.
    Counted,
    /// Counted, in a place of its own, as a user who cannot change the tests, with the whole tree
    /// of processes ended and the same files before and after.
    Isolated,
    /// The expected values were never in the place where the code ran.
    OutsideValues,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExitCode => "exit code",
            Self::Counted => "counted",
            Self::Isolated => "isolated",
            Self::OutsideValues => "outside values",
        })
    }
}

/// What a check has shown, as far as it has run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Evidence<'a> {
    /// The plan it followed.
    pub plan: &'a CheckPlan,
    /// The workspace's files that were checked.
    pub tree: &'a Tree,
    /// The stages that have run, in order. There is at least one.
    pub stages: &'a [StageRun],
}

impl<'a> Evidence<'a> {
    /// What `stages` of `plan` have shown about `tree`.
    #[must_use]
    pub fn new(plan: &'a CheckPlan, tree: &'a Tree, stages: &'a [StageRun]) -> Self {
        Self { plan, tree, stages }
    }

    /// The stage that ran last, with its plan.
    #[must_use]
    pub fn last(&self) -> Option<(&'a Stage, &'a StageRun)> {
        let run = self.stages.last()?;
        Some((
            self.plan.stages.get(self.stages.len().checked_sub(1)?)?,
            run,
        ))
    }

    /// The digest of everything that was seen.
    ///
    /// # Errors
    /// None in practice: the evidence is plain data.
    pub(crate) fn digest(&self) -> serde_json::Result<Digest> {
        Ok(Digest::of(&serde_json::to_vec(self.stages)?))
    }
}

/// One stage that has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageRun {
    /// The name of the command.
    pub id: RequestId,
    /// What the place can do.
    pub place: Capabilities,
    /// What the place says of itself, so in which sandbox it was; null where it says nothing.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub identity: serde_json::Value,
    /// What was in the copy before the command ran.
    pub before: Manifest,
    /// How the command ended.
    pub receipt: ExecReceipt,
    /// What was in the copy after it; `None` where nothing had changed.
    pub after: Option<Manifest>,
}

impl StageRun {
    /// A stage that changed nothing.
    #[must_use]
    pub fn new(id: RequestId, place: Capabilities, before: Manifest, receipt: ExecReceipt) -> Self {
        Self {
            id,
            place,
            identity: serde_json::Value::Null,
            before,
            receipt,
            after: None,
        }
    }

    /// Says in which place it ran, as [`Workspace::identity`](crate::Workspace::identity) has it.
    #[must_use]
    pub fn identity(mut self, identity: serde_json::Value) -> Self {
        self.identity = identity;
        self
    }

    /// Says what was there after it.
    #[must_use]
    pub fn after(mut self, after: Manifest) -> Self {
        self.after = (after != self.before).then_some(after);
        self
    }
}

/// What a check says about the files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// They are right, as far as this check can see.
    #[non_exhaustive]
    Pass {
        /// In a few words: `4 tests passed`.
        summary: String,
        /// A number for the comparison of candidates, where the evaluator has one.
        score: Option<f64>,
    },
    /// They are wrong.
    #[non_exhaustive]
    Fail {
        /// What the model is told, where the stage is not [`hidden`](Stage::hidden), but for what looks
        /// like a secret in it.
        feedback: String,
    },
    /// The check has shown nothing: neither a pass nor a failure.
    #[non_exhaustive]
    Invalid {
        /// Why. The model is told it as well where the stage is not [`hidden`](Stage::hidden): what
        /// code under test has written can be in it.
        why: String,
    },
}

impl Verdict {
    /// A pass.
    #[must_use]
    pub fn pass(summary: impl Into<String>) -> Self {
        Self::Pass {
            summary: summary.into(),
            score: None,
        }
    }

    /// A pass with a score.
    #[must_use]
    pub fn scored(summary: impl Into<String>, score: f64) -> Self {
        Self::Pass {
            summary: summary.into(),
            score: Some(score),
        }
    }

    /// A failure, and what the model is told.
    #[must_use]
    pub fn fail(feedback: impl Into<String>) -> Self {
        Self::Fail {
            feedback: feedback.into(),
        }
    }

    /// No verdict, and why.
    #[must_use]
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid { why: why.into() }
    }

    /// One word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass { .. } => "pass",
            Self::Fail { .. } => "fail",
            Self::Invalid { .. } => "invalid",
        }
    }
}

/// The names of the checks of an acceptance with their plans.
pub(crate) fn plans(acceptance: &dyn Acceptance) -> BTreeMap<String, Option<CheckPlan>> {
    let names = acceptance.names().into_iter();
    names
        .map(|name| (name.clone(), acceptance.plan(&name)))
        .collect()
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Acceptance + ?Sized> Acceptance for $type {
            fn revision(&self) -> Digest {
                (**self).revision()
            }

            fn names(&self) -> Vec<String> {
                (**self).names()
            }

            fn plan(&self, name: &str) -> Option<CheckPlan> {
                (**self).plan(name)
            }

            fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
                (**self).judge(evidence)
            }

            fn description(&self) -> Option<Description> {
                (**self).description()
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Arc<dyn Acceptance>>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::File;
    use crate::path::RelPath;

    #[test]
    fn levels_are_ordered() {
        let levels = [
            Level::ExitCode,
            Level::Counted,
            Level::Isolated,
            Level::OutsideValues,
        ];
        assert!(levels.is_sorted());
    }

    #[test]
    fn what_is_after_is_kept_only_where_it_differs() {
        let place = Capabilities::default();
        let before: Manifest = [(RelPath::parse("a").unwrap(), File::new(*b"1").entry())]
            .into_iter()
            .collect();
        let run = StageRun::new(
            "t.1.1".parse().unwrap(),
            place,
            before.clone(),
            ExecReceipt::exited(0),
        );
        assert_eq!(run.clone().after(before).after, None);
        assert_eq!(
            run.after(Manifest::default()).after,
            Some(Manifest::default())
        );
    }
}
