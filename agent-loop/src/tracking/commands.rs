//! The figures of all commands of a run.

use std::time::Duration;

use polyaxon_tracking::MetricValue as _;
use serde_json::{Value, json};

use super::millis;
use crate::names::output;

/// The commands whose end is known.
#[derive(Debug, Default)]
pub(super) struct Commands {
    durations: Vec<Duration>,
    timed_out: usize,
}

impl Commands {
    pub(super) fn add(&mut self, duration: Duration, timed_out: bool) {
        self.durations.push(duration);
        self.timed_out += usize::from(timed_out);
    }

    /// The outputs. A rate or a median of no commands is unknown, and left out.
    pub(super) fn outputs(&mut self) -> Vec<(&'static str, Value)> {
        let Some(median) = median(&mut self.durations) else {
            return Vec::new();
        };
        let rate = self.timed_out.to_f64() / self.durations.len().to_f64();
        vec![
            (output::TIMEOUT_RATE, json!(rate)),
            (output::COMMAND_DURATION_MS_P50, json!(millis(median))),
        ]
    }
}

/// The middle one, or what is half-way between the two in the middle.
fn median(durations: &mut [Duration]) -> Option<Duration> {
    durations.sort_unstable();
    let middle = durations.len() / 2;
    let upper = *durations.get(middle)?;
    match durations.len() % 2 {
        1 => Some(upper),
        _ => Some((*durations.get(middle.checked_sub(1)?)? + upper) / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle_and_nothing_is_said_of_no_commands() {
        let of = |all: &[u64]| {
            let mut commands = Commands::default();
            for ms in all {
                commands.add(Duration::from_millis(*ms), *ms >= 9);
            }
            let outputs = commands.outputs().into_iter();
            outputs
                .map(|(_, value)| value.as_f64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [] as [f64; 0]);
        assert_eq!(of(&[7]), [0.0, 7.0]);
        assert_eq!(of(&[9, 1]), [0.5, 5.0]);
        assert_eq!(of(&[9, 1, 2, 3]), [0.25, 2.5]);
        assert_eq!(of(&[9, 1, 2]), [1.0 / 3.0, 2.0]);
    }
}
