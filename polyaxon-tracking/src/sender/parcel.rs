//! One call that is to be made.

use std::collections::HashMap;

use polyaxon_client::runs::RunStatus;
use serde_json::{Map, Value};

use super::{Cause, names_of};
use crate::record::Change;
use crate::report::{Sending, Unsent};

/// The member of a change that says how it is carried out.
const MERGE: &str = "merge";

/// What must stay in order, as the later replaces the earlier: each of these by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'a> {
    /// A member of the run's record.
    Member(&'a str),
    /// The lineage record of this name.
    Lineage(&'a str),
    Status,
    /// The file at this path.
    File(&'a str),
}

/// What is sent in one call. Each can be sent twice without harm.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// Members of the record, and how much room they take.
    Change {
        body: Map<String, Value>,
        room: usize,
    },
    /// Records, and how much room they take.
    Lineage { records: Vec<Value>, room: usize },
    /// A condition.
    Status(Value),
    /// A file, by its path below the run's folder.
    File(String),
}

impl Parcel {
    pub(crate) fn change(change: &Change, room: usize) -> Self {
        let body = change.to_patch();
        Self::Change { body, room }
    }

    pub(crate) fn lineage(records: Vec<Value>, room: usize) -> Self {
        Self::Lineage { records, room }
    }

    pub(super) fn room(&self) -> usize {
        match self {
            Self::Change { room, .. } | Self::Lineage { room, .. } => *room,
            Self::Status(_) | Self::File(_) => 0,
        }
    }

    /// What it replaces.
    pub(super) fn keys(&self) -> Vec<Key<'_>> {
        match self {
            Self::Change { body, .. } => {
                let names = body.keys().filter(|name| *name != MERGE);
                names.map(|name| Key::Member(name)).collect()
            }
            Self::Lineage { records, .. } => {
                let names = records
                    .iter()
                    .filter_map(|record| record.get("name")?.as_str());
                names.map(Key::Lineage).collect()
            }
            Self::Status(_) => vec![Key::Status],
            Self::File(path) => vec![Key::File(path)],
        }
    }

    /// Without the records that the server has already.
    pub(super) fn without(self, known: &HashMap<String, Value>) -> Option<Self> {
        let Self::Lineage { mut records, room } = self else {
            return Some(self);
        };
        records.retain(|record| {
            let path = record.get("path").and_then(Value::as_str);
            path.and_then(|path| known.get(path)) != Some(record)
        });
        (!records.is_empty()).then_some(Self::Lineage { records, room })
    }

    /// What the report says where it could not be sent.
    pub(super) fn unsent(&self, cause: Option<&Cause>) -> Unsent {
        let what = match self {
            Self::Change { body, .. } => {
                let names = body.keys().filter(|name| *name != MERGE);
                Sending::Record(names.cloned().collect())
            }
            Self::Lineage { records, .. } => names_of(records),
            Self::Status(condition) => Sending::Status(
                serde_json::from_value(condition.get("type").cloned().unwrap_or_default())
                    .unwrap_or(RunStatus::Unknown),
            ),
            Self::File(path) => Sending::File(path.clone()),
        };
        Unsent {
            what,
            cause: cause.cloned(),
        }
    }
}
