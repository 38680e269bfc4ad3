//! Liberal reading: numbers as text or with a fraction of zero, time stamps of any precision.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// An integer that some services write as text (`"12"`) or as a float (`12.0`).
struct Integer;

impl Visitor<'_> for Integer {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, or text that is one")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i128, E> {
        Ok(i128::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i128, E> {
        Ok(i128::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<i128, E> {
        // Above 2^53 a float no longer says which integer was meant.
        if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and in range, see above"
            )]
            return Ok(value as i128);
        }
        Err(E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i128, E> {
        i128::from_str(text.trim()).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

fn within<T: TryFrom<i128>, E: de::Error>(value: i128) -> Result<T, E> {
    T::try_from(value).map_err(|_| E::custom(format_args!("{value} is out of range")))
}

/// A size, an offset or a duration: never negative.
pub(crate) fn u64<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    within(input.deserialize_any(Integer)?)
}

/// A width or a height in characters.
pub(crate) fn u16<'de, D: Deserializer<'de>>(input: D) -> Result<u16, D::Error> {
    within(input.deserialize_any(Integer)?)
}

/// A list; null is an empty one.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// An id of a process, a user or a group.
pub(crate) fn opt_u32<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    optional(input)?.map(within).transpose()
}

/// An exit code, or null.
pub(crate) fn opt_i32<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i32>, D::Error> {
    optional(input)?.map(within).transpose()
}

/// A duration that may not be known yet.
pub(crate) fn opt_u64<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    optional(input)?.map(within).transpose()
}

fn optional<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i128>, D::Error> {
    struct Optional;
    impl<'de> Visitor<'de> for Optional {
        type Value = Option<i128>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("null, an integer, or text that is one")
        }

        fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
            input.deserialize_any(Integer).map(Some)
        }
    }
    input.deserialize_option(Optional)
}

/// A time stamp. What cannot be read, or means "not set" (year 1), is `None` and never fails the
/// answer that it sits in.
pub(crate) fn opt_time<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Timestamp>, D::Error> {
    let value = <serde_json::Value as Deserialize>::deserialize(input)?;
    Ok(match &value {
        serde_json::Value::String(text) => time(text),
        serde_json::Value::Number(number) => number
            .as_i64()
            .and_then(|seconds| Timestamp::from_second(seconds).ok()),
        _ => None,
    })
}

fn time(text: &str) -> Option<Timestamp> {
    let parsed = text.parse::<Timestamp>().ok().or_else(|| {
        // Without an offset UTC is meant.
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    })?;
    let year = TimeZone::UTC.to_datetime(parsed).year();
    (year > 1).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        #[serde(default, deserialize_with = "u64")]
        size: u64,
        #[serde(default, deserialize_with = "opt_i32")]
        code: Option<i32>,
        #[serde(default, deserialize_with = "opt_time")]
        at: Option<Timestamp>,
    }

    fn read(text: &str) -> Result<Sample, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_size_is_read_in_its_spellings_and_never_bent() {
        let table = [
            ("5000000000", Some(5_000_000_000)),
            ("\"5000000000\"", Some(5_000_000_000)),
            ("5e9", Some(5_000_000_000)),
            ("9223372036854775807", Some(9_223_372_036_854_775_807)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0", Some(0)),
            ("-1", None),
            ("\"-1\"", None),
            ("\"abc\"", None),
            ("1.5", None),
            ("1e300", None),
            ("null", None),
            ("[]", None),
        ];
        for (text, want) in table {
            let got = read(&format!(r#"{{"size":{text}}}"#)).ok().map(|s| s.size);
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn an_exit_code_may_be_null_and_nothing_but_an_integer() {
        let table = [
            ("0", Some(Some(0))),
            ("-1", Some(Some(-1))),
            ("\"137\"", Some(Some(137))),
            ("null", Some(None)),
            ("4294967296", None),
            ("\"x\"", None),
        ];
        for (text, want) in table {
            assert_eq!(
                read(&format!(r#"{{"code":{text}}}"#)).ok().map(|s| s.code),
                want,
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_stamp_is_read_in_every_precision_and_a_bad_one_is_none() {
        let table = [
            (
                "\"2024-01-01T00:00:00.123456789Z\"",
                Some("2024-01-01T00:00:00.123456789Z"),
            ),
            (
                "\"2024-01-01T05:30:00+05:30\"",
                Some("2024-01-01T00:00:00Z"),
            ),
            ("\"2024-01-01 00:00:00\"", Some("2024-01-01T00:00:00Z")),
            ("\"2024-01-01t00:00:00z\"", Some("2024-01-01T00:00:00Z")),
            ("\"1970-01-01T00:00:00Z\"", Some("1970-01-01T00:00:00Z")),
            ("1704067200", Some("2024-01-01T00:00:00Z")),
            ("\"\"", None),
            ("\"0001-01-01T00:00:00Z\"", None),
            ("\"garbage\"", None),
            ("null", None),
            ("{}", None),
        ];
        for (text, want) in table {
            let got = read(&format!(r#"{{"at":{text}}}"#)).unwrap().at;
            assert_eq!(got, want.map(|w| w.parse().unwrap()), "{text}");
        }
        // The end of what the calendar can hold must not fail the answer either.
        read(r#"{"at":"9999-12-31T23:59:60Z"}"#).unwrap();
    }
}
