//! The secret that a call proves itself with.

use std::fmt;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::error::InvalidInput;

/// A token of the control plane, or of one sandbox's service. Its text is never printed, not by `{:?}` either.
///
/// # Examples
/// ```
/// use polyaxon_client::Token;
///
/// let token = Token::new("s3cret")?;
/// assert_eq!(format!("{token:?}"), "Token(***)");
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    /// The text that means "send no header".
    pub(crate) const NO_AUTH: &str = "no-auth";

    /// A token with this text. White space around it (a final newline of a file) is dropped.
    ///
    /// # Errors
    /// Where it is empty, or holds what no HTTP header can.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidInput> {
        let secret = SecretString::from(text.into().trim().to_owned());
        if secret.expose_secret().is_empty() {
            return Err(InvalidInput::new("token", "is empty"));
        }
        let token = Self(secret);
        token.header("Token")?;
        Ok(token)
    }

    pub(crate) fn is_no_auth(&self) -> bool {
        self.0.expose_secret() == Self::NO_AUTH
    }

    /// The value of `Authorization`, marked so that HTTP libraries do not print it either.
    pub(crate) fn header(&self, scheme: &str) -> Result<HeaderValue, InvalidInput> {
        Self::value(format!("{scheme} {}", self.0.expose_secret()))
    }

    /// The text itself as the value of a header.
    pub(crate) fn alone(&self) -> Result<HeaderValue, InvalidInput> {
        Self::value(self.0.expose_secret().to_owned())
    }

    fn value(text: String) -> Result<HeaderValue, InvalidInput> {
        // The library's own error is dropped: it could quote the text.
        let mut value = HeaderValue::try_from(text).map_err(|_invalid| {
            InvalidInput::new("token", "holds characters that no HTTP header can")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_and_never_printed() {
        let token = Token::new("  s3cret\n").unwrap();
        let header = token.header("Token").unwrap();
        assert_eq!(header.as_bytes(), b"Token s3cret");
        assert!(header.is_sensitive());
        assert!(!format!("{token:?} {token:#?} {header:?}").contains("s3cret"));
    }

    #[test]
    fn a_bad_token_is_refused_without_being_quoted() {
        for bad in ["", " \n", "s3\u{0}cret", "s3\ncret"] {
            let error = Token::new(bad).unwrap_err();
            assert_eq!(error.field(), "token");
            assert!(!error.to_string().contains("cret"), "{error}");
        }
    }
}
