//! `cargo xtask gates`: what a release has to pass besides all that CI runs. A tool that is missing
//! is an error that says how it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::step::{self, cargo, root};

/// The tools, each with the version that was used last.
const TOOLS: [(&str, &str); 5] = [
    ("deny", "0.20.2"),
    ("machete", "0.9.2"),
    ("hack", "0.6.46"),
    ("semver-checks", "0.51.0"),
    ("fuzz", "0.13.2"),
];

/// The crates that are published.
const CRATES: [&str; 5] = [
    "polyaxon-client",
    "polyaxon-sandbox",
    "polyaxon-tracking",
    "polyaxon-local",
    "agent-loop",
];

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 60;

/// What is left out on request, and named at the end.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    /// The database of known faults of crates, which is fetched from the network.
    offline: bool,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let flags = match arguments {
        [] => Flags::default(),
        ["--offline"] => Flags { offline: true },
        other => bail!("gates knows `--offline`, and not {other:?}"),
    };
    find_tools()?;
    deny(flags)?;
    step::run(
        "unused dependencies",
        // Where a package is built or run, it takes its own name for a folder to look at.
        cargo(&["machete"])?.env_remove("CARGO_PKG_NAME"),
    )?;
    features()?;
    semver()?;
    fuzz()?;
    println!("── gates: passed");
    if flags.offline {
        println!("   left out: known faults of dependencies (`cargo deny check advisories`)");
    }
    Ok(())
}

fn find_tools() -> Result<()> {
    let output = cargo(&["--list"])?.output().context("cannot start cargo")?;
    let known = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_known = |tool: &str| {
        let mut names = known
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        names.any(|name| name == tool)
    };
    let missing = TOOLS.into_iter().filter(|(tool, _)| !is_known(tool));
    let install: Vec<String> = missing
        .map(|(tool, version)| format!("cargo install --locked cargo-{tool}@{version}"))
        .collect();
    ensure!(
        install.is_empty(),
        "tools are missing:\n{}",
        install.join("\n")
    );
    Ok(())
}

/// Licences, sources, duplicates; and known faults, which need their database.
fn deny(flags: Flags) -> Result<()> {
    let quiet = ["deny", "--log-level", "error", "check"];
    let check = |what: &[&'static str]| cargo(&[&quiet[..], what].concat());
    step::run(
        "licences, sources, banned crates",
        &mut check(&["bans", "licenses", "sources"])?,
    )?;
    if !flags.offline {
        step::run("known faults of dependencies", &mut check(&["advisories"])?)
            .context("without a network: `cargo xtask gates --offline` leaves the database out")?;
    }
    Ok(())
}

/// Each feature of each published crate by itself, without what the tests bring.
fn features() -> Result<()> {
    let mut arguments = vec!["hack", "check", "--each-feature", "--no-dev-deps"];
    arguments.extend(CRATES.iter().flat_map(|name| ["-p", name]));
    step::run("each feature alone", &mut cargo(&arguments)?)
}

/// The public API against that of the last release, which is the newest tag `vX.Y.Z`. Before the first
/// release there is nothing to keep: the API is compared with itself, which shows that the tool reads
/// it, and that the first tag is all that is missing.
fn semver() -> Result<()> {
    let baseline = match last_release()? {
        Some(tag) => vec!["--baseline-rev".to_owned(), tag],
        None => {
            println!("   there is no release yet: the API is its own baseline");
            let root = root()?.into_os_string().into_string();
            let root = root.map_err(|_| anyhow::anyhow!("the path of the project is not UTF-8"))?;
            vec!["--baseline-root".to_owned(), root]
        }
    };
    let mut arguments = vec!["semver-checks", "--all-features"];
    arguments.extend(CRATES.iter().flat_map(|name| ["-p", name]));
    arguments.extend(baseline.iter().map(String::as_str));
    step::run("semantic versions", &mut cargo(&arguments)?)
}

fn last_release() -> Result<Option<String>> {
    let output = Command::new("git")
        .args(["tag", "--list", "v[0-9]*", "--sort=-version:refname"])
        .current_dir(root()?)
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git tag: {}", output.status);
    let tags = String::from_utf8(output.stdout)?;
    Ok(tags.lines().next().map(str::to_owned))
}

/// Every target for a minute, on the toolchain that is there.
fn fuzz() -> Result<()> {
    let folder = root()?.join("fuzz");
    let targets = targets(&folder)?;
    ensure!(!targets.is_empty(), "there are no fuzz targets");
    for target in targets {
        let [corpus, seeds] = ["corpus", "seeds"].map(|name| PathBuf::from(name).join(&target));
        fs::create_dir_all(folder.join(&corpus))?;
        let mut command = cargo(&["fuzz", "run", "-D", &target])?;
        command
            .args([corpus, seeds])
            .arg("--")
            .arg(format!("-max_total_time={FUZZ_SECONDS}"))
            .args(["-verbosity=0", "-print_funcs=0"])
            .current_dir(&folder)
            // The sanitizer's library is there; only its flag wants to be asked for like this.
            .env("RUSTC_BOOTSTRAP", "1");
        step::run(&format!("fuzz {target}"), &mut command)?;
    }
    Ok(())
}

/// The names of the targets, which are those of their files.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.push(name.context("a fuzz target has no name")?.to_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_is_in_the_manifest() {
        let folder = root().unwrap().join("fuzz");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let targets = targets(&folder).unwrap();
        assert!(targets.len() >= 8, "{targets:?}");
        for target in targets {
            let seeds = fs::read_dir(folder.join("seeds").join(&target)).unwrap();
            assert!(seeds.count() >= 1, "{target} has no seeds");
            assert!(
                manifest.contains(&format!("name = \"{target}\"")),
                "{target}"
            );
        }
    }

    #[test]
    fn a_flag_that_is_not_known_is_refused() {
        let error = run(&["--fast"]).unwrap_err().to_string();
        assert_eq!(error, r#"gates knows `--offline`, and not ["--fast"]"#);
    }
}
