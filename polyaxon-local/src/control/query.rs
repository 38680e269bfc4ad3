//! Filters and orders of lists: the part of the platform's query language that is answered here.
//! What is not in it is refused, since a list that ignores half of its filter looks like an answer.

use std::cmp::Ordering;

use serde_json::{Map, Value};

type Item = Map<String, Value>;

/// The fields of one kind of list.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Members by their own name.
    pub(crate) plain: &'static [&'static str],
    /// Names of members that hold values by key: as written in a query, and as they are called.
    pub(crate) keyed: &'static [(&'static str, &'static str)],
}

/// The fields of runs.
pub(crate) const RUNS: Fields = Fields {
    plain: &[
        "uuid",
        "name",
        "status",
        "kind",
        "runtime",
        "tags",
        "is_managed",
        "managed_by",
        "pending",
        "pipeline",
        "live_state",
        "created_at",
        "updated_at",
        "started_at",
        "finished_at",
        "duration",
        "wait_time",
    ],
    keyed: &[
        ("inputs", "inputs"),
        ("in", "inputs"),
        ("params", "inputs"),
        ("outputs", "outputs"),
        ("out", "outputs"),
        ("metrics", "outputs"),
        ("meta_info", "meta_info"),
    ],
};

/// The fields of artifacts in a lineage.
pub(crate) const LINEAGE: Fields = Fields {
    plain: &["name", "kind", "path", "state", "is_input", "run"],
    keyed: &[],
};

/// Where a value is in an item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    member: &'static str,
    key: Option<String>,
}

impl Path {
    fn parse(text: &str, fields: &Fields) -> Option<Self> {
        let text = if text == "id" { "uuid" } else { text };
        let Some((name, key)) = text.split_once('.') else {
            let member = fields.plain.iter().find(|name| **name == text)?;
            return Some(Self { member, key: None });
        };
        let (_, member) = fields.keyed.iter().find(|(alias, _)| *alias == name)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (!key.is_empty() && key.bytes().all(fits)).then(|| Self {
            member,
            key: Some(key.to_owned()),
        })
    }

    fn of<'a>(&self, item: &'a Item) -> &'a Value {
        let value = item.get(self.member);
        let value = match &self.key {
            None => value,
            Some(key) => value.and_then(|members| members.get(key)),
        };
        value.unwrap_or(&Value::Null)
    }
}

/// Which items of a list are wanted: those that every term fits.
#[derive(Debug, Default)]
pub(crate) struct Filter(Vec<Term>);

#[derive(Debug)]
struct Term {
    path: Path,
    negated: bool,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Nil,
    OneOf(Vec<Value>),
    Compared(Wanted, f64),
}

/// Which outcomes of a comparison fit.
type Wanted = fn(Ordering) -> bool;

impl Filter {
    /// Reads `field:value,field:value`; the crate's README has the list.
    ///
    /// # Errors
    /// A sentence about what is not understood.
    pub(crate) fn parse(text: &str, fields: &Fields) -> Result<Self, String> {
        if text.contains(['(', ')']) || text.contains(" OR ") || text.contains(" | ") {
            return Err(not_here(
                "alternatives and parentheses: only terms joined by `,` are",
            ));
        }
        let terms = text.split(',').flat_map(|part| part.split(" AND "));
        terms
            .map(str::trim)
            .filter(|term| !term.is_empty())
            .map(|term| Term::parse(term, fields))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a term is about `member`.
    pub(crate) fn mentions(&self, member: &str) -> bool {
        self.0.iter().any(|term| term.path.member == member)
    }

    pub(crate) fn fits(&self, item: &Item) -> bool {
        self.0.iter().all(|term| term.fits(item))
    }
}

impl Term {
    fn parse(text: &str, fields: &Fields) -> Result<Self, String> {
        let (field, operation) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is not `field:operation`"))?;
        let path = Path::parse(field.trim(), fields)
            .ok_or_else(|| not_here(&format!("the field `{field}`")))?;
        let operation = operation.trim();
        let (negated, operation) = match operation.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, operation),
        };
        Ok(Self {
            test: Test::parse(operation, path.key.is_none())?,
            path,
            negated,
        })
    }

    fn fits(&self, item: &Item) -> bool {
        let value = self.path.of(item);
        let fits = match &self.test {
            Test::Nil => value.is_null(),
            Test::OneOf(wanted) => match value {
                Value::Array(values) if self.path.key.is_none() => {
                    values.iter().any(|value| wanted.contains(value))
                }
                value if self.path.key.is_none() => wanted
                    .iter()
                    .any(|wanted| wanted.as_str() == Some(as_text(value).as_str())),
                value => wanted.iter().any(|wanted| is_same(wanted, value)),
            },
            Test::Compared(wanted, than) => value
                .as_f64()
                .and_then(|value| value.partial_cmp(than))
                .is_some_and(wanted),
        };
        fits != self.negated
    }
}

impl Test {
    fn parse(text: &str, as_plain_text: bool) -> Result<Self, String> {
        if text == "nil" {
            return Ok(Self::Nil);
        }
        let comparisons: [(&str, Wanted); 4] = [
            (">=", Ordering::is_ge),
            ("<=", Ordering::is_le),
            (">", Ordering::is_gt),
            ("<", Ordering::is_lt),
        ];
        for (sign, wanted) in comparisons {
            if let Some(number) = text.strip_prefix(sign) {
                return match number.trim().parse() {
                    Ok(number) => Ok(Self::Compared(wanted, number)),
                    Err(_) => Err(not_here(&format!(
                        "a comparison with `{number}`, no number"
                    ))),
                };
            }
        }
        text.split('|')
            .map(|word| value(word.trim(), as_plain_text))
            .collect::<Result<_, _>>()
            .map(Self::OneOf)
    }
}

fn value(word: &str, as_plain_text: bool) -> Result<Value, String> {
    if let Some(quoted) = word
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        return Ok(quoted.into());
    }
    if word.is_empty() || word == "null" {
        return Err(format!(
            "`{word}` is no value; `nil` asks for what is missing"
        ));
    }
    if word.contains('%') || word.contains("..") {
        return Err(not_here(&format!("the pattern or range `{word}`")));
    }
    Ok(match serde_json::from_str(word) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) if !as_plain_text => value,
        _ => word.into(),
    })
}

/// Numbers are the same by their value: `1` is `1.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|one| other.as_f64() == Some(one))
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn not_here(what: &str) -> String {
    format!("polyaxon-local does not answer {what}")
}

/// The order of a list.
#[derive(Debug)]
pub(crate) struct Order(Vec<(Path, Direction)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Order {
    /// Reads `field,-field`.
    ///
    /// # Errors
    /// A sentence about a field that there is not.
    pub(crate) fn parse(text: &str, fields: &Fields) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        words
            .map(|word| {
                let (direction, name) = match word.strip_prefix('-') {
                    Some(name) => (Direction::Down, name),
                    None => (Direction::Up, word),
                };
                let path = Path::parse(name, fields)
                    .ok_or_else(|| not_here(&format!("the order by `{name}`")))?;
                Ok((path, direction))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Sorts; what is missing comes first, and last where the order goes down.
    pub(crate) fn sort(&self, items: &mut [Item]) {
        items.sort_by(|one, other| {
            let orders = self.0.iter().map(|(path, direction)| {
                let order = compared(path.of(one), path.of(other));
                match direction {
                    Direction::Up => order,
                    Direction::Down => order.reverse(),
                }
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
    }
}

fn compared(one: &Value, other: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) | Value::Object(_) => 4,
    };
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one
            .as_f64()
            .partial_cmp(&other.as_f64())
            .unwrap_or(Ordering::Equal),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn items() -> Vec<Item> {
        let items = [
            json!({"uuid": "a", "name": "one", "status": "succeeded", "tags": ["x", "y"], "live_state": 1,
                "inputs": {"rev": "1234", "n": 1}, "outputs": {"score": 0.5}}),
            json!({"uuid": "b", "name": "two", "status": "failed", "tags": [], "live_state": 1,
                "inputs": {"rev": 1234, "n": 2}, "outputs": {"score": 1}}),
            json!({"uuid": "c", "name": null, "status": "running", "tags": ["y"], "live_state": 1,
                "inputs": null, "outputs": {}}),
        ];
        items.map(|item| item.as_object().unwrap().clone()).into()
    }

    fn found(query: &str) -> String {
        let filter = Filter::parse(query, &RUNS).unwrap();
        let items = items();
        let found = items.iter().filter(|item| filter.fits(item));
        found.map(|item| item["uuid"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_query_finds_what_it_says() {
        let table = [
            ("", "abc"),
            ("uuid:a", "a"),
            ("id:b", "b"),
            ("name:\"one\"", "a"),
            ("name:nil", "c"),
            ("status:succeeded|failed", "ab"),
            ("status:~\"succeeded\"|\"failed\"", "c"),
            ("tags:y", "ac"),
            ("tags:~y", "b"),
            ("inputs.rev:\"1234\"", "a"),
            ("in.rev:1234", "b"),
            ("params.n:1.0", "a"),
            ("metrics.score:>0.4", "ab"),
            ("metrics.score:>=1", "b"),
            ("outputs.score:<1", "a"),
            ("outputs.score:nil", "c"),
            ("outputs.score:~nil,status:failed", "b"),
            ("status:failed AND inputs.n:2", "b"),
            ("live_state:1", "abc"),
            ("status:nothing", ""),
        ];
        for (query, want) in table {
            assert_eq!(found(query), want, "{query}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for query in [
            "status",
            "nope:1",
            "inputs:1",
            "inputs.a-b:1",
            "inputs.a.b:1",
            "name:%x%",
            "created_at:2020-01-01..2021-01-01",
            "created_at:>2020-01-01",
            "inputs.k:null",
            "inputs.k:",
            "(status:failed)",
            "status:failed OR status:stopped",
            "mine:true",
        ] {
            Filter::parse(query, &RUNS).unwrap_err();
        }
        for order in ["nope", "-name,nope", "inputs", "metrics.a-b"] {
            Order::parse(order, &RUNS).unwrap_err();
        }
    }

    #[test]
    fn what_is_missing_comes_first_upwards_and_last_downwards() {
        let table = [
            ("metrics.score", "cab"),
            ("-metrics.score", "bac"),
            ("name", "cab"),
            ("-status,name", "acb"),
            ("live_state,-uuid", "cba"),
        ];
        for (order, want) in table {
            let mut items = items();
            Order::parse(order, &RUNS).unwrap().sort(&mut items);
            let got: String = items.iter().map(|i| i["uuid"].as_str().unwrap()).collect();
            assert_eq!(got, want, "{order}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_query_makes_the_parser_panic(text in r#"[a-z.:~|<>"%, ]{0,30}"#) {
            if let Ok(filter) = Filter::parse(&text, &RUNS) {
                let _ = items().iter().filter(|item| filter.fits(item)).count();
            }
        }
    }
}
