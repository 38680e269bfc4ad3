//! `cargo xtask tidy`: the rules of the house that a compiler cannot check.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{cargo, root};

mod cases;
mod rules;

/// Which of our crates a published crate may depend on, dev-dependencies aside.
const MAY_KNOW: [(&str, &[&str]); 5] = [
    ("polyaxon-client", &[]),
    ("polyaxon-sandbox", &["polyaxon-client"]),
    ("polyaxon-tracking", &["polyaxon-client"]),
    ("polyaxon-local", &["polyaxon-client", "polyaxon-sandbox"]),
    (
        "agent-loop",
        &["polyaxon-client", "polyaxon-sandbox", "polyaxon-tracking"],
    ),
];

pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let mut problems = String::new();
    for path in tracked_files(&root)? {
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else {
            continue;
        };
        for problem in rules::check(&path, &text) {
            writeln!(problems, "  {}: {problem}", path.display())?;
        }
    }
    for problem in dependencies()? {
        writeln!(problems, "  {problem}")?;
    }
    for problem in few_crates()? {
        writeln!(problems, "  {problem}")?;
    }
    for problem in code_map(&root)? {
        writeln!(problems, "  {problem}")?;
    }
    let list = std::fs::read_to_string(root.join("tests/README.md")).context("tests/README.md")?;
    for problem in cases::check(&list, |file| std::fs::read_to_string(root.join(file)).ok()) {
        writeln!(problems, "  {problem}")?;
    }
    ensure!(problems.is_empty(), "tidy:\n{problems}");
    println!("── tidy: fine");
    Ok(())
}

/// What git knows or would take, so that build folders are left out.
fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git ls-files: {}", output.status);
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// Who knows whom, from the manifests.
fn dependencies() -> Result<Vec<String>> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"])?.output()?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .context("cargo metadata names no packages")?;
    let mut problems = Vec::new();
    for (name, allowed) in MAY_KNOW {
        let Some(package) = packages
            .iter()
            .find(|package| package.get("name").is_some_and(|found| found == name))
        else {
            bail!("there is no crate {name}");
        };
        for dependency in package
            .get("dependencies")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let known = dependency
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let ours = MAY_KNOW.iter().any(|(name, _)| *name == known);
            if ours
                && dependency.get("kind").is_none_or(Value::is_null)
                && !allowed.contains(&known)
            {
                problems.push(format!("{name} depends on {known}, which it may not know"));
            }
        }
    }
    Ok(problems)
}

/// The core of the loop builds with few crates: what it is made of is a part of what it proves.
fn few_crates() -> Result<Vec<String>> {
    const FEWER_THAN: usize = 40;
    let tree = [
        "tree",
        "-p",
        "agent-loop",
        "-e",
        "normal",
        "--prefix",
        "none",
    ];
    let output = cargo(&tree)?.output()?;
    ensure!(output.status.success(), "cargo tree: {}", output.status);
    let text = String::from_utf8(output.stdout).context("cargo tree is not UTF-8")?;
    // A crate that was shown before has a mark behind it.
    let crates: BTreeSet<&str> = text
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.is_empty())
        .collect();
    let problem = || {
        format!(
            "agent-loop has {} crates, and fewer than {FEWER_THAN} are allowed",
            crates.len()
        )
    };
    Ok((crates.len() >= FEWER_THAN)
        .then(problem)
        .into_iter()
        .collect())
}

/// Every source file that ARCHITECTURE.md names is there.
fn code_map(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let named = text.split('`').skip(1).step_by(2);
    let files =
        named.filter(|name| name.ends_with(".rs") && name.contains('/') && !name.contains('*'));
    Ok(files
        .filter(|name| !root.join(name).is_file())
        .map(|name| format!("ARCHITECTURE.md names {name}, which is not there"))
        .collect())
}
