//! What goes wrong, for which requests, and how often.

use std::num::NonZeroU32;

use axum::body::Body;
use axum::response::{Html, IntoResponse as _};
use http::{HeaderValue, Method, Response, StatusCode, header};
use polyaxon_client::InvalidInput;
use serde::Deserialize;

/// What goes wrong with an answer. Sizes count the bytes of its body.
///
/// In a file of faults it is a word, or an object of a word and a number: `"close"`,
/// `{"cut_after": 10}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// The connection is closed after so many bytes. A shorter body is not affected; one that ends
    /// there lacks only its end.
    CutAfter(u64),
    /// Nothing comes after so many bytes; the connection stays open.
    StallAfter(u64),
    /// The body comes in pieces of so many bytes, each sent by itself, a millisecond apart.
    Split(NonZeroU32),
    /// The body comes with so many bytes a second.
    Slow(NonZeroU32),
    /// Lines of an event stream end in CR LF instead of LF. Other bodies stay as they are.
    Crlf,
    /// 502 with the HTML page of a gateway.
    BadGateway,
    /// 405 with an empty page: what the open-source server says when its database is locked.
    Busy,
    /// 429 with a `Retry-After` of so many seconds.
    TooManyRequests(u32),
    /// The connection is closed without an answer.
    Close,
    /// A connection is closed as soon as it is accepted, before a request is read.
    Refuse,
    /// A run that was queued fails instead of starting.
    RefuseStart,
}

impl Fault {
    /// Whether the request gets no answer of the service's own.
    pub(super) fn replaces_answer(&self) -> bool {
        matches!(
            self,
            Self::BadGateway | Self::Busy | Self::TooManyRequests(_) | Self::Close
        )
    }

    /// The answer in place of the service's own, if there is one.
    pub(super) fn answer(&self) -> Option<Response<Body>> {
        match self {
            Self::BadGateway => {
                let page = "<html><head><title>502 Bad Gateway</title></head>\
                            <body><center><h1>502 Bad Gateway</h1></center></body></html>\r\n";
                Some((StatusCode::BAD_GATEWAY, Html(page)).into_response())
            }
            Self::Busy => Some((StatusCode::METHOD_NOT_ALLOWED, Html("")).into_response()),
            Self::TooManyRequests(seconds) => {
                let retry = [(header::RETRY_AFTER, HeaderValue::from(*seconds))];
                let body = serde_json::json!({"error": {
                    "code": "rate_limited",
                    "message": "too many requests, on purpose",
                    "details": {"retry_after_ms": u64::from(*seconds) * 1000},
                }});
                Some((StatusCode::TOO_MANY_REQUESTS, retry, axum::Json(body)).into_response())
            }
            _ => None,
        }
    }
}

/// A [`Fault`], and the requests that it is for: all of them, every time, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "a rule does nothing until it is added to the faults of a server"]
pub struct FaultRule {
    fault: Fault,
    #[serde(default, deserialize_with = "method")]
    method: Option<Method>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    skip: u32,
    #[serde(default)]
    times: Option<u32>,
    #[serde(default)]
    carried_out: bool,
}

impl FaultRule {
    /// `fault` for every request.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            method: None,
            path: None,
            skip: 0,
            times: None,
            carried_out: false,
        }
    }

    /// Only for requests with this method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only for requests with such a path, as it stands in the request, without its query. A `*`
    /// is any text, slashes included: `*/fs/read`, `/api/v1/*/runs`.
    pub fn path(mut self, pattern: impl Into<String>) -> Self {
        self.path = Some(pattern.into());
        self
    }

    /// Lets the first so many requests that it is for pass.
    pub fn skip(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// At most so many times.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// For [`BadGateway`](Fault::BadGateway), [`TooManyRequests`](Fault::TooManyRequests) and
    /// [`Close`](Fault::Close): the service carries the request out, and only its answer is lost.
    /// Without it the service never sees the request. Of an answer that comes in parts only the
    /// beginning is waited for: the command of an `exec/stream` has been started then, not ended.
    pub fn carried_out(mut self) -> Self {
        self.carried_out = true;
        self
    }

    /// Reads a file of faults: `{"faults": [{"fault": {"cut_after": 10}, "method": "GET",
    /// "path": "*/fs/read", "skip": 1, "times": 2}, {"fault": "bad_gateway", "carried_out": true}]}`.
    /// All members but `fault` can be left out.
    ///
    /// # Errors
    /// [`InvalidInput`] says where the text is wrong; unknown members are.
    ///
    /// # Examples
    /// ```
    /// use polyaxon_local::{Fault, FaultRule};
    ///
    /// let text = r#"{"faults": [{"fault": {"cut_after": 10}, "path": "*/fs/read", "times": 1}]}"#;
    /// let rule = FaultRule::new(Fault::CutAfter(10)).path("*/fs/read").times(1);
    /// assert_eq!(FaultRule::parse_all(text)?, [rule]);
    /// # Ok::<_, polyaxon_client::InvalidInput>(())
    /// ```
    pub fn parse_all(text: &str) -> Result<Vec<Self>, InvalidInput> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            faults: Vec<FaultRule>,
        }
        let wrong = |problem: String| InvalidInput::new("faults", problem);
        let mut text = serde_json::Deserializer::from_str(text);
        let file: File = serde_path_to_error::deserialize(&mut text)
            .map_err(|error| wrong(format!("{}: {}", error.path(), error.inner())))?;
        text.end().map_err(|error| wrong(error.to_string()))?;
        for (index, rule) in file.faults.iter().enumerate() {
            if rule.carried_out && !rule.fault.replaces_answer() {
                return Err(wrong(format!(
                    "faults[{index}]: `carried_out` is only for bad_gateway, too_many_requests and close"
                )));
            }
            let scoped = rule.method.is_some() || rule.path.is_some();
            if scoped && matches!(rule.fault, Fault::Refuse | Fault::RefuseStart) {
                return Err(wrong(format!(
                    "faults[{index}]: there is no request yet, so `method` and `path` mean nothing"
                )));
            }
        }
        Ok(file.faults)
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }

    pub(super) fn is_carried_out(&self) -> bool {
        self.carried_out
    }

    pub(super) fn is_for(&self, method: &Method, path: &str) -> bool {
        !matches!(self.fault, Fault::Refuse | Fault::RefuseStart)
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.path.as_ref().is_none_or(|wanted| fits(wanted, path))
    }

    /// Counts one request that the rule is for, and says whether the fault applies to it.
    pub(super) fn count(&mut self) -> bool {
        if self.times == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}

fn method<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Option<Method>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}

/// Whether `text` is as `pattern` says; a `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let table = [
            ("", "", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("*", "/a/b", true),
            ("*/fs/read", "/sandbox/v1/x/fs/read", true),
            ("*/fs/read", "/sandbox/v1/x/fs/read/y", false),
            ("/api/*/runs", "/api/v1/o/p/runs", true),
            ("/api/*/runs", "/api/runs", false),
            ("/a*b*c", "/abbc", true),
            ("/a*b*c", "/acb", false),
            ("*aa", "aaa", true),
        ];
        for (pattern, text, want) in table {
            assert_eq!(fits(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn a_rule_counts_what_it_lets_pass_and_what_it_spoils() {
        let mut rule = FaultRule::new(Fault::Close).skip(1).times(2);
        let counted: Vec<bool> = (0..5).map(|_| rule.count()).collect();
        assert_eq!(counted, [false, true, true, false, false]);
    }

    #[test]
    fn a_file_says_every_fault_and_nothing_unknown() {
        let text = r#"{"faults": [
            {"fault": {"cut_after": 0}}, {"fault": {"stall_after": 5}}, {"fault": {"split": 1}},
            {"fault": {"slow": 100}}, {"fault": "crlf"}, {"fault": "bad_gateway", "carried_out": true},
            {"fault": {"too_many_requests": 3}, "method": "POST"}, {"fault": "close"},
            {"fault": "refuse", "times": 1}, {"fault": "refuse_start"}
        ]}"#;
        let faults: Vec<Fault> = FaultRule::parse_all(text)
            .unwrap()
            .into_iter()
            .map(|rule| rule.fault)
            .collect();
        let one = NonZeroU32::new(1).unwrap();
        let want = [
            Fault::CutAfter(0),
            Fault::StallAfter(5),
            Fault::Split(one),
            Fault::Slow(NonZeroU32::new(100).unwrap()),
            Fault::Crlf,
            Fault::BadGateway,
            Fault::TooManyRequests(3),
            Fault::Close,
            Fault::Refuse,
            Fault::RefuseStart,
        ];
        assert_eq!(faults, want);
        let refused = [
            ("", "faults"),
            ("[]", "faults"),
            (r#"{"faults": [{"fault": "nope"}]}"#, "faults[0].fault"),
            (r#"{"faults": [{"fault": "crlf", "tines": 1}]}"#, "tines"),
            (r#"{"faults": [{"fault": {"split": 0}}]}"#, "faults[0]"),
            (r#"{"faults": [], "x": 1}"#, "x"),
            (r#"{"faults": []} x"#, "trailing"),
            (
                r#"{"faults": [{"fault": "crlf", "method": "A B"}]}"#,
                "faults[0].method",
            ),
            (
                r#"{"faults": [{"fault": "crlf", "carried_out": true}]}"#,
                "carried_out",
            ),
            (
                r#"{"faults": [{"fault": "refuse", "path": "*"}]}"#,
                "mean nothing",
            ),
        ];
        for (text, word) in refused {
            let error = FaultRule::parse_all(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
