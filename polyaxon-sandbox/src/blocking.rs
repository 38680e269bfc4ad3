//! The one door to the threads for blocking work on files of this machine.

use std::future::Future;
use std::io;

/// Starts blocking work off the async threads, now, and returns what waits for its end.
///
/// Dropping the future does not stop work that has begun: it ends by itself, its result unseen.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> impl Future<Output = io::Result<T>> + Send {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the rule names"
    )]
    let running = tokio::task::spawn_blocking(work);
    async {
        running
            .await
            .unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }
}
