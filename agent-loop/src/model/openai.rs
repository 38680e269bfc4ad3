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
mod endpoint;
mod failure;
mod http;
mod models;
mod redact;
mod request;
mod retry_after;

use std::fmt;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use self::answer::Reader;
use self::endpoint::BaseUrl;
use self::http::{Answer, Broken, Http};
use self::redact::Redactor;
use self::request::Settings;
use super::{Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price};

pub use models::ServedModel;
pub use request::{LimitField, ResponseFormat};

/// Fields that have a setting of their own, or that would change how the answer is to be read.
const TAKEN: [&str; 9] = [
    "model",
    "messages",
    "temperature",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "stream",
    "stream_options",
];

/// A model behind a chat-completions server. Cheap to share behind an `Arc`: it holds a pool of
/// connections.
pub struct OpenAi {
    http: Http,
    base: BaseUrl,
    settings: Settings,
    price: Option<Price>,
    redactor: Redactor,
}

/// Settings of an [`OpenAi`].
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone, Debug)]
pub struct OpenAiBuilder {
    base: String,
    auth: Option<(Scheme, SecretString)>,
    settings: Settings,
    price: Option<Price>,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Bearer,
    Token,
}

/// A setting that cannot be used. Never holds the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidSetting {
    field: &'static str,
    problem: String,
}

impl InvalidSetting {
    fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }

    /// Which setting it is.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl OpenAi {
    /// Settings for `model` at `base_url`, to which `/chat/completions` is appended as it stands.
    ///
    /// The URL of a server itself mostly ends in `/v1`. That of a Polyaxon service is
    /// `{host}/rewrite-services/v1/{namespace}/{owner}/{project}/runs/{uuid}/{port}/v1`; the port is
    /// a part of it.
    pub fn builder(base_url: impl Into<String>, model: impl Into<String>) -> OpenAiBuilder {
        OpenAiBuilder {
            base: base_url.into(),
            auth: None,
            settings: Settings {
                model: model.into(),
                temperature: Some(0.0),
                seed: None,
                limit_field: LimitField::default(),
                response_format: ResponseFormat::default(),
                thinking: None,
                extra: Map::new(),
            },
            price: None,
        }
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

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let body = self
            .settings
            .body(&request)
            .map_err(|problem| ModelError::new(ModelErrorKind::BadRequest, problem))?;
        let url = self.base.route("/chat/completions");
        let id = request.id.as_str();
        let started = Instant::now();
        let exchange = self.http.post(&url, id, body, request.deadline).await;
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

impl OpenAiBuilder {
    /// Sends `Authorization: Bearer <key>`, which model servers want. Default: no such header.
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        self.auth = Some((Scheme::Bearer, SecretString::from(key.into())));
        self
    }

    /// Sends `Authorization: token <key>`, which Polyaxon's gateway wants. The gateway passes it on,
    /// so the model server sees it too.
    pub fn token(mut self, key: impl Into<String>) -> Self {
        self.auth = Some((Scheme::Token, SecretString::from(key.into())));
        self
    }

    /// The sampling temperature; `None` leaves it to the server. Default: 0.
    pub fn temperature(mut self, temperature: impl Into<Option<f64>>) -> Self {
        self.settings.temperature = temperature.into();
        self
    }

    /// A seed for the calls that name none. Default: none.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Under which name the limit of output tokens is sent. Default: `max_tokens`.
    pub fn limit_field(mut self, field: LimitField) -> Self {
        self.settings.limit_field = field;
        self
    }

    /// How the server is told to keep to a schema. Default: [`ResponseFormat::JsonSchema`].
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.settings.response_format = format;
        self
    }

    /// Sends `chat_template_kwargs` with `enable_thinking`. Default: not sent.
    ///
    /// Say `false` for Qwen3 and its like: a server that parses thoughts holds a reply to the schema
    /// only after the model has stopped thinking, which it may never do.
    pub fn thinking(mut self, thinking: bool) -> Self {
        self.settings.thinking = Some(thinking);
        self
    }

    /// A further field of the request: `top_p`, `reasoning_effort`, `stop`.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.extra.insert(name.into(), value.into());
        self
    }

    /// What the tokens cost. Default: unknown.
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Makes the model. Nothing is sent.
    ///
    /// A server on this machine is called without a proxy. For an `http` URL no certificates are
    /// loaded, so a proxy on the way must be an `http` one as well.
    ///
    /// # Errors
    /// Where a setting cannot be used: a base URL without scheme or with a query, a key that no
    /// header can carry, a temperature below zero, an extra field that has a setting of its own or
    /// that does not go together with a schema.
    pub fn build(self) -> Result<OpenAi, InvalidSetting> {
        let base = BaseUrl::parse(&self.base)
            .map_err(|problem| InvalidSetting::new("base URL", problem))?;
        check(&self.settings)?;
        let (authorization, redactor) = match &self.auth {
            None => (None, Redactor::default()),
            Some((scheme, key)) => {
                let key = key.expose_secret();
                let value = authorization(*scheme, key)
                    .map_err(|problem| InvalidSetting::new("key", problem))?;
                (Some(value), Redactor::knowing(key))
            }
        };
        let http = Http::new(&base, authorization)
            .map_err(|problem| InvalidSetting::new("HTTP client", problem))?;
        Ok(OpenAi {
            http,
            base,
            settings: self.settings,
            price: self.price,
            redactor,
        })
    }
}

fn check(settings: &Settings) -> Result<(), InvalidSetting> {
    if settings.model.trim().is_empty() {
        return Err(InvalidSetting::new("model", "is empty"));
    }
    if settings
        .temperature
        .is_some_and(|t| !t.is_finite() || t < 0.0)
    {
        return Err(InvalidSetting::new(
            "temperature",
            "is no number from zero up",
        ));
    }
    for name in settings.extra.keys() {
        let refuse = |problem: &str| {
            Err(InvalidSetting::new(
                "extra field",
                format!("`{name}` {problem}"),
            ))
        };
        if TAKEN.contains(&name.as_str()) {
            return refuse("has a setting of its own or changes how answers are read");
        }
        if name == "chat_template_kwargs" && settings.thinking.is_some() {
            return refuse("is written by the setting `thinking`");
        }
        // One request with both stops vLLM 0.11 for good: no later request is ever answered.
        let constrains = name == "structured_outputs" || name.starts_with("guided_");
        if constrains && settings.response_format != ResponseFormat::Off {
            return refuse("must not be sent together with a response format");
        }
    }
    Ok(())
}

fn authorization(scheme: Scheme, key: &str) -> Result<HeaderValue, &'static str> {
    if key.is_empty() {
        return Err("is empty");
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds a blank, a line end or another character that no key has");
    }
    let scheme = match scheme {
        Scheme::Bearer => "Bearer",
        Scheme::Token => "token",
    };
    let value = HeaderValue::try_from(format!("{scheme} {key}"));
    let mut value = value.map_err(|_| "holds a character that no header can carry")?;
    value.set_sensitive(true);
    Ok(value)
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<OpenAi>();
    check::<OpenAiBuilder>();
};

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> OpenAiBuilder {
        OpenAi::builder("http://127.0.0.1:1/v1", "m")
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_refused_by_name() {
        let table = [
            (
                OpenAi::builder("127.0.0.1:1/v1", "m"),
                "base URL: has no scheme",
            ),
            (
                OpenAi::builder("http://h/v1?a=b", "m"),
                "base URL: holds a query",
            ),
            (OpenAi::builder("http://h/v1", " "), "model: is empty"),
            (builder().bearer(""), "key: is empty"),
            (builder().token("k-TEST-123456\n"), "key: holds a blank"),
            (builder().token("k-TEST-ü"), "key: holds a blank"),
            (builder().temperature(-0.1), "temperature: is no number"),
            (builder().temperature(f64::NAN), "temperature: is no number"),
            (
                builder().extra("stream", true),
                "extra field: `stream` has a setting",
            ),
            (
                builder().extra("model", "x"),
                "extra field: `model` has a setting",
            ),
            (
                builder()
                    .thinking(false)
                    .extra("chat_template_kwargs", Map::new()),
                "extra field: `chat_template_kwargs` is written",
            ),
            (
                builder().extra("structured_outputs", Map::new()),
                "extra field: `structured_outputs` must not be sent",
            ),
            (
                builder().extra("guided_json", Map::new()),
                "extra field: `guided_json` must not",
            ),
        ];
        for (builder, words) in table {
            let error = builder.build().unwrap_err();
            assert!(error.to_string().starts_with(words), "{error}");
            assert!(words.starts_with(error.field()));
            assert!(!error.to_string().contains("k-TEST"));
        }
    }

    #[test]
    fn another_constraint_is_taken_where_no_schema_is_sent() {
        let model = builder()
            .response_format(ResponseFormat::Off)
            .extra("guided_json", Map::new())
            .build();
        assert_eq!(model.unwrap().name(), "m");
    }

    #[test]
    fn an_https_model_is_made_where_the_machine_has_certificates_or_says_what_is_wrong() {
        match OpenAi::builder("https://h/v1", "m").build() {
            Ok(model) => assert!(model.base.is_encrypted()),
            Err(error) => assert_eq!(error.field(), "HTTP client"),
        }
    }

    #[test]
    fn the_settings_are_shown_without_what_could_be_a_key() {
        let model = builder()
            .bearer("k-TEST-123456")
            .thinking(false)
            .extra("top_p", 0.9)
            .extra("api_key", "k-OTHER-7")
            .build()
            .unwrap();
        assert_eq!(
            model.settings(),
            serde_json::json!({
                "temperature": 0.0,
                "seed": null,
                "limit_field": "max_tokens",
                "response_format": "json_schema",
                "thinking": false,
                "extra": {"api_key": "<not recorded>", "top_p": 0.9},
            })
        );
    }

    #[test]
    fn an_authorization_header_is_sensitive() {
        let value = authorization(Scheme::Token, "k-TEST-123456").unwrap();
        assert_eq!(value.to_str().unwrap(), "token k-TEST-123456");
        assert!(value.is_sensitive());
        assert_eq!(format!("{value:?}"), "Sensitive");
    }
}
