//! What is to be done: the repair of an amount parser, or a folder with a task of its own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_loop::acceptance::{CommandAcceptance, Counter};
use agent_loop::workspace::{Precondition, SandboxWorkspace};
use agent_loop::{
    Acceptance, File, Order, Paths, RelPath, RequestId, Task, UnittestAcceptance, Workspace as _,
};
use anyhow::{Context as _, Result, bail, ensure};

use crate::flags::Flags;

const TASK: &str = "parse_amount(text) in amounts.py must return a Decimal, accept thousands \
    separators such as \"$1,234.50\", ignore surrounding white space, and raise ValueError on \
    invalid input.";
const SOURCE: &str = include_str!("fixture/amounts.py");
const TESTS: &str = include_str!("fixture/test_amounts.py");
/// How many checks the tests are.
const COUNT: u32 = 4;

/// What a model is told at the start where the task is a crate. The default is about Python.
const OF_CRATES: &str = r#"You repair a small Rust crate. Answer every turn with one JSON action and nothing else.
read shows a file. write replaces a whole file with content. check runs the tests. finish ends the work; it is accepted only after a check has passed.
The actions look like this:
{"step": {"action": "read", "path": "src/area.rs"}}
{"step": {"action": "write", "path": "src/area.rs", "content": "pub fn area(w: u32, h: u32) -> u32 {\n    w * h\n}\n", "done": true}}
{"step": {"action": "check"}}
{"step": {"action": "finish"}}
"#;

/// The most files of a task, and the most bytes of one.
const MOST_FILES: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// A task with what decides about it.
pub(crate) struct Job {
    /// Letters, digits, `-` and `_`.
    pub(crate) name: String,
    pub(crate) task: Task,
    pub(crate) paths: Paths,
    pub(crate) acceptance: Arc<dyn Acceptance>,
    pub(crate) order: Order,
    /// What the model is told at the start, if not the default.
    pub(crate) system: Option<&'static str>,
    /// The check, where the number of its tests is not known yet.
    uncounted: Option<Uncounted>,
}

/// A check with the files that the number of its tests is learned from.
struct Uncounted {
    acceptance: CommandAcceptance,
    counter: Counter,
    files: Vec<(RelPath, File)>,
}

impl Job {
    /// What the flags ask for.
    pub(crate) fn of(flags: &Flags) -> Result<Self> {
        match (&flags.task, &flags.check) {
            (Some(folder), Some(check)) => Self::own(flags, folder, check),
            _ => Self::amounts(flags),
        }
    }

    fn amounts(flags: &Flags) -> Result<Self> {
        let acceptance = UnittestAcceptance::new("test_amounts.py", TESTS, COUNT)?;
        let mut acceptance = acceptance.limit(flags.check_limit());
        if flags.place.local {
            acceptance = acceptance.search_path(local_search_path());
        }
        let name = "amount-parser-repair".to_owned();
        Ok(Self {
            task: Task::new(name.as_str(), TASK)
                .file("amounts.py", SOURCE)?
                .file("test_amounts.py", TESTS)?,
            name,
            paths: Paths::editable(["amounts.py"])?.readable(["test_amounts.py"])?,
            acceptance: Arc::new(acceptance),
            order: Order::Forced,
            system: None,
            uncounted: None,
        })
    }

    fn own(flags: &Flags, folder: &Path, check: &str) -> Result<Self> {
        let shown = folder.display();
        let name = named(folder)?;
        let text = match &flags.text {
            Some(text) => text.clone(),
            None => fs::read_to_string(folder.join("TASK.md"))
                .with_context(|| format!("say what is to be done: --text, or {shown}/TASK.md"))?,
        };
        let files = files(folder)?;
        let mut task = Task::new(name.as_str(), text.trim());
        for (path, file) in &files {
            task = task.file(path.as_str(), file.bytes())?;
        }
        let paths = Paths::editable(&flags.editable)?;
        let there = |path: &RelPath| files.iter().any(|(file, _)| file == path);
        for text in &flags.editable {
            let path = RelPath::parse(text)?;
            let is_folder = folder.join(path.as_str()).is_dir();
            ensure!(
                there(&path) || is_folder,
                "--editable {text}: {shown} has no such file"
            );
        }
        // Everything that is text can be shown.
        let readable = files.iter().filter(|(path, file)| {
            !paths.may_write(path) && std::str::from_utf8(file.bytes()).is_ok()
        });
        let readable: Vec<&str> = readable.map(|(path, _)| path.as_str()).collect();
        let argv = shlex::split(check).filter(|argv| !argv.is_empty());
        let argv = argv.with_context(|| format!("--check {check:?}: a quote does not end"))?;
        let counter = counter(&argv);
        let mut acceptance = match counter {
            Counter::Libtest => cargo(argv)?,
            _ => CommandAcceptance::new(argv)
                // A cache beside the code would be a file that the check left behind.
                .variable("PYTHONDONTWRITEBYTECODE", "1")
                .variable("PYTHONPYCACHEPREFIX", "../cache"),
        };
        acceptance = acceptance.limit(flags.check_limit());
        for path in &flags.may_change {
            acceptance = acceptance.may_change(path)?;
        }
        if flags.place.local {
            acceptance = acceptance.search_path(local_search_path());
        }
        let mut uncounted = None;
        match (counter, flags.tests) {
            (Counter::None, Some(_)) => bail!(
                "--tests: only `unittest`, `pytest` and `cargo test` say how many tests ran, and \
                 --check runs none of them"
            ),
            (Counter::None, None) => {}
            (counter, Some(tests)) => acceptance = acceptance.counted_by(counter, tests),
            (counter, None) => {
                uncounted = Some(Uncounted {
                    acceptance: acceptance.clone(),
                    counter,
                    files: files.clone(),
                });
            }
        }
        Ok(Self {
            name,
            task,
            order: match flags.editable.len() {
                1 => Order::Forced,
                _ => Order::Open,
            },
            paths: paths.readable(readable)?,
            acceptance: Arc::new(acceptance),
            system: (counter == Counter::Libtest).then_some(OF_CRATES),
            uncounted,
        })
    }

    /// The same, with the number of tests that run before anything is changed, where it is not
    /// known. It runs in a place of its own beside the workspace.
    pub(crate) async fn counted(mut self, workspace: &SandboxWorkspace) -> Result<Self> {
        let Some(uncounted) = self.uncounted.take() else {
            return Ok(self);
        };
        let Uncounted {
            acceptance,
            counter,
            files,
        } = uncounted;
        let id: RequestId = format!("{}-0.0.1", self.name).parse()?;
        let place = workspace.fresh_dir(&id).await?;
        for (path, file) in files {
            let path = RelPath::parse(&format!("work/{path}"))?;
            place.put(&id, &path, &file, Precondition::Absent).await?;
        }
        let names = acceptance.names();
        let plan = names.first().and_then(|name| acceptance.plan(name));
        let stage = plan.as_ref().and_then(|plan| plan.stages.first());
        let stage = stage.context("the check has no plan")?;
        let spec = stage.spec.clone().dir(RelPath::parse("work")?);
        let receipt = place.exec(&id, &spec).await?;
        place.stop().await;
        let ran = counter.ran(&receipt).filter(|tests| *tests > 0);
        let tests = ran.with_context(|| {
            let (ending, said) = (receipt.ending(), String::from_utf8_lossy(&receipt.stderr));
            format!(
                "the check ran no test that can be counted before the change ({ending}); say \
                 --tests N\n{said}"
            )
        })?;
        println!(
            "check: {tests} tests before the change, {}",
            receipt.ending()
        );
        self.acceptance = Arc::new(acceptance.counted_by(counter, tests));
        Ok(self)
    }
}

/// The name of the folder, as a task can have it.
fn named(folder: &Path) -> Result<String> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("--task {}", folder.display()))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .take(60)
        .collect();
    ensure!(!name.is_empty(), "--task / is no folder of a task");
    Ok(name)
}

/// The files of a task, in the order of their names. What a version control, Python or cargo keeps
/// for itself is left out.
fn files(root: &Path) -> Result<Vec<(RelPath, File)>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if [".git", "__pycache__", "TASK.md"]
                .iter()
                .any(|skipped| name == *skipped)
            {
                continue;
            }
            let shown = path.display();
            if kind.is_dir() {
                // As cargo marks the folder of its results.
                if !path.join("CACHEDIR.TAG").is_file() {
                    folders.push(path);
                }
            } else if kind.is_file() {
                let len = entry.metadata()?.len();
                ensure!(
                    len <= MOST_BYTES,
                    "{shown} has {len} bytes; {MOST_BYTES} are allowed"
                );
                let inside = path.strip_prefix(root)?;
                let inside = inside
                    .to_str()
                    .with_context(|| format!("{shown} is no text"))?;
                files.push((RelPath::parse(inside)?, File::new(fs::read(&path)?)));
            } else {
                bail!("{shown} is neither a file nor a folder");
            }
            ensure!(files.len() <= MOST_FILES, "more than {MOST_FILES} files");
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}

/// `cargo test`, with the toolchain of its sandbox and the results beside the code.
fn cargo(mut argv: Vec<String>) -> Result<CommandAcceptance> {
    // It would leave out the programs that come after one that fails, and they are counted before
    // the change.
    if !argv.iter().any(|word| word == "--no-fail-fast") {
        let at = argv.iter().position(|word| word == "test").unwrap_or(0);
        argv.insert(at + 1, "--no-fail-fast".to_owned());
    }
    Ok(CommandAcceptance::cargo(argv)?)
}

/// Who counts the results of this command.
fn counter(argv: &[String]) -> Counter {
    let runs = |name: &str| {
        argv.iter()
            .any(|word| word == name || word.ends_with(&format!("/{name}")))
    };
    match (runs("pytest"), runs("unittest")) {
        _ if runs("cargo") && argv.iter().any(|word| word == "test") => Counter::Libtest,
        (true, _) => Counter::Pytest,
        (_, true) => Counter::Unittest,
        _ => Counter::None,
    }
}

/// Where programs may be on this machine: the usual folders, and then wherever they are for us.
fn local_search_path() -> String {
    let usual = "/usr/local/bin:/usr/bin:/bin";
    match std::env::var("PATH") {
        Ok(ours) => format!("{usual}:{ours}"),
        Err(_) => usual.to_owned(),
    }
}
