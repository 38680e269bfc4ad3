//! Amounts of CPU, memory and graphics cards.

use polyaxon_client::InvalidInput;
use serde_json::{Number, Value};

/// An amount of a resource: a number, or text as Kubernetes writes it, alone (a request) or as
/// `request..limit` where one side may be missing.
///
/// Sent as given: a number stays a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity(Value);

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(Value::String(text.to_owned()))
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self(Value::String(text))
    }
}

impl From<u32> for Quantity {
    fn from(number: u32) -> Self {
        Self(Value::Number(number.into()))
    }
}

impl From<i32> for Quantity {
    fn from(number: i32) -> Self {
        Self(Value::Number(number.into()))
    }
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Self(Value::Number(number.into()))
    }
}

impl From<f64> for Quantity {
    fn from(number: f64) -> Self {
        // What JSON has no number for is kept as text, so that `check` can name it.
        Self(Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number))
    }
}

impl Quantity {
    /// The value to send as `resource`, which is `cpu`, `memory` or `gpu`.
    pub(super) fn check(&self, resource: &'static str) -> Result<Value, InvalidInput> {
        let fits = match &self.0 {
            Value::Number(number) => number.as_f64().is_some_and(|value| {
                (0.0..9_223_372_036_854_775_808.0).contains(&value)
                    && (resource != "gpu" || value.fract() == 0.0)
            }),
            Value::String(text) => fits(resource, text),
            _ => false,
        };
        match fits {
            true => Ok(self.0.clone()),
            false => Err(InvalidInput::new(
                resource,
                format!("{} is not an amount of {resource}", self.0),
            )),
        }
    }
}

fn fits(resource: &str, text: &str) -> bool {
    let Some((request, limit)) = text.split_once("..") else {
        return amount(resource, text).is_some();
    };
    let (request, limit) = (request.trim(), limit.trim());
    match (request.is_empty(), limit.is_empty()) {
        (true, true) => false,
        (false, true) => amount(resource, request).is_some(),
        (true, false) => amount(resource, limit).is_some(),
        (false, false) => match (amount(resource, request), amount(resource, limit)) {
            (Some(request), Some(limit)) => request <= limit,
            _ => false,
        },
    }
}

/// The number that a text stands for, in the resource's own unit.
fn amount(resource: &str, text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let whole_parts = number.split('.').all(|part| !part.is_empty());
    if !whole_parts || number.matches('.').count() > 1 {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    let factor = match (resource, unit) {
        ("gpu", "") => return (number.fract() == 0.0).then_some(number),
        (_, "") => 1.0,
        ("cpu", "m") => 1e-3,
        ("cpu", "u") => 1e-6,
        ("cpu", "n") => 1e-9,
        ("memory", "k") => 1e3,
        ("memory", "M") => 1e6,
        ("memory", "G") => 1e9,
        ("memory", "T") => 1e12,
        ("memory", "P") => 1e15,
        ("memory", "E") => 1e18,
        ("memory", "Ki") => 1024.0,
        ("memory", "Mi") => 1024f64.powi(2),
        ("memory", "Gi") => 1024f64.powi(3),
        ("memory", "Ti") => 1024f64.powi(4),
        ("memory", "Pi") => 1024f64.powi(5),
        ("memory", "Ei") => 1024f64.powi(6),
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_number_with_a_unit_of_its_resource() {
        let good = [
            ("cpu", "1"),
            ("cpu", "500m"),
            ("cpu", "0.5"),
            ("cpu", "500m..1"),
            ("cpu", "1.."),
            ("cpu", "..2"),
            ("cpu", " 1 .. 2 "),
            ("memory", "512Mi..1Gi"),
            ("memory", "1G"),
            ("memory", "1024"),
            ("gpu", "1"),
            ("gpu", "1..2"),
        ];
        for (resource, text) in good {
            assert_eq!(Quantity::from(text).check(resource).unwrap(), text);
        }
        let bad = [
            ("cpu", ""),
            ("cpu", ".."),
            ("cpu", "3..2"),
            ("cpu", "1Gi"),
            ("cpu", "-1"),
            ("cpu", "1."),
            ("cpu", ".5"),
            ("cpu", "1.2.3"),
            ("memory", "1GB"),
            ("memory", "1gi"),
            ("memory", "1Gi..1Mi"),
            ("gpu", "0.5"),
            ("gpu", "1m"),
            ("cpu", "NaN"),
        ];
        for (resource, text) in bad {
            assert_eq!(
                Quantity::from(text).check(resource).unwrap_err().field(),
                resource,
                "{text}"
            );
        }
    }

    #[test]
    fn a_number_is_sent_as_a_number() {
        assert_eq!(Quantity::from(0.5).check("cpu").unwrap(), 0.5);
        assert_eq!(Quantity::from(1024).check("memory").unwrap(), 1024);
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e19] {
            Quantity::from(bad).check("cpu").unwrap_err();
        }
        Quantity::from(0.5).check("gpu").unwrap_err();
    }
}
