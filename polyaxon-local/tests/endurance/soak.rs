//! Tens of thousands of execs and thousands of streams, many at once: what the service holds
//! afterwards is what it held before.
//!
//! `POLYAXON_SOAK_EXECS=20000 POLYAXON_SOAK_STREAMS=2000` is the long form.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::number;
use crate::program::{Client, Program, reply};
use crate::watch::{self, descendants, descriptors, size, within};

/// Calls at once.
const AT_ONCE: usize = 32;
/// How long the service may take to come to rest.
const REST: Duration = Duration::from_secs(10);
/// Memory that an allocator keeps of a burst, whatever its length.
const SLACK_KIB: u64 = 16 * 1024;

/// What the service holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: u64,
    memory_kib: u64,
    processes: usize,
    zombies: usize,
    records: usize,
    files: usize,
}

impl Held {
    async fn of(program: &Program) -> Self {
        let id = program.id();
        let (threads, memory_kib) = size(id);
        let (processes, zombies) = descendants(id);
        Self {
            descriptors: descriptors(id),
            threads,
            memory_kib,
            processes,
            zombies,
            records: program.client.execs().await.len(),
            files: files(program.root.path()),
        }
    }

    /// What it holds at rest: `descriptors` or fewer, where that is known.
    async fn at_rest(program: &Program, descriptors: usize) -> Self {
        let id = program.id();
        let is_at_rest = || descendants(id).1 == 0 && watch::descriptors(id) <= descriptors;
        let _in_time = within(REST, is_at_rest).await;
        Self::of(program).await
    }
}

fn files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries
        .map(
            |entry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => 1 + files(&entry.path()),
                false => 1,
            },
        )
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soaked_service_holds_what_it_held_before() {
    let execs = number("POLYAXON_SOAK_EXECS", 640);
    let streams = number("POLYAXON_SOAK_STREAMS", 128);
    println!(
        "soak: POLYAXON_SOAK_EXECS={execs} POLYAXON_SOAK_STREAMS={streams}, {AT_ONCE} at once"
    );
    let program = Program::start().await;
    let idle = Held::of(&program).await.descriptors;
    // Threads and caches come with the first calls.
    soak(&program.client, 320, 64).await;
    let before = Held::at_rest(&program, idle).await;
    let begun = Instant::now();
    soak(&program.client, execs, streams).await;
    let elapsed = begun.elapsed();
    let after = Held::at_rest(&program, before.descriptors).await;
    println!("  before: {before:?}\n  after:  {after:?}\n  in {elapsed:.1?}");

    assert_eq!((before.records, after.records), (0, 0));
    assert_eq!((before.zombies, after.zombies), (0, 0));
    assert_eq!(after.processes, before.processes);
    assert_eq!(after.files, before.files);
    assert!(
        after.descriptors <= before.descriptors,
        "{} > {}",
        after.descriptors,
        before.descriptors
    );
    let most = before.memory_kib + SLACK_KIB;
    assert!(
        after.memory_kib <= most,
        "{} > {most} KiB",
        after.memory_kib
    );
}

/// The calls, each followed by the delete of its record, over connections of their own: what a
/// client keeps of them is nothing that the service holds.
async fn soak(client: &Client, execs: u64, streams: u64) {
    let client = client.with_own_connections();
    let calls = (0..execs).map(|number| one(&client, number, false));
    let calls = calls.chain((0..streams).map(|number| one(&client, number, true)));
    let calls = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
    let done = calls.fold(0, async |done, ()| done + 1).await;
    assert_eq!(done, execs + streams);
}

async fn one(client: &Client, number: u64, streamed: bool) {
    // Small ones, ones with input, and ones with output of many pages.
    let (script, stdin, stdout) = match number % 8 {
        0 => (
            "head -c 200000 /dev/zero | tr '\\0' x",
            "",
            "x".repeat(200_000),
        ),
        1..=3 => ("cat", "aMOpbGxvCg==", "héllo\n".to_owned()),
        _ => ("echo $$ >&2; echo done", "", "done\n".to_owned()),
    };
    let body = json!({"command": ["sh", "-c", script], "stdin": stdin, "timeout_ms": 60_000});
    let (id, got) = match streamed {
        true => stream(client, &body).await,
        false => {
            let (status, answer) = reply(client.post("exec", &body)).await;
            assert_eq!(
                (status.as_u16(), &answer["exit_code"]),
                (200, &json!(0)),
                "{answer}"
            );
            let text = |name: &str| answer[name].as_str().unwrap().to_owned();
            (text("exec_id"), text("stdout"))
        }
    };
    assert_eq!(got.len(), stdout.len());
    assert!(got == stdout, "the output of call {number} is another's");
    client.delete(&format!("exec/bg/{id}")).await;
}

/// The id and the standard output of a streamed exec that ends well.
async fn stream(client: &Client, body: &Value) -> (String, String) {
    let (status, events) = reply(client.post("exec/stream", body)).await;
    let events = events.as_str().unwrap_or_default();
    assert_eq!(status, 200, "{events}");
    let (mut id, mut stdout, mut exit) = (String::new(), String::new(), Value::Null);
    for event in events.split_terminator("\n\n") {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        match name {
            "event: start" => data["exec_id"].as_str().unwrap().clone_into(&mut id),
            "event: stdout" => stdout.push_str(data["text"].as_str().unwrap()),
            "event: execution_complete" => exit = data["exit_code"].clone(),
            _ => {}
        }
    }
    assert_eq!(exit, json!(0), "{events}");
    (id, stdout)
}
