//! Proves an acceptance from the folder of its run, without the model and without the workspace.
//!
//! The journal holds every answer that came from outside: of the model, of the workspace, of people.
//! [`verify`] gives these answers to the same machine again, lets the same evaluator judge what the
//! checks have shown, and compares everything that comes of it with what was written down: every
//! question, decision, intent, verdict, digest and limit, the patch, and the outcome.
//!
//! It finds out whether the records fit together. It cannot find out who wrote them: a digest of
//! the last line that was kept elsewhere can ([`Verifier::chain_head`]).

mod evaluator;
mod files;
mod problem;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::acceptance::Acceptance;
use crate::attempt::{evaluation_manifest, tool_definitions};
use crate::digest::Digest;
use crate::ids::AttemptId;
use crate::journal::{CorruptJournal, ReadJournal, Record, Started};
use crate::machine::{Machine, Setup};
use crate::outcome::Outcome;
use crate::patch;
use crate::play::{Played, play};
use crate::policy::Policy;
use crate::prompt;

use evaluator::Chosen;

pub use problem::{Part, Problem};

/// Verifies the run in `folder`, with the evaluator that `acceptance.json` describes.
///
/// # Errors
/// Where there is no journal, or a file of the folder cannot be read. Everything else that is wrong
/// is in the [`Verification`].
///
/// # Examples
/// ```
/// use agent_loop::{
///     Attempt, ExecReceipt, MemoryWorkspace, Paths, RunDir, ScriptedModel, Task, UnittestAcceptance,
///     verify,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let model = ScriptedModel::new([
///     r#"{"action":"write","path":"amounts.py","content":"def total(xs):\n    return sum(xs)\n"}"#,
///     r#"{"action":"check"}"#,
///     r#"{"action":"finish"}"#,
/// ]);
/// let workspace = MemoryWorkspace::new(|_spec, _files| {
///     Ok(ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"))
/// });
/// let task = Task::new("amounts", "total(xs) must return the sum of xs.");
/// let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
/// Attempt::new(task, model, workspace, acceptance, Paths::editable(["amounts.py"])?)
///     .allow_checks(true)
///     .record_in(RunDir::create(folder)?)
///     .drive()
///     .await?;
///
/// let verification = verify(folder)?;
/// assert!(verification.proves_acceptance(), "{verification}");
///
/// // Whoever changes a byte is found out.
/// std::fs::write(folder.join("patch.diff"), "")?;
/// assert!(!verify(folder)?.proves_acceptance());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(folder: impl AsRef<Path>) -> Result<Verification, Unreadable> {
    Verifier::new(folder.as_ref()).verify()
}

/// A verification with what the folder alone does not have: an evaluator of one's own, policies, and
/// a digest that was kept elsewhere.
#[must_use = "a Verifier does nothing until it verifies"]
pub struct Verifier {
    folder: PathBuf,
    acceptance: Option<Arc<dyn Acceptance>>,
    policies: Vec<Arc<dyn Policy>>,
    chain_head: Option<Digest>,
}

impl Verifier {
    /// The run in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            acceptance: None,
            policies: Vec::new(),
            chain_head: None,
        }
    }

    /// Judges with `acceptance`. Default: with what `acceptance.json` describes.
    pub fn acceptance(mut self, acceptance: impl Acceptance + 'static) -> Self {
        self.acceptance = Some(Arc::new(acceptance));
        self
    }

    /// Adds one of the policies of the attempt, in their order. Default: what they have decided is
    /// taken from the journal, as far as it is stricter than the rules.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Asks for this digest of the journal's last line, from an outcome that was kept elsewhere.
    pub fn chain_head(mut self, digest: Digest) -> Self {
        self.chain_head = Some(digest);
        self
    }

    /// Verifies.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn verify(self) -> Result<Verification, Unreadable> {
        let mut found = Verification::default();
        let journal = match ReadJournal::read(&self.folder) {
            Ok(journal) => journal,
            Err(CorruptJournal::Damaged { line, problem, .. }) => {
                found.say(Part::Journal, Some(line as u64), problem);
                found.verdicts = Recomputed::no("the journal is damaged");
                found.policies = Recomputed::no("the journal is damaged");
                return Ok(found);
            }
            Err(CorruptJournal::Io(source)) => return Err(self.unreadable(source)),
            Err(error @ CorruptJournal::Busy) => {
                return Err(self.unreadable(io::Error::other(error)));
            }
        };
        found.records = journal.records.len();
        if let Some(torn) = journal.torn_tail {
            let what = format!("ends with {} bytes that are no record", torn.len);
            found.say(Part::Journal, Some(found.records as u64 + 1), what);
        }
        if self
            .chain_head
            .is_some_and(|head| journal.chain_head != Some(head))
        {
            found.say(
                Part::Journal,
                None,
                "has another last line than it should".to_owned(),
            );
        }
        let records: Vec<Record> = journal.known().cloned().collect();
        let Some(started) = records.first().and_then(Record::started) else {
            found.say(Part::Order, Some(1), "there is no first record".to_owned());
            found.verdicts = Recomputed::no("nothing was started");
            found.policies = Recomputed::no("nothing was started");
            return Ok(found);
        };
        if let Some(played) = self.play(started, &records, &mut found) {
            self.outcome(&played, journal.chain_head, &mut found)?;
        }
        files::workspace(&self.folder, started, &mut found)
            .map_err(|error| self.unreadable(error))?;
        files::blobs(&self.folder, &mut found).map_err(|error| self.unreadable(error))?;
        files::page(&self.folder, &mut found).map_err(|error| self.unreadable(error))?;
        files::others(&self.folder, &mut found).map_err(|error| self.unreadable(error))?;
        Ok(found)
    }

    fn play(
        &self,
        started: &Started,
        records: &[Record],
        found: &mut Verification,
    ) -> Option<Played> {
        let Chosen {
            acceptance,
            plans,
            verdicts,
        } = evaluator::choose(
            self.acceptance.clone(),
            &self.folder,
            started,
            records,
            found,
        );
        found.verdicts = verdicts;
        let (policies, recomputed) = evaluator::policies(&self.policies, started, records);
        found.policies = recomputed;
        let attempt = match AttemptId::new(&started.task.id, started.task.attempt) {
            Ok(attempt) => attempt,
            Err(error) => {
                found.say(Part::Started, Some(1), error.to_string());
                return None;
            }
        };
        let revisions = &started.revisions;
        let derived = [
            (
                "revisions.prompt",
                revisions.prompt == prompt::revision(&started.system, started.order),
            ),
            (
                "revisions.tool_definitions",
                revisions.tool_definitions == tool_definitions(started.checks.keys()),
            ),
            (
                "revisions.evaluation_manifest",
                revisions.evaluation_manifest
                    == evaluation_manifest(started.evaluator.revision, &plans),
            ),
        ];
        for (what, _) in derived.into_iter().filter(|(_, agrees)| !agrees) {
            let what = format!("{what} is not the digest of what it names");
            found.say(Part::Started, Some(1), what);
        }
        let setup = Setup {
            attempt,
            started: started.clone(),
            policies,
            acceptance,
            plans,
            // Not in the records, and nothing but a live call depends on it.
            model_deadline: Duration::ZERO,
        };
        let played = play(Machine::new(setup), records);
        for difference in &played.differences {
            let record = records.iter().find(|record| record.seq == difference.at);
            found.problems.push(Problem::of(difference, record));
        }
        Some(played)
    }

    /// What the records come to, beside what the folder says that it was.
    fn outcome(
        &self,
        played: &Played,
        chain_head: Option<Digest>,
        found: &mut Verification,
    ) -> Result<(), Unreadable> {
        let Some(ended) = &played.ended else {
            if played.differences.is_empty() {
                let next = played.expected.front().map(|(event, _)| event.kind());
                let what = match next {
                    Some(next) => format!("the attempt is not over: {next:?} comes next"),
                    None => "the attempt is not over".to_owned(),
                };
                found.say(Part::Order, Some(found.records as u64 + 1), what);
            }
            return Ok(());
        };
        let summary = played.machine.summary();
        let patch = patch::diff(summary.base, summary.known);
        let patch = patch.map_err(|error| self.unreadable(error))?;
        let outcome = Outcome::new(&summary, ended.clone(), chain_head, patch);
        let unreadable = |error| self.unreadable(error);
        files::patch(&self.folder, &outcome.patch, found).map_err(unreadable)?;
        files::outcome(&self.folder, &outcome, found).map_err(unreadable)?;
        files::kept(&self.folder, ended, summary.known, found).map_err(unreadable)?;
        found.outcome = Some(outcome);
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> Unreadable {
        Unreadable {
            folder: self.folder.clone(),
            source,
        }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// A folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the run in {} cannot be read", folder.display())]
#[non_exhaustive]
pub struct Unreadable {
    folder: PathBuf,
    source: io::Error,
}

/// What a verification has found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Verification {
    /// How many records the journal has.
    pub records: usize,
    /// What does not hold.
    pub problems: Vec<Problem>,
    /// Whether the verdicts of the checks were recomputed, or only taken from the journal.
    pub verdicts: Recomputed,
    /// Whether the decisions of policies were recomputed, or only taken from the journal.
    pub policies: Recomputed,
    /// What the records come to, where they come to an end.
    pub outcome: Option<Outcome>,
    /// What is in the folder and in no way a part of the proof.
    pub uncovered: Vec<String>,
}

impl Verification {
    /// Whether everything fits together, whatever it comes to.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether it is proved that exactly these bytes passed exactly this check: everything fits
    /// together, the verdicts were recomputed, and the change is accepted.
    #[must_use]
    pub fn proves_acceptance(&self) -> bool {
        self.is_consistent()
            && self.verdicts == Recomputed::Yes
            && self.outcome.as_ref().is_some_and(Outcome::is_accepted)
    }

    fn say(&mut self, part: Part, line: Option<u64>, what: String) {
        self.problems.push(Problem { part, line, what });
    }
}

/// Whether something was computed again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recomputed {
    /// It was, and compared.
    #[default]
    Yes,
    /// It was not. What is written down about it was believed.
    #[non_exhaustive]
    No {
        /// Why not.
        why: String,
    },
}

impl Recomputed {
    fn no(why: impl Into<String>) -> Self {
        Self::No { why: why.into() }
    }
}

impl fmt::Display for Verification {
    /// One line of what it comes to, and one for each thing that does not hold or was not looked at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_ref();
        match outcome {
            _ if self.proves_acceptance() => {
                let acceptance = outcome.map(|outcome| &outcome.acceptance);
                let level = acceptance.and_then(|acceptance| acceptance.level);
                let tree = acceptance.and_then(|acceptance| acceptance.tree);
                f.write_str("proved: accepted")?;
                if let (Some(level), Some(tree)) = (level, tree) {
                    write!(f, " at level {level}, tree {tree}")?;
                }
            }
            _ if !self.is_consistent() => write!(f, "does not hold: {}", plural(&self.problems))?,
            Some(outcome) if !outcome.is_accepted() => write!(
                f,
                "holds: {}, {}",
                outcome.acceptance.state.as_str(),
                outcome.end
            )?,
            _ => f.write_str("not proved")?,
        }
        write!(f, " ({} records)", self.records)?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        for (what, recomputed) in [("verdicts", &self.verdicts), ("policies", &self.policies)] {
            if let Recomputed::No { why } = recomputed {
                write!(f, "\n  {what} not recomputed: {why}")?;
            }
        }
        if !self.uncovered.is_empty() {
            write!(
                f,
                "\n  not a part of the proof: {}",
                self.uncovered.join(", ")
            )?;
        }
        Ok(())
    }
}

fn plural(problems: &[Problem]) -> String {
    match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    }
}

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Verifier>();
    check::<Unreadable>();
};

#[cfg(test)]
mod tests;
