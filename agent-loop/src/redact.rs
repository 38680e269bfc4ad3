//! What looks like a secret in a text, and the text without it.

use std::ops::Range;

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

/// What comes before `token` in the name of a secret; a parser has tokens of its own.
const KINDS_OF_TOKEN: [&str; 11] = [
    "access", "api", "auth", "bearer", "client", "id", "private", "refresh", "secret", "service",
    "session",
];

/// The text with the values of secret names replaced, and the passwords in addresses.
pub(crate) fn redact(text: &str) -> String {
    without_secrets(text, |_, _, _| true)
}

/// The output of a program without what looks like a secret in it. As [`redact`], but for words that
/// programs also have for other things, which whoever mends them has to see: `token` and `secret` count
/// as the end of a longer name, `cookie` as a header, and nothing counts that is compared (`==`).
pub(crate) fn redact_output(text: &str) -> String {
    without_secrets(text, |before, name, after| match name {
        ADDRESS => true,
        _ if after.trim_start().starts_with("==") => false,
        COOKIE => after.starts_with(':'),
        "token" => is_a_kind_of_token(before),
        "secret" => before.ends_with(|c: char| matches!(c, '_' | '-') || c.is_ascii_lowercase()),
        _ => true,
    })
}

/// Whether `token` ends the name of a secret that begins with what is before it: `GITHUB_TOKEN`,
/// `X-Auth-Token`, `accessToken`; not `next_token`.
fn is_a_kind_of_token(before: &str) -> bool {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    // No name is longer, and a text of names alone should not be read again for each.
    let mut word: Vec<char> = before.chars().rev().take_while(is_name).take(64).collect();
    word.reverse();
    let word: String = word.into_iter().collect();
    let kind = word.trim_end_matches(['_', '-']);
    let is_constant = kind.len() < word.len() && !kind.contains(|c: char| c.is_ascii_lowercase());
    is_constant || KINDS_OF_TOKEN.iter().any(|known| ends_in_word(kind, known))
}

/// Whether the last word of `name` is `word`: `api` of `my_api`, `myApi` and `api`, not of `okapi`.
fn ends_in_word(name: &str, word: &str) -> bool {
    let Some((rest, last)) = name
        .len()
        .checked_sub(word.len())
        .and_then(|at| name.split_at_checked(at))
    else {
        return false;
    };
    let begins = rest.is_empty()
        || rest.ends_with(['_', '-'])
        || last.starts_with(|c: char| c.is_ascii_uppercase());
    begins && last.eq_ignore_ascii_case(word)
}

/// `counts` is asked about each name with the text before and behind it.
///
/// Looks for separators, and back from each for a name: every check of every attempt comes through
/// here, and the names would have to be looked for one by one.
fn without_secrets(text: &str, counts: impl Fn(&str, &str, &str) -> bool) -> String {
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let counts =
        |start: usize, name: &str, end: usize| counts(part(0..start), name, part(end..text.len()));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for separator in memchr::memchr2_iter(b':', b'=', text.as_bytes()) {
        // Before `at` it is a part of a value.
        let Some(before) = text.get(at..separator) else {
            continue;
        };
        let end = at + before.trim_end_matches(['"', '\'', ' ', '\\']).len();
        let name = name_at_the_end(part(at..end));
        let secret = name.filter(|name| counts(end - name.len(), name, end));
        let value = secret.and_then(|name| value_after(text, end, name));
        let value = value.or_else(|| {
            let start = separator + ADDRESS.len();
            let is_address = part(separator..text.len()).starts_with(ADDRESS);
            let is_meant = is_address && counts(separator, ADDRESS, start);
            is_meant.then(|| password_in_address(text, start)).flatten()
        });
        if let Some(value) = value {
            out.push_str(part(at..value.start));
            out.push_str(REDACTED);
            at = value.end;
        }
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The secret name that a text ends with.
fn name_at_the_end(text: &str) -> Option<&'static str> {
    let text = text.as_bytes();
    let last = text.last()?.to_ascii_lowercase();
    let ends = |name: &&str| {
        let start = text.len().checked_sub(name.len());
        let end = start.and_then(|start| text.get(start..));
        name.as_bytes().last() == Some(&last)
            && end.is_some_and(|end| end.eq_ignore_ascii_case(name.as_bytes()))
    };
    SECRET_NAMES.into_iter().chain([COOKIE]).find(ends)
}

/// The value that belongs to a name which ends at `name_end`: behind a separator, in quotes up to
/// the closing one, and else up to a blank or the beginning of another value. A scheme before the
/// value (`Bearer x`) is a part of it.
fn value_after(text: &str, name_end: usize, name: &str) -> Option<Range<usize>> {
    let after = text.get(name_end..)?;
    let separator: usize = after
        .chars()
        .take_while(|c| matches!(c, ':' | '=' | '"' | '\'' | ' ' | '\\'))
        .map(char::len_utf8)
        .sum();
    let separators = after.get(..separator)?;
    let (_, opening) = separators.rsplit_once([':', '='])?;
    let start = name_end + separator;
    let value = text.get(start..)?;
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
    let scheme = line.get(..first).is_some_and(|word| {
        let schemes = ["bearer", "token", "basic"];
        schemes
            .iter()
            .any(|scheme| scheme.eq_ignore_ascii_case(word))
    });
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
fn password_in_address(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
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
            assert_eq!(redact(text), redacted);
        }
    }

    #[test]
    fn the_output_of_a_program_keeps_what_its_author_has_to_see() {
        let hidden = [
            ("X-API-KEY: v9", "X-API-KEY: <redacted>"),
            ("x-api-key: v9", "x-api-key: <redacted>"),
            ("Authorization: token v9", "Authorization: <redacted>"),
            (r#"{"apiKey": "v9"}"#, r#"{"apiKey": "<redacted>"}"#),
            ("GITHUB_TOKEN=v9", "GITHUB_TOKEN=<redacted>"),
            ("X-Auth-Token: v9", "X-Auth-Token: <redacted>"),
            ("accessToken: 'v9'", "accessToken: '<redacted>'"),
            ("myApiToken: 'v9'", "myApiToken: '<redacted>'"),
            ("id_token=v9", "id_token=<redacted>"),
            ("client_secret=v9", "client_secret=<redacted>"),
            ("clientSecret: v9", "clientSecret: <redacted>"),
            ("Set-Cookie: a=v9; b", "Set-Cookie: <redacted>"),
            ("password = 'v9'", "password = '<redacted>'"),
            ("db://me:v9@host/x", "db://me:<redacted>@host/x"),
        ];
        for (text, redacted) in hidden {
            assert_eq!(redact_output(text), redacted);
        }
        let kept = [
            "unexpected token: ')'",
            "    token = next(tokens)",
            "next_token=5 valid_token: 6 peekToken: 7 token: 8",
            "self.secret: int = 4",
            "cookie = Cookie(name)",
            "assert password == 'a'",
            "KeyError: 'token'",
        ];
        for text in kept {
            assert_eq!(redact_output(text), text);
        }
    }

    proptest! {
        #[test]
        fn text_without_a_secret_name_is_kept(text in "[ -~äß€]{0,40}") {
            let lower = text.to_ascii_lowercase();
            prop_assume!(!SECRET_NAMES.iter().chain([&COOKIE, &ADDRESS]).any(|name| lower.contains(name)));
            prop_assert_eq!(redact(&text), text.clone());
            prop_assert_eq!(redact_output(&text), text);
        }

        #[test]
        fn a_value_never_survives(before in "[ -~ä]{0,9}", name in 0..SECRET_NAMES.len(), after in "[ -~ä]{0,9}") {
            let text = format!("{before}{}=k-9876543 {after}", SECRET_NAMES[name]);
            prop_assert!(!redact(&text).contains("k-9876543"), "{}", text);
        }

        #[test]
        fn no_part_of_a_value_in_quotes_survives(
            name in 0..SECRET_NAMES.len(),
            value in "[Ä-Ü][ -~Ä-Ü]{0,30}[Ä-Ü]",
            spaces in " {0,2}",
        ) {
            let value = serde_json::Value::from(value);
            let json = format!("{{\"{}\"{spaces}:{spaces}{value},\"next\":1}}", SECRET_NAMES[name]);
            let left = redact(&json);
            prop_assert!(!left.contains(|c: char| ('Ä'..='Ü').contains(&c)), "{} became {}", json, left);
            prop_assert!(left.ends_with(",\"next\":1}"), "{}", left);
        }

        #[test]
        fn what_was_taken_out_once_stays_as_it_is(parts in prop::collection::vec(
            prop_oneof!["[ -~ä\n]{0,6}", "token|PASSWORD|Cookie|api_key", "[:=\"' \\\\]{1,3}", "://u:p@h"], 0..9)
        ) {
            for without in [redact, redact_output] {
                let once = without(&parts.concat());
                prop_assert_eq!(without(&once), once.clone(), "{}", once);
            }
        }
    }
}
