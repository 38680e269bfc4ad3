//! The WebSocket of a recording.

use std::net::SocketAddr;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, Request};
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::raw::{Answer, LIMIT, OF_THE_CONNECTION};
use crate::recorded::{Frame, Recorded};
use crate::shape::{Check, members, same};

/// How a handshake went.
pub(crate) enum Handshake {
    Refused(Answer),
    /// The upgrade came, and the rest is as it has to be, or is not.
    Upgraded(Check),
}

/// Makes the handshake with the recorded headers and sends the recorded frames.
pub(crate) async fn play(address: SocketAddr, target: &str, row: &Recorded) -> Handshake {
    let all = tokio::time::timeout(LIMIT, exchange(address, target, row));
    all.await
        .unwrap_or_else(|_| Handshake::Upgraded(Err(format!("no end within {LIMIT:?}"))))
}

fn request(address: SocketAddr, target: &str, row: &Recorded) -> Request<()> {
    let mut request = format!("ws://{address}{target}")
        .into_client_request()
        .unwrap();
    for (name, value) in &row.headers {
        let of_handshake = name.starts_with("sec-websocket") || name == "upgrade";
        if !of_handshake && !OF_THE_CONNECTION.contains(&name.as_str()) {
            let name = HeaderName::try_from(name.as_str()).unwrap();
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(name, value);
        }
    }
    request
}

async fn exchange(address: SocketAddr, target: &str, row: &Recorded) -> Handshake {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, response) = match client_async(request(address, target, row), stream).await {
        Ok(upgraded) => upgraded,
        Err(Error::Http(response)) => {
            let headers = response.headers().iter();
            return Handshake::Refused(Answer {
                status: response.status().as_u16(),
                headers: headers
                    .map(|(name, value)| {
                        (
                            name.to_string(),
                            value.to_str().unwrap_or_default().to_owned(),
                        )
                    })
                    .collect(),
                body: response.body().clone().unwrap_or_default(),
            });
        }
        Err(other) => return Handshake::Upgraded(Err(other.to_string())),
    };
    for name in ["sec-websocket-protocol", "sec-websocket-extensions"] {
        if response.headers().contains_key(name) {
            return Handshake::Upgraded(Err(format!("{name} was not offered")));
        }
    }
    let frames = async {
        let first = socket.next().await;
        let Some(Ok(Message::Text(first))) = first else {
            return Err(format!("the first frame is {first:?}"));
        };
        let first: Value = serde_json::from_str(&first).map_err(|error| error.to_string())?;
        members(
            &first,
            &["type", "pty_id", "pid", "state", "cols", "rows"],
            &[],
        )?;
        same("type", first["type"].as_str(), Some("attached"))?;
        same("state", first["state"].as_str(), Some("running"))?;
        for frame in &row.frames {
            let message = match frame {
                Frame::Text(value) => Message::text(value.to_string()),
                Frame::Binary(bytes) => Message::binary(bytes.clone()),
                Frame::Close(code) => Message::Close(Some(CloseFrame {
                    code: u16::try_from(*code).unwrap().into(),
                    reason: "".into(),
                })),
            };
            socket
                .send(message)
                .await
                .map_err(|error| error.to_string())?;
            if let Frame::Binary(bytes) = frame {
                echoed(&mut socket, bytes).await?;
            }
        }
        loop {
            match socket.next().await {
                None => return Ok(()),
                Some(Ok(Message::Text(text))) => return Err(format!("said at the end: {text}")),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(format!("broken at the end: {error}")),
            }
        }
    };
    Handshake::Upgraded(frames.await)
}

/// The terminal echoes what is typed, with CR LF for the end of a line.
async fn echoed<S>(socket: &mut S, typed: &[u8]) -> Check
where
    S: futures::Stream<Item = Result<Message, Error>> + Unpin,
{
    let typed = typed.strip_suffix(b"\n").unwrap_or(typed);
    let mut output = Vec::new();
    while !output.windows(typed.len()).any(|part| part == typed) {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => output.extend_from_slice(&bytes),
            Some(Ok(Message::Ping(_))) => {}
            other => return Err(format!("{other:?} in place of the echo of {typed:?}")),
        }
    }
    Ok(())
}
