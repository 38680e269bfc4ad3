//! Reads what `cargo test` writes: the reports of Rust's test harness on standard output, one for
//! each test program, and on standard error what cargo and the compiler say.
//!
//! The reports come from the processes in which the code under test ran, so they can be forged. They
//! are read as strictly as they are written, and never alone: the exit status has to agree.

use std::time::Duration;

use super::counted::{Counted, Judged, timed_out};
use super::report::Summary;
use crate::text::{one_line, printable, tail};
use crate::workspace::ExecReceipt;

/// The most failures that are shown, and the longest line of one.
const MOST_FAILURES: usize = 4;
const MOST_QUOTED: usize = 200;
/// The most of cargo's own words that are shown.
const MOST_SAID: usize = 300;
/// What cargo and the harness end with where tests failed or could not be compiled.
const FAILED: i32 = 101;

/// The reports of a run, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// A line each, in the order of the reports.
    failures: Vec<String>,
    /// What all of them add up to; nothing where there is none, or one is not whole.
    pub(super) total: Option<Summary>,
    /// How many tests did not run because they are ignored.
    ignored: u32,
    /// Whether a report says that tests failed.
    failed: bool,
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    ok: bool,
    passed: u32,
    failed: u32,
    ignored: u32,
    measured: u32,
}

impl Report {
    /// Reads what a run wrote to standard output. What is not a part of a report is passed over.
    pub(super) fn parse(stdout: &[u8]) -> Self {
        let text = printable(stdout);
        let mut report = Self::default();
        let mut total = Some(Summary {
            ok: true,
            ..Summary::default()
        });
        // How many tests the program has said that it runs, whose summary is to come.
        let mut begun = None;
        let mut programs = 0;
        let mut failures = Failures::default();
        for line in text.lines() {
            if let Some(count) = beginning(line) {
                if begun.replace(count).is_some() {
                    total = None;
                }
            } else if let Some(summary) = Line::parse(line) {
                programs += 1;
                report.failed |= !summary.ok && summary.failed > 0;
                report.ignored = report.ignored.saturating_add(summary.ignored);
                report.failures.append(&mut failures.take());
                let whole = begun.take().is_some_and(|all| summary.all() == Some(all));
                total = total
                    .filter(|_| whole)
                    .and_then(|total| summary.added_to(total));
            } else {
                failures.line(line);
            }
        }
        report.total = total.filter(|_| programs > 0 && begun.is_none());
        report
    }

    /// What the run comes to.
    pub(super) fn judge(
        &self,
        receipt: &ExecReceipt,
        tests: Option<u32>,
        limit: Duration,
    ) -> Judged {
        if receipt.timed_out {
            return Judged::Fail(timed_out(limit));
        }
        let stderr = printable(&receipt.stderr);
        match receipt.exit_code {
            Some(FAILED) if self.failed => return Judged::Failures,
            None | Some(0) => {}
            Some(code) => {
                let compiled = (code == FAILED).then(|| not_compiled(&stderr)).flatten();
                if let Some(told) = compiled.or_else(|| ended_early(&stderr)) {
                    return Judged::Fail(told);
                }
            }
        }
        let total = self.total.filter(|_| !receipt.stdout_truncated);
        if let (Some(0), Some(Summary { ran, ok: true, .. }), Some(tests)) =
            (receipt.exit_code, total, tests)
            && ran < tests
            && tests <= ran.saturating_add(self.ignored)
        {
            return Judged::Fail(format!(
                "- {ran} of {tests} tests ran, {} ignored; an ignored test is not a passed one",
                self.ignored
            ));
        }
        let counted = Counted {
            receipt,
            summaries: total.as_slice(),
            truncated: receipt.stdout_truncated,
            failing: &[FAILED],
            tests,
            limit,
        };
        match (counted.judge(), said(&stderr)) {
            (Judged::Invalid(why), Some(said)) if receipt.exit_code != Some(0) => {
                Judged::Invalid(format!("{why}: {said}"))
            }
            (judged, _) => judged,
        }
    }

    /// A line a failure for the model.
    pub(super) fn condensed(&self) -> String {
        match self.failures.is_empty() {
            true => "- the tests failed".to_owned(),
            false => listed(&self.failures),
        }
    }
}

/// Whether cargo can be asked for an integration test of this name.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// The number in `running 3 tests`.
fn beginning(line: &str) -> Option<u32> {
    let count = line.strip_prefix("running ")?;
    let count = count
        .strip_suffix(" tests")
        .or_else(|| count.strip_suffix(" test"))?;
    count.parse().ok()
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (ok, counts) = match line.strip_prefix("test result: ")?.split_once(". ")? {
            ("ok", counts) => (true, counts),
            ("FAILED", counts) => (false, counts),
            _ => return None,
        };
        let mut parts = counts.split("; ");
        let mut count =
            |what: &str| -> Option<u32> { parts.next()?.strip_suffix(what)?.parse().ok() };
        let summary = Self {
            ok,
            passed: count(" passed")?,
            failed: count(" failed")?,
            ignored: count(" ignored")?,
            measured: count(" measured")?,
        };
        let _others: u32 = count(" filtered out")?;
        let took = parts.next()?.strip_prefix("finished in ")?;
        took.strip_suffix('s')?.parse::<f64>().ok()?;
        parts.next().is_none().then_some(summary)
    }

    /// How many tests the program has been about: what is filtered out does not count there.
    fn all(self) -> Option<u32> {
        self.ran()?.checked_add(self.ignored)
    }

    fn ran(self) -> Option<u32> {
        let ran = self.passed.checked_add(self.failed)?;
        ran.checked_add(self.measured)
    }

    fn added_to(self, total: Summary) -> Option<Summary> {
        Some(Summary {
            ran: total.ran.checked_add(self.ran()?)?,
            ok: total.ok && self.ok,
            failures: total.failures.checked_add(self.failed)?,
            ..total
        })
    }
}

/// What one report says of its failures: their outputs, and then the list of their names.
#[derive(Default)]
struct Failures<'a> {
    /// The outputs with the names of their tests.
    outputs: Vec<(&'a str, Vec<&'a str>)>,
    names: Vec<&'a str>,
    in_list: bool,
}

impl<'a> Failures<'a> {
    fn line(&mut self, line: &'a str) {
        let output = line.strip_prefix("---- ");
        if let Some(name) = output.and_then(|name| name.strip_suffix(" stdout ----")) {
            self.outputs.push((name, Vec::new()));
            self.in_list = false;
        } else if line == "failures:" {
            self.in_list = true;
            self.names.clear();
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| self.in_list) {
            self.names.push(name);
        } else {
            self.in_list &= line.is_empty() && self.names.is_empty();
            if let Some((_, lines)) = self.outputs.last_mut() {
                lines.push(line);
            }
        }
    }

    /// A line for each, and a fresh start for the next program.
    fn take(&mut self) -> Vec<String> {
        let Self { outputs, names, .. } = std::mem::take(self);
        let told = names.into_iter().map(|name| {
            let output = outputs.iter().find(|(of, _)| *of == name);
            match output.and_then(|(_, lines)| message(lines)) {
                Some(message) => format!("{name}: {message}"),
                None => name.to_owned(),
            }
        });
        told.collect()
    }
}

/// What an output says went wrong: what a test that should panic has not done, a panic, or what a
/// test has returned; a doc test has errors of the compiler; else its first words.
fn message(lines: &[&str]) -> Option<String> {
    let from = |begins: fn(&str) -> bool| {
        let at = lines.iter().position(|line| begins(line))?;
        lines.get(at..)
    };
    if let Some(said) = from(is_note) {
        let said = paragraph(said);
        return said.strip_prefix("note: ").map(ToOwned::to_owned);
    }
    if let Some((first, rest)) = from(is_panic).and_then(<[_]>::split_first)
        && let Some((_, place)) = first.split_once(" panicked at ")
    {
        let ends = |line: &&&str| {
            line.starts_with("note: run with ") || **line == "stack backtrace:" || is_panic(line)
        };
        let said = rest.iter().take_while(|line| !ends(line));
        let said = said.map(|line| line.trim()).filter(|line| !line.is_empty());
        let said = said.collect::<Vec<_>>().join(", ");
        let place = place.trim_end_matches(':');
        // A doc test is in a file of its own, which is another one each time.
        return Some(match (said.is_empty(), place.starts_with('/')) {
            (true, _) => place.to_owned(),
            (false, true) => said,
            (false, false) => format!("{said} ({place})"),
        });
    }
    if let Some((error, rest)) = from(is_error).and_then(<[_]>::split_first) {
        return Some(compile_error(error, rest));
    }
    from(|line| !line.trim().is_empty()).map(paragraph)
}

/// What the harness says of a test that should have panicked, or otherwise.
fn is_note(line: &str) -> bool {
    let note = line.strip_prefix("note: ").unwrap_or_default();
    note.starts_with("test did not panic") || note.starts_with("panic did not contain")
}

fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

/// The lines up to an empty one, as one.
fn paragraph(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| line.trim());
    let said = lines.take_while(|line| !line.is_empty());
    said.collect::<Vec<_>>().join(", ")
}

/// What the compiler says, where cargo says that what it has given up is because of that.
fn not_compiled(stderr: &str) -> Option<String> {
    let given_up =
        |line: &str| line.starts_with("error: could not compile `") && line.contains(" due to ");
    if !stderr.lines().any(given_up) {
        return None;
    }
    let lines: Vec<&str> = stderr.lines().collect();
    let mut errors: Vec<String> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !is_error(line) || given_up(line) || line.starts_with("error: aborting due to ") {
            continue;
        }
        // The machine has no linker: the code has nothing to do with that.
        if line.starts_with("error: linker `") && line.ends_with("` not found") {
            return None;
        }
        let error = compile_error(line, lines.get(at + 1..).unwrap_or_default());
        // A library and its tests are compiled one beside the other.
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    Some(match errors.is_empty() {
        true => format!(
            "- it does not compile: {}",
            one_line(tail(stderr, MOST_SAID), MOST_SAID)
        ),
        false => format!("- it does not compile:\n{}", listed(&errors)),
    })
}

fn is_error(line: &str) -> bool {
    line.starts_with("error: ") || line.starts_with("error[")
}

/// One line: `error[E0308]: mismatched types --> src/lib.rs:4:25: expected u8, found u16`.
fn compile_error(error: &str, rest: &[&str]) -> String {
    let mut told = error.to_owned();
    let below = rest.iter().take_while(|line| !line.trim().is_empty());
    let mut place = false;
    for line in below {
        match line.trim_start().strip_prefix("--> ") {
            Some(at) if !place => {
                place = true;
                told = format!("{told} --> {at}");
            }
            // What stands behind the marks is what is wrong at this place.
            None if line.trim_start().starts_with('|') && line.contains('^') => {
                let label = line.rsplit('^').next().unwrap_or_default();
                let label = label.trim_matches(['-', ' ']);
                if !label.is_empty() {
                    told = format!("{told}: {label}");
                }
                break;
            }
            _ => {}
        }
    }
    told
}

/// What cargo says of a test program that ended without a report: by a signal, or with a status
/// that the harness does not end with. Who sends SIGKILL is nobody in it.
fn ended_early(stderr: &str) -> Option<String> {
    let mut lines = stderr.lines();
    let program = lines.find_map(|line| line.strip_prefix("error: test failed, to rerun pass "))?;
    let ended = lines.find_map(|line| {
        line.trim()
            .strip_prefix("process didn't exit successfully: ")
    })?;
    let (_, how) = ended.rsplit_once("` (")?;
    if how.starts_with("signal: 9,") {
        return None;
    }
    let how = how.trim_end_matches(')');
    let overflow = stderr
        .lines()
        .find(|line| line.contains(" has overflowed its stack"));
    let overflow = overflow.map_or_else(String::new, |line| format!("; {}", line.trim()));
    let told = format!("- the test program of {program} ended early: {how}{overflow}");
    Some(one_line(&told, MOST_SAID))
}

/// What cargo says it is that stops it.
fn said(stderr: &str) -> Option<String> {
    let at = stderr.lines().position(|line| line.starts_with("error"))?;
    let said: Vec<&str> = stderr.lines().skip(at).collect();
    Some(one_line(&said.join(" "), MOST_SAID))
}

/// The first of them, a line each, and how many more there are.
fn listed(lines: &[String]) -> String {
    let shown = lines.iter().take(MOST_FAILURES);
    let mut shown: Vec<String> = shown
        .map(|line| one_line(&format!("- {line}"), MOST_QUOTED))
        .collect();
    if lines.len() > MOST_FAILURES {
        shown.push(format!("- and {} more", lines.len() - MOST_FAILURES));
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests;
