//! One sandbox's own view of this machine: a pod made of kernel namespaces.
//!
//! Its `/` is the folder of the sandbox, with the system folders of this machine mounted into it
//! read-only, an own `/proc`, a small `/dev`, and an own `/dev/shm`. Commands enter it; the file
//! API resolves every path from its root, so that both see the same.

mod plan;
mod visible;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};

pub(crate) use self::visible::visible;
use crate::sys::{self, Entry, Failure, Init};

/// How often a pod is looked at that is ending.
const GONE_CHECK: Duration = Duration::from_millis(1);

/// A pod that runs. It ends, with every process in it, when it is [closed](Self::close) or
/// dropped, and when this process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Pod {
    init: Mutex<Init>,
    entry: Arc<Entry>,
    root: OwnedFd,
}

impl Pod {
    /// Makes a pod whose `/` is `folder`, where the mount points are made. `visible` are folders
    /// of this machine that are there by the same path, read-only.
    ///
    /// # Errors
    /// What the system did not allow.
    pub(crate) fn start(folder: &Path, visible: &[PathBuf]) -> Result<Self, Failure> {
        let start = |ids: plan::Ids| {
            let plan = plan::plan(folder, visible, ids)
                .map_err(|error| Failure::new("the mount points of a pod", error))?;
            sys::start_pod(&plan)
        };
        // A user that may map all ids sees the files of others as what they are. Not every root may.
        let first = plan::Ids::all().map(start);
        let (init, entry, root) = match first {
            Some(Ok(made)) => made,
            Some(Err(_)) | None => start(plan::Ids::own())?,
        };
        Ok(Self {
            init: Mutex::new(init),
            entry: Arc::new(entry),
            root,
        })
    }

    /// Whether pods can be made on this machine, found out by making one below `folder`.
    ///
    /// # Errors
    /// What the system did not allow.
    pub(crate) fn probe(folder: &Path, visible: &[PathBuf]) -> Result<(), Failure> {
        let made = tempfile::Builder::new()
            .prefix("probe-")
            .tempdir_in(folder)
            .map_err(|error| Failure::new("a folder to try a pod in", error))?;
        Self::start(made.path(), visible).map(drop)
    }

    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(&self.entry)
    }

    /// Its root directory, to resolve paths from.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens what commands see at `path`. No link and no `..` leads out of the pod, and the links
    /// of `/proc` that are more than their text lead nowhere.
    pub(crate) fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> std::io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // A mode where nothing can be made is refused.
        let mode = match flags.contains(OFlags::CREATE) {
            true => mode,
            false => Mode::empty(),
        };
        loop {
            match openat2(&self.root, path, flags | OFlags::CLOEXEC, mode, resolve) {
                // Something was renamed meanwhile, so the kernel cannot be sure.
                Err(Errno::AGAIN) => {}
                opened => return Ok(opened?),
            }
        }
    }

    /// Kills every process of the pod and waits up to `limit` until it is gone. Whoever waits for
    /// its commands has to go on with that meanwhile: the kernel keeps it until they are reaped.
    pub(crate) async fn close(&self, limit: Duration) {
        let enough = Instant::now() + limit;
        self.init().kill();
        while matches!(self.init().reap(), Ok(false)) && Instant::now() < enough {
            sleep(GONE_CHECK).await;
        }
    }

    fn init(&self) -> std::sync::MutexGuard<'_, Init> {
        self.init.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What commands and files stand on.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// This machine, as the server sees it.
    Machine,
    /// A pod of their own.
    Pod(Arc<Pod>),
}

impl Ground {
    pub(crate) fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Machine => None,
            Self::Pod(pod) => Some(pod),
        }
    }

    /// The type and the mode of what is at `path`, an absolute one, links followed.
    pub(crate) fn mode_of(&self, path: &Path) -> std::io::Result<u32> {
        match self {
            Self::Machine => Ok(std::fs::metadata(path)?.mode()),
            Self::Pod(pod) => {
                let file = pod.open(path, OFlags::PATH, Mode::empty())?;
                Ok(rustix::fs::fstat(file)?.st_mode)
            }
        }
    }
}
