//! How far the run is, told to the server not too often.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::record::{Change, Merge};

/// A step below this is small.
const SMALL: f64 = 0.025;

/// So many small steps are told within one second of the clock.
const SMALL_STEPS: u32 = 3;

/// What was said of the progress. Of many small steps in one second, the last ones are held back:
/// the newest is told with the next that is due, or at the end.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last: Option<f64>,
    second: i64,
    told: u32,
    held: Option<f64>,
}

impl Progress {
    /// The change that is due now.
    pub(super) fn step(&mut self, done: f64) -> Option<Change> {
        self.step_at(done, Timestamp::now().as_second())
    }

    fn step_at(&mut self, done: f64, second: i64) -> Option<Change> {
        let last = self.last.replace(done);
        if last == Some(done) {
            return None;
        }
        if second != self.second {
            self.second = second;
            self.told = 0;
        }
        let is_small = last.is_some_and(|last| (done - last).abs() < SMALL) && done < 1.0;
        if is_small && self.told >= SMALL_STEPS {
            self.held = Some(done);
            return None;
        }
        self.told += u32::from(is_small);
        self.held = None;
        Some(change(done))
    }

    /// What was held back.
    pub(super) fn held(&self) -> Option<Change> {
        self.held.map(change)
    }

    pub(super) fn take_held(&mut self) -> Option<Change> {
        self.held.take().map(change)
    }
}

fn change(done: f64) -> Change {
    let mut meta = Map::new();
    meta.insert("progress".to_owned(), Value::from(done));
    Change::Meta(meta, Merge::Keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_of_one_second_are_told_thrice_and_the_last_is_kept() {
        let mut progress = Progress::default();
        let mut told = Vec::new();
        for (done, second) in [
            (0.5, 1),
            (0.5, 1),
            (0.501, 1),
            (0.502, 1),
            (0.503, 1),
            (0.504, 1),
            (0.6, 1),
            (0.601, 1),
            (0.602, 2),
            (0.999, 2),
            (1.0, 2),
        ] {
            if progress.step_at(done, second).is_some() {
                told.push(done);
            }
        }
        assert_eq!(told, [0.5, 0.501, 0.502, 0.503, 0.6, 0.602, 0.999, 1.0]);
        assert!(progress.take_held().is_none());
        for done in [0.999, 0.998, 0.997] {
            progress.step_at(done, 2);
        }
        assert_eq!(progress.held, Some(0.997));
        let held = progress.take_held().unwrap().to_patch();
        assert_eq!(held["meta_info"]["progress"], 0.997);
    }
}
