//! What the model may do.

mod approver;
mod rules;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::digest::TreeHash;
use crate::path::{InvalidPath, RelPath};

pub use approver::{ApproverFn, TerminalApprover, approver_fn};
pub use rules::{ActionKind, And, Rules};

/// Decides about an action that the loop's own rules allow. It can narrow them and never widen:
/// the paths of the attempt, the fixtures and the names of the checks are not up to a policy.
///
/// [`policy_fn`] makes one of a closure.
pub trait Policy: Send + Sync {
    /// Decides about `action`.
    fn decide(&self, context: &PolicyContext, action: &Action) -> Decision;

    /// This policy and `other`: the stricter decision counts, so the two together allow nothing
    /// that one of them denies.
    fn and<P: Policy>(self, other: P) -> And<Self, P>
    where
        Self: Sized,
    {
        And::new(self, other)
    }
}

/// What a policy may want to know besides the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyContext {
    /// The turn, from 1.
    pub turn: u32,
    /// The workspace's files as the loop knows them.
    pub tree: TreeHash,
    /// How many checks have run.
    pub checks: u32,
}

impl PolicyContext {
    /// The context of turn `turn`.
    #[must_use]
    pub fn new(turn: u32, tree: TreeHash, checks: u32) -> Self {
        Self { turn, tree, checks }
    }
}

/// What a policy says. Of several the strictest counts: stop, then deny, then ask, then allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// It may be done.
    Allow,
    /// A person decides. Without an approver it is denied.
    #[non_exhaustive]
    Ask {
        /// What the person is asked.
        question: String,
    },
    /// It is not done, and the model is told.
    #[non_exhaustive]
    Deny {
        /// What the model is told.
        feedback: String,
    },
    /// The attempt ends.
    #[non_exhaustive]
    Stop {
        /// Why.
        reason: String,
    },
}

impl Decision {
    /// A person decides.
    #[must_use]
    pub fn ask(question: impl Into<String>) -> Self {
        Self::Ask {
            question: question.into(),
        }
    }

    /// It is not done, and the model is told.
    #[must_use]
    pub fn deny(feedback: impl Into<String>) -> Self {
        Self::Deny {
            feedback: feedback.into(),
        }
    }

    /// The attempt ends.
    #[must_use]
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::Stop {
            reason: reason.into(),
        }
    }

    /// The stricter one of two; of two that are equally strict, the first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if other.strictness() > self.strictness() {
            other
        } else {
            self
        }
    }

    fn strictness(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
            Self::Stop { .. } => 3,
        }
    }
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Approval {
    /// What the policy asks.
    pub question: String,
    /// The action it is about.
    pub action: Action,
}

impl Approval {
    /// The question about `action`.
    #[must_use]
    pub fn new(question: impl Into<String>, action: Action) -> Self {
        Self {
            question: question.into(),
            action,
        }
    }
}

/// Answers what a policy asks.
pub trait Approver: Send + Sync {
    /// Whether the action may be done.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    fn approve<'a>(&'a self, question: &'a Approval) -> BoxFuture<'a, bool>;
}

/// The files that a model may write and those that it may read: the first rule of every attempt.
///
/// An entry is a file, or a folder with everything below it. What may be written may be read.
///
/// # Examples
/// ```
/// use agent_loop::Paths;
///
/// let paths = Paths::editable(["amounts.py"])?.readable(["tests"])?;
/// assert!(paths.may_write(&"amounts.py".parse()?));
/// assert!(paths.may_read(&"tests/test_amounts.py".parse()?));
/// assert!(!paths.may_read(&"tests2/test_amounts.py".parse()?));
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Paths {
    editable: BTreeSet<RelPath>,
    readable: BTreeSet<RelPath>,
    max_bytes: u64,
}

impl Paths {
    /// The files that may be written, of at most 64 KiB each.
    ///
    /// # Errors
    /// Where one of them is no path inside a workspace.
    pub fn editable<P: AsRef<str>>(
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, InvalidPath> {
        Ok(Self {
            editable: parsed(paths)?,
            readable: BTreeSet::new(),
            max_bytes: 64 * 1024,
        })
    }

    /// Files that may be read as well.
    ///
    /// # Errors
    /// Where one of them is no path inside a workspace.
    pub fn readable<P: AsRef<str>>(
        mut self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, InvalidPath> {
        self.readable.extend(parsed(paths)?);
        Ok(self)
    }

    /// Changes how large a file may be, read or written.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Whether `path` may be written.
    #[must_use]
    pub fn may_write(&self, path: &RelPath) -> bool {
        !is_bytecode(path) && covers(&self.editable, path)
    }

    /// Whether `path` may be read.
    #[must_use]
    pub fn may_read(&self, path: &RelPath) -> bool {
        self.may_write(path) || covers(&self.readable, path)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn editable_entries(&self) -> impl Iterator<Item = &RelPath> {
        self.editable.iter()
    }

    pub(crate) fn readable_entries(&self) -> impl Iterator<Item = &RelPath> {
        self.readable.iter()
    }
}

/// Python would run it in place of the source next to it.
pub(crate) fn is_bytecode(path: &RelPath) -> bool {
    let is = |extension: &str| path.file_name().to_ascii_lowercase().ends_with(extension);
    path.components().any(|part| part == "__pycache__") || is(".pyc") || is(".pyo")
}

fn covers(entries: &BTreeSet<RelPath>, path: &RelPath) -> bool {
    entries.contains(path.as_str()) || path.parents().any(|parent| entries.contains(parent))
}

fn parsed<P: AsRef<str>>(
    paths: impl IntoIterator<Item = P>,
) -> Result<BTreeSet<RelPath>, InvalidPath> {
    paths
        .into_iter()
        .map(|path| RelPath::parse(path.as_ref()))
        .collect()
}

impl Policy for Paths {
    fn decide(&self, _context: &PolicyContext, action: &Action) -> Decision {
        let list = |entries: &BTreeSet<RelPath>| {
            entries
                .iter()
                .map(RelPath::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match action {
            Action::Read { path } if !self.may_read(path) => {
                let all: BTreeSet<RelPath> = self.editable.union(&self.readable).cloned().collect();
                Decision::deny(format!("{path} may not be read; these may: {}", list(&all)))
            }
            Action::Write { path, .. } if !self.may_write(path) => {
                let may = list(&self.editable);
                Decision::deny(format!("{path} may not be written; these may: {may}"))
            }
            Action::Write { path, content } if content.len() as u64 > self.max_bytes => {
                let (len, max) = (content.len(), self.max_bytes);
                Decision::deny(format!(
                    "{path} would have {len} bytes; at most {max} are allowed"
                ))
            }
            _ => Decision::Allow,
        }
    }
}

/// A policy that is a function. Made by [`policy_fn`].
pub struct PolicyFn<F>(F);

/// A policy that decides as `function` does.
///
/// # Examples
/// ```
/// use agent_loop::policy::{Decision, policy_fn};
/// use agent_loop::Action;
///
/// let no_empty_files = policy_fn(|_context, action| match action {
///     Action::Write { content, .. } if content.is_empty() => Decision::deny("the file would be empty"),
///     _ => Decision::Allow,
/// });
/// # let _ = no_empty_files;
/// ```
#[must_use]
pub fn policy_fn<F>(function: F) -> PolicyFn<F>
where
    F: Fn(&PolicyContext, &Action) -> Decision + Send + Sync,
{
    PolicyFn(function)
}

impl<F> fmt::Debug for PolicyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PolicyFn")
    }
}

impl<F> Policy for PolicyFn<F>
where
    F: Fn(&PolicyContext, &Action) -> Decision + Send + Sync,
{
    fn decide(&self, context: &PolicyContext, action: &Action) -> Decision {
        (self.0)(context, action)
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Policy + ?Sized> Policy for $type {
            fn decide(&self, context: &PolicyContext, action: &Action) -> Decision {
                (**self).decide(context, action)
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

macro_rules! forward_approver {
    ($($type:ty),*) => {$(
        impl<T: Approver + ?Sized> Approver for $type {
            fn approve<'a>(&'a self, question: &'a Approval) -> BoxFuture<'a, bool> {
                (**self).approve(question)
            }
        }
    )*};
}
forward_approver!(&T, Box<T>, Arc<T>);

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Arc<dyn Policy>>();
    check::<Arc<dyn Approver>>();
};

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    fn decide(paths: &Paths, action: &Action) -> Decision {
        let tree = crate::manifest::Tree::new().hash();
        paths.decide(&PolicyContext::new(1, tree, 0), action)
    }

    #[test]
    fn an_entry_covers_itself_and_what_is_below_it_by_whole_components() {
        let paths = Paths::editable(["src/lib", "a.py"])
            .unwrap()
            .readable(["t.py"])
            .unwrap();
        let table = [
            ("a.py", true, true),
            ("src/lib", true, true),
            ("src/lib/x", true, true),
            ("src/lib/x/y", true, true),
            ("src/library/x", false, false),
            ("src", false, false),
            ("a.py/x", true, true),
            ("t.py", false, true),
            ("src/lib/__pycache__/x.py", false, false),
            ("src/lib/x.PYC", false, false),
            ("A.py", false, false),
        ];
        for (text, write, read) in table {
            assert_eq!(paths.may_write(&path(text)), write, "write {text}");
            assert_eq!(paths.may_read(&path(text)), read, "read {text}");
        }
    }

    #[test]
    fn a_denial_names_what_may_be_done() {
        let paths = Paths::editable(["a.py"])
            .unwrap()
            .readable(["t.py"])
            .unwrap()
            .max_bytes(3);
        let write = |name, bytes: &[u8]| Action::Write {
            path: path(name),
            content: bytes.to_vec(),
        };
        let table = [
            (
                write("t.py", b"x"),
                "t.py may not be written; these may: a.py",
            ),
            (
                write("a.py", b"1234"),
                "a.py would have 4 bytes; at most 3 are allowed",
            ),
            (
                Action::Read { path: path("b.py") },
                "b.py may not be read; these may: a.py, t.py",
            ),
        ];
        for (action, feedback) in table {
            assert_eq!(decide(&paths, &action), Decision::deny(feedback));
        }
        assert_eq!(decide(&paths, &write("a.py", b"123")), Decision::Allow);
        assert_eq!(
            decide(&paths, &Action::Check { name: None }),
            Decision::Allow
        );
    }

    #[test]
    fn the_strictest_decision_wins_whatever_the_order() {
        let ordered = [
            Decision::Allow,
            Decision::ask("q"),
            Decision::deny("d"),
            Decision::stop("s"),
        ];
        for (i, mild) in ordered.iter().enumerate() {
            for strict in &ordered[i..] {
                assert_eq!(&mild.clone().and(strict.clone()), strict);
                assert_eq!(&strict.clone().and(mild.clone()), strict);
            }
        }
        assert_eq!(
            Decision::deny("a").and(Decision::deny("b")),
            Decision::deny("a")
        );
    }
}
