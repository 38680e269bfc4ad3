//! Where rustup has the Rust toolchains of this machine. Its `cargo` and `rustc` are proxies, which
//! look there for what they are to run: in a sandbox, whose `HOME` is another one, they find
//! nothing unless they are told.

use std::env::split_paths;
use std::ffi::OsStr;
use std::path::PathBuf;

/// The variable that names the folder.
pub(crate) const VARIABLE: &str = "RUSTUP_HOME";

/// The folder, where programs of rustup are in `search`, a `PATH`: what the variable says, else
/// `.rustup` in the home of the server's user.
pub(crate) fn home(search: &OsStr) -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from);
    find(search, from(VARIABLE), from("HOME"))
}

fn find(search: &OsStr, told: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    if !split_paths(search).any(|folder| folder.join("rustup").is_file()) {
        return None;
    }
    let folder = told.or_else(|| Some(home?.join(".rustup")))?;
    (folder.is_absolute() && folder.is_dir()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_toolchains_are_found_where_rustup_would_look() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["bin", "other", "home/.rustup", "told"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("bin/rustup"), "").unwrap();
        let table = [
            ("bin", None, Some("home"), Some("home/.rustup")),
            ("bin", Some("told"), Some("home"), Some("told")),
            ("bin", Some("told"), None, Some("told")),
            ("bin", Some("gone"), Some("home"), None),
            ("bin", None, Some("told"), None),
            ("bin", None, None, None),
            // Without rustup there is nothing that would look.
            ("other", Some("told"), Some("home"), None),
        ];
        for (search, told, home, want) in table {
            let found = find(at(search).as_os_str(), told.map(at), home.map(at));
            assert_eq!(found, want.map(at), "{search} {told:?} {home:?}");
        }
        let relative = find(at("bin").as_os_str(), Some("told".into()), None);
        assert_eq!(relative, None);
    }
}
