//! An independent verification as a Polyaxon job.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyaxon_client::runs::{OperationSpec, RunStatus, Runs, Wait};
use polyaxon_client::{Error, RunUuid};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::outcome::Outcome;

/// The largest patch that a job gets as a param, in bytes: it becomes a part of a command.
const MOST_PATCH: usize = 64 * 1024;

/// Has a change verified by a job of its own: another run, scheduled by the platform, with an image,
/// a queue and hidden tests that the attempt has never seen.
///
/// The component gets params, which are inputs of the run and can be queried, as far as it declares
/// them: `task_id`, `attempt`, `sandbox_run_uuid`, `patch_sha256` and `patch_base64`, the patch
/// itself, of at most 64 KiB. One of the last two it has to have: else its end would say nothing
/// about this change. What the job makes of them is the component's; that it ends as
/// `succeeded` is a pass.
///
/// It comes after an attempt and takes nothing of its outcome back: acceptance by the loop and by
/// the job are two statements, and both are kept.
///
/// # Examples
/// ```
/// use agent_loop::acceptance::JobVerification;
/// use serde_json::json;
///
/// let component = json!({
///     "kind": "component",
///     "inputs": [
///         {"name": "task_id", "type": "str"},
///         {"name": "attempt", "type": "int"},
///         {"name": "sandbox_run_uuid", "type": "str"},
///         {"name": "patch_sha256", "type": "str"},
///     ],
///     "run": {"kind": "job", "container": {
///         "image": "registry/verify:1",
///         "command": ["verify", "{{ patch_sha256 }}"],
///     }},
/// });
/// let verification = JobVerification::new(component).queue("agent/cpu");
/// # let _ = verification;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a JobVerification does nothing until `run` is called"]
pub struct JobVerification {
    component: Value,
    queue: Option<String>,
    limit: Duration,
}

/// What a verification has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobVerdict {
    /// The run of the job.
    pub run: RunUuid,
    /// The digest of the patch that it was given.
    pub patch_sha256: Digest,
    /// Whether the change is right, as far as the job can tell.
    pub verdict: JobResult,
    /// How the run ended.
    pub status: String,
}

/// Whether a job verified a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the three cases are complete")]
pub enum JobResult {
    /// The job succeeded.
    Pass,
    /// The job ran, and failed.
    Fail,
    /// It was stopped, has not ended in time, or failed before it ran, as one that cannot be compiled:
    /// it says nothing about the change.
    Invalid,
}

impl JobVerification {
    /// A job of this component, which may take half an hour.
    pub fn new(component: Value) -> Self {
        Self {
            component,
            queue: None,
            limit: Duration::from_secs(1800),
        }
    }

    /// Sends it to this queue: `agent/queue`.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// How long the job may take, the time in a queue among it. Default: half an hour.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Whether the component has an input of this name.
    fn declares(&self, name: &str) -> bool {
        let inputs = self.component.get("inputs").and_then(Value::as_array);
        let mut inputs = inputs.into_iter().flatten();
        inputs.any(|input| input.get("name").and_then(Value::as_str) == Some(name))
    }

    /// What the job gets of `outcome`. Inputs that the component does not declare are left out.
    fn operation(
        &self,
        outcome: &Outcome,
        sandbox: RunUuid,
    ) -> Result<OperationSpec, VerificationError> {
        if !self.declares("patch_sha256") && !self.declares("patch_base64") {
            return Err(VerificationError::NotBound);
        }
        let mut params = vec![
            ("task_id", json!(outcome.task.id)),
            ("attempt", json!(outcome.task.attempt)),
            ("sandbox_run_uuid", json!(sandbox)),
            ("patch_sha256", json!(outcome.patch_sha256)),
        ];
        if self.declares("patch_base64") {
            let bytes = outcome.patch.len();
            if bytes > MOST_PATCH {
                return Err(VerificationError::TooLarge(TooLarge { bytes }));
            }
            params.push(("patch_base64", json!(STANDARD.encode(&outcome.patch))));
        }
        let spec = OperationSpec::of_component(&self.component);
        let spec = match &self.queue {
            Some(queue) => spec.queue(queue),
            None => spec,
        };
        let declared = params.into_iter().filter(|(name, _)| self.declares(name));
        Ok(declared.fold(spec, |spec, (name, value)| spec.param(name, value)))
    }

    /// Creates the job for the change of `outcome`, which was made in `sandbox`, and waits for its
    /// end. Approvals are given where the project wants one.
    ///
    /// # Errors
    /// [`VerificationError::NotBound`] and [`VerificationError::TooLarge`] before anything is sent;
    /// [`VerificationError::Create`] where
    /// the run was not created, and its effect says whether it may be there all the same;
    /// [`VerificationError::Wait`], with the run, where what became of it cannot be found out.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the job running.
    pub async fn run(
        &self,
        runs: &Runs,
        outcome: &Outcome,
        sandbox: RunUuid,
    ) -> Result<JobVerdict, VerificationError> {
        let operation = self.operation(outcome, sandbox)?;
        let name = format!("verify-{}-{}", outcome.task.id, outcome.task.attempt);
        let created = runs.create(&operation.create().name(name)).await;
        let run = created.map_err(VerificationError::Create)?.uuid;
        let wait = Wait::up_to(self.limit).approve();
        let (verdict, status) = match runs.wait_until_final(run, wait).await {
            Ok(ended) => {
                let mut conditions = ended.status_conditions.iter();
                let has_run = conditions.any(|condition| condition.kind == RunStatus::Running);
                let verdict = match ended.status {
                    RunStatus::Succeeded => JobResult::Pass,
                    RunStatus::Failed if has_run => JobResult::Fail,
                    _ => JobResult::Invalid,
                };
                let when = if has_run { "" } else { ", and never ran" };
                (verdict, format!("{}{when}", ended.status))
            }
            Err(Error::WaitTimedOut { .. }) => {
                (JobResult::Invalid, "not ended within the limit".to_owned())
            }
            Err(source) => return Err(VerificationError::Wait { run, source }),
        };
        Ok(JobVerdict {
            run,
            patch_sha256: outcome.patch_sha256,
            verdict,
            status,
        })
    }
}

/// A patch that cannot be a param.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch has {bytes} bytes; as a param at most {MOST_PATCH} are allowed")]
pub struct TooLarge {
    bytes: usize,
}

/// A verification that was not made, or whose end is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerificationError {
    /// The component knows of no patch, so the end of a job would say nothing about this change.
    #[error("the component has neither the input `patch_sha256` nor `patch_base64`")]
    NotBound,
    /// The patch cannot be a param.
    #[error(transparent)]
    TooLarge(TooLarge),
    /// The run was not created.
    #[error("the verification was not started")]
    Create(#[source] Error),
    /// What became of the run is not known.
    #[error("what became of the verification, run {run}, is not known")]
    #[non_exhaustive]
    Wait {
        /// The run.
        run: RunUuid,
        /// Why.
        #[source]
        source: Error,
    },
}
