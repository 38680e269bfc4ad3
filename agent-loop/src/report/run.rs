//! The folder of an attempt that is over, read back and laid side by side.

use std::fs;
use std::io;
use std::path::Path;

use crate::digest::Digest;
use crate::evidence::{JOURNAL, OUTCOME, PATCH};
use crate::journal::{CorruptJournal, Ended, Event, ReadJournal, Record, Started};
use crate::outcome::Outcome;

/// What an attempt has left, of which every part agrees with the others.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) records: Vec<Record>,
    pub(crate) started: Box<Started>,
    pub(crate) outcome: Outcome,
}

/// Why the folder of an attempt shows nothing that could be relied on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunProblem {
    /// The attempt is not over, or was broken off.
    #[error("the attempt has no end: {after} records, and the last one is {last:?}")]
    #[non_exhaustive]
    NoEnd {
        /// How many records there are.
        after: usize,
        /// The kind of the last one.
        last: String,
    },
    /// The attempt is over, and its program was ended before all files were written. They follow from
    /// the journal: [`Attempt::resume`](crate::Attempt::resume) writes them, and so does an evaluation
    /// that is run again.
    #[error("the attempt is over, and {name} is missing")]
    #[non_exhaustive]
    Missing {
        /// The file.
        name: &'static str,
    },
    /// Nothing was recorded.
    #[error("nothing is recorded")]
    Nothing,
    /// The journal is damaged.
    #[error("the journal cannot be trusted")]
    Journal(#[source] CorruptJournal),
    /// A file cannot be read or written.
    #[error("{name} cannot be read or written")]
    #[non_exhaustive]
    Unreadable {
        /// Which.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Two parts of the evidence do not agree.
    #[error("{name} does not belong to the journal: {problem}")]
    #[non_exhaustive]
    Disagrees {
        /// The file.
        name: &'static str,
        /// What is different.
        problem: String,
    },
}

/// What is in a folder, also where the attempt is not over.
#[derive(Debug)]
pub(crate) struct Records(pub(crate) Vec<Record>);

impl Records {
    /// Reads the journal in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<(Self, Option<Digest>), RunProblem> {
        let journal = match ReadJournal::read(folder) {
            Ok(journal) => journal,
            Err(CorruptJournal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RunProblem::Nothing);
            }
            Err(error) => return Err(RunProblem::Journal(error)),
        };
        let chain_head = journal.chain_head;
        let records = journal.into_known();
        match records.is_empty() {
            true => Err(RunProblem::Nothing),
            false => Ok((Self(records), chain_head)),
        }
    }
}

impl Run {
    /// Reads `folder`: the journal with its end, the outcome and the patch.
    ///
    /// # Errors
    /// Where a part is missing, damaged, or of another attempt than the journal.
    pub(crate) fn read(folder: &Path) -> Result<Self, RunProblem> {
        let (Records(records), chain_head) = Records::read(folder)?;
        let started = match records.first().map(|record| &record.event) {
            Some(Event::Started(started)) => started.clone(),
            _ => {
                return Err(RunProblem::Disagrees {
                    name: JOURNAL,
                    problem: "it does not begin with the start".to_owned(),
                });
            }
        };
        // The end of the workspace can be asked for again, after the end of the attempt.
        let mut ends = records.iter().rev().map(|record| &record.event);
        let ended = match ends.find(|event| !matches!(event, Event::Stopped(_))) {
            Some(Event::Ended(ended)) => ended.clone(),
            last => {
                return Err(RunProblem::NoEnd {
                    after: records.len(),
                    last: last.map_or("none", Event::kind).to_owned(),
                });
            }
        };
        let unreadable = |name| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::NotFound => RunProblem::Missing { name },
                _ => RunProblem::Unreadable { name, source },
            }
        };
        let read = |name| fs::read(folder.join(name)).map_err(unreadable(name));
        let mut outcome: Outcome = serde_json::from_slice(&read(OUTCOME)?)
            .map_err(|error| unreadable(OUTCOME)(error.into()))?;
        outcome.patch = read(PATCH)?;
        disagreement(&started, &ended, &outcome, chain_head)?;
        Ok(Self {
            records,
            started,
            outcome,
        })
    }
}

/// A patch of one attempt beside the outcome of another is the fault that this is for.
fn disagreement(
    started: &Started,
    ended: &Ended,
    outcome: &Outcome,
    chain_head: Option<Digest>,
) -> Result<(), RunProblem> {
    let wrong = |name, problem: String| Err(RunProblem::Disagrees { name, problem });
    if outcome.task != started.task {
        let (a, b) = (&outcome.task, &started.task);
        let problem = format!(
            "it is of {} {}, not {} {}",
            a.id, a.attempt, b.id, b.attempt
        );
        return wrong(OUTCOME, problem);
    }
    let patch = Digest::of(&outcome.patch);
    if patch != outcome.patch_sha256 {
        let problem = format!(
            "its digest is {}, and the outcome says {}",
            patch.short(),
            outcome.patch_sha256.short()
        );
        return wrong(PATCH, problem);
    }
    let parts = [
        ("the revisions", outcome.revisions == started.revisions),
        ("the end", outcome.end == ended.end),
        ("the acceptance", outcome.acceptance == ended.acceptance),
        ("the turns", outcome.turns == ended.turns),
        ("the patch", outcome.patch_sha256 == ended.patch_sha256),
        ("the head of the chain", outcome.chain_head == chain_head),
    ];
    match parts.iter().find(|(_, agrees)| !agrees) {
        Some((part, _)) => wrong(OUTCOME, format!("{part} is another one")),
        None => Ok(()),
    }
}
