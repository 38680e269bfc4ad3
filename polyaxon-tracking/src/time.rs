//! Instants as the platform's files hold them.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Appends `2026-01-31<separator>12:00:00.000123+00:00`: UTC, six digits of a fraction, or none
/// where they are zero. What is finer than a microsecond is cut off.
pub(crate) fn push(text: &mut String, instant: Timestamp, separator: char) {
    let utc = Some(Offset::UTC);
    push_civil(text, Offset::UTC.to_datetime(instant), utc, separator);
}

/// As [`push`], of a time with an offset, or with none.
pub(crate) fn push_civil(text: &mut String, at: DateTime, offset: Option<Offset>, separator: char) {
    push_second(text, at, separator);
    push_fraction(text, at.subsec_nanosecond());
    if let Some(offset) = offset {
        push_offset(text, offset);
    }
}

/// The date and the time of day, without its fraction of a second.
pub(crate) fn push_second(text: &mut String, at: DateTime, separator: char) {
    let two = |part: i8| u32::from(part.unsigned_abs());
    push_digits::<4>(text, at.year().unsigned_abs().into());
    for (before, part) in [
        ('-', at.month()),
        ('-', at.day()),
        (separator, at.hour()),
        (':', at.minute()),
        (':', at.second()),
    ] {
        text.push(before);
        push_digits::<2>(text, two(part));
    }
}

/// The fraction of a second, of which these are the nanoseconds.
pub(crate) fn push_fraction(text: &mut String, nanoseconds: i32) {
    let micros = nanoseconds.unsigned_abs() / 1000;
    if micros != 0 {
        text.push('.');
        push_digits::<6>(text, micros);
    }
}

/// The offset from UTC.
pub(crate) fn push_offset(text: &mut String, offset: Offset) {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    text.push(sign);
    push_digits::<2>(text, seconds / 3600);
    text.push(':');
    push_digits::<2>(text, seconds / 60 % 60);
    if !seconds.is_multiple_of(60) {
        text.push(':');
        push_digits::<2>(text, seconds % 60);
    }
}

/// Appends the last so many digits of a number, zeros in front. This is done for every value that is
/// logged, and formatting would take most of the time of its line.
fn push_digits<const COUNT: usize>(text: &mut String, mut number: u32) {
    let mut digits = [b'0'; COUNT];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
}

/// The form of `run.plx.json` and `lineages.plx.json`.
pub(crate) fn iso(instant: Timestamp) -> String {
    let mut text = String::with_capacity(32);
    push(&mut text, instant, 'T');
    text
}

/// Reads what [`push`] writes, and what others write: any offset, `Z`, or none, which means UTC.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    if let Ok(instant) = text.parse() {
        return Some(instant);
    }
    let local: DateTime = text.parse().ok()?;
    Offset::UTC.to_timestamp(local).ok()
}

/// The seconds from one to the other, rounded to hundredths as the platform keeps them.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    let length: SignedDuration = to.duration_since(from);
    (length.as_secs_f64() * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_to_the_microsecond() {
        let table = [
            ("2024-01-02T03:04:05Z", "2024-01-02 03:04:05+00:00"),
            (
                "2024-01-02T03:04:05.678Z",
                "2024-01-02 03:04:05.678000+00:00",
            ),
            (
                "2024-01-02T03:04:05.000678999Z",
                "2024-01-02 03:04:05.000678+00:00",
            ),
            (
                "2024-01-02T03:04:05.000000999Z",
                "2024-01-02 03:04:05+00:00",
            ),
            (
                "1969-12-31T23:59:59.9999999Z",
                "1969-12-31 23:59:59.999999+00:00",
            ),
            ("0007-01-02T03:04:05+01:00", "0007-01-02 02:04:05+00:00"),
        ];
        for (instant, expected) in table {
            let mut text = String::new();
            push(&mut text, instant.parse().unwrap(), ' ');
            assert_eq!(text, expected);
            assert_eq!(iso(instant.parse().unwrap()), expected.replace(' ', "T"));
        }
    }

    #[test]
    fn an_offset_is_written_as_it_is_and_none_is_not() {
        let at: DateTime = "2024-01-02T03:04:05".parse().unwrap();
        let table = [
            (None, ""),
            (Some(0), "+00:00"),
            (Some(19_800), "+05:30"),
            (Some(-12_600), "-03:30"),
            (Some(1_172), "+00:19:32"),
        ];
        for (seconds, expected) in table {
            let mut text = String::new();
            let offset = seconds.map(|seconds| Offset::from_seconds(seconds).unwrap());
            push_civil(&mut text, at, offset, ' ');
            assert_eq!(text, format!("2024-01-02 03:04:05{expected}"));
        }
    }

    #[test]
    fn an_instant_is_read_in_the_forms_that_others_write() {
        let table = [
            ("2024-01-02 03:04:05+00:00", Some("2024-01-02T03:04:05Z")),
            (
                "2024-01-02 03:04:05.500000+02:00",
                Some("2024-01-02T01:04:05.5Z"),
            ),
            ("2024-01-02 03:04:05", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05.25Z", Some("2024-01-02T03:04:05.25Z")),
            ("9999-12-31 23:59:59.999999", None),
            ("2024-13-02 03:04:05", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected: Option<Timestamp> = expected.map(|text| text.parse().unwrap());
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn lengths_are_rounded_to_hundredths() {
        let from: Timestamp = "2024-01-02T03:04:05Z".parse().unwrap();
        let to: Timestamp = "2024-01-02T03:04:06.236Z".parse().unwrap();
        assert_eq!(seconds_between(from, to), 1.24);
        assert_eq!(seconds_between(from, from), 0.0);
    }
}
