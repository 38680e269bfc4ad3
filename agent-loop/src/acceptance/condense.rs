//! Makes a few lines for the model out of a report of failed tests.
//!
//! Only from the report and the fixture's own text: nothing here knows the bug, and no expected
//! value is shown that the report did not show.

use super::report::{Failure, Frame, Report};
use crate::manifest::Tree;
use crate::text::{head, one_line, printable, tail};

/// The most failures that are shown.
const MOST_FAILURES: usize = 4;
/// The longest piece of code that is quoted, and the longest message, in bytes.
const MOST_QUOTED: usize = 200;

/// One line for each failure. `fixtures` are the tests, `tree` what they test.
pub(super) fn failures(report: &Report, raw: &[u8], fixtures: &Tree, tree: &Tree) -> String {
    let condense = Condense { fixtures, tree };
    let mut lines: Vec<String> = report
        .failures
        .iter()
        .take(MOST_FAILURES)
        .map(|failure| format!("- {}", condense.line(failure)))
        .collect();
    match report.failures.len() {
        0 => lines.push(format!(
            "- the tests failed: {}",
            tail(&printable(raw), 300).trim()
        )),
        count if count > MOST_FAILURES => {
            lines.push(format!("- and {} more", count - MOST_FAILURES));
        }
        _ => {}
    }
    lines.join("\n")
}

struct Condense<'a> {
    fixtures: &'a Tree,
    tree: &'a Tree,
}

impl Condense<'_> {
    fn line(&self, failure: &Failure) -> String {
        let raised = match failure.message.trim() {
            "" => failure.exception.clone(),
            message => format!("{}: {}", failure.exception, quoted(message)),
        };
        if failure.is_import {
            return self.import_line(failure, &raised);
        }
        let test = &failure.test;
        // The innermost line of the test, and the innermost line of what is tested.
        let in_test = failure
            .frames
            .iter()
            .rev()
            .find_map(|frame| self.test_line(frame));
        let in_target = failure
            .frames
            .iter()
            .rev()
            .find_map(|frame| self.target_line(frame));
        let at = in_target
            .map(|(_, code)| format!(" at `{code}`"))
            .unwrap_or_default();
        match (in_test, failure.is_error) {
            (Some(line), true) => match line.must_raise {
                Some(expected) => format!(
                    "{test}: `{}` must raise {expected}, but it raised {}, which is not a {expected}.",
                    line.code, failure.exception
                ),
                None => format!("{test}: `{}` raised {raised}{at}", line.code),
            },
            (None, true) => format!("{test}: raised {raised}{at}"),
            (Some(line), false) => {
                format!("{test}: `{}` failed: {}", line.code, self.said(failure))
            }
            (None, false) => format!("{test}: failed: {}", self.said(failure)),
        }
    }

    fn said(&self, failure: &Failure) -> String {
        match failure.message.trim() {
            "" => failure.exception.clone(),
            message => quoted(message),
        }
    }

    fn import_line(&self, failure: &Failure, raised: &str) -> String {
        let in_target = failure.frames.iter().rev().find_map(|frame| {
            let (name, code) = self.target_line(frame)?;
            Some((name, frame.line, code))
        });
        let in_test = || {
            failure.frames.iter().rev().find_map(|frame| {
                let (name, _) = source(self.fixtures, &frame.file)?;
                Some((name, frame.line, quoted(&frame.code)))
            })
        };
        match in_target.or_else(in_test) {
            Some((name, line, code)) => {
                format!("{name} cannot be imported: line {line}: {code}: {raised}")
            }
            None => format!("{} cannot be imported: {raised}", failure.test),
        }
    }

    fn test_line(&self, frame: &Frame) -> Option<TestLine> {
        let (_, text) = source(self.fixtures, &frame.file)?;
        let lines: Vec<&str> = text.lines().collect();
        let at = frame.line.checked_sub(1)?;
        let code = statement(lines.get(at..)?);
        let must_raise = raises(&code).or_else(|| enclosing_raises(lines.get(..=at)?));
        Some(TestLine {
            code: quoted(&code),
            must_raise,
        })
    }

    /// A frame in what is tested: the name of its file and its line.
    fn target_line(&self, frame: &Frame) -> Option<(String, String)> {
        if source(self.fixtures, &frame.file).is_some() {
            return None;
        }
        let (name, _) = source(self.tree, &frame.file)?;
        Some((name, quoted(&frame.code)))
    }
}

struct TestLine {
    code: String,
    /// The exception that the line has to raise.
    must_raise: Option<String>,
}

/// The file of `tree` that a path in a traceback names, with its text.
fn source<'a>(tree: &'a Tree, path: &str) -> Option<(String, &'a str)> {
    let names = |name: &str| {
        path.strip_suffix(name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let candidates = tree.iter().filter(|(name, _)| names(name.as_str()));
    let (name, file) = candidates.max_by_key(|(name, _)| name.as_str().len())?;
    Some((name.to_string(), std::str::from_utf8(file.bytes()).ok()?))
}

/// The statement that begins on the first line: further lines are taken while brackets are open,
/// and the first line of a block that it opens.
fn statement(lines: &[&str]) -> String {
    let mut code = String::new();
    for line in lines.iter().take(4) {
        let opens_block = code.ends_with(':');
        if opens_block {
            code.push(' ');
        }
        code.push_str(line.trim());
        let count = |of: &[char]| code.matches(of).count();
        let is_whole = count(&['(', '[', '{']) <= count(&[')', ']', '}']);
        if is_whole && (opens_block || !code.ends_with(':')) {
            break;
        }
    }
    code.trim_end_matches(',').to_owned()
}

/// The exception that `assertRaises` or `assertRaisesRegex` in this line waits for.
fn raises(code: &str) -> Option<String> {
    let (_, rest) = code.split_once("assertRaises")?;
    let rest = rest
        .strip_prefix("Regex")
        .unwrap_or(rest)
        .strip_prefix('(')?;
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        .collect();
    (!name.is_empty()).then_some(name)
}

/// The exception that a `with` around the last of `lines` waits for.
fn enclosing_raises(lines: &[&str]) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (last, above) = lines.split_last()?;
    let mut inner = indent(last);
    for line in above.iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < inner {
            inner = indent(line);
            if line.trim_start().starts_with("with ")
                && let Some(name) = raises(line)
            {
                return Some(name);
            }
            if line.trim_start().starts_with("def ") {
                return None;
            }
        }
    }
    None
}

fn quoted(code: &str) -> String {
    let line = one_line(code, MOST_QUOTED);
    // A backquote would end the quotation.
    head(&line, MOST_QUOTED).replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exception_that_is_waited_for_is_found_around_a_line() {
        let table: [(&[&str], Option<&str>); 6] = [
            (
                &["self.assertRaises(ValueError, f, 'x')"],
                Some("ValueError"),
            ),
            (
                &["with self.assertRaisesRegex(a.B, 'x'):", "    f()"],
                Some("a.B"),
            ),
            (
                &[
                    "with self.assertRaises(E):",
                    "    for x in y:",
                    "",
                    "        f(x)",
                ],
                Some("E"),
            ),
            (&["with self.assertRaises(E):", "    f()", "g()"], None),
            (
                &[
                    "with self.assertRaises(E):",
                    "  f()",
                    "def test_b(self):",
                    "  g()",
                ],
                None,
            ),
            (&["f()"], None),
        ];
        for (lines, expected) in table {
            let found =
                raises(&statement(&lines[lines.len() - 1..])).or_else(|| enclosing_raises(lines));
            assert_eq!(found.as_deref(), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_statement_is_followed_over_its_open_brackets() {
        assert_eq!(statement(&["  f(", "    1,", "  )", "g()"]), "f(1,)");
        assert_eq!(statement(&["f(1),", ")"]), "f(1)");
        assert_eq!(
            statement(&["with a(E):", "    f(", "  1)", "g()"]),
            "with a(E): f(1)"
        );
        assert_eq!(
            statement(&["with a(E):", "    with b(E):", "  f()"]),
            "with a(E): with b(E):"
        );
        assert_eq!(statement(&["(", "(", "(", "(", "("]), "((((");
    }

    #[test]
    fn a_path_names_a_file_by_whole_components() {
        let path = |text| crate::path::RelPath::parse(text).unwrap();
        let file = || crate::manifest::File::new(*b"x");
        let tree: Tree = [(path("m.py"), file()), (path("a/m.py"), file())]
            .into_iter()
            .collect();
        let name = |text| source(&tree, text).map(|(name, _)| name);
        assert_eq!(name("/w/a/m.py").as_deref(), Some("a/m.py"));
        assert_eq!(name("/w/b/m.py").as_deref(), Some("m.py"));
        assert_eq!(name("m.py").as_deref(), Some("m.py"));
        assert_eq!(name("/w/xm.py"), None);
    }
}
