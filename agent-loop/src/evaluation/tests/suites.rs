use std::fs;
use std::os::unix::fs::symlink;

use super::{load, suite_of, write_case};
use crate::evaluation::{Suite, SuiteError};

#[test]
fn a_changed_byte_makes_another_suite() {
    let folder = suite_of(3);
    let first = load(&folder);
    assert_eq!(load(&folder), first);
    fs::write(folder.path().join("README.md"), "for people").unwrap();
    assert_eq!(load(&folder).digest(), first.digest());
    let mut seen = vec![first.digest()];
    let files = [
        "suite.json",
        "cases/c01/task.json",
        "cases/c01/files/amounts.py",
        "cases/c02/tests/test_amounts.py",
        "cases/c02/files/new.py",
    ];
    for file in files {
        let path = folder.path().join(file);
        let mut bytes = fs::read(&path).unwrap_or_default();
        bytes.push(b'\n');
        fs::write(path, bytes).unwrap();
        let digest = load(&folder).digest();
        assert!(!seen.contains(&digest), "{file}");
        seen.push(digest);
    }
    write_case(folder.path(), "c03");
    assert!(!seen.contains(&load(&folder).digest()));
}

#[test]
fn a_part_of_a_suite_is_another_suite() {
    let folder = suite_of(3);
    let all = load(&folder);
    let same = all.clone().only(|_| true).unwrap();
    assert_eq!(same.digest(), all.digest());
    let part = |id: &'static str| all.clone().only(|case| case.id() != id).unwrap();
    assert_eq!(part("c00").cases().len(), 2);
    assert_ne!(part("c00").digest(), all.digest());
    assert_ne!(part("c00").digest(), part("c01").digest());
    assert_eq!(all.only(|_| false).unwrap_err(), 3);
}

#[test]
fn what_does_not_belong_to_a_suite_is_named() {
    type Spoil = fn(&std::path::Path);
    let table: [(Spoil, &str); 12] = [
        (
            |at| fs::write(at.join("notes.txt"), "").unwrap(),
            "notes.txt: is no part of a suite",
        ),
        (
            |at| fs::write(at.join("cases/c00/gold.py"), "").unwrap(),
            "gold.py: is no part of a case",
        ),
        (
            |at| fs::remove_dir_all(at.join("cases/c00")).unwrap(),
            "cases: there is no case",
        ),
        (
            |at| fs::rename(at.join("cases/c00"), at.join("cases/c 0")).unwrap(),
            "\"c 0\" cannot be a name",
        ),
        (
            |at| fs::remove_file(at.join("cases/c00/tests/test_amounts.py")).unwrap(),
            "tests/test_amounts.py is missing",
        ),
        (
            |at| fs::write(at.join("cases/c00/files/test_amounts.py"), "").unwrap(),
            "test_amounts.py is in files and in tests",
        ),
        (
            |at| symlink("/etc/hostname", at.join("cases/c00/files/h")).unwrap(),
            "files/h: is no regular file",
        ),
        (
            |at| {
                fs::create_dir(at.join("cases/c00/hidden")).unwrap();
                fs::write(at.join("cases/c00/hidden/test_more.py"), "").unwrap();
            },
            "hidden/ has files, and nothing says which are tests",
        ),
        (
            |at| replace(at, "\"editable\":[\"amounts.py\"]", "\"editable\":[]"),
            "nothing may be edited",
        ),
        (
            |at| {
                replace(
                    at,
                    "\"editable\":[\"amounts.py\"]",
                    "\"editable\":[\"test_amounts.py\"]",
                );
            },
            "test_amounts.py is a test and may be edited",
        ),
        (
            |at| replace(at, "\"count\":2", "\"count\":0"),
            "task.json: tests: test_amounts.py has to have at least one test",
        ),
        (
            |at| replace(at, "\"expected\"", "\"expects\""),
            "task.json: expects is not what a suite has there",
        ),
    ];
    for (spoil, problem) in table {
        let folder = suite_of(1);
        spoil(folder.path());
        let error = Suite::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let newer = suite_of(1);
    fs::write(
        newer.path().join("suite.json"),
        r#"{"format": 2, "name": "n", "revision": 1, "about": ""}"#,
    )
    .unwrap();
    let error = Suite::load(newer.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("has format 2, and this reads format 1"),
        "{error}"
    );
    assert!(matches!(
        Suite::load(newer.path().join("none")),
        Err(SuiteError::Io { .. })
    ));
}

fn replace(suite: &std::path::Path, from: &str, to: &str) {
    let path = suite.join("cases/c00/task.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}
