//! Exit status and counted results together. Either alone proves nothing: the code under test can
//! end the process with zero, and can print a report.

use std::time::Duration;

use super::report::Summary;
use crate::text::{one_line, printable, tail};
use crate::workspace::ExecReceipt;

/// A run of tests that counts.
pub(super) struct Counted<'a> {
    pub(super) receipt: &'a ExecReceipt,
    /// The summaries that were found. An honest report has exactly one.
    pub(super) summaries: &'a [Summary],
    /// Whether the output that holds the summary is not whole.
    pub(super) truncated: bool,
    /// The exit codes of a run in which tests failed.
    pub(super) failing: &'a [i32],
    /// How many tests should run.
    pub(super) tests: Option<u32>,
    pub(super) limit: Duration,
}

/// What a run of tests comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Pass {
        tests: u32,
    },
    /// A failure of which the report tells.
    Failures,
    /// A failure of which the report does not tell.
    Fail(String),
    Invalid(String),
}

impl Counted<'_> {
    pub(super) fn judge(&self) -> Judged {
        if self.receipt.timed_out {
            return Judged::Fail(timed_out(self.limit));
        }
        let summary = match self.summaries {
            [summary] => summary,
            [] => return Judged::Invalid(self.without_a_summary()),
            _ => return Judged::Invalid("the output holds more than one summary".to_owned()),
        };
        let Summary {
            ran, ok, skipped, ..
        } = *summary;
        let failed = summary.failed();
        match (self.receipt.exit_code, ok, failed) {
            (Some(0), true, 0) => {}
            (Some(code), false, 1..) if self.failing.contains(&code) => return Judged::Failures,
            (Some(5), false, 0) if ran == 0 => return Judged::Invalid("no test ran".to_owned()),
            _ => {
                let word = if ok { "OK" } else { "FAILED" };
                let ending = self.receipt.ending();
                return Judged::Invalid(format!(
                    "the tests ended with {ending}, and their report says {word} with {failed} failed"
                ));
            }
        }
        if skipped > 0 {
            return Judged::Fail(format!(
                "- {skipped} of {ran} tests were skipped; a skipped test is not a passed one"
            ));
        }
        match (self.tests, summary.expected_failures) {
            _ if ran == 0 => Judged::Invalid("no test ran".to_owned()),
            (_, expected @ 1..) => Judged::Invalid(format!("{expected} failures were expected")),
            (Some(tests), _) if tests != ran => {
                Judged::Invalid(format!("{ran} tests ran, and {tests} should have"))
            }
            _ => Judged::Pass { tests: ran },
        }
    }

    fn without_a_summary(&self) -> String {
        if let Some(why) = not_started(self.receipt) {
            return why;
        }
        match self.truncated {
            true => "the output was cut before the summary of the tests".to_owned(),
            false => {
                let ending = self.receipt.ending();
                format!("the tests ended with {ending} and without a summary")
            }
        }
    }
}

/// What the model is told about a command that did not end in time.
pub(super) fn timed_out(limit: Duration) -> String {
    format!("- the tests did not end within {} s", limit.as_secs_f64())
}

/// Why the command was not even started, where that is what its exit code says.
pub(super) fn not_started(receipt: &ExecReceipt) -> Option<String> {
    matches!(receipt.exit_code, Some(126 | 127)).then(|| {
        let said = one_line(tail(&printable(&receipt.stderr), 200), 200);
        format!("the test command could not be started: {said}")
    })
}
