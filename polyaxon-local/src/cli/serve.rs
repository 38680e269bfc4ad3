//! `serve`: the daemon of one sandbox.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use polyaxon_local::{Limits, LocalDaemon, PtyLimits, Quirk};
use serde_json::json;

use super::{Ends, FaultsFile, LogFormat, address, print_ready, sentence, start_log};

const TERMINALS: &str = "\
Terminals: the variables POLYAXON_SANDBOX_MAX_PTYS and POLYAXON_SANDBOX_PTY_REPLAY_BYTES hold \
numbers; POLYAXON_SANDBOX_PTY_IDLE_TTL, POLYAXON_SANDBOX_PTY_TERMINAL_TTL, \
POLYAXON_SANDBOX_PTY_HEARTBEAT_INTERVAL and POLYAXON_SANDBOX_PTY_PONG_TIMEOUT hold times.";

/// Where the platform puts the token of the daemon.
const TOKEN: &str = "POLYAXON_SANDBOX_TOKEN";

// The names and values of the variables are those of the platform's daemon.
#[derive(Args, Debug)]
#[command(after_help = TERMINALS)]
pub(super) struct Serve {
    /// The address to listen on; port 0 takes a free one, and without a host all addresses of the
    /// machine are meant.
    #[arg(
        long,
        value_name = "ADDR",
        env = "POLYAXON_SANDBOX_LISTEN_ADDR",
        default_value = ":9090",
        value_parser = address
    )]
    listen: SocketAddr,
    /// The folder that commands start in where a call names none; made if it is not there. It
    /// confines nothing. Default: the current folder.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The file with the token, used where the variable `POLYAXON_SANDBOX_TOKEN` is not set.
    #[arg(
        long,
        value_name = "FILE",
        env = "POLYAXON_SANDBOX_TOKEN_FILE",
        default_value = "/opt/polyaxon/sandbox-token"
    )]
    token_file: PathBuf,
    /// The folder to keep the records and the output of commands in; a later `serve` finds them
    /// there. Two at once cannot use one.
    #[arg(
        long,
        value_name = "DIR",
        env = "POLYAXON_SANDBOX_STATE_DIR",
        default_value = "/tmp/plx-exec"
    )]
    state_dir: PathBuf,
    /// How many bytes those may take, a record counted as 4096. Above, output is dropped, and
    /// nothing more is started until some are deleted.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::STATE_BYTES)]
    state_bytes: u64,
    /// How many commands run at once.
    #[arg(
        long,
        value_name = "NUMBER",
        env = "POLYAXON_SANDBOX_MAX_EXECS",
        default_value_t = Limits::EXECS_RUNNING,
    )]
    max_execs: usize,
    /// How long calls and commands get at the end: `10s`, `500ms`, `1m30s`.
    #[arg(
        long,
        value_name = "TIME",
        env = "POLYAXON_SANDBOX_SHUTDOWN_TIMEOUT",
        default_value = "10s",
        value_parser = duration
    )]
    shutdown_timeout: Duration,
    /// What it does otherwise than the service that is described, for tests of clients; can be
    /// given more than once, or with commas: `no-follow`, `background-logs-only`,
    /// `tags-are-labels`, `other-codes`, `bare-errors`, `exit-codes-of-shells`, `no-exit-codes`,
    /// `broken-characters`, `other-times`, `numbers-as-text`, `bare-reads`.
    #[arg(long = "quirk", value_name = "NAME", value_delimiter = ',')]
    quirks: Vec<Quirk>,
    #[command(flatten)]
    faults: FaultsFile,
    /// How log lines look on standard error. `RUST_LOG` says which there are.
    #[arg(
        long,
        value_enum,
        env = "POLYAXON_SANDBOX_LOG_FORMAT",
        default_value_t = LogFormat::Text
    )]
    log_format: LogFormat,
}

fn duration(text: &str) -> Result<Duration, String> {
    let signed: SignedDuration = text
        .parse()
        .map_err(|_| "expected a time such as `10s`, `500ms` or `1m30s`".to_owned())?;
    signed
        .try_into()
        .map_err(|_| "a time cannot be below 0".to_owned())
}

impl Serve {
    pub(super) async fn run(self) -> Result<(), String> {
        start_log(self.log_format);
        let mut ends = Ends::listen()?;
        let mut limits = Limits::default();
        limits.execs_running = self.max_execs;
        limits.state_bytes = self.state_bytes;
        limits.pty = PtyLimits::from_variables(|name| std::env::var(name).ok())
            .map_err(|error| error.to_string())?;
        let mut builder = LocalDaemon::builder(self.token()?)
            .listen(self.listen)
            .limits(limits)
            .state_dir(self.state_dir)
            .shutdown_timeout(self.shutdown_timeout)
            .quirks(self.quirks)
            .faults(self.faults.read()?);
        if let Some(root) = self.root {
            builder = builder.workdir(root);
        }
        let daemon = builder.start().await.map_err(|error| sentence(&error))?;
        print_ready(&json!({
            "ready": daemon.url(),
            "pid": std::process::id(),
            "root": daemon.workdir(),
        }))?;
        tracing::info!(
            url = daemon.url(),
            root = %daemon.workdir().display(),
            "serving: no paths are mapped and nothing is confined"
        );
        ends.heard().await;
        daemon.stop().await.map_err(|error| sentence(&error))
    }

    /// The token of the variable, else that of the file. Without one nobody could call.
    fn token(&self) -> Result<String, String> {
        if let Some(token) = std::env::var_os(TOKEN).filter(|token| !token.is_empty()) {
            return token
                .into_string()
                .map_err(|_| format!("the token in {TOKEN} is not UTF-8"));
        }
        let file = self.token_file.display();
        match std::fs::read_to_string(&self.token_file) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) => Err(format!(
                "there is no token: {TOKEN} is not set, and {file} is empty"
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
                "there is no token: {TOKEN} is not set, and {file} does not exist"
            )),
            Err(error) => Err(format!(
                "there is no token: {TOKEN} is not set, and {file} cannot be read: {error}"
            )),
        }
    }
}
