//! What keeps the commands of a sandbox away from the rest of the machine, and what does not.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use crate::isolation::{Confinement, Isolation};

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
    /// What a server on this machine could offer, found out without starting one: a pod is made
    /// in the folder for temporary files, and removed.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let confinement = Confinement::find(Isolation::Auto, &std::env::temp_dir(), &[]);
        let confinement =
            confinement.unwrap_or_else(|error| Confinement::Mapping(error.to_string()));
        Self::new(None, &confinement)
    }

    pub(crate) fn new(address: Option<SocketAddr>, confinement: &Confinement) -> Self {
        let reach = match address.map(|address| address.ip().is_loopback()) {
            None => "it listens on loopback only unless told otherwise",
            Some(true) => "it listens on loopback only",
            Some(false) => "IT LISTENS BEYOND LOOPBACK: whoever has the token runs commands here",
        };
        let later = [
            (2, "Landlock"),
            (3, "dropped capabilities, throwaway user"),
            (4, "seccomp"),
            (5, "cgroup limits"),
        ];
        let mut layers = vec![base(reach, confinement), pod(confinement)];
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

fn base(reach: &str, confinement: &Confinement) -> Layer {
    let (trees, left) = match confinement {
        Confinement::Pods(_) => (
            "a timeout, a stop and a caller that goes away kill every process that comes from a \
             command, wherever it went; the end of the server, SIGKILL included, kills every \
             process of its sandboxes",
            "a process that made itself unreadable or has namespaces of its own is found only \
             when its sandbox ends",
        ),
        Confinement::Mapping(_) => (
            "a timeout, a stop, a caller that goes away and the end of the server, SIGKILL \
             included, kill every process that comes from a command, by a supervisor that the \
             kernel gives its orphans to",
            "a command can kill its supervisor, and so leave processes behind: survivors are \
             possible",
        ),
    };
    Layer {
        number: 0,
        name: "private folder, scrubbed environment, no new privileges, rlimits, tree kill, token",
        state: LayerState::Applied,
        protects: format!(
            "other users cannot read the folder of a sandbox; the file API reaches nothing outside \
             of it, by `..` or by links; commands get none of the server's environment but PATH \
             and where its Rust toolchains are, none of its open files, no core dumps, and no \
             rights by a setuid program; {trees}; output that is kept is bounded; every call needs \
             a token; {reach}"
        ),
        leaves_open: format!(
            "commands run as the user of the server and use the network as it does; memory, \
             processor time and the number of processes are not bounded; {left}"
        ),
    }
}

fn pod(confinement: &Confinement) -> Layer {
    let name = "pod: namespaces of its own";
    match confinement {
        Confinement::Pods(_) => Layer {
            number: 1,
            name,
            state: LayerState::Applied,
            protects: "each sandbox has files, processes, shared memory and host name of its own: \
                       /tmp, /workspace, /home, /dev and /proc; it sees nothing of other sandboxes \
                       and of this machine but the system's folders and those that programs in \
                       PATH need, read-only; the file API sees the same as commands"
                .to_owned(),
            leaves_open: "the network, and services that listen on this machine, are those of the \
                          machine; what the server's user may read in the system's folders, \
                          commands may; faults of the kernel"
                .to_owned(),
        },
        Confinement::Mapping(why) => Layer {
            number: 1,
            name,
            state: LayerState::Unavailable,
            protects: format!(
                "{why}. Paths of the file API are mapped below the folder of a sandbox instead; \
                 absolute paths in commands are those of this machine, whose files and processes \
                 commands see and change as the server's user may"
            ),
            leaves_open: String::new(),
        },
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
