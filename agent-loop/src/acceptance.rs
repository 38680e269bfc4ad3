//! What has to be true before a change is accepted.

mod command;
mod compose;
mod condense;
mod counted;
mod description;
mod io_cases;
#[cfg(feature = "polyaxon")]
mod job;
mod pytest;
mod recipe;
mod report;
#[cfg(test)]
mod test_kit;
mod unittest;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{File, Manifest, Tree};
use crate::path::RelPath;
use crate::workspace::{Capabilities, ExecReceipt, ExecSpec};

pub use command::{CommandAcceptance, Counter};
pub use compose::{Composed, all, then};
pub use description::Description;
pub use io_cases::{Expected, InvalidCases, IoCase, IoCases};
#[cfg(feature = "polyaxon")]
pub use job::{JobResult, JobVerdict, JobVerification, TooLarge, VerificationError};
pub use unittest::{InvalidTests, UnittestAcceptance};

/// What the model is told where what failed must stay unknown to it.
const HIDDEN: &str = "- an independent verification did not pass";

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

/// How one check is carried out: one stage after the other, each in an empty place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckPlan {
    /// The stages, in order. There is at least one.
    pub stages: Vec<Stage>,
    /// The level that a pass of all stages can reach. A place that isolates can lift
    /// [`Level::Counted`] to [`Level::Isolated`], and one that does not lowers it again.
    pub level: Level,
    /// The digest of a plan of which only the summary is known.
    sealed: Option<Digest>,
}

impl CheckPlan {
    /// A plan with one stage.
    #[must_use]
    pub fn new(stage: Stage, level: Level) -> Self {
        Self {
            stages: vec![stage],
            level,
            sealed: None,
        }
    }

    /// Adds a stage, which runs where all before it have passed.
    #[must_use]
    pub fn then(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// Lets no command run longer than `limit`.
    pub(crate) fn limit(&mut self, limit: std::time::Duration) {
        for stage in &mut self.stages {
            stage.spec.limit = stage.spec.limit.min(limit);
        }
    }

    /// The digest of everything in it: a verdict is bound to it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        if let Some(digest) = self.sealed {
            return digest;
        }
        let mut parts = vec![b"plan 1".to_vec(), self.level.to_string().into_bytes()];
        for stage in &self.stages {
            stage.digest_parts(&mut parts);
        }
        Digest::of_parts(parts.iter().map(Vec::as_slice))
    }

    /// What the journal says of it: everything but the values of the environment, which may be
    /// secret, and the bytes of the fixtures, which may be hidden cases.
    pub(crate) fn summary(&self) -> PlanSummary {
        PlanSummary {
            digest: self.digest(),
            level: self.level,
            stages: self.stages.iter().map(StageSummary::of).collect(),
        }
    }
}

/// One command of a check, with what has to be there when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stage {
    /// Where it runs.
    pub at: At,
    /// Files that belong to the check. They are put last, so nothing in the workspace can take
    /// their place, and must be the same after the command. The model can never write them.
    pub fixtures: Tree,
    /// What runs. Its folder is relative to the copy of the workspace; `../home` and `../cache`
    /// are free for the command to fill.
    pub spec: ExecSpec,
    /// How many tests should run, where that can be counted.
    pub tests: Option<u32>,
    /// Paths, and everything below them, that the command may create or change.
    pub may_change: Vec<RelPath>,
}

impl Stage {
    /// A command in an empty place beside the workspace, without fixtures.
    #[must_use]
    pub fn new(spec: ExecSpec) -> Self {
        Self {
            at: At::Here,
            fixtures: Tree::new(),
            spec,
            tests: None,
            may_change: Vec::new(),
        }
    }

    /// Says where it runs.
    #[must_use]
    pub fn at(mut self, at: At) -> Self {
        self.at = at;
        self
    }

    /// Adds a fixture.
    #[must_use]
    pub fn fixture(mut self, path: RelPath, file: File) -> Self {
        self.fixtures.insert(path, file);
        self
    }

    /// Says how many tests should run.
    #[must_use]
    pub fn tests(mut self, count: u32) -> Self {
        self.tests = Some(count);
        self
    }

    /// Lets the command create and change what is at `path` or below it.
    #[must_use]
    pub fn may_change(mut self, path: RelPath) -> Self {
        self.may_change.push(path);
        self
    }

    fn digest_parts(&self, parts: &mut Vec<Vec<u8>>) {
        let spec = &self.spec;
        let mut list = |name: &str, items: Vec<Vec<u8>>| {
            parts.push(format!("{name} {}", items.len()).into_bytes());
            parts.extend(items);
        };
        let text = |text: &str| text.as_bytes().to_vec();
        list("stage", vec![text(self.at.as_str())]);
        list(
            "fixtures",
            vec![self.fixtures.hash().digest().as_bytes().to_vec()],
        );
        list("argv", spec.argv.iter().map(|arg| text(arg)).collect());
        let env = spec
            .env
            .iter()
            .flat_map(|(name, value)| [text(name), text(value)]);
        list("env", env.collect());
        list(
            "dir",
            spec.dir.iter().map(|dir| text(dir.as_str())).collect(),
        );
        list("stdin", vec![spec.stdin.clone()]);
        let numbers = [spec.limit.as_nanos(), spec.keep_bytes as u128];
        list(
            "limits",
            numbers
                .iter()
                .map(|number| number.to_be_bytes().to_vec())
                .collect(),
        );
        list(
            "tests",
            self.tests
                .iter()
                .map(|count| count.to_be_bytes().to_vec())
                .collect(),
        );
        list(
            "may change",
            self.may_change
                .iter()
                .map(|path| text(path.as_str()))
                .collect(),
        );
    }
}

/// Where a stage runs. Both are empty places that the workspace's files are copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum At {
    /// An empty folder in the sandbox that holds the workspace.
    Here,
    /// A new place, from the attempt's `Workspaces`.
    Fresh,
}

impl At {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Fresh => "fresh",
        }
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
        /// What the model is told.
        feedback: String,
    },
    /// The check has shown nothing: neither a pass nor a failure.
    #[non_exhaustive]
    Invalid {
        /// Why.
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

/// A plan as the journal shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanSummary {
    /// The digest of the whole plan.
    pub digest: Digest,
    /// The level that a pass can reach.
    pub level: Level,
    /// Its stages.
    pub stages: Vec<StageSummary>,
}

/// A stage as the journal shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageSummary {
    /// Where it runs.
    pub at: At,
    /// The fixtures, without their bytes.
    pub fixtures: Manifest,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The names of the variables that are added to the environment.
    pub env: Vec<String>,
    /// The folder it runs in.
    pub dir: Option<RelPath>,
    /// How long it may run.
    pub limit_ms: u64,
    /// How many tests should run.
    pub tests: Option<u32>,
    /// What the command may change.
    pub may_change: Vec<RelPath>,
}

impl StageSummary {
    fn of(stage: &Stage) -> Self {
        Self {
            at: stage.at,
            fixtures: stage.fixtures.manifest(),
            argv: stage.spec.argv.clone(),
            env: stage.spec.env.keys().cloned().collect(),
            dir: stage.spec.dir.clone(),
            limit_ms: crate::serde_as::millis::whole(stage.spec.limit),
            tests: stage.tests,
            may_change: stage.may_change.clone(),
        }
    }
}

impl PlanSummary {
    /// The plan as far as it is known from here: without the bytes of its fixtures, and without what
    /// its commands are given. Enough to compare with, and nothing to be carried out.
    pub(crate) fn sealed(&self) -> CheckPlan {
        CheckPlan {
            stages: self.stages.iter().map(StageSummary::sealed).collect(),
            level: self.level,
            sealed: Some(self.digest),
        }
    }
}

impl StageSummary {
    fn sealed(&self) -> Stage {
        let mut spec = ExecSpec::new(self.argv.iter().cloned());
        spec.dir.clone_from(&self.dir);
        spec.limit = std::time::Duration::from_millis(self.limit_ms);
        let fixtures = self.fixtures.iter();
        Stage {
            at: self.at,
            fixtures: fixtures
                .filter_map(|(path, entry)| Some((path.clone(), File::sealed(entry)?)))
                .collect(),
            spec,
            tests: self.tests,
            may_change: self.may_change.clone(),
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
    use std::time::Duration;

    use super::*;

    fn plan() -> CheckPlan {
        let spec = ExecSpec::new(["a", "b"])
            .env("N", "secret")
            .limit(Duration::from_secs(1));
        let path = |text| RelPath::parse(text).unwrap();
        let stage = Stage::new(spec)
            .fixture(path("t.py"), File::new(*b"t"))
            .tests(4);
        CheckPlan::new(stage.may_change(path("out")), Level::Counted)
    }

    #[test]
    fn every_part_of_a_plan_is_in_its_digest() {
        let path = |text| RelPath::parse(text).unwrap();
        let changes: [fn(&mut Stage, RelPath); 11] = [
            |stage, _| stage.at = At::Fresh,
            |stage, path| drop(stage.fixtures.insert(path, File::new(*b"u"))),
            |stage, _| stage.spec.argv = vec!["ab".to_owned()],
            |stage, _| stage.spec.argv.push("c".to_owned()),
            |stage, _| drop(stage.spec.env.insert("N".to_owned(), "other".to_owned())),
            |stage, path| stage.spec.dir = Some(path),
            |stage, _| stage.spec.stdin = b"x".to_vec(),
            |stage, _| stage.spec.limit = Duration::from_secs(2),
            |stage, _| stage.spec.keep_bytes = 1,
            |stage, _| stage.tests = Some(5),
            |stage, path| stage.may_change.push(path),
        ];
        let mut digests = std::collections::BTreeSet::from([plan().digest()]);
        for (number, change) in changes.into_iter().enumerate() {
            let mut plan = plan();
            change(&mut plan.stages[0], path("t.py"));
            assert!(
                digests.insert(plan.digest()),
                "change {number} is not in the digest"
            );
        }
        let twice = plan().then(plan().stages[0].clone());
        assert!(digests.insert(twice.digest()));
        let level = CheckPlan {
            level: Level::ExitCode,
            ..plan()
        };
        assert!(digests.insert(level.digest()));
    }

    #[test]
    fn the_journal_sees_no_value_of_the_environment_and_no_byte_of_a_fixture() {
        let json = serde_json::to_string(&plan().summary()).unwrap();
        assert!(!json.contains("secret"), "{json}");
        assert!(json.contains(r#""env":["N"]"#), "{json}");
        assert!(json.contains(&Digest::of(b"t").to_string()), "{json}");
    }

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
