//! Acceptance by Python's `unittest`, counted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counted::{Counted, Judged};
use super::report::Report;
use super::{Acceptance, At, CheckPlan, Evidence, Level, Stage, Verdict, condense, recipe};
use crate::digest::Digest;
use crate::manifest::File;
use crate::path::{InvalidPath, RelPath};
use crate::serde_as;
use crate::workspace::ExecSpec;

/// Changes whenever a plan or a judgement of this module can change.
const REVISION: &str = "unittest 1";

/// The name of the one check.
const NAME: &str = "unit";

/// Accepts a change when a file of `unittest` tests passes, with the number of tests that it has.
///
/// The tests run in a copy of the workspace's files, with fresh caches and an otherwise empty
/// environment, in Python's isolated mode, so that files named like modules of the standard
/// library, startup files and stale bytecode have no say:
///
/// ```text
/// env -i PATH=… LANG=C.UTF-8 HOME=../home python3 -I -B -X pycache_prefix=../cache -c '…discover -s . -p test_amounts.py…'
/// ```
///
/// It passes where the exit status is zero *and* the report says `OK` *and* as many tests ran as
/// should, none skipped. Where exit status and report disagree, where there is no report or where
/// no test ran, the verdict is [`Verdict::Invalid`]. The level is [`Level::Counted`]: the code
/// under test runs in the process that reports, so a program that sets out to forge a report can.
///
/// # Examples
/// ```
/// use agent_loop::{Acceptance, UnittestAcceptance};
///
/// let tests = "import unittest, amounts\n\nclass T(unittest.TestCase):\n    def test_one(self): pass\n";
/// let acceptance = UnittestAcceptance::new("test_amounts.py", tests, 1)?;
/// assert_eq!(acceptance.names(), ["unit"]);
/// # Ok::<(), agent_loop::acceptance::InvalidTests>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnittestAcceptance {
    pub(crate) suites: Vec<Suite>,
    search_path: String,
    #[serde(with = "serde_as::millis", rename = "limit_ms")]
    limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suite {
    pub(crate) at: At,
    /// Whether the model must not learn what they say.
    hidden: bool,
    pub(crate) tests: RelPath,
    pub(crate) count: u32,
    pub(crate) fixtures: Vec<(RelPath, File)>,
}

/// Tests that cannot be run as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTests {
    /// The path cannot be used.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// The file's name is no name of a module.
    #[error(
        "{0} cannot be a test module: its name has to be letters, digits and `_`, and end in `.py`"
    )]
    Name(RelPath),
    /// The file is no integration test that cargo finds by itself.
    #[error(
        "{0} cannot be an integration test of cargo: it has to be tests/NAME.rs, and the name \
         letters, digits, `_` and `-`, a letter or `_` first"
    )]
    CargoName(RelPath),
    /// No test would be a pass.
    #[error("{0} has to have at least one test")]
    NoTests(RelPath),
}

impl UnittestAcceptance {
    /// The tests in the file `path` with content `tests`, of which `count` have to run.
    ///
    /// # Errors
    /// Where the path is no path of a Python module, or `count` is zero.
    pub fn new(
        path: impl AsRef<str>,
        tests: impl Into<Vec<u8>>,
        count: u32,
    ) -> Result<Self, InvalidTests> {
        Ok(Self {
            suites: vec![Suite::new(At::Here, path.as_ref(), tests.into(), count)?],
            search_path: recipe::SEARCH_PATH.to_owned(),
            limit: recipe::LIMIT,
        })
    }

    /// Adds a file that the tests of [`new`](Self::new) need.
    ///
    /// # Errors
    /// Where the path cannot be used.
    pub fn fixture(
        mut self,
        path: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidPath> {
        let fixture = recipe::fixture(path, bytes)?;
        if let Some(suite) = self.suites.first_mut() {
            suite.fixtures.push(fixture);
        }
        Ok(self)
    }

    /// Adds tests that the model never sees, nor what they say. They run in a fresh place after
    /// the others have passed; the attempt has to be given such places.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn hidden(
        mut self,
        path: impl AsRef<str>,
        tests: impl Into<Vec<u8>>,
        count: u32,
    ) -> Result<Self, InvalidTests> {
        let mut suite = Suite::new(At::Fresh, path.as_ref(), tests.into(), count)?;
        suite.hidden = true;
        self.suites.push(suite);
        Ok(self)
    }

    /// Runs the tests of [`new`](Self::new) in a fresh place as well, where the attempt has to be
    /// given such places. In one that isolates, a pass then has [`Level::Isolated`]: the tests are
    /// files of another user, and nothing that they start outlives them.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        if let Some(suite) = self.suites.first_mut() {
            suite.at = At::Fresh;
        }
        self
    }

    /// Where `python3` is looked for, as in `PATH`. Default: the folders of a Linux image,
    /// `/usr/local` first.
    #[must_use]
    pub fn search_path(mut self, path: impl Into<String>) -> Self {
        self.search_path = path.into();
        self
    }

    /// How long the tests may run. Default: 30 s. The attempt's limit for a check applies as well.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn stage(&self, suite: &Suite) -> Stage {
        let python = recipe::python(suite.program());
        let command = recipe::clean(&self.search_path, &BTreeSet::new(), [], python);
        let spec = ExecSpec::new(command).limit(self.limit);
        let mut stage = recipe::stage(spec, suite.at, &suite.fixtures).tests(suite.count);
        stage.hidden = suite.hidden;
        stage
    }
}

impl Suite {
    fn new(at: At, path: &str, tests: Vec<u8>, count: u32) -> Result<Self, InvalidTests> {
        let path = RelPath::parse(path)?;
        let stem = path.file_name().strip_suffix(".py").unwrap_or_default();
        let is_module = stem.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_module {
            return Err(InvalidTests::Name(path));
        }
        if count == 0 {
            return Err(InvalidTests::NoTests(path));
        }
        let fixtures = vec![(path.clone(), File::new(tests))];
        Ok(Self {
            at,
            hidden: false,
            tests: path,
            count,
            fixtures,
        })
    }

    /// The program for `python3 -c`.
    fn program(&self) -> String {
        let folder = self.tests.parents().last().unwrap_or(".");
        let argv = ["u", "discover", "-s", folder, "-p", self.tests.file_name()];
        let argv = recipe::python_list(argv);
        format!(
            "import unittest, sys; sys.path.insert(0, \".\"); unittest.main(module=None, argv={argv})"
        )
    }
}

impl Acceptance for UnittestAcceptance {
    fn revision(&self) -> Digest {
        Digest::of(REVISION.as_bytes())
    }

    fn names(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        if name != NAME {
            return None;
        }
        let mut stages = self.suites.iter().map(|suite| self.stage(suite));
        let first = CheckPlan::new(stages.next()?, Level::Counted);
        Some(stages.fold(first, CheckPlan::then))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let Some((stage, run)) = evidence.last() else {
            return Verdict::invalid("no stage has run");
        };
        let receipt = &run.receipt;
        let report = Report::parse(&String::from_utf8_lossy(&receipt.stderr));
        let counted = Counted {
            receipt,
            summaries: &report.summaries,
            truncated: receipt.stderr_truncated,
            failing: &[1],
            tests: stage.tests,
            limit: stage.spec.limit,
        };
        let suite = self.suites.get(evidence.stages.len().saturating_sub(1));
        let hidden = suite.is_none_or(|suite| suite.hidden);
        match counted.judge() {
            Judged::Pass { tests } => Verdict::pass(format!("{tests} tests passed")),
            Judged::Invalid(why) => Verdict::invalid(why),
            // What hidden tests say would tell the model what they are.
            _ if hidden => Verdict::fail(super::HIDDEN),
            Judged::Fail(feedback) => Verdict::fail(feedback),
            Judged::Failures => Verdict::fail(condense::failures(
                &report,
                &receipt.stderr,
                &stage.fixtures,
                evidence.tree,
            )),
        }
    }

    fn description(&self) -> Option<super::Description> {
        Some(super::Description::Unittest(Box::new(self.clone())))
    }
}

#[cfg(test)]
mod tests;
