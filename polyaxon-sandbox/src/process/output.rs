//! What a command wrote.

use std::borrow::Cow;

use bytes::Bytes;

/// One captured stream of a command: its bytes, and whether they are all of it.
///
/// The service sends output as text: each byte that was not UTF-8 has become U+FFFD on the way.
/// For binary output let the command write a file and read that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    bytes: Bytes,
    truncated: bool,
    timed_out: bool,
    lossy: bool,
}

impl Output {
    pub(crate) fn new(bytes: Bytes, truncated: bool, timed_out: bool) -> Self {
        Self {
            bytes,
            truncated,
            timed_out,
            lossy: false,
        }
    }

    pub(crate) fn with_lossy(self, lossy: bool) -> Self {
        Self { lossy, ..self }
    }

    pub(crate) fn was_timed_out(&self) -> bool {
        self.timed_out
    }

    /// What was captured. Never fails; look at [`is_truncated`](Self::is_truncated).
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What was captured as text, with U+FFFD for what is not UTF-8. Never fails.
    #[must_use]
    pub fn text_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Whether the command wrote more than was captured. The service keeps the first 1 MiB.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Whether bytes are known to have become U+FFFD on the way. It is not known of the output of
    /// [`exec`](super::Process::exec), whose answer does not say how many bytes there were.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// All of the output as text.
    ///
    /// # Errors
    /// Where the output is not whole (truncated, or the command was killed at its time limit), or
    /// is not UTF-8.
    pub fn text(&self) -> Result<&str, OutputError> {
        std::str::from_utf8(self.whole()?).map_err(OutputError::NotUtf8)
    }

    /// All of the output as a JSON document.
    ///
    /// # Errors
    /// As [`text`](Self::text), or where it is not the JSON of a `T`.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, OutputError> {
        serde_json::from_slice(self.whole()?).map_err(OutputError::NotJson)
    }

    fn whole(&self) -> Result<&[u8], OutputError> {
        match (self.truncated, self.timed_out) {
            (true, _) => Err(OutputError::Truncated {
                kept: self.bytes.len(),
            }),
            (false, true) => Err(OutputError::TimedOut),
            (false, false) => Ok(&self.bytes),
        }
    }
}

/// Why output cannot be read as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The command wrote more than was captured.
    #[error("the output was cut after {kept} bytes")]
    #[non_exhaustive]
    Truncated {
        /// How many bytes were captured.
        kept: usize,
    },
    /// The command was killed at its time limit.
    #[error("the command was killed at its time limit, so its output is not whole")]
    TimedOut,
    /// The output is not text.
    #[error("the output is not UTF-8")]
    NotUtf8(#[source] std::str::Utf8Error),
    /// The output is not the JSON that was asked for.
    #[error("the output is not the expected JSON")]
    NotJson(#[source] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_not_whole_is_never_parsed() {
        let whole = Output::new("[1]".into(), false, false);
        assert_eq!(whole.text().unwrap(), "[1]");
        assert_eq!(whole.json::<Vec<u8>>().unwrap(), [1]);
        let cut = Output::new("[1]".into(), true, false);
        assert!(matches!(
            cut.json::<Vec<u8>>(),
            Err(OutputError::Truncated { kept: 3 })
        ));
        let killed = Output::new("[1]".into(), false, true);
        assert!(matches!(killed.text(), Err(OutputError::TimedOut)));
        assert_eq!(killed.text_lossy(), "[1]");
        let bytes = Output::new(Bytes::from_static(b"\xff"), false, false);
        assert!(matches!(bytes.text(), Err(OutputError::NotUtf8(_))));
        assert!(matches!(
            whole.json::<String>(),
            Err(OutputError::NotJson(_))
        ));
    }
}
