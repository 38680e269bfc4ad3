//! A suite: a folder of cases.

mod adding;
mod described;
mod task_file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::name::{InvalidName, Name};
use crate::acceptance::{Acceptance, Description};
use crate::attempt::Task;
use crate::digest::Digest;
use crate::evidence;
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};
use crate::policy::Paths;

pub(super) use adding::Adding;
pub(super) use described::{Described, one};
pub(super) use task_file::{Answer, Bytes, Check, Command, Hidden, Io, TaskFile, Tests, Wanted};

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
/// | `.new-<n>`, `.tmp-<n>-<n>` | what [`NewCase`](super::NewCase) is making, or a program that was ended has left of it; no part of the suite, and removed with the next case that is added |
/// | `cases/<id>/task.json` | see below |
/// | `cases/<id>/files/` | the files at the start |
/// | `cases/<id>/tests/` | the files of the check that the candidate may be shown: tests, and what they need |
/// | `cases/<id>/hidden/` | the files of the check that it never sees; it runs in a fresh place |
///
/// Whatever else is there is refused, because nobody could tell whether it counts. `tests/` and
/// `hidden/` are there where a check has files. They are put over the candidate's when the check runs,
/// without a permission to run, so a file that has one is refused: `["sh", "check.sh"]` needs none.
///
/// # `task.json`
///
/// It says what is asked for and what decides. The words of a check are those of the acceptance that
/// it becomes, and so are their defaults:
///
/// | member | what |
/// |---|---|
/// | `task` | what the candidate is asked for |
/// | `expected` | what is right, for people |
/// | `editable`, `readable` | lists of paths, as [`Paths`] has them |
/// | `tests`, `command` or `io_cases` | what decides; one of them |
/// | `hidden` | what decides after that has passed, in a fresh place, and the candidate hears only that it did not pass; may be missing. It has the members `path` and `count`, as `tests` has (and only after `tests`), or `command`, or `io_cases` |
/// | `origin` | where the case is from, for people; may be missing |
///
/// | check | members | becomes |
/// |---|---|---|
/// | `tests` | `path`, `count`: a file of Python's `unittest`, and how many tests have to run | [`UnittestAcceptance`] |
/// | `command` | `argv`; `counter` (`unittest`, `pytest`, `libtest` for `cargo test`) with `tests`, how many have to run; `variables`, an object; `inherit`, a list of names of variables that are taken over from the place; `dir`; `may_change`, a list of paths; `limit_ms` | [`CommandAcceptance`] |
/// | `io_cases` | `command`, the program with its arguments, or `python`, an object with `file` and `function`; `cases`; `inherit`, as above; `limit_ms` | [`IoCases`] |
///
/// Each of them can have `"fresh": true`, to run in a fresh place as well, which [`Level::Isolated`]
/// needs. The limit of an attempt for its checks applies beside `limit_ms`, and programs are looked
/// for where the evaluation says, or where the place says if `PATH` is inherited. A crate needs its
/// `Cargo.lock`, as cargo writes it: in a sandbox that isolates it cannot be made.
///
/// A case of `io_cases` has a `name`; `input`, a text, or `call`, a list of arguments; `expected`;
/// and `"shown": true` where the candidate may see it when it fails. `expected` is
/// `{"text": "3"}`, `{"json": [1, 2]}`, `{"bytes": {"base64": "/w=="}}`,
/// `{"json_within": {"value": 0.1, "absolute": 1e-9, "relative": 0}}`, and of functions also
/// `{"typed": {"of_type": "Decimal", "text": "1.50"}}` and `{"raised": "ValueError"}`; see
/// [`Expected`]. It stays where `task.json` is: no file, no input and no argument of a sandbox has
/// it.
///
/// # Examples
/// A case with a command, one with inputs and answers, and one with tests of Python:
/// ```
/// use agent_loop::Level;
/// use agent_loop::evaluation::Suite;
/// # let folder = tempfile::tempdir()?;
/// # let write = |path: &str, text: &str| {
/// #     let path = folder.path().join(path);
/// #     std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
/// #     std::fs::write(path, text)
/// # };
///
/// write("suite.json", r#"{"format": 1, "name": "numbers", "revision": 1, "about": "…"}"#)?;
///
/// write("cases/clamp-rs/task.json", r#"{
///   "task": "clamp(x, low, high) in src/lib.rs must return x, but never less than low or more than high.",
///   "expected": "values outside the limits become the nearer limit",
///   "editable": ["src"],
///   "readable": ["tests/clamp.rs"],
///   "command": {
///     "argv": ["cargo", "test", "--offline", "--test", "clamp"],
///     "counter": "libtest", "tests": 3,
///     "variables": {"CARGO_TARGET_DIR": "../cache"},
///     "inherit": ["PATH", "RUSTUP_HOME", "CARGO_HOME"],
///     "limit_ms": 120000
///   },
///   "hidden": {"command": {
///     "argv": ["cargo", "test", "--offline", "--test", "more"],
///     "counter": "libtest", "tests": 4,
///     "variables": {"CARGO_TARGET_DIR": "../cache"},
///     "inherit": ["PATH", "RUSTUP_HOME", "CARGO_HOME"]
///   }}
/// }"#)?;
/// write("cases/clamp-rs/files/Cargo.toml", "# …")?;
/// write("cases/clamp-rs/files/Cargo.lock", "# …")?;
/// write("cases/clamp-rs/files/src/lib.rs", "// …")?;
/// write("cases/clamp-rs/tests/tests/clamp.rs", "// …")?;
/// write("cases/clamp-rs/hidden/tests/more.rs", "// …")?;
///
/// write("cases/amounts/task.json", r#"{
///   "task": "parse_amount(text) in amounts.py must return a Decimal, and raise ValueError on invalid input.",
///   "expected": "money is no float",
///   "editable": ["amounts.py"],
///   "readable": [],
///   "io_cases": {
///     "python": {"file": "amounts.py", "function": "parse_amount"},
///     "cases": [
///       {"name": "plain", "call": ["1.50"], "expected": {"typed": {"of_type": "Decimal", "text": "1.50"}}, "shown": true},
///       {"name": "no number", "call": ["12x"], "expected": {"raised": "ValueError"}}
///     ]
///   }
/// }"#)?;
/// write("cases/amounts/files/amounts.py", "# …")?;
///
/// write("cases/clamp-py/task.json", r#"{
///   "task": "clamp(x, low, high) in clamp.py must return x, but never less than low or more than high.",
///   "expected": "values outside the limits become the nearer limit",
///   "editable": ["clamp.py"],
///   "readable": ["test_clamp.py"],
///   "tests": {"path": "test_clamp.py", "count": 3},
///   "hidden": {"path": "test_clamp_more.py", "count": 4}
/// }"#)?;
/// write("cases/clamp-py/files/clamp.py", "# …")?;
/// write("cases/clamp-py/tests/test_clamp.py", "# …")?;
/// write("cases/clamp-py/hidden/test_clamp_more.py", "# …")?;
///
/// let suite = Suite::load(folder.path())?;
/// let decides = suite.cases().iter().map(|case| {
///     let acceptance = case.acceptance();
///     let plan = acceptance.names().first().and_then(|name| acceptance.plan(name));
///     plan.map(|plan| (case.id(), plan.stages.len(), plan.level))
/// });
/// assert_eq!(
///     decides.collect::<Vec<_>>(),
///     [
///         Some(("amounts", 2, Level::OutsideValues)),
///         Some(("clamp-py", 2, Level::Counted)),
///         Some(("clamp-rs", 2, Level::Counted)),
///     ]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`CommandAcceptance`]: crate::acceptance::CommandAcceptance
/// [`Expected`]: crate::acceptance::Expected
/// [`IoCases`]: crate::acceptance::IoCases
/// [`Level::Isolated`]: crate::Level::Isolated
/// [`UnittestAcceptance`]: crate::UnittestAcceptance
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
    acceptance: Description,
    digest: Digest,
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
    #[error("{}: {field} is not what a suite has there", path.display())]
    #[non_exhaustive]
    Json {
        /// Which.
        path: PathBuf,
        /// The member with its path, `command.limit_ms`; `.` where it is none.
        field: String,
        /// Where and why.
        source: serde_json::Error,
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
            let is_part = ["suite.json", "README.md", "cases"].contains(&entry.as_str());
            if !is_part && !adding::is_unfinished(&entry) {
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
        let about: Self = parse(path, bytes)?;
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
        let about: TaskFile = parse(&path, &bytes)?;
        let files = tree(&folder.join("files"))?;
        let [tests, hidden] = ["tests", "hidden"].map(|name| match folder.join(name) {
            folder if folder.exists() => tree(&folder),
            _ => Ok(Tree::new()),
        });
        let (tests, hidden) = (tests?, hidden?);
        let trees = [&files, &tests, &hidden].map(|tree| tree.hash().digest());
        let trees = trees.iter().map(|digest| digest.as_bytes().as_slice());
        let parts = [b"case 1".as_slice(), &bytes].into_iter().chain(trees);
        let digest = Digest::of_parts(parts);
        if let Some(problem) = problem(&about, &files, &tests, &hidden) {
            return Err(SuiteError::content(&path, problem));
        }
        let acceptance = about
            .acceptance(&tests, &hidden)
            .map_err(|problem| SuiteError::content(&path, problem))?;
        Ok(Self {
            id: name,
            about,
            files,
            tests,
            acceptance,
            digest,
        })
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

    /// What decides: the visible check, and then the hidden one in a fresh place.
    #[must_use]
    pub fn acceptance(&self) -> Arc<dyn Acceptance> {
        self.acceptance.acceptance()
    }

    /// The same, written down.
    pub(super) fn description(&self) -> &Description {
        &self.acceptance
    }

    /// Whether it has a check that the candidate never sees.
    #[must_use]
    pub fn has_hidden_tests(&self) -> bool {
        self.about.hidden.is_some()
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

/// What is wrong with a case, whatever decides about it.
fn problem(about: &TaskFile, files: &Tree, tests: &Tree, hidden: &Tree) -> Option<String> {
    let twice = tests.iter().find(|(path, _)| files.get(path).is_some());
    let executable = |tree: &Tree| {
        let mut all = tree.iter();
        let found = all.find(|(_, file)| file.is_executable())?;
        Some(found.0.clone())
    };
    // A file of hidden tests of `unittest` is read and not run, and always could be one.
    let is_run = about
        .hidden
        .as_ref()
        .is_some_and(|more| more.path.is_none());
    let unseen = is_run.then_some(hidden);
    let mut kept = [files, tests].into_iter().chain(unseen);
    let mut editable = about.editable.iter();
    if let Some((path, _)) = twice {
        Some(format!("{path} is in files and in tests"))
    } else if let Some(path) = kept.find_map(executable) {
        Some(format!("{path} is executable, which a case cannot keep"))
    } else if about.editable.is_empty() {
        Some("nothing may be edited".to_owned())
    } else {
        let path = editable.find(|path| tests.get(path).or_else(|| hidden.get(path)).is_some())?;
        Some(format!("{path} is a test and may be edited"))
    }
}

/// A file of JSON; of what is wrong with it, the member.
fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, SuiteError> {
    let wrong = |field: String, source| SuiteError::Json {
        path: path.to_owned(),
        field,
        source,
    };
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut input)
        .map_err(|error| wrong(error.path().to_string(), error.into_inner()))?;
    match input.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(wrong(".".to_owned(), error)),
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
