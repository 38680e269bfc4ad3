//! A proxy of one service for one call, which goes wrong at one byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::cases::{Fault, Kind, Often, Side};
use crate::message;

/// How long pieces are apart.
const APART: Duration = Duration::from_millis(1);

/// What went through, of the last connection where there were several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How many connections were accepted.
    pub(crate) connections: usize,
    /// Bytes that came from the caller.
    pub(crate) request: usize,
    /// Bytes of the service's answer, as far as it was read.
    pub(crate) answer: usize,
    /// Whether the caller was sent all of an answer.
    pub(crate) whole_answer: bool,
}

/// It serves until its end. Each connection is served to its end before the next: a caller that
/// sends again does so when the first has failed.
pub(crate) struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Proxy {
    pub(crate) fn start(service: SocketAddr, fault: Option<Fault>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        let serving = match fault {
            // The port is ours, and nobody listens.
            Some(fault) if fault.kind == Kind::Refuse => tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(socket);
            }),
            _ => {
                let listener = socket.listen(16).unwrap();
                tokio::spawn(serve(listener, service, fault, Arc::clone(&seen)))
            }
        };
        Self {
            address,
            seen,
            serving,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn end(self) -> Seen {
        self.serving.abort();
        let _aborted = self.serving.await;
        *self.seen.lock().unwrap()
    }
}

async fn serve(
    listener: TcpListener,
    service: SocketAddr,
    fault: Option<Fault>,
    seen: Arc<Mutex<Seen>>,
) {
    let mut left = match fault.as_ref().map(|fault| fault.often) {
        None => 0,
        Some(Often::Once) => 1,
        Some(Often::Always) => usize::MAX,
    };
    while let Ok((client, _)) = listener.accept().await {
        let connections = seen.lock().unwrap().connections + 1;
        *seen.lock().unwrap() = Seen {
            connections,
            ..Seen::default()
        };
        let fault = fault.filter(|_| left > 0);
        left = left.saturating_sub(1);
        let pair = Pair {
            server: TcpStream::connect(service).await.unwrap(),
            client,
            seen: Arc::clone(&seen),
        };
        pair.exchange(fault).await;
    }
}

/// Both ends of a connection.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    seen: Arc<Mutex<Seen>>,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Ended,
}

impl Pair {
    /// Hands over requests and answers until one side ends.
    async fn exchange(mut self, fault: Option<Fault>) {
        let at = |side| {
            let fault = fault.filter(|fault| fault.side == side)?;
            Some((fault.at, fault.kind))
        };
        let (in_request, in_answer) = (at(Side::Request), at(Side::Answer));
        self.client.set_nodelay(true).unwrap();
        self.server.set_nodelay(true).unwrap();
        // What comes later on the connection gets through.
        let mut faults = (in_request, in_answer);
        while self.request(faults.0).await == Goes::On && self.answer(faults.1).await == Goes::On {
            faults = (None, None);
        }
    }

    async fn request(&mut self, fault: Option<(usize, Kind)>) -> Goes {
        let (mut bytes, mut sent) = (Vec::new(), 0);
        loop {
            if let Some((at, kind)) = fault
                && sent == 0
                && bytes.len() >= at
            {
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
                Ok(1..) => {
                    let mut seen = self.seen.lock().unwrap();
                    seen.request = bytes.len();
                    seen.whole_answer = false;
                }
                Ok(0) | Err(_) => return Goes::Ended,
            }
        }
    }

    async fn answer(&mut self, fault: Option<(usize, Kind)>) -> Goes {
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
        self.seen.lock().unwrap().answer = bytes.len();
        let at = fault.map_or(bytes.len(), |(at, _)| at.min(bytes.len()));
        if self.client.write_all(&bytes[..at]).await.is_err() {
            return Goes::Ended;
        }
        self.seen.lock().unwrap().whole_answer = at == bytes.len();
        if let Some((_, kind)) = fault
            && self.strike(kind).await == Goes::Ended
        {
            return Goes::Ended;
        }
        let rest = self.client.write_all(&bytes[at..]).await;
        self.seen.lock().unwrap().whole_answer = true;
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
