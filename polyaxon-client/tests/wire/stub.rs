//! A server of raw bytes, for answers that no HTTP library would make.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A server whose connections are played by a script. It ends when it is dropped.
pub(super) struct Stub {
    pub(super) url: String,
    open: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Stub {
    pub(super) async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Connection) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (open, accepted) = (Arc::default(), Arc::default());
        let counts: (Arc<AtomicUsize>, Arc<AtomicUsize>) =
            (Arc::clone(&open), Arc::clone(&accepted));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counts.0.fetch_add(1, Ordering::SeqCst);
                counts.1.fetch_add(1, Ordering::SeqCst);
                connections.spawn(script(Connection {
                    stream,
                    unread: Vec::new(),
                    open: Arc::clone(&counts.0),
                }));
            }
        });
        Self {
            url,
            open,
            accepted,
            task,
        }
    }

    /// Connections that are open now.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Connections that were made in all.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    unread: Vec<u8>,
    open: Arc<AtomicUsize>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connection {
    /// The head of the next request, in lower case; its body is passed over. `None` at the end.
    pub(super) async fn request(&mut self) -> Option<String> {
        let head = self.request_as_it_came().await?;
        Some(head.to_lowercase())
    }

    pub(super) async fn request_as_it_came(&mut self) -> Option<String> {
        let end = loop {
            let found = self.unread.windows(4).position(|part| part == b"\r\n\r\n");
            if let Some(at) = found {
                break at + 4;
            }
            self.more().await?;
        };
        let head = self.unread.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let lines = head.to_lowercase();
        let length = lines
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        while self.unread.len() < length {
            self.more().await?;
        }
        self.unread.drain(..length);
        Some(head)
    }

    async fn more(&mut self) -> Option<()> {
        let count = self.stream.read_buf(&mut self.unread).await.ok()?;
        (count > 0).then_some(())
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // Whoever has gone away does not read.
        let _gone = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Until the other side closes.
    pub(super) async fn closed(&mut self) {
        while self.more().await.is_some() {}
    }
}
