//! A run as lines for people.

use std::fmt::Write as _;
use std::path::Path;

use agent_loop::journal::{Answer, CorruptJournal, Event, Intended, ReadJournal, Record};
use agent_loop::journal::{Ended, Started};

/// The longest text that is shown of a turn, in characters.
const LONGEST: usize = 100;

/// What has happened, a line a turn.
pub(super) fn timeline(folder: &Path) -> Result<String, CorruptJournal> {
    let journal = ReadJournal::read(folder)?;
    let mut out = String::new();
    let begin = journal.known().next().map(|record| record.at);
    for record in journal.known() {
        let after = begin.map_or(0.0, |begin| record.at.duration_since(begin).as_secs_f64());
        line(record, after, &mut out);
    }
    if let Some(torn) = journal.torn_tail {
        put(
            &mut out,
            format_args!("{} bytes at the end are no record", torn.len),
        );
    }
    match journal.known().last().map(|record| &record.event) {
        None => put(&mut out, format_args!("nothing was recorded")),
        Some(Event::Ended(_) | Event::Stopped(_)) => {}
        Some(event) => put(
            &mut out,
            format_args!("not over: the last record is {}", event.kind()),
        ),
    }
    out.truncate(out.trim_end().len());
    Ok(out)
}

fn line(record: &Record, after: f64, out: &mut String) {
    match &record.event {
        Event::Started(started) => begin(started, out),
        Event::Turn(turn) => {
            let action = turn.action.as_deref().unwrap_or("no action");
            put(
                out,
                format_args!(
                    "{after:8.1} s  turn {:<3} {:<24} {:<14} {}",
                    turn.turn,
                    short(action, 40),
                    turn.result.as_str(),
                    short(&turn.said, LONGEST)
                ),
            );
        }
        Event::Replied(replied) => {
            if let agent_loop::journal::ReplyRecord::Failed(error) = &replied.reply {
                put(
                    out,
                    format_args!("{after:8.1} s  turn {:<3} {error}", replied.turn),
                );
            }
        }
        Event::Approval(approval) => {
            let answer = match approval.granted {
                true => "allowed",
                false => "not allowed",
            };
            put(
                out,
                format_args!(
                    "{after:8.1} s  turn {:<3} a person was asked: {}: {answer}",
                    approval.turn,
                    short(&approval.question, LONGEST)
                ),
            );
        }
        Event::Resumed(resumed) => put(
            out,
            format_args!(
                "{after:8.1} s  resumed; {} bytes were cut off",
                resumed.torn_bytes
            ),
        ),
        Event::Placing(placing) => put(
            out,
            format_args!(
                "{after:8.1} s  request {}: a fresh place is asked for",
                placing.id
            ),
        ),
        Event::Placed(placed) => put(
            out,
            format_args!(
                "{after:8.1} s  request {}: fresh place, {}",
                placed.id,
                short(&placed.place(), LONGEST)
            ),
        ),
        Event::Left(left) => put(
            out,
            format_args!(
                "{after:8.1} s  request {}: stop of the fresh place: {}",
                left.id, left.stop
            ),
        ),
        Event::Receipt(receipt) => {
            if let Answer::Failed(error) = &receipt.answer {
                put(
                    out,
                    format_args!("{after:8.1} s  request {}: {error}", receipt.id),
                );
            }
        }
        Event::Intent(intent) if matches!(intent.effect, Intended::Open { .. }) => {
            put(out, format_args!("{after:8.1} s  takes over the workspace"));
        }
        Event::Ended(ended) => end(ended, after, out),
        Event::Stopped(stopped) => put(
            out,
            format_args!("{after:8.1} s  stop of the workspace: {}", stopped.stop),
        ),
        _ => {}
    }
}

fn begin(started: &Started, out: &mut String) {
    let checks: Vec<&str> = started.checks.keys().map(String::as_str).collect();
    put(
        out,
        format_args!(
            "task {}, attempt {}: model {}, at most {} turns, checks {}",
            started.task.id,
            started.task.attempt,
            short(&started.revisions.model.name, LONGEST),
            started.budget.turns,
            short(&checks.join(", "), LONGEST)
        ),
    );
}

fn end(ended: &Ended, after: f64, out: &mut String) {
    let level = ended.acceptance.level;
    let level = level.map_or(String::new(), |level| format!(" at level {level}"));
    put(
        out,
        format_args!(
            "{after:8.1} s  {}{level}: {}",
            ended.acceptance.state.as_str(),
            short(&ended.end.to_string(), LONGEST)
        ),
    );
    put(
        out,
        format_args!(
            "{:10}  tree {}, patch {}, stop of the workspace: {}",
            "", ended.tree, ended.patch_sha256, ended.stop
        ),
    );
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{line}");
}

/// A text from a model in one line, with nothing in it that a terminal obeys.
fn short(text: &str, most: usize) -> String {
    let harmless = text.chars().map(|c| match c.is_control() {
        true => ' ',
        false => c,
    });
    let mut short: String = harmless.take(most).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}
