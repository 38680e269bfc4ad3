//! Paths inside a workspace.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A path inside a workspace: relative, with `/` between its components, and nothing to resolve.
///
/// There is one spelling of each path. What could mean another place, or the same place twice, is
/// refused and not mended: an absolute path, `..`, `.`, an empty component, a backslash, control
/// characters, NUL, more than 4,096 bytes.
///
/// # Examples
/// ```
/// use agent_loop::RelPath;
///
/// let path: RelPath = "src/amounts.py".parse()?;
/// assert_eq!(path.file_name(), "amounts.py");
/// assert!("../amounts.py".parse::<RelPath>().is_err());
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelPath(String);

/// A text that is no path inside a workspace, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path {} {problem}", shown(text))]
pub struct InvalidPath {
    text: String,
    problem: &'static str,
}

impl InvalidPath {
    /// What is wrong with it, as a half sentence.
    #[must_use]
    pub fn problem(&self) -> &'static str {
        self.problem
    }
}

/// The text as one short line: control characters escaped, the middle of long ones left out.
fn shown(text: &str) -> String {
    const ENDS: usize = 40;
    let escaped = format!("{text:?}");
    match escaped.chars().count() > 3 * ENDS {
        false => escaped,
        true => {
            let head: String = escaped.chars().take(ENDS).collect();
            format!("{head}…\" ({} bytes)", text.len())
        }
    }
}

impl RelPath {
    /// The length of the longest path, in bytes.
    pub const MAX_LEN: usize = 4096;

    /// Reads a path.
    ///
    /// # Errors
    /// Where `text` is not the one spelling of a path inside a workspace.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let problem = if text.is_empty() {
            Some("is empty")
        } else if text.len() > Self::MAX_LEN {
            Some("is longer than 4096 bytes")
        } else if text.starts_with('/') {
            Some("is absolute; paths are relative to the workspace")
        } else if text.chars().any(char::is_control) {
            Some("holds a control character")
        } else if text.contains('\\') {
            Some("holds a backslash; components are separated by `/`")
        } else {
            text.split('/').find_map(|component| match component {
                "" => Some("has an empty component"),
                "." => Some("has a component `.`"),
                ".." => Some("has a component `..`, which leads out of its folder"),
                _ => None,
            })
        };
        match problem {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(InvalidPath {
                text: text.to_owned(),
                problem,
            }),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its components, outermost first. There is at least one.
    #[must_use]
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Its last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.components().next_back().unwrap_or_default()
    }

    /// The folders it is in, outermost first, without the workspace itself.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.0
            .match_indices('/')
            .filter_map(|(at, _)| self.0.get(..at))
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RelPath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        Self::parse(text)
    }
}

impl TryFrom<String> for RelPath {
    type Error = InvalidPath;

    fn try_from(text: String) -> Result<Self, InvalidPath> {
        Self::parse(&text)
    }
}

impl TryFrom<&str> for RelPath {
    type Error = InvalidPath;

    fn try_from(text: &str) -> Result<Self, InvalidPath> {
        Self::parse(text)
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for text in [
            "amounts.py",
            "src/lib/a b.py",
            "...",
            "ä/…",
            ".git/config",
            "a..b",
        ] {
            assert_eq!(RelPath::parse(text).unwrap().as_str(), text);
        }
        let long = "a".repeat(5000);
        let table = [
            ("", "is empty"),
            (
                "/etc/passwd",
                "is absolute; paths are relative to the workspace",
            ),
            ("./amounts.py", "has a component `.`"),
            ("a//b", "has an empty component"),
            ("a/", "has an empty component"),
            ("..", "has a component `..`, which leads out of its folder"),
            (
                "link/../../etc/hostname",
                "has a component `..`, which leads out of its folder",
            ),
            ("amounts.py\0.txt", "holds a control character"),
            ("a\nb", "holds a control character"),
            ("a\\b", "holds a backslash; components are separated by `/`"),
            (&long, "is longer than 4096 bytes"),
        ];
        for (text, problem) in table {
            let error = RelPath::parse(text).unwrap_err();
            assert_eq!(error.problem(), problem, "{text}");
            assert!(error.to_string().len() < 200, "{error}");
        }
    }

    #[test]
    fn a_refusal_shows_what_cannot_be_seen() {
        let error = RelPath::parse("amounts.py\0.txt").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"the path "amounts.py\0.txt" holds a control character"#
        );
    }

    #[test]
    fn parents_come_outermost_first() {
        let path = RelPath::parse("a/b/c.py").unwrap();
        assert_eq!(path.parents().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(path.file_name(), "c.py");
        assert_eq!(RelPath::parse("c.py").unwrap().parents().count(), 0);
    }

    proptest! {
        #[test]
        fn joined_to_a_folder_it_stays_inside(text in "[a./\\\\\0-]{0,12}") {
            if let Ok(path) = RelPath::parse(&text) {
                let joined = std::path::Path::new("/w").join(path.as_str());
                let plain = joined.components().all(|part| !matches!(part, std::path::Component::ParentDir));
                prop_assert!(plain && joined.starts_with("/w"));
                let again: Vec<_> = path.components().collect();
                prop_assert_eq!(again.join("/"), text);
            }
        }
    }
}
