//! Traces of what an agent did: spans within spans.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::kind::ArtifactKind;
use crate::time;
use polyaxon_client::RunUuid;
use polyaxon_client::runs::RunStatus;

/// A step of an agent with what went in and what came out, and the steps it was made of.
///
/// # Examples
/// ```
/// use polyaxon_tracking::{Span, SpanKind};
///
/// let call = Span::new(SpanKind::Llm).name("propose").metadata("model", "m");
/// let turn = Span::new(SpanKind::Agent).name("turn").input("task", "parse").child(call);
/// assert_ne!(turn, Span::new(SpanKind::Agent));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[must_use = "a Span does nothing until it is passed to `log_trace`"]
pub struct Span {
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<RunUuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "iso")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "iso")]
    finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    inputs: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    outputs: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
    kind: SpanKind,
}

/// What a span is a step of. The words are the wire's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the platform's own words")]
pub enum SpanKind {
    Llm,
    Chain,
    Agent,
    Tool,
    Embedding,
    Retriever,
}

impl Span {
    /// A span of which only the kind is known.
    pub fn new(kind: SpanKind) -> Self {
        Self {
            uuid: None,
            name: None,
            tags: Vec::new(),
            started_at: None,
            finished_at: None,
            status: None,
            metadata: Map::new(),
            inputs: Map::new(),
            outputs: Map::new(),
            children: Vec::new(),
            kind,
        }
    }

    /// Gives it an id.
    pub fn uuid(mut self, uuid: RunUuid) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Gives it a name. The outermost span's is that of the trace; default: `trace`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// When it began and ended, to the microsecond.
    pub fn times(mut self, started: Timestamp, finished: Timestamp) -> Self {
        self.started_at = Some(started);
        self.finished_at = Some(finished);
        self
    }

    /// What became of it.
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds a member of its free metadata.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds what went in. The outermost span's inputs become inputs of the run.
    pub fn input(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.inputs.insert(key.into(), value.into());
        self
    }

    /// Adds what came out. The outermost span's outputs become outputs of the run.
    pub fn output(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.outputs.insert(key.into(), value.into());
        self
    }

    /// Adds a step of it.
    pub fn child(mut self, span: Self) -> Self {
        self.children.push(span);
        self
    }

    pub(crate) fn trace_name(&self) -> &str {
        self.name.as_deref().unwrap_or("trace")
    }

    pub(crate) fn event(&self) -> Event {
        Event::certain(ArtifactKind::Span, self)
    }

    pub(crate) fn into_values(self) -> (Map<String, Value>, Map<String, Value>) {
        (self.inputs, self.outputs)
    }
}

fn iso<S: Serializer>(instant: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match instant {
        Some(instant) => serializer.serialize_str(&time::iso(*instant)),
        None => serializer.serialize_none(),
    }
}
