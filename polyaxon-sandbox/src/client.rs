//! The sandbox client: the life of a sandbox, and the way to its processes, files and terminals.

mod pending;
mod pod;
mod sandboxes;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use polyaxon_client::runs::{RunStatus, Runs, ServiceRoute, Wait, check_namespace};
use polyaxon_client::transport::{Answer, AnswerStream, Operation, Transport, Upgraded};
use polyaxon_client::{Client, Effect, ProjectRef, RunUuid, Token};
use tokio::sync::OnceCell;
use url::Url;

pub use self::pending::Pending;
pub use self::sandboxes::{Find, Sandboxes, StopReport};
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
    fn behind_gateway(runs: &Runs, namespace: OnceCell<String>) -> Self {
        Self::Gateway {
            transport: runs.transport().clone(),
            namespace,
        }
    }
}

impl SandboxClient {
    /// Creates a sandbox. The run then exists, which the result names, and is not ready yet.
    ///
    /// Where the answer is lost and the run can be recognised ([`SandboxSpec::launch_id`]), it is
    /// looked for, for some seconds; found, it is as if the answer had come.
    ///
    /// # Errors
    /// What [`SandboxSpec`] refuses, before anything is sent; otherwise as
    /// [`Runs::create`]. Where the effect is unknown a run may exist: with a launch id,
    /// [`Sandboxes::created`] looks for it again.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a run behind whose id nobody knows. With a
    /// launch id it can be found.
    pub async fn create(
        client: &Client,
        project: &ProjectRef,
        spec: &SandboxSpec,
    ) -> Result<Pending, Error> {
        let request = spec.create_run()?;
        let runs = client.runs(project);
        let run = match (runs.create(&request).await, spec.launched_as()) {
            (Ok(run), _) => run,
            (Err(error), Some(launch_id)) if error.effect() != Effect::NotApplied => {
                Sandboxes::of(client, project)
                    .instead_of_answer(error.into(), launch_id)
                    .await?
            }
            (Err(error), _) => return Err(error.into()),
        };
        let namespace = OnceCell::new_with(run.namespace().map(str::to_owned));
        let service = Service::behind_gateway(&runs, namespace);
        let sandbox = Self {
            inner: Arc::new(Inner {
                runs,
                run: run.uuid,
                service,
            }),
        };
        Ok(Pending { sandbox })
    }

    /// Creates a sandbox and waits up to five minutes until it is ready. Use
    /// [`create`](Self::create) where the run's id has to be kept before anything can go wrong.
    ///
    /// The run gets a launch id of its own unless the spec has one, so that it is not lost with an
    /// answer: see [`SandboxSpec::launch_id`].
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
        let pending = match spec.launched_as() {
            Some(_) => Self::create(client, project, spec).await?,
            None => {
                let id = uuid::Uuid::new_v4().simple().to_string();
                Self::create(client, project, &spec.clone().launch_id(id)).await?
            }
        };
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
        Self::over(client.runs(project), run)
    }

    fn over(runs: Runs, run: RunUuid) -> Self {
        let service = Service::behind_gateway(&runs, OnceCell::new());
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

    /// The sandboxes of the same project.
    #[must_use]
    pub fn sandboxes(&self) -> Sandboxes {
        Sandboxes::over(self.inner.runs.clone())
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

    /// The URL of a port that the sandbox exposes ([`SandboxSpec::port`]), without a slash at its
    /// end. Callers send their token as everywhere. Nothing is sent but the question for the run's
    /// namespace, once.
    ///
    /// # Errors
    /// As [`Runs::service_url`] and [`Runs::namespace`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn service_url(&self, port: u16, route: ServiceRoute) -> Result<Url, Error> {
        let Inner { runs, run, service } = &*self.inner;
        let namespace = match service {
            Service::Direct(_) => &runs.namespace(*run).await?,
            Service::Gateway { namespace, .. } => {
                namespace.get_or_try_init(|| runs.namespace(*run)).await?
            }
        };
        Ok(runs.service_url(namespace, *run, port, route)?)
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
        check_namespace(namespace)?;
        let project = runs.project();
        let (owner, name) = (project.owner(), project.name());
        let base = format!("{GATEWAY_PREFIX}/{namespace}/{owner}/{name}/runs/{run}/");
        Ok((transport, base))
    }
}

const _: () = {
    const fn check<T: Send + Sync + Clone>() {}
    check::<SandboxClient>();
};
