//! One part of a run that the server never takes, and never refuses for good: the others get through.

use std::time::{Duration, Instant};

use polyaxon_client::RunUuid;
use polyaxon_client::runs::RunStatus;
use polyaxon_tracking::{Error, Report, Sending, TrackedRun, Unsent};
use serde_json::{Value, json};
use wiremock::matchers::{body_partial_json, body_string_contains, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::refused::{server, tracking};

/// Long enough for all of a run but what is stuck.
const LIMIT: Duration = Duration::from_secs(40);

async fn start(server: &MockServer, folder: &tempfile::TempDir) -> TrackedRun {
    let tracking = tracking(server).folder(folder.path().join("run"));
    TrackedRun::start(tracking.send_limit(LIMIT)).await.unwrap()
}

fn at(run: RunUuid, rest: &str) -> String {
    format!("/api/v1/acme/demo/runs/{run}{rest}")
}

/// How the upload of `bad.bin` is answered.
async fn bad_file(server: &MockServer, run: RunUuid, answer: ResponseTemplate) {
    let place = format!("/streams/v1/ns/acme/demo/runs/{run}/artifact");
    Mock::given(method("POST"))
        .and(path(place))
        .and(body_string_contains("bad.bin"))
        .respond_with(answer)
        .mount(server)
        .await;
}

/// Statuses of this kind are answered so.
async fn bad_status(server: &MockServer, run: RunUuid, kind: &str, answer: ResponseTemplate) {
    Mock::given(method("POST"))
        .and(path(at(run, "/statuses")))
        .and(body_partial_json(json!({"condition": {"type": kind}})))
        .respond_with(answer)
        .mount(server)
        .await;
}

/// What the server was sent, a word or two a call. Without what it was asked.
async fn calls(server: &MockServer, run: RunUuid) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    let call = |request: wiremock::Request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let text = String::from_utf8_lossy(&request.body);
        let rest = request.url.path().split_once(&run.to_string())?.1;
        match (request.method.as_str(), rest) {
            ("POST", "/artifact") => {
                let name = text.split("filename=\"").nth(1)?.split('"').next()?;
                Some(format!("file {name}"))
            }
            ("POST", "/statuses") => {
                Some(format!("status {}", body["condition"]["type"].as_str()?))
            }
            ("POST", "/lineage/artifacts") => Some(format!(
                "lineage {}",
                body["artifacts"][0]["name"].as_str()?
            )),
            ("PATCH", "") => {
                let names = body.as_object()?.keys().filter(|name| *name != "merge");
                Some(format!(
                    "change {}",
                    names.cloned().collect::<Vec<_>>().join(" ")
                ))
            }
            _ => None,
        }
    };
    requests.into_iter().filter_map(call).collect()
}

fn statuses(calls: &[String]) -> Vec<&str> {
    let status = |call: &'_ String| call.starts_with("status ");
    let mut statuses: Vec<_> = calls.iter().filter(|call| status(call)).collect();
    statuses.dedup();
    statuses
        .iter()
        .map(|call| &call["status ".len()..])
        .collect()
}

fn unsent(report: &Report) -> Vec<&Sending> {
    report.unsent().iter().map(Unsent::what).collect()
}

/// One bad file, and one of everything else.
fn log(run: &TrackedRun) {
    let file = |name: &str| std::fs::write(run.outputs_path(name).unwrap(), name).unwrap();
    file("bad.bin");
    file("good.bin");
    run.log_metric(1, "loss", 0.5).unwrap();
    run.log_inputs([("a", 1)]).unwrap();
    run.log_status(RunStatus::Processing, "Test", None).unwrap();
}

#[tokio::test]
async fn a_file_that_can_never_be_uploaded_keeps_nothing_else_back() {
    tokio::join!(with_a_bad_file(500), with_a_bad_file(503));
}

async fn with_a_bad_file(status: u16) {
    let (server, uuid) = server().await;
    let folder = tempfile::tempdir().unwrap();
    bad_file(&server, uuid, ResponseTemplate::new(status)).await;
    let run = start(&server, &folder).await;
    log(&run);
    let error = run.flush().await.unwrap_err();
    let Error::NotYetSent {
        waiting, source, ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(waiting, 1);
    assert_eq!(source.status().map(|status| status.as_u16()), Some(status));
    let sent = calls(&server, uuid).await;
    for expected in [
        "file loss.plx",
        "file good.bin",
        "lineage loss",
        "change inputs",
        "status running",
        "status processing",
    ] {
        assert!(
            sent.iter().any(|call| call == expected),
            "{expected}: {sent:?}"
        );
    }
    // And what comes after it has failed.
    run.log_metric(2, "loss", 0.25).unwrap();
    run.flush().await.unwrap_err();
    let again = calls(&server, uuid).await;
    let events = |calls: &[String]| calls.iter().filter(|it| *it == "file loss.plx").count();
    assert_eq!((events(&sent), events(&again)), (1, 2));
    let report = run.end().await.unwrap();
    assert_eq!(
        unsent(&report),
        [&Sending::File("outputs/bad.bin".to_owned())]
    );
    let cause = report.unsent()[0].cause().unwrap();
    assert_eq!(cause.status().map(|status| status.as_u16()), Some(status));
    let sent = calls(&server, uuid).await;
    assert_eq!(statuses(&sent), ["running", "processing", "succeeded"]);
    assert!(sent.iter().any(|call| call == "change outputs"), "{sent:?}");
    // For a later push.
    assert!(run.path().join("run.plx.json").exists());
}

#[tokio::test]
async fn an_upload_that_hangs_at_the_end_leaves_time_for_all_else() {
    let (server, uuid) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let never = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    bad_file(&server, uuid, never).await;
    let run = start(&server, &folder).await;
    log(&run);
    let report = run.end().await.unwrap();
    assert_eq!(
        unsent(&report),
        [&Sending::File("outputs/bad.bin".to_owned())]
    );
    assert!(report.unsent()[0].cause().is_none());
    let sent = calls(&server, uuid).await;
    assert_eq!(statuses(&sent), ["running", "processing", "succeeded"]);
    for expected in [
        "file loss.plx",
        "file good.bin",
        "lineage loss",
        "change outputs",
    ] {
        assert!(
            sent.iter().any(|call| call == expected),
            "{expected}: {sent:?}"
        );
    }
}

#[tokio::test]
async fn a_status_never_goes_before_the_one_logged_earlier() {
    let (server, uuid) = server().await;
    let folder = tempfile::tempdir().unwrap();
    bad_status(&server, uuid, "processing", ResponseTemplate::new(503)).await;
    let run = start(&server, &folder).await;
    run.log_status(RunStatus::Processing, "Test", None).unwrap();
    run.log_status(RunStatus::Warning, "Test", None).unwrap();
    run.log_metric(1, "loss", 0.5).unwrap();
    let error = run.flush().await.unwrap_err();
    assert!(
        matches!(error, Error::NotYetSent { waiting: 2, .. }),
        "{error:?}"
    );
    let sent = calls(&server, uuid).await;
    assert_eq!(statuses(&sent), ["running", "processing"]);
    assert!(sent.iter().any(|call| call == "file loss.plx"), "{sent:?}");
    // At the end, what cannot be told makes way for the last word.
    let report = run.end().await.unwrap();
    assert_eq!(unsent(&report), [&Sending::Status(RunStatus::Processing)]);
    let sent = calls(&server, uuid).await;
    assert_eq!(
        statuses(&sent),
        ["running", "processing", "warning", "succeeded"]
    );
}

/// The open-source server answers 405 with an empty page where its database is locked, and where it
/// fails on what it was sent.
#[tokio::test]
async fn a_status_that_the_server_refuses_is_reported_and_holds_nothing_up() {
    let busy = || ResponseTemplate::new(405).set_body_raw("", "text/html");
    let refusal = || {
        let error = json!(["1 validation error for V1StatusCondition"]);
        ResponseTemplate::new(400).set_body_json(error)
    };
    for (answer, code) in [(refusal(), 400), (busy(), 405)] {
        let (server, uuid) = server().await;
        let folder = tempfile::tempdir().unwrap();
        Mock::given(method("GET"))
            .and(path("/api/v1/installation"))
            .respond_with(ResponseTemplate::new(200).set_body_json(json!({"dist": "ce"})))
            .mount(&server)
            .await;
        bad_status(&server, uuid, "reticulating", answer).await;
        let run = TrackedRun::start(tracking(&server).folder(folder.path().join("run")))
            .await
            .unwrap();
        let custom = RunStatus::Other("reticulating".to_owned());
        run.log_status(custom.clone(), "Test", None).unwrap();
        run.log_metric(1, "loss", 0.5).unwrap();
        run.log_status(RunStatus::Processing, "Test", None).unwrap();
        let started = Instant::now();
        let report = run.end().await.unwrap();
        // The limit is not waited for.
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(unsent(&report), [&Sending::Status(custom)]);
        let cause = report.unsent()[0].cause().unwrap();
        assert_eq!(cause.status().map(|status| status.as_u16()), Some(code));
        let sent = calls(&server, uuid).await;
        assert_eq!(
            statuses(&sent),
            ["running", "reticulating", "processing", "succeeded"]
        );
    }
}
