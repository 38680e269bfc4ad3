//! What `cargo xtask real` hands to the tests, by environment variables.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// What `cargo xtask real` has provided under this name.
pub(crate) fn get(name: &str) -> OsString {
    std::env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set: run these tests by `cargo xtask real`"))
}

/// A folder below the one that is removed when all has passed.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(get("REAL_SCRATCH")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A script of `tests/real`, run by the Python that `python` names.
pub(crate) fn script(python: &str, name: &str) -> Command {
    let mut command = Command::new(get(python));
    // Leaves no compiled files beside the scripts.
    command.arg("-B");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/real/").to_owned() + name);
    command
}
