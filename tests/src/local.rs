//! The service on this machine, with a client of it.

use std::path::Path;

use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};

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

    /// Starts the program `daemon` of this package inside the sandbox, as a pod of the platform has
    /// it, and gives its address. It ends with the sandbox.
    pub async fn start_daemon(&self, program: &Path, token: &str) -> String {
        self.start_daemon_with(program, token, "").await
    }

    /// The same, with what a shell puts `before` it: commands, and variables for the program.
    pub async fn start_daemon_with(&self, program: &Path, token: &str, before: &str) -> String {
        let run = self.sandbox.run_uuid().to_string();
        let place = self.server.folder().join(run).join("workspace/daemon");
        // The same file, without its bytes where the disk can do that.
        if std::fs::hard_link(program, &place).is_err() {
            std::fs::copy(program, &place).unwrap();
        }
        // Its address is printed when it answers.
        let line = format!(
            "{before} ./daemon {token} >address 2>error & until [ -s address ]; \
             do kill -0 $! || {{ cat error >&2; exit 1; }}; done; cat address"
        );
        let start = Exec::shell(line).workdir("/workspace");
        let started = self.sandbox.process().exec(&start).await.unwrap();
        assert!(started.success(), "{}", started.stderr.text_lossy());
        started.stdout.text().unwrap().trim_end().to_owned()
    }
}
