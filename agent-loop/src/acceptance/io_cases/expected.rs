//! What an answer should be, and whether it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::serde_as;
use crate::text::{one_line, printable};

/// What the answer to one input should be. It never leaves the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "expected", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Expected {
    /// Exactly these bytes.
    #[non_exhaustive]
    Bytes {
        /// Which.
        #[serde(with = "serde_as::bytes")]
        bytes: Vec<u8>,
    },
    /// This text, white space at both ends aside.
    #[non_exhaustive]
    Text {
        /// Which.
        text: String,
        /// Of a function: the name of the value's type, `Decimal`.
        of_type: Option<String>,
    },
    /// This JSON value, whatever its spelling. Numbers may be off by a tolerance.
    #[non_exhaustive]
    Json {
        /// Which.
        value: Value,
        /// How far a number may be off, and how far in parts of the number.
        tolerance: (f64, f64),
    },
    /// Of a function: an exception of this class or of one below it.
    #[non_exhaustive]
    Raised {
        /// The name of the class, without its module.
        class: String,
    },
}

impl Expected {
    /// Exactly these bytes.
    #[must_use]
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes {
            bytes: bytes.into(),
        }
    }

    /// This text, white space at both ends aside; of a function, the text of its value.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            of_type: None,
        }
    }

    /// The text of a value of a type. Only functions have one.
    #[must_use]
    pub fn typed(of_type: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            of_type: Some(of_type.into()),
        }
    }

    /// This JSON value, with numbers of exactly this size.
    #[must_use]
    pub fn json(value: impl Into<Value>) -> Self {
        Self::Json {
            value: value.into(),
            tolerance: (0.0, 0.0),
        }
    }

    /// This JSON value, whose numbers may be off by `absolute`, or by the part `relative` of
    /// themselves, whichever is more.
    #[must_use]
    pub fn json_within(value: impl Into<Value>, absolute: f64, relative: f64) -> Self {
        Self::Json {
            value: value.into(),
            tolerance: (absolute, relative),
        }
    }

    /// An exception. Only functions raise one.
    #[must_use]
    pub fn raised(class: impl Into<String>) -> Self {
        Self::Raised {
            class: class.into(),
        }
    }

    /// Whether it is only about functions.
    pub(super) fn needs_a_function(&self) -> bool {
        matches!(
            self,
            Self::Raised { .. }
                | Self::Text {
                    of_type: Some(_),
                    ..
                }
        )
    }

    /// Whether a tolerance can be one.
    pub(super) fn is_usable(&self) -> bool {
        let fits = |number: f64| number.is_finite() && number >= 0.0;
        match self {
            Self::Json { tolerance, .. } => fits(tolerance.0) && fits(tolerance.1),
            _ => true,
        }
    }

    /// Whether a command that wrote `bytes` gave the answer.
    pub(super) fn is_written(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes { bytes: expected } => bytes == expected,
            Self::Text { text, .. } => {
                std::str::from_utf8(bytes).is_ok_and(|got| got.trim() == text.trim())
            }
            Self::Json { value, tolerance } => serde_json::from_slice::<Value>(bytes)
                .is_ok_and(|got| same(value, &got, *tolerance)),
            Self::Raised { .. } => false,
        }
    }

    /// Whether a function that did this gave the answer.
    pub(super) fn is_told(&self, told: &Told) -> bool {
        match (self, told) {
            (Self::Raised { class }, Told::Raised { raised, .. }) => raised.contains(class),
            (Self::Bytes { bytes }, Told::Value { text, .. }) => text.as_bytes() == bytes,
            (
                Self::Text { text, of_type },
                Told::Value {
                    kind, text: got, ..
                },
            ) => got.trim() == text.trim() && of_type.as_ref().is_none_or(|name| name == kind),
            (
                Self::Json { value, tolerance },
                Told::Value {
                    json: Some(got), ..
                },
            ) => same(value, got, *tolerance),
            _ => false,
        }
    }
}

/// For the model, where it may know.
impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes { bytes } => write!(f, "`{}`", one_line(&printable(bytes), 200)),
            Self::Text {
                text,
                of_type: None,
            } => write!(f, "`{}`", one_line(text, 200)),
            Self::Text {
                text,
                of_type: Some(name),
            } => write!(f, "`{}` of type {name}", one_line(text, 200)),
            Self::Json { value, .. } => write!(f, "`{}`", one_line(&value.to_string(), 200)),
            Self::Raised { class } => write!(f, "an exception {class}"),
        }
    }
}

/// What a function did, as the program beside it tells.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Told {
    Raised {
        raised: Vec<String>,
        text: String,
    },
    /// There is nothing that could have been called; the exception that says so is no answer.
    Unloaded {
        unloaded: String,
        text: String,
    },
    Value {
        #[serde(rename = "type")]
        kind: String,
        text: String,
        #[serde(default, deserialize_with = "some")]
        json: Option<Value>,
    },
}

/// A field that is there, null included.
fn some<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Raised { raised, text } => {
                let class = raised.first().map_or("an exception", String::as_str);
                write!(
                    f,
                    "{class}: `{}`",
                    one_line(&printable(text.as_bytes()), 200)
                )
            }
            Self::Unloaded { unloaded, text } => {
                let text = printable(text.as_bytes());
                let text = one_line(&text, 200);
                write!(f, "none, there is no such function: {unloaded}: `{text}`")
            }
            Self::Value { kind, text, .. } => {
                let text = printable(text.as_bytes());
                write!(f, "`{}` of type {kind}", one_line(&text, 200))
            }
        }
    }
}

/// Whether two JSON values are the same, numbers within `tolerance`.
fn same(expected: &Value, got: &Value, tolerance: (f64, f64)) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => near(a, b, tolerance),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, tolerance))
        }
        (Value::Object(a), Value::Object(b)) => {
            let known = |(name, a)| b.get(name).is_some_and(|b| same(a, b, tolerance));
            a.len() == b.len() && a.iter().all(known)
        }
        (a, b) => a == b,
    }
}

fn near(a: &serde_json::Number, b: &serde_json::Number, (absolute, relative): (f64, f64)) -> bool {
    // Whole numbers beyond 2^53 are compared as what they are.
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64())
        && a == b
    {
        return true;
    }
    let is_whole = |n: &serde_json::Number| n.is_i64() || n.is_u64();
    if is_whole(a) && is_whole(b) && absolute == 0.0 && relative == 0.0 {
        return a == b;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= absolute.max(relative * a.abs()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_command_wrote_is_compared_as_it_was_asked_for() {
        let table = [
            (Expected::bytes(*b"3\n"), "3\n", true),
            (Expected::bytes(*b"3\n"), "3", false),
            (Expected::text("3"), " 3\n", true),
            (Expected::text("3"), "33", false),
            (
                Expected::json(json!({"a": [1, 2.0]})),
                "{ \"a\": [1, 2] }",
                true,
            ),
            (
                Expected::json(json!({"a": 1})),
                "{\"a\": 1, \"b\": 2}",
                false,
            ),
            (Expected::json(json!([1])), "[1] [1]", false),
            (Expected::json(json!(0.3)), "0.30000000000000004", false),
            (
                Expected::json_within(json!(0.3), 1e-9, 0.0),
                "0.30000000000000004",
                true,
            ),
            (Expected::json_within(json!(1000), 0.0, 0.01), "1009", true),
            (Expected::json_within(json!(1000), 0.0, 0.01), "1011", false),
            (
                Expected::json(json!(9_007_199_254_740_993_i64)),
                "9007199254740992",
                false,
            ),
            (
                Expected::json(json!(u64::MAX)),
                "18446744073709551614",
                false,
            ),
            (Expected::json(json!(1)), "NaN", false),
            (Expected::json(json!(1)), "true", false),
            (Expected::json(json!("1")), "1", false),
            (Expected::raised("ValueError"), "ValueError", false),
        ];
        for (expected, written, fits) in table {
            assert_eq!(
                expected.is_written(written.as_bytes()),
                fits,
                "{expected:?} {written}"
            );
        }
    }

    fn told(text: &str) -> Told {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_a_function_did_is_compared_with_its_type_and_its_class() {
        let decimal = told(r#"{"type": "Decimal", "text": "1.50"}"#);
        let none = told(r#"{"type": "NoneType", "text": "None", "json": null}"#);
        let raised = told(r#"{"raised": ["InvalidOperation", "ArithmeticError"], "text": "x"}"#);
        let unloaded = told(r#"{"unloaded": "ValueError", "text": "x"}"#);
        let table = [
            (Expected::typed("Decimal", "1.50"), &decimal, true),
            (Expected::typed("float", "1.50"), &decimal, false),
            (Expected::text("1.50"), &decimal, true),
            (Expected::bytes(*b"1.50"), &decimal, true),
            // A value that is no JSON is equal to none.
            (Expected::json(json!(1.5)), &decimal, false),
            (Expected::json(json!(null)), &none, true),
            (Expected::raised("ArithmeticError"), &raised, true),
            (Expected::raised("ValueError"), &raised, false),
            (Expected::raised("ValueError"), &decimal, false),
            (Expected::text("x"), &raised, false),
            (Expected::raised("ValueError"), &unloaded, false),
            (Expected::text("x"), &unloaded, false),
            (Expected::bytes(*b"x"), &unloaded, false),
            (Expected::json(json!("x")), &unloaded, false),
            (Expected::typed("ValueError", "x"), &unloaded, false),
        ];
        for (expected, told, fits) in table {
            assert_eq!(expected.is_told(told), fits, "{expected:?} {told:?}");
        }
    }

    #[test]
    fn a_tolerance_is_a_number_from_zero_up() {
        assert!(Expected::json_within(1, 0.5, 0.0).is_usable());
        for (absolute, relative) in [(-1.0, 0.0), (0.0, f64::NAN), (f64::INFINITY, 0.0)] {
            assert!(!Expected::json_within(1, absolute, relative).is_usable());
        }
    }
}
