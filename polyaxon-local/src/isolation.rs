//! How far commands are kept away from the rest of the machine.

use std::fmt;

/// What a server does about the isolation of its sandboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// As much as this machine allows; the [report](crate::Report) says how much that is.
    #[default]
    Auto,
    /// At least this much: otherwise the server does not start.
    Require(IsolationLevel),
    /// No pod, whatever the machine allows: paths of the file API are mapped below the folder of a
    /// sandbox, and commands see the machine as the server does.
    None,
}

/// How much isolation there has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// A pod for each sandbox: its own files, processes and users, by kernel namespaces.
    Pod,
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "pod",
        })
    }
}
