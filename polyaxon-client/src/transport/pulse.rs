//! Whether a body is still on its way: for calls whose length no limit can know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// When something moved last, and how much longer than the limit may pass until the next thing does.
#[derive(Clone, Debug)]
pub(super) struct Pulse(Arc<Mutex<(Instant, Duration)>>);

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), Duration::ZERO))))
    }

    /// Something moved. The next thing may take so much longer.
    pub(super) fn beat(&self, longer: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), longer);
    }

    fn due(&self, limit: Duration) -> Instant {
        let (last, longer) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last + limit + longer
    }

    /// What comes of the call; `None` once nothing has moved for as long as `limit`.
    pub(super) async fn watch<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let mut call = std::pin::pin!(call);
        self.beat(Duration::ZERO);
        loop {
            let due = self.due(limit);
            tokio::select! {
                done = &mut call => return Some(done),
                () = sleep_until(due) => if self.due(limit) <= Instant::now() {
                    return None;
                },
            }
        }
    }
}
