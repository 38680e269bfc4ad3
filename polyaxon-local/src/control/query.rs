//! Filters and orders of lists: the platform's query language, as far as it is answered here. What
//! is not in it is refused, since a list that ignores half of its filter looks like an answer.

mod grammar;
mod order;
mod test;

use serde_json::{Map, Value};

use grammar::Tree;
pub(crate) use order::Order;
use test::Test;

type Item = Map<String, Value>;

/// What can be asked of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words: one, one of some.
    Word,
    /// Text for people: also a part of it.
    Text,
    /// Instants: before, after, within.
    Time,
    /// Numbers: one, larger, smaller.
    Number,
    /// What people keep under keys: one, one of some, larger, smaller.
    Mixed,
    /// The same, where nothing is larger or smaller.
    Free,
}

/// The fields of one kind of list.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Members by their own name.
    pub(crate) plain: &'static [(&'static str, Kind)],
    /// Names of members that hold values by key: as written in a query, and as they are called.
    pub(crate) keyed: &'static [(&'static str, &'static str, Kind)],
}

/// The fields of runs.
pub(crate) const RUNS: Fields = Fields {
    plain: &[
        ("uuid", Kind::Text),
        ("name", Kind::Text),
        ("description", Kind::Text),
        ("status", Kind::Word),
        ("kind", Kind::Word),
        ("runtime", Kind::Word),
        ("tags", Kind::Word),
        ("is_managed", Kind::Word),
        ("managed_by", Kind::Word),
        ("pending", Kind::Word),
        ("pipeline", Kind::Word),
        ("live_state", Kind::Word),
        ("created_at", Kind::Time),
        ("updated_at", Kind::Time),
        ("started_at", Kind::Time),
        ("finished_at", Kind::Time),
        ("duration", Kind::Number),
        ("wait_time", Kind::Number),
    ],
    keyed: &[
        ("inputs", "inputs", Kind::Mixed),
        ("in", "inputs", Kind::Mixed),
        ("params", "inputs", Kind::Mixed),
        ("outputs", "outputs", Kind::Mixed),
        ("out", "outputs", Kind::Mixed),
        ("metrics", "outputs", Kind::Number),
        ("meta_info", "meta_info", Kind::Free),
        (ARTIFACTS, ARTIFACTS, Kind::Word),
    ],
};

/// The member that holds what is in the lineage of a run, a list.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// The fields of artifacts in a lineage.
pub(crate) const LINEAGE: Fields = Fields {
    plain: &[
        ("name", Kind::Text),
        ("kind", Kind::Word),
        ("path", Kind::Text),
        ("state", Kind::Word),
        ("is_input", Kind::Word),
        ("run", Kind::Word),
    ],
    keyed: &[],
};

/// Where a value is in an item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    member: &'static str,
    key: Option<String>,
    kind: Kind,
}

impl Path {
    fn parse(text: &str, fields: &Fields) -> Option<Self> {
        let text = if text == "id" { "uuid" } else { text };
        let Some((name, key)) = text.split_once('.') else {
            let (member, kind) = fields.plain.iter().find(|(name, _)| *name == text)?;
            return Some(Self {
                member,
                key: None,
                kind: *kind,
            });
        };
        let (_, member, kind) = fields.keyed.iter().find(|(alias, ..)| *alias == name)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let begins = key
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii_digit());
        (begins && key.bytes().all(fits)).then(|| Self {
            member,
            key: Some(key.to_owned()),
            kind: *kind,
        })
    }

    /// The value, `None` where the key or the member is missing. Null is a value of a key.
    fn of<'a>(&self, item: &'a Item, artifact: Option<&'a Value>) -> Option<&'a Value> {
        match &self.key {
            None => item.get(self.member).filter(|value| !value.is_null()),
            Some(key) if self.member == ARTIFACTS => artifact?.get(key),
            Some(key) => item.get(self.member)?.get(key),
        }
    }
}

/// Which items of a list are wanted.
#[derive(Debug)]
pub(crate) struct Filter(Node);

#[derive(Debug)]
enum Node {
    All(Vec<Self>),
    Any(Vec<Self>),
    Term(Term),
}

#[derive(Debug)]
struct Term {
    path: Path,
    negated: bool,
    test: Test,
}

impl Filter {
    /// Reads a query; the crate's README has what it can hold.
    ///
    /// # Errors
    /// A sentence about what is not understood.
    pub(crate) fn parse(text: &str, fields: &Fields) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Node::All(Vec::new())));
        }
        Node::read(&grammar::parse(text)?, fields).map(Self)
    }

    /// Whether a term is about `member`.
    pub(crate) fn mentions(&self, member: &str) -> bool {
        self.0.mentions(member)
    }

    pub(crate) fn fits(&self, item: &Item) -> bool {
        // As in a join: all terms about artifacts are about the same one.
        let artifacts = item.get(ARTIFACTS).and_then(Value::as_array);
        match artifacts.filter(|list| !list.is_empty()) {
            Some(list) if self.mentions(ARTIFACTS) => list
                .iter()
                .any(|artifact| self.0.fits(item, Some(artifact))),
            _ => self.0.fits(item, None),
        }
    }
}

impl Node {
    fn read(tree: &Tree<'_>, fields: &Fields) -> Result<Self, String> {
        let all = |trees: &[Tree<'_>]| {
            let nodes = trees.iter().map(|tree| Self::read(tree, fields));
            nodes.collect::<Result<Vec<_>, _>>()
        };
        Ok(match tree {
            Tree::All(trees) => Self::All(all(trees)?),
            Tree::Any(trees) => Self::Any(all(trees)?),
            Tree::Term { field, operation } => Self::Term(Term::read(field, operation, fields)?),
        })
    }

    fn mentions(&self, member: &str) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(|node| node.mentions(member)),
            Self::Term(term) => term.path.member == member,
        }
    }

    fn fits(&self, item: &Item, artifact: Option<&Value>) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.fits(item, artifact)),
            Self::Any(nodes) => nodes.iter().any(|node| node.fits(item, artifact)),
            Self::Term(term) => term.fits(item, artifact),
        }
    }
}

impl Term {
    fn read(field: &str, operation: &str, fields: &Fields) -> Result<Self, String> {
        let path =
            Path::parse(field, fields).ok_or_else(|| not_here(&format!("the field `{field}`")))?;
        let (negated, operation) = match operation.strip_prefix('~') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, operation),
        };
        let test = Test::parse(operation, path.kind)?;
        Ok(Self {
            path,
            negated,
            test,
        })
    }

    fn fits(&self, item: &Item, artifact: Option<&Value>) -> bool {
        // A run without an artifact of a name is one of which no artifact has it.
        if self.negated && self.path.member == ARTIFACTS && !matches!(self.test, Test::Nil) {
            let artifacts = item.get(ARTIFACTS).and_then(Value::as_array);
            let mut artifacts = artifacts.into_iter().flatten();
            return !artifacts.any(|one| self.test.fits(self.path.of(item, Some(one)), false));
        }
        self.test.fits(self.path.of(item, artifact), self.negated)
    }
}

fn not_here(what: &str) -> String {
    format!("polyaxon-local does not answer {what}")
}

#[cfg(test)]
mod tests {
    use polyaxon_client::runs::{RunQuery, RunStatus};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn items() -> Vec<Item> {
        let items = [
            json!({"uuid": "a", "name": "one", "description": "Hello World", "status": "succeeded",
                "tags": ["x", "y"], "live_state": 1, "created_at": "2026-01-01T10:00:00.5Z",
                "duration": 10, "inputs": {"rev": "1234", "n": 1, "b": true},
                "outputs": {"score": 0.5},
                "artifacts": [{"name": "m", "kind": "metric"}, {"name": "d", "kind": "data"}]}),
            json!({"uuid": "b", "name": "two", "status": "failed", "tags": [], "live_state": 1,
                "created_at": "2026-01-02T10:00:00Z",
                "inputs": {"rev": 1234, "n": 2, "b": "true", "t": "a,b (c)|d AND e"},
                "outputs": {"score": 1}, "artifacts": [{"name": "m", "kind": "metric"}]}),
            json!({"uuid": "c", "name": null, "status": "running", "tags": ["y"], "live_state": 1,
                "created_at": "2026-01-03T10:00:00Z", "inputs": null, "outputs": {},
                "artifacts": []}),
            json!({"uuid": "d", "name": "nil", "status": "running", "live_state": 1,
                "created_at": "2026-02-03T10:00:00Z", "inputs": {"rev": null, "n": "10", "b": false},
                "outputs": {"score": "high"}, "artifacts": []}),
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
            ("", "abcd"),
            ("uuid:a", "a"),
            ("id:b", "b"),
            ("name:\"one\"", "a"),
            ("name:nil", "c"),
            ("name:\"nil\"", "d"),
            ("name:%O%", "ab"),
            ("name:\"o\"%", "a"),
            ("name:%\"o\"", "b"),
            ("name:~o%", "bcd"),
            ("description:%hello world%", "a"),
            ("status:succeeded|failed", "ab"),
            ("status:~\"succeeded\"|\"failed\"", "cd"),
            ("tags:y", "ac"),
            ("tags:~y", "bd"),
            ("inputs.rev:\"1234\"", "a"),
            ("in.rev:1234", "b"),
            ("inputs.rev:nil", "c"),
            ("inputs.rev:\"null\"", "d"),
            ("inputs.b:true", "ab"),
            ("inputs.b:~true", "cd"),
            ("params.n:1.0", "a"),
            ("inputs.n:>1", "bd"),
            ("inputs.n:~>1", "a"),
            ("inputs.n:1|\"10\"", "ad"),
            (
                r#"inputs.t:"a\u002cb \u0028c\u0029\u007cd \u0041ND e""#,
                "b",
            ),
            ("metrics.score:>0.4", "abd"),
            ("metrics.score:>=1,metrics.score:<=1e300", "b"),
            ("outputs.score:<1", "a"),
            ("outputs.score:nil", "c"),
            ("outputs.score:~nil,status:failed", "b"),
            ("status:failed AND inputs.n:2", "b"),
            ("live_state:1", "abcd"),
            ("live_state:0|1", "abcd"),
            ("status:nothing", ""),
            ("duration:10", "a"),
            ("duration:nil", "bcd"),
            (
                "created_at:>2026-01-01T10:00:00.4Z,created_at:<2026-01-03",
                "ab",
            ),
            ("created_at:2026-01-02 .. 2026-01-31", "bc"),
            ("created_at:2026-01-02", "b"),
            ("created_at:~2026-01-02", "acd"),
            ("artifacts.name:\"m\"", "ab"),
            ("artifacts.name:\"m\",artifacts.kind:\"data\"", ""),
            ("artifacts.name:\"d\",artifacts.kind:\"data\"", "a"),
            ("artifacts.kind:~\"data\"", "bcd"),
            ("artifacts.name:nil", "cd"),
            ("status:failed OR name:nil", "bc"),
            ("status:failed | name:nil", "bc"),
            ("name:nil OR status:failed,inputs.n:1", "c"),
            ("(name:nil OR status:failed),inputs.n:~nil", "b"),
            ("((status:failed or (uuid:d and name:nil)))", "b"),
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
            "inputs.1:1",
            "inputs.k:1..2",
            "inputs.k:null",
            "inputs.k:",
            "meta_info.k:>1",
            "metrics.k:1|2",
            "metrics.k:\"a\"",
            "name:>1",
            "name:%3%",
            "created_at:soon",
            "created_at:2026-01-01|2026-01-02",
            "(status:failed",
            "status:failed)",
            "status:failed,",
            "status:failed,,name:a",
            "inputs.t:\"a,b\"",
            "inputs.t:\"a (b)\"",
            "mine:true",
        ] {
            Filter::parse(query, &RUNS).expect_err(query);
        }
        for order in [
            "nope",
            "-name,nope",
            "inputs",
            "metrics.a-b",
            "artifacts.name",
        ] {
            Order::parse(order, &RUNS).expect_err(order);
        }
    }

    #[test]
    fn what_is_missing_comes_first_upwards_and_last_downwards() {
        let table = [
            ("metrics.score", "cabd"),
            ("-metrics.score", "dbac"),
            ("inputs.n", "cabd"),
            ("name", "cdab"),
            ("-status,name", "acdb"),
            ("live_state,-uuid", "dcba"),
        ];
        for (order, want) in table {
            let mut items = items();
            Order::parse(order, &RUNS).unwrap().sort(&mut items);
            let got: String = items.iter().map(|i| i["uuid"].as_str().unwrap()).collect();
            assert_eq!(got, want, "{order}");
        }
    }

    fn some_text() -> impl Strategy<Value = String> {
        prop_oneof![
            r#"[ -~]{0,12}"#,
            r#"(a|AND|or| |,|\(|\)|\||%|\.|"|\\|é|\n|~|>|nil|live_state|null){0,6}"#,
        ]
    }

    proptest! {
        #[test]
        fn no_query_makes_the_parser_panic(text in r#"[a-zO-R.:~|<>"%, ()]{0,30}"#) {
            if let Ok(filter) = Filter::parse(&text, &RUNS) {
                let _ = items().iter().filter(|item| filter.fits(item)).count();
            }
        }

        /// Any text that a typed query takes is read back as that text, and as nothing else.
        #[test]
        fn a_typed_query_finds_the_run_with_its_text_and_no_other(text in some_text(), other in some_text()) {
            let run = |text: &str| {
                let run = json!({"uuid": "a", "live_state": 1, "name": text, "description": text,
                    "status": "running", "inputs": {"k": text}});
                run.as_object().unwrap().clone()
            };
            let (own, foreign) = (run(&text), run(&other));
            let all = RunQuery::new;
            let queries = [
                (all().input("k").eq(&text), true),
                (all().input("k").one_of([&text, "else"].map(str::to_owned)), true),
                (all().any_of([all().input("k").eq(&text), all().status(RunStatus::Done)]), true),
                (all().name().eq(&text).managed(true), false),
                (all().description().eq(&text), true),
                (all().input("k").ne(&text), false),
            ];
            for (query, fits) in queries {
                // What cannot be said is refused, and never sent.
                let Ok(sent) = query.text() else { continue };
                let filter = Filter::parse(&sent, &RUNS).map_err(|why| TestCaseError::fail(format!("{sent}: {why}")))?;
                prop_assert_eq!(filter.fits(&own), fits, "{}", sent);
                if fits && text != other && other != "else" {
                    prop_assert!(!filter.fits(&foreign), "{} fits {:?}", sent, other);
                }
            }
            for part in [all().name().contains(&text), all().description().starts_with(&text), all().name().ends_with(&text)] {
                if let Ok(sent) = part.text() {
                    let filter = Filter::parse(&sent, &RUNS).map_err(|why| TestCaseError::fail(format!("{sent}: {why}")))?;
                    prop_assert!(filter.fits(&own), "{}", sent);
                }
            }
        }
    }
}
