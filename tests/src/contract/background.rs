//! Background execs: found again by tag and id, followed, waited for, ended, forgotten.

use std::time::{Duration, Instant};

use polyaxon_client::Effect;
use polyaxon_sandbox::process::{
    BgExec, Cursor, ExecState, LogStream, Logs, Signal, StreamEvent, Termination,
};
use polyaxon_sandbox::{Error, Exec, SandboxClient};
use tokio::time::timeout;

use crate::cancel::poll_n;

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

async fn start(sandbox: &SandboxClient, exec: Exec) -> BgExec {
    sandbox.process().exec_bg(&exec).await.unwrap()
}

/// The HTTP status of an error.
fn status_of(error: &Error) -> Option<u16> {
    let status = error.as_client()?.status()?;
    Some(status.as_u16())
}

/// What was started is there for everybody who knows its tag or its id.
pub async fn a_background_exec_is_found_by_tag_and_id(sandbox: &SandboxClient) {
    let process = sandbox.process();
    let exec = Exec::shell("echo out; exec sleep 90").tag("contract:found-1");
    let started = start(sandbox, exec).await;
    let found = process.list_tagged("contract:found-1").await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(&found[0].exec_id, started.id());
    assert_eq!(found[0].tag.as_deref(), Some("contract:found-1"));
    assert_eq!(process.list_tagged("contract:none").await.unwrap(), []);

    let kept = serde_json::to_string(started.id()).unwrap();
    let id: String = serde_json::from_str(&kept).unwrap();
    let status = process.bg(id).status().await.unwrap();
    assert_eq!((status.state, status.exit_code), (ExecState::Running, None));
    assert!(status.pid > 0 && status.started_at.is_some());
    let all = process.list().await.unwrap();
    assert!(all.iter().any(|exec| &exec.exec_id == started.id()));
    started.delete().await.unwrap();
}

/// A tag that a record has cannot be given to another one.
pub async fn a_tag_that_is_taken_is_refused(sandbox: &SandboxClient) {
    let process = sandbox.process();
    let exec = Exec::new(["true"]).tag("contract.taken");
    let first = start(sandbox, exec.clone()).await;
    first.wait(LIMIT).await.unwrap();
    let error = process.exec_bg(&exec).await.unwrap_err();
    assert_eq!(status_of(&error), Some(409));
    assert_eq!((error.effect(), error.lookup()), (Effect::NotApplied, None));
    first.delete().await.unwrap();
    start(sandbox, exec).await;
}

/// A log is given out while it is written, then the end.
pub async fn a_log_is_followed_while_it_is_written(sandbox: &SandboxClient) {
    let line = "echo one; until [ -e contract-on ]; do sleep 0.01; done; echo two; exit 6";
    let exec = start(sandbox, Exec::shell(line).workdir("/tmp")).await;
    let mut events = exec.follow(LogStream::Stdout);
    let follow = async {
        let Some(Ok(StreamEvent::Output(first))) = events.next().await else {
            panic!("no output first")
        };
        assert_eq!((first.text().as_ref(), first.start), ("one\n", 0));
        sandbox.fs().write("/tmp/contract-on", "").await.unwrap();
        let Some(Ok(StreamEvent::Output(second))) = events.next().await else {
            panic!("no output second")
        };
        assert_eq!((second.text().as_ref(), second.start), ("two\n", 4));
        let Some(Ok(StreamEvent::Complete(end))) = events.next().await else {
            panic!("no end")
        };
        assert_eq!(end.termination, Termination::Exited(6));
        assert!(events.next().await.is_none());
    };
    timeout(LIMIT, follow).await.unwrap();
}

/// Much output of both is followed whole.
pub async fn both_outputs_are_followed_whole(sandbox: &SandboxClient) {
    let line = "seq -f 'é%.0f' 300000 & seq -f 'x%.0f' 300000 >&2; wait";
    let exec = start(sandbox, Exec::shell(line)).await;
    let result = timeout(LIMIT, exec.output(64 << 20))
        .await
        .unwrap()
        .unwrap();
    let lines = |mark: &str| -> String { (1..=300_000).map(|n| format!("{mark}{n}\n")).collect() };
    assert!(result.stdout.text().unwrap() == lines("é"));
    assert!(result.stderr.text().unwrap() == lines("x"));
    assert!(!result.stdout.is_lossy() && result.success());
    // From the middle on, too.
    let stdout = lines("é").find("é123456").unwrap();
    let from = Cursor {
        stdout: stdout as u64,
        stderr: 7,
    };
    let rest = exec.follow_from(from).collect(64 << 20).await.unwrap();
    assert!(*rest.stdout.text().unwrap() == lines("é")[stdout..]);
    assert!(*rest.stderr.text().unwrap() == lines("x")[7..]);
}

/// A page is the part that was asked for.
pub async fn a_page_is_the_part_that_was_asked_for(sandbox: &SandboxClient) {
    let exec = start(sandbox, Exec::shell("printf 0123456789; printf abc >&2")).await;
    exec.wait(LIMIT).await.unwrap();
    let page = exec.logs(Logs::new()).await.unwrap();
    assert_eq!((page.data.as_str(), page.next_offset), ("0123456789", 10));
    assert!(page.eof && page.state.is_final());
    let part = Logs::new().offset(2).max_bytes(3);
    let page = exec.logs(part).await.unwrap();
    assert_eq!(
        (page.data.as_str(), page.bytes, page.eof),
        ("234", 3, false)
    );
    let errors = Logs::new().stream(LogStream::Stderr).offset(1);
    assert_eq!(exec.logs(errors).await.unwrap().data, "bc");
    let beyond = exec.logs(Logs::new().offset(99)).await.unwrap();
    assert_eq!((beyond.data.as_str(), beyond.next_offset), ("", 99));
}

/// Waiting ends with the command, and at its own limit.
pub async fn waiting_ends_with_the_command_or_at_its_limit(sandbox: &SandboxClient) {
    let table = [
        ("exit 0", Termination::Exited(0)),
        ("sleep 0.2; exit 9", Termination::Exited(9)),
        ("sleep 0.1; kill -9 $$", Termination::Signaled(Signal::Kill)),
        ("sleep 90", Termination::TimedOut),
    ];
    for (line, want) in table {
        // Only what does not end by itself is to be ended.
        let exec = match want {
            Termination::TimedOut => Exec::shell(line).timeout(Duration::from_millis(700)),
            _ => Exec::shell(line),
        };
        let end = start(sandbox, exec).await.wait(LIMIT).await.unwrap();
        assert_eq!(end.termination, want, "{line}");
    }
    let exec = Exec::new(["sleep", "90"]).timeout(Duration::from_secs(100));
    let exec = start(sandbox, exec).await;
    let began = Instant::now();
    let error = exec.wait(Duration::from_millis(100)).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(45));
    assert!(
        matches!(
            &error,
            Error::StillRunning {
                state: ExecState::Running,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(exec.status().await.unwrap().state, ExecState::Running);
    exec.delete().await.unwrap();
}

/// A signal arrives; a command that does not mind the gentle one gets the other.
pub async fn a_command_is_signaled_and_terminated(sandbox: &SandboxClient) {
    let line = "trap 'echo usr' USR1; echo ready; while :; do sleep 0.01; done";
    let exec = start(sandbox, Exec::shell(line)).await;
    let mut lines = exec.follow(LogStream::Stdout).lines();
    assert_eq!(lines.next().await.unwrap().unwrap().text, "ready");
    exec.signal(Signal::Usr1).await.unwrap();
    let second = timeout(LIMIT, lines.next()).await.unwrap().unwrap();
    assert_eq!(second.unwrap().text, "usr");
    let end = exec.terminate(LIMIT).await.unwrap();
    assert_eq!(end.termination, Termination::Signaled(Signal::Term));
    // Nothing happens to what has ended.
    exec.signal(Signal::Kill).await.unwrap();

    let line = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    let exec = start(sandbox, Exec::shell(line)).await;
    let mut lines = exec.follow(LogStream::Stdout).lines();
    assert_eq!(lines.next().await.unwrap().unwrap().text, "ready");
    let end = exec.terminate(Duration::from_millis(200)).await.unwrap();
    assert_eq!(end.termination, Termination::Signaled(Signal::Kill));

    let odd = exec.signal(Signal::Other("SIGSEGV".into())).await;
    assert_eq!(status_of(&odd.unwrap_err()), Some(400));
}

/// What is deleted is ended and forgotten.
pub async fn what_is_deleted_is_ended_and_forgotten(sandbox: &SandboxClient) {
    let exec = start(sandbox, Exec::new(["sleep", "90"])).await;
    timeout(LIMIT, exec.delete()).await.unwrap().unwrap();
    let gone = [
        status_of(&exec.status().await.unwrap_err()),
        status_of(&exec.delete().await.unwrap_err()),
        status_of(&exec.signal(Signal::Term).await.unwrap_err()),
        status_of(&exec.logs(Logs::new()).await.unwrap_err()),
        status_of(&exec.wait(LIMIT).await.unwrap_err()),
        status_of(&exec.output(9).await.unwrap_err()),
    ];
    assert_eq!(gone, [Some(404); 6]);
}

/// Calls that are dropped after any number of polls leave all else as it was.
pub async fn background_calls_that_are_dropped_leave_all_usable(sandbox: &SandboxClient) {
    let process = sandbox.process();
    let exec = Exec::shell("echo a; exit 4");
    let mut polls = 0;
    loop {
        let call = async {
            let started = process.exec_bg(&exec).await?;
            started.wait(LIMIT).await?;
            let result = started.output(99).await?;
            started.delete().await?;
            Ok::<_, Error>(result)
        };
        let output = poll_n(timeout(LIMIT, call), polls).await;
        sandbox.ping().await.unwrap();
        if let Some(result) = output {
            assert_eq!(result.unwrap().unwrap().stdout.bytes(), "a\n");
            break;
        }
        polls += 1;
    }
    assert!(polls > 3, "{polls}");
    // What was started goes on to its end, whoever went away.
    for record in process.list().await.unwrap() {
        let left = process.bg(record.exec_id);
        let end = left.wait(LIMIT).await.unwrap();
        assert_eq!(end.termination, Termination::Exited(4));
        left.delete().await.unwrap();
    }
}
