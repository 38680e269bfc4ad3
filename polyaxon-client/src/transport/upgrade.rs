//! The handshake of a WebSocket (RFC 6455, section 4) on a connection of the one HTTP library, so
//! that token, certificates and proxies are the same as everywhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::operation::Operation;
use crate::error::{Error, InvalidInput};

/// What the key of a client is joined with (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The client's key: it shows that whoever answers speaks the protocol.
pub(super) struct Key(String);

impl Key {
    pub(super) fn new() -> Self {
        Self(STANDARD.encode(uuid::Uuid::new_v4().as_bytes()))
    }

    pub(super) fn offer(&self, operation: Operation) -> Result<Operation, Error> {
        let key = HeaderValue::try_from(&self.0)
            .map_err(|error| InvalidInput::new("sec-websocket-key", error.to_string()))?;
        Ok(operation
            .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
            .header(header::UPGRADE, HeaderValue::from_static("websocket"))
            .header(
                header::SEC_WEBSOCKET_VERSION,
                HeaderValue::from_static("13"),
            )
            .header(header::SEC_WEBSOCKET_KEY, key))
    }

    pub(super) fn check(&self, operation: &'static str, headers: &HeaderMap) -> Result<(), Error> {
        let want = STANDARD.encode(Sha1::digest(format!("{}{GUID}", self.0)));
        let got = headers.get(header::SEC_WEBSOCKET_ACCEPT);
        if got.is_some_and(|got| got.as_bytes() == want.as_bytes()) {
            return Ok(());
        }
        Err(Error::Decode {
            operation,
            at: "sec-websocket-accept".to_owned(),
            source: "it does not belong to the key of the request".into(),
        })
    }
}

/// A connection that has left HTTP behind. Dropping it closes it.
#[derive(Debug)]
pub struct Upgraded(reqwest::Upgraded);

impl Upgraded {
    pub(super) fn new(connection: reqwest::Upgraded) -> Self {
        Self(connection)
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Effect;

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn the_answer_has_to_belong_to_the_key() {
        let key = Key("dGhlIHNhbXBsZSBub25jZQ==".to_owned());
        let mut headers = HeaderMap::new();
        assert_eq!(
            key.check("pty.attach", &headers).unwrap_err().effect(),
            Effect::Applied
        );
        let accept = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        key.check("pty.attach", &headers).unwrap();
        Key::new().check("pty.attach", &headers).unwrap_err();
    }
}
