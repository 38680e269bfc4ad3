//! Files inside a pod, as its commands see them: every path is resolved from the root of the pod,
//! through the same mounts, with links that lead where they lead a command.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};
use rustix::fs::{AtFlags, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, mkdirat, readlinkat, unlinkat};
use rustix::io::Errno;

use crate::pod::Pod;

/// Files of `/proc` that nobody reads through the file API: between its fork and its program, a
/// process still holds what the server has in memory.
const SECRET: [&str; 3] = ["environ", "mem", "auxv"];

#[derive(Debug)]
pub(crate) struct Inside(Arc<Pod>);

impl Inside {
    pub(crate) fn new(pod: Arc<Pod>) -> Self {
        Self(pod)
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        self.0.open(&seen(path), flags, Mode::empty())
    }

    /// Opens the file at `path`; a new one gets the permissions `mode`.
    pub(super) fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let file = File::from(self.0.open(&seen(path), flags, mode)?);
        if fstatfs(&file)?.f_type == PROC_SUPER_MAGIC && is_secret(&file) {
            return Err(Errno::ACCESS.into());
        }
        Ok(file)
    }

    pub(super) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        let dir = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Dir::from_std_file(dir.into()))
    }

    /// The directory at `path`, for a child to start in.
    pub(super) fn start_dir(&self, path: &Path) -> io::Result<OwnedFd> {
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    pub(super) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = File::from(self.resolve(path, OFlags::PATH)?);
        Ok(Metadata::from_just_metadata(found.metadata()?))
    }

    pub(super) fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = File::from(self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW)?);
        Ok(Metadata::from_just_metadata(found.metadata()?))
    }

    pub(super) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let link = self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let text = readlinkat(&link, "", Vec::new())?;
        Ok(std::ffi::OsString::from_vec(text.into_bytes()).into())
    }

    pub(super) fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        let (parent, name) = self.parent(path, OFlags::PATH)?;
        Ok(mkdirat(parent, name, mode)?)
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, OFlags::PATH)?;
        Ok(unlinkat(parent, name, AtFlags::empty())?)
    }

    pub(super) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, OFlags::PATH)?;
        Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, OFlags::RDONLY)?;
        Dir::from_std_file(parent.into()).remove_dir_all(name)
    }

    /// The directory that `path` is in, links resolved, and its name there.
    fn parent<'a>(&self, path: &'a Path, flags: OFlags) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or(Errno::BUSY)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let parent = self.resolve(parent, flags | OFlags::DIRECTORY)?;
        Ok((parent, name))
    }
}

/// The path from the root of the pod. The process that `/proc/self` means for the file API is the
/// first one of the pod; the server itself is not there.
fn seen(path: &Path) -> PathBuf {
    match path.strip_prefix("proc/self") {
        Ok(rest) if !rest.as_os_str().is_empty() => Path::new("proc/1").join(rest),
        _ if path.as_os_str().is_empty() => ".".into(),
        _ => path.to_owned(),
    }
}

fn is_secret(file: &File) -> bool {
    use std::os::fd::AsRawFd as _;
    let text = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    text.map_or(true, |path| {
        SECRET
            .iter()
            .any(|name| path.file_name() == Some(OsStr::new(name)))
    })
}
