//! Reads the model's reply, strictly and once. Nothing is ever executed on a guess.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::Finish;
use crate::path::{InvalidPath, RelPath};
use crate::text::one_line;

/// One of the four things that a model can ask for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Shows a file.
    #[non_exhaustive]
    Read {
        /// Which.
        path: RelPath,
    },
    /// Replaces a whole file.
    #[non_exhaustive]
    Write {
        /// Which.
        path: RelPath,
        /// Its new content.
        content: Vec<u8>,
    },
    /// Runs a check.
    #[non_exhaustive]
    Check {
        /// Which; `None` is the first one of the acceptance.
        name: Option<String>,
    },
    /// Ends the work. It is accepted only for the bytes that passed.
    #[non_exhaustive]
    Finish {
        /// What the model says about its work. Nothing depends on it.
        note: Option<String>,
    },
}

impl Action {
    /// The action's word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Check { .. } => "check",
            Self::Finish { .. } => "finish",
        }
    }

    /// Whether the two do the same. Quotes and blanks of a written file do not count: models that
    /// are stuck change them and nothing else.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Read { path }, Self::Read { path: of }) => path == of,
            (
                Self::Write { path, content },
                Self::Write {
                    path: of,
                    content: as_in,
                },
            ) => path == of && folded(content).eq(folded(as_in)),
            (Self::Check { name }, Self::Check { name: of }) => {
                name.as_deref().unwrap_or_default() == of.as_deref().unwrap_or_default()
            }
            (Self::Finish { .. }, Self::Finish { .. }) => true,
            _ => false,
        }
    }
}

/// The bytes that count where two contents are compared.
fn folded(content: &[u8]) -> impl Iterator<Item = u8> {
    let content = content.iter().filter(|byte| !byte.is_ascii_whitespace());
    content.map(|byte| match byte {
        b'\'' => b'"',
        byte => *byte,
    })
}

/// One line: `write amounts.py (46 bytes)`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path } => write!(f, "read {path}"),
            Self::Write { path, content } => write!(f, "write {path} ({} bytes)", content.len()),
            Self::Check { name: None } => f.write_str("check"),
            Self::Check { name: Some(name) } => write!(f, "check {}", one_line(name, 80)),
            Self::Finish { .. } => f.write_str("finish"),
        }
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Action({self})")
    }
}

/// Why a reply is no action. Its text is what the model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// It reached the limit of tokens. Nothing of it is executed, even where it parses.
    #[error(
        "the reply was cut off at the limit of its length, so nothing was done; answer with a shorter action"
    )]
    Truncated,
    /// A filter of the provider cut it.
    #[error("the reply was cut off by a filter, so nothing was done; answer with one JSON action")]
    Filtered,
    /// It holds nothing.
    #[error("the reply is empty; answer with one JSON action")]
    Empty,
    /// It is not JSON.
    #[error(
        "the reply is not JSON: {problem} (at byte {offset}); answer with one JSON action and nothing else"
    )]
    #[non_exhaustive]
    NotJson {
        /// Where it stops being JSON, in bytes of what was read as JSON.
        offset: usize,
        /// What the parser says.
        problem: String,
    },
    /// Something follows the action.
    #[error(
        "something follows the JSON action at byte {offset}; answer with one JSON action and nothing else"
    )]
    #[non_exhaustive]
    ExtraText {
        /// Where it begins.
        offset: usize,
    },
    /// A thought begins and does not end.
    #[error(
        "the reply begins with <think> and never ends it; answer with one JSON action and nothing else"
    )]
    UnclosedThought,
    /// The action does not exist.
    #[error("there is no action {name:?}; the actions are read, write, check and finish")]
    #[non_exhaustive]
    UnknownAction {
        /// What it is called.
        name: String,
    },
    /// A field is missing.
    #[error("the field {name:?} is missing")]
    #[non_exhaustive]
    MissingField {
        /// Its name.
        name: &'static str,
    },
    /// A field that the action does not have.
    #[error("{action} has no field {name:?}")]
    #[non_exhaustive]
    UnknownField {
        /// The action.
        action: &'static str,
        /// The field.
        name: String,
    },
    /// A field stands there twice.
    #[error("the field {name:?} stands there twice")]
    #[non_exhaustive]
    DuplicateField {
        /// Its name.
        name: String,
    },
    /// A field has a value of another type.
    #[error("the field {name:?} has to be {expected}")]
    #[non_exhaustive]
    WrongType {
        /// Its name.
        name: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A write says that it is not whole.
    #[error("the write says \"done\": false, so it was not executed; write the whole file")]
    NotDone,
    /// The path leads nowhere in the workspace. The reply is an action otherwise.
    #[error("{0}")]
    Path(InvalidPath),
}

impl Defect {
    /// Whether the reply is no action at all, which a model may do only a few times in a row.
    #[must_use]
    pub fn is_format_error(&self) -> bool {
        !matches!(self, Self::Path(_))
    }

    /// A word for it, for the journal.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Filtered => "filtered",
            Self::Empty => "empty",
            Self::NotJson { .. } => "not_json",
            Self::ExtraText { .. } => "extra_text",
            Self::UnclosedThought => "unclosed_thought",
            Self::UnknownAction { .. } => "unknown_action",
            Self::MissingField { .. } => "missing_field",
            Self::UnknownField { .. } => "unknown_field",
            Self::DuplicateField { .. } => "duplicate_field",
            Self::WrongType { .. } => "wrong_type",
            Self::NotDone => "not_done",
            Self::Path(_) => "path",
        }
    }
}

/// Reads the action in a reply.
///
/// The whole text is tried as JSON first, and then what a Markdown fence around all of it wraps. Where
/// that is not there, one leading thought is taken away, and a fence that wraps the whole rest;
/// nothing inside is edited, completed or picked out.
///
/// # Errors
/// A [`Defect`] that names what is wrong.
///
/// # Examples
/// ```
/// use agent_loop::action::{Defect, parse};
/// use agent_loop::Finish;
///
/// let action = parse(r#"{"step": {"action": "read", "path": "amounts.py"}}"#, Finish::Stop)?;
/// assert_eq!(action.to_string(), "read amounts.py");
/// assert_eq!(parse("All tests pass, done.", Finish::Stop).unwrap_err().code(), "not_json");
/// # Ok::<(), Defect>(())
/// ```
pub fn parse(text: &str, finish: Finish) -> Result<Action, Defect> {
    match finish {
        Finish::Length => return Err(Defect::Truncated),
        Finish::Filtered => return Err(Defect::Filtered),
        Finish::Stop | Finish::Unknown => {}
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(Defect::Empty);
    }
    let whole = match Object::read(text) {
        Ok(object) => return object.action(),
        Err(defect) => defect,
    };
    // What a fence wraps is tried before a thought is looked for: a file can hold the mark of one.
    if let Some(body) = without_fence(text).filter(|body| body.starts_with('{')) {
        match Object::read(body) {
            // The object is over before the mark comes, so it was a draft within a thought.
            Err(Defect::ExtraText { offset })
                if body
                    .get(offset..)
                    .is_some_and(|rest| rest.contains(THOUGHT_END)) => {}
            read => return read?.action(),
        }
    }
    let rest = match without_thought(text)? {
        Some(rest) => rest,
        None => text,
    };
    let rest = without_fence(rest).unwrap_or(rest);
    match rest.len() == text.len() {
        true => Err(whole),
        false if rest.is_empty() => Err(Defect::Empty),
        false => Object::read(rest)?.action(),
    }
}

/// The mark at the end of a thought.
const THOUGHT_END: &str = "</think>";

/// What follows one leading `<think>…</think>`. Some servers leave out the opening tag, so
/// everything up to the first closing one is a thought, unless the reply begins as an object.
fn without_thought(text: &str) -> Result<Option<&str>, Defect> {
    match (text.starts_with("<think>"), text.split_once(THOUGHT_END)) {
        (_, Some((thought, rest))) if !thought.starts_with('{') => Ok(Some(rest.trim())),
        (true, _) => Err(Defect::UnclosedThought),
        (false, _) => Ok(None),
    }
}

/// What a Markdown fence wraps, where it wraps everything: its first and its last line.
fn without_fence(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n')?;
    let language = first.trim_end().strip_prefix("```")?;
    let is_word = language.chars().all(|c| c.is_ascii_alphanumeric());
    let (body, last) = rest.rsplit_once('\n')?;
    (is_word && last.trim() == "```").then(|| body.trim())
}

/// A JSON object whose fields are kept apart as text, so that none is lost or taken twice.
struct Object<'a> {
    fields: Vec<(String, &'a RawValue)>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        input.deserialize_map(Fields).map(|fields| Self { fields })
    }
}

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Result<Self, Defect> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Self>();
        let object = match values.next() {
            Some(Ok(object)) => object,
            Some(Err(error)) => return Err(not_json(text, &error)),
            None => return Err(Defect::Empty),
        };
        let end = values.byte_offset();
        match text.get(end..).is_some_and(|rest| rest.trim().is_empty()) {
            true => Ok(object),
            false => Err(Defect::ExtraText { offset: end }),
        }
    }

    fn action(self) -> Result<Action, Defect> {
        if let [(name, step)] = &self.fields[..]
            && name == "step"
        {
            return match Self::read(step.get()) {
                Ok(object) => object.fields(),
                Err(_) => Err(Defect::WrongType {
                    name: "step",
                    expected: "an object",
                }),
            };
        }
        self.fields()
    }

    fn fields(self) -> Result<Action, Defect> {
        let mut fields = Fields::new(self.fields)?;
        let word = fields
            .string("action")?
            .ok_or(Defect::MissingField { name: "action" })?;
        let action = match word.as_str() {
            "read" => Action::Read {
                path: fields.path()?,
            },
            "write" => {
                // The path is judged last: a write that lacks its content is no action at all.
                let path = fields.required("path")?;
                let content = fields.required("content")?.into_bytes();
                if fields.boolean("done")? == Some(false) {
                    return Err(Defect::NotDone);
                }
                fields.end("write")?;
                Action::Write {
                    path: RelPath::parse(&path).map_err(Defect::Path)?,
                    content,
                }
            }
            "check" => Action::Check {
                name: fields.string("name")?,
            },
            "finish" => Action::Finish {
                note: fields.string("note")?,
            },
            _ => {
                return Err(Defect::UnknownAction {
                    name: one_line(&word, 80),
                });
            }
        };
        fields.end(action.word())?;
        Ok(action)
    }
}

/// The fields of an action, taken one by one; what is left in the end does not belong there.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn new(fields: Vec<(String, &'a RawValue)>) -> Result<Self, Defect> {
        for (at, (name, _)) in fields.iter().enumerate() {
            if fields.iter().take(at).any(|(other, _)| other == name) {
                return Err(Defect::DuplicateField {
                    name: one_line(name, 80),
                });
            }
        }
        Ok(Self(fields))
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(field, _)| field == name)?;
        Some(self.0.remove(at).1)
    }

    fn string(&mut self, name: &'static str) -> Result<Option<String>, Defect> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match serde_json::from_str(value.get()) {
            Ok(text) => Ok(Some(text)),
            // A string that is none: a lone surrogate, for one.
            Err(error) if value.get().starts_with('"') => Err(not_json(value.get(), &error)),
            Err(_) => Err(Defect::WrongType {
                name,
                expected: "a string",
            }),
        }
    }

    fn required(&mut self, name: &'static str) -> Result<String, Defect> {
        self.string(name)?.ok_or(Defect::MissingField { name })
    }

    fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, Defect> {
        match self.take(name).map(RawValue::get) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Defect::WrongType {
                name,
                expected: "true or false",
            }),
        }
    }

    fn path(&mut self) -> Result<RelPath, Defect> {
        let path = self.required("path")?;
        self.end("read")?;
        RelPath::parse(&path).map_err(Defect::Path)
    }

    fn end(&self, action: &'static str) -> Result<(), Defect> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Defect::UnknownField {
                action,
                name: one_line(name, 80),
            }),
        }
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> Defect {
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let offset = before + error.column().saturating_sub(1);
    let message = error.to_string();
    // The parser's position is by line and column; ours is the offset.
    let problem = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(problem, _)| problem);
    Defect::NotJson {
        offset,
        problem: one_line(problem, 120),
    }
}

#[cfg(test)]
mod tests;
