//! Files that are saved: old or new, and never a part.

use std::fs;
use std::pin::Pin;
use std::sync::mpsc::Receiver;
use std::task::Poll;

use polyaxon_client::Error;
use polyaxon_client::runs::SaveArtifacts;
use serde_json::json;
use tokio::task::JoinHandle;
use wiremock::matchers::{method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::stub::Stub;
use super::{RUN, client_of, project, run_uuid, server};

fn at(rest: &str) -> String {
    format!("/streams/v1/ns/acme/demo/runs/{RUN}{rest}")
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_download_that_breaks_off_leaves_what_was_there() {
    let server = Stub::start(|mut connection| async move {
        connection.request().await;
        connection
            .send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a part")
            .await;
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model.bin");
    fs::write(&to, "old").unwrap();
    let runs = client_of(&server.url).runs(&project());
    let save = SaveArtifacts::new("outputs/model.bin", &to);
    let error = runs.save_file("ns", run_uuid(), &save).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&to).unwrap(), "old");
    assert_eq!(names(folder.path()), ["model.bin"]);
}

async fn tree(server: &MockServer, folder: &str, body: serde_json::Value) {
    Mock::given(method("GET"))
        .and(path(at("/artifacts/tree")))
        .and(query_param("path", folder))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1)
        .mount(server)
        .await;
}

#[tokio::test]
async fn a_name_that_leads_out_of_the_folder_is_refused_before_anything_is_written() {
    for (files, dirs) in [
        (json!({"../evil": 1, "fine": 1}), json!([])),
        (json!({"fine": 1, "a\\b": 1}), json!([])),
        (json!({"fine": 1, "": 1}), json!([])),
    ] {
        let server = server().await;
        tree(&server, "outputs", json!({"files": files, "dirs": dirs})).await;
        let folder = tempfile::tempdir().unwrap();
        let runs = client_of(&server.uri()).runs(&project());
        let save = SaveArtifacts::new("outputs", folder.path().join("to"));
        let error = runs.save_folder("ns", run_uuid(), &save).await.unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)), "{error:?}");
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let server = server().await;
    Mock::given(path(at("/artifact")))
        .respond_with(ResponseTemplate::new(200).set_body_string("text"))
        .mount(&server)
        .await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let to = folder.path().join("file/below");
    let runs = client_of(&server.uri()).runs(&project());
    let error = runs
        .save_file("ns", run_uuid(), &SaveArtifacts::new("a", &to))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("file/below"), "{error}");
    assert!(matches!(error, Error::Disk { .. }), "{error:?}");
}

#[tokio::test]
async fn a_download_that_is_refused_leaves_nothing() {
    let server = server().await;
    Mock::given(path(at("/artifact")))
        .respond_with(ResponseTemplate::new(404))
        .expect(1)
        .mount(&server)
        .await;
    let folder = tempfile::tempdir().unwrap();
    let runs = client_of(&server.uri()).runs(&project());
    let save = SaveArtifacts::new("outputs/model.bin", folder.path().join("model.bin"));
    let error = runs.save_file("ns", run_uuid(), &save).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// As its part is being made: that is not finished then, and must not stay.
#[test]
fn a_download_that_is_dropped_leaves_no_part() {
    // What is done on the disk is done one after the other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = server().await;
        Mock::given(path(at("/artifact")))
            .respond_with(ResponseTemplate::new(200).set_body_string("text"))
            .mount(&server)
            .await;
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        let runs = client_of(&server.uri()).runs(&project());
        let save = SaveArtifacts::new("a", below.join("to"));
        let mut saving = Box::pin(runs.save_file("ns", run_uuid(), &save));
        // With its folder there, the part is next.
        while !below.exists() {
            let polled = poll_while_nothing_is_done(saving.as_mut()).await;
            assert!(polled.is_pending());
        }
        let (release, held) = std::sync::mpsc::channel();
        let busy = keep_busy(held);
        let polled = std::future::poll_fn(|context| Poll::Ready(saving.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        drop(saving);
        release.send(()).unwrap();
        busy.await.unwrap();
        // Comes after all that the download has begun.
        tokio::fs::metadata(&below).await.unwrap();
        assert_eq!(names(&below), Vec::<String>::new());
    });
}

/// Polls once, with the thread for files kept busy, and waits until the future can go on.
async fn poll_while_nothing_is_done<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    let (release, held) = std::sync::mpsc::channel();
    let busy = keep_busy(held);
    let mut is_polled = false;
    let polled = std::future::poll_fn(|context| {
        if is_polled {
            return Poll::Ready(Poll::Pending);
        }
        is_polled = true;
        let polled = future.as_mut().poll(context);
        release.send(()).unwrap();
        match polled {
            Poll::Ready(output) => Poll::Ready(Poll::Ready(output)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    busy.await.unwrap();
    polled
}

fn keep_busy(until: Receiver<()>) -> JoinHandle<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is to be in the way of others"
    )]
    tokio::task::spawn_blocking(move || until.recv().unwrap_or_default())
}
