//! Where everything is, told to the workers by one environment variable.

use std::time::Duration;

use anyhow::{Context as _, Result};
use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use polyaxon_sandbox::SandboxClient;
use serde::{Deserialize, Serialize};

/// The variable.
pub(crate) const VARIABLE: &str = "COMPARE_PLACE";

/// The server, its sandbox, and a service that only streams events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) events_url: String,
    pub(crate) token: String,
    pub(crate) owner: String,
    pub(crate) project: String,
    pub(crate) run: String,
}

impl Place {
    pub(crate) fn from_env() -> Result<Self> {
        let text = std::env::var(VARIABLE).context("a worker is started by `compare` alone")?;
        Ok(serde_json::from_str(&text)?)
    }

    pub(crate) fn sandbox(&self) -> Result<SandboxClient> {
        self.sandbox_at(&self.url)
    }

    pub(crate) fn events(&self) -> Result<SandboxClient> {
        self.sandbox_at(&self.events_url)
    }

    fn sandbox_at(&self, url: &str) -> Result<SandboxClient> {
        let config = Config::explicit(url)?
            .token(Token::new(self.token.clone())?)
            .timeout(Duration::from_secs(300));
        let project: ProjectRef = format!("{}/{}", self.owner, self.project).parse()?;
        let run: RunUuid = self.run.parse()?;
        Ok(SandboxClient::connect(
            &Client::new(&config)?,
            &project,
            run,
        ))
    }

    /// The path of a call, behind the gateway.
    pub(crate) fn path(&self, route: &str) -> String {
        let Self {
            owner,
            project,
            run,
            ..
        } = self;
        format!("/sandbox/v1/polyaxon/{owner}/{project}/runs/{run}/{route}")
    }
}
