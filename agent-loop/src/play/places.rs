//! The places of commands, as a journal names them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::ids::RequestId;
use crate::journal::Placed;

/// The run of a sandbox, in what a place says of itself.
const RUN: &str = "sandbox_run_uuid";

/// The fresh places so far.
#[derive(Default)]
pub(crate) struct FreshPlaces {
    made: BTreeMap<RequestId, Value>,
    left: BTreeSet<RequestId>,
}

impl FreshPlaces {
    /// Whether the place is none that was there before: neither the workspace's own, nor an earlier
    /// one. Of a place that says nothing of itself nobody can tell.
    pub(super) fn is_new(&self, placed: &Placed, workspace: &Value) -> bool {
        let mut others = self.made.values().chain([workspace]);
        !self.made.contains_key(&placed.id) && !others.any(|other| is_same(other, &placed.identity))
    }

    pub(super) fn made(&mut self, placed: &Placed) {
        self.made.insert(placed.id.clone(), placed.identity.clone());
    }

    /// Whether the place that was made for `id` says this of itself.
    pub(super) fn is_at(&self, id: &RequestId, identity: &Value) -> bool {
        self.made.get(id) == Some(identity)
    }

    /// Takes the end of a place. False where it was not made, or has been left before.
    pub(super) fn leave(&mut self, id: &RequestId) -> bool {
        self.made.contains_key(id) && self.left.insert(id.clone())
    }

    /// Whether the place of `id` was made, and its end was not asked for.
    pub(crate) fn is_left_over(&self, id: &RequestId) -> bool {
        self.made.contains_key(id) && !self.left.contains(id)
    }
}

/// Whether a place can be one in the workspace's own sandbox, as far as both say where they are.
pub(super) fn is_beside(workspace: &Value, place: &Value) -> bool {
    match (workspace.get(RUN), place.get(RUN)) {
        (Some(workspace), Some(place)) => workspace == place,
        _ => true,
    }
}

/// Two folders of one sandbox are no two places.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.get(RUN), other.get(RUN)) {
        (Some(one), Some(other)) => one == other,
        _ => !one.is_null() && one == other,
    }
}
