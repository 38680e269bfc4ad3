//! A small task for the loop, with all that an attempt needs, in a real sandbox.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent_loop::journal::{CorruptJournal, ReadJournal};
use agent_loop::workspace::SandboxWorkspace;
use agent_loop::{
    Attempt, Budget, Event, Micros, Model, ModelError, ModelErrorKind, ModelReply, Outcome, Paths,
    RunDir, ScriptedModel, Task, UnittestAcceptance, Usage, model_fn,
};
use polyaxon_sandbox::SandboxClient;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The file to be repaired.
pub const SOURCE: &str = "def total(xs):\n    return 0\n";
/// What repairs it.
pub const FIX: &str = "def total(xs):\n    return sum(xs)\n";
/// Its two tests; the second passes before the repair.
pub const TESTS: &str = "import unittest, amounts\n\n\n\
    class T(unittest.TestCase):\n\
    \x20   def test_two(self):\n        self.assertEqual(amounts.total([1, 2]), 3)\n\n\
    \x20   def test_empty(self):\n        self.assertEqual(amounts.total([]), 0)\n";

/// What the model was told in the run of this folder, a turn each. Lines of the journal hold more: a
/// number that is looked for there is found in a digest now and then.
///
/// # Errors
/// Where the journal cannot be read.
pub fn prompts_of(run: impl AsRef<Path>) -> Result<Vec<String>, CorruptJournal> {
    let journal = ReadJournal::read(run)?;
    let prompts = journal.known().filter_map(|record| match &record.event {
        Event::Asked(asked) => Some(asked.prompt.clone()),
        _ => None,
    });
    Ok(prompts.collect())
}

/// A reply that reads `amounts.py`.
#[must_use]
pub fn read() -> String {
    json!({"action": "read", "path": "amounts.py"}).to_string()
}

/// A reply that writes a file.
#[must_use]
pub fn write_to(path: &str, content: &str) -> String {
    json!({"action": "write", "path": path, "content": content}).to_string()
}

/// A reply that writes `amounts.py`.
#[must_use]
pub fn write(content: &str) -> String {
    write_to("amounts.py", content)
}

/// A reply that asks for the check.
#[must_use]
pub fn check() -> String {
    json!({"action": "check"}).to_string()
}

/// A reply that ends the work.
#[must_use]
pub fn finish() -> String {
    json!({"action": "finish"}).to_string()
}

/// A model that repairs `amounts.py` at the second try, in six turns. What it says depends on the
/// turn alone, so that another program hears the same. Each call costs 30 millionths.
#[must_use]
pub fn repair_by_turn() -> impl Model {
    let script = [
        read(),
        write("def total(xs):\n    return 1\n"),
        check(),
        write(FIX),
        check(),
        finish(),
    ];
    model_fn("by turn", move |request| {
        let turn = request.id.as_str().rsplit('.').nth(1);
        let turn = turn.and_then(|turn| turn.parse::<usize>().ok());
        let text = turn.and_then(|turn| script.get(turn.checked_sub(1)?));
        let reply = |text| {
            ModelReply::new(text)
                .usage(Usage::new(100, 20))
                .cost(Micros::new(30))
        };
        let end = || ModelError::new(ModelErrorKind::BadRequest, "at its end");
        text.map(reply).ok_or_else(end)
    })
}

/// What an attempt is made of, to be changed by a test.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "tests change single fields by struct update"
)]
pub struct Case {
    /// The tests, which are the fixture.
    pub tests: String,
    /// How many of them have to run.
    pub count: u32,
    /// What may be written.
    pub editable: Vec<&'static str>,
    /// What may be used up.
    pub budget: Budget,
    /// Where `python3` is looked for, if not where it always is.
    pub search_path: Option<&'static str>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            tests: TESTS.to_owned(),
            count: 2,
            editable: vec!["amounts.py"],
            budget: Budget::default(),
            search_path: None,
        }
    }
}

/// An attempt that was made, with its evidence.
#[derive(Debug)]
#[non_exhaustive]
pub struct Made {
    /// How it ended.
    pub outcome: Outcome,
    /// The folder with the evidence.
    pub folder: TempDir,
}

impl Case {
    /// Makes the attempt with these replies.
    pub async fn drive(
        self,
        sandbox: &SandboxClient,
        replies: impl IntoIterator<Item = String>,
    ) -> Made {
        self.drive_model(sandbox, Arc::new(ScriptedModel::new(replies)))
            .await
    }

    /// Makes the attempt with replies that are not only text.
    pub async fn drive_replies(
        self,
        sandbox: &SandboxClient,
        replies: impl IntoIterator<Item = ModelReply>,
    ) -> Made {
        let model = ScriptedModel::of(replies.into_iter().map(Ok));
        self.drive_model(sandbox, Arc::new(model)).await
    }

    /// Makes the attempt with a model.
    pub async fn drive_model(self, sandbox: &SandboxClient, model: Arc<dyn Model>) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let task = Task::new(
            "total",
            "total(xs) in amounts.py must return the sum of xs.",
        )
        .file("amounts.py", SOURCE)
        .unwrap()
        .file("test_amounts.py", self.tests.clone())
        .unwrap();
        let mut acceptance =
            UnittestAcceptance::new("test_amounts.py", self.tests, self.count).unwrap();
        if let Some(path) = self.search_path {
            acceptance = acceptance.search_path(path);
        }
        let paths = Paths::editable(self.editable)
            .unwrap()
            .readable(["test_amounts.py"])
            .unwrap();
        // Several attempts of a test share a sandbox, and each has a folder of its own.
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let name = format!("total-{}", FOLDERS.fetch_add(1, Ordering::Relaxed));
        let workspace = SandboxWorkspace::new(sandbox.clone(), &name).unwrap();
        let outcome = Attempt::new(task, model, workspace, acceptance, paths)
            .allow_checks(true)
            .budget(self.budget)
            .record_in(RunDir::create(folder.path().join("run")).unwrap())
            .drive()
            .await
            .unwrap();
        // Whatever it came to: the records say the same, and prove an acceptance and nothing else.
        let verification = agent_loop::verify(folder.path().join("run")).unwrap();
        assert!(verification.is_consistent(), "{verification}");
        assert_eq!(verification.proves_acceptance(), outcome.is_accepted());
        Made { outcome, folder }
    }
}

impl Made {
    /// `outcome.json`, which has to agree with the outcome.
    #[must_use]
    pub fn outcome_json(&self) -> Value {
        let path = self.folder.path().join("run/outcome.json");
        let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(
            written["acceptance"]["state"],
            self.outcome.acceptance.state.as_str()
        );
        assert_eq!(written["turns"], self.outcome.turns);
        written
    }

    /// What the model was told after turn `turn`, or what came of it.
    #[must_use]
    pub fn said(&self, turn: u32) -> String {
        let bodies = self.records("turn");
        let body = bodies.iter().find(|body| body["turn"] == turn).unwrap();
        body["said"].as_str().unwrap().to_owned()
    }

    /// The bodies of all records of a kind.
    #[must_use]
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let run = self.folder.path().join("run");
        let text = std::fs::read_to_string(run.join("actions.jsonl")).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["kind"] == kind)
            .map(|line| match line["blob"].as_str() {
                Some(name) => {
                    let blob = std::fs::read(run.join("blobs").join(name)).unwrap();
                    serde_json::from_slice(&blob).unwrap()
                }
                None => line["body"].clone(),
            })
            .collect()
    }

    /// The verdicts of the checks, in order.
    #[must_use]
    pub fn verdicts(&self) -> Vec<&str> {
        self.outcome
            .checks
            .iter()
            .map(|check| check.verdict.as_str())
            .collect()
    }
}

/// A budget with a short limit for a check.
#[must_use]
pub fn check_limit(limit: Duration) -> Budget {
    Budget::default().check_limit(limit)
}
