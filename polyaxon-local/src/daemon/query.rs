//! Query strings, read as strictly as the daemon reads them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::refusal::Refusal;

/// The parameters of a request. Of several with one name the first counts.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=2` with form encoding (`+` is a space). A parameter with a raw `;` is dropped,
    /// as the daemon's parser does; escapes that are broken or no UTF-8 are refused.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Refusal> {
        let pairs = text.unwrap_or_default().split('&');
        pairs
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The value of `name`; an empty one counts as absent.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|v| !v.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
    }

    /// A path, checked and cleaned.
    pub(crate) fn path(&self, name: &'static str, max: usize) -> Result<CleanPath, Refusal> {
        match self.get(name) {
            Some(text) => CleanPath::new(name, text, max),
            None => Err(Refusal::invalid(format!("{name}: is required"))),
        }
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(Refusal::invalid(format!(
                "{name}: {other:?} is neither `true` nor `false`"
            ))),
        }
    }

    /// A decimal number of at least `min`.
    pub(crate) fn number(&self, name: &str, default: u64, min: u64) -> Result<u64, Refusal> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            // Offsets are signed on the other side of the system call.
            Ok(number) if digits && number >= min && i64::try_from(number).is_ok() => Ok(number),
            _ => Err(Refusal::invalid(format!(
                "{name}: {text:?} is not a decimal number of at least {min}"
            ))),
        }
    }
}

fn decode(text: &str) -> Result<String, Refusal> {
    let spaced: Cow<'_, str> = match text.contains('+') {
        true => text.replace('+', " ").into(),
        false => text.into(),
    };
    let broken = spaced.split('%').skip(1).any(|rest| {
        let mut digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.next().is_none() || digits.next().is_none()
    });
    if broken {
        return Err(Refusal::invalid("the query has a broken percent escape"));
    }
    match percent_decode(spaced.as_bytes()).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(Refusal::invalid("the query is not UTF-8")),
    }
}

/// An absolute path of the sandbox, cleaned by text: no `.`, `..`, `//` or trailing slash is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanPath(String);

impl CleanPath {
    pub(crate) fn new(field: &str, text: &str, max: usize) -> Result<Self, Refusal> {
        let problem = if text.is_empty() {
            "is empty"
        } else if text.len() > max {
            return Err(Refusal::invalid(format!(
                "{field}: has {} bytes, at most {max} are taken",
                text.len()
            )));
        } else if text.contains('\0') {
            "holds a NUL"
        } else if !text.starts_with('/') {
            "is not absolute"
        } else {
            return Ok(Self::clean(text));
        };
        Err(Refusal::invalid(format!("{field}: {problem}")))
    }

    fn clean(text: &str) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        Self(format!("/{}", parts.join("/")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path below the root, `.` for the root itself.
    pub(crate) fn relative(&self) -> &str {
        match self.0.trim_start_matches('/') {
            "" => ".",
            relative => relative,
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0 == "/"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text)).unwrap()
    }

    #[test]
    fn a_query_is_decoded_once_and_as_a_form() {
        let table = [
            ("path=%2Fa%20b", "/a b"),
            ("path=/a+b", "/a b"),
            ("path=/a%2Bb", "/a+b"),
            ("path=/a%2520b", "/a%20b"),
            ("path=/%C3%A9", "/é"),
            ("path=/q%3Fx%3D1%23f%26y", "/q?x=1#f&y"),
            ("path=/a%3Bb", "/a;b"),
            ("path=/a=b", "/a=b"),
            ("x=1&path=/a&path=/b", "/a"),
            ("p%61th=/a", "/a"),
        ];
        for (text, want) in table {
            assert_eq!(query(text).text("path"), Some(want), "{text}");
        }
        assert_eq!(query("path=/a;b").text("path"), None);
        assert_eq!(query("path=").text("path"), None);
        assert_eq!(query("path").text("path"), None);
        for broken in ["path=/%", "path=/%4", "path=/%zz", "path=/%ff", "path=/%+1"] {
            Query::parse(Some(broken)).unwrap_err();
        }
    }

    #[test]
    fn a_flag_is_true_or_false_and_nothing_else() {
        assert!(query("a=true").flag("a", false).unwrap());
        assert!(!query("a=false").flag("a", true).unwrap());
        assert!(query("a=").flag("a", true).unwrap());
        assert!(query("").flag("a", true).unwrap());
        for other in ["1", "0", "True", "TRUE", "yes", " true"] {
            query(&format!("a={other}")).flag("a", false).unwrap_err();
        }
    }

    #[test]
    fn a_number_is_decimal_and_not_below_its_least() {
        assert_eq!(query("n=12").number("n", 5, 0).unwrap(), 12);
        assert_eq!(query("n=").number("n", 5, 0).unwrap(), 5);
        assert_eq!(query("n=0").number("n", 5, 0).unwrap(), 0);
        let most = i64::MAX.to_string();
        assert_eq!(
            query(&format!("n={most}")).number("n", 0, 0).unwrap(),
            9_223_372_036_854_775_807
        );
        for other in [
            "-1",
            "+1",
            "%2B1",
            "1.0",
            "0x1",
            "1e3",
            "9223372036854775808",
            "a",
        ] {
            query(&format!("n={other}")).number("n", 0, 0).unwrap_err();
        }
        query("n=0").number("n", 5, 1).unwrap_err();
    }

    #[test]
    fn a_path_is_cleaned_by_text() {
        let table = [
            ("/", "/", "."),
            ("//", "/", "."),
            ("/..", "/", "."),
            ("/../../etc/passwd", "/etc/passwd", "etc/passwd"),
            ("/a/./b//c/", "/a/b/c", "a/b/c"),
            ("/a/../b/.", "/b", "b"),
            ("/a b /..c", "/a b /..c", "a b /..c"),
            ("/...", "/...", "..."),
        ];
        for (text, clean, relative) in table {
            let path = CleanPath::new("path", text, 4096).unwrap();
            assert_eq!((path.as_str(), path.relative()), (clean, relative));
            assert_eq!(path.is_root(), clean == "/");
        }
        for refused in ["", "a", "./a", "../a", "/a\0b", &"/a".repeat(2049)] {
            CleanPath::new("path", refused, 4096).unwrap_err();
        }
        CleanPath::new("path", &"/a".repeat(2048), 4096).unwrap();
    }

    proptest! {
        #[test]
        fn a_cleaned_path_never_climbs_and_stays_as_it_is(text in "/([a.]{0,3}/){0,6}[a.]{0,3}") {
            let path = CleanPath::new("path", &text, 4096).unwrap();
            prop_assert!(path.as_str().split('/').all(|part| part != ".." && part != "."));
            prop_assert!(!path.as_str().contains("//"));
            prop_assert_eq!(CleanPath::new("path", path.as_str(), 4096).unwrap(), path);
        }

        #[test]
        fn what_was_encoded_is_what_is_decoded(value in "\\PC{0,20}") {
            prop_assume!(!value.is_empty());
            let all = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            let parsed = query(&format!("a={all}"));
            prop_assert_eq!(parsed.text("a"), Some(value.as_str()));
        }

        #[test]
        fn no_query_makes_the_parser_panic(text in "\\PC{0,40}") {
            if let Ok(parsed) = Query::parse(Some(&text)) {
                let _ = (parsed.path("path", 64).is_ok(), parsed.number("offset", 0, 0).is_ok());
            }
        }
    }
}
