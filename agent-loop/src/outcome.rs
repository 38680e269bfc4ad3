//! How an attempt ended.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acceptance::Level;
use crate::budget::Micros;
use crate::digest::{Digest, TreeHash};
use crate::ids::RequestId;
use crate::journal::Ended;
use crate::machine::Summary;
use crate::model::{ModelErrorKind, Usage};
use crate::private::Private;
use crate::serde_as;
use crate::workspace::StopState;

/// Everything there is to say about an attempt that is over. Written as `outcome.json`.
///
/// Why it ended and whether the change is accepted are two things: an attempt that used up its
/// turns is not accepted, whatever the model said last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The task and which try it was.
    pub task: TaskRef,
    /// What it was done with.
    pub revisions: Revisions,
    /// Why it ended.
    pub end: End,
    /// Whether the change is accepted, and what that rests on.
    pub acceptance: AcceptanceOutcome,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of the model, retries and failures among them.
    pub calls: u32,
    /// Tokens.
    pub usage: UsageTotal,
    /// Money.
    pub cost: CostTotal,
    /// Where the time went.
    pub latency: Latency,
    /// The checks, in order.
    pub checks: Vec<CheckOutcome>,
    /// Requests whose outcome was not known at first.
    pub uncertain: Vec<UncertainRequest>,
    /// How far the end of the workspace has come.
    pub stop: StopState,
    /// The digest of the patch.
    pub patch_sha256: Digest,
    /// The digest of the journal's last line, where there is a journal that chains its lines.
    pub chain_head: Option<Digest>,
    /// What could not be written down.
    pub evidence_errors: Vec<String>,
    /// The change, as git reads it. In `patch.diff`, not in `outcome.json`.
    #[serde(skip)]
    pub patch: Vec<u8>,
}

impl Outcome {
    /// What an attempt comes to that ended so.
    pub(crate) fn new(
        summary: &Summary<'_>,
        ended: Ended,
        chain_head: Option<Digest>,
        patch: Vec<u8>,
    ) -> Self {
        let (started, spent) = (summary.started, summary.spent);
        Self {
            task: started.task.clone(),
            revisions: started.revisions.clone(),
            acceptance: ended.acceptance,
            end: ended.end,
            turns: ended.turns,
            calls: spent.calls,
            usage: UsageTotal {
                known: spent.usage,
                unknown_calls: spent.unknown_usage_calls,
            },
            cost: CostTotal {
                known_micros: spent.cost,
                unknown_calls: spent.unknown_cost_calls,
                price_basis: started.price.as_ref().map(|price| price.basis.clone()),
            },
            latency: summary.latency.of(ended.total),
            checks: summary.checks.to_vec(),
            uncertain: summary.uncertain.to_vec(),
            stop: ended.stop,
            patch_sha256: ended.patch_sha256,
            chain_head,
            evidence_errors: ended.evidence_errors,
            patch,
        }
    }

    /// Whether the change is accepted.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.acceptance.state == AcceptanceState::Accepted
    }

    /// The exit status of a program that made this attempt: 0 accepted, 1 not accepted, 3 where
    /// infrastructure failed or something is uncertain. (2 is for misuse, which has no outcome.)
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match &self.end {
            _ if !self.evidence_errors.is_empty() => 3,
            End::Accepted => 0,
            End::Exhausted { .. }
            | End::Stuck
            | End::ContextTooLong
            | End::PolicyStop { .. }
            | End::Cancelled => 1,
            End::ModelFailed { .. }
            | End::WorkspaceFailed { .. }
            | End::CheckInvalid { .. }
            | End::Uncertain { .. }
            | End::JournalFailed { .. } => 3,
        }
    }
}

/// Which attempt it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRef {
    /// The task's id.
    pub id: String,
    /// Which try.
    pub attempt: u32,
}

/// What an attempt was made with. Known, and recorded, before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Revisions {
    /// The revision of the repository, where the caller said it.
    pub repository: Option<String>,
    /// The digest of what shapes the prompts.
    pub prompt: Digest,
    /// The model.
    pub model: ModelRevision,
    /// The digest of the schema with all actions.
    pub tool_definitions: Digest,
    /// The digest of the evaluator with all its plans.
    pub evaluation_manifest: Digest,
}

/// Which model, and how it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelRevision {
    /// Its name.
    pub name: String,
    /// Its settings, as it tells them.
    pub settings: serde_json::Value,
    /// The seed of the attempt.
    pub seed: Option<u64>,
    /// The most tokens of a reply.
    pub max_output_tokens: u32,
}

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// The model finished, and the bytes that passed are the bytes that are there.
    Accepted,
    /// A limit of the budget was reached.
    #[non_exhaustive]
    Exhausted {
        /// Which.
        limit: Limit,
    },
    /// The model asked for the same on the same files again and again.
    Stuck,
    /// The prompt does not fit into the model's window.
    ContextTooLong,
    /// A policy ended it.
    #[non_exhaustive]
    PolicyStop {
        /// Why.
        reason: String,
    },
    /// The caller ended it.
    Cancelled,
    /// The model could not be asked.
    #[non_exhaustive]
    ModelFailed {
        /// Why.
        kind: ModelErrorKind,
        /// More for the operator.
        detail: Private,
    },
    /// The workspace is gone, or does not do what it should.
    #[non_exhaustive]
    WorkspaceFailed {
        /// What was being done.
        during: String,
        /// More for the operator.
        detail: Private,
    },
    /// Checks gave no verdict.
    #[non_exhaustive]
    CheckInvalid {
        /// Why the last one did not.
        why: String,
    },
    /// Nobody can know what became of a request.
    #[non_exhaustive]
    Uncertain {
        /// Which.
        request: RequestId,
        /// More for the operator.
        detail: Private,
    },
    /// The journal could not be written.
    #[non_exhaustive]
    JournalFailed {
        /// More for the operator.
        detail: Private,
    },
}

impl End {
    /// What can be said about the change after such an end.
    #[must_use]
    pub fn acceptance(&self) -> AcceptanceState {
        match self {
            Self::Accepted => AcceptanceState::Accepted,
            Self::CheckInvalid { .. } => AcceptanceState::Invalid,
            Self::Exhausted { .. }
            | Self::Stuck
            | Self::ContextTooLong
            | Self::PolicyStop { .. } => AcceptanceState::NotAccepted,
            Self::Cancelled
            | Self::ModelFailed { .. }
            | Self::WorkspaceFailed { .. }
            | Self::Uncertain { .. }
            | Self::JournalFailed { .. } => AcceptanceState::NotEvaluated,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Exhausted { limit } => write!(f, "exhausted: {limit}"),
            Self::Stuck => f.write_str("stuck: the model repeats itself"),
            Self::ContextTooLong => f.write_str("the prompt does not fit into the model's window"),
            Self::PolicyStop { reason } => write!(f, "stopped by policy: {reason}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::ModelFailed { kind, .. } => write!(f, "the model failed: {kind}"),
            Self::WorkspaceFailed { during, .. } => write!(f, "the workspace failed: {during}"),
            Self::CheckInvalid { why } => write!(f, "the check gives no verdict: {why}"),
            Self::Uncertain { request, .. } => {
                write!(f, "the outcome of request {request} is not known")
            }
            Self::JournalFailed { .. } => f.write_str("the journal could not be written"),
        }
    }
}

/// A limit of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the fields of the budget")]
pub enum Limit {
    Turns,
    FormatErrors,
    Checks,
    Tokens,
    Cost,
    Wall,
    Working,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "all turns are used",
            Self::FormatErrors => "too many replies in a row were no action",
            Self::Checks => "all checks are used",
            Self::Tokens => "the next call could exceed the tokens",
            Self::Cost => "the next call could exceed the cost",
            Self::Wall => "the time is up",
            Self::Working => "the working time is up",
        })
    }
}

/// Whether the change is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the four cases are complete")]
pub enum AcceptanceState {
    /// Exactly these bytes passed.
    Accepted,
    /// They did not, or nobody finished.
    NotAccepted,
    /// The checks gave no verdict.
    Invalid,
    /// Something else than the change went wrong.
    NotEvaluated,
}

impl AcceptanceState {
    /// The word in `outcome.json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NotAccepted => "not_accepted",
            Self::Invalid => "invalid",
            Self::NotEvaluated => "not_evaluated",
        }
    }
}

/// Whether the change is accepted, and what that rests on. The parts are there where it is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AcceptanceOutcome {
    /// Whether it is accepted.
    pub state: AcceptanceState,
    /// How much the pass is worth.
    pub level: Option<Level>,
    /// The digest of the files that passed.
    pub tree: Option<TreeHash>,
    /// The digest of the plan.
    pub plan: Option<Digest>,
    /// The revision of the evaluator.
    pub evaluator: Option<Digest>,
    /// The digest of what the check has shown.
    pub evidence: Option<Digest>,
    /// The check in the journal.
    pub check: Option<RequestId>,
}

/// Tokens of all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsageTotal {
    /// The sums of what is known.
    pub known: Usage,
    /// How many calls are not in them.
    pub unknown_calls: u32,
}

/// Money of all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CostTotal {
    /// The sum of what is known.
    pub known_micros: Micros,
    /// How many calls are not in it.
    pub unknown_calls: u32,
    /// Where the prices are from.
    pub price_basis: Option<String>,
}

impl fmt::Display for CostTotal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unknown_calls {
            0 => write!(f, "{}", self.known_micros),
            calls => write!(f, "known {}, unknown for {calls} calls", self.known_micros),
        }
    }
}

/// Where the time went. The parts do not overlap, but for `exec`, which is within `check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// From the start to the end.
    #[serde(with = "serde_as::millis", rename = "total_ms")]
    pub total: Duration,
    /// Waiting for the model's replies, without its queue where that is known.
    #[serde(with = "serde_as::millis", rename = "model_ms")]
    pub model: Duration,
    /// In the model's queue, where any server said so.
    #[serde(with = "serde_as::maybe_millis", rename = "queue_ms")]
    pub queue: Option<Duration>,
    /// Between retries of model calls.
    #[serde(with = "serde_as::millis", rename = "backoff_ms")]
    pub backoff: Duration,
    /// Until the workspace was there, where the caller said so.
    #[serde(with = "serde_as::maybe_millis", rename = "provision_ms")]
    pub provision: Option<Duration>,
    /// Commands, as the workspace measured them.
    #[serde(with = "serde_as::millis", rename = "exec_ms")]
    pub exec: Duration,
    /// Checks, with copying and comparing.
    #[serde(with = "serde_as::millis", rename = "check_ms")]
    pub check: Duration,
    /// Waiting for people.
    #[serde(with = "serde_as::millis", rename = "approval_ms")]
    pub approval: Duration,
    /// Reading and writing files of the workspace.
    #[serde(with = "serde_as::millis", rename = "files_ms")]
    pub files: Duration,
    /// The loop itself, the journal included.
    #[serde(with = "serde_as::millis", rename = "own_ms")]
    pub own: Duration,
}

impl Latency {
    /// The same of so much time altogether: what no part took, the loop took itself.
    pub(crate) fn of(mut self, total: Duration) -> Self {
        self.total = total;
        let parts = [
            self.model,
            self.queue.unwrap_or_default(),
            self.backoff,
            self.check,
            self.approval,
            self.files,
        ];
        self.own = total.saturating_sub(parts.iter().sum());
        self
    }
}

/// A check that has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckOutcome {
    /// Its first stage in the journal.
    pub id: RequestId,
    /// The turn.
    pub turn: u32,
    /// Its name.
    pub name: String,
    /// `pass`, `fail` or `invalid`.
    pub verdict: String,
    /// One line more.
    pub summary: String,
    /// The digest of the files that it was about.
    pub tree: TreeHash,
    /// Where each stage that has run was, in order, as the place says of itself. Empty where no
    /// place says anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<serde_json::Value>,
    /// How long it took, with copying and comparing.
    #[serde(with = "serde_as::millis", rename = "duration_ms")]
    pub duration: Duration,
}

/// A request whose outcome was not known at first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UncertainRequest {
    /// Which.
    pub id: RequestId,
    /// What was being done.
    pub what: String,
    /// Whether it was found out later.
    pub resolved: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_decides_what_can_be_said_about_the_change() {
        let id: RequestId = "t-1.1.1".parse().unwrap();
        let detail = || Private::new("x");
        let table = [
            (End::Accepted, "accepted"),
            (
                End::Exhausted {
                    limit: Limit::Turns,
                },
                "not_accepted",
            ),
            (End::Stuck, "not_accepted"),
            (End::ContextTooLong, "not_accepted"),
            (
                End::PolicyStop {
                    reason: "r".to_owned(),
                },
                "not_accepted",
            ),
            (End::Cancelled, "not_evaluated"),
            (
                End::ModelFailed {
                    kind: ModelErrorKind::Auth,
                    detail: detail(),
                },
                "not_evaluated",
            ),
            (
                End::WorkspaceFailed {
                    during: "write".to_owned(),
                    detail: detail(),
                },
                "not_evaluated",
            ),
            (
                End::CheckInvalid {
                    why: "w".to_owned(),
                },
                "invalid",
            ),
            (
                End::Uncertain {
                    request: id,
                    detail: detail(),
                },
                "not_evaluated",
            ),
            (End::JournalFailed { detail: detail() }, "not_evaluated"),
        ];
        for (end, word) in table {
            assert_eq!(end.acceptance().as_str(), word, "{end}");
            let json = serde_json::to_string(&end).unwrap();
            assert_eq!(serde_json::from_str::<End>(&json).unwrap(), end);
            let state = serde_json::to_value(end.acceptance()).unwrap();
            assert_eq!(state, word);
        }
    }

    #[test]
    fn an_unknown_cost_is_never_shown_as_nothing() {
        let unknown = CostTotal {
            unknown_calls: 12,
            ..CostTotal::default()
        };
        assert_eq!(unknown.to_string(), "known 0.000000, unknown for 12 calls");
        let known = CostTotal {
            known_micros: Micros::new(80_000),
            ..CostTotal::default()
        };
        assert_eq!(known.to_string(), "0.080000");
    }
}
