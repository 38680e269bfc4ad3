//! Paths: cleaned ones never climb, and none leads out of the folder of a sandbox, through
//! whatever links lie there.

#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyaxon_local::fuzzing::{Folder, clean};
use tempfile::TempDir;

const SECRET: &[u8] = b"outside";

struct Place {
    folder: Folder,
    root: PathBuf,
    outside: PathBuf,
    _both: TempDir,
}

/// A folder with links of every kind, beside a file that none of them may reach.
static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let both = tempfile::tempdir().unwrap();
    let (root, outside) = (both.path().join("root"), both.path().join("outside"));
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("s"), SECRET).unwrap();
    let links = [
        ("a/u", "..".into()),
        ("a/b/t", "../../..".into()),
        ("o", outside.clone()),
        ("p", "../outside".into()),
        ("q", "/".into()),
        ("l", "l".into()),
        ("d", "/no/where".into()),
        ("f", outside.join("s")),
        ("n", outside.join("new")),
    ];
    for (name, target) in links {
        symlink::<PathBuf, _>(target, root.join(name)).unwrap();
    }
    Place {
        folder: Folder::open(&root).unwrap(),
        root: root.canonicalize().unwrap(),
        outside,
        _both: both,
    }
});

fuzz_target!(|path: &str| {
    let Some(cleaned) = clean(path) else { return };
    assert!(cleaned.starts_with('/') && !cleaned.contains("//"));
    assert!(cleaned == "/" || !cleaned.ends_with('/'));
    assert!(cleaned.split('/').all(|part| part != "." && part != ".."));
    assert_eq!(clean(&cleaned).as_ref(), Some(&cleaned));
    let place = &*PLACE;
    if let Some(workdir) = place.folder.workdir(path) {
        assert!(workdir.starts_with(&place.root), "{}", workdir.display());
        assert!(workdir.canonicalize().unwrap().starts_with(&place.root));
    }
    let content = place.folder.read(path);
    assert_ne!(content.as_deref(), Some(SECRET));
    // The links stay, so that later inputs meet them.
    let at = fs::symlink_metadata(place.root.join(&cleaned[1..]));
    let is_link = at.is_ok_and(|at| at.is_symlink());
    if place.folder.write(path, b"x") && !is_link {
        assert_eq!(place.folder.read(path).as_deref(), Some(&b"x"[..]));
        assert!(place.folder.remove(path));
    }
    let outside: Vec<_> = fs::read_dir(&place.outside).unwrap().collect();
    assert_eq!(outside.len(), 1, "something was made outside");
    assert_eq!(fs::read(place.outside.join("s")).unwrap(), SECRET);
});
