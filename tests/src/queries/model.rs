//! What is known of each run.

use std::cmp::Ordering;

use polyaxon_client::RunUuid;
use polyaxon_client::runs::RunStatus;
use serde_json::{Map, Value, json};

/// A run as it was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the members are those of a run")]
pub struct Known {
    pub number: usize,
    pub uuid: RunUuid,
    pub name: Option<String>,
    pub description: Option<String>,
    pub status: RunStatus,
    pub inputs: Map<String, Value>,
    pub outputs: Map<String, Value>,
    pub artifacts: Vec<(&'static str, &'static str)>,
}

/// A value as databases compare it: what is no number is text.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "of a test")]
pub enum Plain {
    /// A number.
    Number(f64),
    /// All else.
    Text(String),
}

impl Plain {
    /// The value as databases keep it.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match (value.as_f64(), value.as_str()) {
            (Some(number), _) => Self::Number(number),
            (None, Some(text)) => Self::Text(text.to_owned()),
            (None, None) => Self::Text(value.to_string()),
        }
    }

    /// How it compares with a number.
    #[must_use]
    pub fn compared_with(&self, number: f64) -> Ordering {
        self.compared(&Self::Number(number))
    }

    fn compared(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

impl Known {
    /// The run with this number.
    #[must_use]
    pub fn number(number: usize) -> Self {
        // Texts that the language cuts at, or takes for something else, beside what they look like.
        let revisions = [
            json!("1234"),
            json!(1234),
            json!("true"),
            json!(true),
            json!("null"),
            Value::Null,
            json!("a,b"),
            json!("say \"hi\""),
            json!("back\\slash"),
            json!("x AND y"),
            json!("(p)|q"),
            json!("50%"),
            json!("é ü"),
            json!("nil"),
            json!(">5"),
            json!("~x"),
            json!("live_state"),
            json!("a..b"),
            json!("two\nlines"),
        ];
        let mut inputs = Map::new();
        // One in twenty has none.
        if let Some(revision) = revisions.get(number % 20) {
            inputs.insert("rev".to_owned(), revision.clone());
            inputs.insert("number".to_owned(), json!(number));
        }
        let mut outputs = Map::new();
        let score = match number % 7 {
            0 => None,
            1 => Some(Value::Null),
            2 => Some(json!("high")),
            3 => Some(json!(number.is_multiple_of(2))),
            #[expect(clippy::cast_precision_loss, reason = "below 200")]
            _ => Some(json!(number as f64 / 8.0 - 10.0)),
        };
        if let Some(score) = score {
            outputs.insert("score".to_owned(), score);
        }
        Self {
            number,
            uuid: RunUuid::random(),
            name: match number % 10 {
                9 => None,
                8 => Some(["true", "null", "1234", "nil"][number / 10 % 4].to_owned()),
                _ => Some(format!("Candidate-{number:03}")),
            },
            description: match number % 4 {
                0 => Some("Sorted, (mostly) by hand | 100% sure".to_owned()),
                1 => Some(format!("case {number}")),
                _ => None,
            },
            status: match number % 5 {
                0 => RunStatus::Succeeded,
                1 => RunStatus::Failed,
                _ => RunStatus::Created,
            },
            inputs,
            outputs,
            artifacts: match number % 20 {
                3 => vec![
                    ("loss", "metric"),
                    ("accuracy", "metric"),
                    ("case set", "data"),
                ],
                4 => vec![("loss", "metric")],
                _ => Vec::new(),
            },
        }
    }

    /// The output that is sorted and compared.
    #[must_use]
    pub fn score(&self) -> Option<Plain> {
        self.outputs.get("score").map(Plain::of)
    }

    /// What it is sorted by, a value a field.
    pub(super) fn keys(&self, order: &str) -> Vec<Option<Plain>> {
        let key = |field: &str| match field.trim_start_matches('-') {
            "metrics.score" | "outputs.score" => self.score(),
            "inputs.rev" => self.inputs.get("rev").map(Plain::of),
            "name" => self.name.clone().map(Plain::Text),
            other => panic!("{other}"),
        };
        order.split(',').map(key).collect()
    }
}

/// What is missing comes first upwards and last downwards.
pub(super) fn in_order(order: &str, one: &[Option<Plain>], other: &[Option<Plain>]) -> Ordering {
    let fields = order.split(',').zip(one.iter().zip(other));
    let orders = fields.map(|(field, (one, other))| {
        let order = match (one, other) {
            (Some(one), Some(other)) => one.compared(other),
            (one, other) => one.is_some().cmp(&other.is_some()),
        };
        match field.starts_with('-') {
            true => order.reverse(),
            false => order,
        }
    });
    orders.fold(Ordering::Equal, Ordering::then)
}
