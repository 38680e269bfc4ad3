//! One HTTP exchange: send, and read what comes back up to a limit.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, StatusCode};

use super::endpoint::BaseUrl;
use super::stream::Assembly;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The largest answer that is read. A reply of a model is far smaller.
const ANSWER_LIMIT: usize = 4 * 1024 * 1024;
/// The same in pieces, of which each word has an envelope of some hundred bytes.
const STREAM_LIMIT: usize = 16 * ANSWER_LIMIT;

/// The connection pool for one server.
pub(super) struct Http {
    client: Client,
    authorization: Option<HeaderValue>,
}

/// An answer, of whatever status.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Why the body is not whole, where it is not.
    pub(super) broken: Option<Broken>,
}

/// Why an answer, or the rest of it, did not come.
#[derive(Debug)]
pub(super) enum Broken {
    TimedOut,
    TooLarge,
    Connection(String),
}

impl Http {
    /// A pool for `base`. The error is a half sentence.
    pub(super) fn new(base: &BaseUrl, authorization: Option<HeaderValue>) -> Result<Self, String> {
        // reqwest is built without a provider, so that a program's own choice wins. If two threads
        // come here at once, the second one's install fails, and that is as good.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let mut builder = Client::builder()
            .user_agent(concat!("agent-loop/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if base.is_loopback() {
            builder = builder.no_proxy();
        }
        if !base.is_encrypted() {
            // Without this the platform's certificates are loaded all the same, which fails on a
            // machine that has none.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| causes(&error))?;
        Ok(Self {
            client,
            authorization,
        })
    }

    /// Posts a JSON document.
    pub(super) async fn post(
        &self,
        url: &str,
        request_id: &str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<Answer, Broken> {
        let request = self
            .client
            .request(Method::POST, url)
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", request_id)
            .body(body);
        self.exchange(request, "application/json", deadline).await
    }

    /// Posts a JSON document whose answer comes in pieces, and gives the answer as if it had come
    /// whole.
    pub(super) async fn post_streamed(
        &self,
        url: &str,
        request_id: &str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<Answer, Broken> {
        let request = self
            .client
            .request(Method::POST, url)
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", request_id)
            .body(body);
        // A refusal comes as a document.
        let accept = "text/event-stream, application/json";
        self.exchange(request, accept, deadline).await
    }

    /// Gets a document.
    pub(super) async fn get(&self, url: &str, deadline: Duration) -> Result<Answer, Broken> {
        let request = self.client.request(Method::GET, url);
        self.exchange(request, "application/json", deadline).await
    }

    async fn exchange(
        &self,
        mut request: RequestBuilder,
        accept: &'static str,
        deadline: Duration,
    ) -> Result<Answer, Broken> {
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let response = request
            .header(ACCEPT, accept)
            .timeout(deadline)
            .send()
            .await
            .map_err(Broken::from)?;
        let status = response.status();
        let headers = response.headers().clone();
        let events = headers.get(CONTENT_TYPE).is_some_and(|value| {
            value.as_bytes().starts_with(b"text/event-stream") && accept.starts_with("text/event")
        });
        let (body, broken) = match events {
            true => read_events(response).await,
            false => read(response).await,
        };
        Ok(Answer {
            status,
            headers,
            body,
            broken,
        })
    }
}

/// Reads the body as far as it comes and as far as it is allowed to go. An error status is worth
/// something even where its text is cut.
async fn read(mut response: reqwest::Response) -> (Vec<u8>, Option<Broken>) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return (body, None),
            Ok(Some(chunk)) if body.len() + chunk.len() > ANSWER_LIMIT => {
                return (body, Some(Broken::TooLarge));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Err(error) => return (body, Some(error.into())),
        }
    }
}

/// Reads events up to the end of the answer, and puts them together. Leaving closes the connection,
/// which ends the work of a server that is not at its end.
async fn read_events(mut response: reqwest::Response) -> (Vec<u8>, Option<Broken>) {
    let mut assembly = Assembly::default();
    let mut size = 0;
    let broken = loop {
        match response.chunk().await {
            Ok(None) => break None,
            Ok(Some(chunk)) => {
                size += chunk.len();
                if assembly.feed(&chunk) {
                    break None;
                }
                if size > STREAM_LIMIT {
                    break Some(Broken::TooLarge);
                }
            }
            Err(error) => break Some(error.into()),
        }
    };
    match (assembly.document(), broken) {
        (Some(document), _) => (document, None),
        (None, Some(broken)) => (Vec::new(), Some(broken)),
        (None, None) => {
            let why = "the stream ended before the answer did".to_owned();
            (Vec::new(), Some(Broken::Connection(why)))
        }
    }
}

impl From<reqwest::Error> for Broken {
    fn from(error: reqwest::Error) -> Self {
        // A connection that is not made within its own limit is a server out of reach.
        if error.is_timeout() && !error.is_connect() {
            return Self::TimedOut;
        }
        Self::Connection(causes(&error.without_url()))
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the deadline passed"),
            Self::TooLarge => write!(f, "the answer is larger than {ANSWER_LIMIT} bytes"),
            Self::Connection(causes) => f.write_str(causes),
        }
    }
}

/// An error with its causes, in one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
