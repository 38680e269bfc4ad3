//! The text frames of an attachment, both ways. Binary frames are the bytes of the terminal and
//! need no reading; so no byte that a program writes can ever break a text frame.

use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{PtyId, PtyState};
use crate::process::Signal;
use crate::wire::lenient;

/// What the service says in a text frame.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PtyEvent {
    /// The first frame of every attachment.
    #[non_exhaustive]
    Attached {
        /// The terminal.
        pty_id: PtyId,
        /// The process that leads its session.
        pid: Option<u32>,
        /// Whether its program runs.
        state: PtyState,
        /// Its width in characters.
        cols: u16,
        /// Its height in lines.
        rows: u16,
    },
    /// The program has ended by itself. The last frame before the close.
    Exited(PtyExited),
    /// A frame of the client was of no use; the attachment goes on. Only where it comes in place
    /// of [`Attached`](Self::Attached) it is the end.
    #[non_exhaustive]
    Error {
        /// As in the error envelope.
        code: String,
        /// For people.
        message: String,
    },
    /// A type that this version does not know, as it came.
    Other(Map<String, Value>),
}

/// How the program of a terminal ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PtyExited {
    /// What it exited with; -1 or nothing where a signal ended it.
    #[serde(default, deserialize_with = "lenient::opt_i32")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// When it ended.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub finished_at: Option<Timestamp>,
    /// Milliseconds from start to end.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub duration_ms: u64,
}

/// What a client says in a text frame.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PtyControl {
    /// The terminal has another size.
    Resize {
        /// Its width in characters.
        cols: u16,
        /// Its height in lines.
        rows: u16,
    },
    /// Like `POST pty/{id}/signal`.
    Signal(Signal),
    /// A type that this version does not know, as it came.
    Other(Map<String, Value>),
}

/// A text frame that says nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is no JSON object, or has no `type`.
    #[error("a text frame is no JSON object with a `type`")]
    Shape,
    /// A field of a known type cannot be read.
    #[error("a frame of type {kind:?} cannot be read")]
    #[non_exhaustive]
    Field {
        /// The type of the frame.
        kind: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Attached {
    #[serde(default)]
    pty_id: PtyId,
    #[serde(default, deserialize_with = "lenient::opt_u32")]
    pid: Option<u32>,
    #[serde(default)]
    state: PtyState,
    #[serde(default, deserialize_with = "lenient::u16")]
    cols: u16,
    #[serde(default, deserialize_with = "lenient::u16")]
    rows: u16,
}

#[derive(Serialize, Deserialize)]
struct Failed {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

#[derive(Serialize, Deserialize)]
struct Size {
    #[serde(deserialize_with = "lenient::u16")]
    cols: u16,
    #[serde(deserialize_with = "lenient::u16")]
    rows: u16,
}

#[derive(Serialize, Deserialize)]
struct Signaled {
    signal: Signal,
}

/// What is written, with its type in front.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Text {
    Attached(Attached),
    Exited(PtyExited),
    Error(Failed),
    Resize(Size),
    Signal(Signaled),
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Text {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // None of them can fail to be written.
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl PtyEvent {
    /// The first frame of an attachment.
    #[must_use]
    pub fn attached(
        pty_id: PtyId,
        pid: Option<u32>,
        state: PtyState,
        cols: u16,
        rows: u16,
    ) -> Self {
        Self::Attached {
            pty_id,
            pid,
            state,
            cols,
            rows,
        }
    }

    /// The answer to a frame that was of no use.
    #[must_use]
    pub fn error(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Error {
            code: code.into(),
            message: message.into(),
        }
    }

    /// Reads a text frame. Missing fields, other spellings of numbers and unknown types are fine.
    ///
    /// # Errors
    /// Where the text is no JSON object with a `type`, or a field of a known type is of no use.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let (kind, object) = open(text)?;
        Ok(match kind.as_str() {
            "attached" => {
                let Attached {
                    pty_id,
                    pid,
                    state,
                    cols,
                    rows,
                } = fields(kind, object)?;
                Self::attached(pty_id, pid, state, cols, rows)
            }
            "exited" => Self::Exited(fields(kind, object)?),
            "error" => {
                let Failed { code, message } = fields(kind, object)?;
                Self::Error { code, message }
            }
            _ => Self::Other(object),
        })
    }
}

/// The text of the frame.
impl fmt::Display for PtyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.clone() {
            Self::Attached {
                pty_id,
                pid,
                state,
                cols,
                rows,
            } => Text::Attached(Attached {
                pty_id,
                pid,
                state,
                cols,
                rows,
            }),
            Self::Exited(exited) => Text::Exited(exited),
            Self::Error { code, message } => Text::Error(Failed { code, message }),
            Self::Other(object) => Text::Other(object),
        };
        text.write(f)
    }
}

impl PtyControl {
    /// Reads a text frame. Unknown types are kept; it is the service that says what it can do.
    ///
    /// # Errors
    /// Where the text is no JSON object with a `type`, or a field of a known type is missing or of
    /// no use: sizes do not fit, a signal is no text.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let (kind, object) = open(text)?;
        Ok(match kind.as_str() {
            "resize" => {
                let Size { cols, rows } = fields(kind, object)?;
                Self::Resize { cols, rows }
            }
            "signal" => Self::Signal(fields::<Signaled>(kind, object)?.signal),
            _ => Self::Other(object),
        })
    }
}

/// The text of the frame.
impl fmt::Display for PtyControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.clone() {
            Self::Resize { cols, rows } => Text::Resize(Size { cols, rows }),
            Self::Signal(signal) => Text::Signal(Signaled { signal }),
            Self::Other(object) => Text::Other(object),
        };
        text.write(f)
    }
}

/// The object in `text`, and its type.
fn open(text: &str) -> Result<(String, Map<String, Value>), FrameError> {
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|_| FrameError::Shape)?;
    match object.get("type") {
        Some(Value::String(kind)) => Ok((kind.clone(), object)),
        _ => Err(FrameError::Shape),
    }
}

fn fields<T: DeserializeOwned>(kind: String, object: Map<String, Value>) -> Result<T, FrameError> {
    serde_json::from_value(Value::Object(object))
        .map_err(|source| FrameError::Field { kind, source })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_frame_of_the_service_has_one_text() {
        let table = [
            (
                PtyEvent::attached("p1".to_owned().into(), Some(7), PtyState::Running, 80, 24),
                r#"{"type":"attached","pty_id":"p1","pid":7,"state":"running","cols":80,"rows":24}"#,
            ),
            (
                PtyEvent::Exited(PtyExited {
                    exit_code: Some(5),
                    signal: None,
                    finished_at: Some("2026-11-29T10:00:00.25Z".parse().unwrap()),
                    duration_ms: 12,
                }),
                r#"{"type":"exited","exit_code":5,"finished_at":"2026-11-29T10:00:00.25Z","duration_ms":12}"#,
            ),
            (
                PtyEvent::Exited(PtyExited {
                    exit_code: Some(-1),
                    signal: Some(Signal::Kill),
                    finished_at: None,
                    duration_ms: 0,
                }),
                r#"{"type":"exited","exit_code":-1,"signal":"SIGKILL","finished_at":null,"duration_ms":0}"#,
            ),
            (
                PtyEvent::error("invalid_request", "no\nsuch"),
                r#"{"type":"error","code":"invalid_request","message":"no\nsuch"}"#,
            ),
        ];
        for (event, text) in table {
            assert_eq!(event.to_string(), text);
            assert_eq!(PtyEvent::parse(text).unwrap(), event);
        }
    }

    #[test]
    fn every_control_of_a_client_has_one_text() {
        let table = [
            (
                PtyControl::Resize {
                    cols: 120,
                    rows: 40,
                },
                r#"{"type":"resize","cols":120,"rows":40}"#,
            ),
            (
                PtyControl::Signal(Signal::Int),
                r#"{"type":"signal","signal":"SIGINT"}"#,
            ),
            (
                PtyControl::Signal(Signal::Other("SIGNOPE".into())),
                r#"{"type":"signal","signal":"SIGNOPE"}"#,
            ),
        ];
        for (control, text) in table {
            assert_eq!(control.to_string(), text);
            assert_eq!(PtyControl::parse(text).unwrap(), control);
        }
    }

    #[test]
    fn a_type_that_is_not_known_is_kept_as_it_came() {
        let text = r#"{"type":"brand_new","x":1}"#;
        let event = PtyEvent::parse(text).unwrap();
        assert!(matches!(&event, PtyEvent::Other(object) if object["x"] == 1));
        assert_eq!(event.to_string(), text);
        let control = PtyControl::parse(text).unwrap();
        assert!(matches!(&control, PtyControl::Other(object) if object["type"] == "brand_new"));
        assert_eq!(control.to_string(), text);
    }

    #[test]
    fn an_event_is_read_with_less_with_more_and_in_other_spellings() {
        let least = PtyEvent::parse(r#"{"type":"exited"}"#).unwrap();
        assert_eq!(least, PtyEvent::Exited(PtyExited::default()));
        let other = r#"{"type":"exited","exit_code":"137","signal":null,"finished_at":"","duration_ms":1.0,"x":[]}"#;
        let exited = PtyExited {
            exit_code: Some(137),
            duration_ms: 1,
            ..PtyExited::default()
        };
        assert_eq!(
            PtyEvent::parse(other).unwrap(),
            PtyEvent::Exited(exited.clone())
        );
        let attached = PtyEvent::parse(r#"{"cols":"80","type":"attached"}"#).unwrap();
        assert!(matches!(
            attached,
            PtyEvent::Attached {
                cols: 80,
                state: PtyState::Running,
                ..
            }
        ));
    }

    #[test]
    fn what_is_no_frame_is_refused_by_its_kind() {
        for text in [
            "",
            "{",
            "[]",
            "null",
            "\"resize\"",
            "{}",
            r#"{"type":1}"#,
            "{} x",
        ] {
            for error in [
                PtyEvent::parse(text).unwrap_err(),
                PtyControl::parse(text).unwrap_err(),
            ] {
                assert!(matches!(error, FrameError::Shape), "{text}");
            }
        }
        for text in [
            r#"{"type":"resize"}"#,
            r#"{"type":"resize","cols":70000,"rows":-1}"#,
            r#"{"type":"resize","cols":null,"rows":1}"#,
            r#"{"type":"signal"}"#,
            r#"{"type":"signal","signal":9}"#,
        ] {
            let error = PtyControl::parse(text).unwrap_err();
            assert!(matches!(error, FrameError::Field { .. }), "{text}");
        }
        PtyEvent::parse(r#"{"type":"attached","cols":-1}"#).unwrap_err();
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(text in "\\PC{0,60}") {
            let _ = (PtyEvent::parse(&text).is_ok(), PtyControl::parse(&text).is_ok());
        }

        #[test]
        fn what_is_written_is_what_is_read(cols: u16, rows: u16, code: i32, name in "[A-Z0-9()]{1,12}", message in "\\PC{0,20}") {
            let signal = Signal::from(name.as_str());
            for control in [PtyControl::Resize { cols, rows }, PtyControl::Signal(signal.clone())] {
                prop_assert_eq!(PtyControl::parse(&control.to_string()).unwrap(), control);
            }
            let exited = PtyExited { exit_code: Some(code), signal: Some(signal), ..PtyExited::default() };
            let events = [
                PtyEvent::attached(name.into(), Some(u32::from(cols)), PtyState::Exited, cols, rows),
                PtyEvent::Exited(exited),
                PtyEvent::error("c", message),
            ];
            for event in events {
                prop_assert_eq!(PtyEvent::parse(&event.to_string()).unwrap(), event);
            }
        }

        #[test]
        fn an_unknown_type_survives_the_way_through(kind in "[a-z_]{9,12}", number: i64, text in "\\PC{0,10}") {
            let frame = json!({"type": kind, "n": number, "t": text}).to_string();
            prop_assert_eq!(PtyEvent::parse(&frame).unwrap().to_string(), frame.clone());
            prop_assert_eq!(PtyControl::parse(&frame).unwrap().to_string(), frame);
        }
    }
}
