//! The flags of the program, and what all of its commands share.

mod doctor;
mod serve;
mod up;

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use polyaxon_local::FaultRule;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The Polyaxon sandbox service on one machine, for development and tests.
///
/// It is no boundary against hostile code: `polyaxon-local doctor` says what protects here.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Cli {
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
    Up(up::Up),
    /// Serve the daemon of one sandbox, as the pod of a run has it. Made for inside a container.
    ///
    /// It maps no paths and confines nothing: callers read, write and run whatever the user of the
    /// daemon can in the file system that it runs in. Callers show its token in the header
    /// X-Polyaxon-Sandbox-Token; it comes from the variable `POLYAXON_SANDBOX_TOKEN`, else from the
    /// file of --token-file. Prints one line of JSON on standard output when it serves:
    /// `{"ready":"http://127.0.0.1:9090",…}`. Ctrl-C or SIGTERM ends it with its commands.
    Serve(serve::Serve),
    /// Say what isolates commands on this machine, and what does not.
    ///
    /// Nothing is started or changed. The exit status is 0 whatever is missing.
    Doctor(doctor::Doctor),
}

impl Cli {
    /// Does what the flags say.
    ///
    /// # Errors
    /// A sentence for the person who gave them.
    pub(crate) async fn run(self) -> Result<(), String> {
        match self.command {
            Command::Up(up) => up.run().await,
            Command::Serve(serve) => serve.run().await,
            Command::Doctor(doctor) => doctor.run(),
        }
    }
}

/// How log lines look on standard error.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Log lines go to standard error. `RUST_LOG` says which: `info` by default.
fn start_log(format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Answers that go wrong on purpose.
#[derive(Args, Debug)]
struct FaultsFile {
    /// A JSON file of faults: answers that go wrong on purpose, for tests of clients. For example
    /// `{"faults": [{"fault": {"cut_after": 10}, "path": "*/fs/read", "times": 1}]}`.
    ///
    /// Each entry has `fault`, and can have `method`, `path` (a `*` is any text), `skip` and
    /// `times` (how many requests to let pass, and to spoil), and `carried_out` (the request has
    /// its effect, only its answer is lost). Faults: `{"cut_after": BYTES}`,
    /// `{"stall_after": BYTES}`, `{"split": BYTES}`, `{"slow": BYTES_PER_SECOND}`, `"crlf"` (event
    /// streams), `"bad_gateway"`, `{"too_many_requests": RETRY_AFTER_SECONDS}`, `"close"`,
    /// `"refuse"` (connections), `"refuse_start"` (runs).
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl FaultsFile {
    fn read(&self) -> Result<Vec<FaultRule>, String> {
        let Some(path) = &self.faults else {
            return Ok(Vec::new());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the faults in {}: {error}", path.display()))?;
        FaultRule::parse_all(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// `HOST:PORT`; without a host all addresses of the machine are meant.
fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    };
    let mut found = whole
        .to_socket_addrs()
        .map_err(|error| format!("expected HOST:PORT: {error}"))?;
    found
        .next()
        .ok_or_else(|| "the host has no address".to_owned())
}

/// The signals that end the program. Listened to from the start, so that none is missed.
struct Ends([Signal; 3]);

impl Ends {
    fn listen() -> Result<Self, String> {
        let listen = || {
            Ok([
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ])
        };
        let signals: io::Result<[Signal; 3]> = listen();
        signals
            .map(Self)
            .map_err(|error| format!("cannot listen to signals: {error}"))
    }

    async fn heard(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        let name = tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
            _ = hang_up.recv() => "SIGHUP",
        };
        tracing::info!(signal = name, "stopping");
    }
}

/// The one line that says where it serves.
fn print_ready(line: &Value) -> Result<(), String> {
    writeln!(io::stdout(), "{line}")
        .and_then(|()| io::stdout().flush())
        .map_err(|error| format!("cannot print the ready line: {error}"))
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
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
