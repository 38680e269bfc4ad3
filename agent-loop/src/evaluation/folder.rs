//! The folder of an evaluation, and what the tries in it are worth.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::candidate::Candidate;
use super::case_report::{Decision, Earlier};
use super::error::{EvaluationError, whole};
use super::run::Again;
use super::suite::{self, Case, SuiteRef};
use crate::acceptance::Acceptance;
use crate::journal::Started;
use crate::lock::Locked;
use crate::outcome::End;
use crate::report::{Records, Run, RunProblem};
use crate::verify::Verifier;

/// Says which suite a folder is of.
const ABOUT: &str = "evaluation.json";

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
        let lock = Locked::new(lock).map_err(|_| EvaluationError::Busy {
            folder: root.to_owned(),
        })?;
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
}

impl Tries<'_> {
    pub(super) fn look(&self) -> Result<Found, EvaluationError> {
        let numbers = self.numbers()?;
        let mut found = Found {
            last: numbers.last().copied().unwrap_or_default(),
            run: None,
            earlier: Vec::new(),
        };
        for number in numbers {
            let folder = self.folder.join(number.to_string());
            let is_last = number == found.last;
            let why = match self.counts(&folder, number) {
                Ok(run) if is_last => {
                    found.run = Some(run);
                    break;
                }
                Ok(run) => format!("{}; it was tried again", run.outcome.end),
                Err(why) => why,
            };
            let records = match Records::read(&folder) {
                Ok((Records(records), _)) => records,
                Err(_) => Vec::new(),
            };
            found.earlier.push(Earlier::new(number, why, &records));
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

    /// The try in `folder`, or why it does not count.
    fn counts(&self, folder: &Path, number: u32) -> Result<Run, String> {
        let run = Run::read(folder).map_err(|problem| match problem {
            RunProblem::NoEnd { .. } => format!("it was broken off: {problem}"),
            RunProblem::Nothing => "it never began".to_owned(),
            problem => format!("its evidence is refused: {}", whole(&problem)),
        })?;
        let task = &run.outcome.task;
        if (task.id.as_str(), task.attempt) != (self.expected.task.id.as_str(), number) {
            return Err(format!(
                "its evidence is refused: it is of try {} of {}, and the folder is of try {number} of {}",
                task.attempt, task.id, self.expected.task.id
            ));
        }
        if let Some(part) = self.differs(&run.started) {
            return Err(format!("it was made otherwise: the {part} is not the same"));
        }
        self.prove(folder, &run)
            .map_err(|why| format!("its evidence is refused: {why}"))?;
        if run.outcome.end == End::Cancelled {
            return Err("it was cancelled".to_owned());
        }
        let decision = Decision::from(run.outcome.acceptance.state);
        match (self.again, decision) {
            (Again::NotEvaluated, Decision::NotEvaluated) => {
                Err(format!("it was not evaluated: {}", run.outcome.end))
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
