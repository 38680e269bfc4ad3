//! Waiting for a service, by a gateway that says what gateways say.

use std::time::Duration;

use polyaxon_client::runs::{HealthCheck, RunStatus, ServiceRoute};
use polyaxon_client::{Error, RunUuid};
use serde_json::json;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{RUN, client_of, project, run_uuid, server};

const LIMIT: Duration = Duration::from_secs(30);

fn service(route: &str, rest: &str) -> String {
    format!("/{route}/v1/ns/acme/demo/runs/{RUN}/8000{rest}")
}

async fn answers(server: &MockServer, status: u16, times: u64) {
    Mock::given(method("GET"))
        .and(path(service("rewrite-services", "/health")))
        .and(header("authorization", "Token test-token"))
        .respond_with(ResponseTemplate::new(status).set_body_raw("<html></html>", "text/html"))
        .up_to_n_times(times)
        .expect(times)
        .mount(server)
        .await;
}

async fn is(server: &MockServer, status: &str) {
    let condition =
        json!({"type": status, "status": true, "reason": "Test", "message": "so it is"});
    let body = json!({"uuid": RUN, "status": status, "status_conditions": [condition]});
    Mock::given(method("GET"))
        .and(path(format!("/api/v1/acme/demo/runs/{RUN}/statuses")))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1..)
        .mount(server)
        .await;
}

async fn wait(server: &MockServer, limit: Duration) -> Result<(), Error> {
    let check = HealthCheck::port(8000)
        .path("health")
        .route(ServiceRoute::Rewrite);
    let runs = client_of(&server.uri()).runs(&project());
    runs.wait_until_healthy("ns", run_uuid(), &check, limit)
        .await
}

#[tokio::test]
async fn a_service_is_waited_for_through_what_gateways_say_before_it_is_there() {
    let server = server().await;
    answers(&server, 404, 1).await;
    answers(&server, 502, 1).await;
    answers(&server, 503, 1).await;
    // Well is what says so, be it a page.
    answers(&server, 200, 1).await;
    is(&server, "running").await;
    wait(&server, LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_run_that_ends_ends_the_wait() {
    let server = server().await;
    answers(&server, 502, 1).await;
    is(&server, "failed").await;
    let error = wait(&server, LIMIT).await.unwrap_err();
    let Error::RunEnded {
        run,
        status,
        message,
        ..
    } = error
    else {
        panic!("{error}")
    };
    let want: (RunUuid, RunStatus) = (run_uuid(), RunStatus::Failed);
    assert_eq!((run, status), want);
    assert_eq!(message.as_deref(), Some("so it is"));
}

#[tokio::test]
async fn a_token_that_is_refused_ends_the_wait() {
    for status in [401, 403] {
        let server = server().await;
        answers(&server, status, 1).await;
        let error = wait(&server, LIMIT).await.unwrap_err();
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
    }
}

#[tokio::test]
async fn a_service_that_is_never_well_says_what_it_answered_last() {
    let server = server().await;
    Mock::given(path(service("rewrite-services", "/health")))
        .respond_with(ResponseTemplate::new(503))
        .expect(2..)
        .mount(&server)
        .await;
    is(&server, "running").await;
    let error = wait(&server, Duration::from_secs(15)).await.unwrap_err();
    assert!(
        error.to_string().contains("is still running after"),
        "{error}"
    );
    assert!(
        error.to_string().ends_with("and port 8000 is not healthy"),
        "{error}"
    );
    let Error::WaitTimedOut { last, source, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(last, RunStatus::Running);
    assert_eq!(
        source.unwrap().status().map(|status| status.as_u16()),
        Some(503)
    );
}
