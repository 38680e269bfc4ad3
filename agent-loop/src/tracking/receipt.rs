//! The receipt of one command: how it ended, and nothing of what it wrote.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::millis;
use crate::acceptance::Verdict;
use crate::journal::{Answer, Intended, Intent};
use crate::names::metric;
use crate::serde_as;
use crate::workspace::{ExecReceipt, WorkspaceError};

/// A command of a check that has ended, or whose end is not known.
pub(super) struct CommandReceipt {
    intent: Intent,
    /// Which command of its turn it is, from 0.
    index: usize,
    end: Result<ExecReceipt, &'static str>,
}

impl CommandReceipt {
    pub(super) fn new(intent: &Intent, answer: &Answer, index: usize) -> Self {
        let end = match answer {
            Answer::Stage(run) => Ok(without_output(&run.receipt)),
            Answer::Failed(error) => Err(word(error)),
            _ => Err("no answer to a command"),
        };
        let intent = intent.clone();
        Self { intent, index, end }
    }

    /// How long the command ran, where it is known to have ended.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.end.as_ref().ok().map(|end| end.duration)
    }

    pub(super) fn timed_out(&self) -> bool {
        self.end.as_ref().is_ok_and(|end| end.timed_out)
    }

    /// What is measured. Nothing where nobody knows how it ended.
    pub(super) fn points(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let points = self.end.as_ref().ok().map(|end| {
            [
                (metric::COMMAND_DURATION_MS, millis(end.duration)),
                (
                    metric::COMMAND_TIMED_OUT,
                    f64::from(u8::from(end.timed_out)),
                ),
            ]
        });
        points.into_iter().flatten()
    }

    /// `step-N.json`, and for more commands of the same turn `step-N.2.json` and so on.
    pub(super) fn file_name(&self) -> String {
        match self.index {
            0 => format!("step-{}.json", self.intent.turn),
            more => format!("step-{}.{}.json", self.intent.turn, more + 1),
        }
    }

    pub(super) fn to_json(&self, head: &Map<String, Value>, verdict: Option<&Verdict>) -> Value {
        let mut members = head.clone();
        let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
        add("step", json!(self.intent.turn));
        add("request_id", json!(self.intent.id));
        if let Intended::Stage {
            check,
            stage,
            plan,
            tree,
        } = &self.intent.effect
        {
            add("tool", json!(check));
            add("stage", json!(stage));
            add("plan", json!(plan));
            add("tree", json!(tree));
        }
        match &self.end {
            Ok(end) => {
                add("exit_code", json!(end.exit_code));
                add("signal", json!(end.signal));
                add("duration_ms", json!(serde_as::millis::whole(end.duration)));
                add("timed_out", json!(end.timed_out));
                add("stdout_truncated", json!(end.stdout_truncated));
                add("stderr_truncated", json!(end.stderr_truncated));
            }
            Err(why) => {
                add("error", json!(why));
            }
        }
        if let Some(verdict) = verdict {
            let word = json!(verdict).get("verdict").cloned();
            add("verdict", word.unwrap_or_default());
        }
        members.into()
    }
}

fn without_output(receipt: &ExecReceipt) -> ExecReceipt {
    ExecReceipt {
        stdout: Vec::new(),
        stderr: Vec::new(),
        ..receipt.clone()
    }
}

/// What kind of failure it is. Its detail is in the journal.
fn word(error: &WorkspaceError) -> &'static str {
    match error {
        WorkspaceError::NotFound => "not_found",
        WorkspaceError::Refused(_) => "refused",
        WorkspaceError::Conflict(_) => "conflict",
        WorkspaceError::TooLarge(_) => "too_large",
        WorkspaceError::Failed(_) => "failed",
        WorkspaceError::Uncertain(_) => "uncertain",
        WorkspaceError::Gone(_) => "gone",
    }
}
