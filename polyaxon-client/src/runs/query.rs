//! Conditions on runs, typed: what the platform's query language can say, and nothing that it would
//! misread.

mod key;
mod sort;
mod term;
mod value;

pub use sort::{Sort, SortField};
pub use term::{Choice, Equality, Keyed, Measured, Meta, Metric, Order, Term, Text, Time, Word};
pub use value::QueryValue;

use super::model::RunStatus;
use crate::error::InvalidInput;
use crate::ids::RunUuid;

/// Which runs are wanted: those that fit every condition.
///
/// A field is named first, then what it has to be. A condition that cannot be said (a key that the
/// language cannot name, a number that is none) is kept as the problem of the query, which
/// [`text`](Self::text) and [`ListRuns::matching`](super::ListRuns::matching) give back.
///
/// # What fits
/// Seen on the open-source server; the typed calls even out what they can.
///
/// * Text is always quoted, so `"1234"` is text and `1234` a number. `,` `(` `)` `|` and the words
///   `AND` and `OR` inside of text are escaped; names and descriptions cannot be compared with text
///   that holds `|` or begins or ends with `%`, nor with empty text.
/// * A negated value leaves out runs without the field ([`ne`](Term::ne)); the bare language would
///   let them in, which [`ne_or_missing`](Term::ne_or_missing) is for.
/// * A comparison fits numbers only. The bare language also takes texts, `true` and null for larger
///   than any number.
/// * `null` is a value: a key with it is not missing. The open-source server does not tell the text
///   `"null"` from null, nor `"true"` and `"false"` from the booleans.
/// * Parts of names are found in either case of ASCII letters, whole names in theirs.
/// * Archived runs are left out, unless [`archived`](Self::archived) or
///   [`with_archived`](Self::with_archived) says otherwise. Deleted runs are in no list.
///
/// Tags are not among the fields: the open-source server finds nothing by them. Where a server does,
/// [`ListRuns::query`](super::ListRuns::query) takes `tags:"nightly"` as it is.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::{RunQuery, RunStatus};
///
/// let candidates = RunQuery::new()
///     .input("case_set_revision").eq("1234")
///     .status(RunStatus::Succeeded)
///     .metric("score").ge(0.5);
/// assert_eq!(
///     candidates.text()?,
///     "inputs.case_set_revision:\"1234\",status:\"succeeded\",\
///      metrics.score:>=0.5,metrics.score:<=1.7976931348623157e308,live_state:1"
/// );
///
/// let either = RunQuery::new().any_of([
///     RunQuery::new().name().starts_with("nightly-"),
///     RunQuery::new().input("model").is_missing().output("score").is_present(),
/// ]);
/// assert_eq!(
///     either.text()?,
///     "(name:\"nightly-\"% OR (inputs.model:nil,outputs.score:~nil)),live_state:1"
/// );
///
/// // The language has no way to name this key.
/// let error = RunQuery::new().input("case-set").eq("r7").text().unwrap_err();
/// assert!(error.to_string().contains("\"case-set\""));
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a RunQuery does nothing until it is passed to `ListRuns::matching`"]
pub struct RunQuery {
    terms: Vec<String>,
    live: Kept,
    artifacts: Artifacts,
    problem: Option<InvalidInput>,
}

/// What is said about artifacts. Beside one that is there, the server takes "no such artifact" for
/// "that artifact is another", which is nearly always true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Artifacts {
    has: bool,
    lacks: bool,
}

impl Artifacts {
    const HAS: Self = Self {
        has: true,
        lacks: false,
    };
    const LACKS: Self = Self {
        has: false,
        lacks: true,
    };
}

/// Which of the runs that are not deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    #[default]
    InLists,
    Archived,
    Both,
}

impl RunQuery {
    /// All runs that are not archived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs of these ids. None at all is a problem of the query.
    pub fn uuid_in(self, runs: impl IntoIterator<Item = RunUuid>) -> Self {
        let runs = runs.into_iter().map(|run| run.to_string());
        self.term::<Word>("uuid").one_of(runs)
    }

    /// Runs with this status.
    pub fn status(self, status: RunStatus) -> Self {
        self.status_in([status])
    }

    /// Runs with one of these statuses.
    pub fn status_in(self, statuses: impl IntoIterator<Item = RunStatus>) -> Self {
        let words = statuses.into_iter().map(|status| status.to_string());
        self.term::<Word>("status").one_of(words)
    }

    /// Runs with none of these statuses.
    pub fn status_not_in(self, statuses: impl IntoIterator<Item = RunStatus>) -> Self {
        let words = statuses.into_iter().map(|status| status.to_string());
        self.term::<Word>("status").none_of(words)
    }

    /// The kind: `job`, `service`, `dag` and others.
    pub fn kind(self) -> Term<Word> {
        self.term("kind")
    }

    /// What runs it: mostly as the kind.
    pub fn runtime(self) -> Term<Word> {
        self.term("runtime")
    }

    /// What it waits for: `approval`, `upload`, `cache`, `build`; missing where it does not wait.
    pub fn pending(self) -> Term<Word> {
        self.term("pending")
    }

    /// Runs that the platform drives, or that their callers drive.
    pub fn managed(self, managed: bool) -> Self {
        self.with(format!("is_managed:{managed}"))
    }

    /// The name.
    pub fn name(self) -> Term<Text> {
        self.term("name")
    }

    /// The description.
    pub fn description(self) -> Term<Text> {
        self.term("description")
    }

    /// When it was created.
    pub fn created_at(self) -> Term<Time> {
        self.term("created_at")
    }

    /// When its record was changed last.
    pub fn updated_at(self) -> Term<Time> {
        self.term("updated_at")
    }

    /// When it started; missing where it has not.
    pub fn started_at(self) -> Term<Time> {
        self.term("started_at")
    }

    /// When it ended; missing where it has not. Kept by a resumed run: decide by the status.
    pub fn finished_at(self) -> Term<Time> {
        self.term("finished_at")
    }

    /// How many seconds it ran; missing before its end.
    pub fn duration(self) -> Term<Measured> {
        self.term("duration")
    }

    /// How many seconds it waited for its start; missing before that.
    pub fn wait_time(self) -> Term<Measured> {
        self.term("wait_time")
    }

    /// An input by its key: ASCII letters, digits and `_`.
    pub fn input(self, key: &str) -> Term<Keyed> {
        self.keyed("inputs", key)
    }

    /// An output by its key.
    pub fn output(self, key: &str) -> Term<Keyed> {
        self.keyed("outputs", key)
    }

    /// An output that is a number, as the last values of metrics are.
    pub fn metric(self, key: &str) -> Term<Metric> {
        self.keyed("metrics", key)
    }

    /// A member of `meta_info` by its key.
    pub fn meta(self, key: &str) -> Term<Meta> {
        self.keyed("meta_info", key)
    }

    /// Runs with an artifact of this name in their lineage. Two such conditions are about one
    /// artifact: this name and that kind.
    pub fn has_artifact(self, name: &str) -> Self {
        self.about(Artifacts::HAS)
            .term::<Word>("artifacts.name")
            .eq(name)
    }

    /// Runs with an artifact of this kind: `metric`, `file`, `model`. A page of the bare list has a
    /// run once for each of them, and counts it so.
    pub fn has_artifact_of_kind(self, kind: &str) -> Self {
        self.about(Artifacts::HAS)
            .term::<Word>("artifacts.kind")
            .eq(kind)
    }

    /// Runs without an artifact of this name. Together with one that they have, it is a problem of
    /// the query: servers mix the two up.
    pub fn lacks_artifact(self, name: &str) -> Self {
        self.about(Artifacts::LACKS)
            .term::<Word>("artifacts.name")
            .ne_or_missing(name)
    }

    /// Runs that fit at least one of these. Of no alternatives, or one without a condition, it is a
    /// problem of the query.
    pub fn any_of(mut self, alternatives: impl IntoIterator<Item = Self>) -> Self {
        let mut texts = Vec::new();
        for mut alternative in alternatives {
            self = self.about(alternative.artifacts);
            if alternative.live != Kept::InLists {
                let problem = "an alternative cannot choose between archived and live runs";
                alternative.refuse(InvalidInput::new("any_of", problem));
            }
            if alternative.terms.is_empty() {
                let problem = "an alternative without a condition fits every run";
                alternative.refuse(InvalidInput::new("any_of", problem));
            }
            if let Some(problem) = alternative.problem {
                self.refuse(problem);
            }
            texts.push(match &alternative.terms[..] {
                [term] => term.clone(),
                terms => format!("({})", terms.join(",")),
            });
        }
        if texts.is_empty() {
            self.refuse(InvalidInput::new("any_of", "has no alternative"));
        }
        self.with(format!("({})", texts.join(" OR ")))
    }

    /// Runs that are archived, and no others.
    pub fn archived(mut self) -> Self {
        self.live = Kept::Archived;
        self
    }

    /// Archived runs too.
    pub fn with_archived(mut self) -> Self {
        self.live = Kept::Both;
        self
    }

    /// The query as it is sent.
    ///
    /// # Errors
    /// The first problem of a condition: a key, a value or a list that cannot be said.
    pub fn text(&self) -> Result<String, InvalidInput> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        // Said always: the server looks for the word anywhere in the query, in values too, and
        // leaves its own condition away where it finds it.
        let live = match self.live {
            Kept::InLists => "live_state:1",
            Kept::Archived => "live_state:0",
            Kept::Both => "live_state:0|1",
        };
        let terms = self.terms.iter().map(String::as_str).chain([live]);
        Ok(terms.collect::<Vec<_>>().join(","))
    }

    fn term<K>(self, field: &str) -> Term<K> {
        Term::new(self, field.to_owned())
    }

    fn keyed<K>(mut self, map: &str, key: &str) -> Term<K> {
        if let Err(problem) = key::check(key) {
            self.refuse(problem);
        }
        self.term(&format!("{map}.{key}"))
    }

    fn about(mut self, said: Artifacts) -> Self {
        self.artifacts.has |= said.has;
        self.artifacts.lacks |= said.lacks;
        if self.artifacts.has && self.artifacts.lacks {
            let problem = "a run cannot be asked for an artifact and for the lack of one at once";
            self.refuse(InvalidInput::new("artifacts", problem));
        }
        self
    }

    fn with(mut self, term: String) -> Self {
        self.terms.push(term);
        self
    }

    fn refuse(&mut self, problem: InvalidInput) {
        self.problem.get_or_insert(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: &RunQuery) -> String {
        let text = query.text().unwrap();
        let text = text.strip_suffix(",live_state:1").unwrap();
        text.to_owned()
    }

    #[test]
    fn each_condition_has_its_text() {
        let all = RunQuery::new;
        let run: RunUuid = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
        let noon: jiff::Timestamp = "2026-01-02T12:00:00.1234567Z".parse().unwrap();
        let table = [
            (all().input("k").eq("1"), r#"inputs.k:"1""#),
            (all().input("k").eq(1), "inputs.k:1"),
            (all().input("k").eq(-2.5), "inputs.k:-2.5"),
            (all().input("k").eq(true), "inputs.k:true"),
            (all().input("k").eq(""), r#"inputs.k:"""#),
            (
                all().meta("k").ne("x"),
                r#"meta_info.k:~"x",meta_info.k:~nil"#,
            ),
            (all().output("k").ne_or_missing(3), "outputs.k:~3"),
            (all().output("k").one_of([1, 2]), "outputs.k:1|2"),
            (all().output("k").one_of(["a"]), r#"outputs.k:"a""#),
            (
                all().output("k").none_of(["a", "b"]),
                r#"outputs.k:~"a"|"b",outputs.k:~nil"#,
            ),
            (
                all().metric("k").lt(1),
                "metrics.k:>=-1.7976931348623157e308,metrics.k:<1",
            ),
            (
                all().metric("k").between(1, 2.5),
                "metrics.k:>=1,metrics.k:<=2.5",
            ),
            (all().duration().gt(60), "duration:>60"),
            (all().wait_time().is_missing(), "wait_time:nil"),
            (all().name().contains("Lab"), r#"name:%"Lab"%"#),
            (all().name().starts_with("3"), r#"name:"3"%"#),
            (
                all().description().ends_with("50%"),
                r#"description:%"50\u0025""#,
            ),
            (all().kind().eq("job"), r#"kind:"job""#),
            (
                all().status_not_in([RunStatus::Failed, RunStatus::Stopped]),
                r#"status:~"failed"|"stopped",status:~nil"#,
            ),
            (
                all().uuid_in([run]),
                r#"uuid:"8aac02e3a62a4f0aaa257c59da5eab80""#,
            ),
            (all().managed(false), "is_managed:false"),
            (
                all().created_at().since(noon),
                "created_at:>=2026-01-02T12:00:00.123456Z",
            ),
            (
                all().started_at().between(noon, noon),
                "started_at:>=2026-01-02T12:00:00.123456Z,started_at:<=2026-01-02T12:00:00.123456Z",
            ),
            (
                all().has_artifact("case-set"),
                r#"artifacts.name:"case-set""#,
            ),
            (all().lacks_artifact("m"), r#"artifacts.name:~"m""#),
        ];
        for (query, want) in table {
            assert_eq!(text(&query), want);
        }
        assert_eq!(all().text().unwrap(), "live_state:1");
        assert_eq!(all().archived().text().unwrap(), "live_state:0");
        assert_eq!(all().with_archived().text().unwrap(), "live_state:0|1");
    }

    #[test]
    fn what_the_language_cuts_at_is_escaped_in_text() {
        let table = [
            ("a,b", r#""a\u002cb""#),
            ("(a)|b", r#""\u0028a\u0029\u007cb""#),
            ("a..b.c", r#""a.\u002eb.c""#),
            ("x AND y or", r#""x\u0020AND y\u0020or""#),
            (
                "an orange, android",
                r#""an\u0020orange\u002c\u0020android""#,
            ),
            ("say \"a\\b\"\n", r#""say \"a\\b\"\n""#),
            ("nil", r#""nil""#),
            ("é 1%", r#""é 1\u0025""#),
        ];
        for (value, want) in table {
            assert_eq!(
                text(&RunQuery::new().input("k").eq(value)),
                format!("inputs.k:{want}")
            );
        }
    }

    #[test]
    fn what_cannot_be_said_is_a_problem_that_names_it() {
        let all = RunQuery::new;
        let table = [
            (all().input("a-b").eq("x"), "key", "\"a-b\""),
            (all().input("a/b").is_missing(), "key", "\"a/b\""),
            (all().input("a.b").is_missing(), "key", "\"a.b\""),
            (all().input("").is_missing(), "key", "\"\""),
            (all().input("1st").is_missing(), "key", "\"1st\""),
            (all().input("a__b").is_missing(), "key", "two `_`"),
            (all().input("a_").is_missing(), "key", "ends with `_`"),
            (
                all().output("contains").eq("x"),
                "key",
                "\"contains\" is a word",
            ),
            (all().metric("gt").eq(1), "key", "\"gt\" is a word"),
            (all().input("k").eq(f64::NAN), "value", "NaN"),
            (all().metric("k").gt(f64::INFINITY), "value", "inf"),
            (
                all().input("k").eq(u64::MAX),
                "value",
                "18446744073709551615",
            ),
            (all().input("k").eq("a\0b"), "value", "NUL"),
            (all().name().eq("a|b"), "value", "\"a|b\""),
            (all().name().eq("%a"), "value", "\"%a\""),
            (all().description().ne("50%"), "value", "\"50%\""),
            (all().name().eq(""), "value", "empty"),
            (all().name().contains(""), "value", "empty"),
            (
                all().input("k").one_of(Vec::<&str>::new()),
                "value",
                "no value",
            ),
            (all().uuid_in([]), "value", "no value"),
            (
                all().has_artifact("a").lacks_artifact("b"),
                "artifacts",
                "at once",
            ),
            (
                all()
                    .lacks_artifact("a")
                    .any_of([all().has_artifact_of_kind("model")]),
                "artifacts",
                "at once",
            ),
            (all().any_of([]), "any_of", "no alternative"),
            (all().any_of([all()]), "any_of", "every run"),
            (
                all().any_of([all().archived().managed(true)]),
                "any_of",
                "archived",
            ),
            (
                all().any_of([all().managed(true), all().input("a b").eq(1)]),
                "key",
                "\"a b\"",
            ),
        ];
        for (query, field, said) in table {
            let error = query.text().unwrap_err();
            assert_eq!(error.field(), field, "{error}");
            assert!(error.problem().contains(said), "{error}");
        }
        // The first problem is told.
        let error = all()
            .input("a-b")
            .eq(f64::NAN)
            .name()
            .eq("")
            .text()
            .unwrap_err();
        assert_eq!(error.field(), "key");
    }
}
