//! The only code that knows the HTTP library: URL, token, time limits, repeating, the effect of
//! every failure, decoding.
//!
//! For those who build a typed client on top, as `polyaxon-sandbox` does. A call is an
//! [`Operation`]; [`Transport::send`] has the whole answer, [`Transport::open`] its bytes as they
//! come, [`Transport::upgrade`] the bare connection behind a WebSocket handshake.
//!
//! Each call is in a `tracing` span named `polyaxon` of level `DEBUG`. It never holds bodies,
//! queries or secrets:
//!
//! | field | meaning |
//! |---|---|
//! | `operation` | the call, as its documentation names it: `process.exec` |
//! | `attempt` | how often it was sent so far |
//! | `status` | the HTTP status of the last answer |
//! | `bytes` | the length of the answer's body, decompressed; not for streams |
//! | `elapsed_ms` | from the first attempt to the whole answer; for streams and WebSockets to its head |

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;
use url::Url;

use crate::config::Config;
use crate::credentials::Credentials;
use crate::error::{Effect, Error, InvalidInput};
use crate::token::Token;

mod body;
mod classify;
mod library;
mod operation;
mod pulse;
mod sse;
mod stream;
mod upgrade;

use body::Body;

pub(crate) use classify::answer as error_of_answer;
pub use operation::{Operation, Repeat};
pub use sse::{SseDecoder, SseError, SseEvent};
pub use stream::AnswerStream;
pub use upgrade::Upgraded;

/// How long all the attempts of a call may take together, waiting included; no new one begins
/// after it.
const ATTEMPTS_LIMIT: Duration = Duration::from_secs(30);

/// One pool of connections with one set of settings. A clone shares both.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    base: Url,
    host: String,
    timeout: Duration,
    credentials: Arc<Credentials>,
    config: Config,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("base", &self.0.base.as_str())
            .finish_non_exhaustive()
    }
}

/// A success, with what came along.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The call that was answered.
    pub operation: &'static str,
    /// The status, of 2xx.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// [`Error::Decode`], with the place in the document.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        let mut reader = serde_json::Deserializer::from_slice(&self.body);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| Error::Decode {
            operation: self.operation,
            at: error.path().to_string(),
            source: Box::new(error.into_inner()),
        })
    }
}

impl Transport {
    /// A pool with the settings of `config`. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Config`] where a certificate cannot be used.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let credentials = Credentials::of(config)?;
        Self::with(config.clone(), credentials)
    }

    fn with(config: Config, credentials: Credentials) -> Result<Self, Error> {
        let base = config.host_url().clone();
        let host = match (base.host_str(), base.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => base.to_string(),
        };
        Ok(Self(Arc::new(Inner {
            http: library::client(&config)?,
            base,
            host,
            timeout: config.timeouts().1,
            credentials: Arc::new(credentials),
            config,
        })))
    }

    /// The same settings, token included, with connections of its own.
    ///
    /// # Errors
    /// [`Error::Config`] where a certificate cannot be used.
    pub(crate) fn separate(&self) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            http: library::client(&self.0.config)?,
            base: self.0.base.clone(),
            host: self.0.host.clone(),
            timeout: self.0.timeout,
            credentials: Arc::clone(&self.0.credentials),
            config: self.0.config.clone(),
        })))
    }

    /// A transport with the same settings to another host, which gets `token` in this header and
    /// not the token of the settings.
    ///
    /// # Errors
    /// [`Error::Config`] where a certificate cannot be used.
    pub fn elsewhere(&self, host: Url, header: HeaderName, token: &Token) -> Result<Self, Error> {
        let config = self.0.config.clone().host(host).no_token();
        let header = (header, token.alone()?);
        Self::with(config, Credentials::Fixed(Some(header)))
    }

    /// Where calls go: scheme, host and base path.
    #[must_use]
    pub fn host(&self) -> &Url {
        &self.0.base
    }

    /// The limit of a call that has none of its own.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Sends a call, and again where that is of use and safe: see [`Repeat`] and [`Effect`].
    ///
    /// # Errors
    /// [`Error::Api`] where the answer says no, [`Error::Transport`] where there is none; both say
    /// with [`Error::effect`] what was done.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection if the answer was still due. The service may or
    /// may not carry the call out.
    pub async fn send(&self, operation: Operation) -> Result<Answer, Error> {
        self.repeated(&operation, |url| self.whole(&operation, url))
            .await
    }

    /// Sends a call and returns when its answer begins; the body comes piece by piece. The
    /// beginning is repeated as [`send`](Self::send) repeats, what follows never.
    ///
    /// # Errors
    /// As [`send`](Self::send), up to the beginning of the answer.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn open(&self, operation: Operation) -> Result<AnswerStream, Error> {
        self.repeated(&operation, |url| self.begun(&operation, url))
            .await
    }

    /// Turns a connection into a WebSocket's: sends the handshake, checks the answer, and returns
    /// the connection, on which frames can be exchanged. Token, certificates and proxies are those
    /// of every other call.
    ///
    /// # Errors
    /// As [`send`](Self::send); a service that says no answers with an ordinary error.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn upgrade(&self, operation: Operation) -> Result<Upgraded, Error> {
        self.repeated(&operation, |url| self.switched(&operation, url))
            .await
    }

    /// Makes attempts until one succeeds, or another is of no use or not safe.
    async fn repeated<T: Send, F>(
        &self,
        operation: &Operation,
        attempt: impl Fn(Url) -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let span = operation.span();
        let call = async {
            let url = self.url(operation)?;
            let mut attempts = Attempts::of(operation);
            loop {
                match attempt(url.clone()).await {
                    Ok(answer) => {
                        attempts.ended();
                        return Ok(answer);
                    }
                    Err(error) => attempts.again_after(error).await?,
                }
            }
        };
        call.instrument(span).await
    }

    /// One attempt, up to the whole answer. A file is as large as it is, and a line as slow: there
    /// the limit is for silence.
    async fn whole(&self, operation: &Operation, url: Url) -> Result<Answer, Error> {
        let limit = operation.timeout.unwrap_or(self.0.timeout);
        let Some(Body::Form(form)) = &operation.body else {
            return self.exchange(operation, url, Some(limit)).await;
        };
        // Apart, so that all other calls are not as large as two.
        let exchange = Box::pin(self.exchange(operation, url, None));
        match form.pulse().watch(limit, exchange).await {
            Some(result) => result,
            None => Err(classify::silence(operation, &self.0.host, limit)),
        }
    }

    async fn exchange(
        &self,
        operation: &Operation,
        url: Url,
        limit: Option<Duration>,
    ) -> Result<Answer, Error> {
        let response = self.request(operation, &url, limit).await?;
        let status = response.status();
        let headers = response.headers().clone();
        let body = response
            .bytes()
            .await
            .map_err(|error| self.failure(operation, error))?;
        tracing::Span::current().record("bytes", body.len());
        if !status.is_success() || (!operation.any_answer && classify::is_page(&headers)) {
            return Err(classify::answer(operation, status, &headers, &body));
        }
        Ok(Answer {
            operation: operation.name,
            status,
            headers,
            body,
        })
    }

    /// One attempt, up to the head of a good answer.
    async fn begun(&self, operation: &Operation, url: Url) -> Result<AnswerStream, Error> {
        let response = self.head(operation, &url).await?;
        let status = response.status();
        let is_page = !operation.any_answer && classify::is_page(response.headers());
        if !status.is_success() || is_page {
            return Err(self.refusal(operation, response).await);
        }
        Ok(AnswerStream::new(operation, &self.0.host, response))
    }

    /// One attempt, up to the switched connection.
    async fn switched(&self, operation: &Operation, url: Url) -> Result<Upgraded, Error> {
        let key = upgrade::Key::new();
        let operation = &key.offer(operation.clone())?;
        let response = self.head(operation, &url).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refusal(operation, response).await);
        }
        key.check(operation.name, response.headers())?;
        let connection = response
            .upgrade()
            .await
            .map_err(|error| self.failure(operation, error))?;
        Ok(Upgraded::new(connection))
    }

    /// The beginning of an answer whose body has no limit of its own.
    async fn head(&self, operation: &Operation, url: &Url) -> Result<reqwest::Response, Error> {
        let limit = operation.timeout.unwrap_or(self.0.timeout);
        match timeout(limit, self.request(operation, url, None)).await {
            Ok(result) => result,
            Err(_) => Err(classify::silence(operation, &self.0.host, limit)),
        }
    }

    /// What an answer says that is not the one that was asked for.
    async fn refusal(&self, operation: &Operation, response: reqwest::Response) -> Error {
        let status = response.status();
        let headers = response.headers().clone();
        match timeout(self.0.timeout, response.bytes()).await {
            Ok(Ok(body)) => classify::answer(operation, status, &headers, &body),
            Ok(Err(error)) => self.failure(operation, error),
            Err(_) => classify::silence(operation, &self.0.host, self.0.timeout),
        }
    }

    /// Sends once; and once more where the token was refused and there is a newer one. Nobody
    /// carries out what was refused, so that does no harm.
    async fn request(
        &self,
        operation: &Operation,
        url: &Url,
        limit: Option<Duration>,
    ) -> Result<reqwest::Response, Error> {
        let credentials = &self.0.credentials;
        let used = credentials.current().await?;
        let header = used.header.clone();
        let response = self.request_as(operation, url, limit, header).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match credentials.renewed(&used).await? {
            Some(newer) => self.request_as(operation, url, limit, newer.header).await,
            None => Ok(response),
        }
    }

    async fn request_as(
        &self,
        operation: &Operation,
        url: &Url,
        limit: Option<Duration>,
        credential: Option<(HeaderName, HeaderValue)>,
    ) -> Result<reqwest::Response, Error> {
        let mut request = self
            .0
            .http
            .request(operation.method.clone(), url.clone())
            .headers(operation.headers.clone());
        if let Some((name, value)) = credential {
            request = request.header(name, value);
        }
        if let Some(limit) = limit {
            request = request.timeout(limit);
        }
        request = match operation.body.clone() {
            None => request,
            Some(Body::Bytes(bytes)) => request.body(bytes),
            Some(Body::Form(form)) => request
                .header(http::header::CONTENT_LENGTH, form.length())
                .body(form.into_body()),
        };
        let response = request
            .send()
            .await
            .map_err(|error| self.failure(operation, error))?;
        tracing::Span::current().record("status", response.status().as_u16());
        Ok(response)
    }

    fn failure(&self, operation: &Operation, error: reqwest::Error) -> Error {
        classify::failure(operation, &self.0.host, error)
    }

    fn url(&self, operation: &Operation) -> Result<Url, Error> {
        check_path(&operation.path)?;
        let mut url = self.0.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{}", operation.path));
        if !operation.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&operation.query);
        }
        Ok(url)
    }
}

/// The attempts of one call: how many there were, and whether there is to be another.
struct Attempts<'a> {
    operation: &'a Operation,
    started: Instant,
    delays: backon::ExponentialBackoff,
    count: u32,
}

impl<'a> Attempts<'a> {
    fn of(operation: &'a Operation) -> Self {
        tracing::Span::current().record("attempt", 1);
        Self {
            operation,
            started: Instant::now(),
            delays: backon::ExponentialBuilder::new()
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_secs(5))
                .with_max_times(operation.attempts - 1)
                .with_jitter()
                .build(),
            count: 1,
        }
    }

    fn ended(&self) {
        let elapsed = self.started.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        tracing::Span::current().record("elapsed_ms", elapsed);
    }

    /// Waits until the call may be sent again, or gives the error back.
    async fn again_after(&mut self, error: Error) -> Result<(), Error> {
        self.ended();
        let safe =
            self.operation.repeat == Repeat::Harmless || error.effect() == Effect::NotApplied;
        let Some(delay) = self.delays.next().filter(|_| safe && error.is_retryable()) else {
            return Err(error);
        };
        let asked = match &error {
            Error::Api(error) => error.retry_after(),
            _ => None,
        };
        let wait = asked.map_or(delay, |asked| asked.max(delay));
        if self.started.elapsed() + wait > ATTEMPTS_LIMIT {
            return Err(error);
        }
        tracing::debug!(?wait, error = %error, "sending again");
        tokio::time::sleep(wait).await;
        self.count += 1;
        tracing::Span::current().record("attempt", self.count);
        Ok(())
    }
}

/// The library takes dots in a path, encoded or not, for steps and walks them: a name that is made
/// of dots would lead to another operation, so it is refused before.
fn check_path(path: &str) -> Result<(), InvalidInput> {
    let is_step = |part: &str| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    };
    match path.split('/').find(|part| is_step(part)) {
        None => Ok(()),
        Some(step) => Err(InvalidInput::new(
            "path",
            format!("{step:?} cannot be a part of it"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_step_in_it_is_refused_encoded_or_not() {
        let table = [
            ("/api/v1/acme/demo/runs", true),
            ("/a/...", true),
            ("/a/.hidden", true),
            ("/a/../b", false),
            ("/a/..", false),
            ("/a/./b", false),
            ("/a/%2e%2E/b", false),
            ("/a/.%2e", false),
        ];
        for (path, fine) in table {
            assert_eq!(check_path(path).is_ok(), fine, "{path}");
        }
    }

    #[test]
    fn a_call_that_would_walk_out_of_its_path_is_not_built() {
        let config = Config::explicit("http://localhost:1/base").unwrap();
        let transport = Transport::new(&config).unwrap();
        let url = transport.url(&Operation::get("ping", "/a/b")).unwrap();
        assert_eq!(url.as_str(), "http://localhost:1/base/a/b");
        let error = transport
            .url(&Operation::get("ping", "/a/../../admin"))
            .unwrap_err();
        assert!(matches!(error, Error::InvalidInput(input) if input.field() == "path"));
    }
}
