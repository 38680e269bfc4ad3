//! What the model is shown and offered in the present state.

use super::Machine;
use crate::path::RelPath;
use crate::prompt::{self, Choice, Next, Offer, Order, Seen, Use, View};

/// What the last check means for the files as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckView {
    /// There was none.
    None,
    /// It was about other bytes.
    Outdated,
    /// It passed.
    Passed,
    /// It did not, for this reason, as the model is shown it.
    Failed(String),
}

impl Machine {
    /// What comes next, if the model asks us.
    pub(super) fn next_action(&self) -> Next {
        if self.verified.is_some() {
            Next::Finish
        } else if !self.unread().is_empty() {
            Next::Read
        } else if self.dirty {
            Next::Check
        } else {
            Next::Write
        }
    }

    /// The files that may be written and that the model has not seen as they are now.
    fn unread(&self) -> Vec<&RelPath> {
        let paths = &self.setup.started.paths;
        self.editable()
            .into_iter()
            .filter(|path| !self.seen.contains_key(*path))
            .filter(|path| paths.may_write(path))
            .collect()
    }

    /// The files that are there and may be written.
    fn editable(&self) -> Vec<&RelPath> {
        let may_write =
            |path: &RelPath| self.setup.started.paths.may_write(path) && !self.is_fixture(path);
        self.known
            .iter()
            .map(|(path, _)| path)
            .filter(|path| may_write(path))
            .collect()
    }

    /// The files that may be named in a write: those that are there, and those that are allowed by
    /// name and not there yet. A folder allows any.
    fn writable(&self) -> Choice {
        let entries = self.setup.started.paths.editable_entries();
        let mut paths: Vec<RelPath> = self.editable().into_iter().cloned().collect();
        for entry in entries {
            if self.known.get(entry).is_some() {
                continue;
            }
            if self
                .known
                .iter()
                .any(|(path, _)| path.parents().any(|folder| folder == entry.as_str()))
            {
                return Choice::Any;
            }
            paths.push(entry.clone());
        }
        Choice::OneOf(paths)
    }

    fn readable(&self) -> Vec<RelPath> {
        let paths = &self.setup.started.paths;
        self.known
            .iter()
            .map(|(path, _)| path)
            .filter(|path| paths.may_read(path))
            .cloned()
            .collect()
    }

    /// The actions that are offered. They are checked all the same when they come: some servers
    /// answer without the schema.
    pub(super) fn offer(&self) -> Offer {
        let next = self.next_action();
        let open = self.setup.started.order == Order::Open;
        let read = match (open, next) {
            (true, _) => Some(Choice::OneOf(self.readable())),
            (false, Next::Read) => {
                Some(Choice::OneOf(self.unread().into_iter().cloned().collect()))
            }
            (false, _) => None,
        };
        let check = || {
            let mut names: Vec<String> = self.setup.plans.keys().cloned().collect();
            // The one that is meant where none is named comes first.
            names.sort_by_key(|name| *name != self.setup.started.default_check);
            names
        };
        Offer {
            read: read.filter(|choice| *choice != Choice::OneOf(Vec::new())),
            write: (open || next == Next::Write).then(|| self.writable()),
            check: (next == Next::Check || open && self.dirty).then(check),
            finish: next == Next::Finish,
        }
    }

    /// The second message of the prompt.
    pub(super) fn prompt(&self) -> String {
        let started = &self.setup.started;
        let next = self.next_action();
        let targets = match next {
            Next::Read => self.unread(),
            _ => self.editable(),
        };
        let failures = match &self.last_check {
            CheckView::Failed(failures) => Some(failures.as_str()),
            _ => None,
        };
        let seen = self.seen.iter().filter_map(|(path, turn)| {
            Some(Seen {
                path,
                file: self.known.get(path)?,
                turn: *turn,
            })
        });
        let new = started
            .paths
            .editable_entries()
            .filter(|path| self.known.get(path).is_none());
        let targets: Vec<&RelPath> = match targets.is_empty() {
            true => new.collect(),
            false => targets,
        };
        prompt::user(&View {
            task: &started.text,
            listed: self.listed(),
            seen: seen.collect(),
            failures,
            refusal: self.refusal.as_deref(),
            next,
            targets,
            observation_bytes: started.budget.observation_bytes,
        })
    }

    /// The files that the model may use: what it may write first, then the tests.
    fn listed(&self) -> Vec<(&RelPath, Use)> {
        let paths = &self.setup.started.paths;
        let usable = |path: &RelPath| match (paths.may_write(path), self.is_fixture(path)) {
            (_, true) if paths.may_read(path) => Some(Use::Tests),
            (true, false) => Some(Use::Write),
            (false, false) if paths.may_read(path) => Some(Use::Read),
            _ => None,
        };
        let known = self.known.iter().map(|(path, _)| path);
        let new = paths.editable_entries().chain(paths.readable_entries());
        let new = new.filter(|path| self.known.get(path).is_none() && paths.may_write(path));
        let mut listed: Vec<_> = known
            .chain(new)
            .filter_map(|path| Some((path, usable(path)?)))
            .collect();
        listed.sort_by_key(|(_, may)| match may {
            Use::Write => 0,
            Use::Tests => 1,
            Use::Read => 2,
        });
        listed
    }
}
