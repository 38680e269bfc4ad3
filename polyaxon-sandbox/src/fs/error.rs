//! What can go wrong with files beyond a call that fails.

use std::io;
use std::path::Path;

use polyaxon_client::Effect;

use super::entry::FileType;
use crate::error::Error;

/// Why work on files came to nothing, where the reason is no failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// What should be a regular file is something else.
    #[error("{path} is {}, not a regular file", kind(.file_type))]
    #[non_exhaustive]
    NotRegular {
        /// The path.
        path: String,
        /// What is there.
        file_type: FileType,
    },
    /// What should be a directory is something else.
    #[error("{path} is {}, not a directory", kind(.file_type))]
    #[non_exhaustive]
    NotDirectory {
        /// The path.
        path: String,
        /// What is there.
        file_type: FileType,
    },
    /// There is something already, and it was not to be replaced.
    #[error("{path} is there already")]
    #[non_exhaustive]
    Exists {
        /// The path.
        path: String,
    },
    /// A file was written to while it was read. What was read was thrown away.
    #[error("{path} changed while it was read")]
    #[non_exhaustive]
    Changed {
        /// The path.
        path: String,
    },
    /// A file has not the size that it must have.
    #[error("{path} has {found} bytes, not {expected}")]
    #[non_exhaustive]
    Size {
        /// The path.
        path: String,
        /// What it should have.
        expected: u64,
        /// What it has.
        found: u64,
    },
    /// The bytes of a file in the sandbox are not those that were sent or received.
    #[error("the SHA-256 of {path} is {found}, not {expected}")]
    #[non_exhaustive]
    Digest {
        /// The path in the sandbox.
        path: String,
        /// What was computed here.
        expected: String,
        /// What the sandbox says.
        found: String,
    },
    /// A program of the sandbox that we used failed.
    #[error("`{command}` failed in the sandbox: {problem}")]
    #[non_exhaustive]
    Command {
        /// The program.
        command: &'static str,
        /// How it ended, or what it said.
        problem: String,
    },
    /// A program that we needed is not in the sandbox.
    #[error("there is no `{command}` in the sandbox")]
    #[non_exhaustive]
    NoCommand {
        /// The program.
        command: &'static str,
    },
    /// A directory holds more than one listing can, and nothing on the wire gives the rest.
    #[error("{path} holds more than the {shown} entries that one listing gives")]
    #[non_exhaustive]
    Truncated {
        /// The directory.
        path: String,
        /// How many entries were given.
        shown: usize,
    },
    /// An archive of the sandbox holds what must not be unpacked here. Nothing of it was kept.
    #[error("the archive cannot be unpacked: {name:?} {problem}")]
    #[non_exhaustive]
    Archive {
        /// The member.
        name: String,
        /// What is wrong with it, in a half sentence.
        problem: String,
    },
    /// An upload did not come to its end. What was at the path before is there as it was.
    #[error("the upload to {path} did not come to its end{}", remains(.left.as_deref()))]
    #[non_exhaustive]
    Upload {
        /// Where it was to be.
        path: String,
        /// A file of ours that was left in the sandbox.
        left: Option<String>,
        /// What stopped it.
        source: Box<Error>,
    },
}

impl FileError {
    /// What the service can have done.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            // A file that somebody else writes to, or that was cut: who knows by whom.
            Self::Size { .. } => Effect::Unknown,
            // It can have unpacked a part.
            Self::Command { command: "tar", .. } => Effect::Unknown,
            _ => Effect::NotApplied,
        }
    }
}

/// A file of this machine that cannot be used; nothing in the sandbox has changed by it.
pub(super) fn local(action: &str, path: &Path, source: io::Error) -> Error {
    Error::Local {
        doing: format!("cannot {action} {}", path.display()),
        effect: Effect::NotApplied,
        source,
    }
}

/// A file type in words.
fn kind(file_type: &FileType) -> &str {
    match file_type {
        FileType::File => "a regular file",
        FileType::Dir => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Special => "a FIFO, a socket or a device",
        FileType::Other(other) => other,
    }
}

fn remains(path: Option<&str>) -> String {
    path.map(|path| format!("; {path} is left in the sandbox"))
        .unwrap_or_default()
}
