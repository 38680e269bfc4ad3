use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn tree(files: &[(&str, &[u8])]) -> Tree {
    files
        .iter()
        .map(|(name, bytes)| (path(name), File::new(*bytes)))
        .collect()
}

fn write(tree: &Tree, folder: &Path) {
    for (path, file) in tree.iter() {
        let target = folder.join(path.as_str());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, file.bytes()).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        let mode = if file.is_executable() { 0o755 } else { 0o644 };
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn read(folder: &Path) -> Tree {
    fn walk(folder: &Path, root: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, tree);
            } else {
                use std::os::unix::fs::PermissionsExt as _;
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                let executable = path.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let file = File::new(fs::read(&path).unwrap()).executable(executable);
                tree.insert(RelPath::parse(name).unwrap(), file);
            }
        }
    }
    let mut tree = Tree::new();
    walk(folder, folder, &mut tree);
    tree
}

fn git_apply(folder: &Path, args: &[&str], patch: &Path) {
    let output = Command::new("git")
        .args(["-c", "core.autocrlf=false", "apply", "--whitespace=nowarn"])
        .args(args)
        .arg(patch)
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Applies the patch there and back with git, and compares the bytes.
fn round_trip(old: &Tree, new: &Tree) {
    let patch = diff(old, new).unwrap();
    if patch.is_empty() {
        assert_eq!(old, new);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (work, patch_file) = (folder.path().join("work"), folder.path().join("patch.diff"));
    fs::create_dir(&work).unwrap();
    fs::write(&patch_file, &patch).unwrap();
    write(old, &work);
    git_apply(&work, &["--check"], &patch_file);
    git_apply(&work, &[], &patch_file);
    let shown = String::from_utf8_lossy(&patch);
    assert_eq!(read(&work).hash(), new.hash(), "{shown}");
    // git 2.47 brings a deleted file back without its mode, also from a patch of its own.
    let lost =
        |(path, file): (&RelPath, &Arc<File>)| file.is_executable() && new.get(path).is_none();
    if !old.iter().any(lost) {
        git_apply(&work, &["-R"], &patch_file);
        assert_eq!(read(&work).hash(), old.hash(), "{shown}");
    }
}

#[test]
fn git_applies_every_kind_of_change_there_and_back() {
    let mut old = tree(&[
        ("b.bin", b"\x00\x01\x02"),
        ("o.txt", b"gone\n"),
        ("src/crlf.py", b"def f():\r\n    return 0\r\n"),
        ("src/a b.py", b"x = 1\n"),
        ("naïve \"q\".py", b"x = 1\n"),
        ("latin.txt", b"caf\xe9\n"),
        ("same.txt", b"same\n"),
        ("empty.txt", b""),
    ]);
    old.insert(path("r.sh"), File::new(*b"#!/bin/sh\n"));
    let mut new = tree(&[
        ("b.bin", b"\x00\x01\x03"),
        ("n.txt", b"new\n"),
        ("new/deep/e.bin", b"\xff\x00"),
        ("src/crlf.py", b"def f():\r\n    return 1\r\n"),
        ("src/a b.py", b"x = 2\n"),
        ("naïve \"q\".py", b"x = 2\n"),
        ("latin.txt", b"caf\xc3\xa9\n"),
        ("same.txt", b"same\n"),
        ("empty.txt", b"not any more"),
        ("new-empty.txt", b""),
    ]);
    new.insert(path("r.sh"), File::new(*b"#!/bin/sh\n").executable(true));
    round_trip(&old, &new);
    round_trip(&new, &old);
}

#[test]
fn a_final_newline_is_content_in_all_four_combinations() {
    let text: [&[u8]; 2] = [b"a\nb\n", b"a\nb"];
    let other: [&[u8]; 2] = [b"a\nc\n", b"a\nc"];
    for old in text {
        for new in other.iter().chain(&text) {
            round_trip(&tree(&[("a", old)]), &tree(&[("a", new)]));
        }
    }
    let patch = diff(&tree(&[("a", b"x")]), &tree(&[("a", b"x\n")])).unwrap();
    let patch = String::from_utf8(patch).unwrap();
    assert!(
        patch.ends_with("-x\n\\ No newline at end of file\n+x\n"),
        "{patch}"
    );
}

#[test]
fn a_line_ends_at_a_line_feed_and_nowhere_else() {
    let old = tree(&[("a", "p\u{2028}q\x0cr\rs\u{85}t\nu\n".as_bytes())]);
    let new = tree(&[("a", "p\u{2028}q\x0cr\rs\u{85}t\nv\n".as_bytes())]);
    let patch = String::from_utf8(diff(&old, &new).unwrap()).unwrap();
    assert!(
        patch.ends_with("@@ -1,2 +1,2 @@\n p\u{2028}q\x0cr\rs\u{85}t\n-u\n+v\n"),
        "{patch}"
    );
    round_trip(&old, &new);
}

#[test]
fn equal_trees_have_an_empty_patch() {
    let tree = tree(&[("a", b"x"), ("b", b"\0")]);
    assert_eq!(diff(&tree, &tree).unwrap(), b"");
}

#[test]
fn large_and_incompressible_bytes_are_kept() {
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    round_trip(&tree(&[("a", b"\0")]), &tree(&[("a", &noise)]));
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(prop_oneof![Just("a\n"), Just("b\n"), Just("\n"), Just("c"), Just("é\r\n"), Just("-- x\n"), Just("\\ n\n"), Just("@@ 1\n")], 0..14)
            .prop_map(|lines| lines.concat().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..80),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_two_trees_are_one_patch_apart(
        old in proptest::collection::btree_map("[a-c]", (content(), any::<bool>()), 0..3),
        new in proptest::collection::btree_map("[a-c]", (content(), any::<bool>()), 0..3),
    ) {
        let tree = |files: &std::collections::BTreeMap<String, (Vec<u8>, bool)>| -> Tree {
            let files = files.iter();
            files.map(|(name, (bytes, x))| (path(name), File::new(bytes.clone()).executable(*x))).collect()
        };
        round_trip(&tree(&old), &tree(&new));
    }
}

#[test]
fn names_are_written_as_git_writes_them() {
    let lines = |name: &str| {
        let (old, new) = (tree(&[(name, b"x\n")]), tree(&[(name, b"y\n")]));
        let patch = String::from_utf8(diff(&old, &new).unwrap()).unwrap();
        let lines: Vec<String> = patch.lines().map(str::to_owned).collect();
        [lines[0].clone(), lines[2].clone(), lines[3].clone()]
    };
    // The tab ends a name with a blank for other programs than git.
    let blank = [
        "diff --git a/a b.py b/a b.py",
        "--- a/a b.py\t",
        "+++ b/a b.py\t",
    ];
    assert_eq!(lines("a b.py"), blank);
    let quoted = [
        r#"diff --git "a/\303\251\"" "b/\303\251\"""#,
        r#"--- "a/\303\251\"""#,
        r#"+++ "b/\303\251\"""#,
    ];
    assert_eq!(lines("é\""), quoted);
}
