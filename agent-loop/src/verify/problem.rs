//! What does not hold, in words.

use std::fmt;

use serde_json::Value;

use crate::journal::Record;
use crate::play::Difference;
use crate::text::one_line;

/// Something in the folder of a run that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What it is about.
    pub part: Part,
    /// The line of the journal, from 1, where it is about one.
    pub line: Option<u64>,
    /// What is wrong, as a half sentence.
    pub what: String,
}

/// A part of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The lines of the journal and their chain.
    Journal,
    /// Which records there are, in which order.
    Order,
    /// What the attempt is made of.
    Started,
    /// The plan of a check, or the evaluator.
    Plan,
    /// A question to the model.
    Question,
    /// A reply of the model, a pause or an approval.
    Reply,
    /// What a reply was taken for, by the rules and policies.
    Decision,
    /// What was about to be done.
    Intent,
    /// What came of it.
    Receipt,
    /// The verdict of a check.
    Verdict,
    /// The end of a turn.
    Turn,
    /// The end of the attempt.
    End,
    /// `patch.diff`.
    Patch,
    /// `outcome.json`.
    Outcome,
    /// `workspace.json`.
    Workspace,
    /// `acceptance.json`.
    Acceptance,
    /// `blobs`.
    Blobs,
    /// `files`.
    Files,
    /// `report.html`.
    Report,
}

impl Part {
    /// A word or two for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Order => "order",
            Self::Started => "start",
            Self::Plan => "plan",
            Self::Question => "question",
            Self::Reply => "reply",
            Self::Decision => "decision",
            Self::Intent => "intent",
            Self::Receipt => "receipt",
            Self::Verdict => "verdict",
            Self::Turn => "turn",
            Self::End => "end",
            Self::Patch => "patch.diff",
            Self::Outcome => "outcome.json",
            Self::Workspace => "workspace.json",
            Self::Acceptance => "acceptance.json",
            Self::Blobs => "blobs",
            Self::Files => "files",
            Self::Report => "report.html",
        }
    }

    fn of(kind: &str) -> Self {
        match kind {
            "started" => Self::Started,
            "asked" => Self::Question,
            "replied" | "paused" | "approval" => Self::Reply,
            "decided" => Self::Decision,
            "intent" => Self::Intent,
            "receipt" | "placing" | "placed" | "prepared" | "left" => Self::Receipt,
            "judged" => Self::Verdict,
            "turn" => Self::Turn,
            "ended" => Self::End,
            _ => Self::Order,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}, {}: {}", self.part, self.what),
            None => write!(f, "{}: {}", self.part, self.what),
        }
    }
}

impl Problem {
    /// What is wrong with a record.
    pub(super) fn of(difference: &Difference, record: Option<&Record>) -> Self {
        let line = Some(difference.at + 1);
        let (part, what) = match (&difference.expected, record) {
            (Some(expected), _) if expected.kind() != difference.kind => {
                let what = format!(
                    "{:?} is there, and {:?} comes next",
                    difference.kind,
                    expected.kind()
                );
                (Part::Order, what)
            }
            (Some(expected), Some(record)) => {
                let mut found = Vec::new();
                let values = serde_json::to_value(&**expected)
                    .and_then(|expected| Ok((expected, serde_json::to_value(&record.event)?)));
                if let Ok((expected, there)) = values {
                    compare(&expected, &there, "", &mut found);
                }
                (Part::of(difference.kind), found.join("; "))
            }
            _ => {
                let what = format!("{:?} cannot come here", difference.kind);
                (Part::Order, what)
            }
        };
        Self { part, line, what }
    }
}

/// The most differences that are told of one record.
const MOST_TOLD: usize = 4;

/// Where two values differ, in words.
pub(super) fn compare(expected: &Value, there: &Value, at: &str, found: &mut Vec<String>) {
    if expected == there || found.len() >= MOST_TOLD {
        return;
    }
    if let (Value::Object(expected), Value::Object(there)) = (expected, there) {
        for (name, value) in expected {
            let inner = there.get(name).unwrap_or(&Value::Null);
            compare(value, inner, &below(at, name), found);
        }
        for name in there.keys().filter(|name| !expected.contains_key(*name)) {
            found.push(format!("{} should not be there", below(at, name)));
        }
        return;
    }
    // Details are for the operator of the attempt and for nobody else.
    let is_private = at.ends_with("detail");
    found.push(match is_private {
        true => format!("{at} is another"),
        false => format!("{at} is {} and should be {}", shown(there), shown(expected)),
    });
}

fn below(at: &str, name: &str) -> String {
    match at {
        "" | "body" => name.to_owned(),
        at => format!("{at}.{name}"),
    }
}

fn shown(value: &Value) -> String {
    one_line(&value.to_string(), 100)
}
