//! Acceptance by inputs and answers, where the expected answers stay with the controller.

mod expected;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::expected::Told;
use super::counted::{not_started, timed_out};
use super::{
    Acceptance, At, CheckPlan, Description, Evidence, InvalidVariable, Level, Stage, VariableName,
    Verdict, recipe,
};
use crate::digest::Digest;
use crate::manifest::File;
use crate::path::{InvalidPath, RelPath};
use crate::serde_as;
use crate::text::{one_line, printable};
use crate::workspace::{ExecReceipt, ExecSpec};

pub use expected::Expected;

/// Changes whenever a plan or a judgement of this module can change.
const REVISION: &str = "io cases 1";
/// The same for functions whose shown cases come first.
const REVISION_SHOWN_FIRST: &str = "io cases 2";
/// Calls a function of a file once for each line of its input.
const DRIVER: &str = include_str!("io_cases/driver.py");
/// The one of [`Questions::Together`], to which a file that cannot be loaded raises in every case.
const DRIVER_TOGETHER: &str = include_str!("io_cases/driver_together.py");
/// How much is kept of each output.
const KEPT: usize = 1 << 20;
/// The most failed cases that are shown.
const MOST_SHOWN: usize = 4;

/// Accepts a change when a program, or a function, answers inputs as it should.
///
/// The inputs go to the standard input; the answers are compared here. What the answers should be
/// is in no file, no argument and no input of the place where the code runs, so a program that
/// forges the reports of its own tests gains nothing: the level is [`Level::OutsideValues`].
///
/// What the model hears of a failure: of a case that is [`shown`](IoCase::shown) its input, the
/// answer and what it should have been; of all others that they did not pass, and nothing else,
/// whatever code under test makes of them: they never run in one command with a shown case. Their
/// inputs are in reach of that code all the same, and it can leave them where a later check, or a
/// read of the workspace, finds them, as far as its place allows that: where the model must not
/// learn them, [`fresh`](Self::fresh) gives each command a place that ends with it.
///
/// # Examples
/// ```
/// use agent_loop::acceptance::{Expected, IoCase, IoCases};
/// use agent_loop::{Acceptance, Level};
///
/// // A function of a Python file: the shown cases are one command, and then the others.
/// let cases = IoCases::python("amounts.py", "parse_amount", [
///     IoCase::call("plain", ["1.50"], Expected::typed("Decimal", "1.50")).shown(),
///     IoCase::call("no number", ["12x"], Expected::raised("ValueError")),
/// ])?;
/// // A program: a command a case.
/// let cases = IoCases::command(["python3", "sum.py"], [
///     IoCase::input("two", "1 2\n", Expected::text("3")),
/// ])?;
/// assert_eq!(cases.plan("cases").unwrap().level, Level::OutsideValues);
/// # Ok::<(), agent_loop::acceptance::InvalidCases>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoCases {
    name: String,
    pub(crate) program: Program,
    pub(crate) cases: Vec<IoCase>,
    pub(crate) fixtures: Vec<(RelPath, File)>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) inherit: BTreeSet<VariableName>,
    search_path: String,
    #[serde(with = "serde_as::millis", rename = "limit_ms")]
    pub(crate) limit: Duration,
    pub(crate) at: At,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", rename_all = "snake_case")]
pub(crate) enum Program {
    Command {
        argv: Vec<String>,
    },
    Python {
        file: RelPath,
        function: String,
        /// What is not said was written down before there were two.
        #[serde(default)]
        questions: Questions,
    },
}

/// How a function is asked. Descriptions of old runs make the plan that was carried out then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Questions {
    /// All of them in one command, in their order.
    #[default]
    Together,
    /// Those of shown cases in a command of their own, before the others.
    ShownFirst,
}

/// One input with the answer that it should get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IoCase {
    pub(crate) name: String,
    pub(crate) input: Input,
    pub(crate) expected: Expected,
    pub(crate) shown: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", content = "value", rename_all = "snake_case")]
pub(crate) enum Input {
    Bytes(#[serde(with = "serde_as::bytes")] Vec<u8>),
    Call(Vec<Value>),
}

/// Cases that cannot be run as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCases {
    /// The path cannot be used.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// No case would be a pass.
    #[error("there has to be at least one case")]
    NoCases,
    /// A case that this program cannot have: arguments of a function for a command, or the reverse.
    #[error("the case {0:?} is not one for this program")]
    Case(String),
}

impl IoCase {
    /// A text for the standard input of a command.
    #[must_use]
    pub fn input(name: impl Into<String>, input: impl Into<Vec<u8>>, expected: Expected) -> Self {
        Self {
            name: name.into(),
            input: Input::Bytes(input.into()),
            expected,
            shown: false,
        }
    }

    /// The arguments of a function.
    #[must_use]
    pub fn call<V: Into<Value>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = V>,
        expected: Expected,
    ) -> Self {
        Self {
            name: name.into(),
            input: Input::Call(arguments.into_iter().map(Into::into).collect()),
            expected,
            shown: false,
        }
    }

    /// Lets the model see the case when it fails, with what the answer should have been.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.shown = true;
        self
    }

    fn question(&self) -> String {
        match &self.input {
            Input::Bytes(bytes) => format!("input `{}`", one_line(&printable(bytes), 200)),
            Input::Call(arguments) => {
                let arguments = arguments.iter().map(ToString::to_string);
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                format!("({})", one_line(&arguments, 200))
            }
        }
    }
}

impl IoCases {
    /// A program that reads an input and writes an answer to its standard output, started once for
    /// each case. It has to end with zero.
    ///
    /// # Errors
    /// Where there is no case, or one is not for a command.
    pub fn command<S: Into<String>>(
        argv: impl IntoIterator<Item = S>,
        cases: impl IntoIterator<Item = IoCase>,
    ) -> Result<Self, InvalidCases> {
        let argv = argv.into_iter().map(Into::into).collect();
        Self::new(Program::Command { argv }, cases)
    }

    /// The function `function` of the Python file `file`, called once for each case: the
    /// [shown](IoCase::shown) ones in one command, and where they have passed the others in another.
    /// What it prints is no answer. A file that cannot be loaded, or has no such function, gives no
    /// answer to any case, also not the exception that a case [asks for](Expected::raised).
    ///
    /// # Errors
    /// Where the path cannot be used, there is no case, or one is not for a function.
    pub fn python(
        file: impl AsRef<str>,
        function: impl Into<String>,
        cases: impl IntoIterator<Item = IoCase>,
    ) -> Result<Self, InvalidCases> {
        let file = RelPath::parse(file.as_ref())?;
        let function = function.into();
        let program = Program::Python {
            file,
            function,
            questions: Questions::ShownFirst,
        };
        Self::new(program, cases)
    }

    fn new(
        program: Program,
        cases: impl IntoIterator<Item = IoCase>,
    ) -> Result<Self, InvalidCases> {
        let cases: Vec<IoCase> = cases.into_iter().collect();
        if cases.is_empty() {
            return Err(InvalidCases::NoCases);
        }
        let is_call = matches!(program, Program::Python { .. });
        let misplaced = |case: &&IoCase| {
            matches!(case.input, Input::Call(_)) != is_call
                || !is_call && case.expected.needs_a_function()
                || !case.expected.is_usable()
        };
        if let Some(case) = cases.iter().find(misplaced) {
            return Err(InvalidCases::Case(case.name.clone()));
        }
        Ok(Self {
            name: "cases".to_owned(),
            program,
            cases,
            fixtures: Vec::new(),
            inherit: BTreeSet::new(),
            search_path: recipe::SEARCH_PATH.to_owned(),
            limit: recipe::LIMIT,
            at: At::Here,
        })
    }

    /// Changes the name of the check. Default: `cases`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a file that the program needs. The model can never write it.
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

    /// Takes variables over from the environment that the place gives its commands, as
    /// [`CommandAcceptance::inherit`](super::CommandAcceptance::inherit) does. Default: none.
    ///
    /// # Errors
    /// Where a name is none: letters, digits and `_`, and no digit first.
    ///
    /// # Examples
    /// ```
    /// use agent_loop::acceptance::{Expected, IoCase, IoCases};
    ///
    /// // A crate, with the toolchain of its place, built for each case beside the code.
    /// let run = ["cargo", "run", "--quiet", "--offline", "--target-dir", "../cache"];
    /// let sum = IoCase::input("two", "1 2\n", Expected::text("3"));
    /// let cases = IoCases::command(run, [sum])?.inherit(["PATH", "RUSTUP_HOME", "CARGO_HOME"])?;
    /// assert!(cases.inherit(["CARGO-HOME"]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inherit<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidVariable> {
        self.inherit.extend(VariableName::all(names)?);
        Ok(self)
    }

    /// Where programs are looked for, as in `PATH`. Default: the folders of a Linux image,
    /// `/usr/local` first. Of no use where `PATH` is [inherited](Self::inherit).
    #[must_use]
    pub fn search_path(mut self, path: impl Into<String>) -> Self {
        self.search_path = path.into();
        self
    }

    /// How long a command may run: the calls of a function in it together, or one case of a program.
    /// Default: 30 s. The attempt's limit for a check applies as well.
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

    fn stage(&self, argv: impl IntoIterator<Item = String>, stdin: Vec<u8>) -> Stage {
        let command = recipe::clean(&self.search_path, &self.inherit, [], argv);
        let spec = ExecSpec::new(command)
            .stdin(stdin)
            .limit(self.limit)
            .keep_bytes(KEPT);
        recipe::stage(spec, self.at, &self.fixtures)
    }

    fn stages(&self) -> Vec<Stage> {
        match &self.program {
            Program::Command { argv } => {
                let stage = |case: &IoCase| {
                    let input = match &case.input {
                        Input::Bytes(bytes) => bytes.clone(),
                        Input::Call(_) => Vec::new(),
                    };
                    let mut stage = self.stage(argv.iter().cloned(), input);
                    stage.hidden = !case.shown;
                    stage
                };
                self.cases.iter().map(stage).collect()
            }
            Program::Python {
                file,
                function,
                questions,
            } => {
                let stage = |cases: Vec<&IoCase>| {
                    let mut lines = Vec::new();
                    for case in &cases {
                        if let Input::Call(arguments) = &case.input {
                            lines.extend(Value::from(arguments.clone()).to_string().into_bytes());
                            lines.push(b'\n');
                        }
                    }
                    let driver = match questions {
                        Questions::Together => DRIVER_TOGETHER,
                        Questions::ShownFirst => DRIVER,
                    };
                    let python = recipe::python(driver.to_owned()).into_iter();
                    let argv = python.chain([format!("./{file}"), function.clone()]);
                    let mut stage = self.stage(argv, lines);
                    stage.hidden = cases.iter().all(|case| !case.shown);
                    stage
                };
                self.calls(*questions).into_iter().map(stage).collect()
            }
        }
    }

    /// The calls of a function, a command each.
    fn calls(&self, questions: Questions) -> Vec<Vec<&IoCase>> {
        let parts: [Vec<&IoCase>; 2] = match questions {
            Questions::Together => [self.cases.iter().collect(), Vec::new()],
            Questions::ShownFirst => self
                .cases
                .iter()
                .partition::<Vec<_>, _>(|case| case.shown)
                .into(),
        };
        parts
            .into_iter()
            .filter(|cases| !cases.is_empty())
            .collect()
    }

    /// The verdict about failed cases. `got` is what was answered in their place.
    fn verdict(&self, failed: &[(&IoCase, String)]) -> Verdict {
        if failed.is_empty() {
            return Verdict::pass(format!("{} cases passed", self.cases.len()));
        }
        let shown: Vec<String> = failed
            .iter()
            .filter(|(case, _)| case.shown)
            .take(MOST_SHOWN)
            .map(|(case, got)| {
                let question = case.question();
                let (name, expected) = (&case.name, &case.expected);
                format!("- {name}: for {question} the answer must be {expected}, and is {got}")
            })
            .collect();
        match shown.is_empty() {
            true => Verdict::fail(super::HIDDEN),
            false => Verdict::fail(shown.join("\n")),
        }
    }

    fn judge_command(&self, case: &IoCase, receipt: &ExecReceipt) -> Verdict {
        if case.expected.is_written(&receipt.stdout) && receipt.exit_code == Some(0) {
            return Verdict::pass(format!("{} answered", case.name));
        }
        let got = match receipt.exit_code {
            Some(0) => format!("`{}`", one_line(&printable(&receipt.stdout), 200)),
            _ => receipt.ending(),
        };
        self.verdict(&[(case, got)])
    }

    fn judge_calls(&self, cases: &[&IoCase], receipt: &ExecReceipt) -> Verdict {
        let text = String::from_utf8_lossy(&receipt.stdout);
        let mut lines = text.lines();
        let mut failed = Vec::new();
        for case in cases.iter().copied() {
            let told = lines.next().map(serde_json::from_str::<Told>);
            match told {
                Some(Ok(told)) if case.expected.is_told(&told) => {}
                Some(Ok(told)) => failed.push((case, told.to_string())),
                Some(Err(_)) | None => {
                    failed.push((case, format!("none ({})", receipt.ending())));
                }
            }
        }
        match (receipt.exit_code, lines.next()) {
            // Who answers more than was asked has the answers in the wrong places.
            (_, Some(_)) => Verdict::invalid("there are more answers than questions"),
            (Some(0), None) => self.verdict(&failed),
            // All answers are there, and the process did not end as it should.
            (_, None) if failed.is_empty() => Verdict::invalid(format!(
                "every case was answered, and the command ended with {}",
                receipt.ending()
            )),
            (_, None) => self.verdict(&failed),
        }
    }
}

impl Acceptance for IoCases {
    fn revision(&self) -> Digest {
        // The expected answers are in no plan, so they are here.
        let cases = serde_json::to_vec(&self.cases).unwrap_or_default();
        let revision = match self.program {
            Program::Python {
                questions: Questions::ShownFirst,
                ..
            } => REVISION_SHOWN_FIRST,
            Program::Python { .. } | Program::Command { .. } => REVISION,
        };
        Digest::of_parts([revision.as_bytes(), &cases])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        if name != self.name {
            return None;
        }
        let mut stages = self.stages().into_iter();
        let first = CheckPlan::new(stages.next()?, Level::OutsideValues);
        Some(stages.fold(first, CheckPlan::then))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let Some((stage, run)) = evidence.last() else {
            return Verdict::invalid("no stage has run");
        };
        let receipt = &run.receipt;
        if let Some(why) = not_started(receipt) {
            return Verdict::invalid(why);
        }
        if receipt.timed_out {
            return Verdict::fail(timed_out(stage.spec.limit));
        }
        if receipt.stdout_truncated {
            return Verdict::invalid("the output was cut before its end");
        }
        let index = evidence.stages.len().saturating_sub(1);
        match &self.program {
            Program::Python { questions, .. } => match self.calls(*questions).get(index) {
                Some(cases) => self.judge_calls(cases, receipt),
                None => Verdict::invalid("there is no such command"),
            },
            Program::Command { .. } => {
                let Some(case) = self.cases.get(index) else {
                    return Verdict::invalid("there is no such case");
                };
                match self.judge_command(case, receipt) {
                    Verdict::Pass { .. } if index + 1 == self.cases.len() => self.verdict(&[]),
                    verdict => verdict,
                }
            }
        }
    }

    fn description(&self) -> Option<Description> {
        Some(Description::IoCases(Box::new(self.clone())))
    }
}

#[cfg(test)]
mod tests;
