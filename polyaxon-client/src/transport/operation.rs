//! One call as a value: what is asked for, and whether asking twice does harm.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::body::{Body, Form, Progress};
use crate::error::{Error, InvalidInput};

/// How often a call is sent at most, unless [`Operation::once`].
const ATTEMPTS: usize = 4;

/// How long a stream may be silent, unless [`Operation::idle`]. The service sends a ping every
/// three seconds of silence.
const IDLE: Duration = Duration::from_secs(60);

/// Whether a call may be sent again when nobody knows what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum Repeat {
    /// Twice is like once: all reading, and what sets something to a value.
    Harmless,
    /// Twice can be twice: executing, appending, creating. Sent again only where the first was
    /// surely not carried out.
    Never,
}

/// One call of a service. A value; [`Transport`](super::Transport) sends it.
#[derive(Clone, Debug)]
#[must_use = "an Operation does nothing until it is sent"]
pub struct Operation {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Body>,
    pub(super) timeout: Option<Duration>,
    pub(super) idle: Duration,
    pub(super) repeat: Repeat,
    pub(super) attempts: usize,
    pub(super) any_answer: bool,
}

impl Operation {
    /// A `GET`, harmless to repeat. `name` is what errors call it: `fs.stat`. `path` is below the
    /// host's base path, its segments already encoded.
    pub fn get(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::GET, path.into(), Repeat::Harmless)
    }

    /// A `POST`, not repeated unless [`harmless`](Self::harmless).
    pub fn post(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::POST, path.into(), Repeat::Never)
    }

    /// A `PATCH`, not repeated unless [`harmless`](Self::harmless).
    pub fn patch(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::PATCH, path.into(), Repeat::Never)
    }

    /// A `DELETE`, not repeated unless [`harmless`](Self::harmless).
    pub fn delete(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::DELETE, path.into(), Repeat::Never)
    }

    fn new(name: &'static str, method: Method, path: String, repeat: Repeat) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::ACCEPT,
            HeaderValue::from_static("application/json"),
        );
        Self {
            name,
            method,
            path,
            query: Vec::new(),
            headers,
            body: None,
            timeout: None,
            idle: IDLE,
            repeat,
            attempts: ATTEMPTS,
            any_answer: false,
        }
    }

    /// Adds a parameter to the query; it is encoded when sent.
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Sends this value as JSON.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the value has no JSON form.
    pub fn json<T: serde::Serialize>(mut self, value: &T) -> Result<Self, Error> {
        let text = serde_json::to_vec(value)
            .map_err(|error| InvalidInput::new("body", format!("has no JSON form: {error}")))?;
        self.body = Some(Body::Bytes(text.into()));
        let json = HeaderValue::from_static("application/json");
        Ok(self.header(http::header::CONTENT_TYPE, json))
    }

    /// Sends these bytes as they are.
    pub fn bytes(mut self, body: Bytes) -> Self {
        self.body = Some(Body::Bytes(body));
        let bytes = HeaderValue::from_static("application/octet-stream");
        self.header(http::header::CONTENT_TYPE, bytes)
    }

    /// Sends a form of a file, as much of it as `length` says, and of a text in JSON: what the
    /// platform takes uploads in. The file is read while it is sent.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the name of the file cannot be part of a form.
    pub(crate) fn upload(
        mut self,
        path: &Path,
        length: u64,
        file_name: &str,
        json: &str,
        progress: Option<Progress>,
    ) -> Result<Self, Error> {
        let (form, content_type) = Form::new(path, length, file_name, json, progress)?;
        self.body = Some(Body::Form(form));
        let content_type = HeaderValue::try_from(content_type)
            .map_err(|_| InvalidInput::new("content type", "is no header"))?;
        Ok(self.header(http::header::CONTENT_TYPE, content_type))
    }

    /// Takes every success for one, pages for people too: files can be pages.
    pub(crate) fn any_answer(mut self) -> Self {
        self.any_answer = true;
        self.header(http::header::ACCEPT, HeaderValue::from_static("*/*"))
    }

    /// Sets a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Asks for bytes that no proxy has compressed.
    pub fn accept_bytes(self) -> Self {
        self.header(
            http::header::ACCEPT,
            HeaderValue::from_static("application/octet-stream"),
        )
        .header(
            http::header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        )
    }

    /// Asks for events as they happen, uncompressed: a proxy that compresses holds them back.
    pub fn accept_events(self) -> Self {
        self.header(
            http::header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        )
        .header(
            http::header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        )
    }

    /// How long the body of [`Transport::open`](super::Transport::open) may be silent. Default:
    /// 60 s. Any byte starts the time anew.
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = limit;
        self
    }

    /// The limit from the first byte sent to the last received; of a stream or a WebSocket, to the
    /// end of the answer's head. Default: the client's.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Says that sending it twice is like once.
    pub fn harmless(mut self) -> Self {
        self.repeat = Repeat::Harmless;
        self
    }

    /// Puts `base` before the path.
    pub fn below(mut self, base: &str) -> Self {
        self.path.insert_str(0, base);
        self
    }

    /// Sends it once, whatever becomes of it: for those who have a loop of their own around it.
    pub fn once(mut self) -> Self {
        self.attempts = 1;
        self
    }

    /// What errors and spans call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it may be repeated blindly.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        self.repeat
    }

    pub(super) fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            "polyaxon",
            operation = self.name,
            attempt = tracing::field::Empty,
            status = tracing::field::Empty,
            bytes = tracing::field::Empty,
            elapsed_ms = tracing::field::Empty,
        )
    }
}
