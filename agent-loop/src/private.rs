//! Text that is for the journal and for nobody else.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A detail of a failure for the operator: it goes to the journal, never into an error message,
/// a log or a prompt. `Debug` and `Display` print `<private>`.
///
/// What looks like a secret is taken out when it is made: the value after a name such as
/// `authorization`, `token`, `api_key` or `password`, in any case and with any of `: = "` between.
/// At most 2 KiB are kept.
///
/// # Examples
/// ```
/// use agent_loop::Private;
///
/// let detail = Private::new("GET /models with X-API-Key: k-123 was refused");
/// assert_eq!(detail.to_string(), "<private>");
/// assert_eq!(detail.reveal(), "GET /models with X-API-Key: <redacted> was refused");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Private(String);

impl Private {
    /// The most that is kept, in bytes.
    pub const MAX_LEN: usize = 2048;

    /// A detail, without what looks like a secret in it.
    #[must_use]
    pub fn new(detail: impl AsRef<str>) -> Self {
        let mut text = redact(detail.as_ref());
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = ends.take_while(|end| *end <= Self::MAX_LEN).last();
        text.truncate(end.unwrap_or(0));
        Self(text)
    }

    /// A detail from an error and its causes.
    #[must_use]
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        Self::new(
            causes
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": "),
        )
    }

    /// The text, for the journal. Do not put it into a message.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<private>")
    }
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<private>")
    }
}

impl From<String> for Private {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Private> for String {
    fn from(private: Private) -> Self {
        private.0
    }
}

/// Names whose value is a secret, in lower case. A name that ends in one of them counts as well.
const SECRET_NAMES: [&str; 10] = [
    "authorization",
    "api-key",
    "api_key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "cookie",
    "credential",
];

/// The text with the values of secret names replaced.
pub(crate) fn redact(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some((name_end, value)) = next_secret(&lower, at) {
        out.push_str(text.get(at..value.start).unwrap_or_default());
        out.push_str("<redacted>");
        at = value.end.max(name_end);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The end of the next secret name from `from` on, and where its value is.
fn next_secret(lower: &str, from: usize) -> Option<(usize, std::ops::Range<usize>)> {
    let mut from = from;
    loop {
        let rest = lower.get(from..)?;
        let name_end = SECRET_NAMES
            .iter()
            .filter_map(|name| rest.find(name).map(|at| from + at + name.len()))
            .min()?;
        match value_after(lower, name_end) {
            Some(value) => return Some((name_end, value)),
            None => from = name_end,
        }
    }
}

/// The value that belongs to a name which ends at `name_end`: after a separator, up to a blank, a
/// quote or the start of another value. A scheme before the value (`Bearer x`) is a part of it.
fn value_after(lower: &str, name_end: usize) -> Option<std::ops::Range<usize>> {
    let after = lower.get(name_end..)?;
    let separator: usize = after
        .chars()
        .take_while(|c| matches!(c, ':' | '=' | '"' | '\'' | ' ' | '\\'))
        .map(char::len_utf8)
        .sum();
    if !after.get(..separator)?.contains([':', '=']) {
        return None;
    }
    let start = name_end + separator;
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | '}' | '\\');
    let word = |from: usize| {
        let rest = lower.get(from..).unwrap_or_default();
        from + rest.find(ends).unwrap_or(rest.len())
    };
    let first = word(start);
    let scheme = matches!(lower.get(start..first)?, "bearer" | "token" | "basic");
    let end = if scheme && lower.get(first..)?.starts_with(' ') {
        word(first + 1)
    } else {
        first
    };
    (end > start).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_secret_is_taken_out_in_every_spelling() {
        let table = [
            ("X-API-KEY: v9", "X-API-KEY: <redacted>"),
            ("x-api-key: v9, next", "x-api-key: <redacted>, next"),
            (
                "Authorization: token v9 end",
                "Authorization: <redacted> end",
            ),
            (
                "authorization=Bearer v9&x=1",
                "authorization=<redacted>&x=1",
            ),
            (r#"{"apiKey": "v9"}"#, r#"{"apiKey": "<redacted>"}"#),
            (
                r#"{\"access_token\":\"v9\"}"#,
                r#"{\"access_token\":\"<redacted>\"}"#,
            ),
            (
                "/home/op/.config/token=v9",
                "/home/op/.config/token=<redacted>",
            ),
            (
                "the token of the run is wrong",
                "the token of the run is wrong",
            ),
            ("token:", "token:"),
        ];
        for (text, redacted) in table {
            assert_eq!(Private::new(text).reveal(), redacted);
        }
    }

    #[test]
    fn nothing_prints_it() {
        let detail = Private::new("a path: /home/op");
        assert_eq!(format!("{detail} {detail:?}"), "<private> <private>");
    }

    proptest! {
        #[test]
        fn text_without_a_secret_name_is_kept(text in "[ -~äß€]{0,40}") {
            prop_assume!(!SECRET_NAMES.iter().any(|name| text.to_ascii_lowercase().contains(name)));
            let detail = Private::new(&text);
            prop_assert_eq!(detail.reveal(), text);
        }

        #[test]
        fn a_value_never_survives(before in "[ -~ä]{0,9}", name in 0..SECRET_NAMES.len(), after in "[ -~ä]{0,9}") {
            let text = format!("{before}{}=k-9876543 {after}", SECRET_NAMES[name]);
            prop_assert!(!Private::new(&text).reveal().contains("k-9876543"), "{}", text);
        }
    }
}
