//! Python environments from requirement files, made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::bounded;

/// How long an environment may take to be made. The larger one has 300 MB to download.
const INSTALL_LIMIT: Duration = Duration::from_secs(900);
/// The oldest Python for which the pinned versions are published.
const OLDEST: (u32, u32) = (3, 11);

/// The Python of an environment.
pub(super) struct Python {
    program: PathBuf,
}

impl Python {
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The one line that these words print.
    pub(super) fn say(&self, words: &str) -> Result<String> {
        let output = Command::new(&self.program)
            .args(["-c", words])
            .output()
            .context("the Python of an environment cannot be started")?;
        ensure!(
            output.status.success(),
            "{words}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// The machine's own Python. Environments are made with it.
pub(super) fn find() -> Result<PathBuf> {
    let output = Command::new("python3")
        .args([
            "-c",
            "import sys; print(*sys.version_info[:2], sys.executable)",
        ])
        .output()
        .context("python3 is needed for the real servers, and cannot be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words = said.trim().splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let version: Option<(u32, u32)> = number().zip(number());
    let version = version.context("python3 does not say which version it is")?;
    ensure!(
        version >= OLDEST,
        "python3 is {}.{}, and the real servers need {}.{} or newer",
        version.0,
        version.1,
        OLDEST.0,
        OLDEST.1
    );
    let program = words.next().context("python3 does not say where it is")?;
    Ok(program.into())
}

/// The environment with exactly what `requirements` lists. One that was made from the same list by
/// the same Python is used again.
pub(super) fn environment(base: &Path, folder: &Path, requirements: &Path) -> Result<Python> {
    let name = requirements.file_stem().context("no file name")?;
    let home = folder.join(name);
    let shown = name.display();
    let program = home.join("bin/python");
    let list = fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let stamp = format!("# made by {}\n{list}", base.display());
    // Written last, so that a half-made environment has none.
    let stamp_file = home.join("made-of.txt");
    if fs::read_to_string(&stamp_file).is_ok_and(|made| made == stamp) && program.exists() {
        println!("   python packages of {shown}: there already");
        return Ok(Python { program });
    }
    println!("── real: python packages of {shown}");
    let started = Instant::now();
    let log = folder.join(name).with_extension("log");
    let said = || format!("what it said is in {}", log.display());
    let mut venv = Command::new(base);
    venv.args(["-m", "venv", "--clear"])
        .arg(&home)
        .stderr(File::create(&log)?);
    bounded::run("python3 -m venv", &mut venv, INSTALL_LIMIT)
        .with_context(said)
        .context("python3 needs its venv module (Debian: python3-venv)")?;
    let mut pip = Command::new(&program);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(requirements)
        .stderr(File::options().append(true).open(&log)?);
    bounded::run("pip install", &mut pip, INSTALL_LIMIT)
        .with_context(said)
        .with_context(|| format!("the packages of {shown} cannot be installed"))?;
    fs::write(&stamp_file, stamp)?;
    println!(
        "   python packages of {shown}: {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(Python { program })
}
