//! What a check does, stage by stage.

use serde::{Deserialize, Serialize};

use super::Level;
use crate::digest::Digest;
use crate::manifest::{File, Manifest, Tree};
use crate::path::RelPath;
use crate::workspace::ExecSpec;

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
        Self::of(vec![stage], level)
    }

    /// A plan with these stages, of which there has to be one.
    pub(super) fn of(stages: Vec<Stage>, level: Level) -> Self {
        Self {
            stages,
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

    /// Lets the model be told what the acceptance says of every stage.
    pub(crate) fn reveal(&mut self) {
        for stage in &mut self.stages {
            stage.hidden = false;
        }
    }

    /// The digest of everything in it but what the model is told: a verdict is bound to it.
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
    /// Whether the model must not learn what the stage shows. Whatever comes of it, short of a pass,
    /// the model is told one and the same sentence: a failure, no verdict, and a command that could
    /// not be carried out are not told apart. The journal has all of it.
    ///
    /// It is not in the [digest](CheckPlan::digest): what a pass is worth does not depend on it.
    pub hidden: bool,
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
            hidden: false,
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

    /// Keeps what it shows from the model. Default: the model is told.
    ///
    /// What runs in a place that others use later can leave what it has seen there: a stage with
    /// something to hide belongs into a fresh one, [`At::Fresh`].
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.hidden = true;
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
    /// Whether the model must not learn what it shows. Journals from before it could be told have
    /// none, and are played by what was told then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
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
            hidden: stage.hidden,
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
            hidden: self.hidden,
        }
    }
}

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
        let told = CheckPlan::new(plan().stages[0].clone().hidden(), Level::Counted);
        assert_eq!(told.digest(), plan().digest(), "what a model is told");
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
}
