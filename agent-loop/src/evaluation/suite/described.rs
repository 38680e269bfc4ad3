//! The way back: an acceptance as `task.json` has it.

use super::task_file::{Answer, Bytes, Check, Command, Function, Io, Tests, Wanted};
use crate::acceptance::io_cases::{Input, Program};
use crate::acceptance::{
    At, CommandAcceptance, Description, Expected, IoCase, IoCases, UnittestAcceptance,
};
use crate::manifest::Tree;
use crate::serde_as::millis;

/// The checks of an acceptance, each with its files.
pub(crate) struct Described {
    pub(crate) visible: (Check, Tree),
    pub(crate) hidden: Option<(Check, Tree)>,
}

impl Described {
    /// The checks of `description`, where a case can have them.
    pub(crate) fn of(description: &Description) -> Result<Self, &'static str> {
        match description {
            Description::Unittest(tests) => unittest(tests),
            Description::Command(command) if command.hidden => {
                Err("its only check is hidden, and a case has a visible one")
            }
            Description::Command(_) | Description::IoCases(_) => Ok(Self {
                visible: one(description)?,
                hidden: None,
            }),
            Description::Then(parts) => match &parts[..] {
                [first, second] if is_hidden(second) => {
                    let first = Self::of(first)?;
                    match first.hidden {
                        None => Ok(Self {
                            hidden: Some(one(second)?),
                            ..first
                        }),
                        Some(_) => Err("it has more than one hidden check, and a case has one"),
                    }
                }
                _ => Err("a case has one visible check and after it a hidden one at most"),
            },
            Description::All(_) => Err("a case has one visible check, and it has all of several"),
        }
    }
}

/// Whether a case that has it as its hidden check tells a candidate as much of it.
fn is_hidden(description: &Description) -> bool {
    match description {
        Description::Command(command) => command.hidden,
        Description::IoCases(io) => io.at == At::Fresh && !io.cases.iter().any(|case| case.shown),
        _ => false,
    }
}

/// The one check that it is.
pub(crate) fn one(description: &Description) -> Result<(Check, Tree), &'static str> {
    match description {
        Description::Unittest(tests) => match unittest(tests)? {
            Described {
                visible,
                hidden: None,
            } => Ok(visible),
            _ => Err("it is more than one check"),
        },
        Description::Command(of) => Ok((command(of), of.fixtures.iter().cloned().collect())),
        Description::IoCases(of) => Ok((io_cases(of), of.fixtures.iter().cloned().collect())),
        Description::All(_) | Description::Then(_) => Err("it is more than one check"),
    }
}

fn unittest(of: &UnittestAcceptance) -> Result<Described, &'static str> {
    let mut checks = of.suites.iter().map(|suite| {
        let tests = Tests {
            path: suite.tests.clone(),
            count: suite.count,
            fresh: suite.at == At::Fresh,
        };
        (
            Check::Tests(tests),
            suite.fixtures.iter().cloned().collect(),
        )
    });
    match (checks.next(), checks.next(), checks.next()) {
        (Some(visible), hidden, None) => Ok(Described { visible, hidden }),
        _ => Err("a case has one file of hidden tests at most"),
    }
}

fn command(of: &CommandAcceptance) -> Check {
    Check::Command(Command {
        argv: of.argv.clone(),
        counter: of.counter,
        tests: of.tests,
        variables: of.variables.clone(),
        inherit: of.inherit.clone(),
        dir: of.dir.clone(),
        may_change: of.may_change.clone(),
        limit_ms: Some(millis::whole(of.limit)),
        fresh: of.at == At::Fresh && !of.hidden,
    })
}

fn io_cases(of: &IoCases) -> Check {
    let mut io = Io {
        cases: of.cases.iter().map(Answer::from).collect(),
        inherit: of.inherit.clone(),
        limit_ms: Some(millis::whole(of.limit)),
        fresh: of.at == At::Fresh,
        ..Io::default()
    };
    match &of.program {
        Program::Command { argv } => io.command = Some(argv.clone()),
        Program::Python { file, function, .. } => {
            io.python = Some(Function {
                file: file.clone(),
                function: function.clone(),
            });
        }
    }
    Check::Io(io)
}

impl From<&IoCase> for Answer {
    fn from(case: &IoCase) -> Self {
        let (input, call) = match &case.input {
            Input::Bytes(bytes) => (Some(Bytes(bytes.clone())), None),
            Input::Call(arguments) => (None, Some(arguments.clone())),
        };
        Self {
            name: case.name.clone(),
            input,
            call,
            expected: case.expected.clone().into(),
            shown: case.shown,
        }
    }
}

impl From<Expected> for Wanted {
    fn from(expected: Expected) -> Self {
        match expected {
            Expected::Bytes { bytes } => Self::Bytes(Bytes(bytes)),
            Expected::Text {
                text,
                of_type: None,
            } => Self::Text(text),
            Expected::Text {
                text,
                of_type: Some(of_type),
            } => Self::Typed { of_type, text },
            Expected::Json {
                value,
                tolerance: (0.0, 0.0),
            } => Self::Json(value),
            Expected::Json {
                value,
                tolerance: (absolute, relative),
            } => Self::JsonWithin {
                value,
                absolute,
                relative,
            },
            Expected::Raised { class } => Self::Raised(class),
        }
    }
}
