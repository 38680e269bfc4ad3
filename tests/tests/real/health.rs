//! Waiting for a real service behind nginx, set up as the platform's gateway.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use polyaxon_client::Error;
use polyaxon_client::runs::{HealthCheck, RunStatus, ServiceRoute};
use serde_json::json;

use crate::nginx::{Gateway, Tls};
use crate::program::{Port, Program};
use crate::provided::{scratch, script};
use crate::runs::post;
use crate::tracking::NAMESPACE;

const LIMIT: Duration = Duration::from_secs(60);
/// What nginx writes where nobody listens.
const NOBODY: &str = "Connection refused";

/// Starts a wait for `/health` on this port, which the gateway cuts off the front of the path.
fn wait(gateway: &Gateway, port: u16) -> tokio::task::JoinHandle<Result<(), Error>> {
    let runs = gateway.client.runs(gateway.sandbox.project());
    let run = gateway.sandbox.run_uuid();
    let check = HealthCheck::port(port).path("/health");
    let check = check.route(ServiceRoute::Rewrite);
    tokio::spawn(async move { runs.wait_until_healthy(NAMESPACE, run, &check, LIMIT).await })
}

/// Waits until the file says this.
async fn said(file: &Path, what: &str) {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.contains(what) {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "no {what:?} in {file:?}: {text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_service_that_comes_late_is_waited_for_through_502_and_404() {
    let gateway = Gateway::start(Tls::Without).await;
    let taken = Port::take();
    let port = taken.number();
    let folder = scratch(&format!("service-{port}"));
    let waiting = wait(&gateway, port);
    said(&gateway.error_log, NOBODY).await;

    // The service is there, and has not loaded yet what it serves.
    let log = folder.join("requests.log");
    let mut service = script("REAL_POLYAXON_PYTHON", "with_parent.py");
    service
        .args(["python3", "-u", "-m", "http.server"])
        .args([&port.to_string(), "--bind", "127.0.0.1", "--directory"])
        .arg(folder.join("served"))
        .stderr(File::create(&log).unwrap());
    std::fs::create_dir(folder.join("served")).unwrap();
    let _service = Program::spawn(&mut service);
    said(&log, "\"GET /health HTTP/1.1\" 404").await;
    assert!(!waiting.is_finished());

    std::fs::write(folder.join("served/health"), "well").unwrap();
    waiting.await.unwrap().unwrap();
    let requests = std::fs::read_to_string(&log).unwrap();
    let last = requests.lines().last().unwrap();
    assert!(last.contains("\"GET /health HTTP/1.1\" 200"), "{requests}");
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_run_that_ends_before_its_service_is_there_ends_the_wait() {
    let gateway = Gateway::start(Tls::Without).await;
    let nobody = Port::take();
    let waiting = wait(&gateway, nobody.number());
    said(&gateway.error_log, NOBODY).await;
    assert!(!waiting.is_finished());

    let runs = gateway.client.runs(gateway.sandbox.project());
    let run = gateway.sandbox.run_uuid();
    let failed = json!({"type": "failed", "status": true, "reason": "Test",
        "message": "the model does not fit"});
    post(&gateway.client, &runs, run, failed).await;
    let error = waiting.await.unwrap().unwrap_err();
    let Error::RunEnded {
        run: ended,
        status,
        message,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((ended, status), (run, RunStatus::Failed));
    assert_eq!(message.as_deref(), Some("the model does not fit"));
}
