//! Futures that are dropped after so many polls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls `future` up to `count` times, each time it asks to be, and drops it when it asks once
/// more: `None` then.
pub async fn polled<F: Future>(count: u64, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = count;
    std::future::poll_fn(|cx| poll_counted(future.as_mut(), &mut left, cx)).await
}

fn poll_counted<F: Future>(
    future: Pin<&mut F>,
    left: &mut u64,
    cx: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    if *left == 0 {
        return Poll::Ready(None);
    }
    *left -= 1;
    future.poll(cx).map(Some)
}
