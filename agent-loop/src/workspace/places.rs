//! Where fresh places come from.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

use super::{StopState, Workspace, WorkspaceError};
use crate::ids::RequestId;
use crate::private::Private;

/// Makes new places that share nothing with the one that a model edits: a sandbox each.
///
/// A place costs as long as it is there, so it has a name before it is made. For each stage of a
/// check that needs one, an attempt calls [`announce`](Self::announce), keeps what it says in the
/// journal, synced, and then calls [`fresh_as`](Self::fresh_as) with it. Whoever was not told what
/// came of that (the program was ended, the call was given up, the answer was lost) calls
/// [`end`](Self::end) with the same value, and no other place is made before it has answered. An
/// evaluation does the same for each try of a case, and keeps what is said in `workspace.json`.
///
/// Only [`fresh`](Self::fresh) has to be written. With it alone places can be made and not be found
/// again: the journal then says that there may be one, and what bounds its life is up to it.
///
/// # Examples
/// Places that are found again by a number:
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex, PoisonError};
/// use agent_loop::workspace::{StopState, Workspaces};
/// use agent_loop::{ExecReceipt, MemoryWorkspace, RequestId, Workspace, WorkspaceError};
/// use futures::future::{BoxFuture, FutureExt as _, ready};
/// use serde_json::{Value, json};
///
/// #[derive(Default)]
/// struct Numbered {
///     next: Mutex<u64>,
///     made: Mutex<BTreeMap<u64, MemoryWorkspace>>,
/// }
///
/// impl Workspaces for Numbered {
///     fn fresh<'a>(
///         &'a self,
///         id: &'a RequestId,
///     ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
///         async move { self.fresh_as(id, &self.announce(id)).await }.boxed()
///     }
///
///     fn announce(&self, _id: &RequestId) -> Value {
///         let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
///         *next += 1;
///         json!({"number": *next})
///     }
///
///     fn fresh_as<'a>(
///         &'a self,
///         _id: &'a RequestId,
///         announced: &'a Value,
///     ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
///         let place = MemoryWorkspace::new(|_, _| Ok(ExecReceipt::exited(0)));
///         let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
///         made.insert(announced["number"].as_u64().unwrap_or(0), place.clone());
///         ready(Ok(Arc::new(place) as Arc<dyn Workspace>)).boxed()
///     }
///
///     fn end<'a>(&'a self, _id: &'a RequestId, said: &'a Value) -> BoxFuture<'a, StopState> {
///         let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
///         let was_there = said["number"].as_u64().and_then(|number| made.remove(&number));
///         let state = was_there.map_or(StopState::NotRequested, |_| StopState::Confirmed);
///         ready(state).boxed()
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let places = Numbered::default();
/// let id = "t-1.1.1".parse()?;
/// let announced = places.announce(&id);
/// assert_ne!(places.announce(&id), announced);
/// // The program is ended here or later: what it has made is found by what it wrote down before.
/// drop(places.fresh_as(&id, &announced).await?);
/// assert_eq!(places.end(&id, &announced).await, StopState::Confirmed);
/// assert_eq!(places.end(&id, &announced).await, StopState::NotRequested);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Workspaces: Send + Sync {
    /// A new, empty place. [`Workspace::stop`] ends it. Each call makes another one, also for the
    /// same `id`.
    ///
    /// # Errors
    /// [`WorkspaceError::Uncertain`] where a place may be there that nobody has got; with every
    /// other error there is none, or its end was asked for.
    ///
    /// # Cancel safety
    /// Dropping the future can leave a place behind that nobody knows of.
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>>;

    /// What the place that is about to be made for `id` will be found by: where, and a name that
    /// no other place has, those of other programs and an earlier one for the same `id` included.
    /// Nothing is sent. It is kept in the journal, so no secrets. An attempt calls it once before
    /// each [`fresh_as`](Self::fresh_as). Default: null, where places cannot be found.
    fn announce(&self, _id: &RequestId) -> Value {
        Value::Null
    }

    /// As [`fresh`](Self::fresh), the place that was announced: it can be found by `announced` from
    /// the moment on in which it is there. An attempt calls it once for each announcement, after
    /// that is in the journal. Default: [`fresh`](Self::fresh).
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    ///
    /// # Cancel safety
    /// Dropping the future can leave a place behind; [`end`](Self::end) finds it by `announced`.
    fn fresh_as<'a>(
        &'a self,
        id: &'a RequestId,
        _announced: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.fresh(id)
    }

    /// The place that an earlier program has made for `id`, as it is now, with the command in it.
    /// `identity` is what the place said of itself, [`Workspace::identity`]. Called once by an
    /// attempt that goes on, where its program was ended after the place was there and before the
    /// receipt of its command; and by an evaluation for a try that was broken off. Nothing is changed. What the command has shown counts where the place
    /// can do what it [could](Workspace::capabilities) before. Default: it cannot be found again.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] where it is not there any more; [`WorkspaceError::Uncertain`]
    /// where nobody can tell, which is the default. The command then runs in another place, and
    /// [`end`](Self::end) is called for this one before that.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn reopen<'a>(
        &'a self,
        _id: &'a RequestId,
        _identity: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        let unknown = Private::new("fresh places are not looked up");
        ready(Err(WorkspaceError::Uncertain(unknown))).boxed()
    }

    /// Asks for the end of a place that nobody holds, and waits for it within reason: at most a
    /// minute, after which an attempt goes on. `said` is what was announced, or where the place was
    /// made what it said of itself. Called by an attempt whose call of [`fresh_as`](Self::fresh_as)
    /// was given up or is uncertain, and by one that goes on, for each place whose end its journal
    /// does not tell. Harmless to repeat.
    ///
    /// Default: what can be [reopened](Self::reopen) is [stopped](Workspace::stop).
    ///
    /// | answer | what it says |
    /// |---|---|
    /// | [`Confirmed`](StopState::Confirmed) | it is not there any more |
    /// | [`Requested`](StopState::Requested) | it was found, and will end |
    /// | [`Failed`](StopState::Failed) | it was looked for, or its end asked for, in vain |
    /// | [`NotRequested`](StopState::NotRequested) | none was found, or there is no way to look: one may be left |
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the end was asked for.
    fn end<'a>(&'a self, id: &'a RequestId, said: &'a Value) -> BoxFuture<'a, StopState> {
        async move {
            match self.reopen(id, said).await {
                Ok(place) => place.stop().await,
                Err(WorkspaceError::NotFound | WorkspaceError::Gone(_)) => StopState::Confirmed,
                Err(_) => StopState::NotRequested,
            }
        }
        .boxed()
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Workspaces + ?Sized> Workspaces for $type {
            fn fresh<'a>(
                &'a self,
                id: &'a RequestId,
            ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
                (**self).fresh(id)
            }

            fn announce(&self, id: &RequestId) -> Value {
                (**self).announce(id)
            }

            fn fresh_as<'a>(
                &'a self,
                id: &'a RequestId,
                announced: &'a Value,
            ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
                (**self).fresh_as(id, announced)
            }

            fn reopen<'a>(
                &'a self,
                id: &'a RequestId,
                identity: &'a Value,
            ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
                (**self).reopen(id, identity)
            }

            fn end<'a>(&'a self, id: &'a RequestId, said: &'a Value) -> BoxFuture<'a, StopState> {
                (**self).end(id, said)
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Arc<dyn Workspaces>>();
};
