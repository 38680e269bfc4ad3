//! Recorded arguments as the types that a Rust program would have.

use jiff::{SignedDuration, Timestamp};
use polyaxon_tracking::MetricValue;
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
pub(super) fn step(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(value) => Some((*value).into()),
        Value::Number(value) => value.as_i64(),
        Value::String(text) => text.parse().ok(),
        value => match number(value)? {
            Number::Signed(step) => Some(step),
            #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
            Number::Float(step) if step.fract() == 0.0 && step.abs() < 1e15 => Some(step as i64),
            _ => None,
        },
    }
}

/// Times without an offset, and with another than UTC's, have no counterpart.
pub(super) fn timestamp(value: &Value) -> Option<Timestamp> {
    if let Value::Number(seconds) = value {
        return Timestamp::from_second(seconds.as_i64()?).ok();
    }
    if let Some(Number::Float(seconds)) = number(value) {
        let since = SignedDuration::from_secs_f64(seconds);
        return Timestamp::UNIX_EPOCH.checked_add(since).ok();
    }
    let text = value.as_str().or_else(|| value.get("datetime")?.as_str())?;
    let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
    is_utc.then(|| text.parse().ok())?
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
