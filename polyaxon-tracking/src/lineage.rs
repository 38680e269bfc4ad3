//! Lineage records: what `lineages.plx.json` holds.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;

/// The records of a run, in the order in which their names came up. There is one record a name: a
/// later one replaces the earlier in its place.
#[derive(Debug, Default)]
pub(crate) struct Lineages {
    records: Vec<Value>,
    places: HashMap<String, usize>,
}

impl Lineages {
    /// What `path` holds; nothing where there is no such file.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let records: Vec<Map<String, Value>> =
            serde_json::from_slice(&bytes).map_err(|source| Error::Metadata {
                path: path.to_owned(),
                source,
            })?;
        let mut lineages = Self::default();
        for record in records {
            lineages.put(record);
        }
        Ok(lineages)
    }

    /// Adds a record. Answers whether anything is different now.
    pub(crate) fn put(&mut self, record: Map<String, Value>) -> bool {
        let name = record.get("name").and_then(Value::as_str);
        let place = name.and_then(|name| self.places.get(name));
        match place.and_then(|place| self.records.get_mut(*place)) {
            Some(known) => {
                let record = Value::Object(record);
                let changed = *known != record;
                *known = record;
                changed
            }
            None => {
                // A record without a name is none of ours; it is only kept.
                if let Some(name) = name {
                    self.places.insert(name.to_owned(), self.records.len());
                }
                self.records.push(record.into());
                true
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All of them.
    pub(crate) fn records(&self) -> &[Value] {
        &self.records
    }

    /// Compact JSON.
    pub(crate) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&self.records)
    }
}
