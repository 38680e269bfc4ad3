//! Rounds of random commands, each ended in a random way.
//!
//! `POLYAXON_KILL_ROUNDS=200` is the long form, `POLYAXON_KILL_SEED=N` brings rounds back.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use polyaxon_local::{LayerState, LocalServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::number;
use crate::program::{Client, Program, reply};
use crate::random::{Random, Script};
use crate::watch::{Id, marked, sleeps, within, zombies};

/// Rounds at once.
const AT_ONCE: usize = 4;
/// The time limit of a command that is to end by it.
const TIMEOUT_MS: u64 = 2_000;
/// How long all of a command may take to be there, on a busy machine.
const START: Duration = Duration::from_secs(60);
/// How long processes may live on after the end: the grace before SIGKILL, and a busy machine.
const END: Duration = Duration::from_secs(60);
/// The same where it is known that some may stay: the grace, and a little.
const UNCLAIMED_END: Duration = Duration::from_secs(6);

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Timeout,
    BackgroundTimeout,
    Disconnect,
    DeleteExec,
    DeleteStream,
    DeleteBackground,
    DeleteTerminal,
    StopRun,
    DropServer,
    Terminate,
    Kill,
}

const WAYS: [Way; 11] = [
    Way::Timeout,
    Way::BackgroundTimeout,
    Way::Disconnect,
    Way::DeleteExec,
    Way::DeleteStream,
    Way::DeleteBackground,
    Way::DeleteTerminal,
    Way::StopRun,
    Way::DropServer,
    Way::Terminate,
    Way::Kill,
];

/// What a round has left behind.
#[derive(Debug)]
struct Left {
    way: Way,
    script: Script,
    started: usize,
    survivors: Vec<Id>,
    zombies: Vec<Id>,
}

/// Whether it is claimed that nothing survives. Without pods the report says that two kinds may:
/// what left its session, and everything if the service itself is killed.
fn is_claimed(way: Way, script: &Script, pods: bool) -> bool {
    pods || !(script.daemonises || way == Way::Kill)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_survives_its_end() {
    let rounds = number("POLYAXON_KILL_ROUNDS", 22);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("POLYAXON_KILL_SEED", u64::from(clock.subsec_nanos()));
    let server = LocalServer::start().await.unwrap();
    let layer = server
        .report()
        .layers
        .iter()
        .find(|layer| layer.number == 1);
    let pods = layer.unwrap().state == LayerState::Applied;
    drop(server);
    println!("kill: POLYAXON_KILL_SEED={seed} POLYAXON_KILL_ROUNDS={rounds}, pods: {pods}");

    let mut random = Random::new(seed);
    // Every way has its turn, in an order of chance.
    let mut ways: Vec<Way> = Vec::new();
    let mut waiting: Vec<(Way, Script, String)> = Vec::new();
    for _ in 0..rounds {
        if ways.is_empty() {
            ways = WAYS.to_vec();
        }
        let way = ways.swap_remove(random.below(ways.len()));
        let mark = format!("600.{:015}", random.next() % 1_000_000_000_000_000);
        waiting.push((way, Script::new(&mut random, &mark), mark));
    }
    let mut running = JoinSet::new();
    let mut all = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some((way, script, mark)) = waiting.pop()
        {
            running.spawn(round(way, script, mark, pods));
        }
        match running.join_next().await {
            Some(left) => all.push(left.unwrap()),
            None => break,
        }
    }
    report(&all, pods);
    let broken: Vec<&Left> = all
        .iter()
        .filter(|left| is_claimed(left.way, &left.script, pods))
        .filter(|left| !left.survivors.is_empty() || !left.zombies.is_empty())
        .collect();
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    assert_eq!(all.len(), usize::try_from(rounds).unwrap());
}

fn report(all: &[Left], pods: bool) {
    let mut by_way: BTreeMap<Way, [usize; 4]> = BTreeMap::new();
    for left in all {
        let sums = by_way.entry(left.way).or_default();
        let more = [1, left.started, left.survivors.len(), left.zombies.len()];
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
    }
    for (way, [rounds, started, survivors, zombies]) in by_way {
        println!(
            "  {way:?}: {rounds} rounds, {started} processes, {survivors} survivors, {zombies} zombies"
        );
    }
    let sum = |count: fn(&Left) -> usize| all.iter().map(count).sum::<usize>();
    let beyond = all
        .iter()
        .filter(|left| !is_claimed(left.way, &left.script, pods));
    println!(
        "kill: {} rounds, {} processes, {} survivors, {} zombies; {} rounds where survivors are not excluded",
        all.len(),
        sum(|left| left.started),
        sum(|left| left.survivors.len()),
        sum(|left| left.zombies.len()),
        beyond.count()
    );
}

async fn round(way: Way, script: Script, mark: String, pods: bool) -> Left {
    let (before, program) = match way {
        Way::DropServer => (with_library(&script, &mark).await, None),
        _ => {
            let mut program = Program::start().await;
            (
                with_program(way, &mut program, &script, &mark).await,
                Some(program),
            )
        }
    };
    // The program lives on meanwhile, where the end was not its own: it is to reap what it ended.
    let limit = match is_claimed(way, &script, pods) {
        true => END,
        false => UNCLAIMED_END,
    };
    let _in_time = within(limit, || {
        marked(&mark).is_empty() && zombies(&before).is_empty()
    })
    .await;
    let (survivors, zombies) = (marked(&mark), zombies(&before));
    drop(program);
    for (id, _) in &survivors {
        // They are this round's own: nobody else's words hold the mark.
        let id = i32::try_from(*id).ok().and_then(Pid::from_raw).unwrap();
        let _gone = kill_process(id, Signal::KILL);
    }
    Left {
        way,
        script,
        started: before.len(),
        survivors,
        zombies,
    }
}

fn body(script: &Script, mark: &str, timeout_ms: u64) -> Value {
    json!({
        "command": ["sh", "-c", script.text],
        "env": {"ENDURANCE_MARK": mark},
        "timeout_ms": timeout_ms,
    })
}

/// Waits until all of a script runs, and gives its processes.
async fn all_of(script: &Script, mark: &str) -> Vec<Id> {
    let there = within(START, || sleeps(mark) == script.sleeps).await;
    assert!(there, "{} of {script:?}", sleeps(mark));
    marked(mark)
}

/// What there is of a script a while before its time is over; all of it on a machine with time.
async fn most_of(script: &Script, mark: &str) -> Vec<Id> {
    let limit = Duration::from_millis(TIMEOUT_MS) / 2;
    let _all = within(limit, || sleeps(mark) == script.sleeps).await;
    marked(mark)
}

async fn start(client: &Client, script: &Script, mark: &str) -> String {
    let (status, answer) = reply(client.post("exec/bg", &body(script, mark, 300_000))).await;
    assert_eq!(status, 202, "{answer}");
    format!("exec/bg/{}", answer["exec_id"].as_str().unwrap())
}

async fn with_library(script: &Script, mark: &str) -> Vec<Id> {
    let server = LocalServer::start().await.unwrap();
    let client = Client::sandbox(server.url(), server.token()).await;
    start(&client, script, mark).await;
    let before = all_of(script, mark).await;
    tokio::task::block_in_place(|| drop(server));
    before
}

async fn with_program(way: Way, program: &mut Program, script: &Script, mark: &str) -> Vec<Id> {
    let client = program.client.clone();
    let exec = |timeout_ms| reply(client.post("exec", &body(script, mark, timeout_ms)));
    match way {
        Way::Timeout => {
            let call = tokio::spawn(exec(TIMEOUT_MS));
            let before = most_of(script, mark).await;
            let (status, answer) = call.await.unwrap();
            let is = (status.as_u16(), &answer["timed_out"]);
            assert_eq!(is, (200, &json!(true)), "{answer}");
            before
        }
        Way::BackgroundTimeout => {
            let request = client.post("exec/bg", &body(script, mark, TIMEOUT_MS));
            let (status, answer) = reply(request).await;
            assert_eq!(status, 202, "{answer}");
            most_of(script, mark).await
        }
        Way::Disconnect => {
            let call = tokio::spawn(exec(300_000));
            let before = all_of(script, mark).await;
            call.abort();
            before
        }
        Way::DeleteExec => {
            let call = tokio::spawn(exec(300_000));
            let before = all_of(script, mark).await;
            delete_all(&client).await;
            call.await.unwrap();
            before
        }
        Way::DeleteStream => {
            let stream = client.post("exec/stream", &body(script, mark, 300_000));
            let stream = stream.send().await.unwrap();
            assert_eq!(stream.status(), 200);
            let before = all_of(script, mark).await;
            delete_all(&client).await;
            before
        }
        Way::DeleteTerminal => {
            let mut body = body(script, mark, 0);
            body.as_object_mut().unwrap().remove("timeout_ms");
            let (status, answer) = reply(client.post("pty", &body)).await;
            assert_eq!(status, 201, "{answer}");
            let before = all_of(script, mark).await;
            let id = answer["pty_id"].as_str().unwrap();
            client.delete(&format!("pty/{id}")).await;
            before
        }
        Way::DeleteBackground => {
            let exec = start(&client, script, mark).await;
            let before = all_of(script, mark).await;
            client.delete(&exec).await;
            before
        }
        Way::StopRun => {
            start(&client, script, mark).await;
            let before = all_of(script, mark).await;
            client.stop_run().await;
            before
        }
        Way::Terminate | Way::Kill | Way::DropServer => {
            start(&client, script, mark).await;
            let before = all_of(script, mark).await;
            let signal = match way {
                Way::Kill => Signal::KILL,
                _ => Signal::TERM,
            };
            program.end(signal).await;
            before
        }
    }
}

async fn delete_all(client: &Client) {
    for id in client.execs().await {
        client.delete(&format!("exec/bg/{id}")).await;
    }
}
