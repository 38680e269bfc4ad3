//! Futures that are dropped before they are ready.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls `future` at most `polls` times, whenever it is woken, and drops it then. `None` where it
/// was not ready by then.
///
/// With 0, 1, 2 … polls, until it once is ready, each place is met where a call can be dropped.
pub async fn poll_n<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// As [`poll_n`], but drops the future only when it is woken once more: what it waited for is there
/// then, and nobody has looked at it.
pub async fn woken_n<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn twice_pending() -> u8 {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        7
    }

    #[tokio::test]
    async fn a_future_is_polled_as_often_as_was_said() {
        let want = [None, None, None, Some(7), Some(7)];
        for (polls, want) in [0, 1, 2, 3, 9].into_iter().zip(want) {
            assert_eq!(poll_n(twice_pending(), polls).await, want, "{polls}");
            assert_eq!(woken_n(twice_pending(), polls).await, want, "{polls}");
        }
    }
}
