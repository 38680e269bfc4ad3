//! Streamed execs: output comes while it is written, whole, in order, and the end is told.

use std::time::Duration;

use polyaxon_sandbox::process::{
    Chunk, Completion, Cursor, ExecEvents, ExecState, LogStream, Signal, StreamEvent, Termination,
};
use polyaxon_sandbox::{Exec, SandboxClient};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::cancel::poll_n;

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

async fn stream(sandbox: &SandboxClient, exec: Exec) -> ExecEvents {
    sandbox.process().exec_stream(&exec).await.unwrap()
}

/// All events of a stream, which has to end well within the limit.
async fn all(mut events: ExecEvents) -> Vec<StreamEvent> {
    let mut seen = Vec::new();
    let read = async {
        while let Some(event) = events.next().await {
            seen.push(event.unwrap());
        }
    };
    timeout(LIMIT, read).await.unwrap();
    assert!(events.next().await.is_none(), "nothing comes after the end");
    seen
}

fn chunks(events: &[StreamEvent], stream: LogStream) -> Vec<&Chunk> {
    let outputs = events.iter().filter_map(|event| match event {
        StreamEvent::Output(chunk) if chunk.stream == stream => Some(chunk),
        _ => None,
    });
    outputs.collect()
}

/// The bytes of chunks that follow each other without a gap from `start` on.
fn joined(chunks: &[&Chunk], start: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = start;
    for chunk in chunks {
        assert_eq!(chunk.start, at, "a gap or a repetition");
        if !chunk.lossy {
            assert_eq!(chunk.end - chunk.start, chunk.bytes.len() as u64);
        }
        at = chunk.end;
        bytes.extend_from_slice(&chunk.bytes);
    }
    bytes
}

fn completion(events: &[StreamEvent]) -> &Completion {
    match events.last() {
        Some(StreamEvent::Complete(completion)) => completion,
        other => panic!("the last event is {other:?}"),
    }
}

/// A stream begins with the start, has both outputs with their offsets, and ends with the end.
pub async fn a_stream_tells_start_output_and_end(sandbox: &SandboxClient) {
    let exec = Exec::shell("echo out; echo error >&2; exit 3");
    let events = all(stream(sandbox, exec).await).await;
    let Some(StreamEvent::Started(started)) = events.first() else {
        panic!("the first event is {:?}", events.first())
    };
    assert!(!started.exec_id.as_str().is_empty() && started.pid > 0);
    assert_eq!(joined(&chunks(&events, LogStream::Stdout), 0), b"out\n");
    assert_eq!(joined(&chunks(&events, LogStream::Stderr), 0), b"error\n");
    assert_eq!(completion(&events).termination, Termination::Exited(3));
    let record = sandbox.process().bg(started.exec_id.clone());
    let status = record.status().await.unwrap();
    assert_eq!(
        (status.state, status.exit_code, status.stdout_bytes),
        (ExecState::Exited, Some(3), 4)
    );
}

/// Codes, signals and the time limit are told as of `exec`.
pub async fn an_end_in_a_stream_is_told_exactly(sandbox: &SandboxClient) {
    let table = [
        ("exit 0", Termination::Exited(0)),
        ("exit 137", Termination::Exited(137)),
        ("kill -9 $$", Termination::Signaled(Signal::Kill)),
        ("kill -TERM $$", Termination::Signaled(Signal::Term)),
        ("sleep 90", Termination::TimedOut),
    ];
    for (line, want) in table {
        // Only what does not end by itself is to be ended.
        let exec = match want {
            Termination::TimedOut => Exec::shell(line).timeout(Duration::from_millis(500)),
            _ => Exec::shell(line),
        };
        let events = all(stream(sandbox, exec).await).await;
        assert_eq!(completion(&events).termination, want, "{line}");
    }
}

/// A character whose bytes come one by one is never told in halves; one that has no end is told as
/// no character.
pub async fn characters_that_come_byte_by_byte_are_whole(sandbox: &SandboxClient) {
    // In the middle of the second one it waits for whoever has seen the first.
    let program = "import os, sys, time\n\
        for at, byte in enumerate(bytes.fromhex(sys.argv[1])):\n\
        \x20   while at == 2 and not os.path.exists('contract-seen'): time.sleep(.01)\n\
        \x20   sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(.02)";
    let whole = "aé漢😀";
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let exec = Exec::new(["python3", "-u", "-c", program, &hex(whole.as_bytes())]);
    let mut coming = stream(sandbox, exec.workdir("/tmp")).await;
    let mut events = Vec::new();
    let first = async {
        while chunks(&events, LogStream::Stdout).is_empty() {
            events.push(coming.next().await.unwrap().unwrap());
        }
    };
    timeout(LIMIT, first).await.unwrap();
    sandbox.fs().write("/tmp/contract-seen", "").await.unwrap();
    events.extend(all(coming).await);
    let parts = chunks(&events, LogStream::Stdout);
    assert_eq!(parts[0].bytes, "a");
    assert!(parts.iter().all(|chunk| !chunk.lossy));
    assert_eq!(joined(&parts, 0), whole.as_bytes());

    let cut = &whole.as_bytes()[..whole.len() - 1];
    let exec = Exec::new(["python3", "-u", "-c", program, &hex(cut)]).workdir("/tmp");
    let events = all(stream(sandbox, exec).await).await;
    let parts = chunks(&events, LogStream::Stdout);
    let text = String::from_utf8(joined(&parts, 0)).unwrap();
    // One for each byte that is none of a character.
    assert_eq!(text, "aé漢\u{fffd}\u{fffd}\u{fffd}");
    assert!(parts.last().unwrap().lossy);
    assert_eq!(parts.last().unwrap().end, cut.len() as u64);
}

/// Much output comes whole, of both at once.
pub async fn large_output_comes_whole_in_a_stream(sandbox: &SandboxClient) {
    let exec = Exec::shell("seq -f 'é%.0f' 400000 & seq -f 'x%.0f' 400000 >&2; wait");
    let events = all(stream(sandbox, exec).await).await;
    let lines = |mark: &str| -> String { (1..=400_000).map(|n| format!("{mark}{n}\n")).collect() };
    let stdout = joined(&chunks(&events, LogStream::Stdout), 0);
    assert!(stdout == lines("é").as_bytes(), "{} bytes", stdout.len());
    let stderr = joined(&chunks(&events, LogStream::Stderr), 0);
    assert!(stderr == lines("x").as_bytes(), "{} bytes", stderr.len());
    assert_eq!(completion(&events).termination, Termination::Exited(0));
}

/// Output is handed over while the command runs: it waits for what is done then.
pub async fn live_output_comes_before_the_end(sandbox: &SandboxClient) {
    let line = "echo one; until [ -e contract-go ]; do sleep 0.01; done; echo two; exit 5";
    let exec = Exec::shell(line).workdir("/tmp");
    let (tell, mut told) = mpsc::unbounded_channel();
    let process = sandbox.process();
    let run = process.exec_with(&exec, move |chunk| {
        // The receiver is gone once it has heard of the first.
        let _heard = tell.send(chunk.text().into_owned());
    });
    let go = async {
        let first = told.recv().await.unwrap();
        sandbox.fs().write("/tmp/contract-go", "").await.unwrap();
        let mut all = first;
        while let Some(more) = told.recv().await {
            all += &more;
        }
        all
    };
    let (result, seen) = timeout(LIMIT, async { tokio::join!(run, go) })
        .await
        .unwrap();
    let result = result.unwrap();
    assert_eq!(seen, "one\ntwo\n");
    assert_eq!(result.stdout.text().unwrap(), "one\ntwo\n");
    assert_eq!(result.termination, Termination::Exited(5));
}

/// Lines are cut where the command ended them, whatever the pieces are.
pub async fn lines_of_a_stream_are_those_of_the_command(sandbox: &SandboxClient) {
    let exec =
        Exec::shell("printf 'one\\ntwo'; sleep 0.05; printf ' more\\r\\n\\nlast'; echo e >&2");
    let mut lines = stream(sandbox, exec).await.lines();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next().await {
        let line = line.unwrap();
        match line.stream {
            LogStream::Stdout => stdout.push((line.text, line.ended)),
            LogStream::Stderr => stderr.push((line.text, line.ended)),
        }
    }
    let line = |text: &str, ended| (text.to_owned(), ended);
    assert_eq!(
        stdout,
        [
            line("one", true),
            line("two more", true),
            line("", true),
            line("last", false)
        ]
    );
    assert_eq!(stderr, [line("e", true)]);
    assert!(lines.events().completion().unwrap().success());
}

/// Whoever stops reading does not stop the command; whoever terminates it does.
pub async fn a_dropped_stream_stops_nothing_and_a_terminated_one_ends(sandbox: &SandboxClient) {
    let exec = Exec::shell("echo up; sleep 90").timeout(Duration::from_secs(100));
    let mut events = stream(sandbox, exec.clone()).await;
    while !matches!(events.next().await, Some(Ok(StreamEvent::Output(_)))) {}
    let record = sandbox.process().bg(events.exec_id().unwrap().clone());
    drop(events);
    assert_eq!(record.status().await.unwrap().state, ExecState::Running);
    let end = record.terminate(LIMIT).await.unwrap();
    assert_eq!(end.termination, Termination::Signaled(Signal::Term));

    let events = stream(sandbox, exec).await;
    timeout(LIMIT, events.terminate()).await.unwrap().unwrap();
    let running = sandbox.process().list().await.unwrap();
    assert!(running.iter().all(|exec| exec.state != ExecState::Running));
}

/// A stream that was left anywhere is gone on with by its log, without a gap or a repetition.
pub async fn a_stream_goes_on_by_its_log_from_anywhere(sandbox: &SandboxClient) {
    let line = "for i in 1 2 3 4 5 6; do echo é$i; echo x$i >&2; sleep 0.02; done";
    let whole = |mark: &str| -> String { (1..=6).map(|n| format!("{mark}{n}\n")).collect() };
    for taken in 0.. {
        let mut events = stream(sandbox, Exec::shell(line)).await;
        let mut seen = Vec::new();
        while seen.len() <= taken
            && let Some(event) = events.next().await
        {
            seen.push(event.unwrap());
        }
        let cursor = events.cursor();
        let record = sandbox.process().bg(events.exec_id().unwrap().clone());
        let was_complete = events.completion().is_some();
        drop(events);
        let rest = all(record.follow_from(cursor)).await;
        for (stream, mark) in [(LogStream::Stdout, "é"), (LogStream::Stderr, "x")] {
            let mut bytes = joined(&chunks(&seen, stream), 0);
            bytes.extend(joined(&chunks(&rest, stream), cursor.of(stream)));
            assert_eq!(bytes, whole(mark).as_bytes(), "after {taken} events");
        }
        assert!(completion(&rest).success());
        if was_complete {
            // The start, a piece of each output at the least, and the end.
            assert!(taken >= 3, "{taken}");
            break;
        }
    }
}

/// What `exec` has cut is read from the log.
pub async fn output_that_was_cut_is_completed_by_the_log(sandbox: &SandboxClient) {
    let process = sandbox.process();
    let cut = process.exec(&Exec::new(["seq", "400000"])).await.unwrap();
    assert!(cut.stdout.is_truncated());
    let whole: String = (1..=400_000).map(|n| format!("{n}\n")).collect();
    let part = process.full_output(cut.clone(), 2_000_000).await.unwrap();
    assert!(part.stdout.is_truncated());
    assert!(part.stdout.bytes() == &whole.as_bytes()[..2_000_000]);
    let all = process.full_output(cut, 64 << 20).await.unwrap();
    assert!(all.stdout.text().unwrap() == whole);
    assert_eq!(all.termination, Termination::Exited(0));
}

/// A call that is dropped after any number of polls, and a stream that is dropped at any item,
/// leave all else as it was.
pub async fn streams_that_are_dropped_anywhere_leave_all_usable(sandbox: &SandboxClient) {
    let process = sandbox.process();
    let exec = Exec::shell("echo a; echo b >&2; exit 4");
    let mut polls = 0;
    loop {
        let call = async { process.exec_stream(&exec).await.unwrap().collect(99).await };
        let output = poll_n(timeout(LIMIT, call), polls).await;
        sandbox.ping().await.unwrap();
        if let Some(result) = output {
            let result = result.unwrap().unwrap();
            assert_eq!(result.termination, Termination::Exited(4), "{polls}");
            assert_eq!(result.stdout.bytes(), "a\n");
            break;
        }
        polls += 1;
    }
    assert!(polls > 1, "{polls}");
    // Each of them ran to its end, or was never sent.
    let records = process.list().await.unwrap();
    assert!(records.len() <= polls + 1);
    for record in records {
        let end = process.bg(record.exec_id).wait(LIMIT).await.unwrap();
        assert_eq!(end.termination, Termination::Exited(4));
    }
    // Polling a stream for an item and dropping that future loses no item.
    let mut events = process.exec_stream(&exec).await.unwrap();
    let mut seen = Vec::new();
    let mut polls = 0;
    let read = async {
        loop {
            match poll_n(events.next(), polls % 3).await {
                Some(Some(event)) => seen.push(event.unwrap()),
                Some(None) => break,
                None => tokio::task::yield_now().await,
            }
            polls += 1;
        }
    };
    timeout(LIMIT, read).await.unwrap();
    assert_eq!(joined(&chunks(&seen, LogStream::Stdout), 0), b"a\n");
    assert_eq!(joined(&chunks(&seen, LogStream::Stderr), 0), b"b\n");
    assert_eq!(completion(&seen).termination, Termination::Exited(4));
    let cursor = events.cursor();
    assert_eq!(
        (cursor, Cursor::default()),
        (
            Cursor {
                stdout: 2,
                stderr: 2
            },
            Cursor::default()
        )
    );
}
