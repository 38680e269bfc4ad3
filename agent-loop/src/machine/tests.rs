//! Attempts in memory, from the first question to the outcome.

mod asking;
mod hidden;
mod limits;
mod rules;
mod secrets;
mod trouble;

use crate::Attempt;
use crate::journal::MemoryJournal;
use crate::outcome::{End, Limit, Outcome};
use crate::test_kit::JumpingClock;

/// Drives an attempt, and gives what is needed to look at it.
async fn drive(attempt: Attempt) -> (Outcome, MemoryJournal) {
    let journal = MemoryJournal::new();
    let attempt = attempt
        .clock(JumpingClock::default())
        .journal(journal.clone());
    (attempt.drive().await.unwrap(), journal)
}

fn exhausted(limit: Limit) -> End {
    End::Exhausted { limit }
}
