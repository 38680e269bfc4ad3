//! Names of cases and candidates, which are names of folders and parts of ids.

use std::fmt;
use std::str::FromStr;

/// A name that fits into a path and into the id of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(String);

/// A text that cannot be the name of a case or a candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot be a name: 1 to {} letters, digits, `-`, `_` and `.` can, the first no `.`",
    Name::MAX_LEN
)]
pub struct InvalidName {
    text: String,
}

impl Name {
    /// Two of them and the number of a try fit into the id of an attempt.
    const MAX_LEN: usize = 40;

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=Self::MAX_LEN).contains(&text.len())
            && text.bytes().all(fits)
            && !text.starts_with('.');
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidName {
                text: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        let longest = "x".repeat(Name::MAX_LEN);
        for text in ["clamp", "a-1_b.2", &longest] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "ä",
            &format!("{longest}x"),
        ] {
            text.parse::<Name>().unwrap_err();
        }
    }
}
