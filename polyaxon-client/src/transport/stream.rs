//! An answer whose body is read while it comes.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;

use super::classify;
use super::operation::Operation;
use crate::error::Error;

/// An answer that has begun: its head, and its body piece by piece. Dropping it closes the
/// connection, unless the body was read to its end.
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub struct AnswerStream {
    operation: Operation,
    host: String,
    response: reqwest::Response,
    idle: Duration,
}

impl AnswerStream {
    pub(super) fn new(operation: &Operation, host: &str, response: reqwest::Response) -> Self {
        // The body of the request may be large, and is of no use any more.
        let mut operation = operation.clone();
        operation.body = None;
        Self {
            idle: operation.idle,
            operation,
            host: host.to_owned(),
            response,
        }
    }

    /// The call that was answered.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation.name
    }

    /// The status, of 2xx.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next bytes, as many as have come, never none; `None` at the end of the body.
    ///
    /// # Errors
    /// [`Error::Transport`] where the body breaks off, or nothing comes for as long as
    /// [`Operation::idle`] says. Nothing can be read after it.
    ///
    /// # Cancel safety
    /// Cancel safe: no byte is lost.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match timeout(self.idle, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) if bytes.is_empty() => {}
                Ok(Ok(next)) => return Ok(next),
                Ok(Err(error)) => {
                    return Err(classify::failure(&self.operation, &self.host, error));
                }
                Err(_) => {
                    return Err(classify::silence(&self.operation, &self.host, self.idle));
                }
            }
        }
    }

    /// The error of a body that came whole and says what it must not, or stops before it should.
    #[must_use]
    pub fn broken(&self, problem: impl Into<String>) -> Error {
        classify::broken(&self.operation, &self.host, problem.into())
    }
}
