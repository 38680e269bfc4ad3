//! What an attempt may use up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Money in millionths of a unit of currency. Accounting has no floating point numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(u64);

impl Micros {
    /// So many millionths.
    #[must_use]
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// How many millionths.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or the largest amount there is.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
