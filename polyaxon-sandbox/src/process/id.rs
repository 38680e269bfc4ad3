//! The name of an exec.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of an exec, given by the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecId(String);

impl ExecId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ExecId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&str> for ExecId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
