//! Brings a file to a sandbox and back in a process of its own, and prints what that took: seconds
//! up and down, and the most memory before and after, as JSON.
//!
//! Arguments: URL, token, project, run uuid, the file, where it comes back to.

use std::io::Write as _;

use polyaxon_client::{Client, Config, Token};
use polyaxon_sandbox::SandboxClient;
use polyaxon_sandbox::fs::{Download, Upload};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, token, project, run, here, back] = &arguments[..] else {
        return Err("six arguments are needed".into());
    };
    let config = Config::explicit(url)?.token(Token::new(token)?);
    let client = Client::new(&config)?;
    let sandbox = SandboxClient::connect(&client, &project.parse()?, run.parse()?);
    sandbox.ping().await?;
    let before = peak()?;
    let fs = sandbox.fs();
    let up = fs.upload(&Upload::new(here, "/tmp/transfer")).await?;
    let download = Download::new("/tmp/transfer", back).without_sync();
    let down = fs.download(&download).await?;
    let after = peak()?;
    let figures = serde_json::json!({
        "bytes": down.bytes,
        "up_seconds": up.duration.as_secs_f64(),
        "down_seconds": down.duration.as_secs_f64(),
        "requests": up.requests + down.requests,
        "before_kib": before,
        "after_kib": after,
    });
    writeln!(std::io::stdout(), "{figures}")?;
    Ok(())
}

/// The most memory that this process has held so far, in KiB.
fn peak() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("the system does not say it")?.parse()?)
}
