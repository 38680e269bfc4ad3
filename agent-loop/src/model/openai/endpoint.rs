//! The address of a server: an opaque prefix to which paths are appended.

use reqwest::Url;

/// A base URL that can be used.
///
/// Routes are appended as text. `Url::join` would drop the last segment of a prefix such as
/// `…/runs/<uuid>/8000/v1`, and a doubled slash is a wrong path for vLLM and llama.cpp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseUrl {
    prefix: String,
    encrypted: bool,
    loopback: bool,
}

impl BaseUrl {
    /// Reads `text`. The error is a half sentence, and never quotes it: it may hold a password.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("holds white space or a control character");
        }
        let encrypted = match text.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            Some(_) => return Err("has another scheme than `http://` and `https://`"),
            None => return Err("has no scheme; it begins with `http://` or `https://`"),
        };
        let url = Url::parse(text).map_err(|_| "is not a URL")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("holds a user name or password; give the key apart from the URL");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("holds a query or fragment; paths are appended to it, so it must not");
        }
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err("names no host");
        };
        Ok(Self {
            prefix: text.trim_end_matches('/').to_owned(),
            encrypted,
            loopback: is_loopback(host),
        })
    }

    /// The address of `route`, which begins with a slash.
    pub(super) fn route(&self, route: &str) -> String {
        format!("{}{route}", self.prefix)
    }

    /// Whether it is an `https` address.
    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether it is this machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.loopback
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_appended_with_exactly_one_slash() {
        let table = [
            ("http://h", "http://h/chat/completions"),
            ("http://h/", "http://h/chat/completions"),
            ("http://h:8000/v1", "http://h:8000/v1/chat/completions"),
            ("https://h/v1//", "https://h/v1/chat/completions"),
            (
                "https://h/rewrite-services/v1/ns/owner/proj/runs/0123/8000/v1/",
                "https://h/rewrite-services/v1/ns/owner/proj/runs/0123/8000/v1/chat/completions",
            ),
        ];
        for (base, full) in table {
            assert_eq!(
                BaseUrl::parse(base).unwrap().route("/chat/completions"),
                full
            );
        }
    }

    #[test]
    fn what_cannot_be_a_base_says_why_and_is_not_quoted() {
        let table = [
            ("", "no scheme"),
            ("localhost:8000/v1", "no scheme"),
            ("h/v1", "no scheme"),
            ("ftp://h/v1", "another scheme"),
            ("HTTP://h/v1", "another scheme"),
            ("http://", "not a URL"),
            ("http://h:port", "not a URL"),
            ("http://h/v1?key=pass-word", "query"),
            ("http://h/v1#pass-word", "fragment"),
            ("http://user:pass-word@h/v1", "password"),
            ("http://h/v1\n", "white space"),
            (" http://h/v1", "white space"),
        ];
        for (base, why) in table {
            let problem = BaseUrl::parse(base).unwrap_err();
            assert!(problem.contains(why), "{base:?}: {problem}");
            assert!(!problem.contains("pass-word"));
        }
    }

    #[test]
    fn this_machine_is_known_by_every_name_of_it() {
        let table = [
            ("http://127.0.0.1:1", true),
            ("http://127.8.0.1", true),
            ("http://localhost:1/v1", true),
            ("http://LOCALHOST", true),
            ("http://model.localhost", true),
            ("http://[::1]:1", true),
            ("http://notlocalhost", false),
            ("http://128.0.0.1", false),
            ("http://localhost.example", false),
        ];
        for (base, local) in table {
            assert_eq!(BaseUrl::parse(base).unwrap().is_loopback(), local, "{base}");
        }
    }

    #[test]
    fn only_https_is_encrypted() {
        assert!(BaseUrl::parse("https://h").unwrap().is_encrypted());
        assert!(!BaseUrl::parse("http://h").unwrap().is_encrypted());
    }
}
