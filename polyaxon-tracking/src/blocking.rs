//! Work on files, away from the runtime's own threads.

use crate::error::Error;

/// Does what may block. Dropping the future does not stop it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    #[expect(clippy::disallowed_methods, reason = "the one place for it")]
    let done = tokio::task::spawn_blocking(work);
    done.await.map_err(|_| Error::RuntimeGone)
}
