//! A sandbox that has been created and is waited for.

use std::time::Duration;

use polyaxon_client::runs::{RunStatus, Wait};
use polyaxon_client::transport::Operation;
use polyaxon_client::{Effect, RunUuid};
use tokio::time::Instant;

use super::SandboxClient;
use crate::error::Error;
use crate::wire::route;

/// A run that was created as a sandbox, and may not be ready.
#[derive(Clone, Debug)]
#[must_use = "the run exists and costs; wait for it, or stop it"]
pub struct Pending {
    pub(super) sandbox: SandboxClient,
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
            let left = limit.saturating_sub(started.elapsed());
            let ping = Operation::get("ping", route::PING)
                .timeout(left.min(runs.transport().timeout()))
                .once();
            let Err(error) = self.sandbox.send(ping).await else {
                return Ok(());
            };
            if !is_not_yet(&error) || started.elapsed() + pause > limit {
                return Err(error);
            }
            // A run that ends while its service is waited for never answers.
            let left = limit.saturating_sub(started.elapsed());
            let Ok(now) = tokio::time::timeout(left, runs.statuses(run)).await else {
                return Err(error);
            };
            if now?.status.is_final() {
                runs.wait_for(run, &RunStatus::Running, left).await?;
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
