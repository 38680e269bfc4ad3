//! What an output of a run has to be.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail};
use polyaxon_client::runs::{Cell, Column};

/// An output and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    output: String,
    bound: Bound,
    number: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

impl Requirement {
    pub(crate) fn output(&self) -> &str {
        &self.output
    }

    pub(crate) fn column(&self) -> Column {
        Column::Output(self.output.clone())
    }

    pub(crate) fn smaller_is_better(&self) -> bool {
        self.bound == Bound::AtMost
    }

    /// Whether the run keeps to it. What is missing, or no number, does not.
    pub(crate) fn is_met(&self, cell: &Cell) -> bool {
        cell.as_f64().is_some_and(|number| match self.bound {
            Bound::AtLeast => number >= self.number,
            Bound::AtMost => number <= self.number,
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.bound {
            Bound::AtLeast => ">=",
            Bound::AtMost => "<=",
        };
        write!(f, "{}{sign}{}", self.output, self.number)
    }
}

impl FromStr for Requirement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        for (sign, bound) in [(">=", Bound::AtLeast), ("<=", Bound::AtMost)] {
            let Some((output, number)) = text.split_once(sign) else {
                continue;
            };
            let number: f64 = number
                .trim()
                .parse()
                .with_context(|| format!("`{number}` is no number"))?;
            return Ok(Self {
                output: output.trim().to_owned(),
                bound,
                number,
            });
        }
        bail!("`{text}` is not `OUTPUT>=NUMBER` or `OUTPUT<=NUMBER`")
    }
}
