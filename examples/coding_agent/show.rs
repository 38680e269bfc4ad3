//! A line a turn.

use agent_loop::journal::{Event, TurnResult};
use agent_loop::{Observer, Outcome, Record};

/// Prints each turn when it is over.
pub(crate) struct Turns;

impl Observer for Turns {
    fn on(&self, record: &Record) {
        let Event::Turn(turn) = &record.event else {
            return;
        };
        let action = turn.action.as_deref().unwrap_or("(no action)");
        let result = turn.result.as_str();
        let said = match turn.result {
            TurnResult::Done => String::new(),
            _ => first_line(&turn.said),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        println!(
            "turn {:>2}  {action:<34} {result}{colon}{said}  [{:.1?}]",
            turn.turn, turn.took
        );
    }
}

fn first_line(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let short: String = line.trim().chars().take(90).collect();
    if short.len() < line.trim().len() {
        format!("{short}…")
    } else {
        short
    }
}

/// The end in a few lines.
pub(crate) fn outcome(outcome: &Outcome) {
    let state = outcome.acceptance.state.as_str();
    match (&outcome.acceptance.level, &outcome.acceptance.tree) {
        (Some(level), Some(tree)) => println!("{state} at level {level}, files {tree}"),
        _ => println!("{state}: {}", outcome.end),
    }
    let latency = &outcome.latency;
    println!(
        "{} turns, {} checks; model {:.1?}, checks {:.1?}, files {:.1?}, loop {:.1?}",
        outcome.turns,
        outcome.checks.len(),
        latency.model,
        latency.check,
        latency.files,
        latency.own
    );
    println!("cost: {}", outcome.cost);
    for problem in &outcome.evidence_errors {
        println!("evidence: {problem}");
    }
}
