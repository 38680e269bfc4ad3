//! The sandbox client: the life of a sandbox, and the way to its processes, files and terminals.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use polyaxon_client::runs::{RunStatus, Runs, Wait};
use polyaxon_client::transport::{Answer, AnswerStream, Operation, Transport, Upgraded};
use polyaxon_client::{Client, Effect, InvalidInput, ProjectRef, RunUuid, Token};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use crate::error::Error;
use crate::fs::Fs;
use crate::ping::Ping;
use crate::process::Process;
use crate::pty::Ptys;
use crate::spec::SandboxSpec;
use crate::wire::{GATEWAY_PREFIX, header, route};

/// How long [`SandboxClient::launch`] waits for a sandbox to be ready.
const LAUNCH_LIMIT: Duration = Duration::from_secs(300);

/// A sandbox: a service run with files and processes. Cheap to clone; clones share everything.
///
/// Dropping it closes connections and stops nothing. [`stop`](Self::stop) asks the platform to
/// end the run; the run's own time limit is what ends it when nobody can ask any more.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use polyaxon_client::runs::RunStatus;
/// use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let project = server.project().clone();
/// let spec = SandboxSpec::image("python:3.12-slim");
/// let sandbox = SandboxClient::launch(&client, &project, &spec).await?;
/// assert_eq!(sandbox.ping().await?.status, "ok");
///
/// let result = sandbox.process().exec(&Exec::new(["python3", "-c", "print(2 + 3)"])).await?;
/// assert_eq!(result.stdout.text()?.trim(), "5");
///
/// let status = sandbox.stop_and_wait(Duration::from_secs(60)).await?;
/// assert_eq!(status, RunStatus::Stopped);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SandboxClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runs: Runs,
    run: RunUuid,
    service: Service,
}

/// Where the service of the sandbox is called.
#[derive(Clone, Debug)]
enum Service {
    /// Behind the gateway, whose path needs the run's namespace. It is asked for once.
    Gateway {
        transport: Transport,
        namespace: OnceCell<String>,
    },
    /// At its own address.
    Direct(Transport),
}

impl Service {
    fn behind_gateway(client: &Client, namespace: OnceCell<String>) -> Self {
        Self::Gateway {
            transport: client.transport().clone(),
            namespace,
        }
    }
}

impl SandboxClient {
    /// Creates a sandbox. The run then exists, which the result names, and is not ready yet.
    ///
    /// # Errors
    /// What [`SandboxSpec`] refuses, before anything is sent; otherwise as
    /// [`Runs::create`]. Where the effect is unknown a run may exist.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a run behind whose id nobody knows.
    pub async fn create(
        client: &Client,
        project: &ProjectRef,
        spec: &SandboxSpec,
    ) -> Result<Pending, Error> {
        let request = spec.create_run()?;
        let runs = client.runs(project);
        let run = runs.create(&request).await?;
        let namespace = OnceCell::new_with(run.namespace().map(str::to_owned));
        let inner = Inner {
            runs,
            run: run.uuid,
            service: Service::behind_gateway(client, namespace),
        };
        Ok(Pending {
            sandbox: Self {
                inner: Arc::new(inner),
            },
        })
    }

    /// Creates a sandbox and waits up to five minutes until it is ready. Use
    /// [`create`](Self::create) where the run's id has to be kept before anything can go wrong.
    ///
    /// # Errors
    /// As [`create`](Self::create), and [`Error::Launch`] with the run's id where the run exists
    /// and is not ready: it is left to the caller to stop it.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a run behind.
    pub async fn launch(
        client: &Client,
        project: &ProjectRef,
        spec: &SandboxSpec,
    ) -> Result<Self, Error> {
        let pending = Self::create(client, project, spec).await?;
        let run = pending.run_uuid();
        pending
            .ready(LAUNCH_LIMIT)
            .await
            .map_err(|error| match error {
                launch @ Error::Launch { .. } => launch,
                source => Error::Launch {
                    run,
                    source: Box::new(source),
                },
            })
    }

    /// The sandbox of an existing run. Nothing is sent, so nothing is checked: ask
    /// [`ping`](Self::ping).
    #[must_use]
    pub fn connect(client: &Client, project: &ProjectRef, run: RunUuid) -> Self {
        let runs = client.runs(project);
        let service = Service::behind_gateway(client, OnceCell::new());
        Self {
            inner: Arc::new(Inner { runs, run, service }),
        }
    }

    /// The same sandbox, whose service is called at its own address and not through the gateway,
    /// as is possible inside the cluster: `http://{pod}:9090`. The service gets its own token,
    /// which is the pod's `POLYAXON_SANDBOX_TOKEN`, and not the client's. What is asked of the
    /// platform (its status, a stop) goes where it went before.
    ///
    /// # Errors
    /// `Config` where a certificate of the settings cannot be used, `InvalidInput` where no header
    /// can hold the token.
    pub fn direct(&self, service: Url, token: &Token) -> Result<Self, Error> {
        let transport = match &self.inner.service {
            Service::Gateway { transport, .. } | Service::Direct(transport) => transport,
        };
        let name = HeaderName::from_static(header::SANDBOX_TOKEN);
        let service = Service::Direct(transport.elsewhere(service, name, token)?);
        let (runs, run) = (self.inner.runs.clone(), self.inner.run);
        Ok(Self {
            inner: Arc::new(Inner { runs, run, service }),
        })
    }

    /// The run of the sandbox.
    #[must_use]
    pub fn run_uuid(&self) -> RunUuid {
        self.inner.run
    }

    /// The project of the sandbox.
    #[must_use]
    pub fn project(&self) -> &ProjectRef {
        self.inner.runs.project()
    }

    /// The runs of the sandbox's project, to look at the run itself.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.inner.runs
    }

    /// The processes of the sandbox.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::new(self.clone())
    }

    /// The files of the sandbox.
    #[must_use]
    pub fn fs(&self) -> Fs {
        Fs::new(self.clone())
    }

    /// The terminals of the sandbox.
    #[must_use]
    pub fn pty(&self) -> Ptys {
        Ptys::new(self.clone())
    }

    /// Asks the service how it is.
    ///
    /// # Errors
    /// [`Error::Client`]; a gateway's 502 means that the run has no service (yet, or any more).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ping(&self) -> Result<Ping, Error> {
        Ok(self
            .send(Operation::get("ping", route::PING))
            .await?
            .json()?)
    }

    /// Asks the platform to stop the run. A request, not a confirmation: see
    /// [`stop_and_wait`](Self::stop_and_wait).
    ///
    /// # Errors
    /// [`Error::Client`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the stop was asked for.
    pub async fn stop(&self) -> Result<(), Error> {
        Ok(self.inner.runs.stop(self.inner.run).await?)
    }

    /// Asks the platform to stop the run, and waits until its status says that it has ended.
    /// Returns that status; it is not `stopped` where the run had ended otherwise before.
    ///
    /// # Errors
    /// As [`stop`](Self::stop), and `WaitTimedOut` where it does not end within the limit.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the stop was asked for.
    pub async fn stop_and_wait(&self, wait: impl Into<Wait> + Send) -> Result<RunStatus, Error> {
        self.stop().await?;
        Ok(self
            .inner
            .runs
            .wait_until_final(self.inner.run, wait)
            .await?
            .status)
    }

    /// Sends a call to the service of this sandbox; `operation` has the path below it.
    pub(crate) async fn send(&self, operation: Operation) -> Result<Answer, Error> {
        let (transport, base) = self.service().await?;
        Ok(transport.send(operation.below(&base)).await?)
    }

    /// Sends a call whose answer is read while it comes.
    pub(crate) async fn open(&self, operation: Operation) -> Result<AnswerStream, Error> {
        let (transport, base) = self.service().await?;
        Ok(transport.open(operation.below(&base)).await?)
    }

    /// Asks for a WebSocket.
    pub(crate) async fn upgrade(&self, operation: Operation) -> Result<Upgraded, Error> {
        let (transport, base) = self.service().await?;
        Ok(transport.upgrade(operation.below(&base)).await?)
    }

    /// How the service is reached, and the path before its own.
    async fn service(&self) -> Result<(&Transport, String), Error> {
        let Inner { runs, run, service } = &*self.inner;
        let (transport, namespace) = match service {
            Service::Direct(transport) => return Ok((transport, "/".to_owned())),
            Service::Gateway {
                transport,
                namespace,
            } => (transport, namespace),
        };
        let namespace = namespace.get_or_try_init(|| runs.namespace(*run)).await?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if namespace.is_empty() || namespace.starts_with('.') || !namespace.chars().all(fits) {
            let problem = format!("{namespace:?} cannot be a part of a URL");
            return Err(InvalidInput::new("namespace", problem).into());
        }
        let project = runs.project();
        let (owner, name) = (project.owner(), project.name());
        let base = format!("{GATEWAY_PREFIX}/{namespace}/{owner}/{name}/runs/{run}/");
        Ok((transport, base))
    }
}

/// A run that was created as a sandbox, and may not be ready.
#[derive(Clone, Debug)]
#[must_use = "the run exists and costs; wait for it, or stop it"]
pub struct Pending {
    sandbox: SandboxClient,
}

impl Pending {
    /// The run. Keep it before anything can go wrong.
    #[must_use]
    pub fn run_uuid(&self) -> RunUuid {
        self.sandbox.run_uuid()
    }

    /// The sandbox, ready or not: to stop it.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxClient {
        &self.sandbox
    }

    /// Waits until the sandbox can be used: approves the run where it waits for that (some take
    /// two approvals), waits until it runs, then until its service answers. A gateway's 502 means
    /// "not yet".
    ///
    /// # Errors
    /// [`Error::Launch`] with the run's id: at once where the run has ended, with its reason; and
    /// where the limit passes.
    ///
    /// # Cancel safety
    /// Cancel safe: the run stays as it is, and can be waited for again with
    /// [`SandboxClient::connect`].
    pub async fn ready(self, wait: impl Into<Wait> + Send) -> Result<SandboxClient, Error> {
        let run = self.run_uuid();
        match self.until_it_answers(wait.into()).await {
            Ok(()) => Ok(self.sandbox),
            Err(source) => Err(Error::Launch {
                run,
                source: Box::new(source),
            }),
        }
    }

    async fn until_it_answers(&self, wait: Wait) -> Result<(), Error> {
        let started = Instant::now();
        let limit = wait.limit();
        let (runs, run) = (self.sandbox.runs(), self.run_uuid());
        runs.wait_for(run, &RunStatus::Running, wait.approve())
            .await?;
        let mut pause = Duration::from_millis(10);
        loop {
            let ping = Operation::get("ping", route::PING).once();
            let Err(error) = self.sandbox.send(ping).await else {
                return Ok(());
            };
            if !is_not_yet(&error) || started.elapsed() + pause > limit {
                return Err(error);
            }
            // A run that ends while its service is waited for never answers.
            let now = runs.statuses(run).await?;
            if now.status.is_final() {
                runs.wait_for(run, &RunStatus::Running, Duration::ZERO)
                    .await?;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Whether a failed ping says that the service has not come up so far.
fn is_not_yet(error: &Error) -> bool {
    match error {
        Error::Client(polyaxon_client::Error::Api(answer)) => {
            answer.is_from_gateway() && matches!(answer.status().as_u16(), 404 | 502 | 503 | 504)
        }
        Error::Client(error @ polyaxon_client::Error::Transport { .. }) => {
            error.effect() == Effect::NotApplied
        }
        _ => false,
    }
}

const _: () = {
    const fn check<T: Send + Sync + Clone>() {}
    check::<SandboxClient>();
};
