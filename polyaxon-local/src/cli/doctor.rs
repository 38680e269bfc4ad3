//! `doctor`: what isolates commands on this machine.

use std::io::{self, Write as _};

use clap::Args;
use polyaxon_local::Report;
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Print one JSON object: `version`, `platform`, and `isolation` with the layers.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(self) -> Result<(), String> {
        let version = env!("CARGO_PKG_VERSION");
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        let report = Report::of_this_machine();
        let text = match self.json {
            true => {
                json!({"version": version, "platform": platform, "isolation": report}).to_string()
            }
            false => format!("polyaxon-local {version} on {platform}\n{report}"),
        };
        writeln!(io::stdout(), "{text}")
            .map_err(|error| format!("cannot print the report: {error}"))
    }
}
