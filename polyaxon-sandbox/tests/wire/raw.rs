//! A server that sends bytes as a test says, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use polyaxon_client::Token;
use polyaxon_sandbox::SandboxClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{client_of, project, run_uuid};

/// What is sent for a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// These bytes, each piece by itself, then the end of the connection.
    Bytes(Vec<Vec<u8>>),
    /// These bytes, and then nothing; the connection stays open.
    Silence(Vec<u8>),
    /// These bytes, then the connection is reset.
    Reset(Vec<u8>),
    /// The first bytes, then the second again and again with a pause between.
    Again(Vec<u8>, Vec<u8>, Duration),
}

/// A service that is called at its own address.
pub(crate) struct Raw {
    /// A sandbox with this service.
    pub(crate) sandbox: SandboxClient,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Raw {
    /// Answers by method and path with query: `GET /ping`.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::new(answer), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                // Whoever hangs up early is no failure of the server.
                connections.spawn(async move { serve(socket, &*answer).await.ok() });
            }
        });
        let token = Token::new("t").unwrap();
        let sandbox = SandboxClient::connect(&client_of(&url), &project(), run_uuid())
            .direct(url.parse().unwrap(), &token)
            .unwrap();
        Self {
            sandbox,
            asked,
            task,
        }
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut socket: TcpStream,
    answer: &(impl Fn(&str) -> Answer + Sync),
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    // The bodies of these tests come with the head or right behind it, and are not looked at.
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match socket.read(&mut buffer).await? {
            0 => return Ok(()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let line = head.lines().next().unwrap_or_default();
    let asked = line.trim_end_matches(" HTTP/1.1");
    match answer(asked) {
        Answer::Bytes(parts) => {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                socket.write_all(part).await?;
            }
            socket.shutdown().await?;
            // Until the client hangs up: closing with bytes unread would be a reset.
            while socket.read(&mut buffer).await? > 0 {}
        }
        Answer::Silence(bytes) => {
            socket.write_all(&bytes).await?;
            while socket.read(&mut buffer).await? > 0 {}
        }
        Answer::Reset(bytes) => {
            socket.write_all(&bytes).await?;
            // So that the bytes arrive before the reset takes them away.
            tokio::time::sleep(Duration::from_millis(50)).await;
            socket.set_zero_linger()?;
        }
        Answer::Again(first, again, pause) => {
            socket.write_all(&first).await?;
            loop {
                tokio::time::sleep(pause).await;
                socket.write_all(&again).await?;
            }
        }
    }
    Ok(())
}

/// A JSON answer.
pub(crate) fn json(status: &str, body: &str) -> Answer {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    Answer::Bytes(vec![text.into_bytes()])
}

/// The head of a stream of events that ends with its connection.
pub(crate) const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A stream of events in these pieces.
pub(crate) fn events(parts: &[&str]) -> Answer {
    let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
    parts.insert(0, EVENTS.as_bytes().to_vec());
    Answer::Bytes(parts)
}

/// What a service says that has no such thing.
pub(crate) fn absent() -> Answer {
    json(
        "404 Not Found",
        r#"{"error":{"code":"not_found","message":"there is none"}}"#,
    )
}
