//! A command that outlives its caller: it is started once, its output is told without a gap, and
//! what is kept in a small file is enough to go on after a crash.
//!
//!     cargo run --example background -- --local
//!
//! Against a running sandbox of a Polyaxon installation; ended with Ctrl-C and called again with the
//! same file, it goes on where it was:
//!
//!     SANDBOX_RUN_UUID=… cargo run --example background -- --project OWNER/PROJECT --handle job.json

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use examples::SandboxFlags;
use polyaxon_sandbox::process::{Durable, DurableHandle, StreamEvent};
use polyaxon_sandbox::{Exec, SandboxClient};

/// Starts a command in the background of a sandbox, or goes on with it.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    sandbox: SandboxFlags,
    /// What is kept between two calls.
    #[arg(long, default_value = "background.json")]
    handle: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let open = flags.sandbox.open("background").await?;
    let done = match flags.sandbox.local {
        true => twice(&open.sandbox, &flags.handle).await,
        false => work(&open.sandbox, &flags.handle, None).await.map(drop),
    };
    open.close().await?;
    done
}

/// Begins, forgets all but the file after three pieces, and goes on.
async fn twice(sandbox: &SandboxClient, kept: &Path) -> Result<()> {
    let mut text = work(sandbox, kept, Some(3)).await?;
    println!("-- the caller is gone; another one goes on");
    text += &work(sandbox, kept, None).await?;
    let want: String = (1..=10).map(|step| format!("step {step}\n")).collect();
    ensure!(text == want, "the output is not whole: {text:?}");
    ensure!(
        sandbox.process().list().await?.is_empty(),
        "a record is left"
    );
    Ok(())
}

/// Shows what the command writes from where the file says, and keeps the file up to date. Ends with
/// the command, or after so many pieces.
async fn work(sandbox: &SandboxClient, kept: &Path, pieces: Option<usize>) -> Result<String> {
    let exec = Exec::shell("for i in $(seq 10); do echo step $i; sleep 0.1; done")
        .timeout(Duration::from_secs(60));
    let process = sandbox.process();
    let mut durable = match std::fs::read(kept) {
        Ok(bytes) => {
            let handle: DurableHandle = serde_json::from_slice(&bytes)
                .with_context(|| format!("{} holds no handle", kept.display()))?;
            println!(
                "going on with {} at byte {}",
                handle.tag, handle.cursor.stdout
            );
            process.reattach(handle)?.or_start(&exec)
        }
        Err(_) => process.durable(&exec),
    };
    // Before anything is sent: then nothing can be lost.
    keep(&durable, kept)?;
    let mut text = String::new();
    let mut count = 0;
    while pieces.is_none_or(|pieces| count < pieces)
        && let Some(event) = durable.next().await
    {
        if let StreamEvent::Output(chunk) = event? {
            print!("{}", chunk.text());
            text += &chunk.text();
            count += 1;
            keep(&durable, kept)?;
        }
    }
    if let Some(end) = durable.completion() {
        println!("{:?} after {:.2?}", end.termination, end.duration);
        // All of it was told, so neither the record nor the file is of use any more.
        durable.start().await?.delete().await?;
        std::fs::remove_file(kept)?;
    }
    Ok(text)
}

fn keep(durable: &Durable, path: &Path) -> Result<()> {
    let text = serde_json::to_vec(durable.handle())?;
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("{} cannot be written", path.display()))
}
