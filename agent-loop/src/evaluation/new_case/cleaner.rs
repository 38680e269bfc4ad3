//! What a case must not tell.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::evaluation::suite::{Answer, Bytes, Check, Command, Io, Wanted};
use crate::journal::Started;
use crate::manifest::File;
use crate::redact::redact;

const NO_TEXT: &str = "is no text, so nothing was looked for";

/// Takes out what a case must not tell, and keeps what it has changed.
pub(super) struct Cleaner {
    /// What names the workspace: a uuid, a host, a project.
    names: Vec<String>,
    pub(super) changed: BTreeMap<String, &'static str>,
}

impl Cleaner {
    pub(super) fn new(started: &Started) -> Self {
        let mut names = Vec::new();
        collect(&started.workspace.identity, &mut names);
        Self {
            names,
            changed: BTreeMap::new(),
        }
    }

    pub(super) fn file(&mut self, at: &str, file: &File) -> File {
        match std::str::from_utf8(file.bytes()) {
            Ok(text) => File::new(self.text(at, text)),
            Err(_) => {
                self.changed.insert(at.to_owned(), NO_TEXT);
                file.clone()
            }
        }
    }

    pub(super) fn text(&mut self, at: &str, text: &str) -> String {
        let mut clean = text.to_owned();
        for name in &self.names {
            clean = clean.replace(name.as_str(), "workspace");
        }
        clean = without_people(&redact(&clean));
        if clean != text {
            let what = "secrets, names of the workspace or folders of people were replaced";
            self.changed.insert(at.to_owned(), what);
        }
        clean
    }

    /// A check without what it must not tell. Paths stay: they are those of files.
    pub(super) fn check(&mut self, at: &str, check: Check) -> Check {
        match check {
            Check::Tests(tests) => Check::Tests(tests),
            Check::Command(command) => Check::Command(Command {
                argv: self.texts(at, &command.argv),
                variables: command
                    .variables
                    .iter()
                    .map(|(name, value)| (name.clone(), self.named(at, name, value)))
                    .collect(),
                ..command
            }),
            Check::Io(io) => Check::Io(Io {
                command: io.command.map(|argv| self.texts(at, &argv)),
                cases: io
                    .cases
                    .into_iter()
                    .map(|case| self.case(at, case))
                    .collect(),
                ..io
            }),
        }
    }

    fn texts(&mut self, at: &str, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.text(at, text)).collect()
    }

    /// A value can be secret by the name of its variable.
    fn named(&mut self, at: &str, name: &str, value: &str) -> String {
        let value = self.text(at, value);
        let line = serde_json::json!({name: value}).to_string();
        let clean = self.text(at, &line);
        let read = serde_json::from_str::<BTreeMap<String, String>>(&clean);
        let member = read.ok().and_then(|read| read.into_values().next());
        member.unwrap_or_else(|| "<redacted>".to_owned())
    }

    fn case(&mut self, at: &str, case: Answer) -> Answer {
        let name = self.text(at, &case.name);
        let at = format!("{at}: {name}");
        Answer {
            name,
            input: case.input.map(|bytes| self.bytes(&at, bytes)),
            call: case.call.map(|call| {
                call.into_iter()
                    .map(|value| self.value(&at, value))
                    .collect()
            }),
            expected: match case.expected {
                Wanted::Bytes(bytes) => Wanted::Bytes(self.bytes(&at, bytes)),
                Wanted::Text(text) => Wanted::Text(self.text(&at, &text)),
                Wanted::Typed { of_type, text } => Wanted::Typed {
                    of_type,
                    text: self.text(&at, &text),
                },
                Wanted::Json(value) => Wanted::Json(self.value(&at, value)),
                Wanted::JsonWithin {
                    value,
                    absolute,
                    relative,
                } => Wanted::JsonWithin {
                    value: self.value(&at, value),
                    absolute,
                    relative,
                },
                raised @ Wanted::Raised(_) => raised,
            },
            ..case
        }
    }

    fn bytes(&mut self, at: &str, Bytes(bytes): Bytes) -> Bytes {
        Bytes(self.file(at, &File::new(bytes)).bytes().to_vec())
    }

    fn value(&mut self, at: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(at, &text)),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.value(at, item));
                Value::Array(items.collect())
            }
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| {
                    let value = match value {
                        Value::String(text) => Value::String(self.named(at, &name, &text)),
                        other => self.value(at, other),
                    };
                    (name, value)
                });
                Value::Object(members.collect())
            }
            other => other,
        }
    }
}

/// The texts in a value that are long enough to name something.
fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() >= 8 => names.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(members) => members.values().for_each(|item| collect(item, names)),
        _ => {}
    }
}

/// The text with another name in the folders of people: `/home/<name>` and `/Users/<name>`.
fn without_people(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let found = ["/home/", "/Users/"]
            .iter()
            .filter_map(|folder| rest.find(folder).map(|at| at + folder.len()))
            .min();
        let Some(at) = found else {
            out.push_str(rest);
            return out;
        };
        let (before, after) = rest.split_at(at);
        let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        out.push_str(before);
        out.push_str(if end > 0 { "user" } else { "" });
        rest = after.get(end..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_people_lose_their_names() {
        let table = [
            ("/home/ada/x and /Users/b.c", "/home/user/x and /Users/user"),
            ("/home/", "/home/"),
            ("no folder", "no folder"),
        ];
        for (text, clean) in table {
            assert_eq!(without_people(text), clean);
        }
    }
}
