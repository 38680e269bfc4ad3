//! Reads what Python's `unittest` writes at the end of a run.
//!
//! The text comes from the process in which the code under test ran, so it can be forged. It is
//! read as strictly as it is written, and never alone: the exit status has to agree.

/// A report of `unittest`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// What failed, in the order of the report.
    pub(super) failures: Vec<Failure>,
    /// The summaries that were found. An honest report has exactly one.
    pub(super) summaries: Vec<Summary>,
}

/// The last lines of a report: `Ran 4 tests in 0.001s`, and `FAILED (failures=1, errors=1)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) ran: u32,
    /// Whether the word is `OK`.
    pub(super) ok: bool,
    pub(super) failures: u32,
    pub(super) errors: u32,
    pub(super) skipped: u32,
    pub(super) expected_failures: u32,
    pub(super) unexpected_successes: u32,
}

impl Summary {
    /// How many results speak against the code.
    pub(super) fn failed(&self) -> u32 {
        let parts = [self.failures, self.errors, self.unexpected_successes];
        parts.into_iter().fold(0, u32::saturating_add)
    }
}

/// One test that did not pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    /// `ERROR` or `FAIL`.
    pub(super) is_error: bool,
    /// The test's own name, with its subtest: `test_invalid (text='')`.
    pub(super) test: String,
    /// Whether a module could not be imported, so that no test of it ran.
    pub(super) is_import: bool,
    /// The frames of the exception that reached the test, outermost first.
    pub(super) frames: Vec<Frame>,
    /// The type of that exception: `decimal.InvalidOperation`.
    pub(super) exception: String,
    /// The first line of its message.
    pub(super) message: String,
}

/// One line of a traceback.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) file: String,
    pub(super) line: usize,
    /// The source line, where the report shows it.
    pub(super) code: String,
}

impl Report {
    /// Reads a report. What is not a part of one is passed over.
    pub(super) fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text
            .split('\n')
            .map(|line| line.trim_end_matches('\r'))
            .collect();
        let mut report = Self::default();
        for (at, line) in lines.iter().enumerate() {
            let rest = lines.get(at + 1..).unwrap_or_default();
            let separated = at.checked_sub(1).and_then(|at| lines.get(at));
            if separated.is_some_and(|line| is_rule(line, '='))
                && let Some(failure) = Failure::parse(line, rest)
            {
                report.failures.push(failure);
            }
            report.summaries.extend(Summary::parse(line, rest));
        }
        report
    }
}

/// A separating line of the report.
fn is_rule(line: &str, of: char) -> bool {
    line.len() == 70 && line.chars().all(|c| c == of)
}

impl Summary {
    fn parse(line: &str, rest: &[&str]) -> Option<Self> {
        let (ran, rest_of_line) = line.strip_prefix("Ran ")?.split_once(' ')?;
        let seconds = rest_of_line
            .strip_prefix("tests in ")
            .or(rest_of_line.strip_prefix("test in "))?;
        seconds.strip_suffix('s')?.parse::<f64>().ok()?;
        let ran = ran.parse().ok()?;
        let ["", word, ..] = rest else {
            return None;
        };
        let (word, counts) = match word.split_once(" (") {
            Some((word, counts)) => (word, counts.strip_suffix(')')?),
            None => (*word, ""),
        };
        let ok = match word {
            "OK" => true,
            "FAILED" | "NO TESTS RAN" => false,
            _ => return None,
        };
        let mut summary = Self {
            ran,
            ok,
            ..Self::default()
        };
        for count in counts.split(", ").filter(|count| !count.is_empty()) {
            let (name, number) = count.split_once('=')?;
            let field = match name {
                "failures" => &mut summary.failures,
                "errors" => &mut summary.errors,
                "skipped" => &mut summary.skipped,
                "expected failures" => &mut summary.expected_failures,
                "unexpected successes" => &mut summary.unexpected_successes,
                _ => return None,
            };
            *field = number.parse().ok()?;
        }
        Some(summary)
    }
}

impl Failure {
    /// Reads a failure from its heading and what follows it.
    fn parse(heading: &str, rest: &[&str]) -> Option<Self> {
        let (word, name) = heading.split_once(": ")?;
        let is_error = match word {
            "ERROR" => true,
            "FAIL" => false,
            "UNEXPECTED SUCCESS" => {
                let message = "passes, and is expected to fail".to_owned();
                return Some(Self {
                    test: test_name(name),
                    message,
                    ..Self::default()
                });
            }
            _ => return None,
        };
        // A docstring of the test can stand between its name and the rule.
        let rule = rest.iter().position(|line| is_rule(line, '-'))?;
        let body = rest.get(rule + 1..)?;
        let end = body
            .iter()
            .position(|line| is_rule(line, '=') || is_rule(line, '-'));
        let body = body.get(..end.unwrap_or(body.len()))?;
        let mut failure = Self {
            is_error,
            test: test_name(name),
            is_import: name.contains("unittest.loader._FailedTest"),
            ..Self::default()
        };
        failure.read_traceback(last_traceback(body));
        Some(failure)
    }

    fn read_traceback(&mut self, lines: &[&str]) {
        let mut lines = lines.iter().peekable();
        while let Some(line) = lines.next() {
            if let Some((file, number)) = frame_heading(line) {
                let code = lines
                    .next_if(|line| line.starts_with("    "))
                    .map(|line| line.trim());
                let code = code.unwrap_or_default().to_owned();
                self.frames.push(Frame {
                    file,
                    line: number,
                    code,
                });
            } else if !line.is_empty() && !line.starts_with(' ') {
                let (exception, message) = line.split_once(": ").unwrap_or((line, ""));
                exception.clone_into(&mut self.exception);
                message.clone_into(&mut self.message);
                return;
            }
        }
    }
}

/// `test_a (module.Class.test_a) (text='')` → `test_a (text='')`.
fn test_name(name: &str) -> String {
    let Some((test, rest)) = name.split_once(" (") else {
        return name.to_owned();
    };
    match rest.split_once(')') {
        Some((_, sub)) if !sub.trim().is_empty() => format!("{test} {}", sub.trim()),
        _ => test.to_owned(),
    }
}

/// What follows the last `Traceback` of a failure: the exception that reached the test. Those
/// before it were handled on the way.
fn last_traceback<'a>(body: &'a [&'a str]) -> &'a [&'a str] {
    let at = body
        .iter()
        .rposition(|line| *line == "Traceback (most recent call last):");
    at.and_then(|at| body.get(at + 1..)).unwrap_or(body)
}

/// `  File "…/amounts.py", line 5, in parse_amount`. A syntax error has no `, in …`.
fn frame_heading(line: &str) -> Option<(String, usize)> {
    let (file, rest) = line.strip_prefix("  File \"")?.split_once("\", line ")?;
    let number = rest.split_once(',').map_or(rest, |(number, _)| number);
    Some((file.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(text: &str) -> Vec<Summary> {
        Report::parse(text).summaries
    }

    #[test]
    fn a_summary_is_read_in_all_its_forms() {
        let table = [
            (
                "Ran 4 tests in 0.001s\n\nOK\n",
                Summary {
                    ran: 4,
                    ok: true,
                    ..Summary::default()
                },
            ),
            (
                "Ran 1 test in 0.001s\n\nOK (skipped=1)\n",
                Summary {
                    ran: 1,
                    ok: true,
                    skipped: 1,
                    ..Summary::default()
                },
            ),
            (
                "....\nRan 9 tests in 12.500s\r\n\r\nFAILED (failures=1, errors=2, skipped=3, expected failures=4, unexpected successes=5)",
                Summary {
                    ran: 9,
                    ok: false,
                    failures: 1,
                    errors: 2,
                    skipped: 3,
                    expected_failures: 4,
                    unexpected_successes: 5,
                },
            ),
            (
                "Ran 0 tests in 0.000s\n\nNO TESTS RAN\n",
                Summary::default(),
            ),
            (
                "Ran 0 tests in 0.000s\n\nOK\n",
                Summary {
                    ok: true,
                    ..Summary::default()
                },
            ),
        ];
        for (text, expected) in table {
            assert_eq!(summary(text), [expected], "{text}");
        }
    }

    #[test]
    fn what_only_resembles_a_summary_is_none() {
        for text in [
            "",
            "OK\n",
            "Ran 4 tests in 0.001s\n",
            "Ran 4 tests in 0.001s\nOK\n",
            "Ran four tests in 0.001s\n\nOK\n",
            "Ran 4 tests in 0.001s\n\nOKAY\n",
            "Ran 4 tests in 0.001s\n\nOK (skipped=1\n",
            "Ran 4 tests in 0.001s\n\nOK (passed=4)\n",
            "Ran -4 tests in 0.001s\n\nOK\n",
            " Ran 4 tests in 0.001s\n\nOK\n",
        ] {
            assert_eq!(summary(text), [], "{text}");
        }
        let twice = "Ran 4 tests in 0.001s\n\nOK\nRan 4 tests in 0.001s\n\nFAILED (errors=1)\n";
        assert_eq!(summary(twice).len(), 2);
    }

    #[test]
    fn a_failure_is_the_exception_that_reached_the_test() {
        let rule = "=".repeat(70);
        let line = "-".repeat(70);
        let text = format!(
            "E\n{rule}\nERROR: test_a (test_m.T.test_a) (text='')\nA docstring.\n{line}\n\
             Traceback (most recent call last):\n  File \"/w/m.py\", line 3, in f\n    int(\"q\")\n\
             ValueError: invalid literal\n\nDuring handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"/w/test_m.py\", line 8, in test_a\n    f('')\n    ^^^^^\n\
             \x20 File \"/w/m.py\", line 5, in f\n    raise decimal.InvalidOperation(1)\ndecimal.InvalidOperation: [1]\n\n\
             {line}\nRan 1 test in 0.000s\n\nFAILED (errors=1)\n"
        );
        let report = Report::parse(&text);
        assert_eq!(report.summaries.len(), 1);
        assert_eq!(
            report.failures,
            [Failure {
                is_error: true,
                test: "test_a (text='')".to_owned(),
                is_import: false,
                frames: vec![
                    Frame {
                        file: "/w/test_m.py".to_owned(),
                        line: 8,
                        code: "f('')".to_owned()
                    },
                    Frame {
                        file: "/w/m.py".to_owned(),
                        line: 5,
                        code: "raise decimal.InvalidOperation(1)".to_owned(),
                    },
                ],
                exception: "decimal.InvalidOperation".to_owned(),
                message: "[1]".to_owned(),
            }]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(Ran|OK|FAIL|ERROR: |[ (),=\n0-9]|={70}\n|-{70}\n|  File \"|\", line |Traceback \\(most recent call last\\):\n){0,40}") {
            let report = Report::parse(&text);
            prop_assert!(report.summaries.len() <= text.lines().count());
        }

        #[test]
        fn a_summary_says_what_was_counted(ran: u32, failures in 0..9_u32, errors in 1..9_u32) {
            let text = format!("noise\nRan {ran} tests in 0.1s\n\nFAILED (failures={failures}, errors={errors})\n");
            let expected = Summary { ran, failures, errors, ..Summary::default() };
            prop_assert_eq!(expected.failed(), failures + errors);
            prop_assert_eq!(summary(&text), [expected]);
        }
    }
}
