//! Models of which the next is asked where one fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use super::{Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price, Usage};

/// Models in order: where a call of one fails, the calls after it go to the next, and never back.
///
/// Each call is still one request. A failure is told to the loop, as one that is worth asking again
/// as long as there is a next model: so every attempt is in the journal with its own usage, and the
/// loop's limits hold. A call that is given up before its answer, as one at the loop's limit is, has
/// failed too. An answer without a message in it is the model's own and changes nothing.
///
/// The price, where all have one, is the highest of each part: what the budget reserves. What a
/// reply has cost is told by the price of the model that gave it.
///
/// # Examples
/// ```
/// use agent_loop::model::Fallback;
/// use agent_loop::{Model, ScriptedModel};
/// use std::sync::Arc;
///
/// let model = Fallback::new(Arc::new(ScriptedModel::new(["{}"])))
///     .then(Arc::new(ScriptedModel::new(["{}"])));
/// assert_eq!(model.name(), "scripted, else scripted");
/// ```
pub struct Fallback {
    models: Vec<Arc<dyn Model>>,
    name: String,
    now: AtomicUsize,
}

impl Fallback {
    /// Asks `first` as long as it answers.
    #[must_use]
    pub fn new(first: Arc<dyn Model>) -> Self {
        Self {
            name: first.name().to_owned(),
            models: vec![first],
            now: AtomicUsize::new(0),
        }
    }

    /// Adds the model that is asked once all before it have failed.
    #[must_use]
    pub fn then(mut self, next: Arc<dyn Model>) -> Self {
        self.name = format!("{}, else {}", self.name, next.name());
        self.models.push(next);
        self
    }

    async fn ask(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let now = self.now.load(Ordering::Relaxed);
        let Some(model) = self.models.get(now) else {
            return Err(ModelError::new(
                ModelErrorKind::BadRequest,
                "no model is left",
            ));
        };
        let given_up = GivenUp {
            models: self,
            asked: now,
        };
        let answer = model.propose(request).await;
        std::mem::forget(given_up);
        match answer {
            Ok(mut reply) => {
                let cost = || model.price().and_then(|price| price.of_usage(reply.usage));
                reply.cost = reply.cost.or_else(cost);
                Ok(reply)
            }
            Err(error) => Err(self.failed(now, error)),
        }
    }

    /// Leaves the model that a call has failed at. False where there is no other.
    fn moves_on(&self, from: usize) -> bool {
        let to = from + 1;
        if to >= self.models.len() {
            return false;
        }
        // Two calls at once can fail at the same model, which is one step and not two.
        let _now = self
            .now
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    /// A failure as the loop is told of it.
    fn failed(&self, now: usize, mut error: ModelError) -> ModelError {
        if error.kind == ModelErrorKind::Empty || !self.moves_on(now) {
            return error;
        }
        if !error.kind.is_retryable() {
            // What a server does not take it does not bill.
            let taken = matches!(error.kind, ModelErrorKind::Refused);
            if !taken {
                error.usage.get_or_insert(Usage::new(0, 0));
            }
            error.detail = crate::private::Private::new(format!(
                "{}, so the next model is asked: {}",
                error.kind,
                error.detail.reveal()
            ));
            error.kind = ModelErrorKind::Overloaded;
        }
        // The next one has asked nobody to wait.
        error.retry_after = None;
        error
    }
}

/// A call that has no answer yet; where it is dropped, it will have none.
struct GivenUp<'a> {
    models: &'a Fallback,
    asked: usize,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.models.moves_on(self.asked);
    }
}

impl Model for Fallback {
    fn name(&self) -> &str {
        &self.name
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.ask(request).boxed()
    }

    fn settings(&self) -> Value {
        let models = self.models.iter();
        models
            .map(|model| serde_json::json!({"model": model.name(), "settings": model.settings()}))
            .collect()
    }

    fn price(&self) -> Option<Price> {
        let prices = self.models.iter().map(Model::price);
        let prices = prices.collect::<Option<Vec<Price>>>()?;
        let input = prices.iter().map(|price| price.input_per_million).max()?;
        let output = prices.iter().map(|price| price.output_per_million).max()?;
        let mut bases: Vec<&str> = prices.iter().map(|price| price.basis.as_str()).collect();
        bases.dedup();
        Some(Price::new(input, output, bases.join(", else ")))
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("models", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::budget::Micros;
    use crate::model::{ScriptedModel, model_fn};

    fn scripted(replies: Vec<Result<ModelReply, ModelError>>) -> Arc<dyn Model> {
        Arc::new(ScriptedModel::of(replies))
    }

    fn ask(model: &Fallback) -> Result<ModelReply, ModelError> {
        let id = "t-1.1.0".parse().unwrap();
        model
            .propose(ModelRequest::new(id, &[]))
            .now_or_never()
            .unwrap()
    }

    fn error(kind: ModelErrorKind) -> Result<ModelReply, ModelError> {
        Err(ModelError::new(kind, "a detail").retry_after(Duration::from_secs(9)))
    }

    #[test]
    fn after_a_failure_the_next_model_is_asked_and_stays() {
        use ModelErrorKind::{Auth, BadRequest, Empty, Overloaded, RateLimited};
        let model = Fallback::new(scripted(vec![Ok(ModelReply::new("a")), error(Auth)]))
            .then(scripted(vec![error(Empty), error(RateLimited)]))
            .then(scripted(vec![Ok(ModelReply::new("c")), error(BadRequest)]));
        assert_eq!(ask(&model).unwrap().text, "a");
        let failed = ask(&model).unwrap_err();
        assert_eq!((failed.kind, failed.retry_after), (Overloaded, None));
        assert_eq!(failed.usage, Some(Usage::new(0, 0)));
        assert_eq!(
            failed.detail.reveal(),
            "the credentials were refused, so the next model is asked: a detail"
        );
        // An empty answer is the model's own.
        assert_eq!(ask(&model).unwrap_err().kind, Empty);
        let failed = ask(&model).unwrap_err();
        assert_eq!((failed.kind, failed.usage), (RateLimited, None));
        assert_eq!(ask(&model).unwrap().text, "c");
        // The last one's failure is what it is.
        let failed = ask(&model).unwrap_err();
        assert_eq!(failed.kind, BadRequest);
        assert_eq!(failed.retry_after, Some(Duration::from_secs(9)));
    }

    #[derive(Debug)]
    struct Hangs;

    impl Model for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }

        fn propose<'a>(
            &'a self,
            _request: ModelRequest<'a>,
        ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
            futures::future::pending().boxed()
        }
    }

    #[test]
    fn a_model_that_never_answers_is_asked_once() {
        let hangs = || -> Arc<dyn Model> { Arc::new(Hangs) };
        let answers = scripted(vec![Ok(ModelReply::new("b"))]);
        let model = Fallback::new(hangs()).then(hangs()).then(answers);
        let id: crate::ids::RequestId = "t-1.1.0".parse().unwrap();
        for _ in 0..2 {
            // A call that is never polled has asked nobody.
            drop(model.propose(ModelRequest::new(id.clone(), &[])));
            let mut call = model.propose(ModelRequest::new(id.clone(), &[]));
            assert!((&mut call).now_or_never().is_none());
        }
        assert_eq!(ask(&model).unwrap().text, "b");
        // The last one stays, whatever happens to it.
        let model = Fallback::new(hangs());
        let mut call = model.propose(ModelRequest::new(id, &[]));
        assert!((&mut call).now_or_never().is_none());
        drop(call);
        assert_eq!(model.now.load(Ordering::Relaxed), 0);
    }

    struct Priced(Option<Price>);

    impl Model for Priced {
        fn name(&self) -> &str {
            "priced"
        }

        fn propose<'a>(
            &'a self,
            _request: ModelRequest<'a>,
        ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
            let reply = ModelReply::new("x").usage(Usage::new(1_000_000, 0));
            futures::future::ready(Ok(reply)).boxed()
        }

        fn price(&self) -> Option<Price> {
            self.0.clone()
        }
    }

    #[test]
    fn the_reserve_is_the_dearest_and_the_cost_is_of_who_answered() {
        let price = |input, output, basis: &str| {
            Priced(Some(Price::new(
                Micros::new(input),
                Micros::new(output),
                basis,
            )))
        };
        let model = Fallback::new(Arc::new(price(5, 9, "a"))).then(Arc::new(price(7, 1, "b")));
        let both = model.price().unwrap();
        let parts = (both.input_per_million.get(), both.output_per_million.get());
        assert_eq!((parts, both.basis.as_str()), ((7, 9), "a, else b"));
        assert_eq!(ask(&model).unwrap().cost, Some(Micros::new(5)));
        let unknown = Fallback::new(Arc::new(price(5, 9, "a"))).then(Arc::new(Priced(None)));
        assert_eq!(unknown.price(), None);
    }

    #[test]
    fn its_settings_are_those_of_all() {
        let plain = || Arc::new(model_fn("m", |_| Ok(ModelReply::new("")))) as Arc<dyn Model>;
        let settings = Fallback::new(plain()).then(plain()).settings();
        assert_eq!(settings.as_array().unwrap().len(), 2);
        assert_eq!(settings[1]["model"], "m");
    }
}
