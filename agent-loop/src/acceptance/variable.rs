//! Names of variables that a command takes over from the place that it runs in.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a variable: a letter or `_`, then letters, digits and `_`. A shell reads it as such
/// and as nothing else, so it can stand in a script.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct VariableName(String);

/// A name that no variable can have that is taken over by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be inherited: a name has letters, digits and `_`, and no digit first")]
#[non_exhaustive]
pub struct InvalidVariable {
    /// The name.
    pub name: String,
}

impl VariableName {
    /// Where a place has its Rust toolchain, as rustup and the image `rust` do.
    pub(super) fn of_cargo() -> BTreeSet<Self> {
        let names = ["PATH", "RUSTUP_HOME", "CARGO_HOME"];
        names.map(|name| Self(name.to_owned())).into()
    }

    /// All of them, or the first that is none.
    pub(super) fn all<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
    ) -> Result<BTreeSet<Self>, InvalidVariable> {
        let names = names.into_iter().map(|name| Self::try_from(name.into()));
        names.collect()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = InvalidVariable;

    fn try_from(name: String) -> Result<Self, InvalidVariable> {
        let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        let follows = |byte: &u8| letter(byte) || byte.is_ascii_digit();
        let bytes = name.as_bytes();
        match bytes.first().is_some_and(letter) && bytes.iter().all(follows) {
            true => Ok(Self(name)),
            false => Err(InvalidVariable { name }),
        }
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_nothing_that_a_shell_would_read_otherwise() {
        for name in ["PATH", "_", "a1", "CARGO_HOME"] {
            let read: VariableName = serde_json::from_value(name.into()).unwrap();
            assert_eq!(read.as_str(), name);
            assert_eq!(serde_json::to_value(&read).unwrap(), name);
        }
        for name in ["", "1a", "A-B", "A B", "A=B", "A\n", "ä", "A}$(id)", "@"] {
            let error = VariableName::try_from(name.to_owned()).unwrap_err();
            assert_eq!(error.name, name);
            let error = serde_json::from_value::<VariableName>(name.into()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "{name:?} cannot be inherited: a name has letters, digits and `_`, and no \
                     digit first"
                )
            );
        }
    }
}
