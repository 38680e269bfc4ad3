//! Brings a file or a folder to a sandbox and back, with a bar that shows how far it is, and checks
//! that the same bytes came back.
//!
//!     cargo run --example transfer -- --local
//!     cargo run --example transfer -- --local path/to/a/file path/to/a/folder
//!
//! Against a running sandbox of a Polyaxon installation:
//!
//!     SANDBOX_RUN_UUID=… cargo run --example transfer -- --project OWNER/PROJECT FILE …

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use examples::SandboxFlags;
use indicatif::{ProgressBar, ProgressStyle};
use polyaxon_sandbox::SandboxClient;
use polyaxon_sandbox::fs::{
    Comparison, Download, DownloadDir, Fs, Progress, TransferReceipt, Upload, UploadDir,
};

/// How large the file is that is made where none is named, in MiB.
const MADE_MIB: u8 = 48;
/// Where things go in the sandbox.
const THERE: &str = "/tmp";

/// Transfers files and folders to a sandbox and back.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    sandbox: SandboxFlags,
    /// What is transferred. Default: a file and a folder that are made for it.
    paths: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let open = flags.sandbox.open("transfer").await?;
    let transferred = transfer(&open.sandbox, &flags.paths).await;
    open.close().await?;
    transferred
}

async fn transfer(sandbox: &SandboxClient, paths: &[PathBuf]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let paths = match paths {
        [] => made(folder.path())?,
        paths => paths.to_vec(),
    };
    for path in &paths {
        let name = path.file_name().context("a path without a name")?;
        let name = name.to_str().context("a name that is no text")?;
        let there = format!("{THERE}/{name}");
        let back = folder.path().join("back");
        match path.is_dir() {
            true => folder_and_back(&sandbox.fs(), path, &there, &back).await?,
            false => file_and_back(&sandbox.fs(), path, &there, &back).await?,
        }
    }
    Ok(())
}

async fn file_and_back(fs: &Fs, path: &Path, there: &str, back: &Path) -> Result<()> {
    let (bar, tell) = bar("up", there)?;
    let up = fs
        .upload(&Upload::new(path, there).sha256().on_progress(tell))
        .await?;
    bar.finish();
    report("up", &up);
    let (bar, tell) = self::bar("down", there)?;
    let down = fs
        .download(&Download::new(there, back).sha256().on_progress(tell))
        .await?;
    bar.finish();
    report("down", &down);
    // Each end has computed the digest of what it holds, where the sandbox can.
    ensure!(up.sha256 == down.sha256, "other bytes came back");
    let size = std::fs::metadata(back)?.len();
    ensure!(
        size == up.bytes,
        "{size} bytes came back, {} went",
        up.bytes
    );
    fs.rm(there).await?;
    Ok(std::fs::remove_file(back)?)
}

async fn folder_and_back(fs: &Fs, path: &Path, there: &str, back: &Path) -> Result<()> {
    let (bar, tell) = bar("up", there)?;
    let up = fs
        .upload_dir(&UploadDir::new(path, there).on_progress(tell))
        .await?;
    bar.finish();
    let (bar, tell) = self::bar("down", there)?;
    let down = fs
        .download_dir(&DownloadDir::new(there, back).on_progress(tell))
        .await?;
    bar.finish();
    for (way, receipt) in [("up", &up), ("down", &down)] {
        println!(
            "{way}: {} files, {} bytes in {:.2?} with {} requests; {} left out",
            receipt.files,
            receipt.bytes,
            receipt.duration,
            receipt.requests,
            receipt.left_out.len(),
        );
    }
    ensure!(
        (up.files, up.bytes) == (down.files, down.bytes),
        "{} files came back, {} went",
        down.files,
        up.files
    );
    fs.rm_all(there).await?;
    Ok(std::fs::remove_dir_all(back)?)
}

/// A bar, and what moves it.
fn bar(way: &'static str, what: &str) -> Result<(ProgressBar, impl Fn(Progress) + use<>)> {
    let style = "{prefix:>4} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template(style)?);
    bar.set_prefix(way);
    bar.set_message(what.to_owned());
    let moved = bar.clone();
    let tell = move |now: Progress| {
        if let Some(total) = now.total {
            moved.set_length(total);
        }
        moved.set_position(now.bytes);
    };
    Ok((bar, tell))
}

fn report(way: &str, receipt: &TransferReceipt) {
    println!(
        "{way}: {} bytes in {:.2?} with {} requests, {} tried again",
        receipt.bytes, receipt.duration, receipt.requests, receipt.retries
    );
    match (&receipt.sha256, receipt.comparison) {
        (Some(digest), Comparison::Same) => println!("    SHA-256 {digest} on both ends"),
        (Some(digest), _) => println!("    SHA-256 {digest} here; the sandbox cannot compute it"),
        (None, _) => {}
    }
}

/// A file that compresses badly, and a folder of small ones.
fn made(folder: &Path) -> Result<Vec<PathBuf>> {
    let (file, small) = (folder.join("made.bin"), folder.join("made"));
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file)?);
    let mut state = 1_u64;
    for _ in 0..u64::from(MADE_MIB) * (1 << 20) / 8 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        out.write_all(&state.to_le_bytes())?;
    }
    out.flush()?;
    std::fs::create_dir(&small)?;
    for number in 0..500 {
        std::fs::write(small.join(format!("{number}.txt")), format!("{number}\n"))?;
    }
    Ok(vec![file, small])
}
