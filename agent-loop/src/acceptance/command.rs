//! Acceptance by any command, counted where its results can be counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counted::{Counted, Judged, not_started, timed_out};
use super::{
    Acceptance, At, CheckPlan, Evidence, InvalidTests, InvalidVariable, Level, VariableName,
    Verdict, libtest, pytest, recipe, report,
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
    /// Rust's test harness, as `cargo test` runs it, in the texts that its programs write to standard
    /// output: unit tests, each file below `tests/` and doc tests are added up. What is counted are
    /// the tests that ran; an ignored one did not, and is a failure where the number that has to
    /// run is not reached without it. One that is filtered out did not run either.
    ///
    /// A proposal that does not compile fails, and is told the first errors of the compiler; so does
    /// one whose test program is ended by a signal other than SIGKILL or by an exit status of its
    /// own. Where cargo itself has nothing to run, for a lock file that has to change or a registry
    /// that is out of reach, the verdict is [`Verdict::Invalid`].
    ///
    /// `cargo test` leaves out the programs that come after one in which tests failed; with
    /// `--no-fail-fast` they are told, too.
    Libtest,
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
    ///
    /// let program = "running 2 tests\ntest result: ok. 1 passed; 0 failed; 1 ignored; \
    ///     0 measured; 0 filtered out; finished in 0.00s\n";
    /// let both = ExecReceipt::exited(0).stdout(program.repeat(2));
    /// assert_eq!(Counter::Libtest.ran(&both), Some(2));
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
            Self::Libtest => {
                let total = libtest::Report::parse(&receipt.stdout).total;
                total.into_iter().collect()
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

    /// The tests in the file `path` with content `tests`, an integration test `tests/NAME.rs` of the
    /// crate in the workspace's root folder, run by cargo, of which `count` have to run:
    ///
    /// ```text
    /// CARGO_TARGET_DIR=../cache CARGO_TERM_COLOR=never cargo test --offline --test NAME
    /// ```
    ///
    /// The toolchain is the place's: `PATH`, `RUSTUP_HOME` and `CARGO_HOME` are
    /// [inherited](Self::inherit). Each check builds from nothing, within [`limit`](Self::limit), 30 s
    /// by default. Without a network, dependencies have to be in `CARGO_HOME` or among the files.
    /// A lock file that is missing is made, and may be; where the place isolates it cannot be, so a
    /// crate needs its `Cargo.lock` there, as cargo writes it.
    ///
    /// The level is [`Level::Counted`]. The code under test runs in the process that reports, and
    /// before that its build script and its procedural macros do in those that build: one that
    /// sets out to forge a report can. What says how the tests are built and run, `Cargo.toml`,
    /// `build.rs` and `.cargo/`, should be nothing that a model may write, or a
    /// [`fixture`](Self::fixture). Below [`fresh`](Self::fresh) what is in `CARGO_HOME` is in the
    /// code's reach as well.
    ///
    /// # Errors
    /// Where the path is no path of an integration test, or `count` is zero.
    ///
    /// # Examples
    /// ```
    /// use agent_loop::acceptance::CommandAcceptance;
    /// use agent_loop::{Acceptance, Level};
    ///
    /// let tests = "#[test]\nfn low() { assert_eq!(clamp::clamp(0, 1, 3), 1); }\n";
    /// let tests = CommandAcceptance::cargo_test("tests/clamp.rs", tests, 1)?;
    /// assert_eq!(tests.plan("unit").unwrap().level, Level::Counted);
    /// assert!(CommandAcceptance::cargo_test("src/clamp.rs", "", 1).is_err());
    /// # Ok::<(), agent_loop::acceptance::InvalidTests>(())
    /// ```
    pub fn cargo_test(
        path: impl AsRef<str>,
        tests: impl Into<Vec<u8>>,
        count: u32,
    ) -> Result<Self, InvalidTests> {
        let path = RelPath::parse(path.as_ref())?;
        let name = path.as_str().strip_prefix("tests/");
        let Some(name) = name
            .and_then(|name| name.strip_suffix(".rs"))
            .filter(|name| libtest::is_name(name))
        else {
            return Err(InvalidTests::CargoName(path));
        };
        if count == 0 {
            return Err(InvalidTests::NoTests(path));
        }
        let mut acceptance = Self::cargo(["cargo", "test", "--offline", "--test", name])?
            .named("unit")
            .counted_by(Counter::Libtest, count);
        acceptance.fixtures.push((path, File::new(tests)));
        Ok(acceptance)
    }

    /// `argv`, a command of cargo's, with the toolchain of its place: `PATH`, `RUSTUP_HOME` and
    /// `CARGO_HOME` are [inherited](Self::inherit). What it builds is in `../cache`, so that nothing
    /// is left in the copy but a lock file that was missing.
    ///
    /// # Errors
    /// None in practice: the path is that of the lock file.
    ///
    /// # Examples
    /// ```
    /// use agent_loop::acceptance::CommandAcceptance;
    /// use agent_loop::{Acceptance, Level};
    ///
    /// let lint = CommandAcceptance::cargo(["cargo", "clippy", "--", "-D", "warnings"])?;
    /// assert_eq!(lint.plan("check").unwrap().level, Level::ExitCode);
    /// # Ok::<(), agent_loop::InvalidPath>(())
    /// ```
    pub fn cargo<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Result<Self, InvalidPath> {
        let mut acceptance = Self::new(argv)
            .variable("CARGO_TARGET_DIR", "../cache")
            .variable("CARGO_TERM_COLOR", "never")
            .may_change("Cargo.lock")?;
        acceptance.inherit = VariableName::of_cargo();
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
        self.inherit.extend(VariableName::all(names)?);
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
        stage.hidden = self.hidden;
        stage.may_change.clone_from(&self.may_change);
        let level = match self.counter {
            Counter::None => Level::ExitCode,
            Counter::Unittest | Counter::Pytest | Counter::Libtest => Level::Counted,
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
            Counter::Libtest => {
                let report = libtest::Report::parse(&receipt.stdout);
                (report.judge(receipt, tests, limit), report.condensed())
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
mod tests;
