//! Text that is for the journal and for nobody else.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A detail of a failure for the operator: it goes to the journal, never into an error message,
/// a log or a prompt. `Debug` and `Display` print `<private>`.
///
/// What looks like a secret is taken out when it is made: the value after a name such as
/// `authorization`, `token`, `api_key` or `password`, in any case and with any of `: = "` between,
/// in quotes up to the closing one; cookies; the password of an address. At most 2 KiB are kept.
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

/// What stands in the place of a secret.
const REDACTED: &str = "<redacted>";

/// Names whose value is a secret, in lower case. A name that ends in one of them counts as well.
const SECRET_NAMES: [&str; 20] = [
    "authorization",
    "api-key",
    "api_key",
    "apikey",
    "access-key",
    "access_key",
    "accesskey",
    "private-key",
    "private_key",
    "privatekey",
    "secret-key",
    "secret_key",
    "secretkey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
];
/// The header with secrets of many names, up to its line's end.
const COOKIE: &str = "cookie";

/// What the password of an address can stand behind.
const ADDRESS: &str = "://";

/// The text with the values of secret names replaced, and the passwords in addresses.
pub(crate) fn redact(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let names = SECRET_NAMES.into_iter().chain([COOKIE, ADDRESS]);
    let mut found: Vec<_> = names.flat_map(|name| lower.match_indices(name)).collect();
    found.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (start, name) in found {
        let end = start + name.len();
        let value = match name {
            // It is a part of a value.
            _ if start < at => None,
            ADDRESS => password_in_address(&lower, end),
            name => value_after(&lower, end, name),
        };
        if let Some(value) = value {
            out.push_str(text.get(at..value.start).unwrap_or_default());
            out.push_str(REDACTED);
            at = value.end;
        }
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The value that belongs to a name which ends at `name_end`: behind a separator, in quotes up to
/// the closing one, and else up to a blank or the beginning of another value. A scheme before the
/// value (`Bearer x`) is a part of it.
fn value_after(lower: &str, name_end: usize, name: &str) -> Option<Range<usize>> {
    let after = lower.get(name_end..)?;
    let separator: usize = after
        .chars()
        .take_while(|c| matches!(c, ':' | '=' | '"' | '\'' | ' ' | '\\'))
        .map(char::len_utf8)
        .sum();
    let separators = after.get(..separator)?;
    let (_, opening) = separators.rsplit_once([':', '='])?;
    let start = name_end + separator;
    let value = lower.get(start..)?;
    let line = value.get(..value.find(['\n', '\r']).unwrap_or(value.len()))?;
    let opening = opening.trim_start_matches(' ');
    // A quote that was escaped is closed by one that is, too.
    let quote = opening.trim_end_matches(' ');
    let length = match quote {
        "" if name == COOKIE => line.find(['"', '\'']).unwrap_or(line.len()),
        "" => unquoted(line),
        quote => closing(line, quote),
    };
    (length > 0).then_some(start..start + length)
}

/// How long a value is up to the quote that it began with.
fn closing(line: &str, quote: &str) -> usize {
    let escaped = |at: usize| {
        let before = line.get(..at).unwrap_or_default();
        let slashes = before.len() - before.trim_end_matches('\\').len();
        !quote.starts_with('\\') && slashes % 2 == 1
    };
    let mut ends = line.match_indices(quote).map(|(at, _)| at);
    ends.find(|at| !escaped(*at)).unwrap_or(line.len())
}

/// How long a value without quotes is.
fn unquoted(line: &str) -> usize {
    let word = |from: usize| {
        let rest = line.get(from..).unwrap_or_default();
        let mut ends = rest.char_indices().filter(|(at, c)| {
            let next = rest.get(at + c.len_utf8()..).unwrap_or_default();
            match c {
                '"' | '\'' => true,
                // A secret can have these in it, where nothing else begins behind them.
                ',' | ';' | '}' | ')' | ']' => next.is_empty() || next.starts_with(is_end),
                '&' => begins_a_pair(next),
                '\\' => next.starts_with(['n', 'r', 't', '"', '\'']),
                c => c.is_whitespace(),
            }
        });
        ends.next().map_or(line.len(), |(at, _)| from + at)
    };
    let first = word(0);
    let scheme = matches!(line.get(..first), Some("bearer" | "token" | "basic"));
    match scheme && line.get(first..).is_some_and(|rest| rest.starts_with(' ')) {
        true => word(first + 1),
        false => first,
    }
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '}' | ')' | ']' | '\\')
}

/// Whether `name=` stands here, as in the query of an address.
fn begins_a_pair(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '%');
    let rest = text.trim_start_matches(is_name);
    rest.len() < text.len() && rest.starts_with('=')
}

/// Where the password of an address is whose `user:password@host` begins at `start`.
fn password_in_address(lower: &str, start: usize) -> Option<Range<usize>> {
    let rest = lower.get(start..)?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<');
    let authority = rest.get(..rest.find(ends).unwrap_or(rest.len()))?;
    let (user, _host) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    let begins = start + name.len() + 1;
    (!password.is_empty()).then(|| begins..begins + password.len())
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
            (
                r#"{"password":"correct horse, battery; staple", "b": 1}"#,
                r#"{"password":"<redacted>", "b": 1}"#,
            ),
            (
                r#"{"password":"a\"b c","b":1}"#,
                r#"{"password":"<redacted>","b":1}"#,
            ),
            (
                r#"{\"password\": \"a b\", \"b\": 1}"#,
                r#"{\"password\": \"<redacted>\", \"b\": 1}"#,
            ),
            ("PASSWORD='a b' next", "PASSWORD='<redacted>' next"),
            ("PASSWORD=\"a b\nnext", "PASSWORD=\"<redacted>\nnext"),
            ("PASSWORD=abc,def;ghi&j}k next", "PASSWORD=<redacted> next"),
            (
                "f(token=v9, b=1) (token=v9)",
                "f(token=<redacted>, b=1) (token=<redacted>)",
            ),
            (r"X-API-KEY: v9\nnext", r"X-API-KEY: <redacted>\nnext"),
            (
                "Cookie: a=1; session=s3cr3t\nnext",
                "Cookie: <redacted>\nnext",
            ),
            (
                "curl -H 'Cookie: a=1; b=2' x",
                "curl -H 'Cookie: <redacted>' x",
            ),
            (
                "AWS_SECRET_ACCESS_KEY=AKIA/1 x",
                "AWS_SECRET_ACCESS_KEY=<redacted> x",
            ),
            (
                "PRIVATE_KEY=z credentials: c",
                "PRIVATE_KEY=<redacted> credentials: <redacted>",
            ),
            (
                "postgres://u:pw1@2@host:5/db?password=p",
                "postgres://u:<redacted>@host:5/db?password=<redacted>",
            ),
            (
                "http://host:80/a@b git@host:c",
                "http://host:80/a@b git@host:c",
            ),
            ("max_tokens=9 tokenizer: b", "max_tokens=9 tokenizer: b"),
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
            let lower = text.to_ascii_lowercase();
            prop_assume!(!SECRET_NAMES.iter().chain([&COOKIE, &ADDRESS]).any(|name| lower.contains(name)));
            let detail = Private::new(&text);
            prop_assert_eq!(detail.reveal(), text);
        }

        #[test]
        fn a_value_never_survives(before in "[ -~ä]{0,9}", name in 0..SECRET_NAMES.len(), after in "[ -~ä]{0,9}") {
            let text = format!("{before}{}=k-9876543 {after}", SECRET_NAMES[name]);
            prop_assert!(!Private::new(&text).reveal().contains("k-9876543"), "{}", text);
        }

        #[test]
        fn no_part_of_a_value_in_quotes_survives(
            name in 0..SECRET_NAMES.len(),
            value in "[Ä-Ü][ -~Ä-Ü]{0,30}[Ä-Ü]",
            spaces in " {0,2}",
        ) {
            let value = serde_json::Value::from(value);
            let json = format!("{{\"{}\"{spaces}:{spaces}{value},\"next\":1}}", SECRET_NAMES[name]);
            let detail = Private::new(&json);
            let none = !detail.reveal().contains(|c: char| ('Ä'..='Ü').contains(&c));
            prop_assert!(none, "{} became {}", json, detail.reveal());
            prop_assert!(detail.reveal().ends_with(",\"next\":1}"), "{}", detail.reveal());
        }

        #[test]
        fn what_was_taken_out_once_stays_as_it_is(parts in prop::collection::vec(
            prop_oneof!["[ -~ä\n]{0,6}", "token|PASSWORD|Cookie|api_key", "[:=\"' \\\\]{1,3}", "://u:p@h"], 0..9)
        ) {
            let once = redact(&parts.concat());
            prop_assert_eq!(redact(&once), once.clone(), "{}", once);
        }
    }
}
