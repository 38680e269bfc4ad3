//! Where the paths of a sandbox lead: below one folder, inside a pod, or anywhere.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilderExt as _, Metadata, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Mode, OFlags};

use super::inside::Inside;

/// What a file and a directory are made with: for their owner only, until the mode is set that was
/// asked for.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// The place that paths are relative to. They come without a leading slash, `.` for the place.
#[derive(Debug)]
pub(crate) enum Place {
    /// A folder that no path leads out of. The kernel sees to it, whatever `..` and links say
    /// (`openat2` with `RESOLVE_BENEATH`, through cap-std); where it cannot, cap-std walks the path
    /// by hand.
    Beneath(Dir),
    /// The root of a pod.
    Inside(Inside),
    /// The root of the file system that the service itself sees. Links lead where they lead.
    Everything,
}

impl Place {
    pub(crate) fn beneath(folder: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(folder, ambient_authority()).map(Self::Beneath)
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        match self {
            Self::Beneath(dir) => dir.open_dir(path),
            Self::Inside(pod) => pod.open_dir(path),
            Self::Everything => Dir::open_ambient_dir(absolute(path), ambient_authority()),
        }
    }

    /// Opens what is at `path`, or makes a file for its owner only where `flags` say so.
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        match self {
            Self::Beneath(dir) => {
                let has = |flag| flags.contains(flag);
                let mut options = OpenOptions::new();
                let read = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
                options.read(read).write(has(OFlags::WRONLY));
                options.append(has(OFlags::APPEND));
                options.create(has(OFlags::CREATE));
                options.create_new(has(OFlags::CREATE | OFlags::EXCL));
                let more = flags & (OFlags::NONBLOCK | OFlags::NOCTTY);
                options.mode(PRIVATE_FILE);
                options.custom_flags(more.bits().cast_signed());
                Ok(dir.open_with(path, &options)?.into_std())
            }
            Self::Inside(pod) => pod.open(path, flags, Mode::from_raw_mode(PRIVATE_FILE)),
            Self::Everything => {
                let mode = Mode::from_raw_mode(PRIVATE_FILE);
                let flags = flags | OFlags::CLOEXEC;
                Ok(rustix::fs::open(absolute(path), flags, mode)?.into())
            }
        }
    }

    /// Opens a directory or a file, to look at it or to change its mode.
    pub(crate) fn open_any(&self, path: &Path) -> io::Result<File> {
        self.open(path, OFlags::RDONLY)
    }

    /// The directory at `path`, for a child to start in.
    pub(crate) fn start_dir(&self, path: &Path) -> io::Result<OwnedFd> {
        match self {
            Self::Beneath(dir) => Ok(dir.open_dir(path)?.into_std_file().into()),
            Self::Inside(pod) => pod.start_dir(path),
            Self::Everything => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                Ok(rustix::fs::open(absolute(path), flags, Mode::empty())?)
            }
        }
    }

    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Beneath(dir) => dir.metadata(path),
            Self::Inside(pod) => pod.metadata(path),
            Self::Everything => fs::metadata(absolute(path)).map(Metadata::from_just_metadata),
        }
    }

    pub(crate) fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Beneath(dir) => dir.symlink_metadata(path),
            Self::Inside(pod) => pod.symlink_metadata(path),
            Self::Everything => {
                fs::symlink_metadata(absolute(path)).map(Metadata::from_just_metadata)
            }
        }
    }

    pub(crate) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Beneath(dir) => dir.read_link_contents(path),
            Self::Inside(pod) => pod.read_link(path),
            Self::Everything => fs::read_link(absolute(path)),
        }
    }

    /// Makes a directory for its owner only.
    pub(crate) fn create_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => {
                let mut private = cap_std::fs::DirBuilder::new();
                private.mode(PRIVATE_DIR);
                dir.create_dir_with(path, &private)
            }
            Self::Inside(pod) => pod.create_dir(path, Mode::from_raw_mode(PRIVATE_DIR)),
            Self::Everything => DirBuilder::new().mode(PRIVATE_DIR).create(absolute(path)),
        }
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_file(path),
            Self::Inside(pod) => pod.remove_file(path),
            Self::Everything => fs::remove_file(absolute(path)),
        }
    }

    pub(crate) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_dir(path),
            Self::Inside(pod) => pod.remove_dir(path),
            Self::Everything => fs::remove_dir(absolute(path)),
        }
    }

    pub(crate) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_dir_all(path),
            Self::Inside(pod) => pod.remove_dir_all(path),
            Self::Everything => fs::remove_dir_all(absolute(path)),
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_out_of_the_folder_is_followed_everywhere_and_refused_beneath() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        symlink(outside.path(), folder.path().join("out")).unwrap();
        let through = Path::new("out/file");
        let beneath = Place::beneath(folder.path()).unwrap();
        let error = beneath.open_any(through).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let path = folder.path().join(through);
        let everywhere = path.strip_prefix("/").unwrap();
        assert_eq!(Place::Everything.metadata(everywhere).unwrap().len(), 1);
        Place::Everything.open_any(everywhere).unwrap();
        let dir = Place::Everything
            .start_dir(everywhere.parent().unwrap())
            .unwrap();
        let number = |file: &File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
        assert_eq!(
            number(&dir.into()),
            number(&File::open(outside.path()).unwrap())
        );
    }
}
