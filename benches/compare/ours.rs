//! Our side: what a user of the crates would write.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use polyaxon_sandbox::{Exec, SandboxClient};
use tokio::runtime::{Builder, Runtime};

use crate::place::Place;
use crate::worker::{self, Done, Task};

/// How many small files are on their way at once.
const AT_ONCE: usize = 16;

pub(crate) fn work() -> Result<()> {
    let place = Place::from_env()?;
    let runtime = Runtime::new()?;
    let sandbox = place.sandbox()?;
    let events = place.events()?;
    worker::serve(|task| {
        runtime.block_on(async {
            match task.scenario.as_str() {
                "exec" => sequential(&sandbox, task.count).await,
                "burst" => burst(&sandbox, task.count).await,
                "files" => files(&sandbox, task).await,
                other => bail!("no such scenario: {other}"),
            }
        })
    })
}

/// A program that asks the service how it is, and ends.
pub(crate) fn ping_once() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let sandbox = Place::from_env()?.sandbox()?;
    let ping = runtime.block_on(sandbox.ping())?;
    ensure!(ping.status == "ok", "the service is {}", ping.status);
    Ok(())
}

async fn sequential(sandbox: &SandboxClient, count: u64) -> Result<Done> {
    let exec = Exec::new(["/bin/true"]);
    let (mut samples, mut fine) = (Vec::new(), 0);
    for _ in 0..count {
        let started = Instant::now();
        let result = sandbox.process().exec(&exec).await?;
        samples.push(started.elapsed().as_secs_f64());
        fine += u64::from(result.success());
    }
    Ok(Done {
        samples,
        check: format!("{fine} exited with 0"),
    })
}

async fn burst(sandbox: &SandboxClient, count: u64) -> Result<Done> {
    let exec = Exec::new(["/bin/true"]);
    let process = sandbox.process();
    let started = Instant::now();
    let calls = (0..count).map(|_| process.exec(&exec));
    let results = futures::future::try_join_all(calls).await?;
    let took = started.elapsed().as_secs_f64();
    let fine = results.iter().filter(|result| result.success()).count();
    Ok(Done {
        samples: vec![took],
        check: format!("{fine} exited with 0"),
    })
}

async fn files(sandbox: &SandboxClient, task: &Task) -> Result<Done> {
    let fs = sandbox.fs();
    fs.rm_all("/tmp/files-ours").await?;
    fs.mkdir("/tmp/files-ours").await?;
    let bytes = bytes::Bytes::from(vec![b'x'; usize::try_from(task.size)?]);
    let started = Instant::now();
    stream::iter(0..task.count)
        .map(|number| {
            let (fs, bytes) = (fs.clone(), bytes.clone());
            async move { fs.write(format!("/tmp/files-ours/f{number}"), bytes).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let took = started.elapsed().as_secs_f64();
    Ok(Done {
        samples: vec![took],
        check: format!("{} files", count(sandbox, "/tmp/files-ours").await?),
    })
}

async fn count(sandbox: &SandboxClient, folder: &str) -> Result<usize> {
    let all = polyaxon_sandbox::fs::Ls::new().max_entries(10_000);
    Ok(sandbox.fs().ls_with(folder, all).await?.entries.len())
}
