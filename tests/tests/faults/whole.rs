//! Output that is told whole, once and in order, wherever one connection breaks.

use std::fs;

use futures::{StreamExt as _, stream};
use polyaxon_sandbox::process::{LogStream, StreamEvent};
use polyaxon_sandbox::{Error, Exec, SandboxClient};

use crate::cases::{A_WHILE, Fault, Kind, Often, Side, borders};
use crate::operations::Op;
use crate::proxy::{Proxy, Seen};
use crate::stage::{PATIENT, Stage};

const AT_ONCE: usize = 24;

/// Writes to both outputs in several pieces, and counts how often it ran.
const SCRIPT: &str = "printf x >> \"$0\"; for i in 1 2 3 4 5 6; do echo \"out $i é漢😀\"; \
     echo \"err $i\" >&2; [ $((i % 2)) = 0 ] && sleep 0.02; done; true";

/// How a command is executed and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A durable exec.
    Durable,
    /// A background exec, started without trouble and then followed.
    Follow,
    /// A stream, gone on with where it breaks.
    Stream,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_told_whole_and_once_wherever_a_connection_breaks() {
    let stage = Stage::start().await;
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let mut cases = Vec::new();
    for how in [How::Durable, How::Follow, How::Stream] {
        let seen = run(&stage, next(), how, None).await;
        let seen = seen.unwrap_or_else(|why| panic!("{how:?}: {why}"));
        for (side, length) in [(Side::Request, seen.request), (Side::Answer, seen.answer)] {
            for at in borders(length, crate::all()) {
                let kinds = [Kind::Cut, Kind::Reset, Kind::Stall(A_WHILE), Kind::Split];
                cases.extend(kinds.map(|kind| {
                    let often = Often::Once;
                    let fault = Fault {
                        side,
                        at,
                        kind,
                        often,
                    };
                    (next(), how, fault)
                }));
            }
        }
    }
    let count = cases.len();
    let went = stream::iter(cases)
        .map(async |(number, how, fault)| {
            let went = run(&stage, number, how, Some(fault)).await;
            went.err().map(|why| format!("{how:?} {fault:?}: {why}"))
        })
        .buffer_unordered(AT_ONCE);
    let wrong: Vec<String> = went.filter_map(async |wrong| wrong).collect().await;
    println!("{count} broken connections");
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert!(count >= 200, "{count}");
}

/// Executes the command through a proxy with this fault, and compares what was told.
async fn run(stage: &Stage, number: usize, how: How, fault: Option<Fault>) -> Result<Seen, String> {
    let file = stage.text(number);
    let exec = Exec::new(["sh", "-c", SCRIPT, &file]);
    let direct = stage.direct();
    let started = match how {
        How::Follow => Some(direct.process().exec_bg(&exec).await.unwrap()),
        How::Durable | How::Stream => None,
    };
    let proxy = Proxy::start(stage.address(Op::ExecBg), fault);
    let sandbox = stage.sandbox(proxy.address(), PATIENT);
    let told = match how {
        How::Durable => {
            collect(
                sandbox
                    .process()
                    .durable(&exec)
                    .patience(PATIENT)
                    .collect(1 << 20),
            )
            .await
        }
        How::Follow => {
            let bg = sandbox.process().bg(started.unwrap().id().clone());
            collect(bg.follow_both().collect(1 << 20)).await
        }
        How::Stream => streamed(&sandbox, &direct, &exec).await,
    };
    let seen = proxy.end().await;
    let told = match told {
        Ok(Some(told)) => told,
        // Its id was never told: whether it ran is not known, and that is what the error says.
        Ok(None) if fault.is_some() => return Ok(Seen::default()),
        Ok(None) => return Err("no id came".to_owned()),
        Err(error) => return Err(crate::sentence(&error)),
    };
    let lines = |stream: &dyn Fn(usize) -> String| (1..=6).map(stream).collect::<String>();
    let want = (
        lines(&|i| format!("out {i} é漢😀\n")),
        lines(&|i| format!("err {i}\n")),
    );
    if told != want {
        return Err(format!("{told:?}"));
    }
    match fs::read_to_string(file).unwrap().as_str() {
        "x" => Ok(seen.first().copied().unwrap_or_default()),
        other => Err(format!("it ran {} times", other.len())),
    }
}

type Told = (String, String);

async fn collect(
    result: impl Future<Output = Result<polyaxon_sandbox::ExecResult, Error>>,
) -> Result<Option<Told>, Error> {
    let result = result.await?;
    assert!(result.success(), "{result:?}");
    let text = |output: &polyaxon_sandbox::process::Output| output.text().unwrap().to_owned();
    Ok(Some((text(&result.stdout), text(&result.stderr))))
}

/// Reads a stream; where it breaks, the rest comes from the log.
async fn streamed(
    sandbox: &SandboxClient,
    direct: &SandboxClient,
    exec: &Exec,
) -> Result<Option<Told>, Error> {
    let mut told = (Vec::new(), Vec::new());
    let mut add = |event: StreamEvent| {
        if let StreamEvent::Output(chunk) = event {
            match chunk.stream {
                LogStream::Stdout => told.0.extend_from_slice(&chunk.bytes),
                LogStream::Stderr => told.1.extend_from_slice(&chunk.bytes),
            }
        }
    };
    let Ok(mut events) = sandbox.process().exec_stream(exec).await else {
        return Ok(None);
    };
    let mut broken = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => add(event),
            Err(_) => broken = true,
        }
    }
    if broken {
        let Some(id) = events.exec_id().cloned() else {
            return Ok(None);
        };
        let mut rest = direct.process().bg(id).follow_from(events.cursor());
        while let Some(event) = rest.next().await {
            add(event?);
        }
    }
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ok(Some((text(told.0), text(told.1))))
}
