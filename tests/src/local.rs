//! The service on this machine, with a client of it.

use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

/// A client of `server`.
#[must_use]
pub fn client_of(server: &LocalServer) -> Client {
    let token = Token::new(server.token()).unwrap();
    Client::new(&Config::explicit(server.url()).unwrap().token(token)).unwrap()
}

/// A running service with one running sandbox. Both end when it is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct LocalSandbox {
    /// The sandbox.
    pub sandbox: SandboxClient,
    /// A client of the service.
    pub client: Client,
    /// The project that the sandbox is in.
    pub project: ProjectRef,
    /// The service.
    pub server: LocalServer,
}

impl LocalSandbox {
    /// Starts both.
    pub async fn start() -> Self {
        Self::on(LocalServer::start().await.unwrap()).await
    }

    /// Starts a sandbox on `server`.
    pub async fn on(server: LocalServer) -> Self {
        let client = client_of(&server);
        let project = server.project().clone();
        let spec = SandboxSpec::image("python:3.12-slim");
        let sandbox = SandboxClient::launch(&client, &project, &spec)
            .await
            .unwrap();
        Self {
            sandbox,
            client,
            project,
            server,
        }
    }
}
