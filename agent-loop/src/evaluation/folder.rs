//! The folder of an evaluation, and what the tries in it are worth.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::candidate::Candidate;
use super::case_report::{CaseReport, Decision, Earlier, broken_for_good};
use super::error::{EvaluationError, whole};
use super::run::Again;
use super::suite::{self, Case, SuiteRef};
use crate::acceptance::Acceptance;
use crate::evidence::{self, WORKSPACE};
use crate::ids::RequestId;
use crate::journal::{Event, Record, Started, WorkspaceRecord};
use crate::lock::Locked;
use crate::outcome::End;
use crate::report::{Records, Run, RunProblem};
use crate::verify::Verifier;
use crate::workspace::StopState;

/// Says which suite a folder is of.
const ABOUT: &str = "evaluation.json";
/// What came of a try, in its folder.
pub(super) const CASE: &str = "case.json";

/// The folder of an evaluation. Of those that write, one at a time.
pub(super) struct Folder {
    root: PathBuf,
    /// Locked as long as the value lives.
    _lock: Option<Locked>,
}

impl Folder {
    /// The folder, made where it is not there, for the evaluation of `suite`.
    pub(super) fn create(root: &Path, suite: &SuiteRef) -> Result<Self, EvaluationError> {
        fs::create_dir_all(root).map_err(EvaluationError::io(root))?;
        let path = root.join("lock");
        let lock = File::create(&path).map_err(EvaluationError::io(&path))?;
        let lock = Locked::new(lock).map_err(|error| match error {
            TryLockError::WouldBlock => EvaluationError::Busy {
                folder: root.to_owned(),
            },
            TryLockError::Error(error) => EvaluationError::io(&path)(error),
        })?;
        evidence::remove_leftovers(root).map_err(EvaluationError::io(root))?;
        let about = root.join(ABOUT);
        if !about.exists() {
            suite::write_json(&about, suite).map_err(EvaluationError::io(&about))?;
        }
        let folder = Self::open(root, suite)?;
        Ok(Self {
            _lock: Some(lock),
            ..folder
        })
    }

    /// The folder of an evaluation that was begun.
    pub(super) fn open(root: &Path, suite: &SuiteRef) -> Result<Self, EvaluationError> {
        let about = root.join(ABOUT);
        let there = fs::read(&about)
            .and_then(|bytes| serde_json::from_slice::<SuiteRef>(&bytes).map_err(io::Error::from))
            .map_err(EvaluationError::io(&about))?;
        if there != *suite {
            return Err(EvaluationError::OtherSuite {
                there: Box::new(there),
                here: Box::new(suite.clone()),
            });
        }
        Ok(Self {
            root: root.to_owned(),
            _lock: None,
        })
    }

    /// The folder with the tries of `candidate` at `case`.
    pub(super) fn of(&self, candidate: &Candidate, case: &Case) -> PathBuf {
        self.root.join(candidate.name()).join(case.id())
    }

    /// The folder of one try below `root`.
    pub(super) fn of_try(root: &Path, candidate: &Candidate, case: &Case, number: u32) -> PathBuf {
        root.join(candidate.name())
            .join(case.id())
            .join(number.to_string())
    }
}

/// The tries of a candidate at a case.
pub(super) struct Tries<'a> {
    pub(super) folder: PathBuf,
    /// How a try would begin now: one that began otherwise is of another candidate or case.
    pub(super) expected: &'a Started,
    /// What decides about the case.
    pub(super) acceptance: Arc<dyn Acceptance>,
    pub(super) again: Again,
}

/// What the tries are worth.
pub(super) struct Found {
    /// The number of the last one; 0 where there is none.
    pub(super) last: u32,
    /// The last one, where it counts.
    pub(super) run: Option<Run>,
    /// Those that do not count.
    pub(super) earlier: Vec<Earlier>,
    /// The last of them, where it is not over and began as it would now.
    pub(super) half: Option<Half>,
    /// What the last of them has left.
    pub(super) left: LeftBehind,
}

/// The places of a try of which nothing that can be relied on says that they have ended: those of one
/// whose evidence is refused are among them.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    /// What its own place is found by: `workspace.json`.
    pub(super) own: Option<Value>,
    /// The fresh places of its checks, as far as its journal can be read: for what, and what they are
    /// found by.
    pub(super) fresh: Vec<(RequestId, Value)>,
}

impl LeftBehind {
    fn of(folder: &Path, records: &[Record]) -> Self {
        let mut fresh: Vec<(RequestId, Value)> = Vec::new();
        for record in records {
            let (id, said) = match &record.event {
                Event::Placing(placing) => (&placing.id, Some(&placing.announced)),
                Event::Placed(placed) => (&placed.id, Some(&placed.identity)),
                Event::Left(left) if left.stop == StopState::Confirmed => (&left.id, None),
                _ => continue,
            };
            // What is said later says more.
            fresh.retain(|(other, _)| other != id);
            fresh.extend(said.map(|said| (id.clone(), said.clone())));
        }
        Self {
            own: said(folder).filter(|_| !has_stopped(records)),
            fresh,
        }
    }
}

/// What a try without an end, or without all files that are written after it, has come to so far.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) workspace: WorkspaceRecord,
    pub(super) records: Vec<Record>,
}

/// Why a try does not count.
struct Why {
    text: String,
    /// It has no end, and nothing else is wrong with it.
    is_open: bool,
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self {
            text,
            is_open: false,
        }
    }
}

impl Tries<'_> {
    pub(super) fn look(&self) -> Result<Found, EvaluationError> {
        let numbers = self.numbers()?;
        let mut found = Found {
            last: numbers.last().copied().unwrap_or_default(),
            run: None,
            earlier: Vec::new(),
            half: None,
            left: LeftBehind::default(),
        };
        for number in numbers {
            let folder = self.folder.join(number.to_string());
            let is_last = number == found.last;
            let mut why = match self.counts(&folder, number) {
                Ok(run) if is_last => {
                    found.run = Some(run);
                    break;
                }
                Ok(run) => Why::from(format!("{}; it was tried again", run.outcome.end)),
                Err(why) => why,
            };
            let (records, is_whole) = match Records::read(&folder) {
                Ok((Records(records), _)) => (records, true),
                Err(problem) => (Vec::new(), matches!(problem, RunProblem::Nothing)),
            };
            if why.is_open
                && let Some(not_resumed) = not_resumed(&folder)
            {
                why.text = broken_for_good(&why.text, &not_resumed);
            }
            let mut earlier = Earlier::new(number, why.text, &records);
            if !is_whole {
                earlier.cost.unknown_calls = earlier.cost.unknown_calls.max(1);
            }
            found.earlier.push(earlier);
            found.left = LeftBehind::of(&folder, &records);
            let half = why.is_open.then(|| self.half(records, number));
            found.half = half.flatten();
        }
        Ok(found)
    }

    /// The numbers of the tries, in order.
    fn numbers(&self) -> Result<Vec<u32>, EvaluationError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(EvaluationError::io(&self.folder)(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let entry = entry.map_err(EvaluationError::io(&self.folder))?;
            numbers.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u32>().ok()),
            );
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What a try has come to, where it began as it would now.
    fn half(&self, records: Vec<Record>, number: u32) -> Option<Half> {
        let started = records.first()?.started()?;
        let task = &started.task;
        let is_ours = (task.id.as_str(), task.attempt) == (&*self.expected.task.id, number);
        let goes_on = is_ours && self.differs(started).is_none();
        let workspace = started.workspace.clone();
        goes_on.then_some(Half { workspace, records })
    }

    /// The try in `folder`, or why it does not count.
    fn counts(&self, folder: &Path, number: u32) -> Result<Run, Why> {
        let run = Run::read(folder).map_err(|problem| match problem {
            RunProblem::NoEnd { .. } | RunProblem::Missing { .. } => Why {
                text: format!("it was broken off: {problem}"),
                is_open: true,
            },
            RunProblem::Nothing => Why {
                text: "it never began".to_owned(),
                is_open: true,
            },
            problem => format!("its evidence is refused: {}", whole(&problem)).into(),
        })?;
        let task = &run.outcome.task;
        if (task.id.as_str(), task.attempt) != (self.expected.task.id.as_str(), number) {
            return Err(format!(
                "its evidence is refused: it is of try {} of {}, and the folder is of try {number} of {}",
                task.attempt, task.id, self.expected.task.id
            )
            .into());
        }
        if let Some(part) = self.differs(&run.started) {
            return Err(format!("it was made otherwise: the {part} is not the same").into());
        }
        self.prove(folder, &run)
            .map_err(|why| format!("its evidence is refused: {why}"))?;
        if run.outcome.end == End::Cancelled {
            return Err("it was cancelled".to_owned().into());
        }
        let decision = Decision::from(run.outcome.acceptance.state);
        match (self.again, decision) {
            (Again::NotEvaluated, Decision::NotEvaluated) => {
                Err(format!("it was not evaluated: {}", run.outcome.end).into())
            }
            _ => Ok(run),
        }
    }

    /// In which part a try began otherwise than it would now. Where it works does not count.
    fn differs(&self, found: &Started) -> Option<&'static str> {
        let mut expected = self.expected.clone();
        expected.task.attempt = found.task.attempt;
        expected.workspace = found.workspace.clone();
        expected.workspace_json = found.workspace_json;
        expected.provision = found.provision;
        expected.first_difference(found)
    }

    /// Whether everything in the folder follows from the answers that are recorded, judged by the
    /// evaluator as it is now.
    fn prove(&self, folder: &Path, run: &Run) -> Result<(), String> {
        let verifier = Verifier::new(folder).acceptance(Arc::clone(&self.acceptance));
        let found = verifier.verify().map_err(|error| whole(&error))?;
        let holds = match run.outcome.is_accepted() {
            true => found.proves_acceptance(),
            false => found.is_consistent(),
        };
        match holds {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    }
}

/// Whether the records of a try say that its own place has ended.
fn has_stopped(records: &[Record]) -> bool {
    let last = records.iter().rev().find_map(|record| match &record.event {
        Event::Stopped(stopped) => Some(&stopped.stop),
        Event::Ended(ended) => Some(&ended.stop),
        _ => None,
    });
    last == Some(&StopState::Confirmed)
}

/// What the place of a try is found by.
fn said(folder: &Path) -> Option<Value> {
    let bytes = fs::read(folder.join(WORKSPACE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Why a try was given up, from its `case.json`.
fn not_resumed(folder: &Path) -> Option<String> {
    let bytes = fs::read(folder.join(CASE)).ok()?;
    let report: CaseReport = serde_json::from_slice(&bytes).ok()?;
    report.not_resumed
}
