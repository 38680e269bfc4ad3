//! A failed attempt becomes a case.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::error::whole;
use super::suite::{Case, Suite, SuiteError, SuiteFile, TaskFile, Tests, write_json};
use crate::journal::{Answer, Event, Started};
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};
use crate::private;
use crate::report::Run;

/// A failed attempt as a case, without what it must not tell.
///
/// It holds what the attempt began with: the text of the task, the files, and the tests that the
/// model could be shown. Neither replies nor output are in it. Values of secret names, folders of
/// people, and whatever names the workspace are replaced, also in files; what that has changed is in
/// `origin` of `task.json`, so look at it before the case is used.
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
    hidden: Option<(RelPath, File)>,
}

/// Where a case is from, in `task.json`.
#[derive(Serialize)]
struct Origin {
    /// The last line of the attempt's journal.
    chain_head: Option<crate::Digest>,
    /// How it ended.
    end: String,
    /// What was taken out of which file, or of the text.
    changed: BTreeMap<String, &'static str>,
}

impl NewCase {
    /// The failed attempt in `run` as a case, of which `expected` says in words what is right.
    ///
    /// # Errors
    /// Where the attempt is not over or was accepted, or its tests are not among its files.
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
        let mut cleaner = Cleaner::new(&run.started);
        let (tests, fixtures) = tests(&run.started, opened).map_err(refuse)?;
        let mut files = Tree::new();
        let mut kept = Tree::new();
        for (path, file) in opened.iter() {
            let clean = cleaner.file(path, file);
            match fixtures.contains(path) {
                true => kept.insert(path.clone(), clean),
                false => files.insert(path.clone(), clean),
            };
        }
        let paths = &run.started.paths;
        let readable = opened.iter().map(|(path, _)| path);
        let readable = readable.filter(|path| paths.may_read(path) && !paths.may_write(path));
        let about = TaskFile {
            task: cleaner.text("the text of the task", &run.started.text),
            expected: expected.into(),
            editable: paths.editable_entries().cloned().collect(),
            readable: readable.cloned().collect(),
            tests,
            hidden: None,
            origin: serde_json::to_value(Origin {
                chain_head: run.outcome.chain_head,
                end: run.outcome.end.to_string(),
                changed: cleaner.changed,
            })
            .ok(),
        };
        Ok(Self {
            about,
            files,
            tests: kept,
            hidden: None,
        })
    }

    /// Adds a file of `unittest` tests that no candidate sees, of which `count` have to run. Those
    /// of the attempt are not taken over.
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
        self.about.hidden = Some(Tests {
            path: path.clone(),
            count,
        });
        self.hidden = Some((path, File::new(tests)));
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
            .map(|(at, what)| format!("{at}: {what}"))
            .collect()
    }

    /// Writes the case `id` into the suite in the folder `suite`, and raises the revision of the
    /// suite, which has another digest from then on.
    ///
    /// # Errors
    /// Where the suite cannot be read or written, has such a case, or the case cannot be used.
    pub fn add_to(self, suite: impl AsRef<Path>, id: &str) -> Result<Suite, SuiteError> {
        let root = suite.as_ref();
        if Suite::load(root)?.case(id).is_some() {
            return Err(SuiteError::content(
                root,
                format!("there is a case {id} already"),
            ));
        }
        let path = root.join("suite.json");
        let bytes = fs::read(&path).map_err(SuiteError::io(&path))?;
        let mut about = SuiteFile::parse(&path, &bytes)?;
        // Beside its place, so that the suite has all of it or nothing.
        let made = root.join(format!(".new-{}", std::process::id()));
        let place = root.join("cases").join(id);
        let moved = self
            .write(&made)
            .and_then(|()| Case::load(&made, id).map(drop))
            .and_then(|()| fs::rename(&made, &place).map_err(SuiteError::io(&place)));
        if moved.is_err() {
            // What failed is told; that it cannot be removed either says nothing more.
            drop(fs::remove_dir_all(&made));
        }
        moved?;
        about.revision = about.revision.saturating_add(1);
        write_json(&path, &about).map_err(SuiteError::io(&path))?;
        Suite::load(root)
    }

    fn write(&self, folder: &Path) -> Result<(), SuiteError> {
        let hidden: Tree = self.hidden.iter().cloned().collect();
        for (name, tree) in [
            ("files", &self.files),
            ("tests", &self.tests),
            ("hidden", &hidden),
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

/// The visible tests of an attempt, and the files that belong to them.
fn tests(started: &Started, opened: &Tree) -> Result<(Tests, Vec<RelPath>), String> {
    let mut plans = started.checks.values();
    let (Some(plan), None) = (plans.next(), plans.next()) else {
        return Err("a case has one check, and the attempt had another number".to_owned());
    };
    let stage = plan.stages.first().ok_or("the check has no stage")?;
    let count = stage.tests.ok_or("the check does not count its tests")?;
    let mut fixtures = Vec::new();
    for (path, entry) in stage.fixtures.iter() {
        let there = opened.get(path).map(|file| file.entry());
        if there.as_ref() != Some(entry) {
            return Err(format!(
                "{path} belongs to the check, and was not among the files"
            ));
        }
        fixtures.push(path.clone());
    }
    // The command names the file of the tests; what else belongs to the check it does not.
    let named = |path: &&RelPath| stage.argv.iter().any(|arg| arg.contains(path.file_name()));
    let mut tests = fixtures.iter().filter(named);
    match (tests.next(), tests.next()) {
        (Some(path), None) => Ok((
            Tests {
                path: path.clone(),
                count,
            },
            fixtures.clone(),
        )),
        _ => Err("the command of the check does not name one file of tests".to_owned()),
    }
}

/// Takes out what a case must not tell, and keeps what it has changed.
struct Cleaner {
    /// What names the workspace: a uuid, a host, a project.
    names: Vec<String>,
    changed: BTreeMap<String, &'static str>,
}

impl Cleaner {
    fn new(started: &Started) -> Self {
        let mut names = Vec::new();
        collect(&started.workspace.identity, &mut names);
        Self {
            names,
            changed: BTreeMap::new(),
        }
    }

    fn file(&mut self, path: &RelPath, file: &File) -> File {
        let Ok(text) = std::str::from_utf8(file.bytes()) else {
            let at = path.to_string();
            self.changed
                .insert(at, "is no text, so nothing was looked for");
            return file.clone();
        };
        File::new(self.text(path.as_str(), text))
    }

    fn text(&mut self, at: &str, text: &str) -> String {
        let mut clean = text.to_owned();
        for name in &self.names {
            clean = clean.replace(name.as_str(), "workspace");
        }
        clean = without_people(&private::redact(&clean));
        if clean != text {
            let what = "secrets, names of the workspace or folders of people were replaced";
            self.changed.insert(at.to_owned(), what);
        }
        clean
    }
}

/// The texts in a value that are long enough to name something.
fn collect(value: &serde_json::Value, names: &mut Vec<String>) {
    use serde_json::Value;
    match value {
        Value::String(text) if text.len() >= 8 => names.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(members) => members.values().for_each(|item| collect(item, names)),
        _ => {}
    }
}

/// The text with another name in the folders of people: `/home/<name>` and `/Users/<name>`.
fn without_people(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let found = ["/home/", "/Users/"]
            .iter()
            .filter_map(|folder| rest.find(folder).map(|at| at + folder.len()))
            .min();
        let Some(at) = found else {
            out.push_str(rest);
            return out;
        };
        let (before, after) = rest.split_at(at);
        let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        out.push_str(before);
        out.push_str(if end > 0 { "user" } else { "" });
        rest = after.get(end..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_people_lose_their_names() {
        let table = [
            ("/home/ada/x and /Users/b.c", "/home/user/x and /Users/user"),
            ("/home/", "/home/"),
            ("no folder", "no folder"),
        ];
        for (text, clean) in table {
            assert_eq!(without_people(text), clean);
        }
    }
}
