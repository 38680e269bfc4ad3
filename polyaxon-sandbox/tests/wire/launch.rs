use std::time::{Duration, Instant};

use polyaxon_client::Effect;
use polyaxon_client::runs::RunStatus;
use polyaxon_sandbox::{Error, SandboxClient, SandboxSpec};
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{RUN, SANDBOX, client_of, project, sandbox_of};

fn api(rest: &str) -> String {
    format!("/api/v1/acme/demo/runs{rest}")
}

fn of_run(rest: &str) -> String {
    api(&format!("/{RUN}{rest}"))
}

async fn created(server: &MockServer) {
    let run = json!({"uuid": RUN, "settings": {"namespace": "test-ns"}});
    let answer = ResponseTemplate::new(201).set_body_json(run);
    Mock::given(method("POST"))
        .and(path(api("")))
        .respond_with(answer)
        .expect(1)
        .mount(server)
        .await;
}

async fn statuses(server: &MockServer, words: &[(&str, u64)]) {
    for (word, times) in words {
        let body = json!({"uuid": RUN, "status": word, "status_conditions": [
            {"type": word, "status": "True", "reason": "Because", "message": "of a reason"}]});
        let answer = ResponseTemplate::new(200).set_body_json(body);
        Mock::given(path(of_run("/statuses")))
            .respond_with(answer)
            .up_to_n_times(*times)
            .mount(server)
            .await;
    }
}

async fn launch(server: &MockServer) -> Result<SandboxClient, Error> {
    SandboxClient::launch(
        &client_of(&server.uri()),
        &project(),
        &SandboxSpec::image("i"),
    )
    .await
}

#[tokio::test]
async fn a_launch_waits_through_queue_and_gateway_until_the_service_answers() {
    let server = MockServer::start().await;
    created(&server).await;
    statuses(&server, &[("queued", 1), ("starting", 1), ("running", 99)]).await;
    let page = ResponseTemplate::new(502)
        .set_body_raw("<html><title>502 Bad Gateway</title></html>", "text/html");
    let ping = format!("{SANDBOX}/ping");
    Mock::given(path(ping.as_str()))
        .respond_with(page)
        .up_to_n_times(2)
        .mount(&server)
        .await;
    let ok = ResponseTemplate::new(200).set_body_json(json!({"status": "ok"}));
    Mock::given(path(ping))
        .respond_with(ok)
        .with_priority(9)
        .expect(1)
        .mount(&server)
        .await;
    assert_eq!(launch(&server).await.unwrap().run_uuid().to_string(), RUN);
}

#[tokio::test]
async fn a_launch_that_fails_keeps_the_run_and_the_reason() {
    let server = MockServer::start().await;
    created(&server).await;
    statuses(&server, &[("queued", 1), ("failed", 99)]).await;
    let error = launch(&server).await.unwrap_err();
    assert_eq!(error.run_uuid().unwrap().to_string(), RUN);
    assert_eq!(error.effect(), Effect::Applied);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        cause,
        format!("run {RUN} has ended as failed: of a reason (Because)")
    );
}

#[tokio::test]
async fn a_run_that_ends_while_its_service_is_waited_for_is_not_waited_for_any_longer() {
    let server = MockServer::start().await;
    created(&server).await;
    statuses(&server, &[("running", 1), ("stopped", 99)]).await;
    let page = ResponseTemplate::new(502).set_body_raw("<html></html>", "text/html");
    Mock::given(path(format!("{SANDBOX}/ping")))
        .respond_with(page)
        .mount(&server)
        .await;
    let error = launch(&server).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("has ended as stopped"), "{cause}");
}

#[tokio::test]
async fn a_service_that_refuses_the_token_is_not_waited_for() {
    let server = MockServer::start().await;
    created(&server).await;
    statuses(&server, &[("running", 99)]).await;
    let page = ResponseTemplate::new(403)
        .set_body_raw("<html><title>403 Forbidden</title></html>", "text/html");
    Mock::given(path(format!("{SANDBOX}/ping")))
        .respond_with(page)
        .expect(1)
        .mount(&server)
        .await;
    let error = launch(&server).await.unwrap_err();
    assert_eq!(error.run_uuid().unwrap().to_string(), RUN);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.starts_with("ping was answered with 403 Forbidden"),
        "{cause}"
    );
}

#[tokio::test]
async fn stopping_asks_and_waiting_for_the_stop_confirms() {
    let server = MockServer::start().await;
    let done = ResponseTemplate::new(200).set_body_json(json!({}));
    Mock::given(method("POST"))
        .and(path(of_run("/stop")))
        .respond_with(done)
        .expect(1)
        .mount(&server)
        .await;
    statuses(&server, &[("stopping", 2), ("stopped", 1)]).await;
    let status = sandbox_of(&server.uri())
        .stop_and_wait(Duration::from_secs(10))
        .await
        .unwrap();
    assert_eq!(status, RunStatus::Stopped);
}

#[tokio::test]
async fn the_limit_of_a_wait_holds_for_a_service_that_takes_calls_and_never_answers() {
    let server = MockServer::start().await;
    created(&server).await;
    statuses(&server, &[("running", 99)]).await;
    let never = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    Mock::given(path(format!("{SANDBOX}/ping")))
        .respond_with(never)
        .expect(1)
        .mount(&server)
        .await;
    let client = client_of(&server.uri());
    let pending = SandboxClient::create(&client, &project(), &SandboxSpec::image("i")).await;
    let started = Instant::now();
    let limit = Duration::from_secs(3);
    let error = pending.unwrap().ready(limit).await.unwrap_err();
    // A call by itself has 60 s.
    assert!(
        started.elapsed() < limit + Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(error.run_uuid().unwrap().to_string(), RUN);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("ping got no answer from"), "{cause}");
}
