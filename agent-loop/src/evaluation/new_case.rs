//! A failed attempt becomes a case.

mod cleaner;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use self::cleaner::Cleaner;
use super::error::whole;
use super::suite::{
    self, Adding, Case, Check, Described, Hidden, Suite, SuiteError, SuiteFile, TaskFile, Tests,
    write_json,
};
use crate::acceptance::{Acceptance, Description};
use crate::digest::Digest;
use crate::evidence::ACCEPTANCE;
use crate::journal::{Answer, Event, Started};
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};
use crate::report::Run;

/// A failed attempt as a case, without what it must not tell.
///
/// It holds what the attempt began with, the text of the task and the files, and what decided, in
/// sight of the model or hidden: tests, a command or inputs and answers, with their files. Neither
/// replies nor output are in it, nor where programs were looked for. Values of secret names, folders
/// of people, and whatever names the workspace are replaced, also in files, arguments and expected
/// answers; what that has changed is in `origin` of `task.json`, so look at it before the case is
/// used.
///
/// # Examples
/// ```no_run
/// use agent_loop::evaluation::NewCase;
///
/// NewCase::of("agent-output", "an amount in euros is refused")?
///     .add_to("suite", "euro-amounts")?;
/// # Ok::<(), agent_loop::evaluation::SuiteError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a NewCase does nothing until it is added to a suite"]
pub struct NewCase {
    about: TaskFile,
    files: Tree,
    tests: Tree,
    hidden: Tree,
}

/// Where a case is from, in `task.json`.
#[derive(Serialize)]
struct Origin {
    /// The last line of the attempt's journal.
    chain_head: Option<Digest>,
    /// How it ended.
    end: String,
    /// What was taken out of which file, or of the text.
    changed: BTreeMap<String, &'static str>,
}

impl NewCase {
    /// The failed attempt in `run` as a case, of which `expected` says in words what is right.
    ///
    /// # Errors
    /// Where the attempt is not over or was accepted, the files of its visible check are not among
    /// its own, or no case can have its acceptance: one of your own, or one of more parts than a
    /// check and a hidden one after it.
    pub fn of(run: impl AsRef<Path>, expected: impl Into<String>) -> Result<Self, SuiteError> {
        let folder = run.as_ref();
        let refuse = |problem: String| SuiteError::content(folder, problem);
        let run = Run::read(folder).map_err(|problem| refuse(whole(&problem)))?;
        if run.outcome.is_accepted() {
            return Err(refuse("the attempt was accepted".to_owned()));
        }
        let opened = run.records.iter().find_map(|record| match &record.event {
            Event::Receipt(receipt) => match &receipt.answer {
                Answer::Opened(tree) => Some(tree),
                _ => None,
            },
            _ => None,
        });
        let opened = opened.ok_or_else(|| refuse("the attempt never had its files".to_owned()))?;
        let description = described(folder, &run.started).map_err(refuse)?;
        let Described { visible, hidden } =
            Described::of(&description).map_err(|problem| refuse(problem.to_owned()))?;
        let (check, fixtures) = visible;
        for (path, file) in fixtures.iter() {
            if opened.get(path) != Some(file) {
                let problem = "belongs to the check, and was not among the files";
                return Err(refuse(format!("{path} {problem}")));
            }
        }
        let mut cleaner = Cleaner::new(&run.started);
        let mut files = Tree::new();
        let mut tests = Tree::new();
        for (path, file) in opened.iter() {
            let clean = cleaner.file(path.as_str(), file);
            match fixtures.get(path).is_some() {
                true => tests.insert(path.clone(), clean),
                false => files.insert(path.clone(), clean),
            };
        }
        let paths = &run.started.paths;
        let readable = opened.iter().map(|(path, _)| path);
        let readable = readable.filter(|path| paths.may_read(path) && !paths.may_write(path));
        let mut about = TaskFile {
            task: cleaner.text("the text of the task", &run.started.text),
            expected: expected.into(),
            editable: paths.editable_entries().cloned().collect(),
            readable: readable.cloned().collect(),
            ..TaskFile::default()
        };
        about.decided_by(cleaner.check("the check", check));
        let mut unseen = Tree::new();
        if let Some((check, fixtures)) = hidden {
            about.hidden = Some(cleaner.check("the hidden check", check).into());
            for (path, file) in fixtures.iter() {
                let clean = cleaner.file(&format!("hidden/{path}"), file);
                unseen.insert(path.clone(), clean);
            }
        }
        about.origin = serde_json::to_value(Origin {
            chain_head: run.outcome.chain_head,
            end: run.outcome.end.to_string(),
            changed: cleaner.changed,
        })
        .ok();
        Ok(Self {
            about,
            files,
            tests,
            hidden: unseen,
        })
    }

    /// Sets a file of `unittest` tests that no candidate sees, of which `count` have to run, instead
    /// of what was hidden in the attempt. Only for a case with tests of `unittest`; see
    /// [`hidden_by`](Self::hidden_by).
    ///
    /// # Errors
    /// Where the path cannot be used.
    pub fn hidden(
        mut self,
        path: impl AsRef<str>,
        tests: impl Into<Vec<u8>>,
        count: u32,
    ) -> Result<Self, InvalidPath> {
        let path = RelPath::parse(path.as_ref())?;
        let check = Check::Tests(Tests {
            path: path.clone(),
            count,
            fresh: true,
        });
        self.about.hidden = Some(check.into());
        self.hidden = [(path, File::new(tests))].into_iter().collect();
        Ok(self)
    }

    /// Sets a command or inputs and answers as the check that no candidate sees, with the files that
    /// belong to it, instead of what was hidden in the attempt. It runs in a fresh place, and nothing
    /// is told of it. It is taken as it is: nothing is looked for in it, and replaced.
    ///
    /// # Errors
    /// Where no case can have it: an acceptance of your own, or one of several parts.
    ///
    /// # Examples
    /// ```no_run
    /// use agent_loop::acceptance::CommandAcceptance;
    /// use agent_loop::evaluation::NewCase;
    ///
    /// let more = CommandAcceptance::new(["cargo", "test", "--offline", "--test", "more"])
    ///     .fixture("tests/more.rs", "// …")?;
    /// NewCase::of("agent-output", "the limits are kept")?
    ///     .hidden_by(more)?
    ///     .add_to("suite", "clamp")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hidden_by(mut self, acceptance: impl Acceptance) -> Result<Self, SuiteError> {
        let description = acceptance.description();
        let check = description
            .ok_or(NOT_DESCRIBED)
            .and_then(|description| suite::one(&description));
        let (check, files) = check.map_err(|problem| {
            SuiteError::content(Path::new("task.json"), format!("hidden: {problem}"))
        })?;
        self.about.hidden = Some(Hidden::from(check));
        self.hidden = files;
        Ok(self)
    }

    /// What was replaced, and where.
    #[must_use]
    pub fn changed(&self) -> Vec<String> {
        let origin = self.about.origin.as_ref();
        let changed = origin.and_then(|origin| origin.get("changed")?.as_object());
        changed
            .into_iter()
            .flatten()
            .map(|(at, what)| format!("{at}: {}", what.as_str().unwrap_or_default()))
            .collect()
    }

    /// Writes the case `id` into the suite in the folder `suite`, and raises the revision of the
    /// suite, which has another digest from then on. Of those who add to a suite, one at a time does
    /// so, and the others wait. It can be loaded at any moment, also where a program is ended in here:
    /// it has the case or not.
    ///
    /// # Errors
    /// Where the suite cannot be read or written, has such a case, or the case cannot be used.
    pub fn add_to(self, suite: impl AsRef<Path>, id: &str) -> Result<Suite, SuiteError> {
        let root = suite.as_ref();
        // Nothing is removed from what is no suite.
        Suite::load(root)?;
        let adding = Adding::to(root).map_err(SuiteError::io(root))?;
        if Suite::load(root)?.case(id).is_some() {
            return Err(SuiteError::content(
                root,
                format!("there is a case {id} already"),
            ));
        }
        let path = root.join("suite.json");
        let bytes = fs::read(&path).map_err(SuiteError::io(&path))?;
        let mut about = SuiteFile::parse(&path, &bytes)?;
        let (made, place) = (&adding.folder, root.join("cases").join(id));
        self.write(made)?;
        Case::load(made, id)?;
        fs::rename(made, &place).map_err(SuiteError::io(&place))?;
        about.revision = about.revision.saturating_add(1);
        write_json(&path, &about).map_err(SuiteError::io(&path))?;
        Suite::load(root)
    }

    fn write(&self, folder: &Path) -> Result<(), SuiteError> {
        for (name, tree) in [
            ("files", &self.files),
            ("tests", &self.tests),
            ("hidden", &self.hidden),
        ] {
            let root = folder.join(name);
            fs::create_dir_all(&root).map_err(SuiteError::io(&root))?;
            for (path, file) in tree.iter() {
                let at = root.join(path.as_str());
                let parent = at.parent().unwrap_or(&root);
                fs::create_dir_all(parent)
                    .and_then(|()| fs::write(&at, file.bytes()))
                    .map_err(SuiteError::io(&at))?;
            }
        }
        let path = folder.join("task.json");
        write_json(&path, &self.about).map_err(SuiteError::io(&path))
    }
}

const NOT_DESCRIBED: &str = "its acceptance is of no kind that a suite has";

/// What decided about an attempt.
fn described(folder: &Path, started: &Started) -> Result<Description, String> {
    let digest = started.evaluator.description.ok_or(NOT_DESCRIBED)?;
    let bytes = fs::read(folder.join(ACCEPTANCE))
        .map_err(|error| format!("{ACCEPTANCE} cannot be read: {error}"))?;
    if Digest::of(&bytes) != digest {
        return Err(format!("{ACCEPTANCE} is not what it was at the start"));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("{ACCEPTANCE} cannot be read: {error}"))
}
