//! Text that is for the journal and for nobody else.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::redact::redact;

/// A detail of a failure for the operator: it goes to the journal, never into an error message,
/// a log or a prompt. `Debug` and `Display` print `<private>`.
///
/// What looks like a secret is taken out when it is made: the value after a name such as
/// `authorization`, `token`, `api_key` or `password`, in any case and with any of `: = "` between,
/// in quotes up to the closing one; cookies; the password of an address. At most 2 KiB are kept.
///
/// # Examples
/// ```
/// use agent_loop::Private;
///
/// let detail = Private::new("GET /models with X-API-Key: k-123 was refused");
/// assert_eq!(detail.to_string(), "<private>");
/// assert_eq!(detail.reveal(), "GET /models with X-API-Key: <redacted> was refused");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Private(String);

impl Private {
    /// The most that is kept, in bytes.
    pub const MAX_LEN: usize = 2048;

    /// A detail, without what looks like a secret in it.
    #[must_use]
    pub fn new(detail: impl AsRef<str>) -> Self {
        let mut text = redact(detail.as_ref());
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = ends.take_while(|end| *end <= Self::MAX_LEN).last();
        text.truncate(end.unwrap_or(0));
        Self(text)
    }

    /// A detail from an error and its causes.
    #[must_use]
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        Self::new(
            causes
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": "),
        )
    }

    /// The text, for the journal. Do not put it into a message.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<private>")
    }
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<private>")
    }
}

impl From<String> for Private {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Private> for String {
    fn from(private: Private) -> Self {
        private.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_it() {
        let detail = Private::new("a path: /home/op");
        assert_eq!(format!("{detail} {detail:?}"), "<private> <private>");
    }
}
