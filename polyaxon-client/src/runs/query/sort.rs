//! The order of a list.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::key;
use crate::error::InvalidInput;

/// A field that runs can be sorted by. The platform ignores a field that it does not know, and then
/// answers in its own order; here it is an error.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::SortField;
///
/// assert_eq!("metrics.score".parse(), SortField::metric("score"));
/// let error = "metric.score".parse::<SortField>().unwrap_err();
/// assert!(error.to_string().contains("metric.score"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortField(Cow<'static, str>);

/// What a run has of its own, in the platform's words.
const OWN: [&str; 16] = [
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "name",
    "kind",
    "runtime",
    "uuid",
    "duration",
    "wait_time",
    "status",
    "cpu",
    "memory",
    "gpu",
    "custom",
    "cost",
];

/// The maps that are sorted by a key, with their other names.
const MAPS: [&str; 7] = [
    "inputs",
    "in",
    "params",
    "outputs",
    "out",
    "metrics",
    "meta_info",
];

/// Keys that the server gives a column of its own when it sorts by them; it ends the call with a 500
/// where a run has a field of that name.
const TAKEN: [&str; 61] = [
    "archived_at",
    "artifacts",
    "artifacts_lineage",
    "checked_at",
    "clones",
    "cloning_kind",
    "component_state",
    "content",
    "contributors",
    "controller",
    "controller_id",
    "controller_runs",
    "cost",
    "cpu",
    "created_at",
    "custom",
    "deleted_at",
    "description",
    "downstream_edges",
    "downstream_runs",
    "duration",
    "finished_at",
    "gpu",
    "id",
    "inputs",
    "is_managed",
    "kind",
    "live_state",
    "managed_by",
    "memory",
    "meta_info",
    "name",
    "original",
    "original_id",
    "outputs",
    "params",
    "pending",
    "pipeline",
    "pipeline_id",
    "pipeline_runs",
    "project",
    "project_id",
    "raw_content",
    "readme",
    "runtime",
    "schedule_at",
    "self",
    "started_at",
    "state",
    "status",
    "status_conditions",
    "tags",
    "updated_at",
    "upstream_edges",
    "upstream_runs",
    "user",
    "user_id",
    "uuid",
    "versions",
    "wait_time",
    "namespace",
];

impl SortField {
    /// When a run was created. Stays the same while runs change.
    pub const CREATED_AT: Self = Self(Cow::Borrowed("created_at"));
    /// When its record was changed last: the platform's own order, newest first.
    pub const UPDATED_AT: Self = Self(Cow::Borrowed("updated_at"));
    /// When it started.
    pub const STARTED_AT: Self = Self(Cow::Borrowed("started_at"));
    /// When it ended.
    pub const FINISHED_AT: Self = Self(Cow::Borrowed("finished_at"));
    /// Its name.
    pub const NAME: Self = Self(Cow::Borrowed("name"));
    /// Its status, by the letters of the word.
    pub const STATUS: Self = Self(Cow::Borrowed("status"));
    /// How long it ran.
    pub const DURATION: Self = Self(Cow::Borrowed("duration"));
    /// How long it waited.
    pub const WAIT_TIME: Self = Self(Cow::Borrowed("wait_time"));

    /// An input. Numbers come before text; booleans and null are sorted as if they were text.
    ///
    /// # Errors
    /// For a key that the server cannot sort by.
    pub fn input(key: &str) -> Result<Self, InvalidInput> {
        Self::keyed("inputs", key)
    }

    /// An output.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn output(key: &str) -> Result<Self, InvalidInput> {
        Self::keyed("outputs", key)
    }

    /// An output, as the last value of a metric is.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn metric(key: &str) -> Result<Self, InvalidInput> {
        Self::keyed("metrics", key)
    }

    /// A member of `meta_info`.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn meta(key: &str) -> Result<Self, InvalidInput> {
        Self::keyed("meta_info", key)
    }

    /// The field in the platform's words: `metrics.score`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn keyed(map: &str, key: &str) -> Result<Self, InvalidInput> {
        key::check(key)?;
        if TAKEN.contains(&key) {
            let problem = format!("{key:?} is a field of runs, and no key that can be sorted by");
            return Err(InvalidInput::new("key", problem));
        }
        Ok(Self(Cow::Owned(format!("{map}.{key}"))))
    }

    fn key(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, key)| key)
    }
}

impl fmt::Display for SortField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SortField {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        match text.split_once('.') {
            Some((map, key)) if MAPS.contains(&map) => Self::keyed(map, key),
            None if OWN.contains(&text) => Ok(Self(Cow::Owned(text.to_owned()))),
            _ => Err(InvalidInput::new(
                "sort",
                format!("{text:?} is no field that runs can be sorted by"),
            )),
        }
    }
}

/// An order: by one field, then by others. Runs without a value come first upwards, and last
/// downwards.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::{Sort, SortField};
///
/// let order = Sort::descending(SortField::metric("score")?).then_ascending(SortField::NAME)?;
/// assert_eq!(order.to_string(), "-metrics.score,name");
/// assert_eq!("-metrics.score,name".parse(), Ok(order));
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a Sort does nothing until it is passed to `ListRuns::sorted`"]
pub struct Sort(Vec<(SortField, Direction)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Sort {
    /// The smallest, or oldest, first; before it what is missing.
    pub fn ascending(field: SortField) -> Self {
        Self(vec![(field, Direction::Up)])
    }

    /// The largest, or newest, first; what is missing last.
    pub fn descending(field: SortField) -> Self {
        Self(vec![(field, Direction::Down)])
    }

    /// Where that is equal, the smallest of this first.
    ///
    /// # Errors
    /// Where the order already has a key of this name, in whichever map: the server would forget
    /// the first.
    pub fn then_ascending(self, field: SortField) -> Result<Self, InvalidInput> {
        self.then(field, Direction::Up)
    }

    /// Where that is equal, the largest of this first.
    ///
    /// # Errors
    /// As [`then_ascending`](Self::then_ascending).
    pub fn then_descending(self, field: SortField) -> Result<Self, InvalidInput> {
        self.then(field, Direction::Down)
    }

    fn then(mut self, field: SortField, direction: Direction) -> Result<Self, InvalidInput> {
        let same = |(other, _): &(SortField, Direction)| {
            *other == field || (field.key().is_some() && other.key() == field.key())
        };
        if let Some((other, _)) = self.0.iter().find(|known| same(known)) {
            let problem = format!("{field} beside {other}: the server keeps one of the two");
            return Err(InvalidInput::new("sort", problem));
        }
        self.0.push((field, direction));
        Ok(self)
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (field, direction)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let sign = if *direction == Direction::Down {
                "-"
            } else {
                ""
            };
            write!(f, "{comma}{sign}{field}")?;
        }
        Ok(())
    }
}

impl FromStr for Sort {
    type Err = InvalidInput;

    /// Reads the platform's form: `-metrics.score,name`.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        text.split(',').try_fold(Self(Vec::new()), |order, word| {
            match word.strip_prefix('-') {
                Some(field) => order.then(field.parse()?, Direction::Down),
                None => order.then(word.parse()?, Direction::Up),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_the_server_would_ignore_or_break_at_is_refused() {
        let table = [
            ("", "sort"),
            ("nope", "sort"),
            ("-nope", "sort"),
            ("project", "sort"),
            ("name.x", "sort"),
            ("metric.score", "sort"),
            ("created_at,", "sort"),
            ("inputs.a-b", "key"),
            ("inputs.a.b", "key"),
            ("metrics.name", "key"),
            ("-inputs.status", "key"),
            ("inputs.contains", "key"),
            ("inputs.n,metrics.n", "sort"),
            ("name,-name", "sort"),
        ];
        for (text, field) in table {
            let error = text.parse::<Sort>().unwrap_err();
            assert_eq!(error.field(), field, "{text:?}: {error}");
        }
        for text in [
            "created_at",
            "-status,name",
            "in.k,-cost",
            "-meta_info.attempt",
        ] {
            assert_eq!(text.parse::<Sort>().unwrap().to_string(), text);
        }
    }
}
