//! The HTTP library, set up.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::config::Config;
use crate::error::Error;

/// Sets the library up: one TLS and proxy configuration, and no retries, redirects or decisions
/// of its own.
pub(super) fn client(config: &Config) -> Result<reqwest::Client, Error> {
    let config_error = |problem: String| Error::Config(problem.into());
    // A provider that the program has installed wins; without one `ring` serves.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let (connect, whole) = config.timeouts();
    // A limit for the whole call that passes while connecting would leave open whether anything
    // was sent, so connecting ends before.
    let connect = connect.min(whole.mul_f32(0.75));
    let mut headers = HeaderMap::new();
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
