//! What a controller records of each call.

use std::time::Duration;

use jiff::Timestamp;
use polyaxon_client::RunUuid;
use polyaxon_sandbox::ExecResult;
use serde::Serialize;

use super::answer::{ToolAnswer, ToolOutcome};
use super::session::Tenant;
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::private::Private;
use crate::serde_as;

/// One call, for the controller's own run and log. It is not for the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// When it was asked for.
    pub at: Timestamp,
    /// The call.
    pub request_id: RequestId,
    /// The tool, as it was asked for; at most 64 bytes.
    pub tool: String,
    /// Whose call it is.
    pub tenant: Tenant,
    /// The project of the sandbox.
    pub project: String,
    /// The run of the sandbox.
    pub execution_run_uuid: RunUuid,
    /// The digest of the arguments.
    pub arguments_sha256: Digest,
    /// What was answered.
    pub outcome: ToolOutcome,
    /// What the evaluator says of the result; `None` where it was not asked.
    pub evaluator_passed: Option<bool>,
    /// How long the call took, from the request to the answer.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
    /// The command, where one has run for this call and its end is known.
    pub command: Option<CommandFacts>,
    /// Whether the answer was given before, to the same request.
    pub repeated: bool,
    /// The digests of what was kept.
    pub artifacts: Vec<Digest>,
    /// More for the operator.
    pub detail: Option<Private>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CommandFacts {
    /// Its exit code, where it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// How long it ran, by the service's clock.
    #[serde(with = "serde_as::millis", rename = "duration_ms")]
    pub duration: Duration,
    /// Whether it was ended at its time limit.
    pub timed_out: bool,
    /// Whether its standard output is not whole.
    pub stdout_truncated: bool,
    /// Whether its standard error is not whole.
    pub stderr_truncated: bool,
}

impl CommandFacts {
    pub(super) fn of(result: &ExecResult) -> Self {
        let receipt = result.receipt();
        Self {
            exit_code: receipt.exit_code,
            signal: receipt.signal.map(|signal| signal.as_str().to_owned()),
            duration: result.duration,
            timed_out: receipt.timed_out,
            stdout_truncated: receipt.stdout_truncated,
            stderr_truncated: receipt.stderr_truncated,
        }
    }
}

/// Watches a controller: it sees every call once it is answered. It cannot fail and has no say.
///
/// A closure is one.
pub trait CallObserver: Send + Sync {
    /// Sees a call, and what was answered.
    fn on_call(&self, record: &CallRecord, answer: &ToolAnswer);
}

impl<F> CallObserver for F
where
    F: Fn(&CallRecord, &ToolAnswer) + Send + Sync,
{
    fn on_call(&self, record: &CallRecord, answer: &ToolAnswer) {
        self(record, answer);
    }
}
