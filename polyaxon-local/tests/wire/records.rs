//! Records and logs on disk: after a restart, at the limits, and when the disk is full.

use std::path::Path;

use polyaxon_local::{Error, Limits, LocalDaemon};
use serde_json::{Value, json};

use crate::execs::{Execs, TOKEN, shell};
use crate::harness::code;

async fn daemon(state: &Path, limits: Limits) -> LocalDaemon {
    let builder = LocalDaemon::builder(TOKEN).state_dir(state).limits(limits);
    builder.start().await.unwrap()
}

#[tokio::test]
async fn records_and_logs_are_there_after_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let first = daemon(state.path(), Limits::default()).await;
    let execs = Execs::alone(&first);
    execs.sh("printf 'é'; exit 4", &json!({})).await;
    execs.stream("kill -9 $$", &json!({})).await;
    let three = execs.bg("sleep 600", &json!({"timeout_ms": 100})).await;
    execs.until(&three, "timed_out").await;
    let running = execs
        .bg("echo up; sleep 600", &json!({"tag": "runs"}))
        .await;
    execs.output(&running).await;
    let ids = execs.ids("").await;
    let (_, before) = execs.get("exec/bg").await;
    first.stop().await.unwrap();

    let second = daemon(state.path(), Limits::default()).await;
    let execs = Execs::alone(&second);
    assert_eq!(execs.ids("").await, ids);
    let (_, after) = execs.get("exec/bg").await;
    let (before, after) = (&before["execs"], &after["execs"]);
    for index in 0..3 {
        assert_eq!(after[index], before[index]);
    }
    assert_eq!(execs.page(&ids[0], "").await["data"], "é");
    // The one that ran was killed with the daemon, which knew of it.
    let status = execs.status(&running).await;
    assert_eq!(
        (&status["state"], &status["signal"]),
        (&json!("signaled"), &json!("SIGKILL"))
    );
    let page = execs.page(&running, "").await;
    assert_eq!(
        (&page["data"], &page["eof"]),
        (&json!("up\n"), &json!(true))
    );
    let again = shell("true", &json!({"tag": "runs"}));
    let (status, answer) = execs.post("exec/bg", &again).await;
    assert_eq!(status, 409);
    assert_eq!(answer["error"]["details"]["existing_id"], running);
    for id in ids {
        assert_eq!(execs.delete(&id).await.0, 204);
    }
    assert_eq!(execs.post("exec/bg", &again).await.0, 202);
}

#[tokio::test]
async fn a_torn_record_is_an_orphan_and_costs_no_other() {
    let state = tempfile::tempdir().unwrap();
    let first = daemon(state.path(), Limits::default()).await;
    let execs = Execs::alone(&first);
    let mut ids = Vec::new();
    for word in ["whole", "ended", "begun", "empty"] {
        let answer = execs.sh(&format!("echo {word}"), &json!({})).await;
        ids.push(answer["exec_id"].as_str().unwrap().to_owned());
    }
    first.stop().await.unwrap();
    for (id, size) in ids.iter().zip([None, Some(2060), Some(10), Some(0)]) {
        let path = state.path().join(format!("{id}.json"));
        if let Some(size) = size {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(size).unwrap();
        }
    }
    // What is none of ours, and what an interrupted delete has left.
    let stray = "6d3c4c1e-0f53-4f6c-9c2e-2f0f6a1d3c55.stdout";
    for name in ["notes.txt", "notes.json", stray] {
        std::fs::write(state.path().join(name), "x").unwrap();
    }
    let second = daemon(state.path(), Limits::default()).await;
    let execs = Execs::alone(&second);
    let mut listed = execs.ids("").await;
    listed.sort();
    let mut all = ids.clone();
    all.sort();
    assert_eq!(listed, all);
    assert_eq!(execs.status(&ids[0]).await["state"], "exited");
    for (id, word) in ids.iter().zip(["whole", "ended", "begun", "empty"]) {
        let page = execs.page(id, "").await;
        assert_eq!(
            (&page["data"], &page["eof"]),
            (&json!(format!("{word}\n")), &json!(true))
        );
    }
    for id in &ids[1..] {
        let status = execs.status(id).await;
        let known = ["state", "pid", "exit_code", "stdout_bytes"].map(|name| &status[name]);
        assert_eq!(
            known,
            [&json!("orphaned"), &json!(0), &Value::Null, &json!(6)]
        );
        assert_eq!(
            (status.get("finished_at"), status.get("duration_ms")),
            (None, None)
        );
        assert_eq!(execs.signal(id, "SIGTERM").await.0, 204);
    }
    assert!(!state.path().join(stray).exists());
    assert!(state.path().join("notes.json").exists());
}

#[tokio::test]
async fn a_folder_is_one_daemon_s_at_a_time_and_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("a/state");
    let first = daemon(&state, Limits::default()).await;
    Execs::alone(&first).sh("echo x", &json!({})).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for entry in std::fs::read_dir(&state).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    let second = LocalDaemon::builder(TOKEN).state_dir(&state);
    let error = second.clone().start().await.unwrap_err();
    assert!(
        matches!(&error, Error::State { folder, .. } if *folder == state),
        "{error:?}"
    );
    first.stop().await.unwrap();
    second.start().await.unwrap().stop().await.unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&state, &link).unwrap();
    let error = LocalDaemon::builder(TOKEN).state_dir(link).start().await;
    assert!(matches!(error, Err(Error::State { .. })), "{error:?}");
}

#[tokio::test]
async fn output_above_its_limit_is_dropped_counted_and_an_error_to_who_wants_it() {
    let state = tempfile::tempdir().unwrap();
    let mut limits = Limits::default();
    limits.exec_log = 1000;
    let daemon = daemon(state.path(), limits).await;
    let execs = Execs::alone(&daemon);
    let script = "head -c 5000 /dev/zero | tr '\\0' x; echo $? >&2; exit 3";
    let id = execs.bg(script, &json!({})).await;
    let status = execs.until(&id, "exited").await;
    assert_eq!(
        (&status["exit_code"], &status["stdout_bytes"]),
        (&json!(3), &json!(5000))
    );
    assert_eq!(execs.page(&id, "stream=stderr").await["data"], "0\n");
    let page = execs.page(&id, "").await;
    assert_eq!(
        (&page["bytes"], &page["eof"]),
        (&json!(1000), &json!(false))
    );
    let (status, answer) = execs.get(&format!("exec/bg/{id}/logs?offset=1000")).await;
    assert_eq!((status.as_u16(), code(&answer)), (500, "internal"));
    let details = json!({
        "kind": "output_dropped", "reason": "log_limit", "exec_id": id, "stream": "stdout",
        "stored_bytes": 1000, "written_bytes": 5000,
    });
    assert_eq!(answer["error"]["details"], details);
    // The answer of a one-shot exec would be wrong, so it is none.
    let (status, answer) = execs.post("exec", &shell(script, &json!({}))).await;
    assert_eq!(status, 500);
    assert_eq!(answer["error"]["details"]["kind"], "output_dropped");
    // A stream says so in place of an end.
    let events = execs.stream(script, &json!({})).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("start", "error"));
    assert!(names.contains(&"stdout") && !names.contains(&"execution_complete"));
}

#[tokio::test]
async fn when_all_records_and_logs_reach_their_limit_nothing_starts_until_some_are_deleted() {
    let state = tempfile::tempdir().unwrap();
    let mut limits = Limits::default();
    limits.state_bytes = 3 * 4096 + 100;
    let first = daemon(state.path(), limits.clone()).await;
    let execs = Execs::alone(&first);
    let id = execs.bg("head -c 9000 /dev/zero", &json!({})).await;
    assert_eq!(execs.until(&id, "exited").await["stdout_bytes"], 9000);
    let (status, answer) = execs.post("exec", &shell("true", &json!({}))).await;
    assert_eq!((status.as_u16(), code(&answer)), (500, "internal"));
    let details = json!({"kind": "state_full", "started": false});
    assert_eq!(answer["error"]["details"], details);
    assert_eq!(execs.ids("").await, [id.as_str()]);
    first.stop().await.unwrap();
    // The next one counts what it finds.
    let second = daemon(state.path(), limits).await;
    let execs = Execs::alone(&second);
    assert_eq!(execs.post("exec", &shell("true", &json!({}))).await.0, 500);
    assert_eq!(execs.delete(&id).await.0, 204);
    for _ in 0..3 {
        execs.sh("true", &json!({})).await;
    }
    assert_eq!(execs.post("exec", &shell("true", &json!({}))).await.0, 500);
}

#[cfg(feature = "cli")]
pub(crate) mod program {
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::process::{Child, Command};

    use super::*;
    use crate::binary::ready_line;
    use crate::harness::{eventually, marker, no_process};

    /// `serve`, started by `wrapper` where there is one, with its state in `state`.
    pub(crate) async fn serve(state: &Path, wrapper: &[&str]) -> (Child, Execs, u32) {
        let program = [
            env!("CARGO_BIN_EXE_polyaxon-local"),
            "serve",
            "--listen",
            "127.0.0.1:0",
        ];
        let line = [wrapper, &program].concat();
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
            .env("POLYAXON_SANDBOX_STATE_DIR", state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let ready = ready_line(&mut child).await;
        let execs = Execs::at(ready["ready"].as_str().unwrap(), TOKEN);
        let pid = u32::try_from(ready["pid"].as_u64().unwrap()).unwrap();
        (child, execs, pid)
    }

    #[tokio::test]
    async fn a_killed_daemon_leaves_orphans_with_all_that_they_wrote() {
        let state = tempfile::tempdir().unwrap();
        let (mut child, execs, _) = serve(state.path(), &[]).await;
        let ended = execs.sh("echo ended", &json!({})).await["exec_id"].clone();
        let mark = marker();
        let script = format!("printf 'a\\303'; sleep {mark}");
        let running = execs.bg(&script, &json!({"tag": "runs"})).await;
        eventually("both bytes", async || {
            (execs.status(&running).await["stdout_bytes"] == 2).then_some(())
        })
        .await;
        child.kill().await.unwrap();
        no_process(&mark).await;
        let (_child, execs, _) = serve(state.path(), &[]).await;
        assert_eq!(execs.ids("").await, [ended.as_str().unwrap(), &running]);
        assert_eq!(execs.status(ended.as_str().unwrap()).await["exit_code"], 0);
        let status = execs.status(&running).await;
        let known = ["state", "pid", "exit_code", "tag", "stdout_bytes"].map(|name| &status[name]);
        assert_eq!(
            known,
            [
                &json!("orphaned"),
                &json!(0),
                &Value::Null,
                &json!("runs"),
                &json!(2)
            ]
        );
        let page = execs.page(&running, "follow=true").await;
        assert_eq!(
            (&page["data"], &page["eof"]),
            (&json!("a\u{fffd}"), &json!(true))
        );
        let (status, answer) = execs
            .post("exec/bg", &shell("true", &json!({"tag": "runs"})))
            .await;
        assert_eq!(status, 409);
        assert_eq!(answer["error"]["details"]["state"], "orphaned");
        assert_eq!(execs.delete(&running).await.0, 204);
        assert_eq!(execs.ids("").await, [ended.as_str().unwrap()]);
    }

    /// A file system of 4 MiB that only the daemon sees, so that it goes with it.
    #[tokio::test]
    async fn a_full_disk_is_an_error_to_the_caller_and_costs_no_record() {
        let state = tempfile::tempdir().unwrap();
        let mount = "mount -t tmpfs -o size=4m,mode=700 none \"$POLYAXON_SANDBOX_STATE_DIR\" && exec \"$@\"";
        let wrapper = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            mount,
            "sh",
        ];
        let (_child, execs, pid) = serve(state.path(), &wrapper).await;
        let small = execs.sh("echo small", &json!({})).await["exec_id"].clone();
        let small = small.as_str().unwrap();

        // A command that writes more than there is goes on to its end, which is kept.
        let big = "head -c 9000000 /dev/zero | tr '\\0' x; echo $? >&2; exit 5";
        let id = execs.bg(big, &json!({})).await;
        let status = execs.until(&id, "exited").await;
        let known = ["exit_code", "stdout_bytes", "stderr_bytes"].map(|name| &status[name]);
        assert_eq!(known, [&json!(5), &json!(9_000_000), &json!(2)]);
        let (stored, answer) = read_until_error(&execs, &id).await;
        assert!((3_000_000..4 << 20).contains(&stored), "{stored}");
        let details = &answer["error"]["details"];
        assert_eq!(
            (&details["kind"], &details["reason"]),
            (&json!("output_dropped"), &json!("disk_full"))
        );
        assert_eq!(details["stored_bytes"], stored);

        // Nothing new is started, and nobody is told that it was.
        for path in ["exec", "exec/bg", "exec/stream"] {
            let (status, answer) = execs.post(path, &shell("true", &json!({}))).await;
            assert_eq!(
                (status.as_u16(), code(&answer)),
                (500, "internal"),
                "{path}"
            );
            let details = json!({"kind": "disk_full", "started": false});
            assert_eq!(answer["error"]["details"], details, "{path}");
        }
        assert_eq!(execs.ids("").await, [small, &id]);
        assert_eq!(execs.page(small, "").await["data"], "small\n");

        // On disk it is as it was told: no half record, and both ends.
        let disk = format!(
            "/proc/{pid}/root{}",
            state.path().canonicalize().unwrap().display()
        );
        let names = std::fs::read_dir(&disk)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let records: Vec<_> = names
            .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
            .collect();
        assert_eq!(records.len(), 2);
        for record in records {
            let bytes = std::fs::read(record).unwrap();
            assert_eq!(bytes.len(), 4096);
            for half in [&bytes[..2048], &bytes[2048..]] {
                let half: Value = serde_json::from_slice(half).unwrap();
                assert!(half.is_object());
            }
        }
        assert_eq!(execs.delete(&id).await.0, 204);
        assert_eq!(
            execs.sh("echo again", &json!({})).await["stdout"],
            "again\n"
        );
    }

    /// Reads a log until it cannot be read any further: how far that is, and what is said there.
    async fn read_until_error(execs: &Execs, id: &str) -> (u64, Value) {
        let mut offset = 0;
        loop {
            let path = format!("exec/bg/{id}/logs?offset={offset}&max_bytes=1000000");
            let (status, page) = execs.get(&path).await;
            if status != 200 {
                assert_eq!(status, 500);
                return (offset, page);
            }
            assert_eq!(page["eof"], false);
            offset = page["next_offset"].as_u64().unwrap();
        }
    }

    /// KiB of memory that the process holds.
    pub(crate) fn memory(pid: u32) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn ten_seconds_of_endless_output_do_not_grow_the_daemon() {
        let state = tempfile::tempdir().unwrap();
        let (_child, execs, pid) = serve(state.path(), &[]).await;
        let memory = || memory(pid);
        execs.sh("echo warm", &json!({})).await;
        let before = memory();
        let id = execs.bg("yes", &json!({"timeout_ms": 10_000})).await;
        // One who reads now and then, and one who does not read at all.
        let body = shell("yes", &json!({"timeout_ms": 10_000}));
        let request = execs
            .request(reqwest::Method::POST, "exec/stream")
            .json(&body);
        let mut stream = request.send().await.unwrap();
        let mut most = before;
        let state_of = async || execs.status(&id).await["state"].clone();
        while state_of().await == "running" {
            stream.chunk().await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            most = most.max(memory());
        }
        let status = execs.status(&id).await;
        let written = status["stdout_bytes"].as_u64().unwrap();
        assert_eq!(status["state"], "timed_out");
        assert!(written > 100 << 20, "{written}");
        assert!(
            most - before < 16 << 10,
            "{before} to {most} KiB after {written} bytes"
        );
        println!("{before} to {most} KiB of memory while {written} bytes were written");
    }
}
