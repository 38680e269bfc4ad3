//! A model behind an OpenAI-compatible chat-completions server: vLLM, llama.cpp, Ollama, a hosted
//! service, or one of these behind a Polyaxon service URL.
//!
//! Each call is one request and is never repeated here, so the loop sees, counts and journals every
//! attempt. What the servers answer differs much; which answer becomes what is decided by status
//! first and by the body second, and every rule is from a recorded answer or a maker's text.
//!
//! # Examples
//! ```
//! use agent_loop::Model as _;
//! use agent_loop::model::openai::OpenAi;
//!
//! let model = OpenAi::builder(
//!     "http://localhost/rewrite-services/v1/ns/owner/proj/runs/0123/8000/v1",
//!     "Qwen/Qwen3-4B",
//! )
//! .token("a-polyaxon-token")
//! .thinking(false)
//! .build()?;
//! assert_eq!(model.name(), "Qwen/Qwen3-4B");
//! assert!(!format!("{model:?}").contains("a-polyaxon-token"));
//! # Ok::<(), agent_loop::model::openai::InvalidSetting>(())
//! ```

mod answer;
mod builder;
mod endpoint;
mod failure;
mod http;
mod models;
mod redact;
mod request;
mod retry_after;
mod stream;

use std::fmt;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use self::answer::Reader;
use self::endpoint::BaseUrl;
use self::http::{Answer, Broken, Http};
use self::redact::Redactor;
use self::request::Settings;
use super::{Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price};
use crate::ids::RequestId;

pub use builder::{InvalidSetting, OpenAiBuilder};
pub use models::ServedModel;
pub use request::{LimitField, ResponseFormat, Server};

/// A model behind a chat-completions server. Cheap to share behind an `Arc`: it holds a pool of
/// connections.
pub struct OpenAi {
    http: Http,
    base: BaseUrl,
    settings: Settings,
    price: Option<Price>,
    redactor: Redactor,
}

impl OpenAi {
    /// Settings for `model` at `base_url`, to which `/chat/completions` is appended as it stands.
    ///
    /// The URL of a server itself mostly ends in `/v1`. That of a Polyaxon service is
    /// `{host}/rewrite-services/v1/{namespace}/{owner}/{project}/runs/{uuid}/{port}/v1`; the port is
    /// a part of it.
    pub fn builder(base_url: impl Into<String>, model: impl Into<String>) -> OpenAiBuilder {
        OpenAiBuilder::new(base_url.into(), model.into())
    }

    /// Asks the server which models it has.
    ///
    /// # Errors
    /// As a call of the model, and [`ModelErrorKind::BadRequest`] where the answer is no list of
    /// models.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call, which changes nothing.
    pub async fn models(&self, deadline: Duration) -> Result<Vec<ServedModel>, ModelError> {
        let exchange = self.http.get(&self.base.route("/models"), deadline).await;
        let answer = self.answered(exchange)?;
        let body = self.reader().success(&answer)?;
        models::list(&body).ok_or_else(|| {
            ModelError::new(
                ModelErrorKind::BadRequest,
                "the answer is no list of models",
            )
        })
    }

    /// Asks the server how many tokens prompt and reply may have together. `None` where it does not
    /// say, or does not know the model.
    ///
    /// # Errors
    /// As [`models`](Self::models).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call, which changes nothing.
    pub async fn window(&self, deadline: Duration) -> Result<Option<u64>, ModelError> {
        let models = self.models(deadline).await?;
        Ok(models::pick(&models, &self.settings.model).and_then(|model| model.window))
    }

    /// Asks for one token, to find out whether the server answers at all: some say that they are
    /// well when they are not, and only a chat shows it.
    ///
    /// # Errors
    /// As a call of the model.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call, which changes nothing.
    pub async fn probe(&self, id: RequestId, deadline: Duration) -> Result<(), ModelError> {
        let messages = [Message::user("Answer with one word.")];
        let request = ModelRequest::new(id, &messages)
            .max_output_tokens(1)
            .deadline(deadline);
        match self.complete(request).await {
            // One token can be a blank.
            Err(error) if error.kind != ModelErrorKind::Empty => Err(error),
            _ => Ok(()),
        }
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let body = self
            .settings
            .body(&request)
            .map_err(|problem| ModelError::new(ModelErrorKind::BadRequest, problem))?;
        let url = self.base.route("/chat/completions");
        let id = request.id.as_str();
        let started = Instant::now();
        let exchange = match self.settings.stream {
            true => {
                self.http
                    .post_streamed(&url, id, body, request.deadline)
                    .await
            }
            false => self.http.post(&url, id, body, request.deadline).await,
        };
        tracing::debug!(
            request = id,
            status = exchange.as_ref().ok().map(|answer| answer.status.as_u16()),
            elapsed = ?started.elapsed(),
            "asked the model"
        );
        self.reader().reply(&self.answered(exchange)?)
    }

    fn answered(&self, exchange: Result<Answer, Broken>) -> Result<Answer, ModelError> {
        exchange.map_err(|broken| {
            let kind = match broken {
                Broken::TimedOut => ModelErrorKind::TimedOut,
                Broken::TooLarge | Broken::Connection(_) => ModelErrorKind::Transport,
            };
            let detail = format!("no answer: {broken}");
            ModelError::new(kind, self.redactor.clean(&detail))
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            redactor: &self.redactor,
            thinking_off: self.settings.thinking == Some(false),
        }
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.settings.model
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.complete(request).boxed()
    }

    fn settings(&self) -> Value {
        self.settings.shown()
    }

    fn price(&self) -> Option<Price> {
        self.price.clone()
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("base", &self.base)
            .field("model", &self.settings.model)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<OpenAi>();
    check::<OpenAiBuilder>();
};
