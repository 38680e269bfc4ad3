//! How busy the machine is, read from `/proc`.

use std::fs;
use std::time::{Duration, Instant};

/// Measures the machine, now and then.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval: Duration,
    due: Instant,
    /// Time that the processors had, and how much of it they worked, when it was measured last.
    before: Option<(u64, u64)>,
}

/// The names under which measurements are kept.
pub(crate) const NAMES: [&str; 3] = ["cpu", "memory", "load"];

impl Sampler {
    pub(crate) fn every(interval: Duration) -> Self {
        Self {
            interval,
            due: Instant::now(),
            before: None,
        }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// What there is to know now. What the machine does not tell is left out.
    pub(crate) fn sample(&mut self) -> Vec<(&'static str, f64)> {
        self.due = Instant::now() + self.interval;
        let cpu = fs::read_to_string("/proc/stat").ok();
        let cpu = cpu.and_then(|text| self.cpu(&text));
        let memory = fs::read_to_string("/proc/meminfo").ok();
        let load = fs::read_to_string("/proc/loadavg").ok();
        let values = [
            cpu,
            memory.and_then(|text| memory_used(&text)),
            load.and_then(|text| load_of_a_minute(&text)),
        ];
        let named = NAMES.into_iter().zip(values);
        named
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// How many per cent the processors worked since the last time; at first, none.
    fn cpu(&mut self, stat: &str) -> Option<f64> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|field| field.parse().ok())
            // What follows the first eight is part of them: guests are users.
            .take(8)
            .collect();
        let all: u64 = times.iter().sum();
        // The fourth and fifth: idle, and waiting for a disk.
        let idle: u64 = times.iter().skip(3).take(2).sum();
        let now = (all, all.checked_sub(idle)?);
        let before = self.before.replace(now);
        let Some(before) = before else {
            return Some(0.0);
        };
        let time = now.0.saturating_sub(before.0);
        let work = now.1.saturating_sub(before.1);
        match time {
            0 => Some(0.0),
            time => Some(tenths(100.0 * work as f64 / time as f64)),
        }
    }
}

/// How many per cent of the memory are in use.
fn memory_used(meminfo: &str) -> Option<f64> {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.strip_prefix(':')?.split_ascii_whitespace().next()?;
        number.parse::<u64>().ok()
    };
    let total = of("MemTotal")?;
    let free = of("MemAvailable")?;
    match total {
        0 => None,
        total => Some(tenths(
            100.0 * total.saturating_sub(free) as f64 / total as f64,
        )),
    }
}

fn load_of_a_minute(loadavg: &str) -> Option<f64> {
    loadavg.split_ascii_whitespace().next()?.parse().ok()
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_becomes_per_cent() {
        let mut sampler = Sampler::every(Duration::from_secs(10));
        let stat = |idle| format!("cpu  100 0 100 {idle} 0 0 0 0 50 0\ncpu0 1 2 3\n");
        assert_eq!(sampler.cpu(&stat(200)), Some(0.0));
        assert_eq!(sampler.cpu(&stat(200)), Some(0.0));
        assert_eq!(sampler.cpu("cpu  200 0 100 500 0 0 0 0 50 0\n"), Some(25.0));
        assert_eq!(sampler.cpu("intr 1\n"), None);
        let meminfo = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:   250 kB\n";
        assert_eq!(memory_used(meminfo), Some(75.0));
        assert_eq!(memory_used("MemTotal: 1000 kB\n"), None);
        assert_eq!(load_of_a_minute("6.55 5.68 4.56 3/500 1\n"), Some(6.55));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_tells_all_three() {
        let mut sampler = Sampler::every(Duration::from_secs(10));
        let sample = sampler.sample();
        let names: Vec<&str> = sample.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, NAMES);
        assert!(sampler.due() > Instant::now());
    }
}
