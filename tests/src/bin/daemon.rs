//! The daemon of a sandbox as a program: the tests run it inside a pod, where the platform has it.
//! Its only argument is its token; it prints its address.

use std::io::Write as _;

use polyaxon_local::LocalDaemon;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = std::env::args().nth(1).ok_or("the token is missing")?;
    let state = std::env::current_dir()?.join("daemon-state");
    let daemon = LocalDaemon::builder(token).state_dir(state).start().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", daemon.url())?;
    out.flush()?;
    // It is killed with its pod.
    std::future::pending::<()>().await;
    Ok(())
}
