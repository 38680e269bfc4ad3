//! The body of a request, byte for byte as it is sent.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{Message, ModelRequest};

/// The name that the schema has on the wire; servers want one and do nothing with it.
const SCHEMA_NAME: &str = "action";

/// What is sent with every request.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
    pub(super) seed: Option<u64>,
    pub(super) limit_field: LimitField,
    pub(super) response_format: ResponseFormat,
    pub(super) thinking: Option<bool>,
    pub(super) thinking_field: ThinkingField,
    pub(super) stream: bool,
    pub(super) extra: Map<String, Value>,
}

/// Under which name the limit of output tokens is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitField {
    /// `max_tokens`, which all the servers known to us read, but not newer hosted ones.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which newer hosted models want and Ollama does not read.
    MaxCompletionTokens,
    /// None: the server's own limit holds.
    Omitted,
}

impl LimitField {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::MaxTokens => Some("max_tokens"),
            Self::MaxCompletionTokens => Some("max_completion_tokens"),
            Self::Omitted => None,
        }
    }
}

/// How the server is told to keep to the schema of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseFormat {
    /// `response_format` with a strict `json_schema`, where the request has a schema.
    #[default]
    JsonSchema,
    /// `response_format` with `json_object` and a `schema` beside it: the form of
    /// llama-cpp-python's server, which llama.cpp's own takes too.
    JsonObject,
    /// Not at all: for servers that know no schema. The loop checks every reply in any case.
    Off,
}

/// How a server is told whether the model may think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ThinkingField {
    /// `chat_template_kwargs: {"enable_thinking": …}`.
    #[default]
    Template,
    /// `reasoning_effort: "none"`, where it may not; it may where nothing is sent.
    Effort,
    /// It is not told.
    Omitted,
}

/// A server, for the settings that differ from server to server.
///
/// | server | schema | limit of tokens | thinking off |
/// |---|---|---|---|
/// | `Vllm`, `LlamaCpp` | `json_schema` | `max_tokens` | `chat_template_kwargs` |
/// | `LlamaCppPython` | `json_object` with `schema` | `max_tokens` | not sent |
/// | `Ollama` | `json_schema` | `max_tokens` | `reasoning_effort` |
/// | `Hosted` | `json_schema`, strict | `max_completion_tokens` | not sent |
///
/// No server answers 429 but a hosted one: the others let calls wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Server {
    /// vLLM. Without a reasoning parser it holds a reply to its schema from the first token.
    Vllm,
    /// llama.cpp's own server.
    LlamaCpp,
    /// The server of llama-cpp-python, another program.
    LlamaCppPython,
    /// Ollama. It may cut a prompt that is longer than its window without saying so.
    Ollama,
    /// A hosted service, as `OpenAI` is.
    Hosted,
}

impl Server {
    pub(super) fn apply(self, settings: &mut Settings) {
        let (format, limit, thinking) = match self {
            Self::Vllm | Self::LlamaCpp => (
                ResponseFormat::JsonSchema,
                LimitField::MaxTokens,
                ThinkingField::Template,
            ),
            Self::LlamaCppPython => (
                ResponseFormat::JsonObject,
                LimitField::MaxTokens,
                ThinkingField::Omitted,
            ),
            Self::Ollama => (
                ResponseFormat::JsonSchema,
                LimitField::MaxTokens,
                ThinkingField::Effort,
            ),
            Self::Hosted => (
                ResponseFormat::JsonSchema,
                LimitField::MaxCompletionTokens,
                ThinkingField::Omitted,
            ),
        };
        settings.response_format = format;
        settings.limit_field = limit;
        settings.thinking_field = thinking;
    }
}

impl Settings {
    /// The body for `request`. The error is a half sentence.
    pub(super) fn body(&self, request: &ModelRequest<'_>) -> Result<Vec<u8>, &'static str> {
        let schema = match (self.response_format, request.schema) {
            (ResponseFormat::Off, _) | (_, None) => None,
            (_, Some(schema)) => Some(object(schema)?),
        };
        let body = Body {
            settings: self,
            messages: request.messages,
            seed: request.seed.or(self.seed),
            limit: request.max_output_tokens,
            schema,
        };
        serde_json::to_vec(&body).map_err(|_| "the request cannot be written as JSON")
    }

    /// The settings for the evidence. Of extra fields only numbers and truth values are shown: what
    /// a text or an object holds is not known here, and it could be a key.
    pub(super) fn shown(&self) -> Value {
        let shown = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
                _ => Value::from("<not recorded>"),
            };
            (name.clone(), value)
        };
        serde_json::json!({
            "temperature": self.temperature,
            "seed": self.seed,
            "limit_field": self.limit_field.name(),
            "response_format": match self.response_format {
                ResponseFormat::JsonSchema => "json_schema",
                ResponseFormat::JsonObject => "json_object",
                ResponseFormat::Off => "off",
            },
            "thinking": self.thinking,
            "stream": self.stream,
            "extra": self.extra.iter().map(shown).collect::<Map<_, _>>(),
        })
    }
}

/// The schema as it stands, where it is a JSON object. Servers take a schema of another shape and
/// then answer unconstrained.
fn object(schema: &str) -> Result<&RawValue, &'static str> {
    let raw: &RawValue = serde_json::from_str(schema).map_err(|_| "the schema is not JSON")?;
    match raw.get().starts_with('{') {
        true => Ok(raw),
        false => Err("the schema is not a JSON object"),
    }
}

struct Body<'a> {
    settings: &'a Settings,
    messages: &'a [Message],
    seed: Option<u64>,
    limit: u32,
    schema: Option<&'a RawValue>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.settings;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &settings.model)?;
        map.serialize_entry("messages", self.messages)?;
        if let Some(temperature) = settings.temperature {
            map.serialize_entry("temperature", &temperature)?;
        }
        if let Some(seed) = self.seed {
            map.serialize_entry("seed", &seed)?;
        }
        if let Some(name) = settings.limit_field.name() {
            map.serialize_entry(name, &self.limit)?;
        }
        if let Some(schema) = self.schema {
            match settings.response_format {
                ResponseFormat::JsonObject => {
                    let kind = "json_object";
                    map.serialize_entry("response_format", &JsonObject { kind, schema })?;
                }
                _ => map.serialize_entry("response_format", &JsonSchema::new(schema))?,
            }
        }
        match (settings.thinking, settings.thinking_field) {
            (Some(thinking), ThinkingField::Template) => {
                let kwargs = serde_json::json!({ "enable_thinking": thinking });
                map.serialize_entry("chat_template_kwargs", &kwargs)?;
            }
            (Some(false), ThinkingField::Effort) => {
                map.serialize_entry("reasoning_effort", "none")?;
            }
            _ => {}
        }
        if settings.stream {
            map.serialize_entry("stream", &true)?;
            let options = serde_json::json!({ "include_usage": true });
            map.serialize_entry("stream_options", &options)?;
        }
        for (name, value) in &settings.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct JsonObject<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

#[derive(serde::Serialize)]
struct JsonSchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(serde::Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> JsonSchema<'a> {
    fn new(schema: &'a RawValue) -> Self {
        Self {
            kind: "json_schema",
            json_schema: NamedSchema {
                name: SCHEMA_NAME,
                strict: true,
                schema,
            },
        }
    }
}
