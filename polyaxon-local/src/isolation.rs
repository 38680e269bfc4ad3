//! How far commands are kept away from the rest of the machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::pod::{self, Pod};
use crate::rustup;

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

/// What was found to be possible, and is done.
#[derive(Clone, Debug)]
pub(crate) enum Confinement {
    /// A pod for each sandbox, which shows these folders beside the system's.
    Pods(Arc<[PathBuf]>),
    /// Paths are mapped. Why.
    Mapping(String),
}

impl Confinement {
    /// Tries a pod in `folder`, unless none is wanted.
    ///
    /// # Errors
    /// [`Error::Isolation`] where it is required and not possible.
    pub(crate) fn find(
        isolation: Isolation,
        folder: &Path,
        shown: &[PathBuf],
    ) -> Result<Self, Error> {
        if isolation == Isolation::None {
            return Ok(Self::Mapping("none was wanted".to_owned()));
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = pod::visible(&search, rustup::home(&search).as_deref());
        folders.extend(shown.iter().filter(|folder| folder.is_absolute()).cloned());
        match (Pod::probe(folder, &folders), isolation) {
            (Ok(()), _) => Ok(Self::Pods(folders.into())),
            (Err(why), Isolation::Require(level)) => Err(Error::Isolation {
                level,
                why: why.to_string(),
            }),
            (Err(why), _) => Ok(Self::Mapping(why.to_string())),
        }
    }

    pub(crate) fn shown(&self) -> Option<Arc<[PathBuf]>> {
        match self {
            Self::Pods(shown) => Some(Arc::clone(shown)),
            Self::Mapping(_) => None,
        }
    }
}
