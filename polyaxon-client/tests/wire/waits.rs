//! Waits whose calls are not answered: their limit is one for everything.

use std::time::{Duration, Instant};

use polyaxon_client::Error;
use polyaxon_client::runs::{HealthCheck, RunStatus};
use serde_json::json;

use super::stub::{Connection, Stub};
use super::{RUN, client_of, project, run_uuid};

const LIMIT: Duration = Duration::from_secs(2);
/// What a busy machine needs on top. A call alone has 60 s.
const AMPLE: Duration = Duration::from_secs(20);

/// What the wait says at its limit: the last status, its text, and whether a call had failed.
fn timed_out(result: Result<(), Error>, started: Instant) -> (RunStatus, String, bool) {
    let elapsed = started.elapsed();
    assert!(LIMIT <= elapsed && elapsed < LIMIT + AMPLE, "{elapsed:?}");
    let error = result.unwrap_err();
    let text = error.to_string();
    let said = match error {
        Error::WaitTimedOut {
            run, last, source, ..
        } => Some((run, last, source.is_some())),
        _ => None,
    };
    let (run, last, has_failed) = said.unwrap();
    assert_eq!(run, run_uuid());
    (last, text, has_failed)
}

/// Answers so many times that the run is queued, and then never again.
async fn silent_after(times: usize) -> Stub {
    let body = json!({"uuid": RUN, "status": "queued", "status_conditions": []}).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Stub::start(move |mut connection: Connection| {
        let answer = answer.clone();
        async move {
            for _ in 0..times {
                connection.request().await;
                connection.send(&answer).await;
            }
            connection.closed().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_wait_ends_at_its_limit_where_nothing_is_answered() {
    let server = silent_after(0).await;
    let runs = client_of(&server.url).runs(&project());
    for final_only in [false, true] {
        let started = Instant::now();
        let result = match final_only {
            true => runs.wait_until_final(run_uuid(), LIMIT).await,
            false => runs.wait_for(run_uuid(), &RunStatus::Running, LIMIT).await,
        };
        let (last, text, has_failed) = timed_out(result.map(drop), started);
        assert_eq!((last, has_failed), (RunStatus::Unknown, false));
        assert!(text.ends_with("s, as there was no answer"), "{text}");
    }
}

#[tokio::test]
async fn a_wait_whose_last_call_hangs_says_what_it_saw_before() {
    let server = silent_after(2).await;
    let runs = client_of(&server.url).runs(&project());
    let started = Instant::now();
    let result = runs.wait_for(run_uuid(), &RunStatus::Running, LIMIT).await;
    let (last, text, has_failed) = timed_out(result.map(drop), started);
    assert_eq!((last, has_failed), (RunStatus::Queued, false));
    assert!(text.contains("is still queued after"), "{text}");
}

#[tokio::test]
async fn a_wait_for_a_service_ends_at_its_limit_where_nothing_is_answered() {
    let server = silent_after(0).await;
    let runs = client_of(&server.url).runs(&project());
    let started = Instant::now();
    let check = HealthCheck::port(8000);
    let result = runs
        .wait_until_healthy("ns", run_uuid(), &check, LIMIT)
        .await;
    let (last, text, has_failed) = timed_out(result, started);
    assert_eq!((last, has_failed), (RunStatus::Unknown, false));
    assert!(text.ends_with("and port 8000 is not healthy"), "{text}");
}
