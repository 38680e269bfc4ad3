//! One line of an event file: fields between bars, or a JSON object.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::kind::ArtifactKind;
use crate::metrics::{Stamp, Time};
use crate::{float, time};

/// Appends one value of a metric.
///
/// Every event begins with its line break: so files end without one, and an event that follows a
/// line which was cut off begins a line of its own.
pub(crate) fn push_number(text: &mut String, clock: &mut Clock, stamp: Stamp, value: f64) {
    text.push('\n');
    if let Some(step) = stamp.step {
        push_step(text, step);
    }
    text.push('|');
    clock.push(text, stamp);
    text.push('|');
    float::push(text, value);
}

/// The text of the second that was written last: the next value is of the same one, as a rule.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    second: Option<(i64, Offset)>,
    /// Up to the fraction, and after it.
    date: String,
    offset: String,
}

impl Clock {
    fn push(&mut self, text: &mut String, stamp: Stamp) {
        let (second, fraction) = match stamp.time {
            // Before 1970, seconds are counted downwards.
            Time::Instant(instant) if instant >= Timestamp::UNIX_EPOCH => {
                (instant.as_second(), instant.subsec_nanosecond())
            }
            _ => {
                let (time, offset) = stamp.civil();
                return time::push_civil(text, time, offset, ' ');
            }
        };
        let second = (second, stamp.offset);
        if self.second != Some(second) {
            self.second = Some(second);
            self.date.clear();
            time::push_second(&mut self.date, stamp.civil().0, ' ');
            self.offset.clear();
            time::push_offset(&mut self.offset, stamp.offset);
        }
        text.push_str(&self.date);
        time::push_fraction(text, fraction);
        text.push_str(&self.offset);
    }
}

/// Appends one event of any other kind. `payload` is JSON, but for texts and pages, which are kept
/// as they are.
pub(crate) fn push_payload(text: &mut String, kind: ArtifactKind, stamp: Stamp, payload: &str) {
    if !kind.is_json_lines() {
        push_fields(text, stamp);
        // The platform's readers split at bars before they read the JSON. In JSON, a bar can only
        // be inside of a string.
        let mut rest = payload;
        while let Some((head, tail)) = rest.split_once('|') {
            text.push_str(head);
            text.push_str("\\u007c");
            rest = tail;
        }
        text.push_str(rest);
        return;
    }
    text.push_str("\n{\"timestamp\": \"");
    let (time, offset) = stamp.civil();
    time::push_civil(text, time, offset, ' ');
    text.push_str("\", \"step\": ");
    match stamp.step {
        Some(step) => push_step(text, step),
        None => text.push_str("null"),
    }
    let _ = write!(text, ", \"{kind}\": ");
    push_ascii_json(text, payload);
    text.push('}');
}

fn push_fields(text: &mut String, stamp: Stamp) {
    text.push('\n');
    if let Some(step) = stamp.step {
        push_step(text, step);
    }
    let (time, offset) = stamp.civil();
    text.push('|');
    time::push_civil(text, time, offset, ' ');
    text.push('|');
}

fn push_step(text: &mut String, step: i128) {
    // Nearly all fit, and are written faster so. Writing to a `String` cannot fail.
    let _ = match i64::try_from(step) {
        Ok(step) => write!(text, "{step}"),
        Err(_) => write!(text, "{step}"),
    };
}

/// Appends a JSON string of which every character is ASCII.
fn push_ascii_json(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='\u{7f}' => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::At;

    fn at(step: Option<i128>) -> Stamp {
        let instant: Timestamp = "2024-01-02T03:04:05.5Z".parse().unwrap();
        let at = step.map_or(At::now(), At::step).timestamp(instant);
        at.stamp().unwrap()
    }

    #[test]
    fn one_clock_writes_any_times_after_each_other() {
        let civil = "2024-01-02T03:04:05.75".parse().unwrap();
        let at = |instant: &str| At::step(1).timestamp(instant.parse().unwrap());
        let hour = |at: At| at.offset(Offset::constant(1));
        let table = [
            (at("2024-01-02T03:04:05Z"), "2024-01-02 03:04:05+00:00"),
            (
                at("2024-01-02T03:04:05.5Z"),
                "2024-01-02 03:04:05.500000+00:00",
            ),
            (
                hour(at("2024-01-02T03:04:05.5Z")),
                "2024-01-02 04:04:05.500000+01:00",
            ),
            (
                at("2024-01-02T03:04:06.000001Z"),
                "2024-01-02 03:04:06.000001+00:00",
            ),
            (At::step(1).civil(civil), "2024-01-02 03:04:05.750000"),
            (
                at("2024-01-02T03:04:06.25Z"),
                "2024-01-02 03:04:06.250000+00:00",
            ),
            (
                at("1970-01-01T00:00:00.25Z"),
                "1970-01-01 00:00:00.250000+00:00",
            ),
            (
                at("1969-12-31T23:59:59.75Z"),
                "1969-12-31 23:59:59.750000+00:00",
            ),
            (
                hour(at("1969-12-31T23:59:59.75Z")),
                "1970-01-01 00:59:59.750000+01:00",
            ),
        ];
        let mut clock = Clock::default();
        for (at, expected) in table {
            let mut text = String::new();
            push_number(&mut text, &mut clock, at.stamp().unwrap(), 0.5);
            assert_eq!(text, format!("\n1|{expected}|0.5"));
        }
    }

    #[test]
    fn an_event_is_a_line_break_and_three_fields() {
        let table = [
            (Some(-1), "\n-1|2024-01-02 03:04:05.500000+00:00|0.5"),
            (None, "\n|2024-01-02 03:04:05.500000+00:00|0.5"),
            (
                Some(1 << 70),
                "\n1180591620717411303424|2024-01-02 03:04:05.500000+00:00|0.5",
            ),
        ];
        for (step, expected) in table {
            let mut text = String::new();
            push_number(&mut text, &mut Clock::default(), at(step), 0.5);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_bar_in_a_payload_is_no_separator() {
        let mut text = String::new();
        push_payload(
            &mut text,
            ArtifactKind::Curve,
            at(Some(1)),
            r#"{"x":["a|b","é|"]}"#,
        );
        assert_eq!(
            text,
            "\n1|2024-01-02 03:04:05.500000+00:00|{\"x\":[\"a\\u007cb\",\"é\\u007c\"]}"
        );
    }

    #[test]
    fn a_text_is_a_json_object_of_ascii() {
        let mut text = String::new();
        push_payload(
            &mut text,
            ArtifactKind::Text,
            at(None),
            "é\u{1f600}|\n\u{1}\u{7f}",
        );
        assert_eq!(
            text,
            "\n{\"timestamp\": \"2024-01-02 03:04:05.500000+00:00\", \"step\": null, \
             \"text\": \"\\u00e9\\ud83d\\ude00|\\n\\u0001\u{7f}\"}"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_and_reads_back(value in any::<String>()) {
            let mut text = String::new();
            push_payload(&mut text, ArtifactKind::Html, at(Some(3)), &value);
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert!(text.is_ascii());
            let line: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(line["html"].as_str(), Some(value.as_str()));
            prop_assert_eq!(&line["step"], 3);
        }

        #[test]
        fn any_payload_has_two_bars_before_it_and_reads_back(value in any::<String>()) {
            let payload = serde_json::to_string(&value).unwrap();
            let mut text = String::new();
            push_payload(&mut text, ArtifactKind::Confusion, at(Some(3)), &payload);
            let fields: Vec<&str> = text.split('|').collect();
            prop_assert_eq!(fields.len(), 3);
            prop_assert_eq!(serde_json::from_str::<String>(fields[2]).unwrap(), value);
        }
    }
}
