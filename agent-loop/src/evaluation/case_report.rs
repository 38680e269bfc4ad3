//! What came of one case.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::suite::Case;
use crate::acceptance::Level;
use crate::digest::{Digest, TreeHash};
use crate::journal::{Answer, Event, Record, ReplyRecord};
use crate::outcome::{
    AcceptanceState, CheckOutcome, CostTotal, Latency, Outcome, Revisions, UsageTotal,
};
use crate::private::Private;
use crate::report::Run;
use crate::serde_as::millis;

/// What is decided about a case. All but the last are results of the candidate, and only the first is
/// a pass.
///
/// Checks that give no verdict count against the candidate: they ran on its files, which can end the
/// process with 0 or leave something behind, and nobody can tell whose fault it was. Were such a case
/// left out of the rate, a candidate would gain by hiding what it cannot solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the four cases are complete")]
pub enum Decision {
    /// The change is accepted.
    Pass,
    /// It is not.
    Fail,
    /// The checks gave no verdict. Evaluated, and not passed.
    Invalid,
    /// Something else than the candidate went wrong, or the case has not run.
    NotEvaluated,
}

impl Decision {
    /// The word in a report.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
            Self::NotEvaluated => "not evaluated",
        }
    }

    /// Whether it counts in the rates of the candidate: all but [`NotEvaluated`](Self::NotEvaluated).
    ///
    /// # Examples
    /// ```
    /// use agent_loop::evaluation::Decision;
    ///
    /// assert!(Decision::Invalid.is_evaluated());
    /// assert!(!Decision::NotEvaluated.is_evaluated());
    /// ```
    #[must_use]
    pub fn is_evaluated(self) -> bool {
        self != Self::NotEvaluated
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<AcceptanceState> for Decision {
    fn from(state: AcceptanceState) -> Self {
        match state {
            AcceptanceState::Accepted => Self::Pass,
            AcceptanceState::NotAccepted => Self::Fail,
            AcceptanceState::Invalid => Self::Invalid,
            AcceptanceState::NotEvaluated => Self::NotEvaluated,
        }
    }
}

/// What came of one case with one candidate. Written as `case.json` beside the evidence it is made
/// from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// The candidate.
    pub candidate: String,
    /// The case.
    pub case: String,
    /// Which try it was.
    pub attempt: u32,
    /// How often the try went on in another program, after the one before was ended.
    #[serde(default)]
    pub resumed: u32,
    /// Why a try that was broken off did not go on. Its evidence does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_resumed: Option<String>,
    /// Where the evidence is, below the folder of the evaluation.
    pub folder: String,
    /// The digest of the whole suite.
    pub case_set_revision: Digest,
    /// The digest of the case.
    pub case_revision: Digest,
    /// What was expected, in the words of the case.
    pub expected: String,
    /// What was seen.
    pub observed: String,
    /// More for the operator, where there was no place to work in.
    pub detail: Option<Private>,
    /// The digest of the evaluator with all its plans, where the case has run.
    pub evaluator: Option<Digest>,
    /// What is decided.
    pub decision: Decision,
    /// How much a pass is worth.
    pub level: Option<Level>,
    /// The digest of the files that passed.
    pub tree: Option<TreeHash>,
    /// The digest of the patch.
    pub patch_sha256: Option<Digest>,
    /// The digest of the journal's last line.
    pub chain_head: Option<Digest>,
    /// What the attempt was made with.
    pub revisions: Option<Revisions>,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of the model.
    pub calls: u32,
    /// The checks.
    pub checks: Vec<CheckOutcome>,
    /// The commands of the checks.
    pub commands: Commands,
    /// Tokens of this try.
    pub usage: UsageTotal,
    /// Money of this try.
    pub cost: CostTotal,
    /// Where the time went.
    pub latency: Option<Latency>,
    /// Tries before this one, none of which counts.
    pub earlier: Vec<Earlier>,
}

/// The commands that a try has run in the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Commands {
    /// How long each ran, in milliseconds, as the workspace measured it.
    pub duration_ms: Vec<u64>,
    /// How many were ended at their limit.
    pub timed_out: u32,
}

impl Commands {
    fn of(records: &[Record]) -> Self {
        let mut commands = Self::default();
        for record in records {
            if let Event::Receipt(receipt) = &record.event
                && let Answer::Stage(run) = &receipt.answer
            {
                commands
                    .duration_ms
                    .push(millis::whole(run.receipt.duration));
                commands.timed_out += u32::from(run.receipt.timed_out);
            }
        }
        commands
    }
}

/// A try that does not count, and why a case was tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Earlier {
    /// Which try.
    pub attempt: u32,
    /// Why it does not count, in a few words.
    pub why: String,
    /// Calls of the model that it made.
    pub calls: u32,
    /// What they cost, as far as it is recorded. A journal that cannot be read counts as one call of
    /// unknown cost, because nobody knows how many there were.
    pub cost: CostTotal,
}

impl Earlier {
    pub(super) fn new(attempt: u32, why: impl Into<String>, records: &[Record]) -> Self {
        let mut earlier = Self {
            attempt,
            why: why.into(),
            calls: 0,
            cost: CostTotal::default(),
        };
        let asked = |record: &&Record| matches!(record.event, Event::Asked(_));
        let asked = records.iter().filter(asked).count();
        earlier.calls = u32::try_from(asked).unwrap_or(u32::MAX);
        let mut known = 0;
        for record in records {
            if let Event::Replied(replied) = &record.event
                && let ReplyRecord::Reply {
                    cost: Some(cost), ..
                } = &replied.reply
            {
                known += 1;
                earlier.cost.known_micros = earlier.cost.known_micros.saturating_add(*cost);
            }
        }
        // A call without a recorded cost has a cost that nobody knows, also where its reply was lost.
        earlier.cost.unknown_calls = earlier.calls.saturating_sub(known);
        earlier
    }
}

/// Why a try that was `broken` off does not count, where it could not go on.
pub(super) fn broken_for_good(broken: &str, not_resumed: &str) -> String {
    format!("{broken}; it was not resumed: {not_resumed}")
}

/// Which try of which case it is about.
#[derive(Clone, Debug)]
pub(super) struct About<'a> {
    pub(super) candidate: &'a str,
    pub(super) case: &'a Case,
    pub(super) case_set_revision: Digest,
    pub(super) attempt: u32,
    pub(super) earlier: Vec<Earlier>,
}

impl CaseReport {
    /// The report of a try that is over.
    pub(super) fn of(about: About<'_>, run: &Run) -> Self {
        let outcome = &run.outcome;
        let mut report = Self::not_evaluated(about, observed(outcome));
        report.decision = outcome.acceptance.state.into();
        report.evaluator = Some(outcome.revisions.evaluation_manifest);
        report.resumed = resumed(&run.records);
        report.level = outcome.acceptance.level;
        report.tree = outcome.acceptance.tree;
        report.patch_sha256 = Some(outcome.patch_sha256);
        report.chain_head = outcome.chain_head;
        report.revisions = Some(outcome.revisions.clone());
        report.turns = outcome.turns;
        report.calls = outcome.calls;
        report.checks.clone_from(&outcome.checks);
        report.commands = Commands::of(&run.records);
        report.usage = outcome.usage;
        report.cost = outcome.cost.clone();
        report.latency = Some(outcome.latency);
        report
    }

    /// The report of a try that shows nothing about the candidate.
    pub(super) fn not_evaluated(about: About<'_>, observed: String) -> Self {
        let About {
            candidate,
            case,
            case_set_revision,
            attempt,
            earlier,
        } = about;
        Self {
            candidate: candidate.to_owned(),
            case: case.id().to_owned(),
            attempt,
            resumed: 0,
            not_resumed: None,
            folder: format!("{candidate}/{}/{attempt}", case.id()),
            case_set_revision,
            case_revision: case.digest(),
            expected: case.expected().to_owned(),
            observed,
            detail: None,
            evaluator: None,
            decision: Decision::NotEvaluated,
            level: None,
            tree: None,
            patch_sha256: None,
            chain_head: None,
            revisions: None,
            turns: 0,
            calls: 0,
            checks: Vec::new(),
            commands: Commands::default(),
            usage: UsageTotal::default(),
            cost: CostTotal::default(),
            latency: None,
            earlier,
        }
    }

    /// How long the try took, where it has run.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.latency.map(|latency| latency.total)
    }

    /// What this case has cost, the tries that do not count among them.
    #[must_use]
    pub fn whole_cost(&self) -> CostTotal {
        let mut whole = self.cost.clone();
        for earlier in &self.earlier {
            let cost = &earlier.cost;
            whole.known_micros = whole.known_micros.saturating_add(cost.known_micros);
            whole.unknown_calls = whole.unknown_calls.saturating_add(cost.unknown_calls);
        }
        whole
    }
}

fn resumed(records: &[Record]) -> u32 {
    let resumed = records
        .iter()
        .filter(|record| matches!(record.event, Event::Resumed(_)));
    u32::try_from(resumed.count()).unwrap_or(u32::MAX)
}

/// What was seen: the end, and what the last check said.
fn observed(outcome: &Outcome) -> String {
    let last = outcome.checks.last();
    let said = last.map(|check| format!("; the last check: {}: {}", check.verdict, check.summary));
    format!("{}{}", outcome.end, said.unwrap_or_default())
}
