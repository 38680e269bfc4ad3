//! Our side: what a user of the crates would write.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use polyaxon_sandbox::fs::{Download, Ls, Upload, UploadDir};
use polyaxon_sandbox::process::{ExecEvents, LogStream, StreamEvent};
use polyaxon_sandbox::{Exec, SandboxClient};
use tokio::runtime::{Builder, Runtime};

use crate::place::Place;
use crate::raw::mib_per_second;
use crate::worker::{self, Done, Task};

/// How many small files are on their way at once.
const AT_ONCE: usize = 16;

pub(crate) fn work() -> Result<()> {
    let place = Place::from_env()?;
    let runtime = Runtime::new()?;
    let sandbox = place.sandbox()?;
    let events = place.events()?;
    let scratch = tempfile::tempdir()?;
    worker::serve(|task| {
        runtime.block_on(async {
            match task.scenario.as_str() {
                "exec" => sequential(&sandbox, task.count).await,
                "burst" => burst(&sandbox, task.count).await,
                "events" => stream_events(&events, task).await,
                "download" => download(&sandbox, task, &scratch.path().join("down")).await,
                "upload" => upload(&sandbox, task, &scratch.path().join("up")).await,
                "files" => files(&sandbox, task).await,
                "directory" => directory(&sandbox, task, &scratch.path().join("files")).await,
                "follow" => follow(&sandbox, task.count).await,
                "idle" => idle(&sandbox, task.count).await,
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

async fn directory(sandbox: &SandboxClient, task: &Task, from: &Path) -> Result<Done> {
    sandbox.fs().rm_all("/tmp/directory-ours").await?;
    fs::create_dir(from)?;
    let bytes = vec![b'x'; usize::try_from(task.size)?];
    for number in 0..task.count {
        fs::write(from.join(format!("f{number}")), &bytes)?;
    }
    let started = Instant::now();
    sandbox
        .fs()
        .upload_dir(&UploadDir::new(from, "/tmp/directory-ours"))
        .await?;
    let took = started.elapsed().as_secs_f64();
    fs::remove_dir_all(from)?;
    Ok(Done {
        samples: vec![took],
        check: format!("{} files", count(sandbox, "/tmp/directory-ours").await?),
    })
}

async fn count(sandbox: &SandboxClient, folder: &str) -> Result<usize> {
    let all = Ls::new().max_entries(10_000);
    Ok(sandbox.fs().ls_with(folder, all).await?.entries.len())
}

async fn stream_events(events: &SandboxClient, task: &Task) -> Result<Done> {
    let (size, count) = (task.size.to_string(), task.count.to_string());
    let exec = Exec::new(["events".to_owned(), size, count]);
    let started = Instant::now();
    let mut stream = events.process().exec_stream(&exec).await?;
    let mut got = 0;
    while let Some(event) = stream.next().await {
        if let StreamEvent::Output(chunk) = event? {
            got += chunk.bytes.len();
        }
    }
    let took = started.elapsed().as_secs_f64();
    ensure!(stream.completion().is_some(), "the end was not told");
    Ok(Done {
        samples: vec![took],
        check: format!("{got} bytes"),
    })
}

async fn download(sandbox: &SandboxClient, task: &Task, to: &Path) -> Result<Done> {
    let started = Instant::now();
    sandbox
        .fs()
        .download(&Download::new("/tmp/large", to).without_sync())
        .await?;
    let took = started.elapsed().as_secs_f64();
    let got = fs::metadata(to)?.len();
    fs::remove_file(to)?;
    Ok(Done {
        samples: vec![mib_per_second(task.size, took)],
        check: format!("{got} bytes"),
    })
}

async fn upload(sandbox: &SandboxClient, task: &Task, from: &Path) -> Result<Done> {
    let mut file = fs::File::create(from)?;
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(b'x'), task.size),
        &mut file,
    )?;
    let started = Instant::now();
    sandbox
        .fs()
        .upload(&Upload::new(from, "/tmp/up-ours"))
        .await?;
    let took = started.elapsed().as_secs_f64();
    fs::remove_file(from)?;
    let got = sandbox.fs().stat("/tmp/up-ours").await?.size;
    Ok(Done {
        samples: vec![mib_per_second(task.size, took)],
        check: format!("{got} bytes"),
    })
}

const WRITER: &str = "
import sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.05)
    print(time.time(), flush=True)
";

async fn follow(sandbox: &SandboxClient, count: u64) -> Result<Done> {
    let exec = Exec::new(["python3", "-u", "-c", WRITER, &count.to_string()]);
    let command = sandbox
        .process()
        .exec_bg(&exec.timeout(Duration::from_secs(300)))
        .await?;
    let mut lines = command.follow(LogStream::Stdout).lines();
    let mut samples = Vec::new();
    while let Some(line) = lines.next().await {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let written: f64 = line?
            .text
            .trim()
            .parse()
            .context("the command wrote no time")?;
        samples.push(now.as_secs_f64() - written);
    }
    command.delete().await?;
    let check = format!("{} lines", samples.len());
    Ok(Done { samples, check })
}

/// Many commands that say nothing, each with its stream.
async fn idle(sandbox: &SandboxClient, count: u64) -> Result<Done> {
    let exec = Exec::new(["sleep", "300"]).timeout(Duration::from_secs(300));
    let started = Instant::now();
    let streams: Vec<_> = stream::iter(0..count)
        .map(|_| async {
            let mut events = sandbox.process().exec_stream(&exec).await?;
            match events.next().await.context("no event")?? {
                StreamEvent::Started(_) => anyhow::Ok(events),
                other => bail!("first came {other:?}"),
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let took = started.elapsed().as_secs_f64();
    ensure!(
        sandbox.ping().await?.status == "ok",
        "no ping beside the streams"
    );
    let check = format!("{} streams", streams.len());
    stream::iter(streams)
        .map(ExecEvents::terminate)
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(Done {
        samples: vec![took],
        check,
    })
}
