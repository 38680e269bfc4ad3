//! A clock for an attempt that tells, from when it is asked and for what, where the CPU time goes.
//!
//! To read the CPU time is a call of the kernel that takes as long as a small write, and a loop asks
//! what time it is some ten times a turn. So there are two kinds of it, for two attempts: one reads
//! it at the two ends of all turns, the other at both ends of each rendering.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_loop::journal::Event;
use agent_loop::{Clock, SystemClock};
use futures::future::BoxFuture;
use jiff::Timestamp;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// So many turns, from before the first question to the end of the last turn.
    Turns(u32),
    /// Each rendering of a question.
    Rendering,
}

/// The loop asks how much time has passed, makes the next step with its records, and asks what time
/// it is for the first of them. Where a question is among the records, what was between the two was
/// the rendering of it, but for some comparisons of numbers.
#[derive(Clone)]
pub(crate) struct Watch {
    measured: Measured,
    clock: SystemClock,
    readings: Arc<Mutex<Readings>>,
}

#[derive(Default)]
struct Readings {
    /// When the loop last asked how much time has passed, until it asks what time it is.
    from: Option<f64>,
    /// The last step that had records: when it began, and how long it took to make.
    step: (f64, f64),
    first_question: Option<f64>,
    seen: Seen,
}

/// What was seen of an attempt: CPU time in microseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) questions: u32,
    /// Of all questions together, where it is measured.
    pub(crate) rendering: f64,
    /// Of all turns together, with the rendering, where they are measured.
    pub(crate) turns: f64,
}

impl Watch {
    pub(crate) fn new(measured: Measured) -> Self {
        Self {
            measured,
            clock: SystemClock::new(),
            readings: Arc::default(),
        }
    }

    /// A record was kept.
    pub(crate) fn saw(&self, event: &Event) {
        let mut readings = self.readings();
        match event {
            Event::Asked(_) => {
                let (began, took) = readings.step;
                readings.first_question.get_or_insert(began);
                readings.seen.questions += 1;
                readings.seen.rendering += took;
            }
            Event::Turn(turn) if self.measured == Measured::Turns(turn.turn) => {
                let first = readings.first_question.unwrap_or(f64::NAN);
                readings.seen.turns = cpu_time() - first;
            }
            _ => {}
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.readings().seen
    }

    fn readings(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        let mut readings = self.readings();
        if let Some(from) = readings.from.take() {
            readings.step = (from, cpu_time() - from);
        }
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        let mut readings = self.readings();
        if self.measured == Measured::Rendering || readings.first_question.is_none() {
            readings.from = Some(cpu_time());
        }
        self.clock.elapsed()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'_, ()> {
        self.clock.sleep(length)
    }

    fn random(&self) -> f64 {
        self.clock.random()
    }
}

/// What it takes to read the CPU time, in microseconds.
pub(crate) fn reading() -> f64 {
    const TIMES: u16 = 1000;
    let before = cpu_time();
    for _ in 1..TIMES {
        std::hint::black_box(cpu_time());
    }
    (cpu_time() - before) / f64::from(TIMES)
}

/// The CPU time of this thread in microseconds: user and system.
pub(crate) fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    time.as_secs_f64() * 1e6
}
