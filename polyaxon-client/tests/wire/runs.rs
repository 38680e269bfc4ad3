use std::time::Duration;

use polyaxon_client::runs::{CreateRun, RunStatus, Wait};
use polyaxon_client::{Effect, Error};
use serde_json::json;
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, ResponseTemplate};

use super::{RUN, client_of, project, run_uuid, server};

fn of_run(rest: &str) -> String {
    format!("/base/api/v1/acme/demo/runs/{RUN}{rest}")
}

#[tokio::test]
async fn each_call_has_its_method_path_body_and_token() {
    let server = server().await;
    let run =
        json!({"uuid": RUN, "settings": {"namespace": "ns"}, "pending": "approval", "new": 1});
    let table = [
        (
            "POST",
            "/base/api/v1/acme/demo/runs".to_owned(),
            201,
            run.clone(),
        ),
        ("GET", of_run(""), 200, run),
        (
            "GET",
            of_run("/statuses"),
            200,
            json!({"uuid": RUN, "status": "queued", "status_conditions": []}),
        ),
        ("POST", of_run("/approve"), 200, json!({})),
        ("POST", of_run("/stop"), 200, json!({})),
        ("GET", of_run("/namespace"), 200, json!({"namespace": "ns"})),
    ];
    for (verb, at, status, body) in table {
        Mock::given(method(verb))
            .and(path(at))
            .and(header("authorization", "Token test-token"))
            .and(header("accept", "application/json"))
            .respond_with(ResponseTemplate::new(status).set_body_json(body))
            .expect(1)
            .mount(&server)
            .await;
    }
    let runs = client_of(&format!("{}/base/", server.uri())).runs(&project());
    let created = runs
        .create(&CreateRun::operation(&json!({"ports": []})).name("n"))
        .await
        .unwrap();
    assert_eq!(
        (created.uuid, created.namespace()),
        (run_uuid(), Some("ns"))
    );
    assert!(runs.get(run_uuid()).await.unwrap().awaits_approval());
    assert_eq!(
        runs.statuses(run_uuid()).await.unwrap().status,
        RunStatus::Queued
    );
    runs.approve(run_uuid()).await.unwrap();
    runs.stop(run_uuid()).await.unwrap();
    assert_eq!(runs.namespace(run_uuid()).await.unwrap(), "ns");

    let sent = server.received_requests().await.unwrap();
    let create: serde_json::Value = serde_json::from_slice(&sent[0].body).unwrap();
    assert_eq!(create, json!({"content": "{\"ports\":[]}", "name": "n"}));
    assert!(
        sent[0].headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("polyaxon-rust/")
    );
}

#[tokio::test]
async fn a_wait_tells_each_change_and_ends_at_its_target() {
    let server = server().await;
    let status = |status: &str| json!({"uuid": RUN, "status": status, "status_conditions": []});
    for (word, times) in [("queued", 2), ("starting", 1), ("running", 1)] {
        Mock::given(method("GET"))
            .and(path(of_run("/statuses")))
            .respond_with(ResponseTemplate::new(200).set_body_json(status(word)))
            .up_to_n_times(times)
            .expect(times)
            .mount(&server)
            .await;
    }
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = std::sync::Arc::clone(&seen);
    let wait = Wait::up_to(Duration::from_secs(10))
        .on_progress(move |now| keep.lock().unwrap().push(now.status.to_string()));
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    runs.wait_for(run_uuid(), &RunStatus::Running, wait)
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["queued", "starting", "running"]);
}

#[tokio::test]
async fn a_wait_ends_at_once_where_the_run_has_ended_and_says_why() {
    let server = server().await;
    let failed = json!({"uuid": RUN, "status": "failed", "status_conditions": [
        {"type": "created", "status": true},
        {"type": "failed", "status": "True", "reason": "ImagePullBackOff", "message": "no such image"}
    ]});
    Mock::given(method("GET"))
        .and(path(of_run("/statuses")))
        .respond_with(ResponseTemplate::new(200).set_body_json(failed))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    let error = runs
        .wait_for(run_uuid(), &RunStatus::Running, Duration::from_secs(60))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("run {RUN} has ended as failed: no such image (ImagePullBackOff)")
    );
    assert_eq!(error.effect(), Effect::NotApplied);
}

#[tokio::test]
async fn a_wait_that_comes_to_its_limit_says_what_the_run_waits_for() {
    let server = server().await;
    let statuses = json!({"uuid": RUN, "status": "created", "status_conditions": []});
    Mock::given(path(of_run("/statuses")))
        .respond_with(ResponseTemplate::new(200).set_body_json(statuses))
        .mount(&server)
        .await;
    Mock::given(path(of_run("")))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({"uuid": RUN, "pending": "approval"})),
        )
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    let wait = Duration::from_secs(2);
    let error = runs
        .wait_for(run_uuid(), &RunStatus::Running, wait)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("run {RUN} is still created after ")),
        "{text}"
    );
    assert!(text.ends_with(", it waits for: approval"), "{text}");
}

#[tokio::test]
async fn an_answer_that_does_not_parse_says_where_and_that_the_call_was_carried_out() {
    let server = server().await;
    Mock::given(method("POST"))
        .and(body_json(
            json!({"is_managed": false, "managed_by": "user"}),
        ))
        .respond_with(
            ResponseTemplate::new(201)
                .set_body_json(json!({"uuid": RUN, "settings": {"namespace": 7}})),
        )
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    let error = runs.create(&CreateRun::unmanaged()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Decode { at, .. } if at == "settings.namespace"),
        "{error:?}"
    );
    assert_eq!(error.effect(), Effect::Applied);
}

#[tokio::test]
async fn a_name_that_the_server_would_refuse_is_not_sent() {
    let server = server().await;
    let runs = client_of(&server.uri()).runs(&project());
    let error = runs
        .create(&CreateRun::unmanaged().name("x".repeat(129)))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::InvalidInput(input) if input.field() == "name"));
}

#[tokio::test]
async fn a_wait_that_may_approve_does_so_until_the_run_goes_on() {
    let server = server().await;
    let statuses = |status: &str| json!({"uuid": RUN, "status": status, "status_conditions": []});
    for (word, times) in [("created", 2), ("running", 1)] {
        Mock::given(path(of_run("/statuses")))
            .respond_with(ResponseTemplate::new(200).set_body_json(statuses(word)))
            .up_to_n_times(times)
            .expect(times)
            .mount(&server)
            .await;
    }
    Mock::given(path(of_run("")))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({"uuid": RUN, "pending": "approval"})),
        )
        .expect(2)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path(of_run("/approve")))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({})))
        .expect(2)
        .mount(&server)
        .await;
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    let wait = Wait::up_to(Duration::from_secs(10)).approve();
    runs.wait_for(run_uuid(), &RunStatus::Running, wait)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_submitted_run_that_cannot_be_looked_at_is_there_all_the_same() {
    let server = server().await;
    Mock::given(method("POST"))
        .and(path("/base/api/v1/acme/demo/runs"))
        .respond_with(ResponseTemplate::new(201).set_body_json(json!({"uuid": RUN})))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path(of_run("")))
        .respond_with(ResponseTemplate::new(404))
        .expect(1)
        .mount(&server)
        .await;
    let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
    let error = runs.submit(&CreateRun::default()).await.unwrap_err();
    // Who repeats what was not applied would have two.
    assert_eq!(error.effect(), Effect::Applied);
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(RUN), "{error}");
    let Error::CreatedRunUnread { run, source, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(run, run_uuid());
    assert_eq!(source.status().map(|status| status.as_u16()), Some(404));
}

#[tokio::test]
async fn only_the_open_source_edition_says_that_it_is_one() {
    let table = [
        (json!({"dist": "ce", "version": "2.13.0"}), true),
        (json!({"dist": "ee"}), false),
        (json!({"dist": null}), false),
        (json!({}), false),
    ];
    for (installation, is_community) in table {
        let server = server().await;
        Mock::given(path("/base/api/v1/installation"))
            .respond_with(ResponseTemplate::new(200).set_body_json(&installation))
            .mount(&server)
            .await;
        let runs = client_of(&format!("{}/base", server.uri())).runs(&project());
        let said = runs.is_community_server().await.unwrap();
        assert_eq!(said, is_community, "{installation}");
    }
}
