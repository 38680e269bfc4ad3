//! Files: bytes come back as they went, names are taken as they are, errors say which.

use polyaxon_client::Effect;
use polyaxon_sandbox::fs::{FileType, Ls, Mkdir, Write};
use polyaxon_sandbox::{Error, FileMode, SandboxClient};

use super::cause;

fn mode(bits: u32) -> FileMode {
    FileMode::new(bits).unwrap()
}

fn code(result: Result<impl Sized, Error>) -> Option<String> {
    result
        .err()
        .and_then(|error| error.code().map(str::to_owned))
}

fn status(error: &Error) -> u16 {
    error.status().unwrap().as_u16()
}

/// What is written is read back, whole and in parts, empty files included.
pub async fn bytes_come_back_as_they_went(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let written = fs.write("/tmp/contract-bytes", all.clone()).await.unwrap();
    assert_eq!((written.bytes_written, written.created), (100_000, true));
    assert_eq!(fs.read("/tmp/contract-bytes").await.unwrap(), all);
    let part = fs
        .read_range("/tmp/contract-bytes", 99_990, 100)
        .await
        .unwrap();
    assert_eq!(
        (&part.bytes[..], part.next_offset, part.eof),
        (&all[99_990..], 100_000, true)
    );
    let middle = fs.read_range("/tmp/contract-bytes", 10, 5).await.unwrap();
    assert_eq!(
        (&middle.bytes[..], middle.next_offset, middle.eof),
        (&all[10..15], 15, false)
    );
    let beyond = fs
        .read_range("/tmp/contract-bytes", 1 << 40, 5)
        .await
        .unwrap();
    assert_eq!(
        (beyond.bytes.len(), beyond.next_offset, beyond.eof),
        (0, 1 << 40, true)
    );

    let written = fs.write("/tmp/contract-bytes", "").await.unwrap();
    assert!(!written.created);
    assert_eq!(fs.read("/tmp/contract-bytes").await.unwrap(), "");
    fs.write("/tmp/contract-bytes", "héllo").await.unwrap();
    assert_eq!(fs.read_text("/tmp/contract-bytes").await.unwrap(), "héllo");
    fs.write("/tmp/contract-bytes", &b"\xff"[..]).await.unwrap();
    let text = cause(&fs.read_text("/tmp/contract-bytes").await.unwrap_err());
    assert!(text.contains("/tmp/contract-bytes is not UTF-8"), "{text}");
}

/// A file that takes several pages is read whole.
pub async fn a_file_of_many_pages_is_read_whole(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let chunk: Vec<u8> = (0..=250).cycle().take(5 << 20).collect();
    fs.write("/tmp/contract-pages", chunk.clone())
        .await
        .unwrap();
    fs.write_with("/tmp/contract-pages", chunk.clone(), Write::new().append())
        .await
        .unwrap();
    let whole = fs.read("/tmp/contract-pages").await.unwrap();
    assert_eq!(whole.len(), 2 * chunk.len());
    assert!(whole[..chunk.len()] == chunk && whole[chunk.len()..] == chunk);
    fs.rm("/tmp/contract-pages").await.unwrap();
}

/// Nothing in a name is trimmed, decoded or normalised.
pub async fn names_are_taken_as_they_are(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let names = [
        "a b",
        "a%20b",
        "a+b",
        "a b ",
        "é",
        "e\u{301}",
        "q?x=1#f&y",
        "-rf",
        "new\nline",
        "\"'\\",
        "a;b",
    ];
    fs.mkdir("/tmp/contract-names").await.unwrap();
    for name in names {
        fs.write(format!("/tmp/contract-names/{name}"), name)
            .await
            .unwrap();
    }
    for name in names {
        let read = fs
            .read_text(format!("/tmp/contract-names/{name}"))
            .await
            .unwrap();
        assert_eq!(read, name);
    }
    let mut listed: Vec<String> = fs
        .ls("/tmp/contract-names")
        .await
        .unwrap()
        .entries
        .into_iter()
        .map(|e| e.name)
        .collect();
    let mut want: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    listed.sort();
    want.sort();
    assert_eq!(listed, want);
}

/// A mode is the one that was asked for, and stays when the file is written again.
pub async fn modes_are_those_that_were_asked_for(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    fs.write_with("/tmp/contract-mode", "x", Write::new().mode(mode(0o755)))
        .await
        .unwrap();
    fs.write_with("/tmp/contract-mode", "y", Write::new().mode(mode(0o600)))
        .await
        .unwrap();
    assert_eq!(
        fs.stat("/tmp/contract-mode").await.unwrap().mode,
        Some(mode(0o755))
    );
    fs.mkdir_with(
        "/tmp/contract-mode-dir/deep",
        Mkdir::new().parents().mode(mode(0o711)),
    )
    .await
    .unwrap();
    let stat = fs.stat("/tmp/contract-mode-dir/deep").await.unwrap();
    assert_eq!(
        (stat.file_type, stat.mode),
        (FileType::Dir, Some(mode(0o711)))
    );
}

/// Writing with conditions keeps to them.
pub async fn a_write_keeps_to_its_conditions(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let existing = Write::new().existing_only();
    let error = fs
        .write_with("/tmp/contract-cond", "x", existing)
        .await
        .unwrap_err();
    assert_eq!((status(&error), error.effect()), (404, Effect::NotApplied));
    fs.write("/tmp/contract-cond", "one").await.unwrap();
    fs.write_with("/tmp/contract-cond", "+two", existing.append())
        .await
        .unwrap();
    assert_eq!(fs.read_text("/tmp/contract-cond").await.unwrap(), "one+two");
}

/// Listings are sorted, say when they are cut, and do not enter links.
pub async fn listings_are_sorted_and_say_when_they_are_cut(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    fs.mkdir_with("/tmp/contract-ls/b/c", Mkdir::new().parents())
        .await
        .unwrap();
    for name in ["z", "a", "b/y", "b/c/x"] {
        fs.write(format!("/tmp/contract-ls/{name}"), name)
            .await
            .unwrap();
    }
    let names = |listing: polyaxon_sandbox::fs::Listing| -> Vec<String> {
        listing
            .entries
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    };
    let plain = fs.ls("/tmp/contract-ls").await.unwrap();
    assert!(!plain.truncated);
    assert_eq!(names(plain), ["a", "b", "z"]);
    let all = fs
        .ls_with("/tmp/contract-ls", Ls::new().recursive())
        .await
        .unwrap();
    assert_eq!(names(all), ["a", "b", "z", "b/c", "b/y", "b/c/x"]);
    let cut = fs
        .ls_with("/tmp/contract-ls", Ls::new().recursive().max_entries(2))
        .await
        .unwrap();
    assert!(cut.truncated);
    assert_eq!(cut.entries.len(), 2);
}

/// Each kind of failure has its code, and changed nothing.
pub async fn failures_have_their_codes(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    fs.mkdir_with("/tmp/contract-codes/full", Mkdir::new().parents())
        .await
        .unwrap();
    fs.write("/tmp/contract-codes/full/f", "x").await.unwrap();
    assert_eq!(
        code(fs.read("/tmp/contract-codes/none").await).unwrap(),
        "not_found"
    );
    assert_eq!(
        code(fs.stat("/tmp/contract-codes/none").await).unwrap(),
        "not_found"
    );
    assert_eq!(
        code(fs.ls("/tmp/contract-codes/none").await).unwrap(),
        "not_found"
    );
    assert_eq!(
        code(fs.write("/tmp/contract-codes/none/f", "x").await).unwrap(),
        "not_found"
    );
    assert_eq!(
        code(fs.read("/tmp/contract-codes").await).unwrap(),
        "conflict"
    );
    assert_eq!(
        code(fs.write("/tmp/contract-codes", "x").await).unwrap(),
        "conflict"
    );
    assert_eq!(
        code(fs.ls("/tmp/contract-codes/full/f").await).unwrap(),
        "conflict"
    );
    assert_eq!(
        code(fs.mkdir("/tmp/contract-codes/full").await).unwrap(),
        "conflict"
    );
    assert_eq!(
        code(fs.mkdir("/tmp/contract-codes/a/b").await).unwrap(),
        "not_found"
    );
    assert_eq!(
        code(fs.rm("/tmp/contract-codes/full").await).unwrap(),
        "conflict"
    );
    assert_eq!(
        code(fs.rm("/tmp/contract-codes/none").await).unwrap(),
        "not_found"
    );
    fs.rm_all("/tmp/contract-codes/none").await.unwrap();
    fs.rm_all("/tmp/contract-codes").await.unwrap();
    let error = fs.rm("/tmp/contract-codes").await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
}

/// Failures are told apart by their status, whatever the codes of the service are.
pub async fn failures_have_their_statuses(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let missing = fs.read("/tmp/contract-status").await.unwrap_err();
    let exists = fs.mkdir("/tmp").await.unwrap_err();
    let directory = fs.write("/tmp", "x").await.unwrap_err();
    for (error, want) in [(missing, 404), (exists, 409), (directory, 409)] {
        let got = (status(&error), error.effect());
        assert_eq!(got, (want, Effect::NotApplied), "{}", cause(&error));
    }
}

/// A path that no service can take is refused by its field, before anything is sent.
pub async fn a_path_that_cannot_be_is_refused(sandbox: &SandboxClient) {
    for path in ["", "tmp/x", "/a\0b"] {
        let error = sandbox.fs().read(path).await.unwrap_err();
        assert_eq!(error.effect(), Effect::NotApplied);
        assert!(cause(&error).contains("path: "), "{}", cause(&error));
    }
}
