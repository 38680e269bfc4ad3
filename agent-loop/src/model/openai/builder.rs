//! The settings of a model, and which of them cannot be used.

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::OpenAi;
use super::endpoint::BaseUrl;
use super::http::Http;
use super::redact::Redactor;
use super::request::{LimitField, ResponseFormat, Server, Settings, ThinkingField};
use crate::model::Price;

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

impl OpenAiBuilder {
    pub(super) fn new(base: String, model: String) -> Self {
        Self {
            base,
            auth: None,
            settings: Settings {
                model,
                temperature: Some(0.0),
                seed: None,
                limit_field: LimitField::default(),
                response_format: ResponseFormat::default(),
                thinking: None,
                thinking_field: ThinkingField::default(),
                stream: false,
                extra: Map::new(),
            },
            price: None,
        }
    }

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

    /// Sets what differs from server to server: how a schema, the limit of tokens and thinking are
    /// sent. Default: as for [`Server::Vllm`] and [`Server::LlamaCpp`].
    pub fn server(mut self, server: Server) -> Self {
        server.apply(&mut self.settings);
        self
    }

    /// Has the reply sent piece by piece, with the usage at the end. Default: off.
    ///
    /// It is put together before anybody sees it. What is gained: a gateway that waits for the
    /// first byte only so long is content, and a reply that goes on in blanks without end is cut
    /// off, which frees the server.
    pub fn stream(mut self, stream: bool) -> Self {
        self.settings.stream = stream;
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

    /// Says whether the model may think before it answers: `chat_template_kwargs` with
    /// `enable_thinking`, or what the [`server`](Self::server) wants instead. Default: not sent.
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
        let says_thinking = ["chat_template_kwargs", "reasoning_effort"].contains(&name.as_str());
        if says_thinking && settings.thinking.is_some() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model as _;

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
                "stream": false,
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
