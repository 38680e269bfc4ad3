//! A local server, a client of it, and a folder for the files of runs.

use std::path::PathBuf;
use std::time::Duration;

use polyaxon_client::runs::{Run, Runs};
use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use polyaxon_local::LocalServer;
use polyaxon_tracking::{TrackedRun, Tracking};
use tempfile::TempDir;

pub(crate) const NAMESPACE: &str = "polyaxon";

pub(crate) struct Stage {
    pub(crate) server: LocalServer,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = LocalServer::start().await.unwrap();
        let client = client_of(&server);
        Self {
            server,
            client,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn project(&self) -> ProjectRef {
        self.server.project().clone()
    }

    pub(crate) fn runs(&self) -> Runs {
        self.client.runs(&self.project())
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn tracking(&self) -> Tracking {
        Tracking::new(&self.client, &self.project()).folder(self.root())
    }

    /// A run that has time at its end, for a server that is in trouble and a machine that stands
    /// still for a while.
    pub(crate) async fn start(&self) -> TrackedRun {
        let tracking = self.tracking().send_limit(Duration::from_secs(300));
        TrackedRun::start(tracking).await.unwrap()
    }

    pub(crate) async fn get(&self, run: RunUuid) -> Run {
        self.runs().get(run).await.unwrap()
    }

    /// A file of the run, as the server has it.
    pub(crate) async fn file(&self, run: RunUuid, path: &str) -> String {
        let mut download = self.runs().artifact(NAMESPACE, run, path).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(chunk) = download.chunk().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).unwrap()
    }
}

pub(crate) fn client_of(server: &LocalServer) -> Client {
    let config = Config::explicit(server.url()).unwrap();
    Client::new(&config.token(Token::new(server.token()).unwrap())).unwrap()
}
