//! Models without a model: a list of replies, and a function.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _, ready};

use super::{Model, ModelError, ModelErrorKind, ModelReply, ModelRequest};

/// A model that says what it was told to say, one reply a call, in order.
///
/// After the last reply every call fails as [`ModelErrorKind::BadRequest`]: a script that is too
/// short is the mistake of its author, and the attempt says so.
///
/// # Examples
/// ```
/// use agent_loop::{Model, ScriptedModel};
///
/// let model = ScriptedModel::new([r#"{"action":"check"}"#]);
/// assert_eq!(model.name(), "scripted");
/// ```
pub struct ScriptedModel {
    replies: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
}

impl ScriptedModel {
    /// A model that says these texts.
    #[must_use]
    pub fn new<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Self {
        Self::of(texts.into_iter().map(|text| Ok(ModelReply::new(text))))
    }

    /// A model whose calls end like this.
    #[must_use]
    pub fn of(replies: impl IntoIterator<Item = Result<ModelReply, ModelError>>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
        }
    }

    fn next(&self) -> Result<ModelReply, ModelError> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.pop_front().unwrap_or_else(|| {
            Err(ModelError::new(
                ModelErrorKind::BadRequest,
                "the script has no further reply",
            ))
        })
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").finish_non_exhaustive()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn propose<'a>(
        &'a self,
        _request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        ready(self.next()).boxed()
    }
}

/// A model that is a function. Made by [`model_fn`].
pub struct ModelFn<F> {
    name: String,
    function: F,
}

/// A model called `name` that answers each request with what `function` makes of it.
///
/// # Examples
/// ```
/// use agent_loop::{Model, ModelReply, model_fn};
///
/// let model = model_fn("always check", |_request| Ok(ModelReply::new(r#"{"action":"check"}"#)));
/// assert_eq!(model.name(), "always check");
/// ```
#[must_use]
pub fn model_fn<F>(name: impl Into<String>, function: F) -> ModelFn<F>
where
    F: Fn(&ModelRequest<'_>) -> Result<ModelReply, ModelError> + Send + Sync,
{
    ModelFn {
        name: name.into(),
        function,
    }
}

impl<F> fmt::Debug for ModelFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelFn")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F> Model for ModelFn<F>
where
    F: Fn(&ModelRequest<'_>) -> Result<ModelReply, ModelError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        ready((self.function)(&request)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_in_order_and_then_the_script_is_at_its_end() {
        let model = ScriptedModel::new(["a", "b"]);
        let ask = || {
            let id = "t-1.1.0".parse().unwrap();
            model
                .propose(ModelRequest::new(id, &[]))
                .now_or_never()
                .unwrap()
        };
        assert_eq!(ask().unwrap().text, "a");
        assert_eq!(ask().unwrap().text, "b");
        assert_eq!(ask().unwrap_err().kind, ModelErrorKind::BadRequest);
    }
}
