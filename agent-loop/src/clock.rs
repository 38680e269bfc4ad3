//! Time and chance, in one place, so that tests need neither.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;

/// Where an attempt takes the time from, and chance.
pub trait Clock: Send + Sync {
    /// What a clock on the wall says.
    fn now(&self) -> Timestamp;

    /// How much time has passed since some moment that does not change. Never goes back.
    fn elapsed(&self) -> Duration;

    /// Waits.
    fn sleep(&self, length: Duration) -> BoxFuture<'_, ()>;

    /// A number from 0 to below 1.
    fn random(&self) -> f64;
}

/// The clock of the machine.
#[derive(Clone, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The clock, started now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(length).boxed()
    }

    fn random(&self) -> f64 {
        // The standard library's only source of chance: keys of its hash maps. Good enough to
        // spread retries, and no reason for a dependency.
        let bits = RandomState::new().build_hasher().finish() >> 32;
        f64::from(u32::try_from(bits).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_spread_over_its_range() {
        let clock = SystemClock::new();
        let mut tenths = [0; 10];
        for _ in 0..1000 {
            let x = clock.random();
            assert!((0.0..1.0).contains(&x));
            let tenth = (0..10)
                .rfind(|tenth| x >= f64::from(*tenth) / 10.0)
                .unwrap();
            tenths[usize::try_from(tenth).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| *count > 40), "{tenths:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_is_as_long_as_asked() {
        let before = tokio::time::Instant::now();
        SystemClock::new().sleep(Duration::from_secs(7)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(7));
    }
}
