//! Paths below a run's outputs folder.

use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// The folder `relative` below `root`, or `root` itself where it is empty.
pub(crate) fn folder_below(root: &Path, relative: &Path) -> Result<PathBuf, Error> {
    match relative.components().all(|part| part == Component::CurDir) {
        true => Ok(root.to_owned()),
        false => below(root, relative),
    }
}

/// `relative` below `outputs`, where it stays below.
pub(crate) fn below(outputs: &Path, relative: &Path) -> Result<PathBuf, Error> {
    let refuse = |problem| {
        Err(Error::InvalidPath {
            path: relative.to_owned(),
            problem,
        })
    };
    let mut path = outputs.to_owned();
    let mut names_a_file = false;
    for part in relative.components() {
        match part {
            Component::Normal(name) => {
                path.push(name);
                names_a_file = true;
            }
            Component::CurDir => {}
            Component::ParentDir => return refuse("it has a `..`"),
            Component::RootDir | Component::Prefix(_) => {
                return refuse("it is not relative to the run's folder");
            }
        }
    }
    match names_a_file {
        true => Ok(path),
        false => refuse("it names no file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_below_the_outputs_folder_is_allowed_and_nothing_else() {
        let table = [
            ("a.json", Ok("/run/outputs/a.json")),
            (
                "receipts/step-1.json",
                Ok("/run/outputs/receipts/step-1.json"),
            ),
            ("./a//b/./c", Ok("/run/outputs/a/b/c")),
            ("..a/b..", Ok("/run/outputs/..a/b..")),
            ("", Err("it names no file")),
            ("./", Err("it names no file")),
            ("/etc/passwd", Err("it is not relative to the run's folder")),
            ("../a", Err("it has a `..`")),
            ("a/../../b", Err("it has a `..`")),
            ("a/..", Err("it has a `..`")),
        ];
        for (relative, expected) in table {
            match (
                below(Path::new("/run/outputs"), Path::new(relative)),
                expected,
            ) {
                (Ok(path), Ok(expected)) => assert_eq!(path, Path::new(expected)),
                (Err(Error::InvalidPath { path, problem }), Err(expected)) => {
                    assert_eq!((path.as_path(), problem), (Path::new(relative), expected));
                }
                (found, expected) => panic!("{relative}: {found:?}, not {expected:?}"),
            }
        }
    }
}
