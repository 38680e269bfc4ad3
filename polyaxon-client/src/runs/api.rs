//! The calls of the runs API.

use serde::Deserialize;

use super::model::{CreateRun, Run, Statuses};
use super::service::check_namespace;
use crate::error::{Error, InvalidInput};
use crate::ids::{ProjectRef, RunUuid};
use crate::transport::{Operation, Transport};

/// The runs of one project. A handle, cheap to clone.
#[derive(Clone, Debug)]
pub struct Runs {
    transport: Transport,
    project: ProjectRef,
}

impl Runs {
    pub(crate) fn new(transport: Transport, project: ProjectRef) -> Self {
        Self { transport, project }
    }

    /// The project whose runs these are.
    #[must_use]
    pub fn project(&self) -> &ProjectRef {
        &self.project
    }

    /// The transport, for clients that build on this one.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(super) fn path(&self) -> String {
        format!(
            "/api/v1/{}/{}/runs",
            self.project.owner(),
            self.project.name()
        )
    }

    pub(super) fn path_of(&self, run: RunUuid, rest: &str) -> String {
        format!("{}/{run}{rest}", self.path())
    }

    /// The path of a run's files, events and logs.
    pub(super) fn stream_path(
        &self,
        namespace: &str,
        run: &str,
        rest: &str,
    ) -> Result<String, InvalidInput> {
        check_namespace(namespace)?;
        let (owner, project) = (self.project.owner(), self.project.name());
        Ok(format!(
            "/streams/v1/{namespace}/{owner}/{project}/runs/{run}{rest}"
        ))
    }

    /// Creates a run. It is not waited for: it has yet to be approved, scheduled and started.
    ///
    /// # Errors
    /// [`Error::Api`]: 404 where there is no such project, 400 where the operation cannot be
    /// used. Never sent twice, as twice would be two runs: where the answer is lost
    /// ([`effect`](Error::effect) unknown) a run may exist.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a run behind whose id nobody knows.
    pub async fn create(&self, run: &CreateRun) -> Result<Run, Error> {
        if run
            .name
            .as_ref()
            .is_some_and(|name| name.chars().count() > 128)
        {
            return Err(InvalidInput::new("name", "has more than 128 characters").into());
        }
        let operation = Operation::post("runs.create", self.path()).json(run)?;
        self.transport.send(operation).await?.json()
    }

    /// The run as it is now.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn get(&self, run: RunUuid) -> Result<Run, Error> {
        self.transport
            .send(Operation::get("runs.get", self.path_of(run, "")))
            .await?
            .json()
    }

    /// The run's status with its history.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such run.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn statuses(&self, run: RunUuid) -> Result<Statuses, Error> {
        let operation = Operation::get("runs.statuses", self.path_of(run, "/statuses"));
        self.transport.send(operation).await?.json()
    }

    /// Approves a run that waits for it. The platform answers with success where it does not
    /// wait, and a run can wait for two approvals: read `pending` back.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run is approved.
    pub async fn approve(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.approve", run, "/approve").await
    }

    /// Asks the platform to stop a run. A request: the run is stopped when its status says so.
    ///
    /// # Errors
    /// [`Error::Api`]. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the stop was asked for.
    pub async fn stop(&self, run: RunUuid) -> Result<(), Error> {
        self.ask("runs.stop", run, "/stop").await
    }

    /// The namespace that the run's pod is in.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such run; [`Error::Decode`] where the
    /// answer names none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn namespace(&self, run: RunUuid) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Settings {
            namespace: String,
        }
        let operation = Operation::get("runs.namespace", self.path_of(run, "/namespace"));
        let settings: Settings = self.transport.send(operation).await?.json()?;
        Ok(settings.namespace)
    }
}
