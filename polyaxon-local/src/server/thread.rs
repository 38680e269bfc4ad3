//! The threads that a server lives on.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::listen;
use crate::closing::Closing;
use crate::control::Control;
use crate::error::Error;
use crate::folder;
use crate::routes;

/// How long calls under way get once the server stops.
const CONNECTION_GRACE: Duration = Duration::from_secs(2);
/// How long the runs get to end; their processes are killed at once.
const RUNS_LIMIT: Duration = Duration::from_secs(5);
/// How long file work gets that nobody waits for any more.
const BLOCKING_LIMIT: Duration = Duration::from_secs(1);

/// Starts a thread that serves until `stopped` says so, removes `folder` and tells `ended`.
///
/// A runtime of its own makes the server independent of its caller's: a caller that blocks its only
/// thread still gets answers, one whose runtime ends loses no task in the middle of a clean-up, and
/// the end of the server can be waited for from anywhere.
pub(super) fn start(
    listener: TcpListener,
    control: Control,
    folder: TempDir,
    stopped: Closing,
    ended: impl FnOnce(Result<(), Error>) + Send + 'static,
) -> Result<(), Error> {
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
    thread::Builder::new()
        .name("polyaxon-local".to_owned())
        .spawn(move || ended(run(runtime, listener, control, folder, stopped)))
        .map_err(Error::Runtime)?;
    Ok(())
}

fn run(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    control: Control,
    folder: TempDir,
    mut stopped: Closing,
) -> Result<(), Error> {
    let control = Arc::new(control);
    let router = routes::router(Arc::clone(&control));
    let serving = async {
        let mut told = stopped.clone();
        let connections = listen::serve(listener, router, told.heard(), CONNECTION_GRACE);
        let runs = async {
            stopped.heard().await;
            control.close(RUNS_LIMIT).await;
        };
        tokio::join!(connections, runs)
    };
    runtime.block_on(serving);
    runtime.shutdown_timeout(BLOCKING_LIMIT);
    // By hand, since a sandbox can hold directories that were made unreadable.
    let path = folder.keep();
    folder::remove_now(&path).map_err(|error| Error::Stop {
        left: format!("{} could not be removed: {error}", path.display()),
    })
}
