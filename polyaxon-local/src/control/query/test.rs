//! What a value has to be.

use std::cmp::Ordering;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Kind, not_here};

/// What a value has to be.
#[derive(Debug)]
pub(super) enum Test {
    Nil,
    OneOf(Vec<Plain>),
    Compared(Sign, f64),
    /// From the first instant up to the second, which is not included.
    Within(Option<Timestamp>, Option<Timestamp>),
    /// Text that begins and ends with anything, or with this.
    Like {
        text: String,
        front: bool,
        back: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A value as the platform's database keeps it: what is no number is text, and `true` and null too.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Number(f64),
    Text(String),
}

impl Plain {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            value => match value.as_f64() {
                Some(number) => Self::Number(number),
                None => Self::Text(value.to_string()),
            },
        }
    }

    /// Numbers come before text.
    pub(super) fn compared(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

const SIGNS: [(&str, Sign); 6] = [
    (">=", Sign::AtLeast),
    ("=>", Sign::AtLeast),
    ("<=", Sign::AtMost),
    ("=<", Sign::AtMost),
    (">", Sign::Above),
    ("<", Sign::Below),
];

impl Sign {
    fn fits(self, order: Ordering) -> bool {
        match self {
            Self::Above => order.is_gt(),
            Self::AtLeast => order.is_ge(),
            Self::Below => order.is_lt(),
            Self::AtMost => order.is_le(),
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Above => Self::AtMost,
            Self::AtLeast => Self::Below,
            Self::Below => Self::AtLeast,
            Self::AtMost => Self::Above,
        }
    }
}

impl Test {
    pub(super) fn parse(text: &str, kind: Kind) -> Result<Self, String> {
        let text = text.trim();
        if text == "nil" {
            return Ok(Self::Nil);
        }
        if text.is_empty() {
            return Err("an operation is empty".to_owned());
        }
        if kind == Kind::Time {
            return time(text);
        }
        if text.contains("..") {
            return Err(format!(
                "`..` is not allowed for value conditions. Operation: {text}"
            ));
        }
        let signed = SIGNS
            .iter()
            .find_map(|(sign, meant)| Some((*meant, text.strip_prefix(sign)?.trim())));
        match (kind, signed) {
            (Kind::Number | Kind::Mixed, Some((sign, number))) => match decoded(number).as_f64() {
                Some(number) => Ok(Self::Compared(sign, number)),
                None => Err(not_here(&format!(
                    "a comparison with `{number}`, no number"
                ))),
            },
            (_, Some(_)) => Err(format!(
                "a comparison is not allowed here. Operation: {text}"
            )),
            (Kind::Number, None) => match decoded(text) {
                // Text that reads as a number is taken, and is text.
                Value::String(word) if word.parse::<f64>().is_err() => Err(format!(
                    "Scalar operation requires int or float params, received {text}."
                )),
                Value::Null | Value::Array(_) | Value::Object(_) => Err(no_value(text)),
                value => Ok(Self::OneOf(vec![Plain::of(&value)])),
            },
            (Kind::Text, None) => search(text),
            (Kind::Word | Kind::Free | Kind::Mixed, None) => {
                one_of(text, matches!(kind, Kind::Word)).map(Self::OneOf)
            }
            (Kind::Time, None) => time(text),
        }
    }

    /// Whether a value is that, or is not where that is asked for. What is missing is not, and is
    /// neither larger nor smaller.
    pub(super) fn fits(&self, value: Option<&Value>, negated: bool) -> bool {
        match self {
            Self::Nil => value.is_none() != negated,
            Self::OneOf(wanted) => {
                let fits = match value {
                    Some(Value::Array(values)) => values
                        .iter()
                        .any(|value| wanted.contains(&Plain::of(value))),
                    Some(value) => wanted.contains(&Plain::of(value)),
                    None => false,
                };
                fits != negated
            }
            Self::Compared(sign, than) => {
                let sign = if negated { sign.negated() } else { *sign };
                let than = Plain::Number(*than);
                value.is_some_and(|value| sign.fits(Plain::of(value).compared(&than)))
            }
            Self::Within(from, to) => {
                let at = value.and_then(|value| value.as_str()?.parse::<Timestamp>().ok());
                let fits = at.is_some_and(|at| {
                    from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to)
                });
                fits != negated
            }
            Self::Like { text, front, back } => {
                let value = value.and_then(Value::as_str).map(str::to_ascii_lowercase);
                let fits = value.is_some_and(|value| match (front, back) {
                    (true, true) => value.contains(text),
                    (false, true) => value.starts_with(text),
                    (true, false) => value.ends_with(text),
                    (false, false) => value == *text,
                });
                fits != negated
            }
        }
    }
}

/// JSON where it is some, else the word itself.
fn decoded(word: &str) -> Value {
    serde_json::from_str(word).unwrap_or_else(|_| word.into())
}

fn no_value(word: &str) -> String {
    format!("`{word}` is no value; `nil` asks for what is missing")
}

/// One value, or several with a bar between them. A word can be a number or text,
/// quoted or not.
fn one_of(text: &str, words: bool) -> Result<Vec<Plain>, String> {
    let mut values = Vec::new();
    for word in text.split('|').map(str::trim) {
        let value = decoded(word);
        if value.is_null() || word.is_empty() {
            return Err(no_value(word));
        }
        values.push(Plain::of(&value));
        match &value {
            Value::Number(_) if words => values.push(Plain::Text(word.to_owned())),
            Value::String(text) if words => values.extend(text.parse().map(Plain::Number)),
            _ => {}
        }
    }
    Ok(values)
}

/// Text, or a part of one. The text is unescaped before bars and `%` are looked for in it.
fn search(text: &str) -> Result<Test, String> {
    let whole = match decoded(text) {
        Value::String(text) => text,
        _ => text.to_owned(),
    };
    if whole.is_empty() {
        return Err(no_value(text));
    }
    if whole.contains('|') {
        let values = whole
            .split('|')
            .map(str::trim)
            .map(|word| match decoded(word) {
                Value::String(text) => Plain::Text(text),
                _ => Plain::Text(word.to_owned()),
            });
        return Ok(Test::OneOf(values.collect()));
    }
    let (front, back) = (whole.starts_with('%'), whole.ends_with('%'));
    if !front && !back {
        return Ok(Test::OneOf(vec![Plain::Text(whole)]));
    }
    let parts: Vec<&str> = whole
        .split('%')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let [part] = parts[..] else {
        return Err(format!(
            "`%` is not allowed inside of text. Operation: {text}"
        ));
    };
    match decoded(part) {
        Value::String(part) => Ok(Test::Like {
            text: part.to_ascii_lowercase(),
            front,
            back,
        }),
        _ => Err(format!("Error applying operator: `{part}` is no text")),
    }
}

fn time(text: &str) -> Result<Test, String> {
    if text.contains('|') {
        return Err(format!(
            "`|` is not allowed for datetime conditions. Operation: {text}"
        ));
    }
    if let Some((from, to)) = text.split_once("..") {
        // The end is included.
        return Ok(Test::Within(
            Some(instant(from)?),
            Some(after(instant(to)?)),
        ));
    }
    let signed = SIGNS
        .iter()
        .find_map(|(sign, meant)| Some((*meant, text.strip_prefix(sign)?)));
    let Some((sign, rest)) = signed else {
        let (from, length) = match day(text) {
            Some(day) => (day, SignedDuration::from_hours(24)),
            None => (minute(instant(text)?), SignedDuration::from_mins(1)),
        };
        return Ok(Test::Within(Some(from), from.checked_add(length).ok()));
    };
    let at = instant(rest)?;
    Ok(match sign {
        Sign::Above => Test::Within(Some(after(at)), None),
        Sign::AtLeast => Test::Within(Some(at), None),
        Sign::Below => Test::Within(None, Some(at)),
        Sign::AtMost => Test::Within(None, Some(after(at))),
    })
}

/// The next instant.
fn after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at)
}

/// The beginning of the minute.
fn minute(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(60)).unwrap_or(at)
}

/// A time, or the beginning of a day.
fn instant(text: &str) -> Result<Timestamp, String> {
    let plain = text.trim().trim_matches('"');
    let at = plain.parse().ok().or_else(|| day(plain));
    at.ok_or_else(|| format!("“{plain}” value has an invalid format."))
}

fn day(text: &str) -> Option<Timestamp> {
    let text = text.trim_matches('"');
    // Of a time, the date alone would be read.
    let day = text.parse::<Date>().ok().filter(|_| text.len() == 10)?;
    format!("{day}T00:00:00Z").parse().ok()
}
