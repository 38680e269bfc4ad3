//! Paths and modes that the service takes: what cannot be sent cannot be built.

use std::fmt;
use std::str::FromStr;

use polyaxon_client::InvalidInput;
use serde::{Deserialize, Serialize};

/// An absolute path in a sandbox: begins with `/`, holds no NUL, at most 4096 bytes of UTF-8.
///
/// Nothing is trimmed or normalised: `/w/a b `, `/w/a%20b` and `/w/a+b` are three files. The
/// service itself removes `.`, `..` and double slashes.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::AbsPath;
///
/// let path: AbsPath = "/tmp/amounts.py".parse()?;
/// assert_eq!(path.as_str(), "/tmp/amounts.py");
/// let error = "tmp/amounts.py".parse::<AbsPath>().unwrap_err();
/// assert_eq!(error.to_string(), r#"path: "tmp/amounts.py" is not absolute"#);
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AbsPath(String);

impl AbsPath {
    /// The longest path the service takes, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// Where `name` is absolute or empty, or makes the path too long.
    pub fn join(&self, name: &str) -> Result<Self, InvalidInput> {
        if name.is_empty() || name.starts_with('/') {
            return Err(InvalidInput::new(
                "path",
                format!("{name:?} is not a relative path"),
            ));
        }
        let slash = if self.0.ends_with('/') { "" } else { "/" };
        Self::check("path", &format!("{}{slash}{name}", self.0))
    }

    /// The directory that it is in; of `/` itself.
    #[cfg(feature = "client")]
    pub(crate) fn parent(&self) -> Self {
        let path = self.0.trim_end_matches('/');
        match path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => Self(parent.to_owned()),
            _ => Self("/".to_owned()),
        }
    }

    /// Its last part; empty for `/`.
    #[cfg(feature = "client")]
    pub(crate) fn name(&self) -> &str {
        let path = self.0.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or_default()
    }

    /// As the service reads it: without `.`, `..` and double slashes, by the text alone.
    #[cfg(feature = "client")]
    pub(crate) fn cleaned(&self) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        for part in self.0.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Self(format!("/{}", parts.join("/")))
    }

    /// As a command that starts in `/` names it: with what begins like a flag kept from being one.
    #[cfg(feature = "client")]
    pub(crate) fn root_relative(&self) -> String {
        format!(".{}", self.cleaned().0)
    }

    /// A path that is named `field` in the error.
    pub(crate) fn check(field: &'static str, text: &str) -> Result<Self, InvalidInput> {
        let problem = if text.is_empty() {
            "is empty".to_owned()
        } else if text.len() > Self::MAX_BYTES {
            format!(
                "has {} bytes, at most {} are taken",
                text.len(),
                Self::MAX_BYTES
            )
        } else if text.contains('\0') {
            format!("{text:?} holds a NUL")
        } else if text.starts_with('/') {
            return Ok(Self(text.to_owned()));
        } else {
            format!("{text:?} is not absolute")
        };
        Err(InvalidInput::new(field, problem))
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AbsPath {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        Self::check("path", text)
    }
}

impl TryFrom<&str> for AbsPath {
    type Error = InvalidInput;

    fn try_from(text: &str) -> Result<Self, InvalidInput> {
        text.parse()
    }
}

impl TryFrom<String> for AbsPath {
    type Error = InvalidInput;

    fn try_from(text: String) -> Result<Self, InvalidInput> {
        text.parse()
    }
}

impl TryFrom<&String> for AbsPath {
    type Error = InvalidInput;

    fn try_from(text: &String) -> Result<Self, InvalidInput> {
        text.parse()
    }
}

impl From<&Self> for AbsPath {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

impl From<AbsPath> for String {
    fn from(path: AbsPath) -> Self {
        path.0
    }
}

/// Permission bits of a file: `0o000` to `0o777`. Octal text on the wire, `"0644"`.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::FileMode;
///
/// assert_eq!(FileMode::new(0o755)?.to_string(), "0755");
/// // Decimal 755 is not a mode, and is not taken for one.
/// assert!(FileMode::new(755).is_err());
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileMode(u32);

impl FileMode {
    /// `0644`: what a new file gets unless told otherwise.
    pub const FILE: Self = Self(0o644);
    /// `0755`: what a new directory gets unless told otherwise.
    pub const DIR: Self = Self(0o755);

    /// The mode with these permission bits.
    ///
    /// # Errors
    /// Where there are other bits than `0o777`.
    pub fn new(bits: u32) -> Result<Self, InvalidInput> {
        match bits & !0o777 {
            0 => Ok(Self(bits)),
            _ => Err(InvalidInput::new(
                "mode",
                format!("0o{bits:o} is above 0o777"),
            )),
        }
    }

    /// The permission bits of `bits`, which may hold a file type and more, as `stat` gives them.
    #[must_use]
    pub fn from_st_mode(bits: u32) -> Self {
        Self(bits & 0o777)
    }

    /// The permission bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl fmt::Debug for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileMode({self})")
    }
}

impl FromStr for FileMode {
    type Err = InvalidInput;

    /// Reads octal text, with or without a leading zero.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match u32::from_str_radix(text, 8) {
            Ok(bits) if digits => Self::new(bits),
            _ => Err(InvalidInput::new(
                "mode",
                format!("{text:?} is not an octal number"),
            )),
        }
    }
}

impl TryFrom<String> for FileMode {
    type Error = InvalidInput;

    fn try_from(text: String) -> Result<Self, InvalidInput> {
        text.parse()
    }
}

impl From<FileMode> for String {
    fn from(mode: FileMode) -> Self {
        mode.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_whole_and_untouched() {
        for good in [
            "/",
            "/a b ",
            "/a%20b",
            "/-rf",
            "/new\nline",
            "/é",
            "/a/../b",
        ] {
            assert_eq!(good.parse::<AbsPath>().unwrap().as_str(), good);
        }
        let long = format!("/{}", "a".repeat(AbsPath::MAX_BYTES));
        for bad in ["", "a", "./a", "/a\0b", long.as_str()] {
            assert_eq!(bad.parse::<AbsPath>().unwrap_err().field(), "path");
        }
    }

    #[test]
    fn a_name_is_joined_below_its_directory() {
        let dir: AbsPath = "/tmp".parse().unwrap();
        assert_eq!(dir.join("a/b").unwrap().as_str(), "/tmp/a/b");
        let root: AbsPath = "/".parse().unwrap();
        assert_eq!(root.join("a").unwrap().as_str(), "/a");
        dir.join("/etc/passwd").unwrap_err();
        dir.join("").unwrap_err();
    }

    #[cfg(feature = "client")]
    #[test]
    fn the_parts_of_a_path_are_those_of_the_service() {
        let table = [
            ("/", "/", "", "./"),
            ("/a", "/", "a", "./a"),
            ("/a/b/", "/a", "b", "./a/b"),
            ("//a/./b/../-c", "//a/./b/..", "-c", "./a/-c"),
            ("/../x", "/..", "x", "./x"),
        ];
        for (text, parent, name, root_relative) in table {
            let path: AbsPath = text.parse().unwrap();
            assert_eq!(path.parent().as_str(), parent, "{text}");
            assert_eq!(path.name(), name, "{text}");
            assert_eq!(path.root_relative(), root_relative, "{text}");
        }
    }

    #[test]
    fn a_mode_is_octal_text_of_four_digits() {
        for (text, bits) in [("0644", 0o644), ("644", 0o644), ("0", 0), ("0777", 0o777)] {
            assert_eq!(text.parse::<FileMode>().unwrap().bits(), bits);
        }
        for bad in ["", "0o644", "1777", "rw", "+644", "8"] {
            assert_eq!(bad.parse::<FileMode>().unwrap_err().field(), "mode");
        }
        assert_eq!(FileMode::from_st_mode(0o100_600).to_string(), "0600");
    }
}
