//! What is asked, and what is answered.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::RequestId;

/// A call of a tool, as it goes from the application to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The idempotency key: the application's own name of this piece of work, unique within its
    /// tenant. The same key is never carried out twice.
    pub request_id: RequestId,
    /// The tool, as the model named it.
    pub tool: String,
    /// The arguments, as the model wrote them: the text of a JSON object.
    pub arguments: String,
}

impl ToolCall {
    /// A call.
    pub fn new(
        request_id: RequestId,
        tool: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            request_id,
            tool: tool.into(),
            arguments: arguments.into(),
        }
    }

    /// What makes it another call than one with the same key.
    pub(super) fn digest(&self) -> Digest {
        Digest::of_parts([self.tool.as_bytes(), self.arguments.as_bytes()])
    }
}

/// The answer to a call. All of it can be shown to a model: no traceback, no path, no output of the
/// command but what the tool's evaluator says of its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// The call.
    pub request_id: RequestId,
    /// What came of it.
    pub outcome: ToolOutcome,
    /// In a few words.
    pub summary: String,
    /// What was kept.
    pub artifacts: Vec<ArtifactLink>,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the six cases are complete")]
pub enum ToolOutcome {
    /// The command ended well, and the evaluator accepts its result.
    Succeeded,
    /// The command ended well, and the evaluator does not accept its result.
    Rejected,
    /// Nothing was done: the call is not allowed, or makes no sense.
    Refused,
    /// The command failed, or could not be started.
    Failed,
    /// The command was ended at its time limit.
    TimedOut,
    /// It is not known what was done. The same request can be made again: it looks for the command
    /// before anything else.
    Uncertain,
}

impl ToolOutcome {
    /// The word in an answer.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Uncertain => "uncertain",
        }
    }
}

impl fmt::Display for ToolOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A file that was kept with an answer. [`Controller::artifact`](super::Controller::artifact) has
/// its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactLink {
    /// Its name in the contract.
    pub name: String,
    /// The digest of its bytes.
    pub sha256: Digest,
    /// Their number.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_four_members_and_plain_words() {
        let answer = ToolAnswer {
            request_id: "task-1.3.0".parse().unwrap(),
            outcome: ToolOutcome::TimedOut,
            summary: "late".to_owned(),
            artifacts: vec![ArtifactLink {
                name: "table".to_owned(),
                sha256: Digest::of(b""),
                bytes: 0,
            }],
        };
        insta::assert_snapshot!(serde_json::to_string(&answer).unwrap(), @r#"{"request_id":"task-1.3.0","outcome":"timed_out","summary":"late","artifacts":[{"name":"table","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","bytes":0}]}"#);
        for outcome in [
            ToolOutcome::Succeeded,
            ToolOutcome::Rejected,
            ToolOutcome::Refused,
            ToolOutcome::Failed,
            ToolOutcome::TimedOut,
            ToolOutcome::Uncertain,
        ] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    #[test]
    fn another_tool_or_argument_is_another_call() {
        let call = |tool, arguments| ToolCall::new("k".parse().unwrap(), tool, arguments).digest();
        assert_eq!(call("a", "{}"), call("a", "{}"));
        assert_ne!(call("a", "{}"), call("b", "{}"));
        assert_ne!(call("a", "b{}"), call("ab", "{}"));
    }
}
