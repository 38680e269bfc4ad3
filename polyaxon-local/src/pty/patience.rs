//! How long a client is waited for: only the time counts in which this process was there to wait.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The parts of a limit. A part that is over counts once, however late that is noticed.
const PARTS: u32 = 4;

/// A limit that does not run out while this process is stopped, or its machine is: what a client
/// has sent meanwhile is still to be read, and what it was to be sent is still to be written. Of
/// such a time no more than a quarter of the limit counts.
#[derive(Debug)]
pub(super) struct Patience {
    part: Duration,
    /// Parts that are not over.
    left: u32,
    part_ends: Instant,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        let part = limit / PARTS;
        Self {
            part,
            left: PARTS,
            part_ends: Instant::now() + part,
        }
    }

    /// Waits from here on as if nothing had been waited for yet.
    pub(super) fn renew(&mut self) {
        self.left = PARTS;
        self.part_ends = Instant::now() + self.part;
    }

    /// What `work` gives, or nothing once the limit has run out, over all calls.
    ///
    /// # Cancel safety
    /// That of `work`; the time that was waited counts.
    pub(super) async fn wait<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            // What is there counts, also where it is looked at too late.
            if let Ok(done) = timeout_at(self.part_ends, &mut work).await {
                return Some(done);
            }
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                return None;
            }
            self.part_ends = Instant::now() + self.part;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn it_runs_out_at_its_limit_over_all_calls() {
        let begun = Instant::now();
        let mut patience = Patience::new(LIMIT);
        for _ in 0..5 {
            let done = patience.wait(sleep(Duration::from_secs(10))).await;
            assert_eq!(done, Some(()));
        }
        assert_eq!(patience.wait(pending::<()>()).await, None);
        assert_eq!(begun.elapsed().as_secs(), 60);
        // What is there at once is taken even then.
        assert_eq!(patience.wait(ready(7)).await, Some(7));
        patience.renew();
        assert_eq!(
            patience.wait(sleep(LIMIT - Duration::from_secs(1))).await,
            Some(())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_in_which_nobody_was_there_counts_as_a_quarter_at_most() {
        let mut patience = Patience::new(LIMIT);
        // The process is stopped while it waits, for much longer than the limit.
        let stopped = async {
            advance(20 * LIMIT).await;
            sleep(Duration::from_secs(44)).await;
        };
        assert_eq!(patience.wait(stopped).await, Some(()));
        // And while it does something else.
        let mut patience = Patience::new(LIMIT);
        advance(20 * LIMIT).await;
        assert_eq!(
            patience.wait(sleep(Duration::from_secs(44))).await,
            Some(())
        );
        assert_eq!(patience.wait(sleep(Duration::from_secs(2))).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_counts() {
        let begun = Instant::now();
        let mut patience = Patience::new(LIMIT);
        for _ in 0..5 {
            tokio::select! {
                _ = patience.wait(pending::<()>()) => unreachable!("fifty seconds are no minute"),
                () = sleep(Duration::from_secs(10)) => {}
            }
        }
        assert_eq!(patience.wait(pending::<()>()).await, None);
        assert_eq!(begun.elapsed().as_secs(), 60);
    }
}
