//! When a sandbox was last used.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The time of the last call with a token, or of the last traffic of a terminal.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<Timestamp>);

impl Activity {
    /// The start counts as the first.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Timestamp::now()))
    }

    pub(crate) fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Timestamp::now();
    }

    pub(crate) fn last(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
