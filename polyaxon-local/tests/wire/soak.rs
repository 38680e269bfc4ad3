//! Many execs at once, and what is left of them.

use futures::StreamExt as _;
use futures::stream;
use serde_json::json;

use crate::execs::{Execs, text};
use crate::harness::eventually;
use crate::records::program::{memory, serve};

const AT_ONCE: usize = 32;

/// What a daemon holds: descriptors, files in its state folder, child processes.
fn held(pid: u32, state: &std::path::Path) -> [usize; 3] {
    let count = |path: &std::path::Path| std::fs::read_dir(path).unwrap().count();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let children = entries.filter(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        rest.split(' ').nth(1) == Some(pid.to_string().as_str())
    });
    let descriptors = count(format!("/proc/{pid}/fd").as_ref());
    [descriptors, count(state), children.count()]
}

async fn one(execs: &Execs, number: usize, streams: bool) {
    let script = format!("echo {number}; echo e{number} >&2; exit {}", number % 7);
    let id = if streams {
        let events = execs.stream(&script, &json!({})).await;
        assert_eq!(text(&events, "stdout"), format!("{number}\n"));
        assert_eq!(text(&events, "stderr"), format!("e{number}\n"));
        assert_eq!(events.last().unwrap().1["exit_code"], number % 7);
        events[0].1["exec_id"].clone()
    } else {
        let answer = execs.sh(&script, &json!({})).await;
        assert_eq!(answer["stdout"], format!("{number}\n"));
        assert_eq!(answer["stderr"], format!("e{number}\n"));
        assert_eq!(answer["exit_code"], number % 7);
        answer["exec_id"].clone()
    };
    assert_eq!(execs.delete(id.as_str().unwrap()).await.0, 204);
}

#[expect(clippy::print_stdout, reason = "the figures are to be seen")]
async fn soak(commands: usize, streams: usize) {
    let state = tempfile::tempdir().unwrap();
    let (_child, execs, pid) = serve(state.path(), &[]).await;
    let many = async |count: usize, streams: bool| {
        let calls = stream::iter(0..count).map(|number| one(&execs, number, streams));
        calls.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    };
    many(4 * AT_ONCE, false).await;
    many(4 * AT_ONCE, true).await;
    let settled = eventually("rest", async || {
        let [descriptors, files, children] = held(pid, state.path());
        (files == 1 && children == 0).then_some(descriptors)
    })
    .await;
    let before = memory(pid);
    many(commands, false).await;
    many(streams, true).await;
    eventually("the same as before", async || {
        let [descriptors, files, children] = held(pid, state.path());
        // The client keeps as many connections as it likes, and closes them when it likes.
        let more = descriptors.saturating_sub(settled);
        (files == 1 && children == 0 && more <= AT_ONCE).then_some(())
    })
    .await;
    let after = memory(pid);
    assert!(after < before + (8 << 10), "{before} to {after} KiB");
    assert_eq!(execs.ping().await["execs_running"], 0);
    assert_eq!(execs.ids("").await, [] as [&str; 0]);
    println!(
        "{commands} execs and {streams} streams, {AT_ONCE} at once: {before} to {after} KiB, \
         descriptors {settled} to {}, no record, no process",
        held(pid, state.path())[0]
    );
}

/// A short form; the long one is the soak of the whole service in package `polyaxon-tests`.
#[tokio::test]
async fn many_execs_at_once_leave_nothing_behind() {
    soak(400, 100).await;
}
