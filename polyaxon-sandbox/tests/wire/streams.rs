//! What the client makes of streams that are cut, broken, silent, or spelled otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polyaxon_client::Effect;
use polyaxon_sandbox::process::{
    Chunk, Cursor, ExecEvents, ExecId, StreamEvent, Streaming, Termination,
};
use polyaxon_sandbox::{Error, Exec, SandboxClient};
use rustix::time::{ClockId, clock_gettime};

use super::raw::{Answer, EVENTS, Raw, absent, events, json};

const START: &str = "event: start\ndata: {\"exec_id\":\"e\",\"pid\":7}\n\n";
const END: &str = "event: execution_complete\ndata: {\"exit_code\":0,\"duration_ms\":5}\n\n";

/// The text that stands for bytes of which some are none of a character.
const CUT: char = '\u{fffd}';

fn output(stream: &str, text: &str, offset: usize) -> String {
    let data = serde_json::json!({"text": text, "offset": offset});
    format!("event: {stream}\ndata: {data}\n\n")
}

async fn stream(sandbox: &SandboxClient) -> ExecEvents {
    let exec = Exec::new(["true"]);
    sandbox.process().exec_stream(&exec).await.unwrap()
}

/// A service that streams this and has no records.
async fn streaming(answer: Answer) -> Raw {
    Raw::start(move |asked| match asked {
        "POST /exec/stream" => answer.clone(),
        _ => absent(),
    })
    .await
}

/// What comes, and the error behind it.
async fn read(mut events: ExecEvents) -> (Vec<StreamEvent>, Option<Error>) {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => seen.push(event),
            Err(error) => {
                assert!(events.next().await.is_none(), "it ends with the error");
                return (seen, Some(error));
            }
        }
    }
    (seen, None)
}

fn chunks(events: &[StreamEvent]) -> Vec<&Chunk> {
    let outputs = events.iter().filter_map(|event| match event {
        StreamEvent::Output(chunk) => Some(chunk),
        _ => None,
    });
    outputs.collect()
}

fn texts(events: &[StreamEvent]) -> Vec<String> {
    let chunks = chunks(events);
    chunks
        .iter()
        .map(|chunk| chunk.text().into_owned())
        .collect()
}

#[track_caller]
fn ended(events: &[StreamEvent]) -> &Termination {
    match events.last() {
        Some(StreamEvent::Complete(end)) => &end.termination,
        other => panic!("the last event is {other:?}"),
    }
}

#[tokio::test]
async fn lines_may_end_as_the_standard_allows() {
    let table = [
        "event: stdout\r\ndata: {\"data\":\"a\"}\r\n\r\nevent: execution_complete\r\ndata:{\"exit_code\":0}\r\n\r\n",
        "\u{feff}event: stdout\ndata: {\"text\":\"a\",\"offset\":1}\n\n: note\n\nevent: execution_complete\ndata: {\"exit_code\":0}\n\n",
        "event:stdout\rdata:{\"text\":\"a\"}\r\revent:execution_complete\rdata:{\"exit_code\":\"0\"}\r\r",
        "id: 1\nevent: stdout\nretry: 5\ndata: {\"text\":\ndata: \"a\"}\n\nevent: execution_complete\ndata: {\"exit_code\":0}\n\n",
    ];
    for text in table {
        let service = streaming(events(&[text])).await;
        let (seen, error) = read(stream(&service.sandbox).await).await;
        assert!(error.is_none(), "{text:?}: {error:?}");
        assert_eq!(texts(&seen), ["a"], "{text:?}");
        assert_eq!(ended(&seen), &Termination::Exited(0));
    }
}

#[tokio::test]
async fn an_end_of_an_event_that_is_cut_in_two_loses_nothing() {
    let service = streaming(events(&[
        "event: stdout\ndata: {\"text\":\"1\"}\n",
        "\nevent: stdout\ndata: {\"text\":\"2\"}\n",
        "\nevent: stdout\ndata: {\"text\":\"3\"}\n",
        "\nevent: execution_complete\ndata: {\"exit_code\":0}\n",
        "\n",
    ]))
    .await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&seen), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_stream_without_its_end_is_an_error_that_knows_how_far_it_was_read() {
    let half = output("stdout", "half", 4) + &output("stderr", "x", 1);
    let cases = [
        (events(&[START, &half]), Some("e")),
        (events(&[&half]), None),
        (
            events(&[
                START,
                &half,
                "event: execution_complete\ndata: {\"exit_code\":0}\n",
            ]),
            Some("e"),
        ),
        (
            Answer::Reset(format!("{EVENTS}{START}{half}").into_bytes()),
            Some("e"),
        ),
    ];
    for (answer, id) in cases {
        let service = streaming(answer.clone()).await;
        let (seen, error) = read(stream(&service.sandbox).await).await;
        assert_eq!(texts(&seen), ["half", "x"], "{answer:?}");
        let error = error.unwrap();
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.is_retryable());
        let Error::Interrupted(interrupted) = &error else {
            panic!("{error:?}")
        };
        let cursor = Cursor {
            stdout: 4,
            stderr: 1,
        };
        assert_eq!(interrupted.cursor, cursor);
        assert_eq!(interrupted.exec_id.as_ref().map(ExecId::as_str), id);
        if id.is_some() {
            let text = error.to_string();
            assert_eq!(
                text,
                "exec e was followed to byte 4 of stdout and 1 of stderr"
            );
        }
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_an_error_and_no_end() {
    let table = [
        (
            "event: execution_complete\ndata: {}\n\n",
            "there is no exit code",
        ),
        ("event: stdout\ndata: {\"offset\":3}\n\n", "cannot be read"),
        ("event: stdout\ndata: nothing\n\n", "cannot be read"),
        (
            "event: error\ndata: {\"code\":\"internal\",\"message\":\"no space\"}\n\n",
            "the service gave up: no space (internal)",
        ),
        ("event: error\ndata: [1]\n\n", "the service gave up"),
        (
            "event: stdout\ndata: {\"text\":\"ab\",\"offset\":2}\n\nevent: stdout\ndata: {\"text\":\"a\",\"offset\":1}\n\n",
            "goes back from 2 to 1",
        ),
    ];
    for (text, problem) in table {
        let service = streaming(events(&[START, text])).await;
        let (seen, error) = read(stream(&service.sandbox).await).await;
        assert!(
            !seen
                .iter()
                .any(|event| matches!(event, StreamEvent::Complete(_)))
        );
        let error = error.unwrap();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(problem), "{text:?}: {cause}");
        assert_eq!(error.effect(), Effect::Unknown);
    }
}

#[tokio::test]
async fn events_of_a_newer_service_pass_through() {
    let service = streaming(events(&[
        START,
        "event: resource_usage\ndata: {\"cpu\":1}\n\n",
        "data: no JSON\n\n",
        END,
    ]))
    .await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    let others: Vec<String> = seen
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Other { name, data, .. } => Some(format!("{name} {data}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        others,
        [r#"resource_usage {"cpu":1}"#, r#"message "no JSON""#]
    );
}

#[tokio::test]
async fn a_large_event_takes_time_in_proportion_and_has_a_limit() {
    /// What this thread, which does all of it, has worked: what else the machine does is not in it.
    fn worked() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.try_into().unwrap()
    }
    async fn took(mib: usize) -> Duration {
        let event = output("stdout", &"x".repeat(mib << 20), mib << 20);
        let service = streaming(events(&[&event, END])).await;
        let exec = Exec::new(["true"]);
        let how = Streaming::new().event_bytes(80 << 20);
        let began = worked();
        let process = service.sandbox.process();
        let events = process.exec_stream_with(&exec, how);
        let (seen, error) = read(events.await.unwrap()).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(chunks(&seen)[0].bytes.len(), mib << 20);
        worked() - began
    }
    let (small, large) = (took(16).await, took(64).await);
    assert!(large < small * 12, "16 MiB: {small:?}, 64 MiB: {large:?}");

    let event = output("stdout", &"x".repeat(2 << 20), 2 << 20);
    let service = streaming(events(&[START, &event, END])).await;
    let how = Streaming::new().event_bytes(1 << 20);
    let exec = Exec::new(["true"]);
    let process = service.sandbox.process();
    let events = process.exec_stream_with(&exec, how);
    let (_, error) = read(events.await.unwrap()).await;
    let cause = std::error::Error::source(&error.unwrap())
        .and_then(std::error::Error::source)
        .unwrap()
        .to_string();
    assert_eq!(cause, "an event is larger than 1048576 bytes");
}

#[tokio::test]
async fn a_silent_stream_ends_at_its_limit_and_says_whether_the_sandbox_is_there() {
    let idle = Duration::from_secs(8);
    for answers in [true, false] {
        let first = format!("{EVENTS}{START}{}", output("stdout", "up", 2));
        let service = Raw::start(move |asked| match asked {
            "POST /exec/stream" => Answer::Silence(first.clone().into_bytes()),
            _ if answers => json("200 OK", r#"{"status":"ok"}"#),
            _ => Answer::Silence(Vec::new()),
        })
        .await;
        let exec = Exec::new(["true"]);
        let how = Streaming::new().idle(idle);
        let process = service.sandbox.process();
        let events = process.exec_stream_with(&exec, how);
        let began = Instant::now();
        let (seen, error) = read(events.await.unwrap()).await;
        let took = began.elapsed();
        assert!(took >= idle && took < Duration::from_secs(30), "{took:?}");
        assert_eq!(texts(&seen), ["up"]);
        let error = error.unwrap();
        let Error::Interrupted(interrupted) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(interrupted.sandbox_answers, Some(answers));
        assert_eq!(interrupted.cursor.stdout, 2);
        let end = match answers {
            true => "; the sandbox still answers",
            false => "; the sandbox does not answer either",
        };
        assert!(error.to_string().ends_with(end), "{error}");
    }
}

#[tokio::test]
async fn signs_of_life_keep_a_stream_open_up_to_its_whole_limit() {
    let (first, ping) = (format!("{EVENTS}{START}"), "event: ping\ndata: {}\n\n");
    let again = Answer::Again(first.into_bytes(), ping.into(), Duration::from_millis(50));
    let service = streaming(again).await;
    let (exec, process) = (Exec::new(["true"]), service.sandbox.process());
    let how = Streaming::new()
        .idle(Duration::from_secs(8))
        .limit(Duration::from_secs(17));
    let began = Instant::now();
    let events = process.exec_stream_with(&exec, how).await.unwrap();
    let (seen, error) = read(events).await;
    // More than twice as long as it may be silent.
    assert!(began.elapsed() >= Duration::from_secs(17));
    assert_eq!(seen.len(), 1, "a sign of life is no event");
    let cause = std::error::Error::source(&error.unwrap())
        .and_then(std::error::Error::source)
        .unwrap()
        .to_string();
    assert!(cause.contains("its end was not told"), "{cause}");
}

/// The log of a command that wrote `whole` to standard output.
fn log_of(whole: &'static [u8], asked: &str) -> Option<Answer> {
    let query = asked.strip_prefix("GET /exec/bg/e/logs?")?;
    let number = |name: &str| {
        let (_, rest) = query.split_once(name)?;
        rest.split('&').next()?.parse::<usize>().ok()
    };
    let offset = number("offset=").unwrap_or(0).min(whole.len());
    let max = number("max_bytes=").unwrap_or(65536);
    let part = &whole[offset..whole.len().min(offset + max)];
    let mut data = String::new();
    for chunk in part.utf8_chunks() {
        data.push_str(chunk.valid());
        data.extend(chunk.invalid().iter().map(|_| CUT));
    }
    let next = offset + part.len();
    let page = serde_json::json!({
        "exec_id": "e", "stream": "stdout", "offset": offset, "next_offset": next,
        "bytes": part.len(), "data": data, "eof": next == whole.len(), "state": "exited",
    });
    Some(json("200 OK", &page.to_string()))
}

fn record_of(stdout: usize) -> Answer {
    let record = format!(
        r#"{{"exec_id":"e","state":"exited","exit_code":0,"stdout_bytes":{stdout},"stderr_bytes":0}}"#
    );
    json("200 OK", &record)
}

/// A service that streams `parts` of a command that wrote `whole`, and counts what else is asked.
async fn recorded(whole: &'static [u8], parts: Vec<String>) -> (Raw, Arc<AtomicUsize>) {
    let pages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pages);
    let service = Raw::start(move |asked| match asked {
        "POST /exec/stream" => {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            events(&parts)
        }
        "GET /exec/bg/e" => record_of(whole.len()),
        _ => match log_of(whole, asked) {
            Some(page) => {
                count.fetch_add(1, Ordering::SeqCst);
                page
            }
            None => absent(),
        },
    })
    .await;
    (service, pages)
}

#[tokio::test]
async fn what_the_stream_lacks_at_its_end_is_read_from_the_log() {
    let whole = "first é and the rest that came too late".as_bytes();
    let parts = vec![START.into(), output("stdout", "first ", 6), END.into()];
    let (service, pages) = recorded(whole, parts).await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&seen).concat().as_bytes(), whole);
    assert_eq!(chunks(&seen)[1].start, 6);
    assert_eq!(ended(&seen), &Termination::Exited(0));
    assert_eq!(pages.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_the_stream_skips_is_read_from_the_log() {
    let whole = b"0123456789abcdef";
    let parts = vec![
        START.into(),
        output("stdout", "01", 2),
        output("stdout", "89", 10),
        output("stdout", "abcdef", 16),
        END.into(),
    ];
    let (service, _) = recorded(whole, parts).await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    let mut at = 0;
    for chunk in chunks(&seen) {
        assert_eq!(chunk.start, at);
        at = chunk.end;
    }
    assert_eq!(texts(&seen).concat().as_bytes(), whole);
}

#[tokio::test]
async fn a_character_that_the_stream_cuts_is_put_together_by_the_log() {
    let whole = "aé漢😀!".as_bytes();
    for cut in 1..whole.len() {
        let halves = [&whole[..cut], &whole[cut..]].map(|half| {
            let mut text = String::new();
            for chunk in half.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| CUT));
            }
            text
        });
        let parts = vec![
            START.into(),
            output("stdout", &halves[0], cut),
            output("stdout", &halves[1], whole.len()),
            END.into(),
        ];
        let (service, pages) = recorded(whole, parts).await;
        let (seen, error) = read(stream(&service.sandbox).await).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(&seen).concat().as_bytes(), whole, "cut at {cut}");
        assert!(
            chunks(&seen).iter().all(|chunk| !chunk.lossy),
            "cut at {cut}"
        );
        let is_cut = halves.concat().contains(CUT);
        assert_eq!(pages.load(Ordering::SeqCst), usize::from(is_cut));
    }
}

#[tokio::test]
async fn output_that_is_no_text_is_said_and_soon_not_asked_about_any_more() {
    let whole: &'static [u8] = &[0xff; 200];
    let cut = |count: usize| CUT.to_string().repeat(count);
    let mut parts = vec![START.to_owned()];
    parts.extend((1..=100).map(|n| output("stdout", &cut(2), n * 2)));
    parts.push(END.to_owned());
    let (service, pages) = recorded(whole, parts).await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&seen).concat(), cut(200));
    assert!(chunks(&seen).iter().all(|chunk| chunk.lossy));
    assert_eq!(chunks(&seen).last().unwrap().end, 200);
    assert!(pages.load(Ordering::SeqCst) <= 8, "{pages:?}");
}

#[tokio::test]
async fn a_service_without_logs_has_its_cut_characters_said() {
    let service = streaming(events(&[
        START,
        &output("stdout", "a\u{fffd}", 2),
        &output("stdout", "\u{fffd}b\u{fffd}", 5),
        END,
    ]))
    .await;
    let (seen, error) = read(stream(&service.sandbox).await).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&seen).concat(), "a\u{fffd}\u{fffd}b\u{fffd}");
    let lossy: Vec<bool> = chunks(&seen).iter().map(|chunk| chunk.lossy).collect();
    assert_eq!(lossy, [false, true, true]);
    assert_eq!(chunks(&seen).last().unwrap().end, 5);
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_gives_what_came_whole_before() {
    let text = [
        START,
        &output("stdout", "one\n", 4),
        &output("stderr", "é\n", 3),
        END,
    ]
    .concat();
    for cut in 0..=text.len() {
        let service = streaming(events(&[&text[..text.floor_char_boundary(cut)]])).await;
        let (seen, error) = read(stream(&service.sandbox).await).await;
        let got: String = texts(&seen).concat();
        assert!("one\né\n".starts_with(&got), "{got:?}");
        let is_whole = cut == text.len();
        assert_eq!(error.is_none(), is_whole, "cut at {cut}");
        if let Some(Error::Interrupted(interrupted)) = &error {
            let Cursor { stdout, stderr } = interrupted.cursor;
            assert_eq!(stdout + stderr, got.len() as u64);
        } else {
            assert!(is_whole);
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_closes_its_connection() {
    let first = format!("{EVENTS}{START}");
    let service = Raw::start(move |asked| match asked {
        "POST /exec/stream" => Answer::Silence(first.clone().into_bytes()),
        _ => json("200 OK", r#"{"status":"ok"}"#),
    })
    .await;
    for _ in 0..50 {
        let mut events = stream(&service.sandbox).await;
        assert!(matches!(
            events.next().await,
            Some(Ok(StreamEvent::Started(_)))
        ));
    }
    // Each of them had one, and none is left that is waited for.
    service.sandbox.ping().await.unwrap();
    assert_eq!(service.connections(), 51);
}
