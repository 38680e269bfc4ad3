//! Acceptance by Python's `unittest`, counted.

use std::time::Duration;

use super::report::{Report, Summary};
use super::{Acceptance, At, CheckPlan, Evidence, Level, Stage, Verdict, condense};
use crate::digest::Digest;
use crate::manifest::File;
use crate::path::{InvalidPath, RelPath};
use crate::text::{one_line, printable, tail};
use crate::workspace::{ExecReceipt, ExecSpec};

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
#[derive(Clone, Debug)]
pub struct UnittestAcceptance {
    suites: Vec<Suite>,
    search_path: String,
    limit: Duration,
}

#[derive(Clone, Debug)]
struct Suite {
    at: At,
    tests: RelPath,
    count: u32,
    fixtures: Vec<(RelPath, File)>,
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
            search_path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            limit: Duration::from_secs(30),
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
        let path = RelPath::parse(path.as_ref())?;
        if let Some(suite) = self.suites.first_mut() {
            suite.fixtures.push((path, File::new(bytes)));
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
        self.suites
            .push(Suite::new(At::Fresh, path.as_ref(), tests.into(), count)?);
        Ok(self)
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
        let command = [
            "env".to_owned(),
            "-i".to_owned(),
            format!("PATH={}", self.search_path),
            "LANG=C.UTF-8".to_owned(),
            "HOME=../home".to_owned(),
            "python3".to_owned(),
            "-I".to_owned(),
            "-B".to_owned(),
            "-X".to_owned(),
            "pycache_prefix=../cache".to_owned(),
            "-c".to_owned(),
            suite.program(),
        ];
        let mut stage = Stage::new(ExecSpec::new(command).limit(self.limit));
        for (path, file) in &suite.fixtures {
            stage = stage.fixture(path.clone(), file.clone());
        }
        stage.at(suite.at).tests(suite.count)
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
            tests: path,
            count,
            fixtures,
        })
    }

    /// The program for `python3 -c`. A JSON string is a Python string.
    fn program(&self) -> String {
        let folder = self.tests.parents().last().unwrap_or(".");
        let argv = ["u", "discover", "-s", folder, "-p", self.tests.file_name()];
        let argv = argv
            .map(|arg| serde_json::Value::from(arg).to_string())
            .join(", ");
        format!(
            "import unittest, sys; sys.path.insert(0, \".\"); unittest.main(module=None, argv=[{argv}])"
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
        let report = Report::parse(&String::from_utf8_lossy(&run.receipt.stderr));
        let verdict = judge(&run.receipt, &report, stage.tests, stage.spec.limit);
        match (verdict, stage.at) {
            (Judged::Pass { tests }, _) => Verdict::pass(format!("{tests} tests passed")),
            (Judged::Invalid(why), _) => Verdict::invalid(why),
            // What hidden tests say would tell the model what they are.
            (_, At::Fresh) => Verdict::fail("- an independent verification did not pass"),
            (Judged::Fail(feedback), At::Here) => Verdict::fail(feedback),
            (Judged::Failures, At::Here) => Verdict::fail(condense::failures(
                &report,
                &run.receipt.stderr,
                &stage.fixtures,
                evidence.tree,
            )),
        }
    }
}

enum Judged {
    Pass {
        tests: u32,
    },
    /// A failure of which the report tells.
    Failures,
    /// A failure of which the report does not tell.
    Fail(String),
    Invalid(String),
}

/// Exit status and report together. Either alone proves nothing: the code under test can end the
/// process with zero, and can print a report.
fn judge(receipt: &ExecReceipt, report: &Report, expected: Option<u32>, limit: Duration) -> Judged {
    if receipt.timed_out {
        return Judged::Fail(format!(
            "- the tests did not end within {} s",
            limit.as_secs_f64()
        ));
    }
    let ending = receipt.ending();
    let summary = match report.summaries[..] {
        [summary] => summary,
        [] if matches!(receipt.exit_code, Some(126 | 127)) => {
            let said = one_line(tail(&printable(&receipt.stderr), 200), 200);
            return Judged::Invalid(format!("the test command could not be started: {said}"));
        }
        [] if receipt.stderr_truncated => {
            return Judged::Invalid(
                "the output was cut before the summary of the tests".to_owned(),
            );
        }
        [] => {
            return Judged::Invalid(format!(
                "the tests ended with {ending} and without a summary"
            ));
        }
        _ => return Judged::Invalid("the output holds more than one summary".to_owned()),
    };
    let Summary {
        ran,
        ok,
        skipped,
        expected_failures,
        ..
    } = summary;
    let failed = summary.failed();
    match (receipt.exit_code, ok, failed) {
        (Some(0), true, 0) => {}
        (Some(1), false, 1..) => return Judged::Failures,
        (Some(5), false, 0) if ran == 0 => return Judged::Invalid("no test ran".to_owned()),
        _ => {
            let word = if ok { "OK" } else { "FAILED" };
            return Judged::Invalid(format!(
                "the tests ended with {ending}, and their report says {word} with {failed} failed"
            ));
        }
    }
    if skipped > 0 {
        return Judged::Fail(format!(
            "- {skipped} of {ran} tests were skipped; a skipped test is not a passed one"
        ));
    }
    match expected {
        _ if ran == 0 => Judged::Invalid("no test ran".to_owned()),
        _ if expected_failures > 0 => {
            Judged::Invalid(format!("{expected_failures} failures were expected"))
        }
        Some(expected) if expected != ran => {
            Judged::Invalid(format!("{ran} tests ran, and {expected} should have"))
        }
        _ => Judged::Pass { tests: ran },
    }
}

#[cfg(test)]
mod tests;
