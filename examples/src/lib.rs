//! What the examples share: where the sandbox service is.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail};
use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_local::LocalServer;

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
