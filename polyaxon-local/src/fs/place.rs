//! Where the paths of a sandbox lead: below one folder, or anywhere.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilderExt as _, Metadata, OpenOptions};

/// The place that paths are relative to. They come without a leading slash, `.` for the place.
#[derive(Debug)]
pub(crate) enum Place {
    /// A folder that no path leads out of. The kernel sees to it, whatever `..` and links say
    /// (`openat2` with `RESOLVE_BENEATH`, through cap-std); where it cannot, cap-std walks the path
    /// by hand.
    Beneath(Dir),
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
            Self::Everything => Dir::open_ambient_dir(absolute(path), ambient_authority()),
        }
    }

    pub(crate) fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<File> {
        let file = match self {
            Self::Beneath(dir) => dir.open_with(path, options),
            Self::Everything => {
                let path = absolute(path);
                cap_std::fs::File::open_ambient_with(path, options, ambient_authority())
            }
        };
        file.map(cap_std::fs::File::into_std)
    }

    /// Opens a directory or a file, to look at it or to change its mode.
    pub(crate) fn open_any(&self, path: &Path) -> io::Result<File> {
        self.open(path, OpenOptions::new().read(true))
    }

    /// The directory at `path` as a path of this machine, links resolved. `root` is the folder.
    pub(crate) fn host_dir(&self, root: &Path, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Beneath(dir) => {
                let resolved = dir.canonicalize(path)?;
                dir.open_dir(&resolved)?;
                Ok(root.join(resolved))
            }
            Self::Everything => {
                let resolved = absolute(path).canonicalize()?;
                match fs::metadata(&resolved)?.is_dir() {
                    true => Ok(resolved),
                    false => Err(io::ErrorKind::NotADirectory.into()),
                }
            }
        }
    }

    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Beneath(dir) => dir.metadata(path),
            Self::Everything => fs::metadata(absolute(path)).map(Metadata::from_just_metadata),
        }
    }

    pub(crate) fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Beneath(dir) => dir.symlink_metadata(path),
            Self::Everything => {
                fs::symlink_metadata(absolute(path)).map(Metadata::from_just_metadata)
            }
        }
    }

    pub(crate) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Beneath(dir) => dir.read_link_contents(path),
            Self::Everything => fs::read_link(absolute(path)),
        }
    }

    /// Makes a directory for its owner only.
    pub(crate) fn create_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => {
                let mut private = cap_std::fs::DirBuilder::new();
                private.mode(0o700);
                dir.create_dir_with(path, &private)
            }
            Self::Everything => DirBuilder::new().mode(0o700).create(absolute(path)),
        }
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_file(path),
            Self::Everything => fs::remove_file(absolute(path)),
        }
    }

    pub(crate) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_dir(path),
            Self::Everything => fs::remove_dir(absolute(path)),
        }
    }

    pub(crate) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Beneath(dir) => dir.remove_dir_all(path),
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
        let dir = Place::Everything.host_dir(Path::new("/"), everywhere.parent().unwrap());
        assert_eq!(dir.unwrap(), outside.path().canonicalize().unwrap());
    }
}
