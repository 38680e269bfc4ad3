//! What is measured, and what it should come to: section 5 of the design.

use crate::worker::Task;

pub(crate) const MIB: u64 = 1 << 20;
/// One request of `curl`, as large as the service takes.
pub(crate) const PAGE: u64 = 16 * MIB;

/// How the samples of a scenario become a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Seconds of one call each; all rounds together.
    Calls,
    /// Seconds for all of the work, once a round.
    Whole,
    /// MiB a second, once a round.
    Rate,
}

/// What the figures should come to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// Ours at most this many seconds above the limit.
    Above(f64),
    /// Ours below this many seconds.
    Below(f64),
    /// Ours at least this share of the limit's speed.
    Share(f64),
    /// Ours at least this share of the limit's speed, and this many times the Python defaults'.
    ShareAndTimes(f64, f64),
    /// Ours at least this many times the Python defaults' speed.
    Times(f64),
    /// Only the memory counts.
    Memory,
}

impl Aim {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Above(seconds) => format!("at most {:.1} ms above the limit", seconds * 1e3),
            Self::Below(seconds) => format!("below {:.0} ms", seconds * 1e3),
            Self::Share(share) => format!("{:.0} % of the limit's speed", share * 100.0),
            Self::ShareAndTimes(share, times) => {
                format!(
                    "{:.0} % of the limit's speed, {times:.0}x Python",
                    share * 100.0
                )
            }
            Self::Times(times) => format!("{times:.0}x Python"),
            Self::Memory => "memory".to_owned(),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The word that workers know it by.
    pub(crate) work: &'static str,
    /// Another word for our side, which may have a way that the others lack.
    pub(crate) ours: &'static str,
    pub(crate) count: u64,
    pub(crate) size: u64,
    /// Less for the Python client, with its defaults and at its best, where it would take minutes;
    /// its figure is then scaled or a rate.
    pub(crate) python: Option<[(u64, u64); 2]>,
    /// Whether the Python client takes part more than once.
    pub(crate) python_once: bool,
    pub(crate) only_ours: bool,
    pub(crate) short: (u64, u64),
    pub(crate) figure: Figure,
    pub(crate) aim: Aim,
    /// Bytes of memory above the start that ours may take.
    pub(crate) memory: Option<u64>,
}

impl Scenario {
    fn new(name: &'static str, work: &'static str, figure: Figure, aim: Aim) -> Self {
        Self {
            name,
            work,
            ours: work,
            count: 1,
            size: 0,
            python: None,
            python_once: false,
            only_ours: false,
            short: (1, 0),
            figure,
            aim,
            memory: None,
        }
    }

    fn of(mut self, count: u64, size: u64, short: (u64, u64)) -> Self {
        (self.count, self.size, self.short) = (count, size, short);
        self
    }

    fn within(mut self, memory: u64) -> Self {
        self.memory = Some(memory);
        self
    }

    fn slow_in_python(mut self, default: (u64, u64), best: (u64, u64)) -> Self {
        self.python = Some([default, best]);
        self.python_once = true;
        self
    }

    pub(crate) fn all() -> Vec<Self> {
        use Aim::{Above, Below, Memory, Share, ShareAndTimes, Times};
        use Figure::{Calls, Rate, Whole};
        let memory = 32 * MIB;
        let mut directory = Self::new(
            "10 000 files of 1 KiB, as one directory",
            "files",
            Whole,
            Times(20.0),
        )
        .of(10_000, 1024, (20, 1024));
        directory.ours = "directory";
        directory.python_once = true;
        let mut idle = Self::new("1 000 idle streams", "idle", Whole, Memory)
            .of(1000, 0, (20, 0))
            .within(memory);
        idle.only_ours = true;
        let mut gib = Self::new("a stream of 1 GiB", "events", Whole, Memory)
            .of(16_384, 64 << 10, (16, 64 << 10))
            .within(memory);
        gib.only_ours = true;
        let mut files = Self::new(
            "10 000 files of 1 KiB, one by one",
            "files",
            Whole,
            Times(20.0),
        )
        .of(10_000, 1024, (20, 1024));
        files.python_once = true;
        let mut burst = Self::new("1 000 execs at once", "burst", Whole, Share(0.5))
            .of(1000, 0, (20, 0))
            .within(memory);
        burst.python_once = true;
        vec![
            Self::new("exec of /bin/true", "exec", Calls, Above(0.0001)).of(200, 0, (5, 0)),
            burst,
            Self::new("stream, events of 32 B", "events", Whole, Share(0.8))
                .of(400_000, 32, (100, 32))
                .slow_in_python((40_000, 32), (40_000, 32)),
            Self::new("stream, events of 4 KiB", "events", Whole, Share(0.8))
                .of(32_768, 4 << 10, (100, 4 << 10))
                .slow_in_python((4096, 4 << 10), (4096, 4 << 10)),
            Self::new("stream, events of 64 KiB", "events", Whole, Share(0.8))
                .of(4096, 64 << 10, (10, 64 << 10))
                .slow_in_python((256, 64 << 10), (256, 64 << 10)),
            Self::new("stream, one event of 16 MiB", "events", Whole, Share(0.8))
                .of(1, 16 * MIB, (1, MIB))
                .slow_in_python((1, 4 * MIB), (1, 4 * MIB)),
            Self::new("stream, one event of 31 MiB", "events", Whole, Share(0.8))
                .of(1, 31 * MIB, (1, MIB))
                .slow_in_python((1, MIB), (1, MIB)),
            Self::new(
                "download of 1 GiB",
                "download",
                Rate,
                ShareAndTimes(0.85, 10.0),
            )
            .of(1, 1024 * MIB, (1, 8 * MIB))
            .slow_in_python((1, 64 * MIB), (1, 1024 * MIB))
            .within(memory),
            Self::new("upload of 1 GiB", "upload", Rate, ShareAndTimes(0.85, 10.0))
                .of(1, 1024 * MIB, (1, 8 * MIB))
                .slow_in_python((1, 64 * MIB), (1, 1024 * MIB))
                .within(memory),
            files,
            directory,
            Self::new("log follow, written to seen", "follow", Calls, Below(0.025)).of(
                40,
                0,
                (3, 0),
            ),
            Self::new("start to first ping", "startup", Calls, Below(0.020)).of(5, 0, (1, 0)),
            gib,
            idle,
        ]
    }

    /// What a side is asked for: `python` is 0 for its defaults and 1 for its best.
    pub(crate) fn task(&self, short: bool, ours: bool, python: Option<usize>) -> Task {
        let full = (self.count, self.size);
        let less = python.and_then(|side| self.python.as_ref()?.get(side).copied());
        let (count, size) = if short {
            self.short
        } else {
            less.unwrap_or(full)
        };
        Task {
            scenario: if ours { self.ours } else { self.work }.to_owned(),
            count,
            size,
        }
    }

    /// What a side that did the task says.
    pub(crate) fn achieved(task: &Task) -> String {
        let Task { count, size, .. } = task;
        match task.scenario.as_str() {
            "exec" | "burst" => format!("{count} exited with 0"),
            "events" => format!("{} bytes", count * size),
            "download" | "upload" => format!("{size} bytes"),
            "files" | "directory" => format!("{count} files"),
            "idle" => format!("{count} streams"),
            _ => format!("{count} lines"),
        }
    }

    /// How much larger the whole work is than what this side was asked for.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn scale(&self, task: &Task) -> f64 {
        let amount = |count: u64, size: u64| count as f64 * size.max(1) as f64;
        match self.figure {
            Figure::Whole => amount(self.count, self.size) / amount(task.count, task.size),
            Figure::Calls | Figure::Rate => 1.0,
        }
    }
}
