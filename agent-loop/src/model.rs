//! The model: what it is asked, and what it answers.

mod cassette;
mod fallback;
#[cfg(feature = "openai")]
pub mod openai;
mod scripted;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::budget::Micros;
use crate::ids::RequestId;
use crate::private::Private;
use crate::serde_as;

pub use cassette::{Recording, Replay};
pub use fallback::Fallback;
pub use scripted::{ModelFn, ScriptedModel, model_fn};

/// Proposes the next action.
///
/// A call changes nothing in the workspace, so the loop may repeat it: retries and back-off are the
/// loop's, an implementation sends each request once and says how it ended.
pub trait Model: Send + Sync {
    /// The model's name, as a reader of the evidence should see it.
    fn name(&self) -> &str;

    /// Asks for one reply.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call; what it has cost until then is unknown.
    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;

    /// The settings it is asked with, such as the temperature, for the first record of the journal.
    /// No addresses and no secrets. Default: null.
    fn settings(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// What its tokens cost, where that is known. Default: unknown, which is not zero.
    fn price(&self) -> Option<Price> {
        None
    }
}

/// One call of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The name of this call, unique over retries of the same turn.
    pub id: RequestId,
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// A JSON schema that the reply should follow, as text. Send exactly these bytes: the order of
    /// the properties is the order in which servers generate them.
    pub schema: Option<&'a str>,
    /// A seed for sampling, different in each turn.
    pub seed: Option<u64>,
    /// The most tokens that the reply may have.
    pub max_output_tokens: u32,
    /// How long the call may take.
    pub deadline: Duration,
}

impl<'a> ModelRequest<'a> {
    /// A request of `messages` with 1,024 output tokens, two minutes, no schema and no seed.
    #[must_use]
    pub fn new(id: RequestId, messages: &'a [Message]) -> Self {
        Self {
            id,
            messages,
            schema: None,
            seed: None,
            max_output_tokens: 1024,
            deadline: Duration::from_secs(120),
        }
    }

    /// Asks for a reply that follows `schema`.
    #[must_use]
    pub fn schema(mut self, schema: &'a str) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Asks for sampling with `seed`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Limits the length of the reply.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// Limits the time of the call.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// One part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// What the model is told before anything else.
    #[must_use]
    pub fn system(content: impl Into<String>) -> Self {
        Self {
            role: Role::System,
            content: content.into(),
        }
    }

    /// What the loop says.
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: content.into(),
        }
    }

    /// What the model said.
    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            content: content.into(),
        }
    }
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a chat has these three")]
pub enum Role {
    /// The instructions.
    System,
    /// The loop.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The word that chat servers use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelReply {
    /// The text, unchanged. May be empty.
    pub text: String,
    /// Why the model ended there.
    pub finish: Finish,
    /// How many tokens it took, as far as the provider said.
    pub usage: Usage,
    /// What the call cost, where the provider said so. `None` is unknown, not zero.
    pub cost: Option<Micros>,
    /// Which model or deployment answered, where that was said.
    pub served_by: Option<String>,
    /// How long the call waited in a queue, where that was said.
    #[serde(with = "serde_as::maybe_millis", rename = "queue_ms")]
    pub queue: Option<Duration>,
    /// What the model thought before it answered, where the server told it apart. Nothing of it is
    /// ever taken for an action or sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<String>,
}

impl ModelReply {
    /// A reply that ended by itself, of unknown usage and cost.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            finish: Finish::Stop,
            usage: Usage::default(),
            cost: None,
            served_by: None,
            queue: None,
            thoughts: None,
        }
    }

    /// Says what the model thought before it answered.
    #[must_use]
    pub fn thoughts(mut self, text: impl Into<String>) -> Self {
        self.thoughts = Some(text.into());
        self
    }

    /// Says why the model ended.
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// Says how many tokens it took.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Says what it cost.
    #[must_use]
    pub fn cost(mut self, cost: Micros) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Says which model or deployment answered.
    #[must_use]
    pub fn served_by(mut self, name: impl Into<String>) -> Self {
        self.served_by = Some(name.into());
        self
    }

    /// Says how long the call waited in a queue.
    #[must_use]
    pub fn queue(mut self, queue: Duration) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// Why a model ended its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// It was done.
    Stop,
    /// It reached the limit of tokens. Nothing of such a reply is ever executed.
    Length,
    /// A filter of the provider cut it.
    Filtered,
    /// The server did not say, or said something else.
    Unknown,
}

/// Tokens of a call. `None` is unknown, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt, those from a cache among them.
    pub input: Option<u64>,
    /// Tokens of the reply, thoughts among them.
    pub output: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read: Option<u64>,
    /// Tokens of the prompt that were put into a cache.
    pub cache_write: Option<u64>,
}

impl Usage {
    /// A usage of which the two main numbers are known.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input: Some(input),
            output: Some(output),
            ..Self::default()
        }
    }

    /// Input and output together, where both are known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.input?.checked_add(self.output?)
    }
}

/// What tokens cost, and since when and where that is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// A million tokens of prompt.
    pub input_per_million: Micros,
    /// A million tokens of reply.
    pub output_per_million: Micros,
    /// Where the numbers are from: `price list of 2026-03`.
    pub basis: String,
}

impl Price {
    /// A price, from `basis`.
    #[must_use]
    pub fn new(
        input_per_million: Micros,
        output_per_million: Micros,
        basis: impl Into<String>,
    ) -> Self {
        Self {
            input_per_million,
            output_per_million,
            basis: basis.into(),
        }
    }

    /// What so many tokens cost, rounded up.
    #[must_use]
    pub fn of(&self, input: u64, output: u64) -> Micros {
        let part = |tokens: u64, price: Micros| {
            (u128::from(tokens) * u128::from(price.get())).div_ceil(1_000_000)
        };
        let sum = part(input, self.input_per_million) + part(output, self.output_per_million);
        Micros::new(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// What a call cost, where both numbers of its usage are known.
    #[must_use]
    pub fn of_usage(&self, usage: Usage) -> Option<Micros> {
        let (input, output) = usage.input.zip(usage.output)?;
        Some(self.of(input, output))
    }
}

/// A call of a model that gave no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the model call failed: {kind}")]
#[non_exhaustive]
pub struct ModelError {
    /// What happened.
    pub kind: ModelErrorKind,
    /// How long the server asked to wait.
    #[serde(with = "serde_as::maybe_millis", rename = "retry_after_ms")]
    pub retry_after: Option<Duration>,
    /// What the failed call has used all the same, where that is known.
    pub usage: Option<Usage>,
    /// More for the operator.
    pub detail: Private,
}

impl ModelError {
    /// A failure, with a detail for the operator.
    #[must_use]
    pub fn new(kind: ModelErrorKind, detail: impl AsRef<str>) -> Self {
        Self {
            kind,
            retry_after: None,
            usage: None,
            detail: Private::new(detail),
        }
    }

    /// Says how long the server asked to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Says what the failed call has used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// Why a model call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Too many calls. Asked again after a while.
    RateLimited,
    /// The server is busy, starting or broken for now. Asked again after a while.
    Overloaded,
    /// No answer within the deadline. Asked again.
    TimedOut,
    /// The server was not reached, or the connection broke. Asked again.
    Transport,
    /// The prompt is longer than the model's window.
    ContextTooLong,
    /// An answer without a message in it. Counts as a reply that is no action.
    Empty,
    /// The provider or the model will not answer this.
    Refused,
    /// The credentials are missing or wrong.
    Auth,
    /// The server does not understand the request, or does not know the model.
    BadRequest,
}

impl ModelErrorKind {
    /// Whether the same call can do better a little later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Overloaded | Self::TimedOut | Self::Transport
        )
    }
}

impl fmt::Display for ModelErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RateLimited => "rate limited",
            Self::Overloaded => "the server is overloaded",
            Self::TimedOut => "no answer within the deadline",
            Self::Transport => "the server was not reached",
            Self::ContextTooLong => "the prompt is longer than the model's window",
            Self::Empty => "the answer holds no message",
            Self::Refused => "the provider refused",
            Self::Auth => "the credentials were refused",
            Self::BadRequest => "the server does not take the request",
        })
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Model + ?Sized> Model for $type {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn propose<'a>(
                &'a self,
                request: ModelRequest<'a>,
            ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
                (**self).propose(request)
            }

            fn settings(&self) -> serde_json::Value {
                (**self).settings()
            }

            fn price(&self) -> Option<Price> {
                (**self).price()
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<ModelError>();
    check::<Arc<dyn Model>>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_rounded_up_and_never_wraps() {
        let price = Price::new(Micros::new(150_000), Micros::new(600_000), "a list");
        assert_eq!(price.of(0, 0), Micros::new(0));
        assert_eq!(price.of(1, 0), Micros::new(1));
        assert_eq!(price.of(1_000_000, 500_000), Micros::new(450_000));
        let dear = Price::new(Micros::new(2_000_000), Micros::new(0), "a list");
        assert_eq!(dear.of(u64::MAX, u64::MAX), Micros::new(u64::MAX));
    }

    #[test]
    fn a_total_is_known_where_both_parts_are() {
        assert_eq!(Usage::new(100, 20).total(), Some(120));
        assert_eq!(
            Usage {
                input: Some(100),
                ..Usage::default()
            }
            .total(),
            None
        );
    }

    #[test]
    fn a_failure_says_what_happened_and_keeps_its_detail() {
        let error = ModelError::new(ModelErrorKind::Auth, "https://host/v1 said no");
        assert_eq!(
            error.to_string(),
            "the model call failed: the credentials were refused"
        );
        assert!(!format!("{error:?}").contains("host"));
    }
}
