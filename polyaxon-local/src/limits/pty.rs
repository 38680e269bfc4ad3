//! What terminals take and keep at most.

use std::time::Duration;

use jiff::SignedDuration;
use polyaxon_client::InvalidInput;

/// The limits of the terminals of one sandbox.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use polyaxon_local::PtyLimits;
///
/// // As an in-pod service is set up: by variables.
/// let variables = |name: &str| (name == "POLYAXON_SANDBOX_PTY_IDLE_TTL").then(|| "1h30m".to_owned());
/// let limits = PtyLimits::from_variables(variables)?;
/// assert_eq!(limits.idle_ttl, Duration::from_secs(5400));
/// assert_eq!(limits.running, PtyLimits::RUNNING);
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtyLimits {
    /// Terminals that run at once. Above: 429. Default [`RUNNING`](Self::RUNNING).
    pub running: usize,
    /// The largest width and the largest height. Above, and for 0: 400. Default
    /// [`SIZE_MAX`](Self::SIZE_MAX).
    pub size_max: u16,
    /// Bytes of output that are kept for whoever attaches next, and the largest `replay_bytes`.
    /// Above: 400. Default [`REPLAY_BYTES`](Self::REPLAY_BYTES).
    pub replay_bytes: usize,
    /// Bytes of one message of a client. Above: the connection is closed. Default
    /// [`MESSAGE_BYTES`](Self::MESSAGE_BYTES).
    pub message_bytes: usize,
    /// Bytes of one frame of live output. Default [`FRAME_BYTES`](Self::FRAME_BYTES).
    pub frame_bytes: usize,
    /// Frames that wait for a client who reads slowly. Default
    /// [`FRAMES_BEHIND`](Self::FRAMES_BEHIND).
    pub frames_behind: usize,
    /// How long a client may be that far behind before it is cut off. The program waits meanwhile,
    /// as it would for any terminal: a client that reads, if slowly, loses nothing. A time in which
    /// the server was stopped counts as for [`pong_timeout`](Self::pong_timeout). Default
    /// [`BEHIND_FOR`](Self::BEHIND_FOR).
    pub behind_for: Duration,
    /// Between two pings of a connection. Default
    /// [`HEARTBEAT_INTERVAL`](Self::HEARTBEAT_INTERVAL).
    pub heartbeat_interval: Duration,
    /// How long a client may send no pong before it is cut off. Of a time in which the server was
    /// stopped, as with its machine, no more than a quarter of this counts: no client is cut off
    /// that could not be heard. Default [`PONG_TIMEOUT`](Self::PONG_TIMEOUT).
    pub pong_timeout: Duration,
    /// How long a terminal lives that nobody is attached to. Default
    /// [`IDLE_TTL`](Self::IDLE_TTL).
    pub idle_ttl: Duration,
    /// How long the record of an exited terminal is kept. Default
    /// [`TERMINAL_TTL`](Self::TERMINAL_TTL).
    pub terminal_ttl: Duration,
    /// How often the two are looked at. Default [`CHECK_INTERVAL`](Self::CHECK_INTERVAL).
    pub check_interval: Duration,
}

// From sections 1.5, 8, 10 and 11 of the description of the wire, but for that with a note.
impl PtyLimits {
    /// 16; a deployment sets it by `POLYAXON_SANDBOX_MAX_PTYS`.
    pub const RUNNING: usize = 16;
    /// 1000.
    pub const SIZE_MAX: u16 = 1000;
    /// 256 KiB; a deployment sets it by `POLYAXON_SANDBOX_PTY_REPLAY_BYTES`.
    pub const REPLAY_BYTES: usize = 256 * 1024;
    /// 1 MiB.
    pub const MESSAGE_BYTES: usize = 1024 * 1024;
    /// 4096 bytes.
    pub const FRAME_BYTES: usize = 4096;
    /// 256.
    pub const FRAMES_BEHIND: usize = 256;
    /// 5 s. Ours: a burst of output must not cut off a client that is merely slower than a pipe.
    pub const BEHIND_FOR: Duration = Duration::from_secs(5);
    /// 30 s; a deployment sets it by `POLYAXON_SANDBOX_PTY_HEARTBEAT_INTERVAL`.
    pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);
    /// 60 s; a deployment sets it by `POLYAXON_SANDBOX_PTY_PONG_TIMEOUT`.
    pub const PONG_TIMEOUT: Duration = Duration::from_secs(60);
    /// 30 min; a deployment sets it by `POLYAXON_SANDBOX_PTY_IDLE_TTL`.
    pub const IDLE_TTL: Duration = Duration::from_secs(30 * 60);
    /// 10 min; a deployment sets it by `POLYAXON_SANDBOX_PTY_TERMINAL_TTL`.
    pub const TERMINAL_TTL: Duration = Duration::from_secs(10 * 60);
    /// 30 s.
    pub const CHECK_INTERVAL: Duration = Duration::from_secs(30);
    /// The most that `POLYAXON_SANDBOX_MAX_PTYS` can ask for: 256.
    pub const RUNNING_MAX: usize = 256;
    /// The most that `POLYAXON_SANDBOX_PTY_REPLAY_BYTES` can ask for: 4 MiB.
    pub const REPLAY_BYTES_MAX: usize = 4 * 1024 * 1024;

    /// The defaults with what the variables `POLYAXON_SANDBOX_MAX_PTYS` and
    /// `POLYAXON_SANDBOX_PTY_*` say; `variable` gives the value of one, where it is set. An empty
    /// one counts as not set. Lengths of time are written `90s`, `1h30m`, `500ms`.
    ///
    /// # Errors
    /// Where a value cannot be read, is 0, or is above what can be asked for; it names the
    /// variable.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidInput> {
        let value = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let count = |name: &'static str, default: usize, max: usize| match value(name) {
            None => Ok(default),
            Some(text) => match text.trim().parse() {
                Ok(number) if (1..=max).contains(&number) => Ok(number),
                _ => Err(InvalidInput::new(
                    name,
                    format!("{text:?} is not a number of 1 to {max}"),
                )),
            },
        };
        let time = |name: &'static str, default: Duration| match value(name) {
            None => Ok(default),
            Some(text) => match duration(text.trim()) {
                Some(time) if time > Duration::ZERO => Ok(time),
                _ => Err(InvalidInput::new(
                    name,
                    format!("{text:?} is not a length of time like `90s` or `1h30m`"),
                )),
            },
        };
        Ok(Self {
            running: count(
                "POLYAXON_SANDBOX_MAX_PTYS",
                Self::RUNNING,
                Self::RUNNING_MAX,
            )?,
            replay_bytes: count(
                "POLYAXON_SANDBOX_PTY_REPLAY_BYTES",
                Self::REPLAY_BYTES,
                Self::REPLAY_BYTES_MAX,
            )?,
            heartbeat_interval: time(
                "POLYAXON_SANDBOX_PTY_HEARTBEAT_INTERVAL",
                Self::HEARTBEAT_INTERVAL,
            )?,
            pong_timeout: time("POLYAXON_SANDBOX_PTY_PONG_TIMEOUT", Self::PONG_TIMEOUT)?,
            idle_ttl: time("POLYAXON_SANDBOX_PTY_IDLE_TTL", Self::IDLE_TTL)?,
            terminal_ttl: time("POLYAXON_SANDBOX_PTY_TERMINAL_TTL", Self::TERMINAL_TTL)?,
            ..Self::default()
        })
    }
}

impl Default for PtyLimits {
    fn default() -> Self {
        Self {
            running: Self::RUNNING,
            size_max: Self::SIZE_MAX,
            replay_bytes: Self::REPLAY_BYTES,
            message_bytes: Self::MESSAGE_BYTES,
            frame_bytes: Self::FRAME_BYTES,
            frames_behind: Self::FRAMES_BEHIND,
            behind_for: Self::BEHIND_FOR,
            heartbeat_interval: Self::HEARTBEAT_INTERVAL,
            pong_timeout: Self::PONG_TIMEOUT,
            idle_ttl: Self::IDLE_TTL,
            terminal_ttl: Self::TERMINAL_TTL,
            check_interval: Self::CHECK_INTERVAL,
        }
    }
}

/// `1h30m`, `90s`, `500ms`.
fn duration(text: &str) -> Option<Duration> {
    let signed: SignedDuration = text.parse().ok()?;
    signed.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_defaults_are_the_numbers_of_the_description() {
        let limits = PtyLimits::default();
        let sizes = [
            (limits.running, 16),
            (usize::from(limits.size_max), 1000),
            (limits.replay_bytes, 262_144),
            (limits.message_bytes, 1_048_576),
            (limits.frame_bytes, 4096),
            (limits.frames_behind, 256),
        ];
        for (got, want) in sizes {
            assert_eq!(got, want);
        }
        let times = [
            limits.heartbeat_interval,
            limits.pong_timeout,
            limits.idle_ttl,
            limits.terminal_ttl,
            limits.check_interval,
        ];
        assert_eq!(times.map(|time| time.as_secs()), [30, 60, 1800, 600, 30]);
    }

    #[test]
    fn a_length_of_time_has_units() {
        let table = [
            ("30s", Some(30_000)),
            ("30m", Some(1_800_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5h", Some(5_400_000)),
            ("1m0.5s", Some(60_500)),
            ("250ms", Some(250)),
            ("1000us", Some(1)),
            ("1000µs", Some(1)),
            ("1000000ns", Some(1)),
            ("0s", Some(0)),
            ("", None),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("1s2", None),
            ("1..2s", None),
            ("99999999999999999999h", None),
        ];
        for (text, want) in table {
            let got = duration(text).map(|time| time.as_millis());
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn a_variable_changes_its_limit_and_a_bad_one_is_named() {
        let with = |name: &'static str, value: &'static str| {
            PtyLimits::from_variables(|asked| (asked == name).then(|| value.to_owned()))
        };
        let default = PtyLimits::default();
        assert_eq!(PtyLimits::from_variables(|_| None).unwrap(), default);
        type Change = fn(&mut PtyLimits);
        let table: [(&str, &str, Change); 8] = [
            ("POLYAXON_SANDBOX_MAX_PTYS", "256", |l| l.running = 256),
            ("POLYAXON_SANDBOX_MAX_PTYS", " ", |_| {}),
            ("POLYAXON_SANDBOX_PTY_REPLAY_BYTES", "4194304", |l| {
                l.replay_bytes = 4 << 20;
            }),
            ("POLYAXON_SANDBOX_PTY_IDLE_TTL", "1h", |l| {
                l.idle_ttl = Duration::from_secs(3600);
            }),
            ("POLYAXON_SANDBOX_PTY_TERMINAL_TTL", "5s", |l| {
                l.terminal_ttl = Duration::from_secs(5);
            }),
            ("POLYAXON_SANDBOX_PTY_HEARTBEAT_INTERVAL", "1s", |l| {
                l.heartbeat_interval = Duration::from_secs(1);
            }),
            ("POLYAXON_SANDBOX_PTY_PONG_TIMEOUT", "2s", |l| {
                l.pong_timeout = Duration::from_secs(2);
            }),
            ("POLYAXON_SANDBOX_SHUTDOWN_TIMEOUT", "2s", |_| {}),
        ];
        for (name, value, change) in table {
            let mut want = default.clone();
            change(&mut want);
            assert_eq!(with(name, value).unwrap(), want, "{name}");
        }
        for (name, value) in [
            ("POLYAXON_SANDBOX_MAX_PTYS", "0"),
            ("POLYAXON_SANDBOX_MAX_PTYS", "257"),
            ("POLYAXON_SANDBOX_PTY_REPLAY_BYTES", "4194305"),
            ("POLYAXON_SANDBOX_PTY_REPLAY_BYTES", "256k"),
            ("POLYAXON_SANDBOX_PTY_IDLE_TTL", "0s"),
            ("POLYAXON_SANDBOX_PTY_PONG_TIMEOUT", "60"),
        ] {
            let refusal = with(name, value).unwrap_err().to_string();
            assert!(refusal.starts_with(name), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9.hmsunµ -]{0,12}") {
            let _ = duration(&text);
        }

        #[test]
        fn hours_minutes_and_seconds_add_up(hours in 0_u32..1000, minutes in 0_u32..1000, seconds in 0_u32..1000) {
            let text = format!("{hours}h{minutes}m{seconds}s");
            let want = u64::from(hours) * 3600 + u64::from(minutes) * 60 + u64::from(seconds);
            prop_assert_eq!(duration(&text), Some(Duration::from_secs(want)));
        }
    }
}
