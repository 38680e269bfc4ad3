//! A proxy of one service for one call, which goes wrong at one byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::cases::{Fault, Kind, Often, Side};
use crate::message;

/// How long pieces are apart.
const APART: Duration = Duration::from_millis(1);

/// What went through a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes that came from the caller.
    pub(crate) request: usize,
    /// Bytes of the service's answers, as far as they were read.
    pub(crate) answer: usize,
    /// Whether the caller was sent all of an answer to the last request.
    pub(crate) whole_answer: bool,
}

/// It serves until its end.
pub(crate) struct Proxy {
    address: SocketAddr,
    listener: Option<Arc<TcpListener>>,
    /// Of each connection.
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Proxy {
    pub(crate) fn start(service: SocketAddr, fault: Option<Fault>) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        let (listener, serving) = match fault {
            // The port is ours, and nobody listens.
            Some(fault) if fault.kind == Kind::Refuse => {
                let held = async move {
                    std::future::pending::<()>().await;
                    drop(socket);
                };
                (None, tokio::spawn(held))
            }
            _ => {
                let listener = Arc::new(socket.listen(16).unwrap());
                let serving = serve(Arc::clone(&listener), service, fault, Arc::clone(&seen));
                (Some(listener), tokio::spawn(serving))
            }
        };
        Self {
            address,
            listener,
            seen,
            serving,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What went through each connection, those that were made and not yet taken among them.
    pub(crate) async fn end(self) -> Vec<Seen> {
        self.serving.abort();
        let _aborted = self.serving.await;
        let mut seen = self.seen.lock().unwrap().clone();
        if let Some(listener) = self.listener.and_then(Arc::into_inner) {
            // The system is asked itself: the runtime may not have heard of them yet.
            let listener = listener.into_std().unwrap();
            seen.extend(std::iter::from_fn(|| {
                let _taken = listener.accept().ok()?;
                Some(Seen::default())
            }));
        }
        seen
    }
}

async fn serve(
    listener: Arc<TcpListener>,
    service: SocketAddr,
    fault: Option<Fault>,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    let mut left = match fault.as_ref().map(|fault| fault.often) {
        None => 0,
        Some(Often::Once) => 1,
        Some(Often::Always) => usize::MAX,
    };
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let index = {
            let mut seen = seen.lock().unwrap();
            seen.push(Seen::default());
            seen.len() - 1
        };
        let fault = fault.filter(|_| left > 0);
        left = left.saturating_sub(1);
        let pair = Pair {
            server: TcpStream::connect(service).await.unwrap(),
            client,
            seen: Arc::clone(&seen),
            index,
        };
        connections.spawn(pair.exchange(fault));
    }
}

/// Both ends of a connection.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    seen: Arc<Mutex<Vec<Seen>>>,
    index: usize,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Ended,
}

impl Pair {
    fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap()[self.index]);
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap()[self.index]
    }

    /// Hands over requests and answers until one side ends. The bytes of a side are counted over all
    /// of its messages.
    async fn exchange(mut self, mut fault: Option<Fault>) {
        self.client.set_nodelay(true).unwrap();
        self.server.set_nodelay(true).unwrap();
        while self.request(&mut fault).await == Goes::On
            && self.answer(&mut fault).await == Goes::On
        {}
    }

    async fn request(&mut self, fault: &mut Option<Fault>) -> Goes {
        let before = self.seen().request;
        let (mut bytes, mut sent) = (Vec::new(), 0);
        loop {
            if let Some((at, kind)) = due(fault, Side::Request, before, bytes.len()) {
                *fault = None;
                if self.server.write_all(&bytes[..at]).await.is_err()
                    || self.strike(kind).await == Goes::Ended
                {
                    return Goes::Ended;
                }
                sent = at;
            }
            if message::length(&bytes).is_some() {
                let rest = self.server.write_all(&bytes[sent..]).await;
                return rest.map_or(Goes::Ended, |()| Goes::On);
            }
            match self.client.read_buf(&mut bytes).await {
                Ok(1..) => self.see(|seen| {
                    seen.request = before + bytes.len();
                    seen.whole_answer = false;
                }),
                Ok(0) | Err(_) => return Goes::Ended,
            }
        }
    }

    async fn answer(&mut self, fault: &mut Option<Fault>) -> Goes {
        let before = self.seen().answer;
        let mut bytes = Vec::new();
        let mut ahead = [0; 1];
        while message::length(&bytes).is_none() {
            tokio::select! {
                read = self.server.read_buf(&mut bytes) => match read {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return Goes::Ended,
                },
                // Nobody sends a second request before the first is answered: this is an end.
                _ = self.client.peek(&mut ahead) => return Goes::Ended,
            }
        }
        self.see(|seen| seen.answer = before + bytes.len());
        let due = due(fault, Side::Answer, before, bytes.len());
        let at = due.map_or(bytes.len(), |(at, _)| at);
        if self.client.write_all(&bytes[..at]).await.is_err() {
            return Goes::Ended;
        }
        self.see(|seen| seen.whole_answer = at == bytes.len());
        if let Some((_, kind)) = due {
            *fault = None;
            if self.strike(kind).await == Goes::Ended {
                return Goes::Ended;
            }
        }
        let rest = self.client.write_all(&bytes[at..]).await;
        self.see(|seen| seen.whole_answer = true);
        rest.map_or(Goes::Ended, |()| Goes::On)
    }

    async fn strike(&mut self, kind: Kind) -> Goes {
        match kind {
            Kind::Refuse | Kind::Cut => Goes::Ended,
            Kind::Reset => {
                self.client.set_zero_linger().unwrap();
                self.server.set_zero_linger().unwrap();
                Goes::Ended
            }
            Kind::Stall(hold) => {
                // Until the caller gives up.
                let mut ignored = Vec::new();
                let gone =
                    async { while matches!(self.client.read_buf(&mut ignored).await, Ok(1..)) {} };
                let _gone = timeout(hold, gone).await;
                Goes::Ended
            }
            Kind::Split => {
                sleep(APART).await;
                Goes::On
            }
        }
    }
}

/// Where in a message the fault strikes, of which `length` bytes are there behind `before` others.
fn due(fault: &Option<Fault>, side: Side, before: usize, length: usize) -> Option<(usize, Kind)> {
    let fault = fault.as_ref().filter(|fault| fault.side == side)?;
    let at = fault.at.checked_sub(before)?;
    (at <= length).then_some((at, fault.kind))
}
