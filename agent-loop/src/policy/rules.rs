//! Rules about kinds, sizes and checks, and the composition of policies.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Decision, Policy, PolicyContext};
use crate::action::Action;

/// What an action is, without what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the four actions are complete")]
pub enum ActionKind {
    /// Shows a file.
    Read,
    /// Replaces a file.
    Write,
    /// Runs a check.
    Check,
    /// Ends the work.
    Finish,
}

impl ActionKind {
    /// The kind of `action`.
    #[must_use]
    pub fn of(action: &Action) -> Self {
        match action {
            Action::Read { .. } => Self::Read,
            Action::Write { .. } => Self::Write,
            Action::Check { .. } => Self::Check,
            Action::Finish { .. } => Self::Finish,
        }
    }

    /// The action's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Check => "check",
            Self::Finish => "finish",
        }
    }
}

/// Rules that can be said in a few words. Each setter narrows; without any, everything is allowed.
///
/// # Examples
/// ```
/// use agent_loop::policy::{ActionKind, Policy as _, Rules, policy_fn, Decision};
///
/// let rules = Rules::new()
///     .max_write_bytes(4096)
///     .checks(["unit"])
///     .ask_before([ActionKind::Finish])
///     .and(policy_fn(|context, _| match context.checks {
///         0..=9 => Decision::Allow,
///         _ => Decision::stop("ten checks were not enough"),
///     }));
/// # let _ = rules;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    kinds: Option<BTreeSet<ActionKind>>,
    max_write_bytes: Option<u64>,
    checks: Option<BTreeSet<String>>,
    ask_before: BTreeSet<ActionKind>,
}

impl Rules {
    /// Everything is allowed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only these kinds of actions.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = ActionKind>) -> Self {
        let kinds = kinds.into_iter().collect();
        self.kinds = Some(narrowed(self.kinds.take(), kinds));
        self
    }

    /// No file of more bytes is written.
    #[must_use]
    pub fn max_write_bytes(mut self, bytes: u64) -> Self {
        let before = self.max_write_bytes.unwrap_or(u64::MAX);
        self.max_write_bytes = Some(before.min(bytes));
        self
    }

    /// Only checks of these names. One without a name, which is the first of the acceptance, is
    /// allowed: the operator has put it there.
    #[must_use]
    pub fn checks<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.checks = Some(narrowed(self.checks.take(), names));
        self
    }

    /// A person decides about these kinds of actions.
    #[must_use]
    pub fn ask_before(mut self, kinds: impl IntoIterator<Item = ActionKind>) -> Self {
        self.ask_before.extend(kinds);
        self
    }
}

fn narrowed<T: Ord>(before: Option<BTreeSet<T>>, now: BTreeSet<T>) -> BTreeSet<T> {
    match before {
        None => now,
        Some(before) => now
            .into_iter()
            .filter(|item| before.contains(item))
            .collect(),
    }
}

impl Policy for Rules {
    fn decide(&self, _context: &PolicyContext, action: &Action) -> Decision {
        let kind = ActionKind::of(action);
        if let Some(kinds) = self.kinds.as_ref().filter(|kinds| !kinds.contains(&kind)) {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            let (kind, kinds) = (kind.as_str(), kinds.join(", "));
            return Decision::deny(format!("{kind} is not allowed; these are: {kinds}"));
        }
        match action {
            Action::Write { path, content } => {
                let (len, max) = (content.len() as u64, self.max_write_bytes);
                if let Some(max) = max.filter(|max| len > *max) {
                    let said = format!("{path} would have {len} bytes; at most {max} are allowed");
                    return Decision::deny(said);
                }
            }
            Action::Check { name: Some(name) } => {
                let denied = |names: &&BTreeSet<String>| !names.contains(name);
                if let Some(names) = self.checks.as_ref().filter(denied) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let names = names.join(", ");
                    let said = format!("this check is not allowed; these are: {names}");
                    return Decision::deny(said);
                }
            }
            _ => {}
        }
        match self.ask_before.contains(&kind) {
            true => Decision::ask(format!("May the model do this: {action}?")),
            false => Decision::Allow,
        }
    }
}

/// Two policies, of which the stricter counts. Made by [`Policy::and`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct And<A, B> {
    first: A,
    second: B,
}

impl<A, B> And<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: Policy, B: Policy> Policy for And<A, B> {
    fn decide(&self, context: &PolicyContext, action: &Action) -> Decision {
        let first = self.first.decide(context, action);
        first.and(self.second.decide(context, action))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::Tree;
    use crate::path::RelPath;
    use crate::policy::{Paths, policy_fn};

    fn context() -> PolicyContext {
        PolicyContext::new(1, Tree::new().hash(), 0)
    }

    fn write(bytes: usize) -> Action {
        Action::Write {
            path: RelPath::parse("a.py").unwrap(),
            content: vec![b'x'; bytes],
        }
    }

    fn check(name: &str) -> Action {
        Action::Check {
            name: Some(name.to_owned()),
        }
    }

    #[test]
    fn a_rule_denies_and_says_what_is_allowed() {
        let rules = Rules::new()
            .kinds([ActionKind::Write, ActionKind::Check])
            .max_write_bytes(9)
            .max_write_bytes(99)
            .checks(["unit", "lint"])
            .checks(["unit"])
            .ask_before([ActionKind::Check]);
        let table = [
            (write(9), Decision::Allow),
            (
                write(10),
                Decision::deny("a.py would have 10 bytes; at most 9 are allowed"),
            ),
            (
                Action::Finish { note: None },
                Decision::deny("finish is not allowed; these are: write, check"),
            ),
            (
                check("lint"),
                Decision::deny("this check is not allowed; these are: unit"),
            ),
            (
                check("unit"),
                Decision::ask("May the model do this: check unit?"),
            ),
            (
                Action::Check { name: None },
                Decision::ask("May the model do this: check?"),
            ),
        ];
        for (action, decision) in table {
            assert_eq!(rules.decide(&context(), &action), decision, "{action}");
        }
        assert_eq!(
            Rules::new().decide(&context(), &write(1 << 20)),
            Decision::Allow
        );
    }

    fn action() -> impl Strategy<Value = Action> {
        let path = prop_oneof![Just("a.py"), Just("t.py"), Just("src/b.py")];
        let path = path.prop_map(|path| RelPath::parse(path).unwrap());
        let content = proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            path.clone().prop_map(|path| Action::Read { path }),
            (path, content).prop_map(|(path, content)| Action::Write { path, content }),
            prop_oneof![Just(None), Just(Some("unit")), Just(Some("lint"))].prop_map(|name| {
                Action::Check {
                    name: name.map(str::to_owned),
                }
            }),
            Just(Action::Finish { note: None }),
        ]
    }

    /// A policy with how it came about, for a failed case.
    struct Drawn(String, Box<dyn Policy>);

    impl std::fmt::Debug for Drawn {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    fn policy() -> impl Strategy<Value = Drawn> {
        let kinds = proptest::sample::subsequence(
            vec![
                ActionKind::Read,
                ActionKind::Write,
                ActionKind::Check,
                ActionKind::Finish,
            ],
            0..=4,
        );
        let drawn = |rules: Rules| Drawn(format!("{rules:?}"), Box::new(rules));
        prop_oneof![
            kinds
                .clone()
                .prop_map(move |kinds| drawn(Rules::new().kinds(kinds))),
            kinds.prop_map(move |kinds| drawn(Rules::new().ask_before(kinds))),
            (0..20_u64).prop_map(move |max| drawn(Rules::new().max_write_bytes(max))),
            Just(()).prop_map(move |()| drawn(Rules::new().checks(["unit"]))),
            Just(()).prop_map(|()| {
                let paths = Paths::editable(["a.py"]).unwrap();
                Drawn(format!("{paths:?}"), Box::new(paths))
            }),
            (0..4_u8).prop_map(|which| {
                let policy = policy_fn(move |_, _| match which {
                    0 => Decision::Allow,
                    1 => Decision::ask("?"),
                    2 => Decision::deny("no"),
                    _ => Decision::stop("over"),
                });
                Drawn(format!("always {which}"), Box::new(policy))
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_composition_only_narrows(
            policies in proptest::collection::vec(policy(), 1..5),
            action in action(),
        ) {
            let context = context();
            let alone: Vec<Decision> =
                policies.iter().map(|policy| policy.1.decide(&context, &action)).collect();
            let none: Box<dyn Policy> = Box::new(Rules::new());
            let all = policies.into_iter().fold(none, |all, next| Box::new(all.and(next.1)));
            let together = all.decide(&context, &action);
            // Exactly as strict as the strictest, hence never more than any one allows.
            let strictest = alone.iter().map(Decision::strictness).max().unwrap();
            prop_assert_eq!(together.strictness(), strictest);
            prop_assert!(alone.contains(&together) || together == Decision::Allow);
        }
    }
}
