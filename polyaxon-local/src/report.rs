//! What keeps the commands of a sandbox away from the rest of the machine, and what does not.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

/// The isolation of a server, layer by layer.
///
/// It is a development double of a cluster sandbox, not a boundary against hostile code: commands
/// run as the user of the server, on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The layers, from the plainest on.
    pub layers: Vec<Layer>,
}

/// One layer of isolation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Layer {
    /// Its number in the design.
    pub number: u8,
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub state: LayerState,
    /// What it protects from, or why it is not there.
    pub protects: String,
    /// What it does not protect from.
    pub leaves_open: String,
}

/// Whether a layer of isolation is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayerState {
    /// All of it.
    Applied,
    /// Some of it.
    Partial,
    /// Nothing of it.
    Unavailable,
}

impl fmt::Display for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "applied",
            Self::Partial => "partial",
            Self::Unavailable => "unavailable",
        })
    }
}

impl Report {
    /// What a server on this machine could offer, without starting one.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::new(None)
    }

    pub(crate) fn new(address: Option<SocketAddr>) -> Self {
        let reach = match address.map(|address| address.ip().is_loopback()) {
            None => "it listens on loopback only unless told otherwise",
            Some(true) => "it listens on loopback only",
            Some(false) => "IT LISTENS BEYOND LOOPBACK: whoever has the token runs commands here",
        };
        let base = Layer {
            number: 0,
            name: "private folder, scrubbed environment, output caps, group kill, token",
            state: LayerState::Partial,
            protects: format!(
                "the file API reaches nothing outside the folder of its sandbox, by `..` or by \
                 links; other users cannot read the folder; commands get none of the server's \
                 environment but PATH; a timeout, a stop and the end of the server kill the \
                 process group of a command; every call needs a token; {reach}"
            ),
            leaves_open: "commands themselves run as the server's user and can read and write all \
                          that this user can, use the network, and leave a process behind by \
                          `setsid`, or any if the server itself is killed by SIGKILL; absolute \
                          paths in commands are those of this machine, not of the sandbox; no \
                          rlimits and no `no_new_privs` yet"
                .to_owned(),
        };
        let later = [
            (1, "pod: namespaces of its own"),
            (2, "Landlock"),
            (3, "dropped capabilities, throwaway user"),
            (4, "seccomp"),
            (5, "cgroup limits"),
        ];
        let mut layers = vec![base];
        layers.extend(later.map(|(number, name)| Layer {
            number,
            name,
            state: LayerState::Unavailable,
            protects: "not built yet".to_owned(),
            leaves_open: String::new(),
        }));
        Self { layers }
    }
}

impl fmt::Display for Report {
    /// One line or two for each layer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("isolation: a development double, no boundary against hostile code")?;
        for layer in &self.layers {
            let Layer {
                number,
                name,
                state,
                protects,
                leaves_open,
            } = layer;
            write!(f, "\n  layer {number}, {name}: {state}")?;
            match state {
                LayerState::Unavailable => write!(f, ": {protects}")?,
                LayerState::Applied | LayerState::Partial => {
                    write!(f, "\n    protects: {protects}\n    does not: {leaves_open}")?;
                }
            }
        }
        Ok(())
    }
}
