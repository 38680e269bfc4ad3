//! `exec/stream`: framing, completeness, and whose end it is.

use std::time::Duration;

use polyaxon_local::Limits;
use reqwest::Method;
use serde_json::{Value, json};

use crate::execs::{Execs, events, shell, text, within};
use crate::harness::{Plane, base64, code, marker, no_process, one_process, processes};

/// Well above what a loaded machine takes, well below the `sleep` that must not be waited for.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_stream_is_a_start_the_output_and_the_end_in_the_framing_of_the_wire() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let request = execs.request(Method::POST, "exec/stream");
    let script = "cat; printf 'b\\nc' >&2; exit 4";
    let members = json!({"stdin": base64("é\n".as_bytes()), "timeout_ms": 5000});
    let response = request.json(&shell(script, &members)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let events = events(&response.text().await.unwrap());
    let (first, rest) = events.split_first().unwrap();
    let (last, output) = rest.split_last().unwrap();
    assert_eq!(first.0, "start");
    assert!(first.1["pid"].as_u64().unwrap() > 1);
    first.1["started_at"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap();
    let mut output = output.to_vec();
    output.sort_by_key(|(name, _)| name == "stderr");
    assert_eq!(
        output,
        [
            ("stdout".to_owned(), json!({"text": "é\n", "offset": 3})),
            ("stderr".to_owned(), json!({"text": "b\nc", "offset": 3})),
        ]
    );
    let status = execs.status(first.1["exec_id"].as_str().unwrap()).await;
    let complete = json!({
        "exit_code": 4, "signal": null, "timed_out": false, "duration_ms": status["duration_ms"],
    });
    assert_eq!(*last, ("execution_complete".to_owned(), complete));
    assert_eq!(
        (&status["state"], &status["exit_code"]),
        (&json!("exited"), &json!(4))
    );
}

#[tokio::test]
async fn a_character_that_comes_byte_by_byte_is_sent_whole() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let bytes = "for b in a '\\303' '\\251' '\\346' '\\274' '\\242' '\\360' '\\237' '\\230'";
    let tail = "; do printf \"$b\"; sleep .03; done";
    let whole = execs
        .stream(&format!("{bytes} '\\200'{tail}"), &json!({}))
        .await;
    assert_eq!(text(&whole, "stdout"), "aé漢😀");
    let mut end = 0;
    for (_, data) in whole.iter().filter(|(name, _)| name == "stdout") {
        end += data["text"].as_str().unwrap().len();
        assert_eq!(data["offset"], end);
    }
    // Without its last byte: that is what the command wrote, one U+FFFD for each byte.
    let cut = execs.stream(&format!("{bytes}{tail}"), &json!({})).await;
    assert_eq!(text(&cut, "stdout"), "aé漢\u{fffd}\u{fffd}\u{fffd}");
    let (_, last) = cut.iter().rfind(|(name, _)| name == "stdout").unwrap();
    assert_eq!(last["offset"], 9);
}

#[tokio::test]
async fn output_comes_while_the_command_runs_and_silence_is_filled_with_pings() {
    let mut limits = Limits::default();
    limits.stream_ping = Duration::from_millis(50);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let body = shell(
        "echo early; until [ -e tmp/go ]; do sleep .02; done; echo late",
        &json!({}),
    );
    let request = execs.request(Method::POST, "exec/stream").json(&body);
    let mut response = request.send().await.unwrap();
    let mut got = String::new();
    // The command waits for a file that is made once its first output and a ping were seen.
    while !(got.contains("early") && got.contains("event: ping\ndata: {}\n\n")) {
        let chunk = within(SOON, response.chunk()).await.unwrap().unwrap();
        got.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(!got.contains("late"), "{got}");
    sandbox.write("/tmp/go", b"", &[]).await;
    got.push_str(&within(SOON, response.text()).await.unwrap());
    let events = events(&got);
    assert_eq!(text(&events, "stdout"), "early\nlate\n");
    assert_eq!(events.last().unwrap().0, "execution_complete");
}

#[tokio::test]
async fn a_stream_has_all_of_a_large_output_of_both_kinds() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let script = "seq 1 300000 & seq 300001 600000 >&2; wait";
    let events = within(2 * SOON, execs.stream(script, &json!({}))).await;
    let lines = |from: u32, to: u32| -> String { (from..=to).map(|n| format!("{n}\n")).collect() };
    assert!(text(&events, "stdout") == lines(1, 300_000));
    assert!(text(&events, "stderr") == lines(300_001, 600_000));
    // What comes at the very end is there too, however much it is.
    let events = execs
        .stream(
            "head -c 5000000 /dev/zero | tr '\\0' x; printf end",
            &json!({}),
        )
        .await;
    let output = text(&events, "stdout");
    assert_eq!(output.len(), 5_000_003);
    assert!(output.ends_with("xend"));
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_nobody_up() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let body = shell(
        "head -c 30000000 /dev/zero | tr '\\0' x; echo done >&2",
        &json!({}),
    );
    let request = execs.request(Method::POST, "exec/stream").json(&body);
    let mut response = request.send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let id = execs.ids("").await.pop().unwrap();
    assert!(first.contains(&id));
    let status = execs.until(&id, "exited").await;
    assert_eq!(status["stdout_bytes"], 30_000_000);
    // All of it is still there for the one who reads late.
    let rest = response.text().await.unwrap();
    let events = events(&format!("{first}{rest}"));
    assert_eq!(text(&events, "stdout").len(), 30_000_000);
    assert_eq!(text(&events, "stderr"), "done\n");
}

#[tokio::test]
async fn a_command_whose_stream_is_dropped_goes_on_until_its_timeout_or_a_delete() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let mark = marker();
    for end in ["timeout", "delete"] {
        let members = match end {
            "timeout" => json!({"timeout_ms": 1500}),
            _ => json!({}),
        };
        let body = shell(&format!("echo up; exec sleep {mark}"), &members);
        let request = execs.request(Method::POST, "exec/stream").json(&body);
        let mut response = request.send().await.unwrap();
        let chunk = response.chunk().await.unwrap().unwrap();
        assert!(chunk.starts_with(b"event: start\n"));
        let id = execs.ids("").await.pop().unwrap();
        drop(response);
        match end {
            // It ends by itself, so all that is sure is how.
            "timeout" => {
                let status = execs.until(&id, "timed_out").await;
                assert_eq!(
                    (&status["exit_code"], &status["signal"]),
                    (&json!(-1), &json!("SIGKILL"))
                );
            }
            _ => {
                one_process(&mark).await;
                assert_eq!(execs.status(&id).await["state"], "running");
                assert_eq!(execs.delete(&id).await.0, 204);
            }
        }
        no_process(&mark).await;
    }
}

#[tokio::test]
async fn the_end_is_told_when_the_process_is_gone_and_not_when_its_pipe_closes() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let mark = marker();
    let script = format!("sleep {mark} & echo STARTED; exec 1>&-; sleep .2; kill -TERM $$");
    let events = within(SOON, execs.stream(&script, &json!({}))).await;
    assert!(events[0].1["pid"].as_u64().unwrap() > 0);
    assert_eq!(processes(&script), [] as [u32; 0]);
    assert_eq!(text(&events, "stdout"), "STARTED\n");
    let (name, last) = events.last().unwrap();
    assert_eq!(name, "execution_complete");
    assert_eq!(
        (&last["signal"], &last["exit_code"]),
        (&json!("SIGTERM"), &json!(-1))
    );
    one_process(&mark).await;
    let events = within(SOON, execs.stream("sleep 600", &json!({"timeout_ms": 200}))).await;
    let (_, last) = events.last().unwrap();
    assert_eq!(
        (&last["timed_out"], &last["signal"]),
        (&json!(true), &json!("SIGKILL"))
    );
}

#[tokio::test]
async fn a_stopped_sandbox_never_ends_a_stream_as_if_its_command_had_succeeded() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let body = shell("echo half; sleep 600", &json!({}));
    let request = execs.request(Method::POST, "exec/stream").json(&body);
    let mut response = request.send().await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("half") {
        got.extend(response.chunk().await.unwrap().unwrap());
    }
    plane
        .post(&format!("{}/stop", sandbox.run()), &json!({}))
        .await;
    while let Ok(Some(chunk)) = within(SOON, response.chunk()).await {
        got.extend(chunk);
    }
    let got = String::from_utf8(got).unwrap();
    if let Some((_, end)) = got.split_once("event: execution_complete\ndata: ") {
        let end: Value = serde_json::from_str(end.trim()).unwrap();
        assert_eq!(
            (&end["exit_code"], &end["signal"]),
            (&json!(-1), &json!("SIGKILL"))
        );
    }
}

#[tokio::test]
async fn what_is_refused_is_an_error_and_no_stream() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let table = [
        (json!({"command": []}), 400, "invalid_request"),
        (
            json!({"command": ["true"], "tag": "t"}),
            400,
            "invalid_request",
        ),
        (
            json!({"command": ["true"], "workdir": "x"}),
            400,
            "invalid_request",
        ),
        (
            json!({"command": ["no-such-program-here"]}),
            500,
            "internal",
        ),
    ];
    for (body, status, word) in table {
        let (got, answer) = execs.post("exec/stream", &body).await;
        assert_eq!((got.as_u16(), code(&answer)), (status, word), "{body}");
    }
    assert_eq!(execs.ids("").await, [] as [&str; 0]);
}
