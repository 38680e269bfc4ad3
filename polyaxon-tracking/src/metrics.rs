//! Metrics: numbers over steps and time, and their form in event files.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::error::Error;
use crate::kind::MetricId;

/// Where in a run a value belongs: at a step or at none, and at an instant.
///
/// A plain integer is a step: `run.log_metric(3, "loss", 0.5)`.
///
/// # Examples
/// ```
/// use polyaxon_tracking::At;
///
/// assert_eq!(At::from(3), At::step(3));
/// let then = "2026-01-31T12:00:00Z".parse()?;
/// assert_ne!(At::step(3).timestamp(then), At::step(3));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an At does nothing until it is passed to `log_metric`"]
pub struct At {
    step: Option<i128>,
    time: Option<Time>,
    offset: Offset,
}

/// A point on the time line, or on a clock of which nobody knows the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    Instant(Timestamp),
    Civil(DateTime),
}

impl At {
    /// At no step: the value is a measurement of its time.
    pub fn now() -> Self {
        Self {
            step: None,
            time: None,
            offset: Offset::UTC,
        }
    }

    /// At a step. Steps may come in any order and more than once. Those beyond 64 bits are kept as
    /// they are; the platform's summaries have them as texts.
    pub fn step(step: impl Into<i128>) -> Self {
        Self {
            step: Some(step.into()),
            ..Self::now()
        }
    }

    /// When the value was measured, to the microsecond. Default: when it is logged.
    pub fn timestamp(mut self, instant: Timestamp) -> Self {
        self.time = Some(Time::Instant(instant));
        self
    }

    /// With which offset from UTC the instant is written. It stays the same instant. Default:
    /// none, which is `+00:00`.
    pub fn offset(mut self, offset: Offset) -> Self {
        self.offset = offset;
        self
    }

    /// When the value was measured by a clock of which nobody knows the zone. It is written
    /// without an offset, which readers take for UTC. An earlier
    /// [`timestamp`](Self::timestamp) is forgotten.
    pub fn civil(mut self, time: DateTime) -> Self {
        self.time = Some(Time::Civil(time));
        self
    }

    /// The step, where there is one.
    pub(crate) fn step_number(self) -> Option<i128> {
        self.step
    }

    /// The values for the file. The clock is read here, in the caller.
    pub(crate) fn stamp(self) -> Result<Stamp, Error> {
        let time = self.time.unwrap_or_else(|| Time::Instant(Timestamp::now()));
        let stamp = Stamp {
            step: self.step,
            time,
            offset: self.offset,
        };
        // Year zero and those before it cannot be read by the platform. Instants of nowadays are
        // not made a date here, only to see that.
        if !matches!(time, Time::Instant(instant) if instant > Timestamp::UNIX_EPOCH) {
            let (time, _) = stamp.civil();
            if time.year() < 1 {
                return Err(Error::OutOfRange {
                    what: "the timestamp",
                    given: time.to_string(),
                    range: "the years 1 to 9999",
                });
            }
        }
        Ok(stamp)
    }
}

macro_rules! step {
    ($($number:ty),* $(,)?) => {$(
        impl From<$number> for At {
            fn from(step: $number) -> Self {
                Self::step(step)
            }
        }
    )*};
}

step!(i128, i64, i32, u64, u32);

mod sealed {
    #[expect(unnameable_types, reason = "what seals the trait")]
    pub trait Sealed {}
}

/// A number that can be logged as a metric. The platform keeps every one as a 64-bit float.
///
/// Sealed: implemented here for `f64`, `f32`, `i64`, `i32`, `u64`, `u32`, `usize` and `bool`, of
/// which `true` is 1. Integers beyond 2^53 are rounded to the nearest float.
///
/// # Examples
/// ```
/// use polyaxon_tracking::MetricValue;
///
/// assert_eq!(true.to_f64(), 1.0);
/// assert_eq!(((1_i64 << 53) + 1).to_f64(), 9007199254740992.0);
/// ```
pub trait MetricValue: sealed::Sealed + Copy {
    /// The number that is kept.
    fn to_f64(self) -> f64;
}

macro_rules! metric_value {
    ($($number:ty => |$value:ident| $float:expr),* $(,)?) => {$(
        impl sealed::Sealed for $number {}
        impl MetricValue for $number {
            fn to_f64(self) -> f64 {
                let $value = self;
                $float
            }
        }
    )*};
}

metric_value! {
    f64 => |value| value,
    f32 => |value| value.into(),
    i64 => |value| value as f64,
    u64 => |value| value as f64,
    usize => |value| value as f64,
    i32 => |value| value.into(),
    u32 => |value| value.into(),
    bool => |value| f64::from(u8::from(value)),
}

/// Where a value belongs, with nothing left open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) step: Option<i128>,
    pub(crate) time: Time,
    /// With which an instant is written.
    pub(crate) offset: Offset,
}

/// A value of a metric on its way to the writer. A million of them can wait, so it is small: see
/// [`Number::Rare`].
#[derive(Debug)]
pub(crate) enum Number {
    /// A value of an instant, at a step of 64 bits or at none.
    Usual {
        series: MetricId,
        step: Option<i64>,
        instant: Timestamp,
        offset: Offset,
        value: f64,
    },
    /// One of a longer step, or of a clock without a zone.
    Rare(Box<(MetricId, Stamp, f64)>),
}

impl Number {
    pub(crate) fn new(series: MetricId, stamp: Stamp, value: f64) -> Self {
        let step = stamp.step.map(i64::try_from).transpose();
        match (step, stamp.time) {
            (Ok(step), Time::Instant(instant)) => Self::Usual {
                series,
                step,
                instant,
                offset: stamp.offset,
                value,
            },
            _ => Self::Rare(Box::new((series, stamp, value))),
        }
    }

    /// What it was made of.
    pub(crate) fn into_parts(self) -> (MetricId, Stamp, f64) {
        match self {
            Self::Usual {
                series,
                step,
                instant,
                offset,
                value,
            } => {
                let stamp = Stamp {
                    step: step.map(i128::from),
                    time: Time::Instant(instant),
                    offset,
                };
                (series, stamp, value)
            }
            Self::Rare(parts) => *parts,
        }
    }
}

impl Stamp {
    /// Date and time of day, and the offset, where somebody knows it.
    pub(crate) fn civil(self) -> (DateTime, Option<Offset>) {
        match self.time {
            Time::Instant(instant) => (self.offset.to_datetime(instant), Some(self.offset)),
            Time::Civil(time) => (time, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_number_becomes_the_float_that_python_makes_of_it() {
        assert_eq!(0.1_f32.to_f64(), 0.100_000_001_490_116_12);
        assert_eq!((-3_i32).to_f64(), -3.0);
        assert_eq!((7_u32.to_f64(), 8_usize.to_f64()), (7.0, 8.0));
        assert_eq!(u64::MAX.to_f64(), 1.844_674_407_370_955_2e19);
        assert_eq!(i64::MIN.to_f64(), -9.223_372_036_854_776e18);
        assert_eq!((true.to_f64(), false.to_f64()), (1.0, 0.0));
    }

    #[test]
    fn an_instant_before_the_first_year_is_refused() {
        let first: Timestamp = "0001-01-01T00:00:00Z".parse().unwrap();
        At::now().timestamp(first).stamp().unwrap();
        let west = At::now().timestamp(first).offset(Offset::constant(-1));
        west.stamp().unwrap_err();
        let before = first - jiff::SignedDuration::from_nanos(1);
        let error = At::now().timestamp(before).stamp().unwrap_err();
        assert!(
            error.to_string().starts_with("the timestamp is 0000-12-31"),
            "{error}"
        );
    }
}
