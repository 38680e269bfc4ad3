//! The health of a sandbox service.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::wire::lenient;

/// The answer to `ping`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ping {
    /// `ok`.
    #[serde(default)]
    pub status: String,
    /// The version of the service.
    #[serde(default)]
    pub version: String,
    #[serde(default, deserialize_with = "lenient::u64")]
    uptime_ms: u64,
    /// The last call with a token, or the start.
    #[serde(default, deserialize_with = "lenient::opt_time")]
    pub last_activity: Option<Timestamp>,
    /// Commands that run now.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub execs_running: u64,
    /// Terminals that run now.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub ptys_running: u64,
    /// Terminals that somebody is attached to.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub ptys_attached: u64,
}

impl Ping {
    /// An answer as a service writes it.
    #[must_use]
    pub fn ok(
        version: &str,
        uptime: Duration,
        last_activity: Timestamp,
        execs_running: u64,
    ) -> Self {
        Self {
            status: "ok".to_owned(),
            version: version.to_owned(),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            last_activity: Some(last_activity),
            execs_running,
            ptys_running: 0,
            ptys_attached: 0,
        }
    }

    /// With terminals that run, and those of them that somebody is attached to.
    #[must_use]
    pub fn ptys(self, running: u64, attached: u64) -> Self {
        Self {
            ptys_running: running,
            ptys_attached: attached,
            ..self
        }
    }

    /// How long the service has been up.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        Duration::from_millis(self.uptime_ms)
    }
}
