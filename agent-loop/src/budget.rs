//! What an attempt may use up, and what it has used.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Price, Usage};
use crate::serde_as;

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

/// What an attempt may use up. Reaching a limit ends it and is never a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Budget {
    /// Replies of the model, each of which is a turn, also one that is no action. Default: 12.
    pub turns: u32,
    /// Replies in a row that are no action. The attempt ends with the last of them. Default: 3.
    pub format_errors_in_a_row: u32,
    /// How often the same action may be asked for on the same files: from this time on it is not
    /// carried out, and the model is told. Default: 3.
    pub repeats: u32,
    /// The attempt ends when the same action was asked for so often. Default: 6.
    pub stuck_after: u32,
    /// Checks in a row without a verdict. The attempt ends with the last of them. Default: 2.
    pub invalid_checks: u32,
    /// Checks. Default: no limit of their own.
    pub checks: Option<u32>,
    /// Tokens, in and out. A call of unknown usage counts with what was reserved for it. Default:
    /// no limit.
    pub tokens: Option<u64>,
    /// Money. Default: no limit.
    pub cost: Option<CostLimit>,
    /// Time from the start. Default: no limit.
    #[serde(with = "serde_as::maybe_millis", rename = "wall_ms")]
    pub wall: Option<Duration>,
    /// Time from the start without what was spent waiting: for a model's queue, between retries,
    /// for a new place, for an approval. Default: no limit.
    #[serde(with = "serde_as::maybe_millis", rename = "working_ms")]
    pub working: Option<Duration>,
    /// How long one command of a check may run. Default: 30 s.
    #[serde(with = "serde_as::millis", rename = "check_limit_ms")]
    pub check_limit: Duration,
    /// The most of one observation that the model is shown, in bytes: its head and its tail, with
    /// the cut said. Default: 4 KiB.
    pub observation_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            turns: 12,
            format_errors_in_a_row: 3,
            repeats: 3,
            stuck_after: 6,
            invalid_checks: 2,
            checks: None,
            tokens: None,
            cost: None,
            wall: None,
            working: None,
            check_limit: Duration::from_secs(30),
            observation_bytes: 4096,
        }
    }
}

impl Budget {
    /// Changes the number of turns.
    #[must_use]
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    /// Changes how long one command of a check may run.
    #[must_use]
    pub fn check_limit(mut self, limit: Duration) -> Self {
        self.check_limit = limit;
        self
    }

    /// Limits the tokens.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Limits the money.
    #[must_use]
    pub fn cost(mut self, limit: CostLimit) -> Self {
        self.cost = Some(limit);
        self
    }

    /// The budget as it is read back after it was written down.
    pub(crate) fn written_down(mut self) -> Self {
        self.wall = self.wall.map(serde_as::millis::cut);
        self.working = self.working.map(serde_as::millis::cut);
        self.check_limit = serde_as::millis::cut(self.check_limit);
        self
    }

    /// Limits the time.
    #[must_use]
    pub fn wall(mut self, limit: Duration) -> Self {
        self.wall = Some(limit);
        self
    }
}

/// How much money may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CostLimit {
    /// The most. Zero means that nothing may be spent.
    pub limit: Micros,
    /// What to do about calls whose cost nobody knows.
    pub unknown: OnUnknown,
}

impl CostLimit {
    /// A limit that refuses a model of unknown price.
    #[must_use]
    pub fn new(limit: Micros) -> Self {
        Self {
            limit,
            unknown: OnUnknown::Refuse,
        }
    }

    /// Says what to do about calls whose cost nobody knows.
    #[must_use]
    pub fn unknown(mut self, unknown: OnUnknown) -> Self {
        self.unknown = unknown;
        self
    }
}

/// What a limit of cost does about calls whose cost nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the three cases are complete")]
pub enum OnUnknown {
    /// The attempt is not started.
    Refuse,
    /// Each counts with this much, before and after.
    AssumeAtMost(Micros),
    /// They are counted and cost nothing. The limit holds only for what is known.
    CountOnly,
}

/// What was set aside for a call before it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(crate) tokens: u64,
    pub(crate) cost: Micros,
}

/// What has been used so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) calls: u32,
    /// Sums of what is known, and how many calls are not in them.
    pub(crate) usage: Usage,
    pub(crate) unknown_usage_calls: u32,
    pub(crate) cost: Micros,
    pub(crate) unknown_cost_calls: u32,
    /// What counts against the limits: the known, and for the unknown what was reserved.
    charged_tokens: u64,
    charged_cost: Micros,
}

impl Spent {
    /// What one more call may take.
    pub(crate) fn reserve(
        input_estimate: u64,
        max_output: u32,
        price: Option<&Price>,
        limit: Option<&CostLimit>,
    ) -> Reserve {
        let output = u64::from(max_output);
        let assumed = match limit.map(|limit| limit.unknown) {
            Some(OnUnknown::AssumeAtMost(most)) => most,
            _ => Micros::default(),
        };
        Reserve {
            tokens: input_estimate.saturating_add(output),
            cost: price.map_or(assumed, |price| price.of(input_estimate, output)),
        }
    }

    /// Whether one more call fits into the limits.
    pub(crate) fn fits(&self, reserve: Reserve, budget: &Budget) -> Result<(), Short> {
        let tokens = self.charged_tokens.saturating_add(reserve.tokens);
        if budget.tokens.is_some_and(|limit| tokens > limit) {
            return Err(Short::Tokens);
        }
        let cost = self.charged_cost.saturating_add(reserve.cost);
        let over = |limit: CostLimit| cost > limit.limit || limit.limit == Micros::default();
        match budget.cost.is_some_and(over) {
            true => Err(Short::Cost),
            false => Ok(()),
        }
    }

    /// Books a call, as soon as it has ended and before anybody looks at what it says.
    pub(crate) fn settle(
        &mut self,
        reserve: Reserve,
        usage: Option<Usage>,
        cost: Option<Micros>,
        price: Option<&Price>,
    ) {
        self.calls = self.calls.saturating_add(1);
        let usage = usage.unwrap_or_default();
        match usage.total() {
            Some(total) => self.charged_tokens = self.charged_tokens.saturating_add(total),
            None => {
                self.unknown_usage_calls = self.unknown_usage_calls.saturating_add(1);
                self.charged_tokens = self.charged_tokens.saturating_add(reserve.tokens);
            }
        }
        add(&mut self.usage.input, usage.input);
        add(&mut self.usage.output, usage.output);
        add(&mut self.usage.cache_read, usage.cache_read);
        add(&mut self.usage.cache_write, usage.cache_write);
        let priced = || price.and_then(|price| price.of_usage(usage));
        match cost.or_else(priced) {
            Some(cost) => {
                self.cost = self.cost.saturating_add(cost);
                self.charged_cost = self.charged_cost.saturating_add(cost);
            }
            None => {
                self.unknown_cost_calls = self.unknown_cost_calls.saturating_add(1);
                self.charged_cost = self.charged_cost.saturating_add(reserve.cost);
            }
        }
    }
}

/// Which limit one more call would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    Tokens,
    Cost,
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price() -> Price {
        Price::new(Micros::new(1_000_000), Micros::new(2_000_000), "a list")
    }

    #[test]
    fn what_is_reserved_is_replaced_by_what_was_used() {
        let budget = Budget::default().cost(CostLimit::new(Micros::new(1000)));
        let reserve = Spent::reserve(100, 200, Some(&price()), budget.cost.as_ref());
        assert_eq!(
            reserve,
            Reserve {
                tokens: 300,
                cost: Micros::new(500)
            }
        );
        let mut spent = Spent::default();
        spent.settle(reserve, Some(Usage::new(100, 20)), None, Some(&price()));
        assert_eq!(
            (spent.cost, spent.unknown_cost_calls),
            (Micros::new(140), 0)
        );
        assert_eq!(spent.fits(reserve, &budget), Ok(()));
        // The usage is not known: the reserve is charged, the report says unknown.
        spent.settle(reserve, None, None, Some(&price()));
        assert_eq!(
            (spent.cost, spent.unknown_cost_calls),
            (Micros::new(140), 1)
        );
        assert_eq!(
            (spent.usage.total(), spent.unknown_usage_calls),
            (Some(120), 1)
        );
        assert_eq!(spent.fits(reserve, &budget), Err(Short::Cost));
    }

    #[test]
    fn the_cost_that_a_provider_states_wins_over_the_price() {
        let mut spent = Spent::default();
        let cost = Some(Micros::new(7));
        spent.settle(
            Reserve::default(),
            Some(Usage::new(100, 20)),
            cost,
            Some(&price()),
        );
        assert_eq!(spent.cost, Micros::new(7));
    }

    #[test]
    fn the_unknown_is_treated_as_was_asked_for() {
        let limit = |unknown| CostLimit::new(Micros::new(100)).unknown(unknown);
        let table = [
            (OnUnknown::AssumeAtMost(Micros::new(40)), 2),
            (OnUnknown::CountOnly, 9),
        ];
        for (unknown, calls) in table {
            let budget = Budget::default().cost(limit(unknown));
            let mut spent = Spent::default();
            while spent.calls < 9 {
                let reserve = Spent::reserve(1, 1, None, budget.cost.as_ref());
                if spent.fits(reserve, &budget).is_err() {
                    break;
                }
                spent.settle(reserve, None, None, None);
            }
            assert_eq!(spent.calls, calls, "{unknown:?}");
            assert_eq!(
                (spent.cost, spent.unknown_cost_calls),
                (Micros::default(), calls)
            );
        }
    }

    #[test]
    fn a_limit_of_zero_lets_nothing_through() {
        let budget = Budget::default().cost(CostLimit::new(Micros::default()));
        assert_eq!(
            Spent::default().fits(Reserve::default(), &budget),
            Err(Short::Cost)
        );
    }

    #[test]
    fn tokens_are_limited_before_the_call() {
        let budget = Budget::default().tokens(250);
        let reserve = Spent::reserve(100, 50, None, None);
        let mut spent = Spent::default();
        assert_eq!(spent.fits(reserve, &budget), Ok(()));
        spent.settle(reserve, Some(Usage::new(90, 20)), None, None);
        assert_eq!(spent.fits(reserve, &budget), Err(Short::Tokens));
    }

    #[test]
    fn money_is_shown_to_the_last_millionth() {
        assert_eq!(Micros::new(1_040_000).to_string(), "1.040000");
        assert_eq!(Micros::new(7).to_string(), "0.000007");
    }
}
