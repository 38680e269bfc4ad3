//! Ends that the program does not choose: signals and panics.

use std::sync::{Arc, Mutex, PoisonError};

use super::TrackedRun;
use crate::error::Error;
use crate::record::Ending;
use crate::report::Report;

/// The message of the last panic that was noted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastPanic(Arc<Mutex<Option<String>>>);

impl LastPanic {
    fn note(&self, message: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl TrackedRun {
    /// Waits until the process is asked to end, by SIGTERM or SIGINT, and then ends the run as
    /// stopped, with the reason `Signal`. The program ends itself after that. Used in a
    /// `select!` beside the work:
    ///
    /// ```
    /// # async fn work() {}
    /// # async fn example(run: polyaxon_tracking::TrackedRun)
    /// # -> Result<(), polyaxon_tracking::Error> {
    /// tokio::select! {
    ///     () = work() => run.end().await?.ensure_complete()?,
    ///     stopped = run.end_on_signal() => stopped?.ensure_complete()?,
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// From the first call on, the two signals end the process no more by themselves: that cannot
    /// be taken back.
    ///
    /// # Errors
    /// As [`end_with`](Self::end_with); [`Error::Read`] where signals cannot be received.
    ///
    /// # Cancel safety
    /// Dropping the future before a signal leaves the run going on, here and on the server. After
    /// one it is as [`end_with`](Self::end_with).
    #[cfg(unix)]
    pub async fn end_on_signal(&self) -> Result<Report, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Read)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Read)?;
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        let ending = Ending::stopped_because(format!("The process got {name}"));
        self.end_with(ending.reason("Signal")).await
    }

    /// Notes panics from now on, on all threads: a run that is dropped without being ended then
    /// says which was the last, with the reason `Panicked`, instead of `NotEnded`. A panic that is
    /// caught, as a task's is, ends no run.
    ///
    /// This adds a panic hook before the one that is there, which goes on as before. Where panics
    /// abort the process, what was taken is on the disk and nothing more.
    pub fn note_panics(&self) {
        let noted = Arc::downgrade(&self.panics.0);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(noted) = noted.upgrade() {
                let place = panic.location().map(|at| format!(" at {at}"));
                let payload = panic.payload();
                let text = payload
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("no message");
                LastPanic(noted).note(format!("Panicked{}: {text}", place.unwrap_or_default()));
            }
            before(panic);
        }));
    }
}
