//! Signals by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A signal, named as POSIX names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the signals' own names")]
pub enum Signal {
    #[serde(rename = "SIGHUP")]
    Hup,
    #[serde(rename = "SIGINT")]
    Int,
    #[serde(rename = "SIGQUIT")]
    Quit,
    #[serde(rename = "SIGKILL")]
    Kill,
    #[serde(rename = "SIGUSR1")]
    Usr1,
    #[serde(rename = "SIGUSR2")]
    Usr2,
    #[serde(rename = "SIGTERM")]
    Term,
    /// Any other: `SIGSEGV`, or `SIG(34)` where it has no name.
    #[serde(untagged)]
    Other(String),
}

impl Signal {
    /// The name on the wire: `SIGKILL`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Kill => "SIGKILL",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Term => "SIGTERM",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for Signal {
    fn from(name: &str) -> Self {
        match name {
            "SIGHUP" => Self::Hup,
            "SIGINT" => Self::Int,
            "SIGQUIT" => Self::Quit,
            "SIGKILL" => Self::Kill,
            "SIGUSR1" => Self::Usr1,
            "SIGUSR2" => Self::Usr2,
            "SIGTERM" => Self::Term,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_one_name_everywhere() {
        for name in [
            "SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGSEGV",
            "SIG(34)",
        ] {
            let signal = Signal::from(name);
            assert_eq!(signal.to_string(), name);
            assert_eq!(serde_json::to_value(&signal).unwrap(), name);
            assert_eq!(
                serde_json::from_value::<Signal>(name.into()).unwrap(),
                signal
            );
        }
    }
}
