//! What callers were told, against what was done.

use std::collections::BTreeMap;
use std::fmt;

use polyaxon_client::Effect;

use crate::operations::Op;

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Failed(Effect),
}

const OUTCOMES: [(Outcome, &str); 4] = [
    (Outcome::Failed(Effect::NotApplied), "not applied"),
    (Outcome::Failed(Effect::Unknown), "unknown"),
    (Outcome::Failed(Effect::Applied), "applied"),
    (Outcome::Ok, "ok"),
];

#[derive(Debug, Default)]
pub(crate) struct Matrix(BTreeMap<(&'static str, usize, usize), usize>);

impl Matrix {
    pub(crate) fn count(&mut self, op: Op, outcome: Outcome, done: usize) {
        let column = OUTCOMES.iter().position(|(known, _)| *known == outcome);
        let key = (op.name(), column.unwrap(), done.min(2));
        *self.0.entry(key).or_default() += 1;
    }

    fn at(&self, op: Option<&str>, column: usize, done: usize) -> usize {
        let cells = self.0.iter().filter(|((name, to, times), _)| {
            op.is_none_or(|op| op == *name) && *to == column && *times == done
        });
        cells.map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:14}", "")?;
        for (_, name) in OUTCOMES {
            write!(f, "| {name:^20} ")?;
        }
        write!(f, "\n{:14}", "done")?;
        for _ in OUTCOMES {
            write!(f, "| {:>6} {:>6} {:>6} ", 0, 1, "2+")?;
        }
        writeln!(f)?;
        let names = Op::ALL.map(|op| Some(op.name()));
        for name in names.into_iter().chain([None]) {
            write!(f, "{:14}", name.unwrap_or("all"))?;
            for column in 0..OUTCOMES.len() {
                let [none, once, more] = [0, 1, 2].map(|done| self.at(name, column, done));
                write!(f, "| {none:>6} {once:>6} {more:>6} ")?;
            }
            writeln!(f)?;
        }
        write!(f, "{} cases", self.0.values().sum::<usize>())
    }
}
