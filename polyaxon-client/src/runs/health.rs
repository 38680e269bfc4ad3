//! Waiting until the service in a run answers.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::service::ServiceRoute;
use super::watch::{ended, pause_within};
use super::{RunStatus, Runs};
use crate::error::Error;
use crate::ids::RunUuid;
use crate::transport::Operation;

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How quickly it is asked again at first.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// And at last.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Which address of a service says that it is well: any 2xx does.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::{HealthCheck, ServiceRoute};
///
/// let model_server = HealthCheck::port(8000).path("/health").route(ServiceRoute::Rewrite);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a HealthCheck does nothing until it is passed to `wait_until_healthy`"]
pub struct HealthCheck {
    port: u16,
    path: String,
    route: ServiceRoute,
}

impl HealthCheck {
    /// The root of what listens on this port.
    pub fn port(port: u16) -> Self {
        Self {
            port,
            path: "/".to_owned(),
            route: ServiceRoute::default(),
        }
    }

    /// This path, encoded as in a URL. Default: `/`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        if !self.path.starts_with('/') {
            self.path.insert(0, '/');
        }
        self
    }

    /// How the gateway hands calls on. Default: [`ServiceRoute::Services`].
    pub fn route(mut self, route: ServiceRoute) -> Self {
        self.route = route;
        self
    }
}

impl Runs {
    /// Waits until the service in a run answers with success, asking every 100 ms at first and every
    /// 3 s at last, with the token of every other call. All that a service does before it is there
    /// is waited out: a gateway that knows no such address, or finds nobody behind it.
    ///
    /// # Errors
    /// [`Error::RunEnded`] where the run ends meanwhile; [`Error::Api`] at once where the token is
    /// refused (401, 403); [`Error::WaitTimedOut`] at `limit`, whatever call is under way, with the
    /// status of the run that was seen last, and what was answered last as its cause.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_until_healthy(
        &self,
        namespace: &str,
        run: RunUuid,
        check: &HealthCheck,
        limit: Duration,
    ) -> Result<(), Error> {
        let path = self.service_path(namespace, run, check.port, check.route)?;
        let path = format!("{path}{}", check.path);
        let started = Instant::now();
        let (mut last, mut failure) = (RunStatus::Unknown, None);
        let healthy = self.healthy(run, &path, (started, limit), (&mut last, &mut failure));
        let healthy = timeout(limit, healthy).await;
        healthy.unwrap_or_else(|_| {
            Err(Error::WaitTimedOut {
                run,
                last,
                waited: started.elapsed(),
                hint: format!(", and port {} is not healthy", check.port),
                source: failure.map(Box::new),
            })
        })
    }

    /// Asks until the service is well; notes the status that it saw last, and the last answer.
    async fn healthy(
        &self,
        run: RunUuid,
        path: &str,
        (started, limit): (Instant, Duration),
        (last, failure): (&mut RunStatus, &mut Option<Error>),
    ) -> Result<(), Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            let operation = Operation::get("runs.health", path)
                .any_answer()
                .timeout(ANSWER_LIMIT)
                .once();
            match self.transport().send(operation).await {
                Ok(_) => return Ok(()),
                Err(error) if error.status().is_some_and(is_refusal) => return Err(error),
                Err(error @ (Error::Api(_) | Error::Transport { .. })) => *failure = Some(error),
                Err(error) => return Err(error),
            }
            // Nobody answers for a run that has ended, however long it is asked.
            match self.statuses(run).await {
                Ok(now) if now.status.is_final() => return Err(ended(now)),
                Ok(now) => *last = now.status,
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause_within(limit, started.elapsed(), pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn is_refusal(status: http::StatusCode) -> bool {
    matches!(
        status,
        http::StatusCode::UNAUTHORIZED | http::StatusCode::FORBIDDEN
    )
}
