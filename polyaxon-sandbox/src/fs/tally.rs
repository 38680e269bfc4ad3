//! What a transfer costs, and how often it tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;

/// How often one step of a transfer is tried in a row.
const ATTEMPTS: u32 = 6;
/// The first pause; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(50);
/// What a service may ask to wait at most; who asks for more gets the error back.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Counts the requests of a transfer. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    retries: AtomicU64,
}

impl Tally {
    pub(super) fn request(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    pub(super) fn retries(&self) -> u64 {
        self.0.retries.load(Ordering::Relaxed)
    }
}

/// The attempts of one step. The transport does not repeat these calls by itself: here it is known
/// how far the step came.
#[derive(Debug)]
pub(super) struct Attempts {
    left: u32,
    pause: Duration,
    tally: Tally,
}

impl Attempts {
    pub(super) fn new(tally: &Tally) -> Self {
        Self {
            left: ATTEMPTS - 1,
            pause: PAUSE,
            tally: tally.clone(),
        }
    }

    /// Waits before the next attempt, or gives the error back where another one is of no use.
    /// Whether it is safe is the caller's to know.
    pub(super) async fn again_after(&mut self, error: Error) -> Result<(), Error> {
        let asked = match error.as_client() {
            Some(polyaxon_client::Error::Api(answer)) => answer.retry_after(),
            _ => None,
        };
        let wait = asked.map_or(self.pause, |asked| asked.max(self.pause));
        if self.left == 0 || !error.is_retryable() || wait > LONGEST_PAUSE {
            return Err(error);
        }
        self.left -= 1;
        self.pause *= 2;
        self.tally.0.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// All attempts again: the last one came a step further.
    pub(super) fn renew(&mut self) {
        self.left = ATTEMPTS - 1;
        self.pause = PAUSE;
    }
}
