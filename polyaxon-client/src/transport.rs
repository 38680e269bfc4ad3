//! The only code that knows the HTTP library: URL, token, time limits, repeating, the effect of
//! every failure, decoding.
//!
//! For those who build a typed client on top, as `polyaxon-sandbox` does.

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::Instant;
use tracing::Instrument as _;
use url::Url;

use crate::config::Config;
use crate::error::{Effect, Error, InvalidInput};

mod classify;
mod operation;

pub use operation::{Operation, Repeat};

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
        let base = config.host_url().clone();
        let host = match (base.host_str(), base.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => base.to_string(),
        };
        Ok(Self(Arc::new(Inner {
            http: library(config)?,
            base,
            host,
            timeout: config.timeouts().1,
        })))
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
        let span = tracing::debug_span!(
            "polyaxon",
            operation = operation.name,
            attempt = tracing::field::Empty,
            status = tracing::field::Empty,
            bytes = tracing::field::Empty,
        );
        self.send_within(operation).instrument(span).await
    }

    async fn send_within(&self, operation: Operation) -> Result<Answer, Error> {
        let url = self.url(&operation)?;
        let started = Instant::now();
        let mut delays = backon::ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .with_max_times(operation.attempts - 1)
            .with_jitter()
            .build();
        let mut attempt = 1;
        loop {
            let span = tracing::Span::current();
            span.record("attempt", attempt);
            let error = match self.once(&operation, url.clone()).await {
                Ok(answer) => {
                    span.record("status", answer.status.as_u16());
                    span.record("bytes", answer.body.len());
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let safe = operation.repeat == Repeat::Harmless || error.effect() == Effect::NotApplied;
            let Some(delay) = delays.next().filter(|_| safe && error.is_retryable()) else {
                return Err(error);
            };
            let asked = match &error {
                Error::Api(error) => error.retry_after(),
                _ => None,
            };
            let wait = asked.map_or(delay, |asked| asked.max(delay));
            if started.elapsed() + wait > ATTEMPTS_LIMIT {
                return Err(error);
            }
            tracing::debug!(?wait, error = %error, "sending again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn once(&self, operation: &Operation, url: Url) -> Result<Answer, Error> {
        let inner = &self.0;
        let mut request = inner
            .http
            .request(operation.method.clone(), url)
            .headers(operation.headers.clone())
            .timeout(operation.timeout.unwrap_or(inner.timeout));
        if let Some(body) = &operation.body {
            request = request.body(body.clone());
        }
        let failed = |error| classify::failure(operation, &inner.host, error);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(failed)?;
        if !status.is_success() {
            return Err(classify::answer(operation, status, &headers, &body));
        }
        Ok(Answer {
            operation: operation.name,
            status,
            headers,
            body,
        })
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

/// Sets the library up: one TLS and proxy configuration, and no retries, redirects or decisions
/// of its own.
fn library(config: &Config) -> Result<reqwest::Client, Error> {
    let config_error = |problem: String| Error::Config(problem.into());
    // A provider that the program has installed wins; without one `ring` serves.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let (connect, _) = config.timeouts();
    let mut headers = HeaderMap::new();
    if let Some(value) = config.authorization()? {
        headers.insert(http::header::AUTHORIZATION, value);
    }
    if let Some((name, value)) = config.extra_header() {
        headers.insert(name.clone(), value.clone());
    }
    let agent = concat!("polyaxon-rust/", env!("CARGO_PKG_VERSION"));
    headers.insert(http::header::USER_AGENT, HeaderValue::from_static(agent));
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .http1_only()
        .connect_timeout(connect)
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true);
    if is_loopback(config.host_url()) {
        builder = builder.no_proxy();
    }
    let tls = config.tls();
    if config.host_url().scheme() == "http" {
        // Nothing will be verified, so the system's certificates, which a slim container lacks,
        // need not be there.
        builder = builder.tls_certs_only([]);
    } else if let Some(path) = &tls.ca_file {
        let pem = read(path)?;
        let certs = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| {
            config_error(format!("{} holds no certificate: {error}", path.display()))
        })?;
        builder = builder.tls_certs_merge(certs);
    }
    if let Some((cert, key)) = &tls.identity {
        let mut pem = read(cert)?;
        pem.extend(read(key)?);
        let identity = reqwest::Identity::from_pem(&pem).map_err(|error| {
            config_error(format!("{} and {}: {error}", cert.display(), key.display()))
        })?;
        builder = builder.identity(identity);
    }
    if !tls.verify {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder
        .build()
        .map_err(|error| Error::Config(Box::new(error.without_url())))
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| {
        Error::Config(format!("{} cannot be read: {error}", path.display()).into())
    })
}

/// A proxy of the surroundings is never what leads to this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
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
