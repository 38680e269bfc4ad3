//! The folders of sandboxes: made private, removed whole.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::blocking::blocking;

/// Makes `path`, for its owner only.
pub(crate) async fn create(path: PathBuf) -> io::Result<()> {
    blocking(move || fs::DirBuilder::new().mode(0o700).create(path)).await
}

/// Removes `path` with all that is in it.
pub(crate) async fn remove(path: PathBuf) -> io::Result<()> {
    blocking(move || remove_now(&path)).await
}

/// Removes `path` with all that is in it, directories included that their owner made unreadable.
/// Links are removed, never followed. A folder that is gone already is fine.
pub(crate) fn remove_now(path: &Path) -> io::Result<()> {
    for _ in 0..3 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => open_up(path),
            // A process that was just killed can still have added something.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            done => return done,
        }
    }
    fs::remove_dir_all(path)
}

/// Gives the owner back what a directory needs to be emptied, as far as that goes: what stays
/// closed shows when it is removed.
fn open_up(path: &Path) {
    let mut pending = vec![path.to_owned()];
    while let Some(dir) = pending.pop() {
        let _closed = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        // The type of an entry is that of a link itself, so no link is followed.
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        pending.extend(dirs.map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_closed_directories_and_without_what_its_links_point_to() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/c"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.join("a/out")).unwrap();
        fs::set_permissions(folder.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        open_up(&folder);
        assert_eq!(
            fs::metadata(folder.join("a/b"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        remove_now(&folder).unwrap();
        assert!(!folder.exists());
        assert!(outside.path().join("kept").exists());
        remove_now(&folder).unwrap();
    }
}
