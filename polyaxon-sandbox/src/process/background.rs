//! What the service knows about an exec while it runs and afterwards: its record and its logs.

use std::fmt;

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::id::ExecId;
use super::signal::Signal;
use crate::wire::lenient;

/// Where an exec is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExecState {
    /// Its process runs.
    #[default]
    Running,
    /// It exited by itself.
    Exited,
    /// A signal killed it.
    Signaled,
    /// It was killed at its time limit.
    TimedOut,
    /// It never ran.
    FailedToStart,
    /// The service was restarted and cannot know how it ended.
    Orphaned,
    /// Any other word of a newer service.
    #[serde(untagged)]
    Other(String),
}

impl ExecState {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::FailedToStart => "failed_to_start",
            Self::Orphaned => "orphaned",
            Self::Other(word) => word,
        }
    }

    /// Whether nothing comes behind it. An unknown state counts as not final.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Running | Self::Other(_))
    }
}

impl fmt::Display for ExecState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to `GET exec/bg/{id}`: the record of an exec of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ExecStatus {
    /// The id of the record.
    #[serde(default)]
    pub exec_id: ExecId,
    /// The process id in the sandbox; 0 for an orphan.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub pid: u64,
    /// Where it is in its life.
    #[serde(default)]
    pub state: ExecState,
    /// When it was started.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(
        default,
        deserialize_with = "lenient::opt_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished_at: Option<Timestamp>,
    /// Milliseconds from start to end; `None` until the end.
    #[serde(
        default,
        deserialize_with = "lenient::opt_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_ms: Option<u64>,
    /// 0 to 255, or -1 where a signal ended it; null until known.
    #[serde(default, deserialize_with = "lenient::opt_i32")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// What its caller called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Bytes it has written to standard output.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub stdout_bytes: u64,
    /// Bytes it has written to standard error.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub stderr_bytes: u64,
}

impl ExecStatus {
    /// Whether the exec is over. One in an unknown state is over where the service says when.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match &self.state {
            ExecState::Other(_) => self.finished_at.is_some(),
            state => state.is_final(),
        }
    }

    /// How many bytes it has written to one of its outputs.
    #[must_use]
    pub fn bytes(&self, stream: LogStream) -> u64 {
        match stream {
            LogStream::Stdout => self.stdout_bytes,
            LogStream::Stderr => self.stderr_bytes,
        }
    }
}

/// The answer to `GET exec/bg`, oldest first. In a list an exit code that is not known is left
/// out instead of null, and so is a duration of 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ExecList {
    /// The records.
    #[serde(default, serialize_with = "items")]
    pub execs: Vec<ExecStatus>,
}

fn items<S: Serializer>(execs: &[ExecStatus], output: S) -> Result<S::Ok, S::Error> {
    output.collect_seq(execs.iter().map(Item))
}

struct Item<'a>(&'a ExecStatus);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let Self(exec) = self;
        let mut map = output.serialize_map(None)?;
        map.serialize_entry("exec_id", &exec.exec_id)?;
        map.serialize_entry("pid", &exec.pid)?;
        map.serialize_entry("state", &exec.state)?;
        map.serialize_entry("started_at", &exec.started_at)?;
        if let Some(finished_at) = &exec.finished_at {
            map.serialize_entry("finished_at", finished_at)?;
        }
        if let Some(duration_ms) = exec.duration_ms.filter(|&duration| duration > 0) {
            map.serialize_entry("duration_ms", &duration_ms)?;
        }
        if let Some(exit_code) = exec.exit_code {
            map.serialize_entry("exit_code", &exit_code)?;
        }
        if let Some(signal) = &exec.signal {
            map.serialize_entry("signal", signal)?;
        }
        if let Some(tag) = &exec.tag {
            map.serialize_entry("tag", tag)?;
        }
        map.serialize_entry("stdout_bytes", &exec.stdout_bytes)?;
        map.serialize_entry("stderr_bytes", &exec.stderr_bytes)?;
        map.end()
    }
}

/// The answer to `POST exec/bg`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct ExecStarted {
    /// The id of the record.
    pub exec_id: ExecId,
    /// The process id in the sandbox.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub pid: u64,
    /// When it was started.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub started_at: Option<Timestamp>,
    /// What its caller called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// One of the two output streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a process has these two")]
pub enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl fmt::Display for LogStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to `GET exec/bg/{id}/logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct LogPage {
    /// The id of the record.
    #[serde(default)]
    pub exec_id: ExecId,
    /// Which output.
    #[serde(default)]
    pub stream: LogStream,
    /// The offset that was asked for, in bytes of the original output.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub offset: u64,
    /// The offset behind this page.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub next_offset: u64,
    /// Bytes of the original output in this page.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub bytes: u64,
    /// The page as text; bytes that are not UTF-8 are U+FFFD.
    #[serde(default)]
    pub data: String,
    /// Whether nothing comes behind this page, if `state` is final too.
    #[serde(default)]
    pub eof: bool,
    /// Where the exec was in its life.
    #[serde(default)]
    pub state: ExecState,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(value: Value) -> ExecStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_state_that_is_not_known_is_kept_and_is_not_final() {
        let table = [
            ("running", ExecState::Running, false),
            ("exited", ExecState::Exited, true),
            ("signaled", ExecState::Signaled, true),
            ("timed_out", ExecState::TimedOut, true),
            ("failed_to_start", ExecState::FailedToStart, true),
            ("orphaned", ExecState::Orphaned, true),
            ("paused", ExecState::Other("paused".to_owned()), false),
        ];
        for (word, state, is_final) in table {
            assert_eq!(
                serde_json::from_value::<ExecState>(word.into()).unwrap(),
                state
            );
            assert_eq!(serde_json::to_value(&state).unwrap(), word);
            assert_eq!(state.is_final(), is_final, "{word}");
            assert_eq!(state.to_string(), word);
        }
    }

    #[test]
    fn an_unknown_state_is_final_where_the_service_says_when_it_ended() {
        let paused = status(json!({"state": "paused"}));
        assert!(!paused.is_final());
        let evicted = json!({"state": "evicted", "finished_at": "2024-01-01T00:00:00Z"});
        assert!(status(evicted).is_final());
        assert!(!status(json!({})).is_final());
        assert!(status(json!({"state": "exited"})).is_final());
    }

    #[test]
    fn a_record_is_read_liberally() {
        let read = status(json!({
            "exec_id": "e", "pid": "12", "state": "exited", "started_at": "", "exit_code": 3.0,
            "duration_ms": "5", "finished_at": null, "stdout_bytes": "9", "new": 1,
        }));
        let want = ExecStatus {
            exec_id: ExecId::from("e".to_owned()),
            pid: 12,
            state: ExecState::Exited,
            exit_code: Some(3),
            duration_ms: Some(5),
            stdout_bytes: 9,
            ..ExecStatus::default()
        };
        assert_eq!(read, want);
    }

    #[test]
    fn what_is_not_known_is_null_in_a_record_and_absent_in_a_list() {
        let started_at = "2024-01-01T00:00:00.5Z";
        let running = status(json!({"exec_id": "e", "pid": 7, "started_at": started_at}));
        let plain = json!({
            "exec_id": "e", "pid": 7, "state": "running", "started_at": started_at,
            "exit_code": null, "stdout_bytes": 0, "stderr_bytes": 0,
        });
        assert_eq!(serde_json::to_value(&running).unwrap(), plain);
        let ended = status(json!({
            "exec_id": "f", "pid": 8, "state": "signaled", "started_at": started_at,
            "finished_at": started_at, "duration_ms": 0, "exit_code": -1, "signal": "SIGTERM",
            "tag": "t", "stdout_bytes": 1, "stderr_bytes": 2,
        }));
        assert_eq!(serde_json::to_value(&ended).unwrap()["duration_ms"], 0);
        let list = ExecList {
            execs: vec![running, ended],
        };
        let want = json!({"execs": [
            {"exec_id": "e", "pid": 7, "state": "running", "started_at": started_at,
             "stdout_bytes": 0, "stderr_bytes": 0},
            {"exec_id": "f", "pid": 8, "state": "signaled", "started_at": started_at,
             "finished_at": started_at, "exit_code": -1, "signal": "SIGTERM", "tag": "t",
             "stdout_bytes": 1, "stderr_bytes": 2},
        ]});
        assert_eq!(serde_json::to_value(&list).unwrap(), want);
        assert_eq!(
            serde_json::from_value::<ExecList>(json!({})).unwrap(),
            ExecList::default()
        );
    }

    #[test]
    fn every_field_of_a_page_is_always_written() {
        let page = LogPage {
            exec_id: ExecId::from("e".to_owned()),
            stream: LogStream::Stderr,
            state: ExecState::Exited,
            ..LogPage::default()
        };
        let want = json!({
            "exec_id": "e", "stream": "stderr", "offset": 0, "next_offset": 0, "bytes": 0,
            "data": "", "eof": false, "state": "exited",
        });
        assert_eq!(serde_json::to_value(&page).unwrap(), want);
        assert_eq!(serde_json::from_value::<LogPage>(want).unwrap(), page);
    }
}
