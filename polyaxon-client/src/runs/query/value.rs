//! Values as the query language writes them.

use serde_json::Number;

use crate::error::InvalidInput;

/// A value to compare with: text, a number, or true or false.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryValue(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Text(String),
    Bool(bool),
    Number(Number),
    /// What has no form in JSON, as people write it.
    NoNumber(String),
}

impl QueryValue {
    /// The value in JSON, with nothing in it that the language takes for its own.
    pub(super) fn encoded(&self) -> Result<String, InvalidInput> {
        match &self.0 {
            Kind::Text(text) => quoted(text),
            Kind::Bool(value) => Ok(value.to_string()),
            Kind::Number(number) if number.is_u64() && !number.is_i64() => Err(refused(format!(
                "{number} does not fit into 64 bits with a sign"
            ))),
            Kind::Number(number) => Ok(number.to_string()),
            Kind::NoNumber(text) => Err(refused(format!("{text} is no finite number"))),
        }
    }

    /// The value as text, for fields that hold nothing else.
    pub(super) fn as_text(&self) -> String {
        match &self.0 {
            Kind::Text(text) | Kind::NoNumber(text) => text.clone(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number(number) => number.to_string(),
        }
    }
}

/// Text in quotes. The server splits a query before it reads the JSON in it, so what it splits at
/// is written as an escape of JSON.
pub(super) fn quoted(text: &str) -> Result<String, InvalidInput> {
    if text.contains('\0') {
        return Err(refused(format!("{text:?} holds a NUL")));
    }
    let json = serde_json::Value::from(text).to_string();
    let mut encoded = String::with_capacity(json.len());
    let mut last = ' ';
    for (at, c) in json.char_indices() {
        let is_cut = match c {
            ',' | '(' | ')' | '|' | '%' => true,
            '.' => last == '.',
            c if c.is_whitespace() => begins_with_operator(json.get(at + c.len_utf8()..)),
            _ => false,
        };
        match is_cut {
            true => encoded.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => encoded.push(c),
        }
        last = c;
    }
    Ok(encoded)
}

/// Whether the words `AND` or `OR` may follow, in either case.
fn begins_with_operator(rest: Option<&str>) -> bool {
    let begins = |word: &str| {
        let head = rest.and_then(|rest| rest.get(..word.len()));
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    begins("and") || begins("or")
}

pub(super) fn refused(problem: String) -> InvalidInput {
    InvalidInput::new("value", problem)
}

impl From<&str> for QueryValue {
    fn from(text: &str) -> Self {
        Self(Kind::Text(text.to_owned()))
    }
}

impl From<String> for QueryValue {
    fn from(text: String) -> Self {
        Self(Kind::Text(text))
    }
}

impl From<&String> for QueryValue {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for QueryValue {
    fn from(value: bool) -> Self {
        Self(Kind::Bool(value))
    }
}

impl From<i32> for QueryValue {
    fn from(value: i32) -> Self {
        Self(Kind::Number(value.into()))
    }
}

impl From<i64> for QueryValue {
    fn from(value: i64) -> Self {
        Self(Kind::Number(value.into()))
    }
}

impl From<u32> for QueryValue {
    fn from(value: u32) -> Self {
        Self(Kind::Number(value.into()))
    }
}

impl From<u64> for QueryValue {
    fn from(value: u64) -> Self {
        Self(Kind::Number(value.into()))
    }
}

impl From<f64> for QueryValue {
    fn from(value: f64) -> Self {
        Self(match Number::from_f64(value) {
            Some(number) => Kind::Number(number),
            None => Kind::NoNumber(value.to_string()),
        })
    }
}
