//! One condition: a field, and what it has to be.

use std::fmt;
use std::marker::PhantomData;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::RunQuery;
use super::value::{QueryValue, quoted, refused};
use crate::error::InvalidInput;

/// The largest number there is: what is not larger is a number, and neither text nor null.
const LARGEST: &str = "1.7976931348623157e308";

mod sealed {
    use super::{Keyed, Measured, Meta, Metric, Text, Word};

    #[expect(unnameable_types, reason = "what seals the traits")]
    pub trait Sealed {}
    impl Sealed for Keyed {}
    impl Sealed for Measured {}
    impl Sealed for Meta {}
    impl Sealed for Metric {}
    impl Sealed for Text {}
    impl Sealed for Word {}
}

/// Fields that can be compared for equality. Sealed.
pub trait Equality: sealed::Sealed {
    /// The value as the field wants it.
    ///
    /// # Errors
    /// Where the field cannot be compared with it.
    #[doc(hidden)]
    fn encoded(value: &QueryValue) -> Result<String, InvalidInput> {
        value.encoded()
    }
}

/// Fields that can be compared with several values at once. Sealed.
pub trait Choice: Equality {}

/// Fields that can be larger or smaller than a number. Sealed.
pub trait Order: sealed::Sealed {
    /// Whether the field can hold something else than numbers.
    #[doc(hidden)]
    const MIXED: bool;
}

/// A value of an input or an output: text, a number, a boolean, and more.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Keyed;
/// An output that is a number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric;
/// A value in `meta_info`, which cannot be larger or smaller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Meta;
/// A number of the run's own.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Measured;
/// Text for people, of which a part can be asked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Text;
/// A word of the platform's.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Word;
/// An instant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Time;

impl Equality for Keyed {}
impl Equality for Meta {}
impl Equality for Metric {}
impl Equality for Measured {}

impl Equality for Word {
    fn encoded(value: &QueryValue) -> Result<String, InvalidInput> {
        quoted(&value.as_text())
    }
}

impl Equality for Text {
    fn encoded(value: &QueryValue) -> Result<String, InvalidInput> {
        let text = value.as_text();
        // The server looks for patterns in the text when it has unescaped it.
        if text.is_empty() || text.contains('|') || text.starts_with('%') || text.ends_with('%') {
            return Err(refused(format!(
                "{text:?} cannot be compared with a name or a description: it is empty, holds `|`, \
                 or begins or ends with `%`"
            )));
        }
        quoted(&text)
    }
}

impl Choice for Keyed {}
impl Choice for Meta {}
impl Choice for Text {}
impl Choice for Word {}

impl Order for Keyed {
    const MIXED: bool = true;
}
impl Order for Metric {
    const MIXED: bool = true;
}
impl Order for Measured {
    const MIXED: bool = false;
}

/// A field of a [`RunQuery`] that waits for what it has to be.
#[must_use = "a Term is no condition until it is said what the field has to be"]
pub struct Term<K> {
    query: RunQuery,
    field: String,
    kind: PhantomData<K>,
}

impl<K> fmt::Debug for Term<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("query", &self.query)
            .field("field", &self.field)
            .finish_non_exhaustive()
    }
}

impl<K> Term<K> {
    pub(super) fn new(query: RunQuery, field: String) -> Self {
        Self {
            query,
            field,
            kind: PhantomData,
        }
    }

    /// There is no such key, or the field is empty. A key with null is there.
    pub fn is_missing(self) -> RunQuery {
        self.said("nil")
    }

    /// There is such a key, or the field is not empty.
    pub fn is_present(self) -> RunQuery {
        self.said("~nil")
    }

    fn said(self, operation: &str) -> RunQuery {
        let Self { query, field, .. } = self;
        query.with(format!("{field}:{operation}"))
    }

    /// Says both about the field.
    fn both(self, one: &str, other: &str) -> RunQuery {
        let Self { query, field, .. } = self;
        query
            .with(format!("{field}:{one}"))
            .with(format!("{field}:{other}"))
    }

    fn refused(mut self, problem: InvalidInput) -> RunQuery {
        self.query.refuse(problem);
        self.query
    }
}

impl<K: Equality> Term<K> {
    /// It is this value.
    pub fn eq(self, value: impl Into<QueryValue>) -> RunQuery {
        match K::encoded(&value.into()) {
            Ok(value) => self.said(&value),
            Err(problem) => self.refused(problem),
        }
    }

    /// It is there and is another value, null included.
    pub fn ne(self, value: impl Into<QueryValue>) -> RunQuery {
        match K::encoded(&value.into()) {
            Ok(value) => self.both(&format!("~{value}"), "~nil"),
            Err(problem) => self.refused(problem),
        }
    }

    /// It is another value, or missing.
    pub fn ne_or_missing(self, value: impl Into<QueryValue>) -> RunQuery {
        match K::encoded(&value.into()) {
            Ok(value) => self.said(&format!("~{value}")),
            Err(problem) => self.refused(problem),
        }
    }
}

impl<K: Choice> Term<K> {
    /// It is one of these values. None at all is a problem of the query.
    pub fn one_of<V: Into<QueryValue>>(self, values: impl IntoIterator<Item = V>) -> RunQuery {
        match Self::list(values) {
            Ok(list) => self.said(&list),
            Err(problem) => self.refused(problem),
        }
    }

    /// It is there and is none of these values.
    pub fn none_of<V: Into<QueryValue>>(self, values: impl IntoIterator<Item = V>) -> RunQuery {
        match Self::list(values) {
            Ok(list) => self.both(&format!("~{list}"), "~nil"),
            Err(problem) => self.refused(problem),
        }
    }

    fn list<V: Into<QueryValue>>(
        values: impl IntoIterator<Item = V>,
    ) -> Result<String, InvalidInput> {
        let values = values.into_iter().map(|value| K::encoded(&value.into()));
        let list = values.collect::<Result<Vec<_>, _>>()?.join("|");
        match list.is_empty() {
            true => Err(refused("there is no value to choose from".to_owned())),
            false => Ok(list),
        }
    }
}

impl<K: Order> Term<K> {
    /// It is a number above this one.
    pub fn gt(self, number: impl Into<QueryValue>) -> RunQuery {
        self.above(">", &number.into())
    }

    /// It is this number or one above.
    pub fn ge(self, number: impl Into<QueryValue>) -> RunQuery {
        self.above(">=", &number.into())
    }

    /// It is a number below this one.
    pub fn lt(self, number: impl Into<QueryValue>) -> RunQuery {
        self.below("<", &number.into())
    }

    /// It is this number or one below.
    pub fn le(self, number: impl Into<QueryValue>) -> RunQuery {
        self.below("<=", &number.into())
    }

    /// It is a number from `low` to `high`, both included.
    pub fn between(self, low: impl Into<QueryValue>, high: impl Into<QueryValue>) -> RunQuery {
        match (number(&low.into()), number(&high.into())) {
            (Ok(low), Ok(high)) => self.both(&format!(">={low}"), &format!("<={high}")),
            (Err(problem), _) | (_, Err(problem)) => self.refused(problem),
        }
    }

    fn above(self, sign: &str, than: &QueryValue) -> RunQuery {
        match number(than) {
            // Servers take text, or null, for larger than every number.
            Ok(than) if K::MIXED => self.both(&format!("{sign}{than}"), &format!("<={LARGEST}")),
            Ok(than) => self.said(&format!("{sign}{than}")),
            Err(problem) => self.refused(problem),
        }
    }

    fn below(self, sign: &str, than: &QueryValue) -> RunQuery {
        match number(than) {
            Ok(than) if K::MIXED => self.both(&format!(">=-{LARGEST}"), &format!("{sign}{than}")),
            Ok(than) => self.said(&format!("{sign}{than}")),
            Err(problem) => self.refused(problem),
        }
    }
}

/// A number to compare with.
fn number(value: &QueryValue) -> Result<String, InvalidInput> {
    let encoded = value.encoded()?;
    match encoded.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        true => Ok(encoded),
        false => Err(refused(format!("{encoded} is no number"))),
    }
}

impl Term<Text> {
    /// It holds this text, in either case of ASCII letters.
    pub fn contains(self, text: &str) -> RunQuery {
        self.part("%", text, "%")
    }

    /// It begins with this text, in either case of ASCII letters.
    pub fn starts_with(self, text: &str) -> RunQuery {
        self.part("", text, "%")
    }

    /// It ends with this text, in either case of ASCII letters.
    pub fn ends_with(self, text: &str) -> RunQuery {
        self.part("%", text, "")
    }

    fn part(self, before: &str, text: &str, after: &str) -> RunQuery {
        if text.is_empty() {
            return self.refused(refused("a part of a text is empty".to_owned()));
        }
        match quoted(text) {
            Ok(text) => self.said(&format!("{before}{text}{after}")),
            Err(problem) => self.refused(problem),
        }
    }
}

/// Instants are compared to the microsecond, which is what servers keep.
impl Term<Time> {
    /// It is after this instant.
    pub fn after(self, instant: Timestamp) -> RunQuery {
        self.said(&format!(">{}", micros(instant)))
    }

    /// It is this instant or after.
    pub fn since(self, instant: Timestamp) -> RunQuery {
        self.said(&format!(">={}", micros(instant)))
    }

    /// It is before this instant.
    pub fn before(self, instant: Timestamp) -> RunQuery {
        self.said(&format!("<{}", micros(instant)))
    }

    /// It is this instant or before.
    pub fn until(self, instant: Timestamp) -> RunQuery {
        self.said(&format!("<={}", micros(instant)))
    }

    /// It is from `first` to `last`, both included.
    pub fn between(self, first: Timestamp, last: Timestamp) -> RunQuery {
        self.both(
            &format!(">={}", micros(first)),
            &format!("<={}", micros(last)),
        )
    }
}

fn micros(instant: Timestamp) -> Timestamp {
    let whole = TimestampRound::new()
        .smallest(Unit::Microsecond)
        .mode(RoundMode::Trunc);
    instant.round(whole).unwrap_or(instant)
}
