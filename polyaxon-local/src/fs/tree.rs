//! The files of a sandbox, and what may be done with them.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};
use polyaxon_sandbox::FileMode;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::inside::Inside;
use super::place::Place;
use crate::pod::Pod;

/// The home of a sandbox, below its root.
pub(crate) const HOME: &str = "home";
/// Its folder for temporary files.
pub(crate) const TMP: &str = "tmp";
/// The folder that agents work in.
const WORKSPACE: &str = "workspace";

/// A page of a file.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    pub(crate) eof: bool,
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// Where commands start that name no directory: relative to the place.
    start: PathBuf,
    place: Place,
}

impl Tree {
    /// Takes `root`, which exists, and makes the folders that every sandbox has.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let place = Place::beneath(root)?;
        for (folder, mode) in [(HOME, 0o755), (WORKSPACE, 0o755), (TMP, 0o1777)] {
            let folder = Path::new(folder);
            place.create_dir(folder)?;
            chmod(&place.open_any(folder)?, mode)?;
        }
        Ok(Self {
            start: ".".into(),
            place,
        })
    }

    /// What is inside a pod; commands start in its root.
    pub(crate) fn inside(pod: Arc<Pod>) -> Self {
        Self {
            start: "".into(),
            place: Place::Inside(Inside::new(pod)),
        }
    }

    /// All files that the service itself sees, by the same paths; commands start in `workdir`.
    pub(crate) fn everything(workdir: &Path) -> Self {
        Self {
            start: workdir.to_owned(),
            place: Place::Everything,
        }
    }

    /// The directory at `path`.
    pub(crate) fn dir(&self, path: &str) -> io::Result<Dir> {
        self.place.open_dir(Path::new(path))
    }

    /// What is at `path`; a link is not followed.
    pub(crate) fn metadata(&self, path: &str) -> io::Result<Metadata> {
        self.place.symlink_metadata(Path::new(path))
    }

    /// The text of the link at `path`.
    pub(crate) fn link(&self, path: &str) -> io::Result<PathBuf> {
        self.place.read_link(Path::new(path))
    }

    /// The directory at `path`, or where commands start, for a child to start in.
    pub(crate) fn start_dir(&self, path: Option<&str>) -> io::Result<OwnedFd> {
        self.place.start_dir(path.map_or(&self.start, Path::new))
    }

    /// Reads up to `length` bytes from `offset`. The end is where reading ends, not where the
    /// size says: files of `/proc` have size 0 and content.
    pub(crate) fn read(&self, path: &str, offset: u64, length: usize) -> io::Result<Page> {
        let file = self.regular(path, OFlags::RDONLY)?;
        let size = file.metadata()?.len();
        let hint = usize::try_from(size.saturating_sub(offset)).unwrap_or(length);
        let mut bytes = vec![0; length.min(hint.max(4096))];
        let mut filled = read_at(&file, &mut bytes, offset)?;
        while filled == bytes.len() && filled < length {
            bytes.resize(length.min(filled * 2), 0);
            let rest = bytes.get_mut(filled..).unwrap_or_default();
            filled += read_at(&file, rest, offset + filled as u64)?;
        }
        bytes.truncate(filled);
        let eof = filled < length || read_at(&file, &mut [0], offset + filled as u64)? == 0;
        Ok(Page { bytes, eof })
    }

    /// Replaces the content of a file, or appends to it, and says whether the file is new. Only a
    /// new file gets `mode`, all of it, whatever the umask says. Links are followed.
    pub(crate) fn write(
        &self,
        path: &str,
        bytes: &[u8],
        mode: FileMode,
        create: bool,
        append: bool,
    ) -> io::Result<bool> {
        let mut flags = OFlags::WRONLY;
        flags.set(OFlags::APPEND, append);
        let (mut file, created) = match self.regular(path, flags) {
            Err(error) if error.kind() == ErrorKind::NotFound && create => {
                self.create(path, flags)?
            }
            opened => (opened?, false),
        };
        if created {
            chmod(&file, mode.bits())?;
        } else if !append {
            file.set_len(0)?;
        }
        file.write_all(bytes)?;
        Ok(created)
    }

    /// Makes the file that was not there a moment ago. It can be there now, or a link can stand at
    /// its place that leads to nothing: then the file is made where the link points.
    fn create(&self, path: &str, flags: OFlags) -> io::Result<(File, bool)> {
        let flags = flags | OFlags::CREATE;
        match self.regular(path, flags | OFlags::EXCL) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let link = self.metadata(path)?.is_symlink();
                Ok((self.regular(path, flags)?, link))
            }
            made => Ok((made?, true)),
        }
    }

    /// Opens a regular file without ever waiting: a FIFO would block for its other end, and an
    /// open device can have effects of its own.
    fn regular(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let never_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.place.open(Path::new(path), flags | never_wait)?;
        let kind = file.metadata()?.file_type();
        if kind.is_file() {
            Ok(file)
        } else if kind.is_dir() {
            Err(Errno::ISDIR.into())
        } else {
            Err(Errno::NXIO.into())
        }
    }

    /// Makes a directory with exactly `mode`; with `parents` what is missing above it too, and an
    /// existing directory is fine.
    pub(crate) fn mkdir(&self, path: &str, parents: bool, mode: FileMode) -> io::Result<()> {
        if !parents {
            self.make_dir(path)?;
            return chmod(&self.place.open_any(Path::new(path))?, mode.bits());
        }
        let mut made = Vec::new();
        let mut below = PathBuf::new();
        for part in Path::new(path) {
            below.push(part);
            match self.make_dir(&below) {
                Ok(()) => made.push(self.place.open_any(&below)?),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if !self.place.metadata(&below)?.is_dir() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // From below, so that a mode without search permission does not lock us out.
        made.iter()
            .rev()
            .try_for_each(|dir| chmod(dir, mode.bits()))
    }

    fn make_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        if path.as_ref() == Path::new(".") {
            return Err(Errno::EXIST.into());
        }
        self.place.create_dir(path.as_ref())
    }

    /// Removes what is at `path`; a link is removed, never followed. With `recursive` a directory
    /// goes with all that is in it, and nothing to remove is fine.
    pub(crate) fn remove(&self, path: &str, recursive: bool) -> io::Result<()> {
        let kind = match self.metadata(path) {
            Err(error) if recursive && error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?.file_type(),
        };
        let path = Path::new(path);
        match (kind.is_dir(), recursive) {
            (false, _) => self.place.remove_file(path),
            (true, false) => self.place.remove_dir(path),
            (true, true) => self.place.remove_dir_all(path),
        }
    }
}

/// Fills `buffer` from `offset` on, as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Sets exactly these bits on an open file; the umask has no say.
fn chmod(file: &File, bits: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree over a folder that is there already.
    fn over(root: &str) -> Tree {
        Tree {
            start: ".".into(),
            place: Place::beneath(Path::new(root)).unwrap(),
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_whose_size_says_nothing_is_read_to_its_end() {
        let status = over("/proc/self").read("status", 0, 1 << 20).unwrap();
        assert!(status.eof);
        let text = String::from_utf8(status.bytes).unwrap();
        assert!(text.contains("\nPid:\t"), "{text}");
        let uuid = over("/proc/sys/kernel/random")
            .read("uuid", 0, 100)
            .unwrap();
        assert_eq!((uuid.bytes.len(), uuid.eof), (37, true));
        // In pages, and each page says whether it was the last.
        let mut whole = Vec::new();
        let tree = over("/proc");
        loop {
            let page = tree.read("cpuinfo", whole.len() as u64, 100).unwrap();
            whole.extend(page.bytes);
            if page.eof {
                break;
            }
        }
        let at_once = std::fs::read("/proc/cpuinfo").unwrap();
        assert_eq!(
            whole.iter().filter(|b| **b == b'\n').count(),
            at_once.iter().filter(|b| **b == b'\n').count()
        );
    }

    #[test]
    fn a_device_is_not_opened_for_what_it_would_give() {
        let error = over("/dev").read("zero", 0, 10).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    }
}
