//! A suite: a folder of cases.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::name::{InvalidName, Name};
use crate::acceptance::{InvalidTests, UnittestAcceptance};
use crate::attempt::Task;
use crate::digest::Digest;
use crate::evidence;
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};
use crate::policy::Paths;

/// The version of the format.
const FORMAT: u32 = 1;
/// The most bytes of one folder of a case.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// A set of cases with one digest over all their bytes.
///
/// It is a folder:
///
/// | path | what |
/// |---|---|
/// | `suite.json` | `format` (1), `name`, `revision` (a number that people raise), `about` |
/// | `README.md` | for people; no part of the suite |
/// | `cases/<id>/task.json` | see below |
/// | `cases/<id>/files/` | the files at the start |
/// | `cases/<id>/tests/` | the tests that the candidate may be shown, and what they need |
/// | `cases/<id>/hidden/` | a file of tests that it never sees; they run in a fresh place |
///
/// `task.json` says what is asked for and what decides:
///
/// ```json
/// {
///   "task": "clamp(x, low, high) in clamp.py must return x, but never less than low or more than high.",
///   "expected": "values outside the limits become the nearer limit",
///   "editable": ["clamp.py"],
///   "readable": ["test_clamp.py"],
///   "tests": {"path": "test_clamp.py", "count": 3},
///   "hidden": {"path": "test_clamp_more.py", "count": 4}
/// }
/// ```
///
/// Whatever else is there is refused, because nobody could tell whether it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    name: String,
    revision: u32,
    digest: Digest,
    cases: Vec<Case>,
}

/// A suite as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuiteRef {
    /// Its name.
    pub name: String,
    /// The number that people gave it.
    pub revision: u32,
    /// The digest of all its bytes: what was compared on the same one can be compared.
    pub case_set_revision: Digest,
    /// How many cases it has.
    pub cases: usize,
}

/// One case of a suite.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    id: Name,
    about: TaskFile,
    files: Tree,
    tests: Tree,
    hidden: Option<File>,
    digest: Digest,
}

/// `task.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskFile {
    pub(super) task: String,
    pub(super) expected: String,
    pub(super) editable: Vec<RelPath>,
    pub(super) readable: Vec<RelPath>,
    pub(super) tests: Tests,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<Tests>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<serde_json::Value>,
}

/// A file of tests, and how many have to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tests {
    pub(super) path: RelPath,
    pub(super) count: u32,
}

/// `suite.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    format: u32,
    name: String,
    pub(super) revision: u32,
    about: String,
}

/// A suite that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file or folder cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    #[non_exhaustive]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of JSON is not as it should be.
    #[error("{} is not what a suite has there", path.display())]
    #[non_exhaustive]
    Json {
        /// Which.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The tests of a case cannot be run.
    #[error("the tests of the case {case} cannot be run")]
    #[non_exhaustive]
    Tests {
        /// Which case.
        case: String,
        /// Why.
        source: InvalidTests,
    },
    /// Something is there that does not belong there, or is missing.
    #[error("{}: {problem}", path.display())]
    #[non_exhaustive]
    Content {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl SuiteError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

impl Suite {
    /// Reads the suite in `folder`.
    ///
    /// # Errors
    /// Where something in it cannot be read, is missing, or does not belong there.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, SuiteError> {
        let folder = folder.as_ref();
        let path = folder.join("suite.json");
        let bytes = fs::read(&path).map_err(SuiteError::io(&path))?;
        let about = SuiteFile::parse(&path, &bytes)?;
        for entry in entries(folder)? {
            if !["suite.json", "README.md", "cases"].contains(&entry.as_str()) {
                return Err(SuiteError::content(
                    &folder.join(entry),
                    "is no part of a suite",
                ));
            }
        }
        let root = folder.join("cases");
        let mut cases = Vec::new();
        for id in entries(&root)? {
            cases.push(Case::load(&root.join(&id), &id)?);
        }
        if cases.is_empty() {
            return Err(SuiteError::content(&root, "there is no case"));
        }
        let mut parts = vec![b"suite 1".to_vec(), bytes];
        for case in &cases {
            parts.push(case.id().as_bytes().to_vec());
            parts.push(case.digest.as_bytes().to_vec());
        }
        Ok(Self {
            name: about.name,
            revision: about.revision,
            digest: Digest::of_parts(parts.iter().map(Vec::as_slice)),
            cases,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest of all its bytes, as the input `case_set_revision` of a run.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its cases, by their ids.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The case `id`.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id() == id)
    }

    /// Only the cases that `keep` chooses. It is another suite, with a digest of its own.
    ///
    /// # Errors
    /// Where none is left; the error is how many there were.
    pub fn only(mut self, keep: impl Fn(&Case) -> bool) -> Result<Self, usize> {
        let all = self.cases.len();
        self.cases.retain(|case| keep(case));
        if self.cases.is_empty() {
            return Err(all);
        }
        if self.cases.len() < all {
            let mut parts = vec![b"part of a suite 1".as_slice(), self.digest.as_bytes()];
            parts.extend(self.cases.iter().map(|case| case.id().as_bytes()));
            self.digest = Digest::of_parts(parts);
        }
        Ok(self)
    }

    pub(super) fn as_ref(&self) -> SuiteRef {
        SuiteRef {
            name: self.name.clone(),
            revision: self.revision,
            case_set_revision: self.digest,
            cases: self.cases.len(),
        }
    }
}

impl SuiteFile {
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, SuiteError> {
        let about: Self = serde_json::from_slice(bytes).map_err(|source| SuiteError::Json {
            path: path.to_owned(),
            source,
        })?;
        if about.format != FORMAT {
            let problem = format!(
                "has format {}, and this reads format {FORMAT}",
                about.format
            );
            return Err(SuiteError::content(path, problem));
        }
        Ok(about)
    }
}

impl Case {
    pub(super) fn load(folder: &Path, id: &str) -> Result<Self, SuiteError> {
        let name = id
            .parse()
            .map_err(|error: InvalidName| SuiteError::content(folder, error.to_string()))?;
        for entry in entries(folder)? {
            if !["task.json", "files", "tests", "hidden"].contains(&entry.as_str()) {
                return Err(SuiteError::content(
                    &folder.join(entry),
                    "is no part of a case",
                ));
            }
        }
        let path = folder.join("task.json");
        let bytes = fs::read(&path).map_err(SuiteError::io(&path))?;
        let about: TaskFile =
            serde_json::from_slice(&bytes).map_err(|source| SuiteError::Json {
                path: path.clone(),
                source,
            })?;
        let files = tree(&folder.join("files"))?;
        let tests = tree(&folder.join("tests"))?;
        let hidden = match folder.join("hidden") {
            folder if folder.exists() => tree(&folder)?,
            _ => Tree::new(),
        };
        let trees = [&files, &tests, &hidden].map(|tree| tree.hash().digest());
        let trees = trees.iter().map(|digest| digest.as_bytes().as_slice());
        let parts = [b"case 1".as_slice(), &bytes].into_iter().chain(trees);
        let digest = Digest::of_parts(parts);
        let problem = about.problem(&files, &tests, &hidden);
        if let Some(problem) = problem {
            return Err(SuiteError::content(&path, problem));
        }
        let hidden = about
            .hidden
            .as_ref()
            .and_then(|about| hidden.get(&about.path));
        let case = Self {
            id: name,
            hidden: hidden.map(|file| File::clone(file)),
            about,
            files,
            tests,
            digest,
        };
        match case.acceptance() {
            Ok(_) => Ok(case),
            Err(source) => Err(SuiteError::Tests {
                case: id.to_owned(),
                source,
            }),
        }
    }

    /// Its id: the name of its folder.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// What the candidate is asked for.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.about.task
    }

    /// What is expected, for people.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.about.expected
    }

    /// The files at the start, the visible tests not among them.
    #[must_use]
    pub fn files(&self) -> &Tree {
        &self.files
    }

    /// What may be written.
    #[must_use]
    pub fn editable(&self) -> &[RelPath] {
        &self.about.editable
    }

    /// What decides: the visible tests, and then the hidden ones in a fresh place.
    ///
    /// # Errors
    /// None for a case that was loaded.
    pub fn acceptance(&self) -> Result<UnittestAcceptance, InvalidTests> {
        let of = |tree: &Tree, path| tree.get(path).map(|file| file.bytes().to_vec());
        let Tests { path, count } = &self.about.tests;
        let main = of(&self.tests, path).unwrap_or_default();
        let mut acceptance = UnittestAcceptance::new(path, main, *count)?;
        for (other, file) in self.tests.iter().filter(|(other, _)| *other != path) {
            acceptance = acceptance.fixture(other, file.bytes())?;
        }
        if let (Some(about), Some(file)) = (&self.about.hidden, &self.hidden) {
            acceptance = acceptance.hidden(&about.path, file.bytes(), about.count)?;
        }
        Ok(acceptance)
    }

    /// Whether it has tests that the candidate never sees.
    #[must_use]
    pub fn has_hidden_tests(&self) -> bool {
        self.hidden.is_some()
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// The task of try `attempt` of `candidate`. The visible tests are in the workspace as well.
    pub(super) fn task(&self, candidate: &Name, attempt: u32) -> Result<Task, InvalidPath> {
        let mut task = Task::new(self.task_id(candidate), self.text()).attempt(attempt);
        for (path, file) in self.files.iter().chain(self.tests.iter()) {
            task = task.file(path, file.bytes())?;
        }
        Ok(task)
    }

    /// The id of the task: whose evidence it is stands in every record and in the outcome.
    pub(super) fn task_id(&self, candidate: &Name) -> String {
        format!("{candidate}:{}", self.id)
    }

    pub(super) fn paths(&self) -> Result<Paths, InvalidPath> {
        Paths::editable(&self.about.editable)?.readable(&self.about.readable)
    }
}

impl TaskFile {
    /// What is wrong with it, beside these files.
    fn problem(&self, files: &Tree, tests: &Tree, hidden: &Tree) -> Option<String> {
        let twice = tests.iter().find(|(path, _)| files.get(path).is_some());
        let executable = |tree: &Tree| {
            let mut all = tree.iter();
            let found = all.find(|(_, file)| file.is_executable())?;
            Some(found.0.clone())
        };
        if let Some((path, _)) = twice {
            Some(format!("{path} is in files and in tests"))
        } else if let Some(path) = executable(files).or_else(|| executable(tests)) {
            Some(format!("{path} is executable, which a case cannot keep"))
        } else if self.editable.is_empty() {
            Some("nothing may be edited".to_owned())
        } else if tests.get(&self.tests.path).is_none() {
            Some(format!("tests/{} is missing", self.tests.path))
        } else if let Some(path) = self.editable.iter().find(|path| tests.get(path).is_some()) {
            Some(format!("{path} is a test and may be edited"))
        } else {
            match &self.hidden {
                None if hidden.is_empty() => None,
                Some(about) if hidden.len() == 1 && hidden.get(&about.path).is_some() => None,
                None => Some("hidden/ has files, and nothing says which are tests".to_owned()),
                Some(about) => Some(format!(
                    "hidden/ has to have {} and nothing else",
                    about.path
                )),
            }
        }
    }
}

/// The names in a folder, in order.
fn entries(folder: &Path) -> Result<Vec<String>, SuiteError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(SuiteError::io(folder))? {
        let entry = entry.map_err(SuiteError::io(folder))?;
        let name = entry.file_name().into_string();
        names.push(
            name.map_err(|_| SuiteError::content(&entry.path(), "has a name that is no text"))?,
        );
    }
    names.sort_unstable();
    Ok(names)
}

/// All files below a folder. Links and what is no regular file are refused.
fn tree(root: &Path) -> Result<Tree, SuiteError> {
    let mut tree = Tree::new();
    let mut left = MOST_BYTES;
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for name in entries(&folder)? {
            let path = folder.join(&name);
            let about = fs::symlink_metadata(&path).map_err(SuiteError::io(&path))?;
            if about.is_dir() {
                folders.push((path, format!("{prefix}{name}/")));
                continue;
            }
            if !about.is_file() {
                return Err(SuiteError::content(&path, "is no regular file"));
            }
            left = left
                .checked_sub(about.len())
                .ok_or_else(|| SuiteError::content(root, "is larger than 16 MiB"))?;
            let at = RelPath::parse(&format!("{prefix}{name}"))
                .map_err(|error| SuiteError::content(&path, error.to_string()))?;
            let bytes = fs::read(&path).map_err(SuiteError::io(&path))?;
            tree.insert(at, File::new(bytes).executable(is_executable(&about)));
        }
    }
    Ok(tree)
}

#[cfg(unix)]
fn is_executable(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    about.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_about: &fs::Metadata) -> bool {
    false
}

/// Writes a value as JSON for people, as a whole or not at all.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    evidence::write_file(path, &text)
}
