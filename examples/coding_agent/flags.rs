//! The flags of the program.

use std::path::PathBuf;
use std::time::Duration;

use agent_loop::policy::ActionKind;
use clap::{Parser, ValueEnum};
use examples::PlaceFlags;

/// A coding agent in a Polyaxon sandbox: it repairs an amount parser, or what `--task` says.
///
/// Exit status: 0 accepted, 1 not accepted, 2 misuse, 3 infrastructure failed or something is
/// uncertain.
#[derive(Debug, Parser)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) place: PlaceFlags,

    /// Allow the supplied check command, which runs code that a model wrote. Without it no check
    /// runs, and nothing can be accepted.
    #[arg(long)]
    pub(crate) allow_checks: bool,

    /// The queue of the workspace: AGENT/QUEUE.
    #[arg(long)]
    pub(crate) queue: Option<String>,

    /// CPUs of the workspace: 1, 500m, or 500m..1 for request and limit.
    #[arg(long, default_value = "500m..1")]
    pub(crate) cpu: String,

    /// Memory of the workspace: 512Mi, or 256Mi..512Mi for request and limit.
    #[arg(long, default_value = "256Mi..512Mi")]
    pub(crate) memory: String,

    /// Base URL of an OpenAI-compatible server, up to and with `/v1`. Without it the proposals
    /// are scripted.
    #[arg(long, env = "SERVICE_URL", value_name = "URL")]
    pub(crate) model_url: Option<String>,

    /// The name of the model.
    #[arg(long, default_value = "coding-agent", value_name = "NAME")]
    pub(crate) model: String,

    /// The environment variable that holds the token of the model's server.
    #[arg(long, default_value = "POLYAXON_TOKEN", value_name = "NAME")]
    pub(crate) model_token_env: String,

    /// How the token is sent to the model's server.
    #[arg(long, value_enum, default_value_t = ModelAuth::Token)]
    pub(crate) model_auth: ModelAuth,

    /// A task of your own: the folder with its files, and what is to be done in its `TASK.md` or in
    /// `--text`. Without it an amount parser is repaired.
    #[arg(
        long,
        value_name = "DIR",
        requires = "editable",
        requires = "check",
        requires = "model_url"
    )]
    pub(crate) task: Option<PathBuf>,

    /// What the task asks for. Default: what `TASK.md` in its folder says.
    #[arg(long, requires = "task")]
    pub(crate) text: Option<String>,

    /// A file that the model may write, or a folder with all that is below it. The others it may
    /// only read.
    #[arg(long, value_name = "FILE", requires = "task", num_args = 1..)]
    pub(crate) editable: Vec<String>,

    /// The command that checks the change: words with the quotes of a shell, and no shell.
    ///
    /// `cargo test` runs with `--no-fail-fast` and the toolchain of its sandbox (`--image rust:1`).
    /// Each check builds anew: see `--check-limit`.
    #[arg(long, value_name = "CMD", requires = "task")]
    pub(crate) check: Option<String>,

    /// How many tests the check has to run. Default: as many as it runs before the change. Of a
    /// command that is none of `unittest`, `pytest` and `cargo test` only the exit status counts.
    #[arg(long, value_name = "N", requires = "task", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tests: Option<u32>,

    /// How long a check may run, in seconds. A build counts, too.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    check_limit: u32,

    /// What the check may create or change in its copy of the files.
    #[arg(long, value_name = "PATH", requires = "task")]
    pub(crate) may_change: Vec<String>,

    /// How many replies the model may give.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: u32,

    /// Ask a person on this terminal before each action of this kind; `y` is a yes. Default: nobody
    /// is asked, and nothing is read from the terminal.
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) ask_before: Vec<AskBefore>,

    /// Where the evidence is kept. Must not hold the evidence of another attempt.
    #[arg(long, default_value = "agent-output", value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Leave the sandbox running where the change is not accepted, and keep its files in the
    /// folder of the evidence in any case.
    #[arg(long)]
    pub(crate) keep_on_failure: bool,
}

impl Flags {
    /// How long a check may run.
    pub(crate) fn check_limit(&self) -> Duration {
        Duration::from_secs(self.check_limit.into())
    }
}

/// A kind of action that a person decides about.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AskBefore {
    /// Writing a file.
    Write,
    /// Running the check.
    Check,
    /// Ending the work.
    Finish,
}

impl From<AskBefore> for ActionKind {
    fn from(kind: AskBefore) -> Self {
        match kind {
            AskBefore::Write => Self::Write,
            AskBefore::Check => Self::Check,
            AskBefore::Finish => Self::Finish,
        }
    }
}

/// A scheme of the `Authorization` header.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModelAuth {
    /// As a server behind Polyaxon's gateway wants it: `Authorization: token …`.
    Token,
    /// As a server of its own wants it: `Authorization: Bearer …`.
    Bearer,
}
