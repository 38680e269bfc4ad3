//! Connections: accepted, served, and ended with the server. Each is a task that belongs to the
//! accept loop, so that none outlives it.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::closing::{Closer, Closing};
use crate::faults::Faults;

/// How long a connection may be silent between two calls: as long as the platform's gateway keeps
/// one open, so that a client's pool meets no surprise here.
const IDLE: Duration = Duration::from_secs(650);

/// Serves `router` on `listener` until `shutdown`, then gives what is under way `grace` to end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    faults: Faults,
    shutdown: impl Future<Output = ()>,
    grace: Duration,
) {
    let closing = Closer::new();
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((_, caller)) if faults.refuses_connection() => {
                    tracing::info!(%caller, "a connection is refused on purpose");
                }
                Ok((stream, _)) => {
                    let (router, faults) = (router.clone(), faults.clone());
                    connections.spawn(connection(stream, router, faults, closing.listen()));
                }
                Err(error) => pause_after(&error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    closing.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    // Past the grace the set is dropped, which closes what is left.
    let _in_time = tokio::time::timeout(grace, ended).await;
}

async fn connection(stream: TcpStream, router: Router, faults: Faults, mut closing: Closing) {
    // A small answer must not wait for the next one.
    let _default = stream.set_nodelay(true);
    let service = service_fn(move |request| faults.clone().serve(router.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.heard() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke off");
    }
}

/// Without free descriptors `accept` fails at once, again and again.
async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "a connection was not accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}
