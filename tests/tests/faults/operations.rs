//! The operations that change something, and how to see what they did.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{collections::HashMap, fs};

use polyaxon_client::runs::RunStatus;
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, RunUuid, Token};
use polyaxon_local::{LocalDaemon, LocalServer};
use polyaxon_sandbox::fs::Write;
use polyaxon_sandbox::{Error, Exec, SandboxClient, SandboxSpec};
use serde_json::Value;
use tempfile::TempDir;
use url::Url;

use crate::cases::{Case, Kind};

const TOKEN: &str = "a-token-of-the-test";
/// How long a caller waits for an answer that never comes.
const IMPATIENT: Duration = Duration::from_millis(300);
/// And for one that has to come.
const PATIENT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Exec,
    Write,
    Append,
    Mkdir,
    Rm,
    CreateRun,
    StopRun,
}

impl Op {
    pub(crate) const ALL: [Self; 7] = [
        Self::Exec,
        Self::Write,
        Self::Append,
        Self::Mkdir,
        Self::Rm,
        Self::CreateRun,
        Self::StopRun,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Write => "fs.write",
            Self::Append => "fs.write, add",
            Self::Mkdir => "fs.mkdir",
            Self::Rm => "fs.rm",
            Self::CreateRun => "runs.create",
            Self::StopRun => "runs.stop",
        }
    }

    /// Whether its limit is that of the client; that of an exec is half a minute at least.
    pub(crate) fn ends_by_itself(self) -> bool {
        self != Self::Exec
    }
}

/// A daemon whose files are those of a folder, and a control plane.
pub(crate) struct Stage {
    folder: TempDir,
    daemon: LocalDaemon,
    plane: LocalServer,
    /// What a case needs to know.
    runs: Mutex<HashMap<usize, RunUuid>>,
    /// How often there is a run of a name; read once, at the end.
    created: Mutex<HashMap<String, usize>>,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = LocalDaemon::builder(TOKEN).workdir(folder.path());
        Self {
            daemon: daemon.start().await.unwrap(),
            plane: LocalServer::start().await.unwrap(),
            folder,
            runs: Mutex::default(),
            created: Mutex::default(),
        }
    }

    /// Where the operation goes.
    pub(crate) fn address(&self, op: Op) -> SocketAddr {
        match op {
            Op::CreateRun | Op::StopRun => self.plane.address(),
            _ => self.daemon.address(),
        }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("case-{number:06}"))
    }

    fn client(&self, address: SocketAddr, limit: Duration) -> Client {
        let config = Config::explicit(&format!("http://{address}")).unwrap();
        let token = Token::new(self.plane.token()).unwrap();
        Client::new(&config.token(token).timeout(limit)).unwrap()
    }

    fn sandbox(&self, address: SocketAddr, limit: Duration) -> SandboxClient {
        let client = self.client(address, limit);
        let sandbox = SandboxClient::connect(&client, self.plane.project(), RunUuid::random());
        let url: Url = format!("http://{address}").parse().unwrap();
        sandbox.direct(url, &Token::new(TOKEN).unwrap()).unwrap()
    }

    fn spec(number: usize) -> SandboxSpec {
        // It waits for an approval that never comes, so nothing is started.
        SandboxSpec::image("i")
            .name(format!("case-{number:06}"))
            .pending_approval()
    }

    fn run_of(&self, number: usize) -> RunUuid {
        self.runs.lock().unwrap()[&number]
    }

    /// Makes what the case needs to be there.
    pub(crate) async fn prepare(&self, op: Op, number: usize) {
        match op {
            Op::Append => fs::write(self.path(number), "").unwrap(),
            Op::Rm => fs::write(self.path(number), "x").unwrap(),
            Op::StopRun => {
                let client = self.client(self.plane.address(), PATIENT);
                let project = self.plane.project();
                let made = SandboxClient::create(&client, project, &Self::spec(number)).await;
                let run = made.unwrap().run_uuid();
                self.runs.lock().unwrap().insert(number, run);
            }
            Op::Exec | Op::Write | Op::Mkdir | Op::CreateRun => {}
        }
    }

    /// Calls the operation at `address`.
    pub(crate) async fn call(
        &self,
        case: &Case,
        number: usize,
        address: SocketAddr,
    ) -> Result<(), Error> {
        let limit = match case.kind {
            Kind::Stall(_) => IMPATIENT,
            _ => PATIENT,
        };
        let path = self.path(number).to_str().unwrap().to_owned();
        let sandbox = self.sandbox(address, limit);
        let files = sandbox.fs();
        match case.op {
            Op::Exec => {
                let exec = Exec::new(["sh", "-c", "printf x >> \"$0\"", &path]);
                let result = sandbox.process().exec(&exec).await?;
                assert!(result.success(), "{result:?}");
                Ok(())
            }
            Op::Write => files.write(path, "x").await.map(drop),
            Op::Append => files
                .write_with(path, "x", Write::new().append())
                .await
                .map(drop),
            Op::Mkdir => files.mkdir(path).await,
            Op::Rm => files.rm(path).await,
            Op::CreateRun => {
                let client = self.client(address, limit);
                SandboxClient::create(&client, self.plane.project(), &Self::spec(number))
                    .await
                    .map(drop)
            }
            Op::StopRun => {
                let runs = self.client(address, limit).runs(self.plane.project());
                Ok(runs.stop(self.run_of(number)).await?)
            }
        }
    }

    /// Waits until nothing is under way any more, and reads what can be read at once.
    pub(crate) async fn settle(&self) {
        let sandbox = self.sandbox(self.daemon.address(), PATIENT);
        let begun = Instant::now();
        while sandbox.ping().await.unwrap().execs_running > 0 {
            assert!(begun.elapsed() < PATIENT, "commands run on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let project = self.plane.project();
        let path = format!("/api/v1/{}/{}/runs", project.owner(), project.name());
        let list = Operation::get("runs.list", path).query("limit", "100000");
        let client = self.client(self.plane.address(), PATIENT);
        let list: Value = client.transport().send(list).await.unwrap().json().unwrap();
        let mut created = self.created.lock().unwrap();
        for run in list["results"].as_array().unwrap() {
            let name = run["name"].as_str().unwrap().to_owned();
            *created.entry(name).or_default() += 1;
        }
    }

    /// How often the operation was carried out.
    pub(crate) async fn done(&self, op: Op, number: usize) -> usize {
        let path = self.path(number);
        match op {
            Op::Exec | Op::Write | Op::Append => {
                fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap())
            }
            Op::Mkdir => usize::from(path.is_dir()),
            Op::Rm => usize::from(!path.exists()),
            Op::CreateRun => {
                let name = format!("case-{number:06}");
                self.created
                    .lock()
                    .unwrap()
                    .get(&name)
                    .copied()
                    .unwrap_or(0)
            }
            Op::StopRun => {
                let client = self.client(self.plane.address(), PATIENT);
                let runs = client.runs(self.plane.project());
                let run = runs.get(self.run_of(number)).await.unwrap();
                usize::from(run.status == Some(RunStatus::Stopped))
            }
        }
    }
}
