//! Acceptance by any command, counted where its results can be counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counted::{Counted, Judged, not_started, timed_out};
use super::{
    Acceptance, At, CheckPlan, Evidence, InvalidTests, InvalidVariable, Level, VariableName,
    Verdict, pytest, recipe, report,
};
use crate::digest::Digest;
use crate::manifest::File;
use crate::path::{InvalidPath, RelPath};
use crate::serde_as;
use crate::text::{head_and_tail, printable};
use crate::workspace::{ExecReceipt, ExecSpec};

/// Changes whenever a plan or a judgement of this module can change.
const REVISION: &str = "command 1";
/// How much of a command's output the model is shown.
const SHOWN: usize = 1500;

/// Accepts a change when a command says so.
///
/// The command runs as the tests of [`UnittestAcceptance`](super::UnittestAcceptance) do: in a copy
/// of the workspace's files with the fixtures put last, without a shell, in an environment of
/// `PATH`, `LANG=C.UTF-8`, `HOME=../home` and what [`variable`](Self::variable) and
/// [`inherit`](Self::inherit) add.
///
/// What a pass is worth depends on what can be counted: an exit status alone is
/// [`Level::ExitCode`], with the counts of a test runner it is [`Level::Counted`]. Where exit status
/// and counts disagree, where no test ran or where there is no report, the verdict is
/// [`Verdict::Invalid`].
///
/// # Examples
/// ```
/// use agent_loop::acceptance::{CommandAcceptance, Counter};
/// use agent_loop::{Acceptance, Level};
///
/// let lint = CommandAcceptance::new(["ruff", "check", "."]).named("lint");
/// assert_eq!(lint.plan("lint").unwrap().level, Level::ExitCode);
///
/// let tests = CommandAcceptance::new(["python3", "-m", "unittest", "-q"])
///     .counted_by(Counter::Unittest, 4)
///     .fixture("test_amounts.py", "import unittest\n")?;
/// assert_eq!(tests.plan("check").unwrap().level, Level::Counted);
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandAcceptance {
    name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) counter: Counter,
    pub(crate) tests: Option<u32>,
    pub(crate) fixtures: Vec<(RelPath, File)>,
    pub(crate) variables: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) inherit: BTreeSet<VariableName>,
    pub(crate) dir: Option<RelPath>,
    pub(crate) may_change: Vec<RelPath>,
    search_path: String,
    #[serde(with = "serde_as::millis", rename = "limit_ms")]
    pub(crate) limit: Duration,
    pub(crate) at: At,
    pub(crate) hidden: bool,
}

/// Who says how many tests ran and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Counter {
    /// Nobody: the exit status is all there is.
    #[default]
    None,
    /// Python's `unittest`, in the text that it writes to standard error.
    Unittest,
    /// `pytest -q`, in the text that it writes to standard output.
    Pytest,
}

impl Counter {
    /// How many tests ran, where there is a report and it says so: to learn the number from a run on
    /// files that are known.
    ///
    /// # Examples
    /// ```
    /// use agent_loop::ExecReceipt;
    /// use agent_loop::acceptance::Counter;
    ///
    /// let failed = ExecReceipt::exited(1).stdout(*b"1 failed, 2 passed in 0.06s\n");
    /// assert_eq!(Counter::Pytest.ran(&failed), Some(3));
    /// assert_eq!(Counter::Unittest.ran(&failed), None);
    /// ```
    #[must_use]
    pub fn ran(self, receipt: &ExecReceipt) -> Option<u32> {
        let summaries = match self {
            Self::None => return None,
            Self::Unittest => {
                report::Report::parse(&String::from_utf8_lossy(&receipt.stderr)).summaries
            }
            Self::Pytest => {
                pytest::Report::parse(&String::from_utf8_lossy(&receipt.stdout)).summaries
            }
        };
        match summaries.as_slice() {
            [summary] => Some(summary.ran),
            _ => None,
        }
    }
}

impl CommandAcceptance {
    /// A check called `check` that passes where `argv` ends with zero, within 30 s.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            name: "check".to_owned(),
            argv: argv.into_iter().map(Into::into).collect(),
            counter: Counter::None,
            tests: None,
            fixtures: Vec::new(),
            variables: BTreeMap::new(),
            inherit: BTreeSet::new(),
            dir: None,
            may_change: Vec::new(),
            search_path: recipe::SEARCH_PATH.to_owned(),
            limit: recipe::LIMIT,
            at: At::Here,
            hidden: false,
        }
    }

    /// The tests in the file `path` with content `tests`, run by pytest, of which `count` have to
    /// run. pytest has to be installed in the sandbox; plugins, `conftest.py` and configuration
    /// files have no say.
    ///
    /// # Errors
    /// Where the path cannot be used, or `count` is zero.
    pub fn pytest(
        path: impl AsRef<str>,
        tests: impl Into<Vec<u8>>,
        count: u32,
    ) -> Result<Self, InvalidTests> {
        let path = RelPath::parse(path.as_ref())?;
        if count == 0 {
            return Err(InvalidTests::NoTests(path));
        }
        let arguments = recipe::python_list([
            "-q",
            "--no-header",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "--noconftest",
            "-c",
            "/dev/null",
            "--rootdir",
            ".",
            // Behind `--`, a path is a path whatever it begins with.
            "--",
            path.as_str(),
        ]);
        let program = format!(
            "import pytest, sys; sys.path.insert(0, \".\"); sys.exit(pytest.main({arguments}))"
        );
        let mut acceptance = Self::new(recipe::python(program))
            .named("unit")
            .counted_by(Counter::Pytest, count)
            .variable("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1");
        acceptance.fixtures.push((path, File::new(tests)));
        Ok(acceptance)
    }

    /// Changes the name of the check. Default: `check`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Has the results counted: `tests` have to run.
    #[must_use]
    pub fn counted_by(mut self, counter: Counter, tests: u32) -> Self {
        self.counter = counter;
        self.tests = Some(tests);
        self
    }

    /// Adds a file of the check. The model can never write it.
    ///
    /// # Errors
    /// Where the path cannot be used.
    pub fn fixture(
        mut self,
        path: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidPath> {
        self.fixtures.push(recipe::fixture(path, bytes)?);
        Ok(self)
    }

    /// Adds a variable to the command's environment. It is kept in the journal: not for secrets.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Takes variables over from the environment that the place gives its commands, by their names;
    /// what is not set there is not set for the command. Default: none. `PATH` is then the place's
    /// in place of [`search_path`](Self::search_path), and what [`variable`](Self::variable) sets
    /// stays.
    ///
    /// Only the names are in the plan. So a check can need what an image has in folders of its own,
    /// as Rust's toolchains, and is the same check on every machine; what it finds there is the
    /// place's, as the programs in it are. No shell interprets the values, nor anything else of the
    /// command, but one has to be there (`sh`).
    ///
    /// # Errors
    /// Where a name is none: letters, digits and `_`, and no digit first.
    ///
    /// # Examples
    /// ```
    /// use agent_loop::acceptance::CommandAcceptance;
    ///
    /// let tests = CommandAcceptance::new(["cargo", "test"]);
    /// let tests = tests.inherit(["PATH", "RUSTUP_HOME", "CARGO_HOME"])?;
    /// let wrong = tests.inherit(["CARGO-HOME"]).unwrap_err();
    /// assert_eq!(wrong.name, "CARGO-HOME");
    /// # Ok::<(), agent_loop::acceptance::InvalidVariable>(())
    /// ```
    pub fn inherit<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidVariable> {
        for name in names {
            self.inherit.insert(VariableName::try_from(name.into())?);
        }
        Ok(self)
    }

    /// Runs the command in a folder of the copy. Default: the copy itself.
    ///
    /// # Errors
    /// Where the path cannot be used.
    pub fn dir(mut self, path: impl AsRef<str>) -> Result<Self, InvalidPath> {
        self.dir = Some(RelPath::parse(path.as_ref())?);
        Ok(self)
    }

    /// Lets the command create and change what is at `path` or below it, in its copy. Where the
    /// place isolates, it cannot all the same: there the copy belongs to another user.
    ///
    /// # Errors
    /// Where the path cannot be used.
    pub fn may_change(mut self, path: impl AsRef<str>) -> Result<Self, InvalidPath> {
        self.may_change.push(RelPath::parse(path.as_ref())?);
        Ok(self)
    }

    /// Where programs are looked for, as in `PATH`. Default: the folders of a Linux image,
    /// `/usr/local` first. Of no use where `PATH` is [inherited](Self::inherit).
    #[must_use]
    pub fn search_path(mut self, path: impl Into<String>) -> Self {
        self.search_path = path.into();
        self
    }

    /// How long the command may run. Default: 30 s. The attempt's limit for a check applies as
    /// well.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it in a fresh place, which the attempt has to be given.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.at = At::Fresh;
        self
    }

    /// Runs it in a fresh place, and never tells the model what it says.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.hidden = true;
        self.fresh()
    }

    fn by_exit_code(receipt: &ExecReceipt, limit: Duration) -> Judged {
        if receipt.timed_out {
            return Judged::Fail(timed_out(limit));
        }
        match (receipt.exit_code, not_started(receipt)) {
            (_, Some(why)) => Judged::Invalid(why),
            (Some(0), _) => Judged::Pass { tests: 0 },
            (None, _) if receipt.signal.is_none() => {
                Judged::Invalid("how the command ended is not known".to_owned())
            }
            _ => Judged::Failures,
        }
    }
}

/// The end of a command with what it wrote, for the model.
fn shown(receipt: &ExecReceipt) -> String {
    let streams = [&receipt.stdout, &receipt.stderr];
    let written: Vec<String> = streams
        .iter()
        .map(|bytes| printable(bytes).trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    let output = written.join("\n");
    let ending = receipt.ending();
    match output.is_empty() {
        true => format!("- the command ended with {ending} and wrote nothing"),
        false => format!(
            "- the command ended with {ending} and wrote:\n{}",
            head_and_tail(&output, SHOWN)
        ),
    }
}

impl Acceptance for CommandAcceptance {
    fn revision(&self) -> Digest {
        let parts = format!("{REVISION} {:?} {}", self.counter, self.hidden);
        Digest::of(parts.as_bytes())
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        if name != self.name {
            return None;
        }
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
        let argv = self.argv.iter().cloned();
        let command = recipe::clean(&self.search_path, &self.inherit, variables, argv);
        let mut spec = ExecSpec::new(command).limit(self.limit);
        spec.dir.clone_from(&self.dir);
        let mut stage = recipe::stage(spec, self.at, &self.fixtures);
        stage.tests = self.tests;
        stage.may_change.clone_from(&self.may_change);
        let level = match self.counter {
            Counter::None => Level::ExitCode,
            Counter::Unittest | Counter::Pytest => Level::Counted,
        };
        Some(CheckPlan::new(stage, level))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let Some((stage, run)) = evidence.last() else {
            return Verdict::invalid("no stage has run");
        };
        let (receipt, limit, tests) = (&run.receipt, stage.spec.limit, stage.tests);
        let (judged, feedback) = match self.counter {
            Counter::None => (Self::by_exit_code(receipt, limit), shown(receipt)),
            Counter::Unittest => {
                let report = report::Report::parse(&String::from_utf8_lossy(&receipt.stderr));
                let counted = Counted {
                    receipt,
                    summaries: &report.summaries,
                    truncated: receipt.stderr_truncated,
                    failing: &[1],
                    tests,
                    limit,
                };
                let (stderr, fixtures) = (&receipt.stderr, &stage.fixtures);
                let feedback = super::condense::failures(&report, stderr, fixtures, evidence.tree);
                (counted.judge(), feedback)
            }
            Counter::Pytest => {
                let report = pytest::Report::parse(&String::from_utf8_lossy(&receipt.stdout));
                let counted = Counted {
                    receipt,
                    summaries: &report.summaries,
                    truncated: receipt.stdout_truncated,
                    // 2: a module could not be imported.
                    failing: &[1, 2],
                    tests,
                    limit,
                };
                (counted.judge(), report.condensed())
            }
        };
        match judged {
            Judged::Pass { .. } if self.counter == Counter::None => {
                Verdict::pass("the command ended with exit code 0")
            }
            Judged::Pass { tests } => Verdict::pass(format!("{tests} tests passed")),
            Judged::Invalid(why) => Verdict::invalid(why),
            _ if self.hidden => Verdict::fail(super::HIDDEN),
            Judged::Fail(feedback) => Verdict::fail(feedback),
            Judged::Failures => Verdict::fail(feedback),
        }
    }

    fn description(&self) -> Option<super::Description> {
        Some(super::Description::Command(Box::new(self.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::StageRun;
    use crate::manifest::{Manifest, Tree};
    use crate::workspace::Capabilities;

    fn judged(acceptance: &CommandAcceptance, receipt: ExecReceipt) -> (&'static str, String) {
        let plan = acceptance.plan(&acceptance.name).unwrap();
        let id = "t-1.1.1".parse().unwrap();
        let run = StageRun::new(id, Capabilities::default(), Manifest::default(), receipt);
        let verdict = acceptance.judge(&Evidence::new(&plan, &Tree::new(), &[run]));
        let text = match &verdict {
            Verdict::Pass { summary, .. } => summary.clone(),
            Verdict::Fail { feedback } => feedback.clone(),
            Verdict::Invalid { why } => why.clone(),
        };
        (verdict.word(), text)
    }

    #[test]
    fn an_exit_code_passes_at_its_level_and_shows_what_was_written() {
        let lint = CommandAcceptance::new(["lint"]);
        assert_eq!(lint.plan("check").unwrap().level, Level::ExitCode);
        assert_eq!(lint.plan("other"), None);
        let passed = ("pass", "the command ended with exit code 0".to_owned());
        assert_eq!(judged(&lint, ExecReceipt::exited(0)), passed);
        let failed = ExecReceipt::exited(124)
            .stdout(*b"\x1b[2Jout")
            .stderr(*b"err\n");
        let said = "- the command ended with exit code 124 and wrote:\n\\u{1b}[2Jout\nerr";
        assert_eq!(judged(&lint, failed), ("fail", said.to_owned()));
        let late = ExecReceipt::timed_out(Duration::from_secs(30));
        let said = "- the tests did not end within 30 s".to_owned();
        assert_eq!(judged(&lint, late), ("fail", said));
        let missing = ExecReceipt::exited(127).stderr(*b"env: 'lint': No such file");
        assert_eq!(judged(&lint, missing).0, "invalid");
        assert_eq!(judged(&lint, ExecReceipt::default()).0, "invalid");
        let hidden = judged(&lint.hidden(), ExecReceipt::exited(1).stdout(*b"secret 42"));
        assert_eq!(hidden, ("fail", super::super::HIDDEN.to_owned()));
    }

    #[test]
    fn pytest_passes_where_exit_code_and_counts_agree() {
        let tests = CommandAcceptance::pytest("test_a.py", "…", 3).unwrap();
        let plan = tests.plan("unit").unwrap();
        assert_eq!(
            (plan.level, plan.stages[0].tests),
            (Level::Counted, Some(3))
        );
        assert!(
            plan.stages[0]
                .spec
                .argv
                .contains(&"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1".to_owned())
        );
        let table = [
            (0, "...  [100%]\n3 passed in 0.05s\n", "pass"),
            (0, "3 passed, 1 warning in 0.05s\n", "pass"),
            (1, "1 failed, 2 passed in 0.05s\n", "fail"),
            (2, "1 error in 0.05s\n", "fail"),
            (0, "2 passed, 1 skipped in 0.05s\n", "fail"),
            (0, "3 passed, 1 deselected in 0.05s\n", "fail"),
            // Exit status and counts disagree, or are not those that should be.
            (0, "1 failed, 2 passed in 0.05s\n", "invalid"),
            (1, "3 passed in 0.05s\n", "invalid"),
            (3, "1 failed, 2 passed in 0.05s\n", "invalid"),
            (0, "2 passed in 0.05s\n", "invalid"),
            (0, "4 passed in 0.05s\n", "invalid"),
            (0, "2 passed, 1 xfailed in 0.05s\n", "invalid"),
            (0, "2 passed, 1 xpassed in 0.05s\n", "invalid"),
            (5, "no tests ran in 0.03s\n", "invalid"),
            (0, "", "invalid"),
            (0, "3 passed in 0.05s\n3 passed in 0.05s\n", "invalid"),
        ];
        for (code, stdout, word) in table {
            let receipt = ExecReceipt::exited(code).stdout(stdout);
            assert_eq!(judged(&tests, receipt).0, word, "{code} {stdout:?}");
        }
        let zero = CommandAcceptance::pytest("test_a.py", "…", 0);
        assert!(matches!(zero, Err(InvalidTests::NoTests(_))));
    }

    #[test]
    fn every_setting_is_in_the_plan() {
        let plain = || CommandAcceptance::new(["a"]);
        let changed = [
            plain().counted_by(Counter::Unittest, 1),
            plain().fixture("t.py", "x").unwrap(),
            plain().variable("A", "b"),
            plain().inherit(["A"]).unwrap(),
            plain().inherit(["A", "PATH"]).unwrap(),
            plain().dir("sub").unwrap(),
            plain().may_change("out").unwrap(),
            plain().search_path("/x"),
            plain().limit(Duration::from_secs(1)),
            plain().fresh(),
        ];
        let digest = |one: &CommandAcceptance| one.plan("check").unwrap().digest();
        let mut seen = BTreeSet::from([digest(&plain())]);
        for one in &changed {
            assert!(seen.insert(digest(one)), "{one:?}");
        }
        assert_ne!(plain().hidden().revision(), plain().revision());
    }

    #[test]
    fn what_is_inherited_is_known_by_its_names_alone() {
        let argv = |acceptance: CommandAcceptance| {
            let plan = acceptance.plan("check").unwrap();
            plan.stages[0].spec.argv.join(" ")
        };
        let plain = || CommandAcceptance::new(["t", "$(id)"]).variable("B", "`id`");
        assert_eq!(
            argv(plain().search_path("/x")),
            "env -i PATH=/x LANG=C.UTF-8 HOME=../home B=`id` t $(id)"
        );
        let inherits = plain().search_path("/x").inherit(["C", "A"]).unwrap();
        assert_eq!(
            argv(inherits.clone()),
            "sh -c exec env -i LANG=C.UTF-8 HOME=../home ${A+A=\"$A\"} ${C+C=\"$C\"} \"$@\" \
             sh PATH=/x B=`id` t $(id)"
        );
        // A portable check: where programs are is not in it.
        let [one, other] = ["/x", "/y"].map(|path| {
            let acceptance = plain().search_path(path).inherit(["PATH"]).unwrap();
            acceptance.plan("check").unwrap().digest()
        });
        assert_eq!(one, other);
        let described = serde_json::to_value(&inherits).unwrap();
        assert_eq!(described["inherit"], serde_json::json!(["A", "C"]));
        assert_eq!(serde_json::to_value(plain()).unwrap().get("inherit"), None);
    }
}
