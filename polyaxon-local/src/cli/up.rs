//! `up`: everything on one address.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polyaxon_client::ProjectRef;
use polyaxon_local::{Isolation, IsolationLevel, LocalServer, Quirk};
use serde_json::{Value, json};

use super::{
    Ends, FaultsFile, LogFormat, address, print_ready, sentence, start_log, write_private,
};

#[derive(Args)]
pub(super) struct Up {
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
    /// How far commands are kept away from the rest of this machine.
    #[arg(long, value_enum, default_value_t = Wanted::Auto)]
    isolation: Wanted,
    /// A folder that sandboxes see by the same path, read-only; can be repeated. The system's
    /// folders and those that programs in PATH need are seen anyway.
    #[arg(long, value_name = "DIR")]
    show: Vec<PathBuf>,
    /// What its sandboxes do otherwise than those that are described, for tests of clients; can be
    /// given more than once, or with commas: `no-follow`, `background-logs-only`,
    /// `tags-are-labels`, `other-codes`, `bare-errors`, `exit-codes-of-shells`, `no-exit-codes`,
    /// `broken-characters`, `other-times`, `numbers-as-text`, `bare-reads`.
    #[arg(long = "quirk", value_name = "NAME", value_delimiter = ',')]
    quirks: Vec<Quirk>,
    #[command(flatten)]
    faults: FaultsFile,
    /// How log lines look on standard error. `RUST_LOG` says which there are.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// What is done about isolation.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wanted {
    /// A pod for each sandbox where this machine allows it.
    Auto,
    /// A pod for each sandbox, or no start.
    Pod,
    /// No pods: commands see this machine.
    None,
}

// By hand, since the token must not be printed.
impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

fn project(text: &str) -> Result<ProjectRef, String> {
    text.parse()
        .map_err(|error: polyaxon_client::InvalidInput| error.to_string())
}

impl Up {
    pub(super) async fn run(self) -> Result<(), String> {
        start_log(self.log_format);
        let mut ends = Ends::listen()?;
        let mut builder = LocalServer::builder()
            .listen(self.listen)
            .isolation(match self.isolation {
                Wanted::Auto => Isolation::Auto,
                Wanted::Pod => Isolation::Require(IsolationLevel::Pod),
                Wanted::None => Isolation::None,
            })
            .quirks(self.quirks)
            .faults(self.faults.read()?);
        if let Some(root) = self.root {
            builder = builder.root(root);
        }
        let generated = self.token.is_none();
        if let Some(token) = self.token {
            builder = builder.token(token);
        }
        for folder in self.show {
            builder = builder.show(folder);
        }
        for project in self.projects {
            builder = builder.project(project);
        }
        let server = builder.start().await.map_err(|error| sentence(&error))?;
        let _nobody_listens = writeln!(io::stderr(), "{}", server.report());
        print_ready(&ready(&server, generated)?)?;
        tracing::info!(url = server.url(), folder = %server.folder().display(), "serving");
        ends.heard().await;
        server.stop().await.map_err(|error| sentence(&error))
    }
}

/// The line that says where it serves. A token that was given is not in it, and one that was made
/// is in a file for its owner only.
fn ready(server: &LocalServer, generated: bool) -> Result<Value, String> {
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
    Ok(line)
}
