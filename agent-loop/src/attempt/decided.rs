//! Whether an attempt that was broken off is over all the same.

use super::Attempt;
use crate::journal::{MemoryJournal, Record, Started};
use crate::machine::{Machine, Setup, Step};
use crate::play::play;

impl Attempt {
    /// Whether there is nothing left to ask a model or to do in a place: the end is among `records`,
    /// or follows from them.
    pub(crate) fn decided_by(self, records: &[Record]) -> bool {
        let Some(started) = records.first().and_then(Record::started) else {
            return false;
        };
        // Nothing is written.
        let unwritten = Self {
            journal: Some(Box::new(MemoryJournal::new())),
            run_dir: None,
            ..self
        };
        let Ok((setup, _)) = unwritten.build() else {
            return false;
        };
        let started = Started::clone(started);
        let mut played = play(Machine::new(Setup { started, ..setup }), records);
        if !played.differences.is_empty() {
            return false;
        }
        let now = played.machine.now();
        played.ended.is_some() || matches!(played.machine.next(now), Step::Done(_))
    }
}
