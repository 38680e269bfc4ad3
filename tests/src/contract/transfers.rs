//! Whole files and directories between this machine and a sandbox.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, TryStreamExt as _};
use polyaxon_client::Effect;
use polyaxon_sandbox::fs::{
    Comparison, Download, DownloadDir, Existing, FileError, FileType, Mkdir, Overwrite, TreeMethod,
    Upload, UploadDir, Write,
};
use polyaxon_sandbox::{AbsPath, Error, Exec, FileMode, SandboxClient};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _, SeekFrom};

/// Bytes that are the same at no two offsets of a page.
#[must_use]
pub fn bytes(length: usize) -> Vec<u8> {
    let words = (0_u64..).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).take(length).collect()
}

/// The names in a folder of this machine, sorted.
#[must_use]
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The names in a directory of the sandbox, sorted.
pub async fn names_at(sandbox: &SandboxClient, path: &str) -> Vec<String> {
    let listing = sandbox.fs().ls(path).await.unwrap();
    let mut names: Vec<String> = listing
        .entries
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    names
}

/// The [`FileError`] of an error, that of an upload that stopped included.
#[must_use]
pub fn file_error(error: &Error) -> &FileError {
    let Error::File(found) = error else {
        unreachable!("no file error: {error:?}");
    };
    match found {
        FileError::Upload { source, .. } if matches!(**source, Error::File(_)) => {
            file_error(source)
        }
        found => found,
    }
}

/// A file of any size goes up and comes down as it is, in pages, with the same digest on both ends.
pub async fn a_file_goes_up_and_comes_down_whole(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    fs.mkdir("/tmp/up").await.unwrap();
    const PAGE: usize = 64 << 10;
    for size in [0, 1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE + 77] {
        let content = bytes(size);
        std::fs::write(&here, &content).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&seen);
        let upload = Upload::new(&here, "/tmp/up/file")
            .page_size(PAGE)
            .sha256()
            .on_progress(move |now| tell.lock().unwrap().push(now.bytes));
        let up = fs.upload(&upload).await.unwrap();
        assert_eq!(up.bytes, u64::try_from(size).unwrap());
        assert_eq!(
            (up.comparison, up.retries, up.resumed_from),
            (Comparison::Same, 0, 0)
        );
        let seen = seen.lock().unwrap().clone();
        assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&up.bytes)));
        assert!(seen.is_sorted(), "{seen:?}");

        let download = Download::new("/tmp/up/file", &back)
            .page_size(u64::try_from(PAGE).unwrap())
            .sha256();
        let down = fs.download(&download).await.unwrap();
        assert_eq!((down.bytes, &down.sha256), (up.bytes, &up.sha256));
        assert_eq!(down.comparison, Comparison::Same);
        assert!(std::fs::read(&back).unwrap() == content, "{size} bytes");
    }
    assert_eq!(names_at(sandbox, "/tmp/up").await, ["file"]);
    assert_eq!(names_in(folder.path()), ["back", "here"]);
}

/// What is there is replaced and keeps its mode; what must not be replaced stays.
pub async fn what_is_there_is_replaced_or_stays(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    std::fs::write(&here, "new").unwrap();
    std::fs::set_permissions(&here, std::fs::Permissions::from_mode(0o751)).unwrap();
    fs.mkdir("/tmp/rule").await.unwrap();
    let private = Write::new().mode(FileMode::new(0o600).unwrap());
    fs.write_with("/tmp/rule/old", "old", private)
        .await
        .unwrap();

    let refuse = Upload::new(&here, "/tmp/rule/old").overwrite(Overwrite::Refuse);
    let error = fs.upload(&refuse).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Exists { path, .. } if path == "/tmp/rule/old")
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    assert_eq!(fs.read_text("/tmp/rule/old").await.unwrap(), "old");
    let fresh = Upload::new(&here, "/tmp/rule/fresh").overwrite(Overwrite::Refuse);
    fs.upload(&fresh).await.unwrap();
    let mode = |bits| Some(FileMode::new(bits).unwrap());
    assert_eq!(fs.stat("/tmp/rule/fresh").await.unwrap().mode, mode(0o751));

    fs.upload(&Upload::new(&here, "/tmp/rule/old"))
        .await
        .unwrap();
    assert_eq!(fs.read_text("/tmp/rule/old").await.unwrap(), "new");
    assert_eq!(fs.stat("/tmp/rule/old").await.unwrap().mode, mode(0o600));
    let asked = Upload::new(&here, "/tmp/rule/old").mode(FileMode::DIR);
    fs.upload(&asked).await.unwrap();
    assert_eq!(fs.stat("/tmp/rule/old").await.unwrap().mode, mode(0o755));
    // Where a link leads, as for every write.
    let link = Exec::new(["ln", "-s", "old", "./link"]).workdir("/tmp/rule");
    sandbox
        .process()
        .exec(&link)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    std::fs::write(&here, "linked").unwrap();
    fs.upload(&Upload::new(&here, "/tmp/rule/link"))
        .await
        .unwrap();
    assert_eq!(fs.read_text("/tmp/rule/old").await.unwrap(), "linked");
    assert_eq!(
        fs.stat("/tmp/rule/link").await.unwrap().file_type,
        FileType::Symlink
    );
    assert_eq!(
        names_at(sandbox, "/tmp/rule").await,
        ["fresh", "link", "old"]
    );

    let taken = folder.path().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    let refuse = Download::new("/tmp/rule/old", &taken).overwrite(Overwrite::Refuse);
    let error = fs.download(&refuse).await.unwrap_err();
    assert!(matches!(file_error(&error), FileError::Exists { .. }));
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "mine");
    fs.download(&Download::new("/tmp/rule/old", &taken))
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "linked");
    let found = std::fs::metadata(&taken).unwrap();
    assert_eq!(found.permissions().mode() & 0o7777, 0o755);
    let remote = fs.stat("/tmp/rule/old").await.unwrap().modified.unwrap();
    let apart = remote.duration_since(found.modified().unwrap().try_into().unwrap());
    assert!(apart.as_millis().abs() < 1, "{apart}");
    assert_eq!(names_in(folder.path()), ["here", "taken"]);
}

/// What is no regular file is refused at once, on both ends.
pub async fn what_is_no_file_is_not_transferred(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let make = Exec::shell("mkdir special && mkfifo special/fifo").workdir("/tmp");
    sandbox
        .process()
        .exec(&make)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    let to = folder.path().join("to");
    for (path, want) in [
        ("/tmp/special", FileType::Dir),
        ("/tmp/special/fifo", FileType::Special),
    ] {
        let error = fs.download(&Download::new(path, &to)).await.unwrap_err();
        assert!(
            matches!(file_error(&error), FileError::NotRegular { file_type, .. } if *file_type == want),
            "{error}"
        );
        let from = folder.path().join("from");
        std::fs::write(&from, "x").unwrap();
        let error = fs.upload(&Upload::new(&from, path)).await.unwrap_err();
        assert!(
            matches!(file_error(&error), FileError::NotRegular { .. }),
            "{error}"
        );
    }
    let error = fs
        .upload(&Upload::new(folder.path(), "/tmp/x"))
        .await
        .unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::NotRegular { .. }),
        "{error}"
    );
    let missing = fs
        .download(&Download::new("/tmp/none", &to))
        .await
        .unwrap_err();
    assert_eq!(missing.status().map(|status| status.as_u16()), Some(404));
    let error = fs.upload(&Upload::new(&to, "/tmp/x")).await.unwrap_err();
    assert!(matches!(error, Error::Local { .. }), "{error}");
    assert!(!to.exists() && !fs.exists("/tmp/x").await.unwrap());
}

/// Files whose size says nothing are read to their end, empty ones are empty.
pub async fn files_without_a_size_come_whole(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let status = fs.read_text("/proc/self/status").await.unwrap();
    assert!(status.contains("\nPid:\t"), "{status}");
    let uuid = fs.read("/proc/sys/kernel/random/uuid").await.unwrap();
    assert_eq!(uuid.len(), 37);
    fs.download(&Download::new("/proc/cpuinfo", &to).page_size(256))
        .await
        .unwrap();
    let lines = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count()
    };
    let here = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    assert_eq!(lines(&std::fs::read_to_string(&to).unwrap()), lines(&here));
    let mut read = String::new();
    fs.reader("/proc/cpuinfo")
        .unwrap()
        .read_to_string(&mut read)
        .await
        .unwrap();
    assert_eq!(lines(&read), lines(&here));
    fs.write("/tmp/empty", "").await.unwrap();
    assert_eq!(fs.read("/tmp/empty").await.unwrap(), "");
    let receipt = fs
        .download(&Download::new("/tmp/empty", &to).sha256())
        .await
        .unwrap();
    assert_eq!((receipt.bytes, std::fs::read(&to).unwrap().len()), (0, 0));
}

/// A reader gives the bytes of its range in order, however they are asked for, and seeks.
pub async fn a_reader_gives_what_is_in_its_range(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let content = bytes(1_000_003);
    fs.write("/tmp/readable", content.clone()).await.unwrap();
    let reader = || fs.reader("/tmp/readable").unwrap().page_size(100_000);
    let pages: Vec<_> = reader().try_collect().await.unwrap();
    assert_eq!(pages.len(), 11);
    assert!(pages.concat() == content);
    for (range, want) in [
        (0..0, 0..0),
        (0..1, 0..1),
        (99_999..100_001, 99_999..100_001),
        (250_000..750_001, 250_000..750_001),
        (1_000_000..2_000_000, 1_000_000..1_000_003),
        (5_000_000..6_000_000, 0..0),
    ] {
        let mut part = Vec::new();
        let mut ranged = reader().range(range.clone());
        ranged.read_to_end(&mut part).await.unwrap();
        assert!(part == content[want], "{range:?}");
    }
    let mut seeking = reader();
    assert_eq!(seeking.seek(SeekFrom::End(-3)).await.unwrap(), 1_000_000);
    let mut tail = Vec::new();
    seeking.read_to_end(&mut tail).await.unwrap();
    assert_eq!(tail, content[1_000_000..]);
    assert_eq!(
        seeking.seek(SeekFrom::Current(-1_000_000)).await.unwrap(),
        3
    );
    let mut head = [0; 5];
    seeking.read_exact(&mut head).await.unwrap();
    assert_eq!((head.as_slice(), seeking.position()), (&content[3..8], 8));
    seeking.seek(SeekFrom::Current(i64::MIN)).await.unwrap_err();
    let mut missing = fs.reader("/tmp/none").unwrap();
    let error = missing.next().await.unwrap().unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    assert!(missing.next().await.is_none());
}

/// A writer sends what was written, in order, once; and makes empty files.
pub async fn a_writer_writes_in_order(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let content = bytes((9 << 20) + 5);
    let mut writer = fs.writer("/tmp/written", Write::new()).await.unwrap();
    for part in content.chunks(700_001) {
        writer.write_all(part).await.unwrap();
    }
    let receipt = writer.finish().await.unwrap();
    assert_eq!((receipt.bytes, receipt.requests), ((9 << 20) + 5, 3));
    assert!(fs.read("/tmp/written").await.unwrap() == content);

    let append = Write::new().append();
    let mut writer = fs.writer("/tmp/written", append).await.unwrap();
    writer.write_all(b"tail").await.unwrap();
    writer.shutdown().await.unwrap();
    let end = fs
        .read_range("/tmp/written", (9 << 20) + 5, 10)
        .await
        .unwrap();
    assert_eq!(&end.bytes[..], b"tail");

    let empty = fs.writer("/tmp/written", Write::new()).await.unwrap();
    assert_eq!(empty.finish().await.unwrap().bytes, 0);
    assert_eq!(fs.stat("/tmp/written").await.unwrap().size, 0);
    let existing = Write::new().existing_only();
    let absent = fs.writer("/tmp/absent", existing).await.unwrap();
    absent.finish().await.unwrap_err();
    fs.writer("/tmp/absent", existing.append())
        .await
        .unwrap_err();
    assert!(!fs.exists("/tmp/absent").await.unwrap());
    let made = fs.writer("/tmp/absent", append).await.unwrap();
    made.finish().await.unwrap();
    assert_eq!(fs.stat("/tmp/absent").await.unwrap().size, 0);
}

/// Bytes are added only where the file has the size that the caller knows.
pub async fn an_append_at_a_size_is_refused_at_another(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    assert_eq!(fs.append_at("/tmp/grows", 0, "one").await.unwrap(), 3);
    assert_eq!(fs.append_at("/tmp/grows", 3, "two").await.unwrap(), 6);
    let error = fs.append_at("/tmp/grows", 3, "two").await.unwrap_err();
    assert!(
        matches!(
            file_error(&error),
            FileError::Size {
                expected: 3,
                found: 6,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs.read_text("/tmp/grows").await.unwrap(), "onetwo");
}

/// Names are exchanged as they are, and nothing is entered or overwritten that is a directory.
pub async fn renaming_moves_what_is_named(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    fs.mkdir_with("/tmp/ren/dir", Mkdir::new().parents())
        .await
        .unwrap();
    fs.write("/tmp/ren/-rf", "a").await.unwrap();
    fs.write("/tmp/ren/b ", "b").await.unwrap();
    fs.rename("/tmp/ren/-rf", "/tmp/ren/new\nline")
        .await
        .unwrap();
    fs.rename("/tmp/ren/new\nline", "/tmp/ren/b ")
        .await
        .unwrap();
    assert_eq!(fs.read_text("/tmp/ren/b ").await.unwrap(), "a");
    let error = fs.rename("/tmp/ren/b ", "/tmp/ren/dir").await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Exists { .. }),
        "{error}"
    );
    fs.rename("/tmp/ren/dir", "/tmp/ren/moved").await.unwrap();
    let error = fs.rename("/tmp/ren/none", "/tmp/ren/x").await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    let error = fs.rename("/tmp/ren/b ", "/tmp/none/x").await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Command { command: "mv", .. }),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    assert_eq!(names_at(sandbox, "/tmp/ren").await, ["b ", "moved"]);
}

/// A walk meets everything once, links included and not entered; what it cannot list is an item.
pub async fn a_walk_meets_everything_once(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let make = Exec::shell(
        "mkdir -p w/d/deep && touch w/d/deep/f w/z && ln -s .. w/d/up && ln -s self w/d/self \
         && ln -s /nope w/d/dead",
    )
    .workdir("/tmp");
    sandbox
        .process()
        .exec(&make)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    let met: Vec<_> = fs.walk("/tmp/w").unwrap().try_collect().await.unwrap();
    let mut names: Vec<(&str, bool)> = met
        .iter()
        .map(|entry| (entry.name.as_str(), entry.file_type == FileType::Symlink))
        .collect();
    names.sort_unstable();
    let want = [
        ("d", false),
        ("d/dead", true),
        ("d/deep", false),
        ("d/deep/f", false),
        ("d/self", true),
        ("d/up", true),
        ("z", false),
    ];
    assert_eq!(names, want);
    let mut failing = fs.walk("/tmp/none").unwrap();
    let error = failing.next().await.unwrap().unwrap_err();
    assert_eq!(error.path, "/tmp/none".parse::<AbsPath>().unwrap());
    assert!(failing.next().await.is_none());
    assert!(fs.exists("/tmp/w/d/dead").await.unwrap());
    assert_eq!(fs.try_stat("/tmp/w/none").await.unwrap(), None);
    fs.rm_all("/tmp/w/d").await.unwrap();
    assert_eq!(names_at(sandbox, "/tmp/w").await, ["z"]);
}

/// What is in a folder, by its name: its kind, its mode, and its content or where it leads.
fn tree_of(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    describe(folder, "", &mut all);
    all.sort();
    all
}

fn describe(folder: &Path, below: &str, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        let found = entry.path().symlink_metadata().unwrap();
        let mode = found.permissions().mode() & 0o7777;
        let seconds = found
            .modified()
            .unwrap()
            .duration_since(std::time::UNIX_EPOCH);
        let seconds = seconds.unwrap().as_secs();
        if found.is_dir() {
            all.push(format!("{name}/ {mode:o} {seconds}"));
            describe(&entry.path(), &format!("{name}/"), all);
        } else if found.is_symlink() {
            let to = std::fs::read_link(entry.path()).unwrap();
            all.push(format!("{name} -> {}", to.display()));
        } else {
            let content = std::fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(content.get(..20).unwrap_or(&content)).into_owned();
            all.push(format!(
                "{name} {mode:o} {seconds} {} {text:?}",
                content.len()
            ));
        }
    }
}

/// A folder with all that a folder can hold, but for links out of it.
fn sample(folder: &Path) {
    let deep = folder.join("deep/er");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(folder.join("empty")).unwrap();
    for name in ["a b", "-rf", "new\nline", "é", "deep/er/f", "deep/x%20y"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    std::fs::write(folder.join("none"), "").unwrap();
    std::fs::write(folder.join("large"), bytes(300_000)).unwrap();
    let long = "n".repeat(150);
    std::fs::create_dir(folder.join(&long)).unwrap();
    std::fs::write(folder.join(&long).join(&long), "long").unwrap();
    std::os::unix::fs::symlink("deep/er", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("../../none", folder.join("deep/er/up")).unwrap();
    let set = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.join(name), mode).unwrap();
    };
    set("deep/er/f", 0o700);
    set("none", 0o604);
    set("empty", 0o711);
    set("deep/er", 0o555);
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = std::fs::File::open(folder.join("a b")).unwrap();
    file.set_modified(past).unwrap();
}

/// A directory goes up and comes down with names, modes, times and links.
pub async fn a_directory_goes_up_and_comes_down_as_it_is(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    std::fs::create_dir(&here).unwrap();
    sample(&here);
    fs.mkdir("/tmp/trees").await.unwrap();
    let up = fs
        .upload_dir(&UploadDir::new(&here, "/tmp/trees/t"))
        .await
        .unwrap();
    assert_eq!((up.files, up.links, up.method), (9, 2, TreeMethod::Archive));
    assert_eq!((&up.left_out[..], &up.changed[..]), (&[][..], &[][..]));
    assert!(up.requests < 20, "{} requests", up.requests);
    assert_eq!(names_at(sandbox, "/tmp/trees").await, ["t"]);
    let down = fs
        .download_dir(&DownloadDir::new("/tmp/trees/t", &back))
        .await
        .unwrap();
    assert_eq!(
        (down.files, down.links, down.bytes),
        (up.files, up.links, up.bytes)
    );
    assert_eq!(down.method, TreeMethod::Archive);
    assert_eq!(tree_of(&back), tree_of(&here));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&back), mode(&here));
    assert_eq!(names_in(folder.path()), ["back", "here"]);
    let parts: Vec<String> = names_at(sandbox, "/tmp").await;
    assert!(!parts.iter().any(|name| name.contains("plx-")), "{parts:?}");
}

/// A directory that is there is added to, replaced, or stays, as the rule says.
pub async fn a_directory_that_is_there_is_added_to_replaced_or_stays(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    std::fs::create_dir_all(here.join("sub")).unwrap();
    std::fs::write(here.join("sub/new"), "new").unwrap();
    std::fs::write(here.join("both"), "new").unwrap();
    fs.mkdir_with("/tmp/merge/sub", Mkdir::new().parents())
        .await
        .unwrap();
    for name in ["both", "old", "sub/old"] {
        fs.write(format!("/tmp/merge/{name}"), "old").await.unwrap();
    }
    let upload = UploadDir::new(&here, "/tmp/merge");
    let error = fs
        .upload_dir(&upload.clone().existing(Existing::Refuse))
        .await
        .unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Exists { .. }),
        "{error}"
    );
    fs.upload_dir(&upload).await.unwrap();
    assert_eq!(
        names_at(sandbox, "/tmp/merge").await,
        ["both", "old", "sub"]
    );
    assert_eq!(names_at(sandbox, "/tmp/merge/sub").await, ["new", "old"]);
    assert_eq!(fs.read_text("/tmp/merge/both").await.unwrap(), "new");

    let local = folder.path().join("local");
    std::fs::create_dir_all(local.join("sub")).unwrap();
    for name in ["both", "mine", "sub/mine"] {
        std::fs::write(local.join(name), "mine").unwrap();
    }
    let download = DownloadDir::new("/tmp/merge", &local);
    let refuse = download.clone().existing(Existing::Refuse);
    let error = fs.download_dir(&refuse).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Exists { .. }),
        "{error}"
    );
    fs.download_dir(&download).await.unwrap();
    assert_eq!(names_in(&local), ["both", "mine", "old", "sub"]);
    assert_eq!(names_in(&local.join("sub")), ["mine", "new", "old"]);
    assert_eq!(std::fs::read_to_string(local.join("both")).unwrap(), "new");
    // Nothing goes through a link of this machine.
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::remove_dir_all(local.join("sub")).unwrap();
    std::os::unix::fs::symlink(&outside, local.join("sub")).unwrap();
    let error = fs.download_dir(&download).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Exists { .. }),
        "{error}"
    );
    assert_eq!(names_in(&outside), Vec::<String>::new());

    fs.upload_dir(&upload.existing(Existing::Replace))
        .await
        .unwrap();
    assert_eq!(names_at(sandbox, "/tmp/merge").await, ["both", "sub"]);
    fs.download_dir(&download.existing(Existing::Replace))
        .await
        .unwrap();
    assert_eq!(names_in(&local), ["both", "sub"]);
    assert_eq!(names_in(folder.path()), ["here", "local", "outside"]);
    let error = fs
        .download_dir(&DownloadDir::new("/tmp/merge/both", &here))
        .await
        .unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::NotDirectory { .. }),
        "{error}"
    );
}

/// Of a directory that is hostile, nothing comes that does harm, and the receipt says what did not.
pub async fn nothing_harmful_comes_with_a_directory(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    let make = Exec::shell(
        "mkdir h && cd h && mkfifo fifo && ln -s /etc/passwd out && ln -s ../.. up && ln -s f in \
         && echo x > f && chmod 4755 f && ln -s in/../../.. odd",
    )
    .workdir("/tmp");
    sandbox
        .process()
        .exec(&make)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let receipt = fs
        .download_dir(&DownloadDir::new("/tmp/h", &to))
        .await
        .unwrap();
    let mut left: Vec<&str> = receipt
        .left_out
        .iter()
        .map(|left| left.name.as_str())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["fifo", "odd", "out", "up"]);
    assert_eq!(names_in(&to), ["f", "in"]);
    let mode = std::fs::metadata(to.join("f"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
    let few = DownloadDir::new("/tmp/h", folder.path().join("few")).max_entries(3);
    let error = fs.download_dir(&few).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Archive { .. }),
        "{error}"
    );
    assert_eq!(names_in(folder.path()), ["to"]);
}
