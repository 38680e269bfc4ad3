//! The `polyaxon-local` program: flags, and nothing else.

use std::error::Error as _;
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use polyaxon_client::ProjectRef;
use polyaxon_local::LocalServer;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The Polyaxon sandbox service on one machine, for development and tests.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve everything on one address: projects, runs, the gateway path, a daemon for each run.
    ///
    /// Prints one line of JSON on standard output when it serves:
    /// `{"ready":"http://127.0.0.1:8000",…}`, with `token_file` where it made a token. Ctrl-C or
    /// SIGTERM ends it: processes are killed, its folder is removed.
    Up(Up),
}

#[derive(Args)]
struct Up {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = address)]
    listen: SocketAddr,
    /// The folder to keep sandboxes in, in a subfolder of their own. Default: that for temporary
    /// files.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The token that calls have to carry; better given by the environment, since other users see
    /// arguments. Default: a random one, written to a file.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POLYAXON_LOCAL_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// A project that runs can be created in; can be repeated. Default: `local/agent-lab` and a
    /// few others, which the ready line names.
    #[arg(long = "project", value_name = "OWNER/NAME", value_parser = project)]
    projects: Vec<ProjectRef>,
}

// By hand, since the token must not be printed.
impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("expected HOST:PORT: {error}"))?;
    found
        .next()
        .ok_or_else(|| "the host has no address".to_owned())
}

fn project(text: &str) -> Result<ProjectRef, String> {
    text.parse()
        .map_err(|error: polyaxon_client::InvalidInput| error.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Command::Up(up) = Cli::parse().command;
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    match run(up).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            let _nobody_listens = writeln!(io::stderr(), "polyaxon-local: {sentence}");
            ExitCode::FAILURE
        }
    }
}

async fn run(up: Up) -> Result<(), String> {
    let mut ends = ends().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let mut builder = LocalServer::builder().listen(up.listen);
    if let Some(root) = up.root {
        builder = builder.root(root);
    }
    let generated = up.token.is_none();
    if let Some(token) = up.token {
        builder = builder.token(token);
    }
    for project in up.projects {
        builder = builder.project(project);
    }
    let server = builder.start().await.map_err(|error| sentence(&error))?;
    let _nobody_listens = writeln!(io::stderr(), "{}", server.report());
    let ready = ready(&server, generated)?;
    writeln!(io::stdout(), "{ready}")
        .and_then(|()| io::stdout().flush())
        .map_err(|error| format!("cannot print the ready line: {error}"))?;

    let [interrupt, terminate, hang_up] = &mut ends;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    server.stop().await.map_err(|error| sentence(&error))
}

fn ends() -> io::Result<[Signal; 3]> {
    Ok([
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ])
}

/// The line that says where it serves. A token that was given is not in it, and one that was made
/// is in a file for its owner only.
fn ready(server: &LocalServer, generated: bool) -> Result<String, String> {
    let projects = server.projects().iter().map(ToString::to_string);
    let mut line = json!({
        "ready": server.url(),
        "pid": std::process::id(),
        "projects": projects.collect::<Vec<_>>(),
    });
    if generated {
        let file = server.folder().join("token");
        write_private(&file, server.token())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        if let Some(members) = line.as_object_mut() {
            members.insert("token_file".to_owned(), json!(file));
        }
    }
    Ok(line.to_string())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// An error with its causes, as one sentence.
fn sentence(error: &polyaxon_local::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
