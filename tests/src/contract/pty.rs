//! Terminals: bytes both ways, sizes, signals, the end, and what outlives a connection.

use std::future::Future;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use polyaxon_sandbox::process::{Signal, Termination};
use polyaxon_sandbox::pty::{Attach, AttachedPty, Pty, PtyExit, PtyId, PtyOutput, PtySession};
use polyaxon_sandbox::{Error, SandboxClient};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt};
use tokio::time::timeout;

use super::cause;
use crate::cancel::woken_n;

/// No wait is longer.
const LIMIT: Duration = Duration::from_secs(30);

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.unwrap()
}

/// Reads until `text` has come, and gives all that came.
async fn until(pty: &mut AttachedPty, text: &[u8]) -> Vec<u8> {
    let mut seen = Vec::new();
    let read = async {
        while !seen.windows(text.len()).any(|part| part == text) {
            let Some(bytes) = pty.read().await.unwrap() else {
                break;
            };
            seen.extend_from_slice(&bytes);
        }
    };
    let ended = timeout(LIMIT, read).await;
    assert!(
        ended.is_ok() && seen.windows(text.len()).any(|part| part == text),
        "{:?} did not come: {:?}",
        String::from_utf8_lossy(text),
        String::from_utf8_lossy(&seen)
    );
    seen
}

fn script(line: &str) -> Pty {
    Pty::new(["sh", "-c", line])
}

async fn session_when(
    sandbox: &SandboxClient,
    pty_id: &PtyId,
    wanted: impl Fn(&PtySession) -> bool + Send + Sync,
) -> PtySession {
    let asked = async {
        loop {
            let session = sandbox.pty().get(pty_id).await.unwrap();
            if wanted(&session) {
                return session;
            }
            // Whom it waits for needs the processor more.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(asked).await
}

fn status(error: &Error) -> Option<u16> {
    match error {
        Error::Client(error) => error.status().map(|status| status.as_u16()),
        Error::NotAttached { source, .. } => status(source),
        _ => None,
    }
}

/// A shell echoes, runs what is typed, and its exit code is that of the terminal.
pub async fn a_shell_answers_through_its_terminal(sandbox: &SandboxClient) {
    let spec = Pty::shell().env("A", "é").env("PS1", "> ").workdir("/tmp");
    let mut pty = sandbox.pty().open(&spec).await.unwrap();
    assert_eq!(pty.size_at_first(), (80, 24));
    let typed = "echo \"mark-$((40+2))-$A-$TERM-$(pwd | tail -c 5)\"\n";
    pty.write(typed).await.unwrap();
    let seen = until(&mut pty, "mark-42-é-xterm-256color-/tmp\r\n".as_bytes()).await;
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(seen.contains("echo \"mark-$((40+2))"), "no echo: {seen}");
    pty.write("exit 7\n").await.unwrap();
    let exit = within(pty.wait()).await.unwrap();
    assert_eq!(exit.termination, Termination::Exited(7));
    assert_eq!(pty.exit(), Some(&exit));
    assert_eq!(pty.read().await.unwrap(), None);
    assert_eq!(pty.ask().await.unwrap().exit().unwrap().code(), Some(7));
}

/// Output from between create and attach is not lost where replay is asked for.
pub async fn what_was_written_before_the_attachment_is_replayed(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let created = ptys
        .create(&script("echo early; read line; echo late; read line"))
        .await
        .unwrap();
    session_when(sandbox, &created.pty_id, |session| {
        session.last_activity > session.started_at
    })
    .await;
    let mut pty = ptys
        .attach(&created.pty_id, Attach::new().replay_bytes(1024))
        .await
        .unwrap();
    assert_eq!(until(&mut pty, b"early\r\n").await, b"early\r\n");
    pty.detach().await;
    let mut without = ptys.attach(&created.pty_id, Attach::new()).await.unwrap();
    without.write("\n").await.unwrap();
    assert_eq!(until(&mut without, b"late\r\n").await, b"\r\nlate\r\n");
    let too_much = Attach::new().replay_bytes(u32::MAX);
    without.detach().await;
    let error = ptys.attach(&created.pty_id, too_much).await.unwrap_err();
    assert_eq!(status(&error), Some(400), "{}", cause(&error));
}

/// SB-52: the size is part of create, a resize before the attachment is kept, the last one wins.
pub async fn a_size_is_seen_by_the_program_however_early_it_comes(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    // It waits for the size, however long the two calls take to come.
    let line = "until [ \"$(stty size)\" = \"40 120\" ]; do sleep .05; done; stty size; read a; stty size; read a";
    let created = ptys.create(&script(line).size(100, 30)).await.unwrap();
    assert_eq!((created.cols, created.rows), (100, 30));
    ptys.resize(&created.pty_id, 110, 35).await.unwrap();
    ptys.resize(&created.pty_id, 120, 40).await.unwrap();
    let mut pty = ptys
        .attach(&created.pty_id, Attach::new().replay_bytes(1024))
        .await
        .unwrap();
    assert_eq!(pty.size_at_first(), (120, 40));
    until(&mut pty, b"40 120\r\n").await;
    pty.resize(90, 20).await.unwrap();
    pty.write("\n").await.unwrap();
    until(&mut pty, b"20 90\r\n").await;
    let session = ptys.get(&created.pty_id).await.unwrap();
    assert_eq!((session.cols, session.rows), (90, 20));
}

/// SB-53: what no terminal can be is refused before it is sent, and the session lives.
pub async fn a_size_that_cannot_be_is_refused_and_the_session_lives(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let mut pty = ptys.open(&Pty::shell()).await.unwrap();
    let pty_id = pty.pty_id().clone();
    for (cols, rows) in [(0, 0), (0, 24), (24, 0), (1001, 1), (65_535, 65_535)] {
        let errors = [
            pty.resize(cols, rows).await.unwrap_err(),
            ptys.resize(&pty_id, cols, rows).await.unwrap_err(),
            ptys.create(&Pty::shell().size(cols, rows))
                .await
                .unwrap_err(),
        ];
        for error in errors {
            let text = cause(&error);
            assert!(text.contains("is not within 1 and 1000"), "{text}");
        }
    }
    pty.write("echo ok-$((6*7)); stty size\n").await.unwrap();
    until(&mut pty, b"ok-42\r\n24 80\r\n").await;
    assert_eq!(ptys.list().await.unwrap().len(), 1);
}

/// SB-10: no byte is text, in either direction.
pub async fn every_byte_goes_through_in_both_directions(sandbox: &SandboxClient) {
    let line = "stty raw -echo; printf '\\377\\376ok\\n'; head -c 256; sleep 60";
    let mut pty = sandbox.pty().open(&script(line)).await.unwrap();
    assert_eq!(until(&mut pty, b"ok\n").await, b"\xff\xfeok\n");
    let all: Vec<u8> = (0..=255).collect();
    pty.write(all.clone()).await.unwrap();
    assert_eq!(until(&mut pty, &all).await, all);
}

/// The service says what it cannot do, and the terminal goes on.
pub async fn a_frame_that_is_of_no_use_is_an_event_and_not_the_end(sandbox: &SandboxClient) {
    let mut pty = sandbox
        .pty()
        .open(&script("read a; echo got-$a; read a"))
        .await
        .unwrap();
    pty.signal(&Signal::Other("SIGNOPE".into())).await.unwrap();
    let refused = within(pty.next()).await.unwrap().unwrap();
    assert!(
        matches!(&refused, PtyOutput::Refused { message, .. } if !message.is_empty()),
        "{refused:?}"
    );
    pty.write("it\n").await.unwrap();
    until(&mut pty, b"got-it").await;
}

/// Exit codes and signals arrive as they are, with all the output before them.
pub async fn the_end_of_the_program_is_told_exactly(sandbox: &SandboxClient) {
    let table = [
        ("exit 0", Termination::Exited(0)),
        ("exit 137", Termination::Exited(137)),
        ("kill -KILL $$", Termination::Signaled(Signal::Kill)),
        ("kill -TERM $$", Termination::Signaled(Signal::Term)),
    ];
    for (line, want) in table {
        let line = format!("read a; seq 20000; {line}");
        let mut pty = sandbox.pty().open(&script(&line)).await.unwrap();
        pty.write("\n").await.unwrap();
        let (mut text, mut exits) = (Vec::new(), Vec::new());
        while let Some(output) = within(pty.next()).await {
            match output.unwrap() {
                PtyOutput::Bytes(bytes) => text.extend_from_slice(&bytes),
                PtyOutput::Exited(exit) => exits.push(exit.termination),
                other => assert_eq!(format!("{other:?}"), "nothing else"),
            }
        }
        assert_eq!(exits, [want], "{line}");
        assert!(
            text.ends_with(b"\r\n20000\r\n"),
            "{line}: the output is cut"
        );
    }
}

/// A second client is refused, and can attach once the first has left.
pub async fn one_client_at_a_time_is_attached(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let mut first = ptys
        .open(&script("read a; echo got-$a; read a"))
        .await
        .unwrap();
    let pty_id = first.pty_id().clone();
    let error = ptys.attach(&pty_id, Attach::new()).await.unwrap_err();
    assert_eq!(status(&error), Some(409), "{}", cause(&error));
    first.write("one\n").await.unwrap();
    until(&mut first, b"got-one").await;
    first.detach().await;
    let second = ptys.attach(&pty_id, Attach::new()).await.unwrap();
    assert!(ptys.get(&pty_id).await.unwrap().attached);
    drop(second);
}

/// Whoever comes too late is told how it ended.
pub async fn a_program_that_has_ended_cannot_be_attached_to_and_says_how_it_ended(
    sandbox: &SandboxClient,
) {
    let ptys = sandbox.pty();
    let created = ptys.create(&script("exit 7")).await.unwrap();
    let session = session_when(sandbox, &created.pty_id, |session| session.exit().is_some()).await;
    assert_eq!(session.exit().unwrap().code(), Some(7));
    let error = ptys
        .attach(&created.pty_id, Attach::new())
        .await
        .unwrap_err();
    assert_eq!(status(&error), Some(410), "{}", cause(&error));
    if let Some(exit) = PtyExit::of(&error) {
        assert_eq!(exit.code(), Some(7));
    }
    let resized = ptys.resize(&created.pty_id, 10, 10).await.unwrap_err();
    let signaled = ptys
        .signal(&created.pty_id, &Signal::Term)
        .await
        .unwrap_err();
    assert_eq!(
        (status(&resized), status(&signaled)),
        (Some(410), Some(410))
    );
    let missing = ptys.get(&"no-such-pty".into()).await.unwrap_err();
    assert_eq!(status(&missing), Some(404));
}

/// Leaving does not end a program; whoever attaches again finds it as it was.
pub async fn a_program_runs_on_while_nobody_is_attached(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let mut pty = ptys.open(&Pty::shell().env("PS1", "")).await.unwrap();
    let pty_id = pty.pty_id().clone();
    pty.write("A=kept; echo set-$A\n").await.unwrap();
    until(&mut pty, b"set-kept\r\n").await;
    pty.detach().await;
    let session = session_when(sandbox, &pty_id, |session| !session.attached).await;
    assert_eq!(session.exit(), None);
    assert!(session.detached_since.is_some());

    let mut pty = ptys.attach(&pty_id, Attach::new()).await.unwrap();
    pty.write("echo again-$A\n").await.unwrap();
    until(&mut pty, b"again-kept\r\n").await;
    // In place: the handle stays, its connection is another.
    pty.reattach(1024).await.unwrap();
    let seen = until(&mut pty, b"again-kept\r\n").await;
    assert!(seen.starts_with(b"A=kept; echo"), "no replay: {seen:?}");
    pty.write("echo third-$A; exit 3\n").await.unwrap();
    until(&mut pty, b"third-kept\r\n").await;
    assert_eq!(within(pty.wait()).await.unwrap().code(), Some(3));
    let error = pty.reattach(0).await.unwrap_err();
    assert_eq!(status(&error), Some(410));
    // What was left does not come back to life.
    assert!(matches!(
        pty.write("x").await.unwrap_err(),
        Error::Detached { .. }
    ));
    assert_eq!(pty.read().await.unwrap(), None);
}

/// An interrupt is typed, so that it reaches the job in the foreground and not the shell.
pub async fn a_signal_reaches_the_job_in_the_foreground(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let mut pty = ptys.open(&Pty::shell().env("PS1", "")).await.unwrap();
    for by_frame in [true, false] {
        // The word comes from the job itself, so that it is there to be interrupted.
        pty.write("sh -c 'echo ready-$((1+1)); exec sleep 60'\n")
            .await
            .unwrap();
        until(&mut pty, b"ready-2").await;
        match by_frame {
            true => pty.signal(&Signal::Int).await.unwrap(),
            false => ptys.signal(pty.pty_id(), &Signal::Int).await.unwrap(),
        }
        pty.write("echo ended-$?\n").await.unwrap();
        until(&mut pty, b"ended-130").await;
    }
    pty.signal(&Signal::Kill).await.unwrap();
    let exit = within(pty.wait()).await.unwrap();
    assert_eq!(exit.termination, Termination::Signaled(Signal::Kill));
    assert_eq!(exit.shell_code(), 137);
}

/// A terminal is found by its tag until it is deleted, with all that runs in it.
pub async fn terminals_are_listed_found_by_tag_and_deleted(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let named = ptys
        .create(&script("sleep 600").tag("build:1"))
        .await
        .unwrap();
    let other = ptys.create(&script("sleep 600")).await.unwrap();
    assert_eq!(named.tag.as_deref(), Some("build:1"));
    let ids = |sessions: Vec<PtySession>| -> Vec<PtyId> {
        sessions.into_iter().map(|session| session.pty_id).collect()
    };
    let both = [named.pty_id.clone(), other.pty_id.clone()];
    assert_eq!(ids(ptys.list().await.unwrap()), both);
    let found = ids(ptys.list_tagged("build:1").await.unwrap());
    assert_eq!(found, both[..1]);
    assert_eq!(ptys.list_tagged("nobody").await.unwrap(), []);

    let mut attached = ptys.attach(&named.pty_id, Attach::new()).await.unwrap();
    within(ptys.delete(&named.pty_id)).await.unwrap();
    // Closed without an end: the connection says no more than that.
    let error = within(attached.wait()).await.unwrap_err();
    assert!(matches!(error, Error::Detached { .. }), "{error:?}");
    assert_eq!(status(&attached.ask().await.unwrap_err()), Some(404));
    assert_eq!(ids(ptys.list().await.unwrap()), [other.pty_id]);
    let error = ptys.delete(&named.pty_id).await.unwrap_err();
    assert_eq!(status(&error), Some(404));
}

/// What is pasted comes back while it is still being pasted, whatever its size.
pub async fn input_and_output_of_any_size_do_not_wait_for_each_other(sandbox: &SandboxClient) {
    const SIZE: usize = 3 << 20;
    let line = format!("stty raw -echo; echo go; head -c {SIZE}");
    let mut pty = sandbox.pty().open(&script(&line)).await.unwrap();
    until(&mut pty, b"go\n").await;
    let (mut reader, mut writer) = pty.split();
    let input: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(SIZE).collect();
    let typed = input.clone();
    let writing = tokio::spawn(async move {
        writer.write(typed).await.unwrap();
        writer
    });
    let mut output = Vec::new();
    while let Some(bytes) = within(reader.read()).await.unwrap() {
        output.extend_from_slice(&bytes);
    }
    assert_eq!(reader.exit().unwrap().code(), Some(0));
    assert_eq!(output.len(), SIZE);
    assert!(output == input, "the bytes are others");
    drop(writing.await.unwrap());
}

/// The halves work with what takes any reader and any writer.
pub async fn a_terminal_is_a_reader_and_a_writer(sandbox: &SandboxClient) {
    let line = "stty raw -echo; echo go; head -c 5; exit 4";
    let mut pty = sandbox.pty().open(&script(line)).await.unwrap();
    let mut go = [0; 3];
    within(pty.read_exact(&mut go)).await.unwrap();
    assert_eq!(&go, b"go\n");
    AsyncWriteExt::write_all(&mut pty, b"12345").await.unwrap();
    AsyncWriteExt::flush(&mut pty).await.unwrap();
    let mut rest = String::new();
    within(pty.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "12345");
    assert_eq!(pty.exit().unwrap().code(), Some(4));

    let (mut reader, mut writer) = sandbox.pty().open(&script("read a")).await.unwrap().split();
    AsyncWriteExt::shutdown(&mut writer).await.unwrap();
    let mut rest = Vec::new();
    let error = within(reader.read_to_end(&mut rest)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    let session = sandbox.pty().get(reader.pty_id()).await.unwrap();
    assert_eq!(session.exit(), None);
}

/// Dropping both halves closes the connection; dropping one does not.
pub async fn an_attachment_that_is_dropped_leaves_the_terminal_to_others(sandbox: &SandboxClient) {
    let ptys = sandbox.pty();
    let pty = ptys.open(&Pty::shell().env("PS1", "")).await.unwrap();
    let pty_id = pty.pty_id().clone();
    drop(pty);
    session_when(sandbox, &pty_id, |session| !session.attached).await;

    let (reader, mut writer) = ptys.attach(&pty_id, Attach::new()).await.unwrap().split();
    drop(reader);
    // More than anybody keeps, so that it comes to an end only where somebody reads it.
    writer
        .write("yes | head -c 5000000; exit 5\n")
        .await
        .unwrap();
    let session = session_when(sandbox, &pty_id, |session| session.exit().is_some()).await;
    assert_eq!(session.exit().unwrap().code(), Some(5));
    drop(writer);
    assert_eq!(ptys.list().await.unwrap().len(), 1);
}

/// An attach that is dropped after any number of polls holds nothing.
pub async fn an_attach_that_is_dropped_at_any_point_leaves_the_terminal_to_others(
    sandbox: &SandboxClient,
) {
    let ptys = sandbox.pty();
    let created = ptys
        .create(&script("stty -echo; read a; echo got-$a; read a"))
        .await
        .unwrap();
    for polls in 0.. {
        let attach = ptys.attach(&created.pty_id, Attach::new());
        let attached = woken_n(attach, polls).await;
        session_when(sandbox, &created.pty_id, |session| {
            session.attached == attached.is_some()
        })
        .await;
        let Some(attached) = attached else {
            continue;
        };
        let mut pty = attached.unwrap();
        // The same for what is done with it: each is dropped at its first wait.
        assert!(pty.read().now_or_never().is_none());
        pty.write("it\n").await.unwrap();
        until(&mut pty, b"got-it").await;
        assert!(pty.reattach(0).now_or_never().is_none());
        pty.reattach(0).await.unwrap();
        assert_eq!(ptys.list().await.unwrap().len(), 1);
        return;
    }
}
