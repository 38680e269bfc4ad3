//! A word that is said once and heard by everyone who waits for it: close.

use tokio::sync::watch;

/// Says it. Dropping it says it too.
#[derive(Debug)]
pub(crate) struct Closer(watch::Sender<bool>);

/// Hears it, however late it listens.
#[derive(Clone, Debug)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closer {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) fn listen(&self) -> Closing {
        Closing(self.0.subscribe())
    }
}

impl Closing {
    /// Until it is said.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call hears it at once.
    pub(crate) async fn heard(&mut self) {
        // An error is a dropped `Closer`.
        let _said = self.0.wait_for(|closed| *closed).await;
    }
}
