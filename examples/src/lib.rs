//! What the examples share: where the sandbox service is, and in which sandbox to work.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail};
use clap::Args;
use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

/// A client, the project to work in, and the service itself where it runs in this process.
#[derive(Debug)]
#[non_exhaustive]
pub struct Place {
    /// Calls the service.
    pub client: Client,
    /// Where runs are created.
    pub project: ProjectRef,
    /// The service on this machine; it ends with this value.
    pub server: Option<LocalServer>,
}

impl Place {
    /// Starts the sandbox service in this process.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub async fn local(project: Option<&ProjectRef>) -> Result<Self> {
        let mut builder = LocalServer::builder();
        if let Some(project) = project {
            builder = builder.project(project.clone());
        }
        let server = builder
            .start()
            .await
            .context("the local sandbox service cannot be started")?;
        let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
        let project = project.unwrap_or_else(|| server.project()).clone();
        Ok(Self {
            client: Client::new(&config)?,
            project,
            server: Some(server),
        })
    }

    /// Uses a Polyaxon installation. Host and token come from the surroundings where they are not
    /// given: see [`Config::from_env`].
    ///
    /// # Errors
    /// Where no project is given, or a setting cannot be used.
    pub fn remote(host: Option<&str>, project: Option<&ProjectRef>) -> Result<Self> {
        let Some(project) = project else {
            bail!("say which project to use with `--project OWNER/PROJECT`, or use `--local`");
        };
        let mut config = Config::from_env()?;
        if let Some(host) = host {
            config = config.host(Config::explicit(host)?.host_url().clone());
        }
        Ok(Self {
            client: Client::new(&config)?,
            project: project.clone(),
            server: None,
        })
    }

    /// Ends the service, where it runs in this process.
    ///
    /// # Errors
    /// Where it leaves something behind.
    pub async fn close(self) -> Result<()> {
        match self.server {
            Some(server) => server
                .stop()
                .await
                .context("the local sandbox service did not end cleanly"),
            None => Ok(()),
        }
    }
}

/// Where to work: the flags of the examples that make sandboxes of their own.
#[derive(Debug, Args)]
#[non_exhaustive]
pub struct PlaceFlags {
    /// Start the sandbox service in this process instead of using a Polyaxon installation.
    #[arg(long, conflicts_with = "host")]
    pub local: bool,

    /// URL of a Polyaxon installation. Default: `POLYAXON_HOST`, or the configuration files.
    #[arg(long, value_name = "URL")]
    pub host: Option<String>,

    /// The project to work in. Needed unless `--local`.
    #[arg(long, value_name = "OWNER/PROJECT", required_unless_present = "local")]
    pub project: Option<ProjectRef>,

    /// The image of the sandboxes; it must have what the checks need.
    #[arg(long, default_value = "python:3.12-slim")]
    pub image: String,
}

/// Which sandbox to work in: the flags of the examples that need one.
#[derive(Debug, Args)]
#[non_exhaustive]
pub struct SandboxFlags {
    /// Start the sandbox service in this process, and a sandbox in it.
    #[arg(long, conflicts_with_all = ["host", "run_uuid"])]
    pub local: bool,
    /// URL of a Polyaxon installation. Default: `POLYAXON_HOST`, or the configuration files.
    #[arg(long)]
    pub host: Option<String>,
    /// The project of the sandbox.
    #[arg(long, value_name = "OWNER/PROJECT")]
    pub project: Option<ProjectRef>,
    /// The run of the sandbox, which has to be running.
    #[arg(long, env = "SANDBOX_RUN_UUID", required_unless_present = "local")]
    pub run_uuid: Option<String>,
}

impl SandboxFlags {
    /// The sandbox that they say: the one of the run, or with `--local` a new one of this name.
    ///
    /// # Errors
    /// Where the service or the sandbox cannot be started, no project is given, or the run is no
    /// UUID. Whether a sandbox of that run is there, its first call says.
    pub async fn open(&self, name: &str) -> Result<OpenSandbox> {
        let project = self.project.as_ref();
        let place = match self.local {
            true => Place::local(project).await?,
            false => Place::remote(self.host.as_deref(), project)?,
        };
        let sandbox = match &self.run_uuid {
            Some(run) => SandboxClient::connect(&place.client, &place.project, run.parse()?),
            None => {
                let spec = SandboxSpec::image("python:3.12-slim").name(name);
                SandboxClient::launch(&place.client, &place.project, &spec).await?
            }
        };
        Ok(OpenSandbox { place, sandbox })
    }
}

/// A sandbox to work in, and where it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenSandbox {
    /// The service that it belongs to.
    pub place: Place,
    /// Calls the sandbox.
    pub sandbox: SandboxClient,
}

impl OpenSandbox {
    /// Ends what was started for it, and leaves a sandbox that was there before.
    ///
    /// # Errors
    /// Where something does not end.
    pub async fn close(self) -> Result<()> {
        if self.place.server.is_some() {
            self.sandbox.stop().await?;
        }
        self.place.close().await
    }
}
