//! The places of commands, as a journal names them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::ids::RequestId;
use crate::journal::{Placed, Placing};

/// The run of a sandbox, in what a place says of itself.
const RUN: &str = "sandbox_run_uuid";

/// The fresh places so far.
#[derive(Default)]
pub(crate) struct FreshPlaces {
    announced: BTreeMap<RequestId, Value>,
    made: BTreeMap<RequestId, Value>,
    left: BTreeSet<RequestId>,
}

/// A fresh place whose end no record tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeftOver {
    pub(crate) id: RequestId,
    /// What was said of it: by itself, or before it was made.
    pub(crate) said: Value,
    /// Whether it is known that it was made.
    pub(crate) is_made: bool,
}

impl FreshPlaces {
    /// Whether a place is asked for once, under a name of its own. Of those without one nobody can
    /// tell.
    pub(super) fn is_asked_anew(&self, placing: &Placing) -> bool {
        let mut others = self.announced.values();
        !self.announced.contains_key(&placing.id)
            && !self.made.contains_key(&placing.id)
            && !others.any(|other| is_same(other, &placing.announced))
    }

    pub(super) fn asked(&mut self, placing: &Placing) {
        self.announced
            .insert(placing.id.clone(), placing.announced.clone());
    }

    /// Whether the place is none that was there before: neither the workspace's own, nor an earlier
    /// one. Of a place that says nothing of itself nobody can tell.
    pub(super) fn is_new(&self, placed: &Placed, workspace: &Value) -> bool {
        let mut others = self.made.values().chain([workspace]);
        !self.made.contains_key(&placed.id)
            && !self.left.contains(&placed.id)
            && !others.any(|other| is_same(other, &placed.identity))
    }

    pub(super) fn made(&mut self, placed: &Placed) {
        self.made.insert(placed.id.clone(), placed.identity.clone());
    }

    /// Whether the place that was made for `id` says this of itself, and was not left.
    pub(super) fn is_at(&self, id: &RequestId, identity: &Value) -> bool {
        self.made.get(id) == Some(identity) && !self.left.contains(id)
    }

    /// Takes the end of a place. False where it was not asked for, or has been left before.
    pub(super) fn leave(&mut self, id: &RequestId) -> bool {
        let is_known = self.made.contains_key(id) || self.announced.contains_key(id);
        is_known && self.left.insert(id.clone())
    }

    /// The place of `id`, if its end was not asked for.
    pub(crate) fn left_over_of(&self, id: &RequestId) -> Option<LeftOver> {
        if self.left.contains(id) {
            return None;
        }
        let made = self.made.get(id);
        made.or_else(|| self.announced.get(id))
            .map(|said| LeftOver {
                id: id.clone(),
                said: said.clone(),
                is_made: made.is_some(),
            })
    }

    /// All places whose end was not asked for.
    pub(crate) fn left_over(&self) -> Vec<LeftOver> {
        let known: BTreeSet<_> = self.announced.keys().chain(self.made.keys()).collect();
        let left_over = known.into_iter().map(|id| self.left_over_of(id));
        left_over.flatten().collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(text: &str) -> RequestId {
        text.parse().unwrap()
    }

    fn placing(request: &str, announced: Value) -> Placing {
        Placing {
            id: id(request),
            announced,
        }
    }

    fn placed(request: &str, run: &str) -> Placed {
        Placed {
            id: id(request),
            identity: json!({RUN: run, "folder": request}),
        }
    }

    #[test]
    fn a_place_is_asked_for_once_and_under_a_name_of_its_own() {
        let mut places = FreshPlaces::default();
        places.asked(&placing("a", json!({"launch_id": "1"})));
        places.made(&placed("b", "2"));
        let table = [
            (placing("c", json!({"launch_id": "2"})), true),
            (placing("c", Value::Null), true),
            (placing("c", json!({"launch_id": "1"})), false),
            (placing("a", json!({"launch_id": "2"})), false),
            (placing("b", json!({"launch_id": "2"})), false),
        ];
        for (placing, is_new) in table {
            assert_eq!(places.is_asked_anew(&placing), is_new, "{placing:?}");
        }
    }

    #[test]
    fn what_is_left_over_is_what_was_asked_for_or_made_and_not_left() {
        let mut places = FreshPlaces::default();
        let announced = json!({"launch_id": "1"});
        places.asked(&placing("a", announced.clone()));
        places.asked(&placing("b", json!({"launch_id": "2"})));
        places.made(&placed("b", "2"));
        places.made(&placed("c", "3"));
        places.asked(&placing("d", Value::Null));
        assert!(places.leave(&id("c")) && places.leave(&id("d")));
        // It is left once, and what was left is not there.
        assert!(!places.leave(&id("d")) && !places.leave(&id("e")));
        assert!(!places.is_new(&placed("d", "4"), &Value::Null));
        assert!(!places.is_at(&id("c"), &placed("c", "3").identity));
        let left_over = |request: &str, said: Value, is_made| LeftOver {
            id: id(request),
            said,
            is_made,
        };
        let expected = [
            left_over("a", announced, false),
            left_over("b", placed("b", "2").identity, true),
        ];
        assert_eq!(places.left_over(), expected);
    }
}
