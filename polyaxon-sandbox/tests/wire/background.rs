//! What the client makes of records and logs that are not what they should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polyaxon_client::Effect;
use polyaxon_sandbox::process::{ExecState, LogStream, Logs, StreamEvent, Termination};
use polyaxon_sandbox::{Error, Exec, Lookup};
use serde_json::{Value, json};

use super::raw::{Answer, Raw, absent, json as answer};

const LIMIT: Duration = Duration::from_secs(60);

fn ok(body: &Value) -> Answer {
    answer("200 OK", &body.to_string())
}

fn bad_gateway() -> Answer {
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    let length = page.len();
    let text = format!(
        "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{page}"
    );
    Answer::Bytes(vec![text.into_bytes()])
}

/// A service whose record is the next of these each time, and stays the last one.
async fn in_turn(records: Vec<Value>) -> (Raw, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = Raw::start(move |line| match line {
        "GET /exec/bg/e" => {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            ok(records.get(turn).or(records.last()).unwrap())
        }
        _ => absent(),
    })
    .await;
    (service, asked)
}

#[tokio::test]
async fn a_state_that_is_not_known_is_waited_through() {
    let records = ["running", "paused", "paused", "exited"];
    let records = records.map(|state| json!({"exec_id": "e", "state": state, "exit_code": 7}));
    let (service, asked) = in_turn(records.to_vec()).await;
    let exec = service.sandbox.process().bg("e");
    let end = exec.wait(LIMIT).await.unwrap();
    assert_eq!(end.termination, Termination::Exited(7));
    assert_eq!(asked.load(Ordering::SeqCst), 4);

    let evicted = json!({"exec_id": "e", "state": "evicted", "exit_code": null, "signal": "SIGKILL",
        "finished_at": "2024-01-01T00:00:00Z"});
    let (service, _) = in_turn(vec![evicted]).await;
    let end = service.sandbox.process().bg("e").wait(LIMIT).await.unwrap();
    assert_eq!(end.termination, Termination::Signaled("SIGKILL".into()));
}

#[tokio::test]
async fn an_end_that_the_service_does_not_know_is_no_success() {
    for state in ["orphaned", "failed_to_start", "exited"] {
        let (service, _) = in_turn(vec![json!({"exec_id": "e", "state": state})]).await;
        let error = service
            .sandbox
            .process()
            .bg("e")
            .wait(LIMIT)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, Error::EndUnknown { state: s, .. } if s.as_str() == state),
            "{error:?}"
        );
        assert_eq!(error.effect(), Effect::Unknown);
    }
}

#[tokio::test]
async fn numbers_and_times_in_records_and_pages_are_read_in_their_spellings() {
    let record = json!({"exec_id": "e", "pid": "12", "state": "exited", "exit_code": 3.0,
        "duration_ms": "1500", "started_at": "2024-01-01 00:00:00", "finished_at": "garbage",
        "stdout_bytes": 5e9, "stderr_bytes": "9223372036854775807"});
    let (service, _) = in_turn(vec![record]).await;
    let status = service.sandbox.process().bg("e").status().await.unwrap();
    assert_eq!((status.pid, status.exit_code), (12, Some(3)));
    assert_eq!(status.stdout_bytes, 5_000_000_000);
    assert_eq!(status.stderr_bytes, i64::MAX.unsigned_abs());
    assert!(status.started_at.is_some() && status.finished_at.is_none());

    let negative = json!({"exec_id": "e", "state": "exited", "stdout_bytes": -1});
    let (service, _) = in_turn(vec![negative]).await;
    let error = service
        .sandbox
        .process()
        .bg("e")
        .status()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`stdout_bytes`"), "{error}");

    let page = json!({"offset": "0", "next_offset": 3.0, "bytes": "3", "data": "abc"});
    let service = Raw::start(move |_| ok(&page)).await;
    let exec = service.sandbox.process().bg("e");
    let page = exec.logs(Logs::new()).await.unwrap();
    assert_eq!((page.next_offset, page.bytes, page.eof), (3, 3, false));
}

/// A log of `whole`, in pages of at most ten bytes, while its command runs, and then ends.
fn page(asked: &str, whole: &str, running: bool) -> Option<Answer> {
    let (_, rest) = asked
        .strip_prefix("GET /exec/bg/e/logs?")?
        .split_once("offset=")?;
    let offset: usize = rest.split('&').next()?.parse().ok()?;
    let is_stdout = asked.contains("stream=stdout");
    let whole = if is_stdout { whole } else { "" };
    let part = &whole[offset.min(whole.len())..whole.len().min(offset + 10)];
    let next = offset + part.len();
    Some(ok(&json!({
        "exec_id": "e", "stream": "stdout", "offset": offset, "next_offset": next,
        "bytes": part.len(), "data": part, "eof": next >= whole.len(),
        "state": if running { "running" } else { "exited" },
    })))
}

#[tokio::test]
async fn an_end_for_now_is_no_end_and_full_pages_are_not_waited_between() {
    let whole = "0123456789".repeat(40);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let text = whole.clone();
    let service = Raw::start(move |line| match line {
        "GET /exec/bg/e" => ok(&json!({"exec_id": "e", "state": "exited", "exit_code": 0})),
        line => {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            // It says `eof` with each last page, and that it runs, up to the 46th.
            page(line, &text, turn < 46).unwrap_or_else(absent)
        }
    })
    .await;
    let exec = service.sandbox.process().bg("e");
    let began = Instant::now();
    let mut events = exec.follow(LogStream::Stdout);
    let mut seen = String::new();
    let mut full = None;
    while let Some(event) = events.next().await {
        if let StreamEvent::Output(chunk) = event.unwrap() {
            seen += &chunk.text();
            full = Some(began.elapsed());
        }
    }
    assert_eq!(seen, whole);
    assert!(events.completion().unwrap().success());
    assert!(asked.load(Ordering::SeqCst) >= 46);
    // Forty pages, without one pause of the longest kind between them.
    assert!(full.unwrap() < Duration::from_secs(25), "{full:?}");
}

#[tokio::test]
async fn a_service_that_refuses_to_follow_is_asked_without() {
    for status in ["400 Bad Request", "404 Not Found"] {
        let body = r#"{"error":{"code":"invalid_request","message":"follow: unknown"}}"#;
        let service = Raw::start(move |line| match line {
            "GET /exec/bg/e" => ok(&json!({"exec_id": "e", "state": "exited", "exit_code": 0})),
            line if line.contains("follow=") => answer(status, body),
            line => page(line, "all of it", false).unwrap_or_else(absent),
        })
        .await;
        let exec = service.sandbox.process().bg("e");
        let result = exec.output(99).await.unwrap();
        assert_eq!(result.stdout.text().unwrap(), "all of it", "{status}");
    }
}

#[tokio::test]
async fn a_log_that_fails_for_a_while_is_asked_again_and_one_that_makes_no_sense_is_not() {
    let failures = Arc::new(AtomicUsize::new(3));
    let left = Arc::clone(&failures);
    let service = Raw::start(move |line| match line {
        "GET /exec/bg/e" => ok(&json!({"exec_id": "e", "state": "exited", "exit_code": 0})),
        line => {
            let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            match fails {
                Ok(_) => bad_gateway(),
                Err(_) => page(line, "a", false).unwrap_or_else(absent),
            }
        }
    })
    .await;
    let exec = service.sandbox.process().bg("e");
    let events = exec.follow(LogStream::Stdout);
    assert_eq!(events.collect(9).await.unwrap().stdout.bytes(), "a");

    let table = [
        (
            json!({"offset": 4, "next_offset": 2, "data": "", "state": "running"}),
            "goes back from 4 to 2",
        ),
        (
            json!({"offset": 4, "next_offset": 4, "data": "x", "state": "running"}),
            "stays, with data, from 4 to 4",
        ),
    ];
    for (page, problem) in table {
        let service = Raw::start(move |_| ok(&page)).await;
        let exec = service.sandbox.process().bg("e");
        let from = polyaxon_sandbox::process::Cursor {
            stdout: 4,
            stderr: 4,
        };
        let error = exec.follow_from(from).next().await.unwrap().unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(problem), "{cause}");
        let Error::Interrupted(interrupted) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(interrupted.cursor, from);
        // Whoever only follows has changed nothing.
        assert_eq!(error.effect(), Effect::NotApplied);
    }
}

#[tokio::test]
async fn a_start_without_an_id_and_one_that_cannot_be_read_can_be_looked_up() {
    for body in ["{}", r#"{"exec_id":""}"#, "[", r#"{"exec_id":7}"#] {
        let service = Raw::start(move |line| match line {
            "POST /exec/bg" => answer("202 Accepted", body),
            "GET /exec/bg?tag=t" => ok(&json!({"execs": [{"exec_id": "e", "tag": "t"}]})),
            _ => absent(),
        })
        .await;
        let process = service.sandbox.process();
        let exec = Exec::new(["true"]).tag("t");
        let error = process.exec_bg(&exec).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Applied, "{body}");
        assert!(matches!(error.lookup(), Some(Lookup::StartedExec { tag, .. }) if tag == "t"));
        // All the same the id can be had.
        let result = process.durable(&exec).start().await.unwrap();
        assert_eq!(result.id().as_str(), "e", "{body}");
        let untagged = process.exec_bg(&Exec::new(["true"])).await.unwrap_err();
        assert_eq!(untagged.lookup(), None);
    }
}

#[tokio::test]
async fn a_tag_is_for_background_execs_alone() {
    let service = Raw::start(|_| absent()).await;
    let process = service.sandbox.process();
    let exec = Exec::new(["true"]).tag("t");
    for error in [
        process.exec(&exec).await.unwrap_err(),
        process.exec_stream(&exec).await.unwrap_err(),
    ] {
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "tag: is for background execs: exec_bg and durable");
    }
    assert_eq!(service.connections(), 0);
}

#[tokio::test]
async fn waiting_says_the_last_failure_where_its_time_is_over() {
    let service = Raw::start(|_| bad_gateway()).await;
    let exec = service.sandbox.process().bg("e");
    let error = exec.wait(Duration::from_millis(100)).await.unwrap_err();
    let Error::StillRunning { state, source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(state, &ExecState::Running);
    assert!(source.as_ref().unwrap().to_string().contains("502"));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_cut_output_without_a_log_stays_cut() {
    let cut = json!({"exec_id": "e", "exit_code": 0, "stdout": "ab", "stderr": "",
        "duration_ms": 1, "timed_out": false, "stdout_truncated": true});
    let service = Raw::start(move |line| match line {
        "POST /exec" => ok(&cut),
        _ => absent(),
    })
    .await;
    let process = service.sandbox.process();
    let result = process.exec(&Exec::new(["true"])).await.unwrap();
    let full = process.full_output(result.clone(), 1 << 20).await.unwrap();
    assert_eq!(full, result);
    assert!(full.stdout.is_truncated());
}

#[tokio::test]
async fn output_that_was_not_kept_is_asked_for_once() {
    let details = json!({"kind": "output_dropped", "reason": "log_limit", "exec_id": "e",
        "stream": "stderr", "stored_bytes": 7, "written_bytes": 10});
    let body = json!({"error": {"code": "internal", "message": "m", "details": details}});
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = Raw::start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        answer("500 Internal Server Error", &body.to_string())
    })
    .await;
    let exec = service.sandbox.process().bg("e");
    let part = Logs::new().stream(LogStream::Stderr).offset(8);
    let error = exec.logs(part).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(!error.is_retryable());
    let dropped = error.dropped_output().unwrap();
    assert_eq!(dropped.stream, LogStream::Stderr);
    assert_eq!((dropped.stored_bytes, dropped.written_bytes), (7, 10));
}
