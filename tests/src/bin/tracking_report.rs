//! Makes the recorded runs of the Python tracking module again and says what is the same.
//!
//! `tracking_report [-v] [CASE]`: `-v` shows every difference.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

use polyaxon_tests::recorded::{Why, cases, replay};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    if let [word, name, process] = &arguments[..]
        && word == "replay"
    {
        let cases = cases();
        let case = cases.iter().find(|case| case.case == *name);
        let notes = replay(case.ok_or("no such case")?, process.parse()?).await;
        writeln!(out, "{}", serde_json::to_string(&notes)?)?;
        return Ok(());
    }
    let is_verbose = arguments.iter().any(|argument| argument == "-v");
    let only = arguments.iter().find(|argument| *argument != "-v");
    let program = std::env::current_exe()?;
    let (mut files, mut requests, mut repeats, mut unknown) = ((0, 0), (0, 0), 0, 0);
    let mut reasons: BTreeMap<Why, usize> = BTreeMap::new();
    for case in cases() {
        if only.is_some_and(|only| *only != case.case) {
            continue;
        }
        let outcome = case.run(&program).await;
        files = (files.0 + outcome.files.0, files.1 + outcome.files.1);
        requests = (
            requests.0 + outcome.requests.0,
            requests.1 + outcome.requests.1,
        );
        repeats += outcome.repeats;
        unknown += outcome.unknown.len();
        writeln!(
            out,
            "{}: files {} of {}, requests {} of {}",
            outcome.case, outcome.files.0, outcome.files.1, outcome.requests.0, outcome.requests.1
        )?;
        for note in &outcome.notes {
            writeln!(out, "    {}: {}", note.call, note.why)?;
        }
        let mut of_case: BTreeMap<Why, Vec<&str>> = BTreeMap::new();
        for (what, why) in &outcome.known {
            of_case.entry(*why).or_default().push(what);
        }
        for (why, whats) in of_case {
            *reasons.entry(why).or_default() += whats.len();
            writeln!(out, "    {} different: {why}", whats.len())?;
            for what in whats.iter().filter(|_| is_verbose) {
                writeln!(out, "        {what}")?;
            }
        }
        for what in &outcome.unknown {
            writeln!(out, "    NOT EXPLAINED: {what}")?;
        }
    }
    writeln!(
        out,
        "run-lifecycle: not made here: calls of the runs API, which are no tracking"
    )?;
    writeln!(out, "differences, all cases together:")?;
    for (why, count) in &reasons {
        writeln!(out, "{count:6}  {why}")?;
    }
    writeln!(
        out,
        "files identical {} of {}, requests matched {} of {} ({repeats} more are Python's repeats of \
         its own), {unknown} differences not explained",
        files.0, files.1, requests.0, requests.1
    )?;
    Ok(())
}
