//! What differs between systems: modes, links, names that are no text.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::unpack::Attributes;
use crate::path::FileMode;

/// A new directory for its owner only.
pub(super) fn make_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A new file for its owner only, where nothing is.
pub(super) fn new_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Gives a file its mode and its time of change.
pub(super) fn dress(file: &File, attributes: Attributes) -> io::Result<()> {
    set_mode(file, attributes.mode)?;
    match attributes.modified {
        Some(time) => file.set_modified(time),
        None => Ok(()),
    }
}

/// The permission bits of a file of this machine.
#[cfg(unix)]
pub(super) fn mode_of(metadata: &std::fs::Metadata) -> FileMode {
    use std::os::unix::fs::PermissionsExt as _;
    FileMode::from_st_mode(metadata.permissions().mode())
}

/// The permission bits of a file of this machine.
#[cfg(not(unix))]
pub(super) fn mode_of(metadata: &std::fs::Metadata) -> FileMode {
    match metadata.is_dir() {
        true => FileMode::DIR,
        false => FileMode::FILE,
    }
}

/// Sets the permission bits, where the system has such.
#[cfg(unix)]
pub(super) fn set_mode(file: &File, mode: FileMode) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode.bits()))
}

/// Sets the permission bits, where the system has such.
#[cfg(not(unix))]
pub(super) fn set_mode(_file: &File, _mode: FileMode) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn symlink(text: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(text, path)
}

#[cfg(not(unix))]
pub(super) fn symlink(_text: &Path, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A name of the sandbox as one of this machine, if it can be one.
#[cfg(unix)]
pub(super) fn name(bytes: &[u8]) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(std::ffi::OsStr::from_bytes(bytes).to_owned())
}

/// A name of the sandbox as one of this machine, if it can be one.
#[cfg(not(unix))]
pub(super) fn name(bytes: &[u8]) -> Option<OsString> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains(['\\', ':'])).then(|| text.into())
}

/// Opens a directory to give it its mode and its time of change.
pub(super) fn dress_dir(path: &Path, attributes: Attributes) -> io::Result<()> {
    match cfg!(unix) {
        true => dress(&File::open(path)?, attributes),
        false => Ok(()),
    }
}
