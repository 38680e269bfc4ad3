//! What a run that is continued has of the measurements already.

use std::collections::HashMap;

use polyaxon_tracking::{TrackedRun, read_metric_series};

use crate::names::metric;

/// The points in the files of a run, by metric and step, and how many of each.
#[derive(Debug)]
pub(super) struct KnownPoints(HashMap<(&'static str, i128), usize>);

impl KnownPoints {
    /// Those of `run`. A file that is not there, or cannot be read, holds none.
    pub(super) fn of(run: &TrackedRun) -> Self {
        let mut known = HashMap::new();
        for name in metric::ALL {
            let file = run.path().join(format!("events/metric/{name}.plx"));
            let Ok(series) = read_metric_series(file) else {
                continue;
            };
            for step in series.points().iter().filter_map(|point| point.step) {
                *known.entry((name, step)).or_default() += 1;
            }
        }
        Self(known)
    }

    /// Whether there is such a point, which is then counted off.
    pub(super) fn take(&mut self, name: &'static str, step: u32) -> bool {
        match self.0.get_mut(&(name, step.into())) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}
