//! What our own tests are made with: a small task, workspaces that pretend or really run, a clock
//! that does not wait.

use std::fs;
use std::io::{self, Seek as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;

use crate::acceptance::UnittestAcceptance;
use crate::attempt::{Attempt, Task};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::journal::{
    Durability, Event, FileJournal, Journal, MemoryJournal, Record, TurnEnded, TurnResult,
};
use crate::manifest::{File, Tree};
use crate::model::{Model, ModelError, ModelErrorKind, ModelReply, ScriptedModel, Usage, model_fn};
use crate::outcome::Outcome;
use crate::path::RelPath;
use crate::policy::Paths;
use crate::workspace::{ExecReceipt, ExecSpec, MemoryWorkspace, WorkspaceError};

pub(crate) const WRONG: &str = "def total(xs):\n    return 0\n";
pub(crate) const RIGHT: &str = "def total(xs):\n    return sum(xs)\n";
pub(crate) const TESTS: &str = "import unittest, amounts\nclass T(unittest.TestCase):\n    \
    def test_two(self): self.assertEqual(amounts.total([1,2]),3)\n    \
    def test_empty(self): self.assertEqual(amounts.total([]),0)\n";

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

pub(crate) fn read(path: &str) -> String {
    serde_json::json!({"action": "read", "path": path}).to_string()
}

pub(crate) fn write(path: &str, content: &str) -> String {
    serde_json::json!({"action": "write", "path": path, "content": content}).to_string()
}

pub(crate) const CHECK: &str = r#"{"action":"check"}"#;
pub(crate) const FINISH: &str = r#"{"action":"finish"}"#;

/// A write of the right file.
pub(crate) fn fix() -> String {
    write("amounts.py", RIGHT)
}

pub(crate) fn task() -> Task {
    Task::new("amounts", "total(xs) must return the sum of xs.")
        .file("amounts.py", WRONG)
        .unwrap()
        .file("test_amounts.py", TESTS)
        .unwrap()
}

pub(crate) fn paths() -> Paths {
    Paths::editable(["amounts.py"])
        .unwrap()
        .readable(["test_amounts.py"])
        .unwrap()
}

pub(crate) fn acceptance() -> UnittestAcceptance {
    UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap()
}

/// A model that says these texts, each for 100 tokens in and 20 out.
pub(crate) fn model<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> ScriptedModel {
    ScriptedModel::of(texts.into_iter().map(reply))
}

pub(crate) fn reply(text: impl Into<String>) -> Result<ModelReply, ModelError> {
    Ok(ModelReply::new(text).usage(Usage::new(100, 20)))
}

/// An attempt at the small task.
pub(crate) fn attempt(model: ScriptedModel, workspace: &MemoryWorkspace) -> Attempt {
    Attempt::new(task(), model, workspace.clone(), acceptance(), paths()).allow_checks(true)
}

/// The turns in a journal.
pub(crate) fn turns(journal: &MemoryJournal) -> Vec<TurnEnded> {
    let records = journal.records().into_iter();
    records
        .filter_map(|(record, _)| match record.event {
            Event::Turn(turn) => Some(turn),
            _ => None,
        })
        .collect()
}

pub(crate) fn results(journal: &MemoryJournal) -> Vec<TurnResult> {
    turns(journal).into_iter().map(|turn| turn.result).collect()
}

/// The prompts in a journal.
pub(crate) fn prompts(journal: &MemoryJournal) -> Vec<String> {
    let records = journal.records().into_iter();
    records
        .filter_map(|(record, _)| match record.event {
            Event::Asked(asked) => Some(asked.prompt),
            _ => None,
        })
        .collect()
}

/// What `unittest` writes about the file: the right one passes, everything else fails. One that ends
/// the process with 0 leaves nothing that a verdict could be made of.
pub(crate) fn pretended(source: &[u8]) -> ExecReceipt {
    if source.windows(8).any(|part| part == b"_exit(0)") {
        return ExecReceipt::exited(0);
    }
    match source.windows(8).any(|part| part == b" sum(xs)") {
        true => ExecReceipt::exited(0).stderr("..\nRan 2 tests in 0.001s\n\nOK\n"),
        false => {
            ExecReceipt::exited(1).stderr("F.\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n")
        }
    }
}

/// A workspace whose commands only pretend.
pub(crate) fn pretending() -> MemoryWorkspace {
    MemoryWorkspace::new(|_spec, files| {
        let source = files
            .get(&path("work/amounts.py"))
            .ok_or(WorkspaceError::NotFound)?;
        Ok(pretended(source.bytes()))
    })
}

/// A workspace whose commands really run, in a temporary folder.
pub(crate) fn running() -> MemoryWorkspace {
    MemoryWorkspace::new(run)
}

fn run(spec: &ExecSpec, files: &mut Tree) -> Result<ExecReceipt, WorkspaceError> {
    let folder = tempfile::tempdir().unwrap();
    for (path, file) in files.iter() {
        let target = folder.path().join(path.as_str());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, file.bytes()).unwrap();
    }
    let dir = folder
        .path()
        .join(spec.dir.as_ref().map_or("", RelPath::as_str));
    let limit = format!("{}", spec.limit.as_secs_f64());
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(&spec.stdin).unwrap();
    input.rewind().unwrap();
    let start = std::time::Instant::now();
    let output = Command::new("timeout")
        .args(["-s", "KILL", &limit])
        .args(&spec.argv)
        .current_dir(dir)
        .stdin(input)
        .output()
        .unwrap();
    *files = read_back(folder.path());
    if start.elapsed() >= spec.limit {
        return Ok(ExecReceipt::timed_out(spec.limit).stderr(output.stderr));
    }
    let mut receipt = ExecReceipt::exited(0)
        .stdout(output.stdout)
        .stderr(output.stderr);
    receipt.exit_code = output.status.code();
    Ok(receipt)
}

fn read_back(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let name = entry.strip_prefix(root).unwrap().to_str().unwrap();
                tree.insert(path(name), File::new(fs::read(&entry).unwrap()));
            }
        }
    }
    tree
}

/// A model that says these texts, one a turn, also to a program that comes later.
pub(crate) fn by_turn(texts: Vec<String>) -> impl Model {
    model_fn("by turn", move |request| {
        let turn = request.id.as_str().rsplit('.').nth(1);
        let at = turn.unwrap().parse::<usize>().unwrap() - 1;
        match texts.get(at) {
            Some(text) => reply(text),
            None => Err(ModelError::new(ModelErrorKind::BadRequest, "at its end")),
        }
    })
}

/// When a program is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the record is written: what it tells of was done.
    Before,
    /// After it.
    After,
}

/// A journal that is the end of its program at one of its records.
pub(crate) struct Dying {
    pub(crate) journal: FileJournal,
    pub(crate) at: u64,
    pub(crate) moment: Moment,
}

struct Killed;

/// The end of the program.
pub(crate) fn die() {
    resume_unwind(Box::new(Killed));
}

impl Journal for Dying {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        let dies = record.seq == self.at;
        if dies && self.moment == Moment::Before {
            die();
        }
        self.journal.append(record, durability)?;
        if dies {
            die();
        }
        Ok(())
    }

    fn chain_head(&self) -> Option<Digest> {
        self.journal.chain_head()
    }
}

/// Makes an attempt; nothing where its program was ended.
pub(crate) fn run_or_die(
    attempt: impl Future<Output = Result<Outcome, crate::Error>>,
) -> Option<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    match catch_unwind(AssertUnwindSafe(|| runtime.block_on(attempt))) {
        Ok(outcome) => Some(outcome.unwrap()),
        Err(thrown) if thrown.is::<Killed>() => None,
        Err(thrown) => resume_unwind(thrown),
    }
}

/// A folder in memory where there is one: what is tested here is not the disk.
pub(crate) fn fast_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A number from the environment, for the long form of a test.
pub(crate) fn how_many(variable: &str, by_default: usize) -> usize {
    let said = std::env::var(variable).ok();
    said.map_or(by_default, |said| said.parse().unwrap())
}

/// A clock that jumps where others wait. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct JumpingClock {
    state: Arc<Mutex<(Duration, Vec<Duration>)>>,
    random: f64,
}

impl JumpingClock {
    /// A clock whose chance is always the same.
    pub(crate) fn with_chance(random: f64) -> Self {
        Self {
            random,
            ..Self::default()
        }
    }

    pub(crate) fn advance(&self, length: Duration) {
        self.state.lock().unwrap().0 += length;
    }

    /// The sleeps so far.
    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.state.lock().unwrap().1.clone()
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.elapsed()
    }

    fn elapsed(&self) -> Duration {
        self.state.lock().unwrap().0
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'_, ()> {
        async move {
            let mut state = self.state.lock().unwrap();
            state.0 += length;
            state.1.push(length);
        }
        .boxed()
    }

    fn random(&self) -> f64 {
        self.random
    }
}
