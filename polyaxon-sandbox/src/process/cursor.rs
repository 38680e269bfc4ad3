//! How far the output of a command was read.

use serde::{Deserialize, Serialize};

use super::background::LogStream;

/// How far both outputs of a command were read, in bytes of what it wrote. A value to keep: from
/// there on reading goes on without a gap and without a repetition.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::process::{Cursor, LogStream};
///
/// let mut cursor = Cursor::default();
/// cursor.advance(LogStream::Stderr, 12);
/// assert_eq!((cursor.stdout, cursor.of(LogStream::Stderr)), (0, 12));
/// let kept = serde_json::to_string(&cursor)?;
/// assert_eq!(serde_json::from_str::<Cursor>(&kept)?, cursor);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a process has these two outputs")]
pub struct Cursor {
    /// Behind what was read of standard output.
    pub stdout: u64,
    /// Behind what was read of standard error.
    pub stderr: u64,
}

impl Cursor {
    /// The position in one of them.
    #[must_use]
    pub fn of(self, stream: LogStream) -> u64 {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    /// Sets the position in one of them.
    pub fn advance(&mut self, stream: LogStream, to: u64) {
        match stream {
            LogStream::Stdout => self.stdout = to,
            LogStream::Stderr => self.stderr = to,
        }
    }
}
