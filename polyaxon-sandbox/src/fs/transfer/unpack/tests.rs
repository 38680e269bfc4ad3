//! Archives that try to get out of their folder.

use proptest::prelude::*;
use tar::{Builder, Header};

use super::*;

const CAPS: Caps = Caps {
    entries: 1000,
    bytes: 1 << 20,
};

/// A member of an archive, as hostile as it likes.
#[derive(Clone, Debug)]
struct Member {
    kind: EntryType,
    name: String,
    link: String,
    content: String,
}

fn member(kind: EntryType, name: &str, link: &str, content: &str) -> Member {
    Member {
        kind,
        name: name.to_owned(),
        link: link.to_owned(),
        content: content.to_owned(),
    }
}

fn file(name: &str) -> Member {
    member(EntryType::Regular, name, "", name)
}

fn link(name: &str, to: &str) -> Member {
    member(EntryType::Symlink, name, to, "")
}

/// The archive, with names written as they are: the library's own setters refuse some of them.
fn archive(members: &[Member]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        for (kind, text) in [
            (EntryType::GNULongName, &member.name),
            (EntryType::GNULongLink, &member.link),
        ] {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(u64::try_from(text.len()).unwrap());
            header.set_cksum();
            builder.append(&header, text.as_bytes()).unwrap();
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(member.kind);
        header.set_mode(0o6755);
        header.set_size(u64::try_from(member.content.len()).unwrap());
        header.set_cksum();
        builder.append(&header, member.content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Unpacks into a folder that has a neighbour, which nothing may touch.
fn unpack_all(members: &[Member]) -> (tempfile::TempDir, Result<Unpacked, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(folder.path().join("neighbour")).unwrap();
    std::fs::write(folder.path().join("neighbour/file"), "mine").unwrap();
    let bytes = archive(members);
    let result = unpack(bytes.as_slice(), &root, CAPS);
    (folder, result)
}

/// What is wrong, where an archive is refused.
fn problem(members: &[Member]) -> String {
    let (folder, result) = unpack_all(members);
    assert_untouched(folder.path());
    result.unwrap_err().to_string()
}

fn assert_untouched(folder: &Path) {
    assert_eq!(
        std::fs::read_to_string(folder.join("neighbour/file")).unwrap(),
        "mine"
    );
    let names = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    assert_eq!((names(folder), names(&folder.join("neighbour"))), (2, 1));
}

#[test]
fn names_that_lead_out_are_refused() {
    for (name, word) in [
        ("../neighbour/x", "leads out"),
        ("a/../../neighbour/x", "leads out"),
        ("a/..", "leads out"),
        ("/etc/x", "is absolute"),
        ("", "has no name"),
        ("./", "has no name"),
        ("a\0b", "cannot be a name"),
    ] {
        let said = problem(&[file(name)]);
        assert!(said.contains(word), "{name:?}: {said}");
    }
    let long = "x/".repeat(DEEPEST + 1);
    assert!(problem(&[file(&format!("{long}f"))]).contains("too deep"));
    let long = "x".repeat(5000);
    assert!(problem(&[file(&long)]).contains("too long"));
}

#[test]
fn nothing_is_written_through_a_link() {
    // A link to the outside is left out; what should be below it gets a real directory.
    let (folder, result) = unpack_all(&[link("a", "../neighbour"), file("a/file")]);
    let unpacked = result.unwrap();
    assert_untouched(folder.path());
    assert_eq!(unpacked.left_out[0].name, "a");
    assert!(folder.path().join("root/a").is_dir());
    // A link to the inside that a directory would have to be at the same time.
    assert!(problem(&[link("a", "b"), file("a/file")]).contains("comes twice"));
    // A second name of a file that is a link, or outside, or not there.
    for target in ["../neighbour/file", "/etc/hosts", "a", "none", ""] {
        let hard = member(EntryType::Link, "h", target, "");
        problem(&[link("a", "b"), hard]);
    }
}

#[test]
fn a_link_stays_where_it_cannot_lead_out() {
    let table = [
        ("b", 0, true),
        ("./b/c", 0, true),
        ("../b", 1, true),
        ("../../b", 2, true),
        ("..", 0, false),
        ("../b", 0, false),
        ("a/../../b", 1, false),
        ("a/..", 5, false),
        ("/etc/passwd", 3, false),
        ("", 0, false),
    ];
    for (text, depth, fits) in table {
        assert_eq!(
            link_text(text.as_bytes(), depth).is_ok(),
            fits,
            "{text} at {depth}"
        );
    }
}

#[test]
fn what_is_no_file_is_left_out_and_setuid_is_dropped() {
    let (folder, result) = unpack_all(&[
        member(EntryType::Char, "dev", "", ""),
        member(EntryType::Fifo, "pipe", "", ""),
        file("f"),
        member(EntryType::Link, "g", "f", ""),
        member(EntryType::Directory, "d/", "", ""),
        link("d/up", "../f"),
    ]);
    let unpacked = result.unwrap();
    let left_out: Vec<&str> = unpacked
        .left_out
        .iter()
        .map(|left| left.name.as_str())
        .collect();
    assert_eq!(left_out, ["dev", "pipe"]);
    assert_eq!((unpacked.files, unpacked.links, unpacked.bytes), (2, 1, 1));
    assert_eq!(unpacked.dirs[0].mode, FileMode::new(0o755).unwrap());
    let root = folder.path().join("root");
    assert_eq!(std::fs::read_to_string(root.join("g")).unwrap(), "f");
    assert_eq!(std::fs::read_to_string(root.join("d/up")).unwrap(), "f");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(root.join("f"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o755);
    }
}

#[test]
fn what_is_too_much_or_comes_twice_is_refused() {
    assert!(problem(&[file("a"), file("a")]).contains("comes twice"));
    assert!(problem(&[file("a"), file("a/b")]).contains("comes twice"));
    let big = member(EntryType::Regular, "big", "", &"x".repeat(1 << 20));
    assert!(problem(&[file("a"), big]).contains("bytes that may come"));
    let many: Vec<Member> = (0..1001).map(|at| file(&at.to_string())).collect();
    assert!(problem(&many).contains("one more than the 1000"));
    let sparse = member(EntryType::GNUSparse, "s", "", "");
    assert!(problem(&[sparse]).contains("sparse"));
    // A name that claims to be large is not read into memory.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    let folder = tempfile::tempdir().unwrap();
    let bytes = header.as_bytes().as_slice();
    let error = unpack(bytes, folder.path(), CAPS).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn an_archive_that_is_cut_is_no_smaller_archive() {
    let whole = archive(&[member(EntryType::Regular, "f", "", &"x".repeat(3000))]);
    for length in [100, 600, 2000, 4000] {
        let folder = tempfile::tempdir().unwrap();
        unpack(&whole[..length], folder.path(), CAPS).unwrap_err();
    }
}

/// Parts of names, chosen so that they meet each other.
fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[ab]",
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        1 => Just("neighbour".to_owned()),
    ];
    (
        proptest::bool::weighted(0.1),
        proptest::collection::vec(part, 1..4),
    )
        .prop_map(|(absolute, parts)| {
            format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
        })
}

fn any_member() -> impl Strategy<Value = Member> {
    let kind = prop_oneof![
        Just(EntryType::Regular),
        Just(EntryType::Symlink),
        Just(EntryType::Link),
        Just(EntryType::Directory),
        Just(EntryType::Fifo),
    ];
    (kind, name(), name()).prop_map(|(kind, name, link)| {
        let content = if kind == EntryType::Regular { "x" } else { "" };
        Member {
            kind,
            name,
            link,
            content: content.to_owned(),
        }
    })
}

/// Every path below `dir`, none reached through a link.
fn all_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            all_below(&path, found);
        }
        found.push(path);
    }
}

proptest! {
    #[test]
    fn nothing_gets_out_of_the_folder(members in proptest::collection::vec(any_member(), 1..8)) {
        let (folder, _result) = unpack_all(&members);
        assert_untouched(folder.path());
        let root = folder.path().join("root");
        let mut found = Vec::new();
        all_below(&root, &mut found);
        let canonical = root.canonicalize().unwrap();
        for path in found {
            // Where a link leads anywhere, it leads inside.
            if let Ok(to) = path.canonicalize() {
                prop_assert!(to.starts_with(&canonical), "{path:?} leads to {to:?}");
            }
        }
    }

    #[test]
    fn a_path_of_a_member_is_below_its_folder(name in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(path) = member_path(&name) {
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            prop_assert!(path.components().all(plain), "{path:?}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_fail_otherwise_than_by_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let folder = tempfile::tempdir().unwrap();
        drop(unpack(bytes.as_slice(), folder.path(), CAPS));
    }
}
