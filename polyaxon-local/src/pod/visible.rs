//! Which folders of this machine a pod shows beside the system's: what `PATH` needs.

use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::plan::SYSTEM;

/// What belongs to the programs of `bin` in a folder that has one.
const BESIDE_BIN: [&str; 5] = ["lib", "lib32", "lib64", "libexec", "include"];
/// Programs that are links into an installation somewhere else.
const INTERPRETERS: [&str; 2] = ["python3", "python"];

/// The folders outside of the system's that programs in `search`, a `PATH`, are in or need:
///
/// - a folder `bin` or `sbin`, with the libraries beside it, but not with what else is beside it:
///   that can be a home, or hold credentials;
/// - the whole of a virtual environment, and the whole of a version manager with its `shims`;
/// - the installation that `python3` is a link into;
/// - where rustup has its toolchains, `rustup`;
/// - any other folder as it is.
///
/// A folder that is not there, or that the server may not look into, is left out.
pub(crate) fn visible(search: &OsStr, rustup: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Found::default();
    for folder in split_paths(search).filter(|folder| folder.is_absolute()) {
        found.search_folder(&folder);
    }
    for folder in split_paths(search).filter(|folder| folder.is_absolute()) {
        for name in INTERPRETERS {
            found.installation_of(&folder.join(name));
        }
    }
    if let Some(folder) = rustup {
        found.add(folder);
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<PathBuf>);

impl Found {
    fn search_folder(&mut self, folder: &Path) {
        let name = folder.file_name().and_then(OsStr::to_str);
        let Some(around) = folder.parent().filter(|around| around.parent().is_some()) else {
            return;
        };
        match name {
            Some("shims") => self.add(around),
            Some("bin" | "sbin") if around.join("pyvenv.cfg").is_file() => self.add(around),
            Some("bin" | "sbin") => {
                self.add(folder);
                for beside in BESIDE_BIN {
                    self.add(&around.join(beside));
                }
            }
            _ => self.add(folder),
        }
    }

    fn installation_of(&mut self, program: &Path) {
        let real = program.canonicalize().ok();
        if let Some(folder) = real.as_deref().and_then(Path::parent) {
            self.search_folder(folder);
        }
    }

    fn add(&mut self, folder: &Path) {
        let known = |path: &Path| is_system(path) || self.0.iter().any(|f| path.starts_with(f));
        if folder.is_dir() && !known(folder) {
            self.0.push(folder.to_owned());
        }
    }
}

/// Whether a path is below a system folder, which a pod shows anyway.
fn is_system(path: &Path) -> bool {
    SYSTEM
        .iter()
        .any(|name| path.starts_with(Path::new("/").join(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(found: &[PathBuf], root: &Path) -> Vec<String> {
        let names = found.iter().map(|path| path.strip_prefix(root).unwrap());
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_a_path_needs_is_shown_and_what_is_beside_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in [
            "home/bin",
            "home/lib",
            "home/.ssh",
            "pyenv/shims",
            "pyenv/versions/3/bin",
            "venv/bin",
            "base/3.11/bin",
            "base/3.11/lib",
            "plain",
            "home/.rustup",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("venv/pyvenv.cfg"), "").unwrap();
        fs::write(at("base/3.11/bin/python3.11"), "").unwrap();
        symlink(at("base/3.11/bin/python3.11"), at("venv/bin/python3")).unwrap();
        let folders = [
            "home/bin",
            "venv/bin",
            "pyenv/shims",
            "pyenv/versions/3/bin",
            "plain",
            "gone",
        ];
        let path = std::env::join_paths(
            folders
                .iter()
                .map(|name| at(name))
                .chain(["/usr/bin", "/bin", "relative"].map(PathBuf::from)),
        );
        let found = visible(&path.unwrap(), Some(&at("home/.rustup")));
        let want = [
            "home/bin",
            "home/lib",
            "venv",
            "pyenv",
            "plain",
            "base/3.11/bin",
            "base/3.11/lib",
            "home/.rustup",
        ];
        assert_eq!(names(&found, root.path()), want);
    }
}
