//! Why a server does not start or stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use polyaxon_client::InvalidInput;

use crate::isolation::IsolationLevel;

/// Why a server could not be started or stopped as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value given to the builder cannot be used.
    #[error("the server cannot be set up")]
    Config(#[source] InvalidInput),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    #[non_exhaustive]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for the sandboxes cannot be used.
    #[error("cannot make a folder for sandboxes in {}", root.display())]
    #[non_exhaustive]
    Root {
        /// The folder that was asked for.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for the records and logs of execs cannot be used: it cannot be made or read,
    /// belongs to another user, or another service uses it.
    #[error("cannot keep the records of execs in {}", folder.display())]
    #[non_exhaustive]
    State {
        /// The folder that was asked for.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The thread or the runtime of the server cannot be made.
    #[error("cannot start the server's own threads")]
    Runtime(#[source] io::Error),
    /// This machine does not allow the isolation that was required.
    #[error("isolation by a {level} is required, and this machine does not allow it: {why}")]
    #[non_exhaustive]
    Isolation {
        /// What was required.
        level: IsolationLevel,
        /// What the system did not allow.
        why: String,
    },
    /// The server did not end within its grace time, or its folder could not be removed.
    #[error("the server did not stop cleanly: {left}")]
    #[non_exhaustive]
    Stop {
        /// What is left behind.
        left: String,
    },
}

const _: () = {
    const fn sync<T: Send + Sync>() {}
    sync::<Error>();
};
