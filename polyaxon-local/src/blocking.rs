//! The one door to the threads for blocking work.

use std::io;

/// Runs blocking file work off the async threads.
///
/// Dropping the future does not stop work that has begun: it ends by itself, its result unseen.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the rule names"
    )]
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|lost| Err(io::Error::other(lost)))
}
