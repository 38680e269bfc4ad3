//! Transfers that go wrong on the way: what is at the destination is old or new, never a part.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use polyaxon_client::{Effect, Token};
use polyaxon_local::{Fault, FaultRule, Isolation, Limits, LocalServer};
use polyaxon_sandbox::fs::{
    Comparison, Download, DownloadDir, FileError, TreeMethod, Upload, UploadDir, Write,
};
use polyaxon_sandbox::{Error, SandboxClient};
use polyaxon_tests::contract::transfers::{self, bytes, file_error, names_at, names_in};
use polyaxon_tests::local::LocalSandbox;
use tokio::io::AsyncWriteExt as _;

mod dropped;

const PAGE: usize = 64 << 10;

fn page() -> u64 {
    u64::try_from(PAGE).unwrap()
}

/// A file of this machine, in a folder of its own.
fn local_file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

/// Where a file of the sandbox is on this machine.
fn behind(local: &LocalSandbox, path: &str) -> PathBuf {
    let run = local.sandbox.run_uuid().to_string();
    local
        .server
        .folder()
        .join(run)
        .join(path.trim_start_matches('/'))
}

fn writes(fault: Fault) -> FaultRule {
    FaultRule::new(fault).path("*/fs/write")
}

fn reads(fault: Fault) -> FaultRule {
    FaultRule::new(fault).path("*/fs/read")
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_the_old_file_and_no_part() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    fs.mkdir("/tmp/w").await.unwrap();
    fs.write("/tmp/w/t", "old").await.unwrap();
    let (_folder, here) = local_file(&bytes(3 << 20));
    local.server.faults().add(writes(Fault::Close).skip(1));
    let upload = Upload::new(&here, "/tmp/w/t").page_size(1 << 20);
    let error = fs.upload(&upload).await.unwrap_err();
    let Error::File(FileError::Upload { left, source, .. }) = &error else {
        unreachable!("{error:?}");
    };
    assert_eq!(left, &None);
    // Of the page nobody knows; of the file it is known.
    assert_eq!(
        (source.effect(), error.effect()),
        (Effect::Unknown, Effect::NotApplied)
    );
    assert_eq!(fs.read_text("/tmp/w/t").await.unwrap(), "old");
    assert_eq!(names_at(&local.sandbox, "/tmp/w").await, ["t"]);
}

/// Every page of an upload loses its answer once, after it was carried out or before.
#[tokio::test]
async fn a_page_whose_answer_is_lost_is_added_once() {
    for carried_out in [false, true] {
        for skip in 0..4 {
            let local = LocalSandbox::start().await;
            let content = bytes(3 * PAGE + 5);
            let (_folder, here) = local_file(&content);
            let rule = writes(Fault::BadGateway).skip(skip).times(1);
            let rule = if carried_out {
                rule.carried_out()
            } else {
                rule
            };
            local.server.faults().add(rule);
            let upload = Upload::new(&here, "/tmp/t").page_size(PAGE).sha256();
            let receipt = local.sandbox.fs().upload(&upload).await.unwrap();
            assert_eq!(receipt.comparison, Comparison::Same);
            // What has arrived is not sent again, but for the first page, which replaces.
            let again = u64::from(!carried_out || skip == 0);
            assert_eq!(receipt.retries, again, "{carried_out} {skip}");
            assert!(local.sandbox.fs().read("/tmp/t").await.unwrap() == content);
        }
    }
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_looked_up() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    fs.write("/tmp/log", "one").await.unwrap();
    for (rule, size) in [
        (writes(Fault::BadGateway).times(1).carried_out(), 3),
        (writes(Fault::Close).times(1), 6),
        (writes(Fault::Close).times(1).carried_out(), 9),
    ] {
        local.server.faults().add(rule);
        assert_eq!(
            fs.append_at("/tmp/log", size, "two").await.unwrap(),
            size + 3
        );
    }
    assert_eq!(fs.read_text("/tmp/log").await.unwrap(), "onetwotwotwo");
    // Where nothing can be looked up either, nobody knows.
    local.server.faults().add(writes(Fault::Close));
    local
        .server
        .faults()
        .add(FaultRule::new(Fault::Close).path("*/fs/stat").skip(1));
    let error = fs.append_at("/tmp/log", 12, "x").await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(error.lookup().is_some());
}

#[tokio::test]
async fn a_writer_adds_each_page_once() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let content = bytes(9 << 20);
    local
        .server
        .faults()
        .add(writes(Fault::Close).skip(1).times(1).carried_out());
    let mut writer = fs.writer("/tmp/t", Write::new()).await.unwrap();
    writer.write_all(&content).await.unwrap();
    let receipt = writer.finish().await.unwrap();
    assert_eq!(receipt.bytes, 9 << 20);
    assert!(fs.read("/tmp/t").await.unwrap() == content);
}

#[tokio::test]
async fn a_rename_whose_answer_is_lost_is_looked_up() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    for (name, rule) in [
        (
            "done",
            FaultRule::new(Fault::Close)
                .path("*/exec")
                .times(1)
                .carried_out(),
        ),
        ("lost", FaultRule::new(Fault::Close).path("*/exec").times(1)),
    ] {
        fs.write("/tmp/from", name).await.unwrap();
        local.server.faults().add(rule);
        fs.rename("/tmp/from", format!("/tmp/{name}"))
            .await
            .unwrap();
        assert_eq!(fs.read_text(format!("/tmp/{name}")).await.unwrap(), name);
        assert!(!fs.exists("/tmp/from").await.unwrap());
    }
}

#[tokio::test]
async fn a_service_that_takes_and_gives_less_at_once_gets_and_gives_all() {
    let mut limits = Limits::default();
    limits.write_bytes = 100_000;
    limits.read_bytes = 1 << 20;
    limits.read_bytes_max = 1 << 20;
    let server = LocalServer::builder().limits(limits).start().await.unwrap();
    let local = LocalSandbox::on(server).await;
    let fs = local.sandbox.fs();
    let content = bytes(3_000_001);
    let (folder, here) = local_file(&content);
    fs.upload(&Upload::new(&here, "/tmp/t").sha256())
        .await
        .unwrap();
    let back = folder.path().join("back");
    fs.download(&Download::new("/tmp/t", &back)).await.unwrap();
    assert!(std::fs::read(&back).unwrap() == content);
    let pages: Vec<_> = fs.reader("/tmp/t").unwrap().try_collect().await.unwrap();
    assert!(pages.concat() == content);
}

#[tokio::test]
async fn a_download_goes_on_where_its_answer_broke() {
    let content = bytes(3 * PAGE + 5);
    for cut in [0, 1, 1000, page() - 1] {
        let local = LocalSandbox::start().await;
        let fs = local.sandbox.fs();
        fs.write("/tmp/t", content.clone()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        local
            .server
            .faults()
            .add(reads(Fault::CutAfter(cut)).skip(1).times(2));
        let download = Download::new("/tmp/t", &to)
            .page_size(page())
            .parallel(1)
            .sha256();
        let receipt = fs.download(&download).await.unwrap();
        assert_eq!(receipt.comparison, Comparison::Same);
        // What is left of the page then is too short to be cut.
        let cuts = if cut == page() - 1 { 1 } else { 2 };
        assert_eq!(receipt.retries, cuts, "cut after {cut}");
        assert!(std::fs::read(&to).unwrap() == content);
    }
}

#[tokio::test]
async fn a_download_that_fails_leaves_the_old_file_and_nothing_else() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    fs.write("/tmp/t", bytes(3 * PAGE)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    std::fs::write(&to, "old").unwrap();
    local.server.faults().add(reads(Fault::CutAfter(0)).skip(1));
    let download = Download::new("/tmp/t", &to).page_size(page());
    fs.download(&download).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "old");
    assert_eq!(names_in(folder.path()), ["to"]);
}

#[tokio::test]
async fn a_download_is_resumed_unless_the_file_is_another_one() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let content = bytes(3 * PAGE);
    fs.write("/tmp/t", content.clone()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let download = Download::new("/tmp/t", &to)
        .page_size(page())
        .parallel(1)
        .sha256()
        .resume();
    let broken = || reads(Fault::CutAfter(0)).skip(2).times(6);
    local.server.faults().add(broken());
    fs.download(&download).await.unwrap_err();
    assert_eq!(
        names_in(folder.path()),
        [".to.plx-resume.json", ".to.plx-resume.part"]
    );
    let receipt = fs.download(&download).await.unwrap();
    assert_eq!(receipt.resumed_from, 2 * page());
    assert_eq!(receipt.comparison, Comparison::Same);
    assert!(std::fs::read(&to).unwrap() == content);
    assert_eq!(names_in(folder.path()), ["to"]);

    local.server.faults().add(broken());
    fs.download(&download).await.unwrap_err();
    let other: Vec<u8> = content.iter().rev().copied().collect();
    fs.write("/tmp/t", other.clone()).await.unwrap();
    let receipt = fs.download(&download).await.unwrap();
    assert_eq!(receipt.resumed_from, 0);
    assert!(std::fs::read(&to).unwrap() == other);
}

#[tokio::test]
async fn an_upload_is_resumed_from_what_has_arrived() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    fs.mkdir("/tmp/w").await.unwrap();
    let content = bytes(3 * PAGE);
    let (_folder, here) = local_file(&content);
    let upload = Upload::new(&here, "/tmp/w/t")
        .page_size(PAGE)
        .sha256()
        .resume();
    local
        .server
        .faults()
        .add(writes(Fault::Close).skip(2).times(6));
    let error = fs.upload(&upload).await.unwrap_err();
    assert!(
        matches!(&error, Error::File(FileError::Upload { left: Some(left), .. }) if left.ends_with(".part")),
        "{error:?}"
    );
    let receipt = fs.upload(&upload).await.unwrap();
    assert_eq!(
        (receipt.resumed_from, receipt.comparison),
        (2 * page(), Comparison::Same)
    );
    assert!(fs.read("/tmp/w/t").await.unwrap() == content);
    assert_eq!(names_at(&local.sandbox, "/tmp/w").await, ["t"]);
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_not_taken_for_one_that_did_not() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    fs.write("/tmp/t", bytes(3 * PAGE)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let changing = |file: PathBuf| {
        move |now: polyaxon_sandbox::fs::Progress| {
            if now.bytes > 0 {
                let mut file = std::fs::OpenOptions::new()
                    .append(true)
                    .open(&file)
                    .unwrap();
                std::io::Write::write_all(&mut file, b"more").unwrap();
            }
        }
    };
    let download = Download::new("/tmp/t", &to)
        .page_size(page())
        .on_progress(changing(behind(&local, "/tmp/t")));
    let error = fs.download(&download).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Changed { .. }),
        "{error}"
    );
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
    let size = fs.stat("/tmp/t").await.unwrap().size;
    let receipt = fs.download(&download.allow_changes()).await.unwrap();
    assert_eq!(receipt.bytes, size);

    let (_folder, here) = local_file(&bytes(3 * PAGE));
    let upload = Upload::new(&here, "/tmp/up")
        .page_size(PAGE)
        .on_progress(changing(here.clone()));
    let error = fs.upload(&upload).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Changed { .. }),
        "{error}"
    );
    assert!(!fs.exists("/tmp/up").await.unwrap());
}

#[tokio::test]
async fn two_downloads_to_one_place_do_not_meet() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let contents = [bytes(2 << 20), vec![7; 2 << 20]];
    for (at, content) in contents.iter().enumerate() {
        fs.write(format!("/tmp/{at}"), content.clone())
            .await
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("dest");
    let users = folder.path().join("dest.part");
    std::fs::write(&users, "a file of the user").unwrap();
    let download = |at: usize| Download::new(format!("/tmp/{at}"), &to).page_size(page());
    let (first, second) = (download(0), download(1));
    let (first, second) = tokio::join!(fs.download(&first), fs.download(&second));
    first.unwrap();
    second.unwrap();
    let got = std::fs::read(&to).unwrap();
    assert!(contents.contains(&got));
    assert_eq!(
        std::fs::read_to_string(users).unwrap(),
        "a file of the user"
    );
    assert_eq!(names_in(folder.path()), ["dest", "dest.part"]);
}

#[tokio::test]
async fn a_walk_goes_on_behind_what_cannot_be_listed() {
    let mut limits = Limits::default();
    limits.ls_entries = 3;
    limits.ls_entries_max = 3;
    let server = LocalServer::builder().limits(limits).start().await.unwrap();
    let local = LocalSandbox::on(server).await;
    let fs = local.sandbox.fs();
    let named =
        |items: Vec<Result<polyaxon_sandbox::fs::Entry, polyaxon_sandbox::fs::WalkError>>| {
            items
                .into_iter()
                .map(|item| match item {
                    Ok(entry) => entry.name,
                    Err(error) => format!("! {}", error.path),
                })
                .collect::<Vec<_>>()
        };
    for dir in ["/tmp/w", "/tmp/w/a", "/tmp/w/b", "/tmp/w/c"] {
        fs.mkdir(dir).await.unwrap();
    }
    for name in ["a/1", "a/2", "b/1", "b/2", "b/3", "b/4", "c/1"] {
        fs.write(format!("/tmp/w/{name}"), "").await.unwrap();
    }
    let items = named(fs.walk("/tmp/w").unwrap().collect().await);
    let want = [
        "a",
        "b",
        "c",
        "a/1",
        "a/2",
        "b/1",
        "b/2",
        "b/3",
        "! /tmp/w/b",
        "c/1",
    ];
    assert_eq!(items, want);
    // The first directory below cannot be listed, whatever is tried.
    let listing = || FaultRule::new(Fault::Close).path("*/fs/ls");
    local.server.faults().add(listing().skip(3).times(4));
    let items = named(fs.walk("/tmp/w").unwrap().collect().await);
    let want = [
        "a",
        "b",
        "c",
        "! /tmp/w/a",
        "b/1",
        "b/2",
        "b/3",
        "! /tmp/w/b",
        "c/1",
    ];
    assert_eq!(items, want);
}

/// A sandbox whose programs are these alone.
async fn with_programs(local: &LocalSandbox, programs: &[&str]) -> SandboxClient {
    let links: Vec<String> = programs
        .iter()
        .map(|program| format!("ln -s \"$(command -v {program})\" /tmp/bin/{program};"))
        .collect();
    let before = format!("mkdir /tmp/bin; {} PATH=/tmp/bin", links.join(" "));
    let program = Path::new(env!("CARGO_BIN_EXE_daemon"));
    let address = local.start_daemon_with(program, "a-token", &before).await;
    let token = Token::new("a-token").unwrap();
    local
        .sandbox
        .direct(address.parse().unwrap(), &token)
        .unwrap()
}

#[tokio::test]
async fn without_tar_a_directory_goes_file_by_file() {
    let local = LocalSandbox::start().await;
    let sandbox = with_programs(&local, &["mv", "sh"]).await;
    let fs = sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    std::fs::create_dir_all(here.join("sub/deep")).unwrap();
    let content = bytes((1 << 20) + 7);
    for name in ["a b", "sub/empty", "sub/deep/large"] {
        let content = if name == "sub/empty" {
            &[][..]
        } else {
            &content
        };
        std::fs::write(here.join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("a b", here.join("link")).unwrap();
    let up = fs
        .upload_dir(&UploadDir::new(&here, "/tmp/t"))
        .await
        .unwrap();
    assert_eq!(
        (up.method, up.files, up.links),
        (TreeMethod::FileByFile, 3, 0)
    );
    assert_eq!(up.left_out[0].name, "link");
    // The other client makes what needs a program, the one without tar brings it.
    let link = polyaxon_sandbox::Exec::shell("ln -s 'a b' t/link; mkfifo t/pipe").workdir("/tmp");
    local
        .sandbox
        .process()
        .exec(&link)
        .await
        .unwrap()
        .ensure_success()
        .unwrap();
    let down = fs
        .download_dir(&DownloadDir::new("/tmp/t", &back))
        .await
        .unwrap();
    assert_eq!(
        (down.method, down.files, down.links),
        (TreeMethod::FileByFile, 3, 1)
    );
    assert_eq!(down.left_out[0].name, "pipe");
    assert_eq!(down.bytes, 2 * ((1 << 20) + 7));
    assert_eq!(names_in(&back), ["a b", "link", "sub"]);
    assert!(std::fs::read(back.join("sub/deep/large")).unwrap() == content);
    assert_eq!(std::fs::read(back.join("sub/empty")).unwrap(), b"");
}

#[tokio::test]
async fn what_a_sandbox_lacks_is_said_in_types() {
    let local = LocalSandbox::start().await;
    let sandbox = with_programs(&local, &["sh"]).await;
    let fs = sandbox.fs();
    let (folder, here) = local_file(b"content");
    fs.write("/tmp/t", "old").await.unwrap();
    let error = fs.upload(&Upload::new(&here, "/tmp/t")).await.unwrap_err();
    assert!(
        matches!(
            file_error(&error),
            FileError::NoCommand { command: "mv", .. }
        ),
        "{error:?}"
    );
    assert_eq!(fs.read_text("/tmp/t").await.unwrap(), "old");
    let in_place = Upload::new(&here, "/tmp/t").in_place().sha256();
    let receipt = fs.upload(&in_place).await.unwrap();
    assert_eq!(receipt.comparison, Comparison::NotAvailable);
    assert_eq!(receipt.sha256.map(|digest| digest.len()), Some(64));
    let back = folder.path().join("back");
    let receipt = fs
        .download(&Download::new("/tmp/t", &back).sha256())
        .await
        .unwrap();
    assert_eq!(receipt.comparison, Comparison::NotAvailable);
    assert_eq!(std::fs::read_to_string(back).unwrap(), "content");
}

#[tokio::test]
async fn bytes_that_differ_at_the_other_end_are_found() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let (folder, here) = local_file(&bytes(2 * PAGE));
    let part = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&part);
    let tmp = behind(&local, "/tmp");
    // When all has arrived, a byte of the part changes, and not the size.
    let upload = Upload::new(&here, "/tmp/t")
        .page_size(PAGE)
        .sha256()
        .on_progress(move |now| {
            if now.total == Some(now.bytes) {
                let name = names_in(&tmp)
                    .into_iter()
                    .find(|name| name.ends_with(".part"));
                let path = tmp.join(name.unwrap());
                let mut content = std::fs::read(&path).unwrap();
                content[100] ^= 1;
                std::fs::write(&path, content).unwrap();
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
    let error = fs.upload(&upload).await.unwrap_err();
    assert!(
        matches!(file_error(&error), FileError::Digest { .. }),
        "{error}"
    );
    assert_eq!(part.load(Ordering::Relaxed), 1);
    assert!(names_at(&local.sandbox, "/tmp").await.is_empty());
    drop(folder);
}

/// Without pods the service keeps the files of a sandbox below a folder, which commands see by
/// relative names alone.
#[tokio::test]
async fn where_paths_are_mapped_our_commands_find_the_same_files() {
    let server = LocalServer::builder().isolation(Isolation::None);
    let local = LocalSandbox::on(server.start().await.unwrap()).await;
    transfers::a_file_goes_up_and_comes_down_whole(&local.sandbox).await;
    transfers::a_directory_goes_up_and_comes_down_as_it_is(&local.sandbox).await;
    transfers::renaming_moves_what_is_named(&local.sandbox).await;
}
