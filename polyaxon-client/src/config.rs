//! Where to call, as whom, and with which certificates.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use url::Url;

use crate::credentials::Provider;
use crate::error::{BoxError, Error, InvalidInput};
use crate::token::Token;

mod sources;

use sources::Sources;

/// The settings of a client.
///
/// Each setting is taken from the first place that has it:
///
/// 1. what the program says ([`host`](Self::host), [`token`](Self::token), …);
/// 2. for the token, the file that the platform mounts into a pod,
///    `{POLYAXON_CONTEXT_ROOT or /plx-context}/.configs/.auth`;
/// 3. the environment: `POLYAXON_HOST`, `POLYAXON_AUTH_TOKEN` and so on;
/// 4. `.client` and `.auth` in `{POLYAXON_HOME or ~}/.polyaxon/`, then in `/tmp/.polyaxon/`, the
///    latter only where folder and file belong to this user and nobody else can write them;
/// 5. the default: `http://localhost:8000`, no token.
///
/// `POLYAXON_NO_CONFIG=true` leaves 2 to 4 out. No file is ever written or deleted.
///
/// | variable | default | meaning |
/// |---|---|---|
/// | `POLYAXON_HOST` | `http://localhost:8000` | URL of the API, a base path included |
/// | `POLYAXON_AUTH_TOKEN` | – | the token; `no-auth` means none |
/// | `POLYAXON_AUTHENTICATION_TYPE` | `Token` | scheme of the `Authorization` header |
/// | `POLYAXON_TIMEOUT` | 60 | seconds for one call, but for those that have a limit of their own |
/// | `POLYAXON_VERIFY_SSL` | true | false: certificates are not checked |
/// | `POLYAXON_SSL_CA_CERT` | – | PEM file with more certificate authorities |
/// | `POLYAXON_CERT_FILE`, `POLYAXON_KEY_FILE` | – | PEM files of a client certificate |
/// | `POLYAXON_HEADER`, `POLYAXON_HEADER_SERVICE` | – | name and value of one more header |
///
/// # Examples
/// ```
/// use polyaxon_client::{Config, Origin, Token};
///
/// let config = Config::explicit("https://polyaxon.example.org/api")?.token(Token::new("s3cret")?);
/// assert_eq!(config.host_url().as_str(), "https://polyaxon.example.org/api");
/// assert_eq!(config.token_origin(), Some(&Origin::Explicit));
/// # Ok::<(), polyaxon_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    host: Setting<Url>,
    token: Option<Setting<Token>>,
    provider: Option<Provider>,
    scheme: String,
    header: Option<(HeaderName, HeaderValue)>,
    timeout: Duration,
    connect_timeout: Duration,
    tls: Tls,
}

/// What is trusted, and what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) verify: bool,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// A value with the place that it came from.
#[derive(Clone, Debug)]
struct Setting<T> {
    value: T,
    origin: Origin,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The program said so.
    Explicit,
    /// The file that the platform mounts into a pod.
    Pod(PathBuf),
    /// An environment variable.
    Environment(&'static str),
    /// A file in a home directory.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Explicit => f.write_str("the program"),
            Self::Pod(path) | Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "the environment variable {name}"),
            Self::Default => f.write_str("the default"),
        }
    }
}

impl Config {
    /// The settings of the surroundings: pod, environment, files, defaults.
    ///
    /// # Errors
    /// [`Error::Config`] where a value cannot be used; it names the setting and where it came
    /// from.
    pub fn from_env() -> Result<Self, Error> {
        Self::resolve(&Sources::of_process()?).map_err(|error| Error::Config(Box::new(error)))
    }

    /// The defaults with this host; pod, environment and files are not looked at.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where `host` is not a URL of HTTP or HTTPS.
    pub fn explicit(host: &str) -> Result<Self, Error> {
        Ok(Self::resolve(&Sources::none())?.host(parse_host("host", host)?))
    }

    /// The settings of two files with these texts.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn of_texts(client: &str, auth: &str) -> Result<Self, InvalidInput> {
        Self::resolve(&Sources::of_texts(client, auth)?)
    }

    /// Uses this host. A base path is kept, a final slash does not matter.
    #[must_use]
    pub fn host(mut self, host: Url) -> Self {
        self.host = Setting {
            value: host,
            origin: Origin::Explicit,
        };
        self
    }

    /// Uses this token.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(Setting {
            value: token,
            origin: Origin::Explicit,
        });
        self
    }

    /// Asks this function for a token before the first call, and again when one was refused with
    /// 401. Of calls that are refused together one asks; each is then sent once more. It wins over
    /// a fixed token.
    ///
    /// # Examples
    /// ```
    /// use polyaxon_client::{Config, Token};
    ///
    /// let config = Config::explicit("https://polyaxon.example.org")?
    ///     .token_provider(|| async { Ok(Token::new(std::fs::read_to_string("/run/token")?)?) });
    /// assert_eq!(config.token_origin(), None);
    /// # Ok::<(), polyaxon_client::Error>(())
    /// ```
    #[must_use]
    pub fn token_provider<F, R>(mut self, ask: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Token, BoxError>> + Send + 'static,
    {
        self.provider = Some(Provider::new(ask));
        self
    }

    /// Sends no token.
    #[must_use]
    pub fn no_token(mut self) -> Self {
        self.token = None;
        self.provider = None;
        self
    }

    /// Names the scheme that stands before the token: `Token`, `InternalToken`, `EphemeralToken`, or
    /// what a gateway wants. Default: `Token`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what cannot be the name of a scheme.
    pub fn authentication_type(mut self, scheme: &str) -> Result<Self, Error> {
        self.scheme = parse_scheme(scheme)?;
        Ok(self)
    }

    /// Sends one more header with every call.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what cannot be the name or the value of one.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.header = Some(parse_header(name, value)?);
        Ok(self)
    }

    /// The limit of one call from first byte to last, but for calls that have their own; of an
    /// upload it is the time in which nothing moves. Default: 60 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The limit for a connection to stand. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Trusts the certificate authorities of this PEM file too.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca_file = Some(path.into());
        self
    }

    /// Takes any certificate for good. Whoever is between can then read and change everything,
    /// the token included.
    #[must_use]
    pub fn danger_no_verification(mut self) -> Self {
        self.tls.verify = false;
        self
    }

    /// The URL that is called.
    #[must_use]
    pub fn host_url(&self) -> &Url {
        &self.host.value
    }

    /// Where the host came from.
    #[must_use]
    pub fn host_origin(&self) -> &Origin {
        &self.host.origin
    }

    /// Where the token came from; `None` where there is none.
    #[must_use]
    pub fn token_origin(&self) -> Option<&Origin> {
        self.token.as_ref().map(|token| &token.origin)
    }

    pub(crate) fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, InvalidInput> {
        self.token
            .as_ref()
            .map(|token| token.value.header(&self.scheme))
            .transpose()
    }

    pub(crate) fn extra_header(&self) -> Option<&(HeaderName, HeaderValue)> {
        self.header.as_ref()
    }

    pub(crate) fn timeouts(&self) -> (Duration, Duration) {
        (self.connect_timeout, self.timeout)
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    fn resolve(sources: &Sources) -> Result<Self, InvalidInput> {
        let default_host = || Url::parse("http://localhost:8000").ok();
        let host = match sources.find("POLYAXON_HOST", "host")? {
            Some(found) => found.parse(|text| parse_host("POLYAXON_HOST", text))?,
            None => Setting {
                value: default_host().ok_or_else(|| InvalidInput::new("host", "is not a URL"))?,
                origin: Origin::Default,
            },
        };
        let token = match sources.token()? {
            Some(found) => Some(found.parse(|text| Token::new(text))?),
            None => None,
        };
        let text = |name, key| -> Result<Option<String>, InvalidInput> {
            Ok(sources.find(name, key)?.map(|found| found.text))
        };
        let path = |name, key| -> Result<Option<PathBuf>, InvalidInput> {
            Ok(text(name, key)?.map(PathBuf::from))
        };
        let timeout = match sources.find("POLYAXON_TIMEOUT", "timeout")? {
            Some(found) => {
                found
                    .parse(|text| parse_seconds("POLYAXON_TIMEOUT", text))?
                    .value
            }
            None => Duration::from_secs(60),
        };
        let verify = match sources.find("POLYAXON_VERIFY_SSL", "verify_ssl")? {
            Some(found) => {
                found
                    .parse(|text| parse_flag("POLYAXON_VERIFY_SSL", text))?
                    .value
            }
            None => true,
        };
        let identity = match (
            path("POLYAXON_CERT_FILE", "cert_file")?,
            path("POLYAXON_KEY_FILE", "key_file")?,
        ) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(InvalidInput::new(
                    "POLYAXON_CERT_FILE",
                    "needs POLYAXON_KEY_FILE, and the other way round",
                ));
            }
        };
        let scheme = match sources.find("POLYAXON_AUTHENTICATION_TYPE", "authentication_type")? {
            Some(found) => found.parse(parse_scheme)?.value,
            None => "Token".to_owned(),
        };
        let header = match (
            text("POLYAXON_HEADER", "header")?,
            text("POLYAXON_HEADER_SERVICE", "header_service")?,
        ) {
            (Some(name), Some(value)) => Some(parse_header(&name, &value)?),
            _ => None,
        };
        Ok(Self {
            host,
            token: token.filter(|token| !token.value.is_no_auth()),
            provider: None,
            scheme,
            header,
            timeout,
            connect_timeout: Duration::from_secs(10),
            tls: Tls {
                verify,
                ca_file: path("POLYAXON_SSL_CA_CERT", "ssl_ca_cert")?,
                identity,
            },
        })
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("host", &self.host.value.as_str())
            .field("host_origin", &self.host.origin)
            .field("token_origin", &self.token_origin())
            .field("timeout", &self.timeout)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Reads a host; one without a scheme gets `http://`.
fn parse_host(field: &'static str, text: &str) -> Result<Url, InvalidInput> {
    let text = text.trim();
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let refuse = |problem: String| Err(InvalidInput::new(field, problem));
    // A URL can hold a password, so it is not quoted where it holds an `@`.
    let shown = if text.contains('@') { "the URL" } else { text };
    let mut url = match Url::parse(&whole) {
        Ok(url) => url,
        Err(error) => return refuse(format!("{shown:?} is not a URL: {error}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse(format!("{shown:?} is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("holds a user or password; give a token instead".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse(format!("{shown:?} has a query or fragment"));
    }
    let base = url.path().trim_end_matches('/').to_owned();
    url.set_path(&base);
    Ok(url)
}

fn parse_seconds(field: &'static str, text: &str) -> Result<Duration, InvalidInput> {
    match text.trim().parse::<f64>().map(Duration::try_from_secs_f64) {
        Ok(Ok(limit)) if !limit.is_zero() => Ok(limit),
        _ => Err(InvalidInput::new(
            field,
            format!("{text:?} is not a number of seconds above 0"),
        )),
    }
}

fn parse_flag(field: &'static str, text: &str) -> Result<bool, InvalidInput> {
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Ok(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Ok(false),
        _ => Err(InvalidInput::new(
            field,
            format!("{text:?} is neither true nor false"),
        )),
    }
}

fn parse_scheme(text: &str) -> Result<String, InvalidInput> {
    let text = text.trim();
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    match fits {
        true => Ok(text.to_owned()),
        false => Err(InvalidInput::new(
            "POLYAXON_AUTHENTICATION_TYPE",
            format!("{text:?} is not the name of a scheme"),
        )),
    }
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), InvalidInput> {
    let name = name.parse().map_err(|_invalid| {
        InvalidInput::new(
            "POLYAXON_HEADER",
            format!("{name:?} is not the name of a header"),
        )
    })?;
    let value = value.parse().map_err(|_invalid| {
        InvalidInput::new("POLYAXON_HEADER_SERVICE", "is not the value of a header")
    })?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(sources: &Sources) -> Config {
        Config::resolve(sources).unwrap()
    }

    fn header(config: &Config) -> Option<String> {
        let value = config.authorization().unwrap()?;
        Some(String::from_utf8(value.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn each_setting_comes_from_the_first_place_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let pod = dir.path().join("pod");
        std::fs::create_dir_all(home.join(".polyaxon")).unwrap();
        std::fs::create_dir_all(pod.join(".configs")).unwrap();
        let env = |vars: &[(&'static str, &str)]| Sources::for_tests(vars, &home, &pod);

        let config = resolve(&env(&[]));
        assert_eq!(config.host_url().as_str(), "http://localhost:8000/");
        assert_eq!(
            (config.host_origin(), config.token_origin()),
            (&Origin::Default, None)
        );

        let client_file = home.join(".polyaxon/.client");
        std::fs::write(
            &client_file,
            r#"{"POLYAXON_HOST":"http://home:1","token":"t-client"}"#,
        )
        .unwrap();
        let config = resolve(&env(&[]));
        assert_eq!(config.host_url().as_str(), "http://home:1/");
        assert_eq!(config.host_origin(), &Origin::File(client_file));
        assert_eq!(header(&config).unwrap(), "Token t-client");

        let auth_file = home.join(".polyaxon/.auth");
        std::fs::write(&auth_file, r#"{"username":"u","token":"t-home"}"#).unwrap();
        std::fs::write(home.join(".polyaxon/.client"), r#"{"host":"home:1"}"#).unwrap();
        assert_eq!(header(&resolve(&env(&[]))).unwrap(), "Token t-home");

        let vars = [
            ("POLYAXON_HOST", "https://env/base/"),
            ("POLYAXON_AUTH_TOKEN", "t-env"),
        ];
        let config = resolve(&env(&vars));
        assert_eq!(config.host_url().as_str(), "https://env/base");
        assert_eq!(header(&config).unwrap(), "Token t-env");

        let pod_file = pod.join(".configs/.auth");
        std::fs::write(&pod_file, r#"{"POLYAXON_AUTH_TOKEN":"t-pod"}"#).unwrap();
        let config = resolve(&env(&vars));
        assert_eq!(header(&config).unwrap(), "Token t-pod");
        assert_eq!(config.token_origin(), Some(&Origin::Pod(pod_file)));

        let explicit = config.token(Token::new("t-arg").unwrap());
        assert_eq!(header(&explicit).unwrap(), "Token t-arg");
        assert_eq!(header(&explicit.no_token()), None);

        let alone = resolve(&env(&[
            ("POLYAXON_NO_CONFIG", "true"),
            ("POLYAXON_HOST", "http://env"),
        ]));
        assert_eq!(
            (alone.host_origin(), alone.token_origin()),
            (&Origin::Default, None)
        );
    }

    #[test]
    fn a_bad_value_names_its_setting_and_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let table = [
            ("POLYAXON_HOST", "ftp://x", "neither http nor https"),
            ("POLYAXON_HOST", "http://u:pw-1@x", "user or password"),
            ("POLYAXON_HOST", "http://", "not a URL"),
            ("POLYAXON_TIMEOUT", "soon", "number of seconds"),
            ("POLYAXON_TIMEOUT", "0", "above 0"),
            ("POLYAXON_VERIFY_SSL", "maybe", "neither true nor false"),
            ("POLYAXON_CERT_FILE", "/c.pem", "needs POLYAXON_KEY_FILE"),
            ("POLYAXON_AUTHENTICATION_TYPE", "a b", "name of a scheme"),
        ];
        for (name, value, part) in table {
            let sources = Sources::for_tests(&[(name, value)], dir.path(), dir.path());
            let error = Config::resolve(&sources).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(part), "{error}");
            assert!(!error.contains("pw-1"), "{error}");
        }
        let file = dir.path().join(".polyaxon/.client");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{broken").unwrap();
        let sources = Sources::for_tests(&[], dir.path(), dir.path());
        let error = Config::resolve(&sources).unwrap_err().to_string();
        assert!(
            error.contains(".client") && error.contains("JSON"),
            "{error}"
        );
        assert!(file.exists(), "the user's file was deleted");
    }

    #[test]
    fn certificates_are_checked_unless_the_user_opts_out() {
        assert!(resolve(&Sources::none()).tls().verify);
        let dir = tempfile::tempdir().unwrap();
        let sources =
            Sources::for_tests(&[("POLYAXON_VERIFY_SSL", "False")], dir.path(), dir.path());
        assert!(!resolve(&sources).tls().verify);
    }

    #[test]
    fn no_auth_means_no_header_and_the_scheme_can_be_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let with = |vars: &[(&'static str, &str)]| {
            resolve(&Sources::for_tests(vars, dir.path(), dir.path()))
        };
        assert_eq!(header(&with(&[("POLYAXON_AUTH_TOKEN", "no-auth")])), None);
        let internal = with(&[
            ("POLYAXON_AUTH_TOKEN", "t"),
            ("POLYAXON_AUTHENTICATION_TYPE", "InternalToken"),
        ]);
        assert_eq!(header(&internal).unwrap(), "InternalToken t");
        let service = with(&[
            ("POLYAXON_HEADER", "X-S"),
            ("POLYAXON_HEADER_SERVICE", "runner"),
        ]);
        let (name, value) = service.extra_header().unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("x-s", &b"runner"[..]));
    }

    #[test]
    fn a_config_never_prints_its_token() {
        let config = Config::explicit("localhost:1")
            .unwrap()
            .token(Token::new("s3cret").unwrap());
        assert!(!format!("{config:?}{config:#?}").contains("s3cret"));
    }
}
