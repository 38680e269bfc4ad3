mod comparing;
mod decided;
mod half;
mod kinds;
mod models;
mod new_case;
mod resuming;
mod running;
mod suites;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _, pending, ready};
use tempfile::TempDir;

use super::{Candidate, Evaluation, Suite};
use crate::budget::Budget;
use crate::ids::RequestId;
use crate::model::ScriptedModel;
use crate::private::Private;
use crate::test_kit::{CHECK, FINISH, TESTS, WRONG, fix, model, pretending, read, write};
use crate::workspace::{
    Fault, FaultAt, MemoryWorkspace, Operation, Workspace, WorkspaceError, Workspaces,
};

/// What is in a folder, by name.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A suite of so many cases, `c00`, `c01`, …, all of one small repair.
fn suite_of(cases: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_suite(folder.path(), cases);
    folder
}

fn write_suite(folder: &Path, cases: usize) {
    let about = r#"{"format": 1, "name": "sums", "revision": 1, "about": "x"}"#;
    fs::create_dir_all(folder.join("cases")).unwrap();
    fs::write(folder.join("suite.json"), about).unwrap();
    for number in 0..cases {
        write_case(folder, &format!("c{number:02}"));
    }
}

fn write_case(suite: &Path, id: &str) {
    let case = suite.join("cases").join(id);
    for name in ["files", "tests"] {
        fs::create_dir_all(case.join(name)).unwrap();
    }
    fs::write(case.join("files/amounts.py"), WRONG).unwrap();
    fs::write(case.join("tests/test_amounts.py"), TESTS).unwrap();
    let task = serde_json::json!({
        "task": "total(xs) must return the sum of xs.",
        "expected": "the sum",
        "editable": ["amounts.py"],
        "readable": ["test_amounts.py"],
        "tests": {"path": "test_amounts.py", "count": 2},
    });
    fs::write(case.join("task.json"), task.to_string()).unwrap();
}

fn load(folder: &TempDir) -> Suite {
    Suite::load(folder.path()).unwrap()
}

/// The number in the id of a case.
fn number(case: &str) -> usize {
    case[1..].parse().unwrap()
}

/// Replies that repair, and end as a script of four turns.
fn right() -> ScriptedModel {
    model([
        read("amounts.py"),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ])
}

/// Replies that do not.
fn wrong() -> ScriptedModel {
    let wrong = |value| {
        write(
            "amounts.py",
            &format!("def total(xs):\n    return {value}\n"),
        )
    };
    model([read("amounts.py"), wrong(1), CHECK.to_owned(), wrong(2)])
}

/// A candidate that fails the cases with these numbers.
fn candidate(name: &str, fails: &'static [usize]) -> Candidate {
    let candidate = Candidate::new(name, move |case| {
        Arc::new(match fails.contains(&number(case.id())) {
            true => wrong(),
            false => right(),
        })
    });
    candidate
        .unwrap()
        .configure(|attempt| attempt.budget(Budget::default().turns(4)))
}

/// Makes pretending workspaces, and counts how many are in use at once.
#[derive(Clone, Default)]
struct Places {
    /// Ids of tries whose place goes away while it is used.
    gone: BTreeSet<&'static str>,
    /// Ids of tries for which there is no place.
    missing: BTreeSet<&'static str>,
    made: Arc<Mutex<Vec<String>>>,
    in_use: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
    /// What goes wrong in the place of the try with this id.
    faults: BTreeMap<&'static str, Fault>,
    /// The id of a try whose place is there, and never told of.
    untold: Option<&'static str>,
    /// What the places say of themselves, if not the same as always.
    uuid: Option<&'static str>,
    /// Whether a place that is asked to end only says that it was asked.
    unconfirmed: bool,
    /// Where places are found again, also by another program.
    kept: Option<Kept>,
}

type Kept = Arc<Mutex<BTreeMap<String, MemoryWorkspace>>>;

impl Places {
    fn made(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    fn counted(&self, place: MemoryWorkspace) -> Arc<dyn Workspace> {
        Arc::new(counted::Counted {
            place,
            places: self.clone(),
        })
    }
}

impl Workspaces for Places {
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move {
            if self.missing.contains(id.as_str()) {
                return Err(WorkspaceError::Failed(Private::new("no quota")));
            }
            self.made.lock().unwrap().push(id.to_string());
            let now = self.in_use.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            // Others get their turn.
            tokio::task::yield_now().await;
            let gone = WorkspaceError::Gone(Private::new("evicted"));
            let mut place = pretending().with_capabilities(|can| can.exec_lookup = true);
            if let Some(fault) = self.faults.get(id.as_str()) {
                place = place.fault(fault.clone());
            }
            if self.gone.contains(id.as_str()) {
                place = place.fault(Fault::new(Operation::Get, 1, FaultAt::Before, gone));
            }
            if let Some(kept) = &self.kept {
                kept.lock().unwrap().insert(id.to_string(), place.clone());
            }
            if self.untold == Some(id.as_str()) {
                pending::<()>().await;
            }
            Ok(self.counted(place))
        }
        .boxed()
    }

    fn announce(&self, id: &RequestId) -> serde_json::Value {
        let is_kept = self.kept.is_some();
        is_kept.then(|| serde_json::json!({ "name": id })).into()
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
        _identity: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        let kept = self.kept.as_ref();
        let place = kept.and_then(|kept| kept.lock().unwrap().get(id.as_str()).cloned());
        let place = place.map(|place| self.counted(place));
        ready(place.ok_or(WorkspaceError::NotFound)).boxed()
    }
}

mod counted;

/// An evaluation of `suite` in `out`.
fn evaluation(suite: &TempDir, out: &TempDir, places: &Places) -> Evaluation {
    Evaluation::new(load(suite), places.clone(), out.path()).allow_checks(true)
}
