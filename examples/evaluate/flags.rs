//! The flags of the program.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use examples::PlaceFlags;

/// Runs a suite of small repairs with several candidates, and compares them.
///
/// What is finished in the folder of the output is not run again: the same command goes on where it
/// was broken off. Exit status: 0, 1 a requirement is not met, 2 misuse, 3 too few cases were
/// evaluated or infrastructure failed.
#[derive(Debug, Parser)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) place: PlaceFlags,

    /// Allow the checks of the suite, which run code that a model wrote.
    #[arg(long)]
    pub(crate) allow_checks: bool,

    /// The folder of the suite.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/evaluate/suite"), value_name = "DIR")]
    pub(crate) suite: PathBuf,

    /// Run the cases with these ids only. Default: all.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// A candidate that proposes the files in `DIR/<case>`. Of several folders the first one counts
    /// that has the case. The first candidate is the baseline. Default: `gold`, whose proposals are
    /// right, and `hasty`, of whose some are wrong.
    #[arg(long, value_name = "NAME=DIR[,DIR]")]
    pub(crate) candidate: Vec<String>,

    /// A candidate more: the model of this name at `--model-url`.
    #[arg(long, requires = "model_url", value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Base URL of an OpenAI-compatible server, up to and with `/v1`.
    #[arg(long, env = "SERVICE_URL", value_name = "URL")]
    pub(crate) model_url: Option<String>,

    /// The environment variable that holds the token of the model's server.
    #[arg(long, default_value = "POLYAXON_TOKEN", value_name = "NAME")]
    pub(crate) model_token_env: String,

    /// How many cases run at the same time.
    #[arg(long, default_value_t = 8)]
    pub(crate) parallel: usize,

    /// How long a check may run.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) check_limit: Duration,

    /// The least share of the cases that has to be evaluated.
    #[arg(long, default_value_t = 0.9, value_name = "SHARE")]
    pub(crate) coverage: f64,

    /// The least share of the evaluated cases that every candidate has to pass. One whose checks gave
    /// no verdict is not passed.
    #[arg(long, value_name = "SHARE")]
    pub(crate) pass_rate: Option<f64>,

    /// Run the cases again that were not evaluated because something else went wrong.
    #[arg(long)]
    pub(crate) again: bool,

    /// Where the evidence and the reports are kept.
    #[arg(long, default_value = "evaluation-output", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "no number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| "has to be more than 0".to_owned())
}
