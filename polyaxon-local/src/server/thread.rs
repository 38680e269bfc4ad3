//! The threads that a server lives on.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::listen;
use crate::auth::Secret;
use crate::closing::{Closer, Closing};
use crate::control::Control;
use crate::daemon::{self, Sandbox};
use crate::error::Error;
use crate::faults::Faults;
use crate::folder;
use crate::gateway;
use crate::limits::Limits;
use crate::quirks::Quirks;
use crate::routes;

/// How long a drop waits for the server's end.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// How long calls under way get once a server with all its runs stops.
const CONNECTION_GRACE: Duration = Duration::from_secs(2);
/// How long the runs get to end; their processes are killed at once.
const RUNS_LIMIT: Duration = Duration::from_secs(5);
/// How long file work gets that nobody waits for any more.
const BLOCKING_LIMIT: Duration = Duration::from_secs(1);

/// What is served.
pub(super) enum Service {
    /// Everything on one address, and the folder that goes with it.
    Plane(Box<Control>, TempDir),
    /// One daemon.
    Daemon(Box<Daemon>),
}

/// One daemon for the file system that the service runs in.
pub(super) struct Daemon {
    pub(super) workdir: PathBuf,
    /// Where records and logs of execs are kept.
    pub(super) state: PathBuf,
    pub(super) token: Secret,
    pub(super) limits: Limits,
    pub(super) quirks: Quirks,
    /// How long calls and commands get at the end.
    pub(super) grace: Duration,
}

/// A server that runs on threads of its own. Dropping it waits for its end.
#[derive(Debug)]
pub(super) struct Thread {
    stop: Closer,
    /// Both say how it ended: one for `stop`, one for `drop`.
    ended: Option<oneshot::Receiver<Result<(), Error>>>,
    dropped: Mutex<mpsc::Receiver<()>>,
}

impl Thread {
    /// Serves on `listener` until it is stopped or dropped. When this returns, it answers.
    ///
    /// A runtime of its own makes the server independent of its caller's: a caller that blocks its
    /// only thread still gets answers, one whose runtime ends loses no task in the middle of a
    /// clean-up, and the end of the server can be waited for from anywhere.
    pub(super) async fn start(
        listener: TcpListener,
        service: Service,
        faults: Faults,
    ) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("polyaxon-local")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Error::Runtime)?
        };
        let stop = Closer::new();
        let stopped = stop.listen();
        let (ready_sender, ready) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let (dropped_sender, dropped) = mpsc::channel();
        thread::Builder::new()
            .name("polyaxon-local".to_owned())
            .spawn(move || {
                let result = run(runtime, listener, service, faults, stopped, ready_sender);
                // Whoever waits for one of the two does not wait for the other.
                let _stopped = ended_sender.send(result);
                let _dropped = dropped_sender.send(());
            })
            .map_err(Error::Runtime)?;
        let thread = Self {
            stop,
            ended: Some(ended),
            dropped: Mutex::new(dropped),
        };
        match ready.await {
            Ok(()) => Ok(thread),
            // It ended before it served, and says why.
            Err(_) => match thread.stop().await {
                Ok(()) => Err(lost()),
                Err(error) => Err(error),
            },
        }
    }

    pub(super) async fn stop(mut self) -> Result<(), Error> {
        self.stop.close();
        match self.ended.take() {
            Some(ended) => ended.await.unwrap_or_else(|_| Err(lost())),
            None => Ok(()),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.close();
        let dropped = self
            .dropped
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // An error is a closed channel: the thread has ended.
        let _ended = dropped.recv_timeout(DROP_LIMIT);
    }
}

fn lost() -> Error {
    Error::Stop {
        left: "its threads ended by a panic".to_owned(),
    }
}

fn run(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    service: Service,
    faults: Faults,
    stopped: Closing,
    ready: oneshot::Sender<()>,
) -> Result<(), Error> {
    match service {
        Service::Plane(control, folder) => {
            let control = Arc::new(*control);
            let router = routes::router(Arc::clone(&control));
            let close = async { control.close(RUNS_LIMIT).await };
            let _starter_waits = ready.send(());
            let served = serve(listener, router, faults, CONNECTION_GRACE, stopped, close);
            runtime.block_on(served);
            runtime.shutdown_timeout(BLOCKING_LIMIT);
            // By hand, since a sandbox can hold directories that were made unreadable.
            let path = folder.keep();
            folder::remove_now(&path).map_err(|error| Error::Stop {
                left: format!("{} could not be removed: {error}", path.display()),
            })
        }
        Service::Daemon(daemon) => {
            let Daemon {
                workdir,
                state,
                token,
                limits,
                quirks,
                grace,
            } = *daemon;
            let opened = Sandbox::here(&workdir, &state, token.clone(), limits);
            let mut sandbox = runtime.block_on(opened).map_err(|source| Error::State {
                folder: state,
                source,
            })?;
            sandbox.quirks = quirks;
            let sandbox = Arc::new(sandbox);
            let router = gateway::alone(daemon::router(Arc::clone(&sandbox)), token);
            let close = async { sandbox.close(grace).await };
            let _starter_waits = ready.send(());
            runtime.block_on(serve(listener, router, faults, grace, stopped, close));
            runtime.shutdown_timeout(BLOCKING_LIMIT);
            Ok(())
        }
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    faults: Faults,
    grace: Duration,
    stopped: Closing,
    close: impl Future<Output = ()>,
) {
    let mut told = stopped.clone();
    let connections = listen::serve(listener, router, faults, told.heard(), grace);
    let rest = async {
        let mut stopped = stopped.clone();
        stopped.heard().await;
        close.await;
    };
    tokio::join!(connections, rest);
}
