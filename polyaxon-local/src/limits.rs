//! What the sandbox service takes and keeps at most.

mod pty;

use std::time::Duration;

pub use self::pty::PtyLimits;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The limits of one sandbox. The defaults are those of the one public description of the
/// in-pod service (a source snapshot of `plx-exec`); a deployed one may differ, so a test can
/// set other values.
///
/// # Examples
/// ```
/// use polyaxon_local::Limits;
///
/// let mut limits = Limits::default();
/// assert_eq!(limits.exec_output, 1 << 20);
/// limits.exec_output = 16;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the body of `exec`. Above: 413. Default [`EXEC_BODY`](Self::EXEC_BODY).
    pub exec_body: usize,
    /// Bytes of any other JSON body. Above: 413. Default [`JSON_BODY`](Self::JSON_BODY).
    pub json_body: usize,
    /// Elements of `command`. Above: 400. Default [`COMMAND_WORDS`](Self::COMMAND_WORDS).
    pub command_words: usize,
    /// Bytes of all elements of `command`. Above: 400. Default
    /// [`COMMAND_BYTES`](Self::COMMAND_BYTES).
    pub command_bytes: usize,
    /// Keys of `env`. Above: 400. Default [`ENV_KEYS`](Self::ENV_KEYS).
    pub env_keys: usize,
    /// Bytes of a key of `env`. Above: 400. Default [`ENV_KEY_BYTES`](Self::ENV_KEY_BYTES).
    pub env_key_bytes: usize,
    /// Bytes of a value of `env`. Above: 400. Default
    /// [`ENV_VALUE_BYTES`](Self::ENV_VALUE_BYTES).
    pub env_value_bytes: usize,
    /// Bytes of any path. Above: 400. Default [`PATH_BYTES`](Self::PATH_BYTES).
    pub path_bytes: usize,
    /// Decoded bytes of `stdin`. Above: 400. Default [`STDIN_BYTES`](Self::STDIN_BYTES).
    pub stdin_bytes: usize,
    /// How long a command runs where `timeout_ms` is 0 or left out. Default
    /// [`TIMEOUT`](Self::TIMEOUT).
    pub timeout: Duration,
    /// The longest `timeout_ms`. Above: 400. Default [`TIMEOUT_MAX`](Self::TIMEOUT_MAX).
    pub timeout_max: Duration,
    /// Bytes of each output stream in the answer of `exec`; a flag says where there is more, which
    /// can be read from the logs. Default [`EXEC_OUTPUT`](Self::EXEC_OUTPUT).
    pub exec_output: usize,
    /// Bytes of each output stream of one exec that are kept on disk. The command goes on; what it
    /// writes above is counted and dropped, and reading it is a 500 that says so. Default
    /// [`EXEC_LOG`](Self::EXEC_LOG).
    pub exec_log: u64,
    /// Bytes of all records and logs of execs on disk, a record counted as 4096 bytes. Above, output
    /// is dropped as above [`exec_log`](Self::exec_log), and new execs are a 500 whose details say
    /// `state_full`, until some are deleted. Default [`STATE_BYTES`](Self::STATE_BYTES).
    pub state_bytes: u64,
    /// Bytes of a page of logs where `max_bytes` is left out. Default
    /// [`LOG_PAGE`](Self::LOG_PAGE).
    pub log_page: usize,
    /// The largest page of logs; a larger `max_bytes` is lowered to it. Default
    /// [`LOG_PAGE_MAX`](Self::LOG_PAGE_MAX).
    pub log_page_max: usize,
    /// How long a page of logs with `follow` waits for output or the end. Default
    /// [`FOLLOW`](Self::FOLLOW).
    pub follow: Duration,
    /// The silence in `exec/stream` after which a `ping` is sent. Default
    /// [`STREAM_PING`](Self::STREAM_PING).
    pub stream_ping: Duration,
    /// Commands that run at once. Above: 429. Default [`EXECS_RUNNING`](Self::EXECS_RUNNING).
    pub execs_running: usize,
    /// Bytes of one page of `fs/read` where `length` is left out. Default
    /// [`READ_BYTES`](Self::READ_BYTES).
    pub read_bytes: usize,
    /// The largest `length` of `fs/read`. Above: 400. Default
    /// [`READ_BYTES_MAX`](Self::READ_BYTES_MAX).
    pub read_bytes_max: usize,
    /// Bytes of the body of `fs/write`. Above: 413. Default
    /// [`WRITE_BYTES`](Self::WRITE_BYTES).
    pub write_bytes: usize,
    /// Entries of `fs/ls` where `max_entries` is left out. Default
    /// [`LS_ENTRIES`](Self::LS_ENTRIES).
    pub ls_entries: usize,
    /// The largest `max_entries`. Above: 400. Default [`LS_ENTRIES_MAX`](Self::LS_ENTRIES_MAX).
    pub ls_entries_max: usize,
    /// From the SIGTERM to the SIGKILL of a command that is deleted or whose caller has gone. Default
    /// [`KILL_GRACE`](Self::KILL_GRACE).
    pub kill_grace: Duration,
    /// Files that one process of a command can hold open, lowered to what the server may. Default
    /// [`OPEN_FILES`](Self::OPEN_FILES).
    pub open_files: u64,
    /// Bytes that a file written by a command can have; the process gets SIGXFSZ. Default: as many
    /// as the server may write.
    pub file_bytes: Option<u64>,
    /// The limits of terminals.
    pub pty: PtyLimits,
}

// Each value stands in the table of limits (section 10) of the description of the wire, but for
// those with a note.
impl Limits {
    /// 16 MiB.
    pub const EXEC_BODY: usize = 16 * MIB;
    /// 1 MiB.
    pub const JSON_BODY: usize = MIB;
    /// 256.
    pub const COMMAND_WORDS: usize = 256;
    /// 4096 bytes: easy to exceed with `sh -c SCRIPT`; a long script goes through `stdin`.
    pub const COMMAND_BYTES: usize = 4 * KIB;
    /// 256.
    pub const ENV_KEYS: usize = 256;
    /// 256 bytes.
    pub const ENV_KEY_BYTES: usize = 256;
    /// 4096 bytes.
    pub const ENV_VALUE_BYTES: usize = 4 * KIB;
    /// 4096 bytes.
    pub const PATH_BYTES: usize = 4 * KIB;
    /// 8 MiB.
    pub const STDIN_BYTES: usize = 8 * MIB;
    /// 30 s.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// 300 s.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(300);
    /// 1 MiB.
    pub const EXEC_OUTPUT: usize = MIB;
    /// 512 MiB, ours: the description has no limit, but a disk has.
    pub const EXEC_LOG: u64 = 512 * MIB as u64;
    /// 4 GiB, ours, likewise.
    pub const STATE_BYTES: u64 = 4096 * MIB as u64;
    /// 64 KiB.
    pub const LOG_PAGE: usize = 64 * KIB;
    /// 1 MiB.
    pub const LOG_PAGE_MAX: usize = MIB;
    /// 30 s, from the description of log pages (section 6.5).
    pub const FOLLOW: Duration = Duration::from_secs(30);
    /// 3 s, from the description of streams (section 6.3).
    pub const STREAM_PING: Duration = Duration::from_secs(3);
    /// 64; a deployment sets it by `POLYAXON_SANDBOX_MAX_EXECS`.
    pub const EXECS_RUNNING: usize = 64;
    /// 1 MiB.
    pub const READ_BYTES: usize = MIB;
    /// 16 MiB.
    pub const READ_BYTES_MAX: usize = 16 * MIB;
    /// 16 MiB.
    pub const WRITE_BYTES: usize = 16 * MIB;
    /// 1000.
    pub const LS_ENTRIES: usize = 1000;
    /// 10 000.
    pub const LS_ENTRIES_MAX: usize = 10_000;
    /// 5 s, from the description of `exec` (section 6.2).
    pub const KILL_GRACE: Duration = Duration::from_secs(5);
    /// 65 536. Ours: the description has none.
    pub const OPEN_FILES: u64 = 1 << 16;

    /// What is set for every process of a command.
    pub(crate) fn of_processes(&self) -> crate::sys::Limits {
        crate::sys::Limits {
            files: self.open_files,
            file_bytes: self.file_bytes,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            exec_body: Self::EXEC_BODY,
            json_body: Self::JSON_BODY,
            command_words: Self::COMMAND_WORDS,
            command_bytes: Self::COMMAND_BYTES,
            env_keys: Self::ENV_KEYS,
            env_key_bytes: Self::ENV_KEY_BYTES,
            env_value_bytes: Self::ENV_VALUE_BYTES,
            path_bytes: Self::PATH_BYTES,
            stdin_bytes: Self::STDIN_BYTES,
            timeout: Self::TIMEOUT,
            timeout_max: Self::TIMEOUT_MAX,
            exec_output: Self::EXEC_OUTPUT,
            exec_log: Self::EXEC_LOG,
            state_bytes: Self::STATE_BYTES,
            log_page: Self::LOG_PAGE,
            log_page_max: Self::LOG_PAGE_MAX,
            follow: Self::FOLLOW,
            stream_ping: Self::STREAM_PING,
            execs_running: Self::EXECS_RUNNING,
            read_bytes: Self::READ_BYTES,
            read_bytes_max: Self::READ_BYTES_MAX,
            write_bytes: Self::WRITE_BYTES,
            ls_entries: Self::LS_ENTRIES,
            ls_entries_max: Self::LS_ENTRIES_MAX,
            kill_grace: Self::KILL_GRACE,
            open_files: Self::OPEN_FILES,
            file_bytes: None,
            pty: PtyLimits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_numbers_of_the_description() {
        let limits = Limits::default();
        let sizes = [
            (limits.exec_body, 16_777_216),
            (limits.json_body, 1_048_576),
            (limits.command_words, 256),
            (limits.command_bytes, 4096),
            (limits.env_keys, 256),
            (limits.env_key_bytes, 256),
            (limits.env_value_bytes, 4096),
            (limits.path_bytes, 4096),
            (limits.stdin_bytes, 8_388_608),
            (limits.exec_output, 1_048_576),
            (limits.log_page, 65_536),
            (limits.log_page_max, 1_048_576),
            (limits.execs_running, 64),
            (limits.read_bytes, 1_048_576),
            (limits.read_bytes_max, 16_777_216),
            (limits.write_bytes, 16_777_216),
            (limits.ls_entries, 1000),
            (limits.ls_entries_max, 10_000),
        ];
        for (got, want) in sizes {
            assert_eq!(got, want);
        }
        let times = [
            limits.timeout,
            limits.timeout_max,
            limits.kill_grace,
            limits.follow,
            limits.stream_ping,
        ];
        let milliseconds = times.map(|time| time.as_millis());
        assert_eq!(milliseconds, [30_000, 300_000, 5000, 30_000, 3000]);
    }
}
