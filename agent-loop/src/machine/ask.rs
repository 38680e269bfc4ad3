//! Asking the model: budgets before, accounts after, and pauses between.

use std::sync::Arc;
use std::time::Duration;

use super::{Machine, Phase, Question};
use crate::budget::{Reserve, Short, Spent};
use crate::journal::{Asked, Durability, Event};
use crate::model::{Message, ModelError, ModelErrorKind, ModelReply, Usage};
use crate::outcome::{End, Latency, Limit};
use crate::text::estimated_tokens;

/// Calls of the model for one turn, the first one among them.
const MOST_TRIES: u32 = 4;
/// The longest pause after the first failed call; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that we choose ourselves.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Machine {
    /// Asks the model, where the budget allows it.
    pub(super) fn ask(&mut self, tries: u32) {
        let budget = self.budget();
        let over =
            |limit: Option<Duration>, used: Duration| limit.is_some_and(|limit| used >= limit);
        let limit = if self.turns_used >= budget.turns {
            Some(Limit::Turns)
        } else if over(budget.wall, self.now) {
            Some(Limit::Wall)
        } else if over(budget.working, self.now.saturating_sub(self.waited())) {
            Some(Limit::Working)
        } else {
            None
        };
        if let Some(limit) = limit {
            self.end(End::Exhausted { limit });
            return;
        }
        if matches!(self.phase, Phase::Ready) {
            self.turn = self.turns_used + 1;
            self.seq = 0;
            self.turn_took = Duration::ZERO;
            self.action = None;
        }
        let prompt = self.prompt();
        let system = self.setup.started.system.clone();
        let model = &self.setup.started.revisions.model;
        let (max_output_tokens, seed) = (model.max_output_tokens, self.turn_seed(model.seed));
        let estimate = estimated_tokens(&system) + estimated_tokens(&prompt);
        let cost_limit = self.budget().cost;
        let price = self.setup.started.price.as_ref();
        let reserve = Spent::reserve(estimate, max_output_tokens, price, cost_limit.as_ref());
        if let Err(short) = self.spent.fits(reserve, self.budget()) {
            let limit = match short {
                Short::Tokens => Limit::Tokens,
                Short::Cost => Limit::Cost,
            };
            self.end(End::Exhausted { limit });
            return;
        }
        let id = self.next_id();
        let schema = self.offer().schema();
        let asked = Asked {
            id: id.clone(),
            turn: self.turn,
            prompt: prompt.clone(),
            schema: schema.clone(),
            seed,
            estimated_tokens: estimate,
            elapsed: self.now,
        };
        self.record(Event::Asked(asked), Durability::Buffered);
        let remaining = self.budget().wall.map(|wall| wall.saturating_sub(self.now));
        let deadline = remaining.map_or(self.setup.model_deadline, |remaining| {
            remaining.min(self.setup.model_deadline)
        });
        let messages = [Message::system(system), Message::user(prompt)];
        let question = Question {
            id,
            messages,
            schema,
            seed,
            max_output_tokens,
            deadline,
        };
        self.phase = Phase::Asking {
            question: Arc::new(question),
            reserve,
            tries,
        };
    }

    /// A seed for each turn, so that a wrong write is not sampled again.
    fn turn_seed(&self, seed: Option<u64>) -> Option<u64> {
        let turn = u64::from(self.turn.saturating_sub(1));
        seed.map(|seed| seed.wrapping_mul(1000).wrapping_add(turn))
    }

    /// Time that was spent waiting for others and not working.
    fn waited(&self) -> Duration {
        let Latency {
            queue,
            backoff,
            approval,
            ..
        } = self.latency;
        queue.unwrap_or_default() + backoff + approval
    }

    /// Books a call before anybody looks at what it says.
    pub(super) fn settle(
        &mut self,
        result: &Result<ModelReply, ModelError>,
        reserve: Reserve,
        took: Duration,
    ) {
        let (usage, cost, queue) = match result {
            Ok(reply) => (Some(reply.usage), reply.cost, reply.queue),
            // What the server did not take it does not bill.
            Err(error) => match error.kind {
                ModelErrorKind::RateLimited
                | ModelErrorKind::Auth
                | ModelErrorKind::BadRequest
                | ModelErrorKind::ContextTooLong => {
                    let usage = error.usage.unwrap_or(Usage::new(0, 0));
                    let cost = (usage.total() == Some(0)).then(Default::default);
                    (Some(usage), cost, None)
                }
                _ => (error.usage, None, None),
            },
        };
        self.spent
            .settle(reserve, usage, cost, self.setup.started.price.as_ref());
        if let Some(queue) = queue {
            *self.latency.queue.get_or_insert_default() += queue;
        }
        self.latency.model += took.saturating_sub(queue.unwrap_or_default());
    }

    /// Pauses and asks again where that is worth it, or gives up.
    pub(super) fn model_failed(&mut self, error: ModelError, tries: u32) {
        let kind = error.kind;
        if kind == ModelErrorKind::ContextTooLong {
            self.end(End::ContextTooLong);
            return;
        }
        let at_least = error.retry_after.unwrap_or_default();
        let remaining = self.budget().wall.map(|wall| wall.saturating_sub(self.now));
        if remaining == Some(Duration::ZERO) {
            self.end(End::Exhausted { limit: Limit::Wall });
            return;
        }
        let fits = remaining.is_none_or(|remaining| at_least < remaining);
        if !kind.is_retryable() || tries >= MOST_TRIES || !fits {
            self.end(End::ModelFailed {
                kind,
                detail: error.detail,
            });
            return;
        }
        let up_to = FIRST_PAUSE
            .saturating_mul(1 << (tries - 1))
            .min(LONGEST_PAUSE);
        let up_to = remaining.map_or(up_to, |remaining| up_to.min(remaining));
        self.phase = Phase::Pausing {
            at_least,
            up_to,
            tries,
        };
    }
}
