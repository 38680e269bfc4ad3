//! What a server refuses for good, as a proxy refuses a file that is too large.

use std::path::Path;

use polyaxon_client::{Client, Config, RunUuid};
use polyaxon_tracking::{Error, Sending, TrackedRun, Tracking, Unsent};
use serde_json::json;
use wiremock::matchers::{body_string_contains, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A server that takes everything: it has one run, and what is mounted with a higher priority goes
/// before.
pub(crate) async fn server() -> (MockServer, RunUuid) {
    let (server, run) = (MockServer::start().await, RunUuid::random());
    let body = json!({"uuid": run, "settings": {"namespace": "ns"}});
    Mock::given(wiremock::matchers::any())
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .with_priority(255)
        .mount(&server)
        .await;
    (server, run)
}

pub(crate) fn tracking(server: &MockServer) -> Tracking {
    let config = Config::explicit(&server.uri()).unwrap().no_token();
    Tracking::new(
        &Client::new(&config).unwrap(),
        &"acme/demo".parse().unwrap(),
    )
}

/// How many uploads there were so far.
async fn uploads(server: &MockServer, run: RunUuid) -> usize {
    let at = format!("/streams/v1/ns/acme/demo/runs/{run}/artifact");
    let requests = server.received_requests().await.unwrap();
    let is_upload = |request: &&wiremock::Request| request.url.path() == at;
    requests.iter().filter(is_upload).count()
}

/// The flush names the file, and says what the server had against it.
fn assert_refused(flushed: Result<(), Error>) {
    let error = flushed.unwrap_err();
    let Error::NotSent { unsent, source, .. } = error else {
        panic!("{error:?}")
    };
    let what: Vec<_> = unsent.iter().map(Unsent::what).collect();
    assert_eq!(what, [&Sending::File("outputs/ckpt.bin".to_owned())]);
    assert_eq!(source.status().map(|status| status.as_u16()), Some(413));
}

/// A run whose server refuses the first uploads, so many, and has to be asked for all of them.
async fn refusing(uploads: u64, folder: &Path) -> (MockServer, TrackedRun) {
    let (server, uuid) = server().await;
    let at = format!("/streams/v1/ns/acme/demo/runs/{uuid}/artifact");
    Mock::given(method("POST"))
        .and(path(at))
        .respond_with(ResponseTemplate::new(413))
        .up_to_n_times(uploads)
        .expect(uploads)
        .mount(&server)
        .await;
    let tracking = tracking(&server).folder(folder.join("run"));
    (server, TrackedRun::start(tracking).await.unwrap())
}

#[tokio::test]
async fn a_file_that_was_refused_is_sent_once_it_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let (server, run) = refusing(1, folder.path()).await;
    let uuid = run.uuid();
    let path = run.outputs_path("ckpt.bin").unwrap();
    std::fs::write(&path, "too large").unwrap();
    assert_refused(run.flush().await);
    assert_eq!(uploads(&server, uuid).await, 1);
    // It is not asked again for the same, whatever the answer would be.
    run.flush().await.unwrap();
    assert_eq!(uploads(&server, uuid).await, 1);
    std::fs::write(&path, "small").unwrap();
    run.flush().await.unwrap();
    assert_eq!(uploads(&server, uuid).await, 2);
    drop(run.end().await.unwrap().ensure_complete().unwrap());
}

#[tokio::test]
async fn a_file_that_stays_refused_is_in_the_report_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, run) = refusing(2, folder.path()).await;
    let path = run.outputs_path("ckpt.bin").unwrap();
    for text in ["too large", "larger still"] {
        std::fs::write(&path, text).unwrap();
        assert_refused(run.flush().await);
    }
    let report = run.end().await.unwrap();
    let unsent: Vec<_> = report.unsent().iter().map(Unsent::what).collect();
    assert_eq!(unsent, [&Sending::File("outputs/ckpt.bin".to_owned())]);
    let cause = report.unsent()[0].cause().unwrap();
    assert_eq!(cause.status().map(|status| status.as_u16()), Some(413));
    assert!(run.path().join("run.plx.json").exists());
}

#[tokio::test]
async fn a_flush_names_what_was_refused_since_the_last_one() {
    let (server, uuid) = server().await;
    let folder = tempfile::tempdir().unwrap();
    Mock::given(method("PATCH"))
        .and(path(format!("/api/v1/acme/demo/runs/{uuid}")))
        .and(body_string_contains("\"name\""))
        .respond_with(ResponseTemplate::new(400).set_body_json(json!({"name": ["too long"]})))
        .mount(&server)
        .await;
    let run = TrackedRun::start(tracking(&server).folder(folder.path().join("run")))
        .await
        .unwrap();
    run.flush().await.unwrap();
    run.log_inputs([("a", 1)]).unwrap();
    for _ in 0..2 {
        run.set_name("x").unwrap();
        let error = run.flush().await.unwrap_err();
        let Error::NotSent { unsent, source, .. } = error else {
            panic!("{error:?}")
        };
        let what: Vec<_> = unsent.iter().map(Unsent::what).collect();
        assert_eq!(what, [&Sending::Record(vec!["name".to_owned()])]);
        assert!(source.to_string().contains("name: too long"), "{source}");
        run.flush().await.unwrap();
    }
    // The end says it all.
    let report = run.end().await.unwrap();
    assert_eq!(report.unsent().len(), 2);
}
