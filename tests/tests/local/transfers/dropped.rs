//! Transfers that are dropped on the way.

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use polyaxon_sandbox::fs::{Download, DownloadDir, Upload, UploadDir};
use polyaxon_tests::cancel::woken_n;
use polyaxon_tests::contract::transfers::{bytes, names_at, names_in};
use polyaxon_tests::local::LocalSandbox;

use super::{PAGE, local_file, page};

/// What a transfer that was dropped may leave; a part it may not.
fn assert_old_or_new(got: &[u8], new: &[u8], polls: usize) {
    assert!(
        got == b"old" || got == new,
        "{} bytes after {polls} polls",
        got.len()
    );
}

/// Waits until a folder of this machine holds these names alone.
async fn settled(folder: &Path, names: &[&str]) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(10);
    while names_in(folder) != names {
        assert!(
            tokio::time::Instant::now() < limit,
            "{:?}",
            names_in(folder)
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_download_dropped_after_any_poll_leaves_old_or_new_and_nothing_else() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let new = bytes(5 * PAGE);
    fs.write("/tmp/t", new.clone()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let download = Download::new("/tmp/t", &to)
        .page_size(page())
        .sha256()
        .without_sync();
    let mut polls = 0;
    loop {
        std::fs::write(&to, "old").unwrap();
        let done = woken_n(fs.download(&download), polls).await;
        // A last step on the disk that has begun comes to its end.
        settled(folder.path(), &["to"]).await;
        let got = std::fs::read(&to).unwrap();
        assert_old_or_new(&got, &new, polls);
        local.sandbox.ping().await.unwrap();
        if let Some(done) = done {
            done.unwrap();
            assert!(got == new);
            break;
        }
        polls += 1;
    }
    assert!(polls > 10, "{polls}");
}

#[tokio::test]
async fn an_upload_dropped_after_any_poll_leaves_old_or_new() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let new = bytes(3 * PAGE);
    let (_folder, here) = local_file(&new);
    let mut polls = 0;
    loop {
        let to = format!("/tmp/t{polls}");
        fs.write(&to, "old").await.unwrap();
        let upload = Upload::new(&here, &to).page_size(PAGE).sha256();
        let done = woken_n(fs.upload(&upload), polls).await;
        let got = fs.read(&to).await.unwrap();
        assert_old_or_new(&got, &new, polls);
        local.sandbox.ping().await.unwrap();
        if let Some(done) = done {
            done.unwrap();
            assert!(got == new);
            break;
        }
        polls += 1;
    }
    assert!(polls > 10, "{polls}");
}

#[tokio::test]
async fn a_directory_dropped_after_any_poll_is_old_or_new() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    std::fs::create_dir(&here).unwrap();
    for name in ["a", "b"] {
        std::fs::write(here.join(name), name).unwrap();
    }
    let mut polls = 0;
    loop {
        let to = format!("/tmp/d{polls}");
        let done = woken_n(fs.upload_dir(&UploadDir::new(&here, &to)), polls).await;
        if fs.exists(&to).await.unwrap() {
            assert_eq!(names_at(&local.sandbox, &to).await, ["a", "b"]);
        }
        if let Some(done) = done {
            done.unwrap();
            break;
        }
        polls += 1;
    }
    let to = format!("/tmp/d{polls}");
    polls = 0;
    loop {
        let done = woken_n(fs.download_dir(&DownloadDir::new(&to, &back)), polls).await;
        if back.exists() {
            assert_eq!(names_in(&back), ["a", "b"]);
            std::fs::remove_dir_all(&back).unwrap();
        }
        if let Some(done) = done {
            done.unwrap();
            break;
        }
        polls += 1;
    }
    local.sandbox.ping().await.unwrap();
    assert!(polls > 5, "{polls}");
}

#[tokio::test]
async fn a_reader_and_a_walk_dropped_at_any_item_leave_the_client_usable() {
    let local = LocalSandbox::start().await;
    let fs = local.sandbox.fs();
    let content = bytes(5 * PAGE);
    fs.mkdir("/tmp/d").await.unwrap();
    for name in ["a", "b", "c"] {
        fs.write(format!("/tmp/d/{name}"), content.clone())
            .await
            .unwrap();
    }
    for count in 0..=5 {
        let reader = fs.reader("/tmp/d/a").unwrap().page_size(page());
        let pages: Vec<_> = reader.take(count).try_collect().await.unwrap();
        assert!(pages.concat() == content[..count * PAGE]);
        let walk = fs.walk("/tmp/d").unwrap();
        let entries: Vec<_> = walk.take(count).try_collect().await.unwrap();
        assert_eq!(entries.len(), count.min(3));
        local.sandbox.ping().await.unwrap();
    }
}
