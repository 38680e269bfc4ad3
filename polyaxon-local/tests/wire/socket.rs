//! A WebSocket client of a terminal, without any help from our own client.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::harness::{LIMIT, Reply, Sandbox, eventually, reply};

/// What an attachment said besides output, in order, and how it ended.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) output: Vec<u8>,
    pub(crate) largest_frame: usize,
    pub(crate) events: Vec<Value>,
    pub(crate) pings: usize,
    /// The code and the reason of the close; `None` where the connection broke.
    pub(crate) close: Option<(u16, String)>,
}

// By hand, since the output can be long.
impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = &self.output[self.output.len().saturating_sub(300)..];
        f.debug_struct("Seen")
            .field("bytes", &self.output.len())
            .field("last", &String::from_utf8_lossy(last))
            .field("events", &self.events)
            .field("close", &self.close)
            .finish_non_exhaustive()
    }
}

/// A client that is attached.
pub(crate) struct Socket {
    pub(crate) inner: WebSocketStream<TcpStream>,
    pub(crate) attached: Value,
    pub(crate) seen: Seen,
}

impl Sandbox<'_> {
    pub(crate) async fn create(&self, body: &Value) -> Reply {
        reply(self.request(Method::POST, "pty").json(body)).await
    }

    /// The id of a terminal that has to be created.
    pub(crate) async fn pty(&self, body: &Value) -> String {
        let (status, created) = self.create(body).await;
        assert_eq!(status, 201, "{created}");
        created["pty_id"].as_str().unwrap().to_owned()
    }

    /// A terminal that runs a script.
    pub(crate) async fn pty_sh(&self, script: &str) -> String {
        self.pty(&json!({"command": ["sh", "-c", script]})).await
    }

    pub(crate) async fn pty_get(&self, id: &str) -> Value {
        let (status, session) = reply(self.request(Method::GET, &format!("pty/{id}"))).await;
        assert_eq!(status, 200, "{session}");
        session
    }

    pub(crate) async fn pty_post(&self, id: &str, what: &str, body: &Value) -> Reply {
        reply(
            self.request(Method::POST, &format!("pty/{id}/{what}"))
                .json(body),
        )
        .await
    }

    pub(crate) async fn pty_delete(&self, id: &str) -> Reply {
        reply(self.request(Method::DELETE, &format!("pty/{id}"))).await
    }

    pub(crate) async fn pty_until(&self, id: &str, field: &str, value: &Value) -> Value {
        eventually(&format!("{field} {value}"), async || {
            let session = self.pty_get(id).await;
            (session[field] == *value).then_some(session)
        })
        .await
    }

    /// A handshake as a plain request, to look at how it is refused.
    pub(crate) async fn handshake(&self, id: &str, query: &str) -> Reply {
        let request = self.request(Method::GET, &format!("pty/{id}/ws{query}"));
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        reply(request).await
    }

    /// Attaches to a terminal that has to be there.
    pub(crate) async fn attach(&self, id: &str, query: &str) -> Socket {
        self.try_attach(id, query).await.unwrap()
    }

    /// Attaches to a terminal, where the handshake is not refused.
    pub(crate) async fn try_attach(&self, id: &str, query: &str) -> Option<Socket> {
        let address = self.plane.server.address();
        let url = format!(
            "ws://{address}{}",
            self.path(&format!("pty/{id}/ws{query}"))
        );
        let mut request = url.into_client_request().unwrap();
        let token = format!("Token {}", self.plane.server.token());
        request
            .headers_mut()
            .insert("authorization", token.parse().unwrap());
        let stream = TcpStream::connect(address).await.unwrap();
        let shaken = tokio_tungstenite::client_async(request, stream).await;
        let (mut inner, response) = match shaken {
            Err(tungstenite::Error::Http(_)) => return None,
            shaken => shaken.unwrap(),
        };
        assert_eq!(response.status(), 101);
        let first = timeout(LIMIT, inner.next()).await.unwrap();
        // The first frame is a text frame, whatever the program has written.
        let first = first.unwrap().unwrap();
        assert!(first.is_text(), "{first:?}");
        let attached: Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
        assert_eq!(
            (&attached["type"], &attached["pty_id"]),
            (&json!("attached"), &json!(id))
        );
        Some(Socket {
            inner,
            attached,
            seen: Seen::default(),
        })
    }
}

impl Socket {
    pub(crate) async fn type_in(&mut self, bytes: impl Into<Vec<u8>>) {
        let frame = Message::binary(bytes.into());
        timeout(LIMIT, self.inner.send(frame))
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) async fn control(&mut self, frame: &Value) {
        self.text(&frame.to_string()).await;
    }

    pub(crate) async fn text(&mut self, text: &str) {
        self.inner.send(Message::text(text)).await.unwrap();
    }

    /// One frame more, or the end, which is false.
    async fn step(&mut self) -> bool {
        let next = timeout(LIMIT, self.inner.next()).await;
        assert!(next.is_ok(), "no frame came: {:?}", self.seen);
        match next.unwrap() {
            Some(Ok(Message::Binary(bytes))) => {
                self.seen.largest_frame = self.seen.largest_frame.max(bytes.len());
                self.seen.output.extend_from_slice(&bytes);
            }
            Some(Ok(Message::Text(text))) => {
                self.seen.events.push(serde_json::from_str(&text).unwrap());
            }
            Some(Ok(Message::Ping(_))) => self.seen.pings += 1,
            Some(Ok(Message::Close(frame))) => {
                // The answer to a close of our own need not have a code.
                self.seen.close = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
            }
            // A client sends no pings, and no raw frames get here.
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
        true
    }

    /// Until all of the output holds `wanted`; gives it as text.
    pub(crate) async fn until(&mut self, wanted: impl AsRef<[u8]>) -> String {
        let wanted = wanted.as_ref();
        let mut looked_at = 0;
        loop {
            let rest = &self.seen.output[looked_at..];
            if rest.windows(wanted.len()).any(|at| at == wanted) {
                return String::from_utf8_lossy(&self.seen.output).into_owned();
            }
            looked_at = self.seen.output.len().saturating_sub(wanted.len());
            let text = String::from_utf8_lossy(wanted).into_owned();
            assert!(self.step().await, "no {text:?} in {:?}", self.seen);
        }
    }

    /// Until `count` text frames came after the first.
    pub(crate) async fn events(&mut self, count: usize) -> &[Value] {
        while self.seen.events.len() < count {
            assert!(self.step().await, "{:?}", self.seen);
        }
        &self.seen.events
    }

    pub(crate) async fn pings(&mut self, count: usize) {
        while self.seen.pings < count {
            assert!(self.step().await, "{:?}", self.seen);
        }
    }

    /// Until the end of the connection.
    pub(crate) async fn end(mut self) -> Seen {
        while self.step().await {}
        self.seen
    }

    pub(crate) async fn close(mut self) {
        self.inner.close(None).await.unwrap();
        let _end = timeout(Duration::from_secs(2), async { while self.step().await {} }).await;
    }
}
