//! Fresh places: in the journal before they are asked for, and ended by that where nobody has got
//! them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Book, FILES_LIMIT, Places, stop, within};
use crate::ids::RequestId;
use crate::journal::{Durability, Event, Left, Placed, Placing};
use crate::play::LeftOver;
use crate::private::Private;
use crate::workspace::{StopState, Workspace, WorkspaceError};

/// How long a fresh place may take. A sandbox has to be scheduled, and its image pulled.
const FRESH_LIMIT: Duration = Duration::from_secs(900);

/// A place of a command, for the driver to remove.
pub(super) enum Used {
    /// One in the sandbox of the workspace.
    Here(Arc<dyn Workspace>),
    /// A fresh one.
    Fresh {
        id: RequestId,
        place: Arc<dyn Workspace>,
    },
    /// A fresh one that was asked for, and that nobody holds.
    Named { id: RequestId, said: Value },
}

impl Places<'_> {
    /// Asks for a fresh place. From the moment on in which it can be there, `left` has what ends it.
    pub(super) async fn fresh(
        &self,
        id: &RequestId,
        book: &mut Book,
        left: &mut Option<Used>,
    ) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        let failed = |detail| Err(WorkspaceError::Failed(Private::new(detail)));
        let Some(fresh) = self.fresh else {
            return failed("nobody makes fresh places");
        };
        let announced = fresh.announce(id);
        let placing = Placing {
            id: id.clone(),
            announced: announced.clone(),
        };
        keep(book, Event::Placing(placing))?;
        *left = Some(Used::Named {
            id: id.clone(),
            said: announced.clone(),
        });
        match within(self.clock, FRESH_LIMIT, fresh.fresh_as(id, &announced)).await {
            Some(Ok(place)) => {
                *left = Some(Used::Fresh {
                    id: id.clone(),
                    place: Arc::clone(&place),
                });
                let placed = Placed {
                    id: id.clone(),
                    identity: place.identity(),
                };
                keep(book, Event::Placed(placed))?;
                Ok(place)
            }
            Some(Err(error)) => {
                // Of nothing else than this one can be left.
                if !matches!(error, WorkspaceError::Uncertain(_)) {
                    *left = None;
                }
                Err(error)
            }
            None => failed("no fresh place within the limit"),
        }
    }

    /// The fresh place that an earlier program had, where it is still there.
    ///
    /// One of which it is not known that it was ready is not used: what was done in it is not known
    /// either, and another one costs some seconds.
    pub(super) async fn fresh_again(&self, before: &LeftOver) -> Option<Arc<dyn Workspace>> {
        let fresh = self.fresh.filter(|_| before.is_made)?;
        let reopened = self.reading(fresh.reopen(&before.id, &before.said)).await;
        reopened.ok()
    }

    /// Removes a place. Of a fresh one, how far its end has come.
    pub(super) async fn leave(&self, used: Used) -> Option<Left> {
        match used {
            Used::Here(place) => {
                stop(&*place, self.clock).await;
                None
            }
            Used::Fresh { id, place } => {
                let stop = stop(&*place, self.clock).await;
                Some(Left { id, stop })
            }
            Used::Named { id, said } => {
                let stop = self.end(&id, &said).await;
                Some(Left { id, stop })
            }
        }
    }

    async fn end(&self, id: &RequestId, said: &Value) -> StopState {
        let Some(fresh) = self.fresh else {
            return StopState::NotRequested;
        };
        let state = within(self.clock, FILES_LIMIT, fresh.end(id, said)).await;
        state.unwrap_or_else(|| StopState::failed(Private::new("no answer within the limit")))
    }
}

/// Whoever cleans up after a program that was ended reads this.
fn keep(book: &mut Book, event: Event) -> Result<(), WorkspaceError> {
    book.keep(event, Durability::Synced)
        .map_err(|error| WorkspaceError::Failed(Private::from_error(&error)))
}
