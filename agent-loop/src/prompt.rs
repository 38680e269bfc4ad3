//! What the model is told and what it may answer, rebuilt in each turn from what is known.
//!
//! The model sees the state and not the conversation: the files as they are, the last check in a
//! few lines, the task, what became of its last action, and what comes next. Models of all sizes
//! copy what stands nearest; their own wrong attempts in a history are copied for ever.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::manifest::File;
use crate::path::RelPath;
use crate::text::{head_and_tail, printable};

/// Changes with every change of what [`user`] writes.
const REVISION: &str = "state prompt 1";

/// The first message. Its example is no file of any task, and has the schema's shape and order.
pub(crate) const SYSTEM: &str = r#"You repair a small Python project. Answer every turn with one JSON action and nothing else.
read shows a file. write replaces a whole file with content. check runs the tests. finish ends the work; it is accepted only after a check has passed.
The actions look like this:
{"step": {"action": "read", "path": "area.py"}}
{"step": {"action": "write", "path": "area.py", "content": "def area(w, h):\n    return w * h\n", "done": true}}
{"step": {"action": "check"}}
{"step": {"action": "finish"}}
"#;

/// Which actions the model is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// Only the one that makes sense now: read, then write, then check, then finish. Small models
    /// waste their turns otherwise.
    #[default]
    Forced,
    /// Reading and writing always, and beside them the one that makes sense now. For larger models
    /// and for changes in several files.
    Open,
}

/// The digest of everything that shapes a prompt but the task and the files.
pub(crate) fn revision(system: &str, order: Order) -> Digest {
    let order = match order {
        Order::Forced => "forced",
        Order::Open => "open",
    };
    Digest::of_parts([REVISION.as_bytes(), system.as_bytes(), order.as_bytes()])
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Read,
    Write,
    Check,
    Finish,
}

/// The actions that are offered, with the paths that they may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) read: Option<Choice>,
    pub(crate) write: Option<Choice>,
    /// The names of the checks. With one name the model need not say it.
    pub(crate) check: Option<Vec<String>>,
    pub(crate) finish: bool,
}

/// Which paths may be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    OneOf(Vec<RelPath>),
    Any,
}

impl Offer {
    /// The JSON schema of a reply, as text. Its bytes are the order in which servers generate the
    /// fields: a path before the content, and something after the content, without which models
    /// like to end a file with a stray brace.
    pub(crate) fn schema(&self) -> String {
        let mut steps = Vec::new();
        if let Some(paths) = &self.read {
            steps.push(object("read", &[("path", &paths.schema())]));
        }
        if let Some(paths) = &self.write {
            let fields = [
                ("path", paths.schema()),
                ("content", r#"{"type":"string"}"#.to_owned()),
                ("done", r#"{"type":"boolean"}"#.to_owned()),
            ];
            steps.push(object(
                "write",
                &fields
                    .each_ref()
                    .map(|(name, schema)| (*name, schema.as_str())),
            ));
        }
        match self.check.as_deref() {
            None => {}
            Some([] | [_]) => steps.push(object("check", &[])),
            Some(names) => steps.push(object("check", &[("name", &one_of(names))])),
        }
        if self.finish {
            steps.push(object("finish", &[]));
        }
        format!(
            r#"{{"type":"object","additionalProperties":false,"required":["step"],"properties":{{"step":{{"anyOf":[{}]}}}}}}"#,
            steps.join(",")
        )
    }
}

impl Choice {
    fn schema(&self) -> String {
        match self {
            Self::Any => r#"{"type":"string"}"#.to_owned(),
            Self::OneOf(paths) => one_of(paths),
        }
    }
}

fn object(action: &str, fields: &[(&str, &str)]) -> String {
    let mut required = r#""action""#.to_owned();
    let mut properties = format!(r#""action":{}"#, one_of(&[action]));
    for (name, schema) in fields {
        // Writing to a String cannot fail.
        let _ = write!(required, r#","{name}""#);
        let _ = write!(properties, r#","{name}":{schema}"#);
    }
    format!(
        r#"{{"type":"object","additionalProperties":false,"required":[{required}],"properties":{{{properties}}}}}"#
    )
}

fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let quoted = words
        .iter()
        .map(|word| serde_json::Value::from(word.as_ref()).to_string());
    format!(
        r#"{{"type":"string","enum":[{}]}}"#,
        quoted.collect::<Vec<_>>().join(",")
    )
}

/// Everything that a prompt is made of.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) task: &'a str,
    /// What there is, with what may be done with it.
    pub(crate) listed: Vec<(&'a RelPath, Use)>,
    /// Files that are shown whole, and others that the model has seen.
    pub(crate) seen: Vec<Seen<'a>>,
    /// What the last check of these bytes said against them, as far as it is shown.
    pub(crate) failures: Option<&'a str>,
    /// What became of the last action, where it was not done.
    pub(crate) refusal: Option<&'a str>,
    pub(crate) next: Next,
    /// The files that the next action is about.
    pub(crate) targets: Vec<&'a RelPath>,
    pub(crate) observation_bytes: usize,
}

/// What the model may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Write,
    Read,
    /// A fixture of the check.
    Tests,
}

/// A file that the model has read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) path: &'a RelPath,
    pub(crate) file: &'a File,
    /// The turn in which it was last read or written.
    pub(crate) turn: u32,
}

/// The message of a turn.
pub(crate) fn user(view: &View<'_>) -> String {
    let mut out = String::new();
    files(view, &mut out);
    contents(view, &mut out);
    if let Some(failures) = view.failures {
        out.push_str("The last check failed:\n");
        out.push_str(failures.trim_end());
        out.push_str("\n\n");
    }
    out.push_str("Task: ");
    out.push_str(view.task.trim());
    out.push('\n');
    if let Some(refusal) = view.refusal {
        out.push_str(&head_and_tail(refusal, MOST_REFUSAL));
        out.push('\n');
    }
    let targets = list(&view.targets);
    // Writing to a String cannot fail.
    let _ = match view.next {
        Next::Read => writeln!(out, "Next: read {targets}."),
        Next::Write => {
            writeln!(
                out,
                "Next: write {targets}, changed so that it does what the task says."
            )
        }
        Next::Check => writeln!(out, "Next: check."),
        Next::Finish => writeln!(out, "The check passed.\nNext: finish."),
    };
    out
}

/// The longest refusal that is shown, in bytes.
const MOST_REFUSAL: usize = 600;
/// The most files that are named.
const MOST_LISTED: usize = 40;

fn files(view: &View<'_>, out: &mut String) {
    out.push_str("Files: ");
    for (at, (path, may)) in view.listed.iter().take(MOST_LISTED).enumerate() {
        let may = match may {
            Use::Write => "may be written",
            Use::Read => "may only be read",
            Use::Tests => "the tests; may only be read",
        };
        let separator = if at == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(out, "{separator}{path} ({may})");
    }
    if let Some(more @ 1..) = view.listed.len().checked_sub(MOST_LISTED) {
        let _ = write!(out, ", and {more} more");
    }
    out.push_str(".\n\n");
}

/// Of each file the last state, and whole only what was seen last: twice the limit of one
/// observation for all of them together. The others become a line each.
fn contents(view: &View<'_>, out: &mut String) {
    let mut room = 2 * view.observation_bytes;
    let mut latest_first: Vec<(usize, &Seen<'_>)> = view.seen.iter().enumerate().collect();
    latest_first.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.turn));
    let mut whole = vec![false; view.seen.len()];
    for (at, seen) in latest_first {
        let size = seen.file.bytes().len().min(view.observation_bytes);
        if let Some(rest) = room.checked_sub(size)
            && let Some(whole) = whole.get_mut(at)
        {
            *whole = true;
            room = rest;
        }
    }
    for (seen, whole) in view.seen.iter().zip(whole) {
        let _ = match whole {
            true => show(seen, view.observation_bytes, out),
            false => writeln!(
                out,
                "--- {}: {} bytes, seen in turn {}; read it again to see it\n",
                seen.path,
                seen.file.bytes().len(),
                seen.turn
            ),
        };
    }
}

/// The mark that some editors put before UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn show(seen: &Seen<'_>, limit: usize, out: &mut String) -> std::fmt::Result {
    let bytes = seen.file.bytes();
    let (mark, bytes) = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (" (begins with a byte-order mark, which is kept)", rest),
        None => ("", bytes),
    };
    let text = printable(bytes);
    let text = head_and_tail(&text, limit);
    let end = match text.is_empty() || text.ends_with('\n') {
        true => "---",
        false => "\n--- (without a newline at its end)",
    };
    writeln!(out, "--- {}{mark}\n{text}{end}\n", seen.path)
}

fn list(paths: &[&RelPath]) -> String {
    match paths {
        [] => "a file".to_owned(),
        [path] => path.to_string(),
        [first @ .., last] => {
            let first: Vec<&str> = first
                .iter()
                .take(MOST_LISTED)
                .map(|path| path.as_str())
                .collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    #[test]
    fn the_schema_has_exactly_these_bytes() {
        let target = || Some(Choice::OneOf(vec![path("amounts.py")]));
        let read = r#"{"type":"object","additionalProperties":false,"required":["action","path"],"properties":{"action":{"type":"string","enum":["read"]},"path":{"type":"string","enum":["amounts.py"]}}}"#;
        let write = r#"{"type":"object","additionalProperties":false,"required":["action","path","content","done"],"properties":{"action":{"type":"string","enum":["write"]},"path":{"type":"string","enum":["amounts.py"]},"content":{"type":"string"},"done":{"type":"boolean"}}}"#;
        let check = r#"{"type":"object","additionalProperties":false,"required":["action"],"properties":{"action":{"type":"string","enum":["check"]}}}"#;
        let named = r#"{"type":"object","additionalProperties":false,"required":["action","name"],"properties":{"action":{"type":"string","enum":["check"]},"name":{"type":"string","enum":["a","b"]}}}"#;
        let finish = r#"{"type":"object","additionalProperties":false,"required":["action"],"properties":{"action":{"type":"string","enum":["finish"]}}}"#;
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let table = [
            (
                Offer {
                    read: target(),
                    ..Offer::default()
                },
                vec![read],
            ),
            (
                Offer {
                    write: target(),
                    ..Offer::default()
                },
                vec![write],
            ),
            (
                Offer {
                    check: names(&["unit"]),
                    ..Offer::default()
                },
                vec![check],
            ),
            (
                Offer {
                    check: names(&["a", "b"]),
                    ..Offer::default()
                },
                vec![named],
            ),
            (
                Offer {
                    finish: true,
                    ..Offer::default()
                },
                vec![finish],
            ),
            (
                Offer {
                    read: target(),
                    write: target(),
                    check: names(&["unit"]),
                    finish: true,
                },
                vec![read, write, check, finish],
            ),
        ];
        for (offer, steps) in table {
            let expected = format!(
                r#"{{"type":"object","additionalProperties":false,"required":["step"],"properties":{{"step":{{"anyOf":[{}]}}}}}}"#,
                steps.join(",")
            );
            assert_eq!(offer.schema(), expected);
            serde_json::from_str::<serde_json::Value>(&expected).unwrap();
        }
        let any = Offer {
            write: Some(Choice::Any),
            ..Offer::default()
        };
        assert!(
            any.schema()
                .contains(r#""path":{"type":"string"},"content""#)
        );
        let odd = Offer {
            read: Some(Choice::OneOf(vec![path("a \"b\" é.py")])),
            ..Offer::default()
        };
        assert!(odd.schema().contains(r#""enum":["a \"b\" é.py"]"#));
    }

    #[test]
    fn the_example_in_the_first_message_is_made_of_actions() {
        let examples: Vec<_> = SYSTEM
            .lines()
            .filter(|line| line.starts_with('{'))
            .collect();
        let words: Vec<_> = examples
            .iter()
            .map(|text| {
                crate::action::parse(text, crate::model::Finish::Stop)
                    .unwrap()
                    .word()
            })
            .collect();
        assert_eq!(words, ["read", "write", "check", "finish"]);
    }

    #[test]
    fn a_prompt_is_the_state_in_a_fixed_order() {
        let (target, tests) = (path("amounts.py"), path("test_amounts.py"));
        let file = File::new(*b"def total(xs):\n    return 0\n");
        let view = View {
            task: "total(xs) must return the sum.",
            listed: vec![(&target, Use::Write), (&tests, Use::Tests)],
            seen: vec![Seen {
                path: &target,
                file: &file,
                turn: 1,
            }],
            failures: Some("- test_two: `f` failed: 0 != 3\n"),
            refusal: Some("finish was refused: no check has passed."),
            next: Next::Write,
            targets: vec![&target],
            observation_bytes: 4096,
        };
        insta::assert_snapshot!(user(&view), @r"
        Files: amounts.py (may be written), test_amounts.py (the tests; may only be read).

        --- amounts.py
        def total(xs):
            return 0
        ---

        The last check failed:
        - test_two: `f` failed: 0 != 3

        Task: total(xs) must return the sum.
        finish was refused: no check has passed.
        Next: write amounts.py, changed so that it does what the task says.
        ");
        let finish = View {
            seen: vec![],
            failures: None,
            refusal: None,
            next: Next::Finish,
            ..view
        };
        insta::assert_snapshot!(user(&finish), @r"
        Files: amounts.py (may be written), test_amounts.py (the tests; may only be read).

        Task: total(xs) must return the sum.
        The check passed.
        Next: finish.
        ");
    }

    #[test]
    fn only_what_was_seen_last_stays_whole() {
        let paths: Vec<RelPath> = (0..4).map(|at| path(&format!("f{at}.py"))).collect();
        let files: Vec<File> = (0..4)
            .map(|at| File::new(format!("{at}").repeat(60)))
            .collect();
        let turns = [4, 1, 2, 3];
        let seen = paths.iter().zip(&files).zip(turns);
        let view = View {
            task: "t",
            listed: vec![],
            seen: seen
                .map(|((path, file), turn)| Seen { path, file, turn })
                .collect(),
            failures: None,
            refusal: None,
            next: Next::Write,
            targets: vec![],
            observation_bytes: 64,
        };
        let text = user(&view);
        assert!(
            text.contains(&"0".repeat(60)) && text.contains(&"3".repeat(60)),
            "{text}"
        );
        assert!(text.contains("--- f1.py: 60 bytes, seen in turn 1; read it again to see it\n"));
        assert!(text.contains("--- f2.py: 60 bytes, seen in turn 2; read it again to see it\n"));
    }

    #[test]
    fn what_cannot_be_seen_in_a_file_is_said() {
        let shown = |bytes: &[u8]| {
            let (path, file) = (path("a.py"), File::new(bytes));
            let mut out = String::new();
            show(
                &Seen {
                    path: &path,
                    file: &file,
                    turn: 1,
                },
                4096,
                &mut out,
            )
            .unwrap();
            out
        };
        assert_eq!(
            shown(b"x"),
            "--- a.py\nx\n--- (without a newline at its end)\n\n"
        );
        assert_eq!(shown(b""), "--- a.py\n---\n\n");
        assert_eq!(shown(b"x\r\n"), "--- a.py\nx\\r\n---\n\n");
        let marked = shown(b"\xef\xbb\xbfx\n");
        assert_eq!(
            marked,
            "--- a.py (begins with a byte-order mark, which is kept)\nx\n---\n\n"
        );
    }
}
