//! Reads what `pytest -q` writes at the end of a run.
//!
//! The text comes from the process in which the code under test ran, so it can be forged. It is
//! read as strictly as it is written, and never alone: the exit status has to agree.

use super::report::Summary;
use crate::text::one_line;

/// The most failures that are shown, and the longest line of one.
const MOST_FAILURES: usize = 4;
const MOST_QUOTED: usize = 200;

/// A report of `pytest`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// A line each, in the order of the report: `test_a.py::test_two - assert 0 == 3`.
    failures: Vec<String>,
    /// What a module that could not be imported says.
    import_errors: Vec<String>,
    /// The summaries that were found. An honest report has exactly one, its last line.
    pub(super) summaries: Vec<Summary>,
}

impl Report {
    /// Reads a report. What is not a part of one is passed over.
    pub(super) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let mut in_list = false;
        let mut said = None;
        for line in text.lines() {
            if let Some(summary) = summary(line) {
                report.summaries.push(summary);
            } else if line.contains("= short test summary info =") {
                in_list = true;
            } else if let Some(failure) = line.strip_prefix("FAILED ").filter(|_| in_list) {
                report.failures.push(failure.to_owned());
            } else if let Some(failure) = line.strip_prefix("ERROR ").filter(|_| in_list) {
                report.failures.push(failure.to_owned());
            } else if let Some(error) = line.strip_prefix("E   ") {
                said = Some(error.trim().to_owned());
            } else if line.starts_with("____") {
                report.import_errors.extend(said.take());
            }
        }
        report.import_errors.extend(said);
        report
    }

    /// A line a failure for the model.
    pub(super) fn condensed(&self) -> String {
        let failures = self.failures.iter().map(|line| {
            // A module that could not be imported has no message of its own in the list.
            let error = self.import_errors.last();
            match error.filter(|_| !line.contains(" - ") && !line.contains("::")) {
                Some(error) => format!("- {line} cannot be imported: {error}"),
                None => format!("- {line}"),
            }
        });
        let mut lines: Vec<String> = failures
            .take(MOST_FAILURES)
            .map(|line| one_line(&line, MOST_QUOTED))
            .collect();
        match self.failures.len() {
            0 => lines.push("- the tests failed".to_owned()),
            count if count > MOST_FAILURES => {
                lines.push(format!("- and {} more", count - MOST_FAILURES));
            }
            _ => {}
        }
        lines.join("\n")
    }
}

/// `1 failed, 2 passed, 1 warning in 0.06s`, with or without a rule around it.
fn summary(line: &str) -> Option<Summary> {
    let line = line.trim_matches('=').trim();
    let (counts, took) = line.rsplit_once(" in ")?;
    let seconds = took.split_once(" (").map_or(took, |(seconds, _)| seconds);
    seconds.strip_suffix('s')?.parse::<f64>().ok()?;
    let mut summary = Summary::default();
    if counts == "no tests ran" {
        return Some(summary);
    }
    let (mut passed, mut warnings) = (0, 0);
    for count in counts.split(", ") {
        let (number, what) = count.split_once(' ')?;
        let field = match what {
            "passed" => &mut passed,
            "failed" => &mut summary.failures,
            "error" | "errors" => &mut summary.errors,
            "skipped" => &mut summary.skipped,
            // A test that was taken out of the run was not run: as if it were skipped.
            "deselected" => &mut summary.skipped,
            "xfailed" => &mut summary.expected_failures,
            "xpassed" => &mut summary.unexpected_successes,
            "warning" | "warnings" => &mut warnings,
            _ => return None,
        };
        let number: u32 = number.parse().ok()?;
        *field = field.checked_add(number)?;
    }
    let parts = [
        passed,
        summary.failures,
        summary.errors,
        summary.skipped,
        summary.expected_failures,
        summary.unexpected_successes,
    ];
    summary.ran = parts.into_iter().fold(0, u32::saturating_add);
    summary.ok = summary.failures == 0 && summary.errors == 0;
    Some(summary)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ran: u32, ok: bool) -> Summary {
        Summary {
            ran,
            ok,
            ..Summary::default()
        }
    }

    #[test]
    fn a_summary_is_read_in_all_its_forms() {
        let table = [
            ("3 passed in 0.05s", of(3, true)),
            ("======= 3 passed in 61.05s (0:01:01) =======", of(3, true)),
            (
                "2 failed, 1 passed, 3 warnings in 0.06s",
                Summary {
                    failures: 2,
                    ..of(3, false)
                },
            ),
            (
                "1 error in 0.40s",
                Summary {
                    errors: 1,
                    ..of(1, false)
                },
            ),
            (
                "1 passed, 1 skipped, 2 deselected, 1 xfailed, 1 xpassed in 1.00s",
                Summary {
                    skipped: 3,
                    expected_failures: 1,
                    unexpected_successes: 1,
                    ..of(6, true)
                },
            ),
            ("no tests ran in 0.03s", of(0, false)),
        ];
        for (line, expected) in table {
            assert_eq!(summary(line), Some(expected), "{line}");
        }
        for line in [
            "",
            "3 passed",
            "3 passed in time",
            "3 passed in 0.05",
            "three passed in 0.05s",
            "3 won in 0.05s",
            "-3 passed in 0.05s",
            "it has passed in 0.05s",
            "99999999999 passed in 0.05s",
        ] {
            assert_eq!(summary(line), None, "{line}");
        }
    }

    /// As pytest 9 wrote it, with its rules cut short.
    const FAILED: &str = "F.F                     [100%]\n=== FAILURES ===\n____ test_two ____\n\n\
        >   def test_two(): assert amounts.total([1,2]) == 3\nE   assert 0 == 3\n\
        E    +  where 0 = <function total at 0x7fa2>([1, 2])\n\ntest_a.py:2: AssertionError\n\
        ==== short test summary info ====\nFAILED test_a.py::test_two - assert 0 == 3\n\
        FAILED test_a.py::T::test_u - AssertionError: 0 != 2\n2 failed, 1 passed in 0.06s\n";
    const NOT_IMPORTED: &str = "==== ERRORS ====\n____ ERROR collecting test_a.py ____\n\
        test_a.py:1: in <module>\n    import amounts, unittest\nE     File \"/x/amounts.py\", line 1\n\
        E       def total(xs) return\nE                     ^^^^^^\nE   SyntaxError: expected ':'\n\
        ==== short test summary info ====\nERROR test_a.py\n\
        !!!! Interrupted: 1 error during collection !!!!\n1 error in 0.40s\n";

    #[test]
    fn a_failure_is_a_line_for_the_model() {
        let report = Report::parse(FAILED);
        assert_eq!(report.summaries.len(), 1);
        assert_eq!(
            report.condensed(),
            "- test_a.py::test_two - assert 0 == 3\n- test_a.py::T::test_u - AssertionError: 0 != 2"
        );
        let report = Report::parse(NOT_IMPORTED);
        assert_eq!(report.summaries[0].errors, 1);
        assert_eq!(
            report.condensed(),
            "- test_a.py cannot be imported: SyntaxError: expected ':'"
        );
    }

    #[test]
    fn a_line_outside_of_the_list_is_no_failure() {
        let report = Report::parse("FAILED test_a.py::forged - no\n1 failed in 0.1s\n");
        assert_eq!(report.condensed(), "- the tests failed");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(FAILED |ERROR |E   |=+ short test summary info =+\n|[0-9]{1,12} (passed|failed)(, )?| in [0-9.]{1,5}s\n|[a-z:\n ])*") {
            let report = Report::parse(&text);
            prop_assert!(report.summaries.len() <= text.lines().count());
            prop_assert!(report.condensed().lines().count() <= MOST_FAILURES + 1);
        }
    }
}
