//! Terminals in a sandbox: calls, attachments, and their frames.

#[cfg(feature = "client")]
mod attached;
#[cfg(feature = "client")]
mod calls;
#[cfg(feature = "client")]
mod exit;
mod frame;
#[cfg(feature = "client")]
mod reader;
mod request;
#[cfg(feature = "client")]
mod socket;
#[cfg(feature = "client")]
mod writer;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(feature = "client")]
pub use self::attached::{Attach, AttachedPty};
#[cfg(feature = "client")]
pub use self::calls::Ptys;
#[cfg(feature = "client")]
pub use self::exit::PtyExit;
pub use self::frame::{FrameError, PtyControl, PtyEvent, PtyExited};
#[cfg(feature = "client")]
pub use self::reader::{PtyOutput, PtyReader};
pub use self::request::Pty;
#[cfg(feature = "client")]
pub use self::writer::PtyWriter;
use crate::process::Signal;
use crate::wire::lenient;

/// The id of a terminal, given by the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PtyId(String);

impl PtyId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for PtyId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl From<String> for PtyId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for PtyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the program of a terminal runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PtyState {
    /// It runs. What a missing state means, too.
    #[default]
    Running,
    /// It has ended, by itself or by a signal.
    Exited,
    /// A word this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// The answer to `POST pty`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PtyCreated {
    /// The id of the terminal.
    pub pty_id: PtyId,
    /// The process that leads its session, as the service numbers it.
    #[serde(default, deserialize_with = "lenient::opt_u32")]
    pub pid: Option<u32>,
    /// When it was started.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub started_at: Option<Timestamp>,
    /// Its width in characters.
    #[serde(default, deserialize_with = "lenient::u16")]
    pub cols: u16,
    /// Its height in lines.
    #[serde(default, deserialize_with = "lenient::u16")]
    pub rows: u16,
    /// The name that its creator gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A terminal as `GET pty` and `GET pty/{id}` describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PtySession {
    /// The id of the terminal.
    pub pty_id: PtyId,
    /// The process that leads its session, as the service numbers it.
    #[serde(
        default,
        deserialize_with = "lenient::opt_u32",
        skip_serializing_if = "Option::is_none"
    )]
    pub pid: Option<u32>,
    /// Whether its program runs.
    #[serde(default)]
    pub state: PtyState,
    /// When it was started.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub started_at: Option<Timestamp>,
    /// When bytes last went through it, in either direction.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub last_activity: Option<Timestamp>,
    /// When something last came from a client.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub last_client_activity: Option<Timestamp>,
    /// Whether somebody is attached to it.
    #[serde(default)]
    pub attached: bool,
    /// Since when nobody is; null while somebody is.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub detached_since: Option<Timestamp>,
    /// Its width in characters.
    #[serde(default, deserialize_with = "lenient::u16")]
    pub cols: u16,
    /// Its height in lines.
    #[serde(default, deserialize_with = "lenient::u16")]
    pub rows: u16,
    /// When its program ended.
    #[serde(
        default,
        deserialize_with = "lenient::opt_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished_at: Option<Timestamp>,
    /// Milliseconds from start to end.
    #[serde(
        default,
        deserialize_with = "lenient::opt_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_ms: Option<u64>,
    /// What its program exited with; -1 where a signal ended it.
    #[serde(
        default,
        deserialize_with = "lenient::opt_i32",
        skip_serializing_if = "Option::is_none"
    )]
    pub exit_code: Option<i32>,
    /// The signal that ended its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// The name that its creator gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The answer to `GET pty`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wire body, complete in this version"
)]
pub struct PtyList {
    /// The terminals.
    #[serde(default, deserialize_with = "lenient::list")]
    pub sessions: Vec<PtySession>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn running() -> PtySession {
        let at = Some("2026-11-29T10:00:00.5Z".parse().unwrap());
        PtySession {
            pty_id: PtyId::from("p1".to_owned()),
            pid: Some(7),
            state: PtyState::Running,
            started_at: at,
            last_activity: at,
            last_client_activity: at,
            attached: true,
            detached_since: None,
            cols: 80,
            rows: 24,
            finished_at: None,
            duration_ms: None,
            exit_code: None,
            signal: None,
            tag: None,
        }
    }

    #[test]
    fn a_session_writes_what_is_always_there_and_the_end_only_once_there_is_one() {
        let mut session = running();
        assert_eq!(
            serde_json::to_value(&session).unwrap(),
            json!({
                "pty_id": "p1", "pid": 7, "state": "running",
                "started_at": "2026-11-29T10:00:00.5Z",
                "last_activity": "2026-11-29T10:00:00.5Z",
                "last_client_activity": "2026-11-29T10:00:00.5Z",
                "attached": true, "detached_since": null, "cols": 80, "rows": 24
            })
        );
        session.state = PtyState::Exited;
        session.finished_at = session.started_at;
        session.duration_ms = Some(0);
        session.exit_code = Some(-1);
        session.signal = Some(Signal::Kill);
        session.tag = Some("t".into());
        let ended = serde_json::to_value(&session).unwrap();
        assert_eq!(ended["state"], "exited");
        assert_eq!(ended["finished_at"], "2026-11-29T10:00:00.5Z");
        assert_eq!(
            (&ended["duration_ms"], &ended["exit_code"]),
            (&json!(0), &json!(-1))
        );
        assert_eq!(
            (&ended["signal"], &ended["tag"]),
            (&json!("SIGKILL"), &json!("t"))
        );
        assert_eq!(
            serde_json::from_value::<PtySession>(ended).unwrap(),
            session
        );
    }

    #[test]
    fn a_session_is_read_with_less_with_more_and_in_other_spellings() {
        let least: PtySession = serde_json::from_value(json!({"pty_id": "p"})).unwrap();
        assert_eq!(least.state, PtyState::Running);
        assert_eq!((least.pid, least.attached, least.cols), (None, false, 0));
        let text = json!({
            "pty_id": "p", "pid": "12", "state": "paused", "started_at": "0001-01-01T00:00:00Z",
            "attached": false, "detached_since": "2026-11-29 10:00:00", "cols": 80.0, "rows": "24",
            "exit_code": null, "signal": "SIGWINCH", "duration_ms": "5", "shell": {"new": 1}
        });
        let read: PtySession = serde_json::from_value(text).unwrap();
        assert_eq!(read.pid, Some(12));
        assert_eq!(read.state, PtyState::Other("paused".into()));
        assert_eq!(serde_json::to_value(&read.state).unwrap(), "paused");
        assert_eq!((read.started_at, read.cols, read.rows), (None, 80, 24));
        assert_eq!((read.exit_code, read.duration_ms), (None, Some(5)));
        assert_eq!(read.signal, Some(Signal::Other("SIGWINCH".into())));
        for bad in [json!({}), json!({"pty_id": "p", "cols": 65536})] {
            serde_json::from_value::<PtySession>(bad).unwrap_err();
        }
    }

    #[test]
    fn a_list_may_be_null_and_is_written_as_a_list() {
        for text in ["{}", r#"{"sessions":null}"#, r#"{"sessions":[]}"#] {
            let list: PtyList = serde_json::from_str(text).unwrap();
            assert_eq!(list, PtyList::default());
        }
        let written = serde_json::to_value(PtyList::default()).unwrap();
        assert_eq!(written, json!({"sessions": []}));
    }

    #[test]
    fn what_create_answers_has_no_state() {
        let created = PtyCreated {
            pty_id: PtyId::from("p1".to_owned()),
            pid: Some(7),
            started_at: Some("2026-11-29T10:00:00Z".parse().unwrap()),
            cols: 80,
            rows: 24,
            tag: None,
        };
        let written = serde_json::to_value(&created).unwrap();
        assert_eq!(
            written,
            json!({
                "pty_id": "p1", "pid": 7, "started_at": "2026-11-29T10:00:00Z",
                "cols": 80, "rows": 24
            })
        );
        let read: PtySession = serde_json::from_value::<PtySession>(written).unwrap();
        assert_eq!(read.state, PtyState::Running);
        assert_eq!(Value::from(read.pty_id.as_str()), json!("p1"));
    }
}
