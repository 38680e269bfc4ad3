//! Records, lineage, files, events and logs of runs.

use polyaxon_client::runs::{RunStatus, SaveArtifacts, StatusCondition, Upload};
use polyaxon_client::{Effect, Error};
use serde_json::json;
use std::sync::{Arc, Mutex};
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, ResponseTemplate};

use super::{RUN, client_of, project, run_uuid, server};

fn of_run(rest: &str) -> String {
    format!("/api/v1/acme/demo/runs/{RUN}{rest}")
}

fn stream(rest: &str) -> String {
    format!("/streams/v1/ns/acme/demo/runs/{RUN}{rest}")
}

#[tokio::test]
async fn what_is_written_has_the_body_of_the_wire() {
    let server = server().await;
    let condition = StatusCondition::now(RunStatus::Running, Some("R".to_owned()), None);
    let table = [
        (
            "PATCH",
            of_run(""),
            json!({"inputs": {"a": 1}, "merge": true}),
        ),
        ("POST", of_run("/statuses"), json!({"condition": condition})),
        (
            "POST",
            of_run("/lineage/artifacts"),
            json!({"artifacts": [{"name": "a", "kind": "file", "summary": {}}]}),
        ),
        (
            "POST",
            "/api/v1/acme/demo/runs/sync".to_owned(),
            json!({"uuid": RUN}),
        ),
    ];
    for (verb, at, body) in &table {
        Mock::given(method(*verb))
            .and(path(at))
            .and(body_json(body))
            .respond_with(ResponseTemplate::new(201).set_body_json(json!({})))
            .expect(1)
            .mount(&server)
            .await;
    }
    let runs = client_of(&server.uri()).runs(&project());
    let change = table[0].2.as_object().unwrap();
    runs.update(run_uuid(), change).await.unwrap();
    runs.log_status(run_uuid(), &condition).await.unwrap();
    let records = table[2].2["artifacts"].as_array().unwrap();
    runs.log_lineage(run_uuid(), records).await.unwrap();
    runs.sync(&table[3].2).await.unwrap();
}

#[tokio::test]
async fn a_sync_whose_answer_was_lost_is_not_repeated() {
    let server = server().await;
    Mock::given(method("POST"))
        .and(path("/api/v1/acme/demo/runs/sync"))
        .respond_with(ResponseTemplate::new(502).set_body_string("<html>"))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&server.uri()).runs(&project());
    let error = runs.sync(&json!({"uuid": RUN})).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test]
async fn a_file_is_sent_as_a_form_whole_and_again_after_a_failure() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("local name.bin");
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    std::fs::write(&file, &bytes).unwrap();
    for (status, times) in [(503, 1), (200, 1)] {
        Mock::given(method("POST"))
            .and(path(stream("/artifact")))
            // The platform answers with an empty page.
            .respond_with(ResponseTemplate::new(status).set_body_raw("", "text/html"))
            .up_to_n_times(times)
            .expect(times)
            .mount(&server)
            .await;
    }
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let upload = Upload::new(&file, "outputs/deep/a.bin")
        .on_progress(move |sent, total| tell.lock().unwrap().push((sent, total)));
    let runs = client_of(&server.uri()).runs(&project());
    runs.upload("ns", run_uuid(), &upload).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        let kind = request.headers["content-type"].to_str().unwrap();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let mut expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"upload_file\"; \
             filename=\"a.bin\"\r\nContent-Type: text/plain\r\n\r\n"
        )
        .into_bytes();
        expected.extend_from_slice(&bytes);
        expected.extend_from_slice(
            format!(
                "\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n\
                 {{\"untar\":false,\"path\":\"outputs/deep\",\"overwrite\":true}}\r\n\
                 --{boundary}--\r\n"
            )
            .as_bytes(),
        );
        assert!(request.body == expected, "{} bytes", request.body.len());
        let length = request.headers["content-length"].to_str().unwrap();
        assert_eq!(length, expected.len().to_string());
    }
    let told = told.lock().unwrap();
    assert_eq!(
        told.iter()
            .filter(|told| **told == (200_000, 200_000))
            .count(),
        2
    );
}

#[tokio::test]
async fn an_upload_that_a_page_answers_was_not_taken() {
    let server = server().await;
    Mock::given(method("POST"))
        .and(path(stream("/artifact")))
        .respond_with(ResponseTemplate::new(200).set_body_raw("<html>log in</html>", "text/html"))
        .expect(1)
        .mount(&server)
        .await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let runs = client_of(&server.uri()).runs(&project());
    let upload = Upload::new(file.path(), "a.txt");
    let error = runs.upload("ns", run_uuid(), &upload).await.unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "{error:?}");
    for to in ["", "a/", "/a", "a/../b", "./a"] {
        let upload = Upload::new(file.path(), to);
        let error = runs.upload("ns", run_uuid(), &upload).await.unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)), "{to}: {error:?}");
    }
    let missing = Upload::new("/nowhere/at/all", "a.txt");
    let error = runs.upload("ns", run_uuid(), &missing).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error:?}");
    let error = runs.upload("n/s", run_uuid(), &upload).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error:?}");
}

#[tokio::test]
async fn files_are_listed_folder_by_folder_and_read_whatever_they_are() {
    let server = server().await;
    let tree = |folder: &'static str, body| {
        Mock::given(method("GET"))
            .and(path(stream("/artifacts/tree")))
            .and(query_param("path", folder))
            .respond_with(ResponseTemplate::new(200).set_body_json(body))
            .expect(1)
    };
    tree("", json!({"files": {"a": 1}, "dirs": ["x"]}))
        .mount(&server)
        .await;
    tree("x", json!({"files": {"b": 2}, "dirs": ["y"]}))
        .mount(&server)
        .await;
    let missing = format!(
        "Could not list path {RUN}. Error [Errno 2] No such file or directory: '/plx/{RUN}/x/y'"
    );
    tree("x/y", json!({"files": {}, "dirs": [], "error": missing}))
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path(stream("/artifact")))
        .and(query_param("path", "a b.html"))
        .and(query_param("force", "true"))
        .and(header("accept-encoding", "identity"))
        .respond_with(ResponseTemplate::new(200).set_body_raw("<html>", "text/html"))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&server.uri()).runs(&project());
    let sizes = runs.artifact_sizes("ns", run_uuid()).await.unwrap();
    let sizes: Vec<_> = sizes
        .iter()
        .map(|(path, size)| (path.as_str(), *size))
        .collect();
    assert_eq!(sizes, [("a", 1), ("x/b", 2)]);
    let mut file = runs.artifact("ns", run_uuid(), "a b.html").await.unwrap();
    assert_eq!(file.length(), Some(6));
    assert_eq!(file.chunk().await.unwrap().unwrap(), "<html>");
    assert_eq!(file.chunk().await.unwrap(), None);
}

/// The server answers with 200 then, and with no files.
#[tokio::test]
async fn a_store_that_fails_is_not_an_empty_folder() {
    let server = server().await;
    let error = format!("Could not list path {RUN}. Error Cannot connect to host store:9000");
    let folder = |path_to: &'static str, body: serde_json::Value| {
        Mock::given(method("GET"))
            .and(path(stream("/artifacts/tree")))
            .and(query_param("path", path_to))
            .respond_with(ResponseTemplate::new(200).set_body_json(body))
    };
    folder("", json!({"files": {"a": 1}, "dirs": ["outputs"]}))
        .mount(&server)
        .await;
    folder("outputs", json!({"files": {}, "dirs": [], "error": error}))
        .mount(&server)
        .await;
    let runs = client_of(&server.uri()).runs(&project());
    let place = tempfile::tempdir().unwrap();
    let save = SaveArtifacts::new("outputs", place.path());
    let failures = [
        runs.artifact_tree("ns", run_uuid(), "outputs").await.err(),
        runs.artifact_sizes("ns", run_uuid()).await.err(),
        runs.save_folder("ns", run_uuid(), &save).await.err(),
    ];
    for failed in failures {
        let failed = failed.unwrap();
        assert!(
            failed.to_string().contains("Cannot connect to host store"),
            "{failed}"
        );
        assert!(matches!(failed, Error::Api(_)), "{failed:?}");
        assert_eq!(failed.effect(), Effect::NotApplied);
    }
}

#[tokio::test]
async fn series_are_read_with_their_gaps() {
    let server = server().await;
    let series = json!([{"name": "loss", "kind": "metric", "data": {
        "step": [0.0, null], "timestamp": ["t", "t"], "metric": [0.5, null],
    }}]);
    let answer = |body| ResponseTemplate::new(200).set_body_json(body);
    Mock::given(method("GET"))
        .and(path(stream("/events/metric")))
        .and(query_param("names", "loss,acc"))
        .and(query_param("force", "true"))
        .respond_with(answer(json!({"data": series})))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path("/streams/v1/ns/acme/demo/runs/multi/events/metric"))
        .and(query_param("runs", RUN))
        .respond_with(answer(json!({"data": {RUN: series}})))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&server.uri()).runs(&project());
    let names = ["loss", "acc"];
    let one = runs
        .events("ns", run_uuid(), "metric", names)
        .await
        .unwrap();
    assert_eq!(one[0].steps(), [Some(0), None]);
    assert_eq!(one[0].values(), [Some(0.5), None]);
    assert_eq!(one[0].column("nothing"), [json!(null); 0]);
    let many = runs
        .events_of_runs("ns", &[run_uuid()], "metric", ["loss"])
        .await
        .unwrap();
    assert_eq!(many[&run_uuid()], one);
    // Nobody is asked for nothing.
    let none = runs
        .events_of_runs("ns", &[], "metric", ["loss"])
        .await
        .unwrap();
    assert_eq!(none.len(), 0);
}

#[tokio::test]
async fn logs_are_read_file_after_file() {
    let server = server().await;
    let page = |last: &str, value: &str| {
        ResponseTemplate::new(200).set_body_json(json!({
            "last_file": last, "files": ["1", "2"], "last_time": null,
            "logs": [{"timestamp": "t", "value": value}],
        }))
    };
    Mock::given(method("GET"))
        .and(path(stream("/logs")))
        .and(query_param("last_file", "1"))
        .respond_with(page("2", "second"))
        .with_priority(1)
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path(stream("/logs")))
        .respond_with(page("1", "first"))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&server.uri()).runs(&project());
    let lines = runs.logs("ns", run_uuid()).await.unwrap();
    let values: Vec<_> = lines.iter().map(|line| line.value.as_deref()).collect();
    assert_eq!(values, [Some("first"), Some("second")]);
}

#[tokio::test]
async fn a_name_that_is_no_part_of_a_path_is_not_sent() {
    let server = server().await;
    let runs = client_of(&server.uri()).runs(&project());
    for name in ["", "a/b", "..", "a b", "é"] {
        let error = runs.lineage_record(run_uuid(), name).await.unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)), "{name}: {error:?}");
    }
}
