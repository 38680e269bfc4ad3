//! How a command ended.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::id::ExecId;
use super::output::Output;
use super::signal::Signal;
use crate::error::Error;
use crate::wire::ExecAnswer;

/// What ended a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "these are the ways a process can end here"
)]
pub enum Termination {
    /// It exited by itself, with this code.
    Exited(i32),
    /// A signal killed it.
    Signaled(Signal),
    /// It was killed at its time limit.
    TimedOut,
}

impl Termination {
    /// What is wrong with an answer that says none.
    pub(crate) const MISSING: &str = "there is no exit code, no signal and no timeout";

    /// Reads what a service says, in all its spellings. A missing exit code is never read as zero.
    pub(crate) fn read(
        exit_code: Option<i32>,
        signal: Option<Signal>,
        timed_out: bool,
    ) -> Option<Self> {
        if timed_out {
            return Some(Self::TimedOut);
        }
        match signal.filter(|signal| !signal.as_str().is_empty()) {
            Some(signal) => Some(Self::Signaled(signal)),
            None => exit_code.map(Self::Exited),
        }
    }
}

/// The result of a command that was carried out to its end, whatever that was: an exit code
/// other than zero is a result, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecResult {
    /// The id of the service's record.
    pub exec_id: ExecId,
    /// What ended it.
    pub termination: Termination,
    /// What it wrote to standard output.
    pub stdout: Output,
    /// What it wrote to standard error.
    pub stderr: Output,
    /// How long it ran, by the service's clock. No queueing, provisioning or network is in it.
    pub duration: Duration,
}

impl ExecResult {
    /// Reads the answer of a service, whose ways to say "killed by a signal" differ.
    ///
    /// # Errors
    /// Where the answer does not say how the command ended. A missing exit code is never read as
    /// zero.
    pub(crate) fn from_answer(answer: ExecAnswer) -> Result<Self, String> {
        let signal = answer.signal.as_deref().map(Signal::from);
        let termination = Termination::read(answer.exit_code, signal, answer.timed_out)
            .ok_or_else(|| Termination::MISSING.to_owned())?;
        let output = |text: String, truncated| {
            Output::new(Bytes::from(text.into_bytes()), truncated, answer.timed_out)
        };
        Ok(Self {
            exec_id: ExecId::from(answer.exec_id),
            termination,
            stdout: output(answer.stdout, answer.stdout_truncated),
            stderr: output(answer.stderr, answer.stderr_truncated),
            duration: Duration::from_millis(answer.duration_ms),
        })
    }

    /// The code it exited with, where it did.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self.termination {
            Termination::Exited(code) => Some(code),
            Termination::Signaled(_) | Termination::TimedOut => None,
        }
    }

    /// Whether it was killed at its time limit.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.termination == Termination::TimedOut
    }

    /// Whether it exited with code 0. That is what the process says, not that its work is right.
    #[must_use]
    pub fn success(&self) -> bool {
        self.termination == Termination::Exited(0)
    }

    /// Itself where the command succeeded.
    ///
    /// # Errors
    /// [`Error::Unsuccessful`] with this result where it exited with another code than 0, or was
    /// killed.
    pub fn ensure_success(self) -> Result<Self, Error> {
        match self.success() {
            true => Ok(self),
            false => Err(Error::Unsuccessful(Box::new(self))),
        }
    }

    /// The facts without the output, to keep as evidence.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        Receipt {
            exec_id: self.exec_id.clone(),
            exit_code: self.exit_code(),
            signal: match &self.termination {
                Termination::Signaled(signal) => Some(signal.clone()),
                Termination::TimedOut => Some(Signal::Kill),
                Termination::Exited(_) => None,
            },
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            timed_out: self.timed_out(),
            stdout_truncated: self.stdout.is_truncated(),
            stderr_truncated: self.stderr.is_truncated(),
        }
    }
}

/// The sentence of [`Error::Unsuccessful`].
pub(crate) fn unsuccessful(result: &ExecResult) -> String {
    let how = match &result.termination {
        Termination::Exited(code) => format!("exited with {code}"),
        Termination::Signaled(signal) => format!("was killed by {signal}"),
        Termination::TimedOut => {
            format!("was killed at its time limit after {:.1?}", result.duration)
        }
    };
    let stderr = result.stderr.text_lossy();
    match stderr.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!(
            "the command {how}: {}",
            line.chars().take(200).collect::<String>()
        ),
        None => format!("the command {how}"),
    }
}

/// What happened, without what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the service's record.
    pub exec_id: ExecId,
    /// The code it exited with; null where it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it; null where none did.
    pub signal: Option<Signal>,
    /// Milliseconds from start to end, by the service's clock.
    pub duration_ms: u64,
    /// Whether it was killed at its time limit.
    pub timed_out: bool,
    /// Whether it wrote more to standard output than was captured.
    pub stdout_truncated: bool,
    /// Whether it wrote more to standard error than was captured.
    pub stderr_truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ExecResult, String> {
        ExecResult::from_answer(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn every_spelling_of_an_end_is_one_termination() {
        let kill = Termination::Signaled(Signal::Kill);
        let table = [
            (r#"{"exit_code":0}"#, Termination::Exited(0)),
            (r#"{"exit_code":124}"#, Termination::Exited(124)),
            (r#"{"exit_code":137}"#, Termination::Exited(137)),
            (r#"{"exit_code":-1,"signal":"SIGKILL"}"#, kill.clone()),
            (r#"{"exit_code":null,"signal":"SIGKILL"}"#, kill.clone()),
            (r#"{"exit_code":137,"signal":"SIGKILL"}"#, kill),
            (
                r#"{"exit_code":-1,"signal":"SIGKILL","timed_out":true}"#,
                Termination::TimedOut,
            ),
        ];
        for (text, want) in table {
            assert_eq!(read(text).unwrap().termination, want, "{text}");
        }
        for silent in [
            "{}",
            r#"{"exit_code":null}"#,
            r#"{"exit_code":null,"signal":""}"#,
        ] {
            read(silent).unwrap_err();
        }
    }

    #[test]
    fn a_failed_command_becomes_an_error_only_where_that_is_asked_for() {
        read(r#"{"exit_code":0}"#)
            .unwrap()
            .ensure_success()
            .unwrap();
        let failed = read(r#"{"exit_code":2,"stderr":"one\ntwo\n\n"}"#).unwrap();
        let error = failed.clone().ensure_success().unwrap_err();
        assert_eq!(error.to_string(), "the command exited with 2: two");
        assert!(matches!(error, Error::Unsuccessful(kept) if *kept == failed));
        let killed = read(r#"{"exit_code":-1,"signal":"SIGSEGV"}"#).unwrap();
        let text = killed.ensure_success().unwrap_err().to_string();
        assert_eq!(text, "the command was killed by SIGSEGV");
    }

    #[test]
    fn a_receipt_holds_the_facts_and_no_output() {
        let text = r#"{"exec_id":"e1","exit_code":-1,"signal":"SIGKILL","timed_out":true,
            "stdout":"secret","stderr":"","duration_ms":12,"stdout_truncated":true}"#;
        let receipt = read(text).unwrap().receipt();
        assert_eq!(
            serde_json::to_value(&receipt).unwrap(),
            serde_json::json!({
                "exec_id": "e1", "exit_code": null, "signal": "SIGKILL", "duration_ms": 12,
                "timed_out": true, "stdout_truncated": true, "stderr_truncated": false
            })
        );
    }
}
