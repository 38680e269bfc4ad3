//! The events of `exec/stream`: a name and a JSON object each.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::ExecId;
use super::signal::Signal;
use crate::wire::lenient;

/// One event of a streamed exec. On the wire `event:` is its name and `data:` the rest of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExecEvent {
    /// `start`: the command runs. Always first.
    #[non_exhaustive]
    Start {
        /// The id of the record.
        exec_id: ExecId,
        /// The process id in the sandbox.
        pid: u64,
        /// When it was started.
        started_at: Option<Timestamp>,
    },
    /// `stdout`: what it wrote to standard output.
    #[non_exhaustive]
    Stdout {
        /// The output; bytes that are not UTF-8 are U+FFFD.
        text: String,
        /// The position in the stream behind this text, in bytes of the original output.
        offset: u64,
    },
    /// `stderr`: what it wrote to standard error.
    #[non_exhaustive]
    Stderr {
        /// The output; bytes that are not UTF-8 are U+FFFD.
        text: String,
        /// The position in the stream behind this text, in bytes of the original output.
        offset: u64,
    },
    /// `ping`: nothing happened for a while.
    Ping,
    /// `execution_complete`: it has ended and was waited for. Always last.
    #[non_exhaustive]
    Complete {
        /// 0 to 255, or -1 or null where a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<Signal>,
        /// Milliseconds from start to end.
        duration_ms: u64,
        /// Whether the time limit ended it.
        timed_out: bool,
    },
    /// `error`: the stream cannot go on. Always last.
    #[non_exhaustive]
    Error {
        /// One of [`wire::code`](crate::wire::code), where there is one.
        code: Option<String>,
        /// For people.
        message: String,
    },
    /// Any other event of a newer service.
    #[non_exhaustive]
    Other {
        /// Its name.
        name: String,
        /// Its data.
        data: Value,
    },
}

#[derive(Default, Serialize, Deserialize)]
struct Start {
    #[serde(default)]
    exec_id: ExecId,
    #[serde(default, deserialize_with = "lenient::u64")]
    pid: u64,
    #[serde(default, deserialize_with = "lenient::opt_time")]
    started_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Text<T> {
    text: T,
    #[serde(default, deserialize_with = "lenient::u64")]
    offset: u64,
}

#[derive(Serialize, Deserialize)]
struct Complete {
    #[serde(default, deserialize_with = "lenient::opt_i32")]
    exit_code: Option<i32>,
    #[serde(default)]
    signal: Option<Signal>,
    #[serde(default, deserialize_with = "lenient::u64")]
    duration_ms: u64,
    #[serde(default)]
    timed_out: bool,
}

#[derive(Serialize, Deserialize)]
struct Failure {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(
        default,
        alias = "text",
        alias = "error",
        alias = "data",
        skip_serializing_if = "String::is_empty"
    )]
    message: String,
}

impl ExecEvent {
    /// `start`, for a service.
    #[must_use]
    pub fn start(exec_id: ExecId, pid: u64, started_at: Timestamp) -> Self {
        Self::Start {
            exec_id,
            pid,
            started_at: Some(started_at),
        }
    }

    /// `stdout` or `stderr`, for a service. `offset` is the position behind `text`.
    #[must_use]
    pub fn output(stream: super::LogStream, text: String, offset: u64) -> Self {
        match stream {
            super::LogStream::Stdout => Self::Stdout { text, offset },
            super::LogStream::Stderr => Self::Stderr { text, offset },
        }
    }

    /// `execution_complete`, for a service.
    #[must_use]
    pub fn complete(
        exit_code: Option<i32>,
        signal: Option<Signal>,
        duration_ms: u64,
        timed_out: bool,
    ) -> Self {
        Self::Complete {
            exit_code,
            signal,
            duration_ms,
            timed_out,
        }
    }

    /// `error`, for a service.
    #[must_use]
    pub fn error(code: &str, message: impl Into<String>) -> Self {
        Self::Error {
            code: Some(code.to_owned()),
            message: message.into(),
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Start { .. } => "start",
            Self::Stdout { .. } => "stdout",
            Self::Stderr { .. } => "stderr",
            Self::Ping => "ping",
            Self::Complete { .. } => "execution_complete",
            Self::Error { .. } => "error",
            Self::Other { name, .. } => name,
        }
    }

    /// The data on the wire: a JSON object on one line.
    ///
    /// # Errors
    /// None for the events of this version: what is in them can always be written.
    pub fn data(&self) -> serde_json::Result<String> {
        match self {
            Self::Start {
                exec_id,
                pid,
                started_at,
            } => serde_json::to_string(&Start {
                exec_id: exec_id.clone(),
                pid: *pid,
                started_at: *started_at,
            }),
            Self::Stdout { text, offset } | Self::Stderr { text, offset } => {
                serde_json::to_string(&Text {
                    text: text.as_str(),
                    offset: *offset,
                })
            }
            Self::Ping => Ok("{}".to_owned()),
            Self::Complete {
                exit_code,
                signal,
                duration_ms,
                timed_out,
            } => serde_json::to_string(&Complete {
                exit_code: *exit_code,
                signal: signal.clone(),
                duration_ms: *duration_ms,
                timed_out: *timed_out,
            }),
            Self::Error { code, message } => serde_json::to_string(&Failure {
                code: code.clone(),
                message: message.clone(),
            }),
            Self::Other { data, .. } => serde_json::to_string(data),
        }
    }

    /// The event as the service frames it: LF only, an empty line behind it.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub fn to_frame(&self) -> serde_json::Result<String> {
        Ok(format!(
            "event: {}\ndata: {}\n\n",
            self.name(),
            self.data()?
        ))
    }

    /// Reads an event by its name and its data.
    ///
    /// # Errors
    /// Where the data of a known event is not what that event has.
    pub fn read(name: &str, data: &str) -> serde_json::Result<Self> {
        Ok(match name {
            "start" => {
                let Start {
                    exec_id,
                    pid,
                    started_at,
                } = serde_json::from_str(data)?;
                Self::Start {
                    exec_id,
                    pid,
                    started_at,
                }
            }
            "stdout" => {
                let Text { text, offset } = serde_json::from_str::<Text<String>>(data)?;
                Self::Stdout { text, offset }
            }
            "stderr" => {
                let Text { text, offset } = serde_json::from_str::<Text<String>>(data)?;
                Self::Stderr { text, offset }
            }
            "ping" => Self::Ping,
            "execution_complete" => {
                let Complete {
                    exit_code,
                    signal,
                    duration_ms,
                    timed_out,
                } = serde_json::from_str(data)?;
                Self::Complete {
                    exit_code,
                    signal,
                    duration_ms,
                    timed_out,
                }
            }
            "error" => {
                let Failure { code, message } = serde_json::from_str(data)?;
                Self::Error { code, message }
            }
            other => Self::Other {
                name: other.to_owned(),
                data: serde_json::from_str(data)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::LogStream;
    use super::*;

    #[test]
    fn every_event_has_its_frame_and_is_read_back_from_it() {
        let id = || ExecId::from("e".to_owned());
        let time: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        let table = [
            (
                ExecEvent::start(id(), 7, time),
                r#"start {"exec_id":"e","pid":7,"started_at":"2024-01-01T00:00:00Z"}"#,
            ),
            (
                ExecEvent::output(LogStream::Stdout, "é\r\n".to_owned(), 4),
                r#"stdout {"text":"é\r\n","offset":4}"#,
            ),
            (
                ExecEvent::output(LogStream::Stderr, String::new(), 0),
                r#"stderr {"text":"","offset":0}"#,
            ),
            (ExecEvent::Ping, "ping {}"),
            (
                ExecEvent::complete(Some(0), None, 3, false),
                r#"execution_complete {"exit_code":0,"signal":null,"duration_ms":3,"timed_out":false}"#,
            ),
            (
                ExecEvent::complete(Some(-1), Some(Signal::Kill), 3, true),
                r#"execution_complete {"exit_code":-1,"signal":"SIGKILL","duration_ms":3,"timed_out":true}"#,
            ),
            (
                ExecEvent::error("internal", "no space"),
                r#"error {"code":"internal","message":"no space"}"#,
            ),
            (
                ExecEvent::read("resource_usage", r#"{"cpu":1}"#).unwrap(),
                r#"resource_usage {"cpu":1}"#,
            ),
        ];
        for (event, want) in table {
            let (name, data) = want.split_once(' ').unwrap();
            let frame = format!("event: {name}\ndata: {data}\n\n");
            assert_eq!(event.to_frame().unwrap(), frame);
            assert_eq!(ExecEvent::read(name, data).unwrap(), event);
        }
    }

    #[test]
    fn an_event_is_read_liberally_but_not_out_of_nothing() {
        let complete = ExecEvent::read("execution_complete", r#"{"duration_ms":"2"}"#).unwrap();
        assert_eq!(complete, ExecEvent::complete(None, None, 2, false));
        for field in ["message", "text", "error", "data"] {
            let data = json!({ field: "m" }).to_string();
            let error = ExecEvent::read("error", &data).unwrap();
            assert!(matches!(error, ExecEvent::Error { message, .. } if message == "m"));
        }
        ExecEvent::read("stdout", "{}").unwrap_err();
        ExecEvent::read("start", "7").unwrap_err();
        ExecEvent::read("stdout", "").unwrap_err();
    }
}
