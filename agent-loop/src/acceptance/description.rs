//! The acceptances of this crate as values that can be kept and read again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Acceptance, CommandAcceptance, IoCases, UnittestAcceptance, all, then};

/// An acceptance of this crate, written down whole.
///
/// Hidden tests and expected answers are in it: it belongs beside the controller, and nowhere near
/// a model or a sandbox.
///
/// # Examples
/// ```
/// use agent_loop::acceptance::Description;
/// use agent_loop::{Acceptance, UnittestAcceptance};
///
/// let tests = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
/// let text = serde_json::to_string(&tests.description())?;
/// let read: Description = serde_json::from_str(&text)?;
/// assert_eq!(read.acceptance().plan("unit"), tests.plan("unit"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "acceptance", content = "settings", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Description {
    /// Tests of Python's `unittest`.
    Unittest(Box<UnittestAcceptance>),
    /// A command.
    Command(Box<CommandAcceptance>),
    /// Inputs and answers.
    IoCases(Box<IoCases>),
    /// All of several.
    All(Vec<Self>),
    /// One after the other.
    Then(Vec<Self>),
}

impl Description {
    /// The acceptance that it describes.
    #[must_use]
    pub fn acceptance(&self) -> Arc<dyn Acceptance> {
        let parts = |parts: &[Self]| parts.iter().map(Self::acceptance).collect::<Vec<_>>();
        match self {
            Self::Unittest(one) => Arc::new((**one).clone()),
            Self::Command(one) => Arc::new((**one).clone()),
            Self::IoCases(one) => Arc::new((**one).clone()),
            Self::All(several) => Arc::new(all(parts(several))),
            Self::Then(several) => Arc::new(then(parts(several))),
        }
    }

    /// The same with another place where programs are looked for, as in `PATH`.
    pub(crate) fn search_path(self, path: &str) -> Self {
        let all = |parts: Vec<Self>| {
            parts
                .into_iter()
                .map(|part| part.search_path(path))
                .collect()
        };
        match self {
            Self::Unittest(one) => Self::Unittest(Box::new(one.search_path(path))),
            Self::Command(one) => Self::Command(Box::new(one.search_path(path))),
            Self::IoCases(one) => Self::IoCases(Box::new(one.search_path(path))),
            Self::All(several) => Self::All(all(several)),
            Self::Then(several) => Self::Then(all(several)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_described_plans_the_same() {
        let unit = || {
            let tests = UnittestAcceptance::new("test_a.py", *b"\xff", 2).unwrap();
            Arc::new(tests.hidden("test_b.py", "…", 1).unwrap()) as Arc<dyn Acceptance>
        };
        let command = || {
            let tests = CommandAcceptance::pytest("test_a.py", "…", 2).unwrap();
            Arc::new(tests.variable("A", "b").hidden()) as Arc<dyn Acceptance>
        };
        let table: [Arc<dyn Acceptance>; 4] = [
            unit(),
            command(),
            Arc::new(all([unit(), command()])),
            Arc::new(then([command(), Arc::new(all([unit()]))])),
        ];
        for acceptance in table {
            let text = serde_json::to_string(&acceptance.description().unwrap()).unwrap();
            let read = serde_json::from_str::<Description>(&text)
                .unwrap()
                .acceptance();
            assert_eq!(read.names(), acceptance.names());
            assert_eq!(read.plan("unit"), acceptance.plan("unit"));
            assert!(read.plan("unit").is_some());
            assert_eq!(read.revision(), acceptance.revision());
        }
    }
}
