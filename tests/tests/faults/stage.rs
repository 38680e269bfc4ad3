//! The services that are called, and how to see what they did.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use polyaxon_client::runs::RunStatus;
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, RunUuid, Token};
use polyaxon_local::{Limits, LocalDaemon, LocalServer};
use polyaxon_sandbox::fs::Write;
use polyaxon_sandbox::process::{Signal, Streaming};
use polyaxon_sandbox::pty::{Pty, PtyId, PtyState};
use polyaxon_sandbox::{Error, Exec, SandboxClient, SandboxSpec};
use serde_json::Value;
use tempfile::TempDir;
use url::Url;

use crate::cases::{Case, Kind};
use crate::operations::Op;

const TOKEN: &str = "a-token-of-the-test";
/// How long a caller waits for an answer that never comes.
const IMPATIENT: Duration = Duration::from_millis(300);
/// And for one that has to come.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// More than there are cases at once.
const ENOUGH: usize = 512;
/// Adds a byte to its file for each `SIGUSR1`, and ends by `SIGUSR2`.
const COUNTS_SIGNALS: &str = "trap 'printf x >> \"$0\"' USR1; trap 'exit 0' USR2; \
     : > \"$0.ready\"; while :; do sleep 0.05; done";
/// Adds a byte to its file.
const COUNTS: &str = "printf x >> \"$0\"";
/// The size that a terminal is given.
const SIZE: (u16, u16) = (101, 37);

/// A daemon whose files are those of a folder, and a control plane.
pub(crate) struct Stage {
    folder: TempDir,
    daemon: LocalDaemon,
    plane: LocalServer,
    known: Mutex<Known>,
}

/// What cases have to remember.
#[derive(Default)]
struct Known {
    runs: HashMap<usize, RunUuid>,
    execs: HashMap<usize, String>,
    ptys: HashMap<usize, PtyId>,
    /// What was done, where that had to be looked at with the case.
    done: HashMap<usize, usize>,
    /// How often there is a run of a name; read once, at the end.
    created: HashMap<String, usize>,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut limits = Limits::default();
        limits.execs_running = ENOUGH;
        limits.pty.running = ENOUGH;
        let daemon = LocalDaemon::builder(TOKEN)
            .workdir(folder.path())
            .limits(limits);
        Self {
            daemon: daemon.start().await.unwrap(),
            plane: LocalServer::start().await.unwrap(),
            folder,
            known: Mutex::default(),
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

    pub(crate) fn text(&self, number: usize) -> String {
        self.path(number).to_str().unwrap().to_owned()
    }

    fn client(&self, address: SocketAddr, limit: Duration) -> Client {
        let config = Config::explicit(&format!("http://{address}")).unwrap();
        let token = Token::new(self.plane.token()).unwrap();
        Client::new(&config.token(token).timeout(limit)).unwrap()
    }

    pub(crate) fn sandbox(&self, address: SocketAddr, limit: Duration) -> SandboxClient {
        let client = self.client(address, limit);
        let sandbox = SandboxClient::connect(&client, self.plane.project(), RunUuid::random());
        let url: Url = format!("http://{address}").parse().unwrap();
        sandbox.direct(url, &Token::new(TOKEN).unwrap()).unwrap()
    }

    /// The daemon without anything between.
    pub(crate) fn direct(&self) -> SandboxClient {
        self.sandbox(self.daemon.address(), PATIENT)
    }

    fn spec(number: usize) -> SandboxSpec {
        // It waits for an approval that never comes, so nothing is started.
        SandboxSpec::image("i")
            .name(format!("case-{number:06}"))
            .pending_approval()
    }

    fn exec(&self, script: &str, number: usize) -> Exec {
        Exec::new(["sh", "-c", script, &self.text(number)])
    }

    fn terminal(&self, script: &str, number: usize) -> Pty {
        Pty::new(["sh", "-c", script, &self.text(number)])
    }

    async fn ready(&self, number: usize) {
        let file = format!("{}.ready", self.text(number));
        eventually("a trap", async || fs::exists(&file).unwrap()).await;
    }

    /// Makes what the case needs to be there.
    pub(crate) async fn prepare(&self, op: Op, number: usize) {
        let sandbox = self.direct();
        let process = sandbox.process();
        match op {
            Op::Append => fs::write(self.path(number), "").unwrap(),
            Op::Rm => fs::write(self.path(number), "x").unwrap(),
            Op::Signal => {
                let bg = process.exec_bg(&self.exec(COUNTS_SIGNALS, number)).await;
                let id = bg.unwrap().id().as_str().to_owned();
                self.known.lock().unwrap().execs.insert(number, id);
                self.ready(number).await;
            }
            Op::Delete => {
                let result = process.exec(&Exec::new(["true"])).await.unwrap();
                let id = result.exec_id.as_str().to_owned();
                self.known.lock().unwrap().execs.insert(number, id);
            }
            Op::ResizePty | Op::SignalPty | Op::DeletePty => {
                let script = match op {
                    Op::DeletePty => "true",
                    _ => COUNTS_SIGNALS,
                };
                let pty = self.terminal(script, number);
                let id = sandbox.pty().create(&pty).await.unwrap().pty_id;
                self.known.lock().unwrap().ptys.insert(number, id);
                if op != Op::DeletePty {
                    self.ready(number).await;
                }
            }
            Op::StopRun => {
                let client = self.client(self.plane.address(), PATIENT);
                let project = self.plane.project();
                let made = SandboxClient::create(&client, project, &Self::spec(number)).await;
                let run = made.unwrap().run_uuid();
                self.known.lock().unwrap().runs.insert(number, run);
            }
            Op::Exec | Op::ExecStream | Op::ExecBg | Op::Write | Op::Mkdir => {}
            Op::CreatePty | Op::CreateRun => {}
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
        let sandbox = self.sandbox(address, limit);
        let (files, process, ptys) = (sandbox.fs(), sandbox.process(), sandbox.pty());
        let path = self.text(number);
        match case.op {
            Op::Exec => {
                let result = process.exec(&self.exec(COUNTS, number)).await?;
                assert!(result.success(), "{result:?}");
                Ok(())
            }
            Op::ExecStream => {
                let how = Streaming::new().idle(limit);
                let exec = self.exec(COUNTS, number);
                let events = process.exec_stream_with(&exec, how).await?;
                let result = events.collect(1024).await?;
                assert!(result.success(), "{result:?}");
                Ok(())
            }
            Op::ExecBg => process.exec_bg(&self.exec(COUNTS, number)).await.map(drop),
            Op::Signal => process.bg(self.exec_of(number)).signal(Signal::Usr1).await,
            Op::Delete => process.bg(self.exec_of(number)).delete().await,
            Op::Write => files.write(path, "x").await.map(drop),
            Op::Append => files
                .write_with(path, "x", Write::new().append())
                .await
                .map(drop),
            Op::Mkdir => files.mkdir(path).await,
            Op::Rm => files.rm(path).await,
            Op::CreatePty => ptys.create(&self.terminal(COUNTS, number)).await.map(drop),
            Op::ResizePty => ptys.resize(&self.pty_of(number), SIZE.0, SIZE.1).await,
            Op::SignalPty => ptys.signal(&self.pty_of(number), &Signal::Usr1).await,
            Op::DeletePty => ptys.delete(&self.pty_of(number)).await,
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

    fn exec_of(&self, number: usize) -> String {
        self.known.lock().unwrap().execs[&number].clone()
    }

    fn pty_of(&self, number: usize) -> PtyId {
        self.known.lock().unwrap().ptys[&number].clone()
    }

    fn run_of(&self, number: usize) -> RunUuid {
        self.known.lock().unwrap().runs[&number]
    }

    /// Looks at what goes away, and ends what runs on.
    pub(crate) async fn finish(&self, op: Op, number: usize) {
        let sandbox = self.direct();
        let ptys = sandbox.pty();
        match op {
            Op::Signal => {
                // Signals of one exec are sent in the order in which they came.
                let bg = sandbox.process().bg(self.exec_of(number));
                bg.signal(Signal::Usr2).await.unwrap();
                bg.wait(PATIENT).await.unwrap();
            }
            Op::ResizePty => {
                let id = self.pty_of(number);
                let now = ptys.get(&id).await.unwrap();
                let done = usize::from((now.cols, now.rows) == SIZE);
                self.known.lock().unwrap().done.insert(number, done);
                ptys.signal(&id, &Signal::Usr2).await.unwrap();
            }
            Op::SignalPty => {
                let id = self.pty_of(number);
                ptys.signal(&id, &Signal::Usr2).await.unwrap();
                eventually("the end of a terminal", async || {
                    ptys.get(&id).await.unwrap().state == PtyState::Exited
                })
                .await;
            }
            _ => {}
        }
    }

    /// Waits until nothing is under way any more, and reads what can be read at once.
    pub(crate) async fn settle(&self) {
        let sandbox = self.direct();
        eventually("the end of all commands", async || {
            let ping = sandbox.ping().await.unwrap();
            (ping.execs_running, ping.ptys_running) == (0, 0)
        })
        .await;
        let project = self.plane.project();
        let path = format!("/api/v1/{}/{}/runs", project.owner(), project.name());
        let list = Operation::get("runs.list", path).query("limit", "100000");
        let client = self.client(self.plane.address(), PATIENT);
        let list: Value = client.transport().send(list).await.unwrap().json().unwrap();
        let mut known = self.known.lock().unwrap();
        for run in list["results"].as_array().unwrap() {
            let name = run["name"].as_str().unwrap().to_owned();
            *known.created.entry(name).or_default() += 1;
        }
    }

    /// How often the operation was carried out.
    pub(crate) async fn done(&self, op: Op, number: usize) -> usize {
        let path = self.path(number);
        let gone = |error: Option<&Error>| {
            let status = error.and_then(Error::status);
            usize::from(status.is_some_and(|status| status.as_u16() == 404))
        };
        match op {
            Op::Exec | Op::ExecStream | Op::ExecBg | Op::Signal => size(path),
            Op::CreatePty | Op::SignalPty | Op::Write | Op::Append => size(path),
            Op::Delete => {
                let bg = self.direct().process().bg(self.exec_of(number));
                gone(bg.status().await.err().as_ref())
            }
            Op::Mkdir => usize::from(path.is_dir()),
            Op::Rm => usize::from(!path.exists()),
            Op::ResizePty => self.known.lock().unwrap().done[&number],
            Op::DeletePty => {
                let ptys = self.direct().pty();
                gone(ptys.get(&self.pty_of(number)).await.err().as_ref())
            }
            Op::CreateRun => {
                let name = format!("case-{number:06}");
                let known = self.known.lock().unwrap();
                known.created.get(&name).copied().unwrap_or(0)
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

fn size(path: PathBuf) -> usize {
    fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap())
}

async fn eventually(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < PATIENT, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
