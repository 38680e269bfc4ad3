//! Recorded arguments as the types that a Rust program would have.

use jiff::civil::{self, DateTime};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use polyaxon_tracking::{At, MetricValue};
use serde_json::{Map, Value};

#[derive(Clone, Copy)]
pub(super) enum Number {
    Float(f64),
    Single(f32),
    Signed(i64),
    Unsigned(u64),
    Truth(bool),
}

impl Number {
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Single(value) => value.to_f64(),
            Self::Signed(value) => value.to_f64(),
            Self::Unsigned(value) => value.to_f64(),
            Self::Truth(value) => value.to_f64(),
        }
    }
}

/// Numeric text is a number in Python, not in Rust: it is converted here.
pub(super) fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(Number::Truth(*value)),
        Value::Number(value) => value.as_i64().map(Number::Signed),
        Value::String(text) => text.parse().ok().map(Number::Float),
        Value::Object(value) => {
            if let Some(text) = value.get("float").and_then(Value::as_str) {
                return text.parse().ok().map(Number::Float);
            }
            if let Some(text) = value.get("int").and_then(Value::as_str) {
                let float = || text.parse().ok().filter(|float: &f64| float.is_finite());
                return (text.parse().map(Number::Signed))
                    .or_else(|_| text.parse().map(Number::Unsigned))
                    .ok()
                    .or_else(|| float().map(Number::Float));
            }
            let inner = match value.get("value")? {
                Value::Array(list) => list.first()?,
                inner => inner,
            };
            match (value.get("numpy")?.as_str()?, inner) {
                ("float32", Value::String(text)) => text.parse().ok().map(Number::Single),
                ("int64", Value::String(text)) => text.parse().ok().map(Number::Signed),
                (_, Value::String(text)) => text.parse().ok().map(Number::Float),
                (_, Value::Number(number)) => number.as_f64().map(Number::Float),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whole floats, numeric text and `true` are steps in Python.
pub(super) fn step(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(value) => Some((*value).into()),
        Value::Number(value) => value.as_i64().map(i128::from),
        Value::String(text) => text.parse().ok(),
        Value::Object(value) if value.contains_key("int") => value["int"].as_str()?.parse().ok(),
        value => match number(value)? {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
            Number::Float(step) if step.fract() == 0.0 && step.abs() < 1e15 => Some(step as i128),
            _ => None,
        },
    }
}

/// Python reads a text of nearly any form; here it is brought into one that a Rust program has.
pub(super) fn at_time(at: At, value: &Value) -> Option<At> {
    if let Value::Number(seconds) = value {
        return Some(at.timestamp(Timestamp::from_second(seconds.as_i64()?).ok()?));
    }
    if let Some(Number::Float(seconds)) = number(value) {
        let since = SignedDuration::from_secs_f64(seconds);
        return Some(at.timestamp(Timestamp::UNIX_EPOCH.checked_add(since).ok()?));
    }
    // The recording does not show the date, but what was written of it.
    if value.get("object").is_some_and(|kind| kind == "date") {
        return Some(at.civil(civil::date(2024, 1, 2).into()));
    }
    let text = value.as_str().or_else(|| value.get("datetime")?.as_str())?;
    if let Ok(instant) = text.parse() {
        let (_, hours) = text.split_once('+').unwrap_or((text, "00:00"));
        let hours = civil::Time::strptime("%H:%M", hours).ok()?;
        let seconds = hours.duration_since(civil::Time::midnight()).as_secs();
        let offset = Offset::from_seconds(seconds.try_into().ok()?).ok()?;
        return Some(at.timestamp(instant).offset(offset));
    }
    let date = || civil::Date::strptime("%b %d %Y", text).map(DateTime::from);
    let local = text.parse().or_else(|_| date()).ok()?;
    Some(at.civil(local))
}

/// The samples of a sound, the cells of a table: what the recording shows of them.
pub(super) fn samples(value: &Value) -> Option<Vec<f32>> {
    #[expect(clippy::cast_possible_truncation, reason = "samples of the recording")]
    Some(
        floats(value)?
            .into_iter()
            .map(|sample| sample as f32)
            .collect(),
    )
}

/// A list of numbers.
pub(super) fn floats(value: &Value) -> Option<Vec<f64>> {
    let list = value
        .as_array()
        .or_else(|| value.get("value")?.as_array())?;
    let float = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        value => number(value).map(Number::to_f64),
    };
    list.iter().map(float).collect()
}

/// A value as JSON; `None` for what has no such form.
pub(super) fn json(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Array(list) => list.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        Value::Object(map) if map.contains_key("numpy") && map["value"].is_array() => {
            return None;
        }
        Value::Object(map) if map.contains_key("float") || map.contains_key("numpy") => {
            match number(value)? {
                Number::Signed(value) => value.into(),
                number => number.to_f64().into(),
            }
        }
        Value::Object(map) if map.contains_key("int") => {
            map["int"].as_str()?.parse::<u64>().ok()?.into()
        }
        Value::Object(map) if map.contains_key("datetime") => map["datetime"].clone(),
        Value::Object(map) if map.contains_key("object") => return None,
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, value)| Some((key.clone(), json(value)?)));
            members.collect::<Option<Map<_, _>>>()?.into()
        }
        value => value.clone(),
    })
}
