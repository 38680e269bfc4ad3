//! `task.json`: what a case asks for and what decides, as people write it.
//!
//! It has the words of the acceptances' builders, and no bytes of files: these are in the folders
//! beside it. The form in which an acceptance keeps itself, [`Description`], has all of them in it,
//! and the settings of one machine, so that nobody would write or review it by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::acceptance::{
    CommandAcceptance, Counter, Description, Expected, InvalidCases, IoCase, IoCases,
    UnittestAcceptance, VariableName,
};
use crate::manifest::Tree;
use crate::path::{InvalidPath, RelPath};
use crate::serde_as;

/// `task.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskFile {
    pub(crate) task: String,
    pub(crate) expected: String,
    pub(crate) editable: Vec<RelPath>,
    pub(crate) readable: Vec<RelPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tests: Option<Tests>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Command>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) io_cases: Option<Io>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hidden: Option<Hidden>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Value>,
}

/// A file of `unittest` tests, and how many have to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tests {
    pub(crate) path: RelPath,
    pub(crate) count: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
}

/// A command, as [`CommandAcceptance`] has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    pub(crate) argv: Vec<String>,
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) counter: Counter,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tests: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) variables: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) inherit: BTreeSet<VariableName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dir: Option<RelPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) may_change: Vec<RelPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
}

/// Inputs and answers, as [`IoCases`] has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Io {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) python: Option<Function>,
    pub(crate) cases: Vec<Answer>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) inherit: BTreeSet<VariableName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
}

/// A function of a Python file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Function {
    pub(crate) file: RelPath,
    pub(crate) function: String,
}

/// One input with the answer that it should get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Vec<Value>>,
    pub(crate) expected: Wanted,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shown: bool,
}

/// A text, or `{"base64": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bytes(#[serde(with = "serde_as::bytes")] pub(crate) Vec<u8>);

/// An [`Expected`]: each is called as the function that makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Wanted {
    Bytes(Bytes),
    Text(String),
    Typed {
        of_type: String,
        text: String,
    },
    Json(Value),
    JsonWithin {
        value: Value,
        absolute: f64,
        relative: f64,
    },
    Raised(String),
}

/// What the candidate never sees: tests as `tests`, or one of the other kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hidden {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<RelPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Command>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) io_cases: Option<Io>,
}

fn is_none(counter: &Counter) -> bool {
    *counter == Counter::None
}

/// A member of `task.json` with what is wrong with it.
pub(crate) type Problem = String;

/// A check, of whichever kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check {
    Tests(Tests),
    Command(Command),
    Io(Io),
}

/// Where in `task.json` a check is, and what it is for.
#[derive(Clone, Copy)]
struct Place {
    /// What comes before the names of its members.
    prefix: &'static str,
    hidden: bool,
}

const VISIBLE: Place = Place {
    prefix: "",
    hidden: false,
};
const HIDDEN: Place = Place {
    prefix: "hidden.",
    hidden: true,
};

impl Place {
    fn problem(self, field: &str, problem: impl std::fmt::Display) -> Problem {
        format!("{}{field}: {problem}", self.prefix)
    }
}

impl TaskFile {
    /// What decides, with these files: the visible check, and then the hidden one in a fresh place.
    pub(crate) fn acceptance(&self, tests: &Tree, hidden: &Tree) -> Result<Description, Problem> {
        let kinds = [
            self.tests.clone().map(Check::Tests),
            self.command.clone().map(Check::Command),
            self.io_cases.clone().map(Check::Io),
        ];
        let kind =
            only(kinds).map_err(|problem| format!("{problem} of tests, command and io_cases"))?;
        let more = self.hidden.as_ref().map(Hidden::check).transpose()?;
        if more.is_none() && !hidden.is_empty() {
            return Err("hidden/ has files, and nothing says which are tests".to_owned());
        }
        let visible = match (kind, &more) {
            (Check::Tests(about), Some(Check::Tests(more))) => {
                let acceptance = more.hidden_after(about.acceptance(tests)?, hidden)?;
                return Ok(Description::Unittest(Box::new(acceptance)));
            }
            (Check::Tests(about), _) => Description::Unittest(Box::new(about.acceptance(tests)?)),
            (Check::Command(about), _) => about.acceptance(VISIBLE, tests)?,
            (Check::Io(about), _) => about.acceptance(VISIBLE, tests)?,
        };
        let hidden = match more {
            None => return Ok(visible),
            Some(Check::Tests(_)) => {
                return Err(HIDDEN.problem("path", "is for cases with tests"));
            }
            Some(Check::Command(about)) => about.acceptance(HIDDEN, hidden)?,
            Some(Check::Io(about)) => about.acceptance(HIDDEN, hidden)?,
        };
        Ok(Description::Then(vec![visible, hidden]))
    }

    /// Says what decides in sight of the candidate.
    pub(crate) fn decided_by(&mut self, check: Check) {
        match check {
            Check::Tests(tests) => self.tests = Some(tests),
            Check::Command(command) => self.command = Some(command),
            Check::Io(io_cases) => self.io_cases = Some(io_cases),
        }
    }
}

impl From<Check> for Hidden {
    fn from(check: Check) -> Self {
        let mut hidden = Self::default();
        match check {
            Check::Tests(Tests { path, count, .. }) => {
                (hidden.path, hidden.count) = (Some(path), Some(count));
            }
            Check::Command(command) => hidden.command = Some(command),
            Check::Io(io_cases) => hidden.io_cases = Some(io_cases),
        }
        hidden
    }
}

impl Tests {
    fn acceptance(&self, files: &Tree) -> Result<UnittestAcceptance, Problem> {
        let main = files.get(&self.path);
        let main = main.ok_or_else(|| format!("tests/{} is missing", self.path))?;
        let acceptance = UnittestAcceptance::new(&self.path, main.bytes(), self.count)
            .map_err(|error| VISIBLE.problem("tests", error))?;
        let others = files.iter().filter(|(other, _)| **other != self.path);
        let mut acceptance = others
            .into_iter()
            .try_fold(acceptance, |acceptance, (path, file)| {
                acceptance.fixture(path, file.bytes())
            })
            .map_err(|error| VISIBLE.problem("tests", error))?;
        if self.fresh {
            acceptance = acceptance.fresh();
        }
        Ok(acceptance)
    }

    /// `visible` with these tests after it.
    fn hidden_after(
        &self,
        visible: UnittestAcceptance,
        files: &Tree,
    ) -> Result<UnittestAcceptance, Problem> {
        let file = files.get(&self.path).filter(|_| files.len() == 1);
        let file =
            file.ok_or_else(|| format!("hidden/ has to have {} and nothing else", self.path))?;
        visible
            .hidden(&self.path, file.bytes(), self.count)
            .map_err(|error| format!("hidden: {error}"))
    }
}

/// The one that is there.
fn only<T, const N: usize>(kinds: [Option<T>; N]) -> Result<T, &'static str> {
    let mut there = kinds.into_iter().flatten();
    match (there.next(), there.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err("it has none"),
        (Some(_), Some(_)) => Err("it has more than one"),
    }
}

impl Hidden {
    fn check(&self) -> Result<Check, Problem> {
        let tests = match (&self.path, self.count) {
            (Some(path), Some(count)) => Some(Check::Tests(Tests {
                path: path.clone(),
                count,
                fresh: true,
            })),
            (None, None) => None,
            (Some(_), None) => return Err(HIDDEN.problem("count", "is missing")),
            (None, Some(_)) => return Err(HIDDEN.problem("path", "is missing")),
        };
        let command = self.command.clone().map(Check::Command);
        let io_cases = self.io_cases.clone().map(Check::Io);
        only([tests, command, io_cases])
            .map_err(|problem| format!("hidden: {problem} of path, command and io_cases"))
    }
}

impl Command {
    fn acceptance(&self, place: Place, files: &Tree) -> Result<Description, Problem> {
        let problem =
            |field: &str, problem: &str| Err(place.problem(&format!("command.{field}"), problem));
        if self.argv.is_empty() {
            return problem("argv", "is empty");
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = self.variables.keys().find(|name| !is_name(name)) {
            return problem("variables", &format!("{name:?} cannot be the name of one"));
        }
        let mut acceptance = CommandAcceptance::new(&self.argv);
        acceptance = match (self.counter, self.tests) {
            (Counter::None, None) => acceptance,
            (_, Some(0)) => return problem("tests", "at least one test has to run"),
            (Counter::None, Some(_)) => return problem("counter", "nobody counts the tests"),
            (_, None) => return problem("tests", "how many have to run is missing"),
            (counter, Some(tests)) => acceptance.counted_by(counter, tests),
        };
        for (name, value) in &self.variables {
            acceptance = acceptance.variable(name, value);
        }
        acceptance.inherit.clone_from(&self.inherit);
        if let Some(limit) = limit(self.limit_ms).map_err(|what| place.problem("command", what))? {
            acceptance = acceptance.limit(limit);
        }
        let acceptance = self
            .with_paths(acceptance, files)
            .map_err(|error| place.problem("command", error))?;
        Ok(Description::Command(Box::new(match place.hidden {
            true => acceptance.hidden(),
            false if self.fresh => acceptance.fresh(),
            false => acceptance,
        })))
    }

    fn with_paths(
        &self,
        mut acceptance: CommandAcceptance,
        files: &Tree,
    ) -> Result<CommandAcceptance, InvalidPath> {
        for (path, file) in files.iter() {
            acceptance = acceptance.fixture(path, file.bytes())?;
        }
        for path in &self.may_change {
            acceptance = acceptance.may_change(path)?;
        }
        match &self.dir {
            Some(dir) => acceptance.dir(dir),
            None => Ok(acceptance),
        }
    }
}

impl Io {
    fn acceptance(&self, place: Place, files: &Tree) -> Result<Description, Problem> {
        let problem = |field: &str, problem: &dyn std::fmt::Display| {
            place.problem(&format!("io_cases{field}"), problem)
        };
        let mut cases = Vec::new();
        for (at, case) in self.cases.iter().enumerate() {
            let case = match case.shown && place.hidden {
                true => Err("a hidden case cannot be shown"),
                false => case.case(),
            };
            cases.push(case.map_err(|what| problem(&format!(".cases[{at}]"), &what))?);
        }
        let acceptance = match (&self.command, &self.python) {
            (Some(argv), None) if argv.is_empty() => {
                return Err(problem(".command", &"is empty"));
            }
            (Some(argv), None) => IoCases::command(argv, cases),
            (None, Some(of)) => IoCases::python(&of.file, &of.function, cases),
            (None, None) => return Err(problem("", &"it has none of command and python")),
            (Some(_), Some(_)) => return Err(problem("", &"it has both command and python")),
        };
        let mut acceptance = acceptance.map_err(|error: InvalidCases| problem(".cases", &error))?;
        acceptance.inherit.clone_from(&self.inherit);
        if let Some(limit) = limit(self.limit_ms).map_err(|what| problem("", &what))? {
            acceptance = acceptance.limit(limit);
        }
        for (path, file) in files.iter() {
            acceptance = acceptance
                .fixture(path, file.bytes())
                .map_err(|error| problem("", &error))?;
        }
        Ok(Description::IoCases(Box::new(
            match place.hidden || self.fresh {
                true => acceptance.fresh(),
                false => acceptance,
            },
        )))
    }
}

impl Answer {
    fn case(&self) -> Result<IoCase, &'static str> {
        let expected = self.expected.clone().into();
        let case = match (&self.input, &self.call) {
            (Some(Bytes(input)), None) => IoCase::input(&self.name, input.clone(), expected),
            (None, Some(arguments)) => IoCase::call(&self.name, arguments.clone(), expected),
            (None, None) => return Err("it has none of input and call"),
            (Some(_), Some(_)) => return Err("it has both input and call"),
        };
        Ok(match self.shown {
            true => case.shown(),
            false => case,
        })
    }
}

impl From<Wanted> for Expected {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Bytes(Bytes(bytes)) => Self::bytes(bytes),
            Wanted::Text(text) => Self::text(text),
            Wanted::Typed { of_type, text } => Self::typed(of_type, text),
            Wanted::Json(value) => Self::json(value),
            Wanted::JsonWithin {
                value,
                absolute,
                relative,
            } => Self::json_within(value, absolute, relative),
            Wanted::Raised(class) => Self::raised(class),
        }
    }
}

fn limit(millis: Option<u64>) -> Result<Option<Duration>, &'static str> {
    match millis {
        Some(0) => Err("limit_ms has to be more than 0"),
        millis => Ok(millis.map(Duration::from_millis)),
    }
}
