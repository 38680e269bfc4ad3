//! One signal for many who wait.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;

/// A future that many can wait for, at any time. Clones wait for the same one.
#[derive(Clone)]
pub(super) struct Signal {
    /// `None` once it is ready.
    source: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
    waiting: Arc<Waiting>,
}

/// Those who wait. All of them are woken with the source.
#[derive(Default)]
struct Waiting {
    wakers: Mutex<Vec<Waker>>,
}

impl Signal {
    pub(super) fn new(source: BoxFuture<'static, ()>) -> Self {
        Self {
            source: Arc::new(Mutex::new(Some(source))),
            waiting: Arc::default(),
        }
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut source = lock(&self.source);
        let Some(future) = source.as_mut() else {
            return Poll::Ready(());
        };
        // Before the source is asked, so that no wake of it is missed.
        let mut wakers = lock(&self.waiting.wakers);
        wakers.retain(|waker| !waker.will_wake(context.waker()));
        wakers.push(context.waker().clone());
        drop(wakers);
        let all = Waker::from(Arc::clone(&self.waiting));
        let polled = future.as_mut().poll(&mut Context::from_waker(&all));
        if polled.is_ready() {
            *source = None;
            drop(source);
            all.wake();
        }
        polled
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let wakers = mem::take(&mut *lock(&self.wakers));
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn all_who_wait_are_woken_and_whoever_comes_later_too() {
        let source = tokio::spawn(async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        });
        let signal = Signal::new(source.map(drop).boxed());
        assert_eq!(signal.clone().now_or_never(), None);
        // In tasks of their own, so that each has a waker of its own.
        let one = tokio::spawn(signal.clone());
        let other = tokio::spawn(signal.clone());
        assert_eq!((one.await.unwrap(), other.await.unwrap()), ((), ()));
        assert_eq!(signal.now_or_never(), Some(()));
    }
}
