//! A browser, and what drives it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::bounded;

/// How long the browser may take to be installed: it has 100 MB to download.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// A browser, and the folder of the packages that drive it.
pub(super) struct Browser {
    pub(super) program: PathBuf,
    pub(super) packages: PathBuf,
}

/// The browser of this machine, installed where there is none, and the packages that `list` pins,
/// with npm. Packages that were installed from the same list are used again.
pub(super) fn find(folder: &Path, list: &Path) -> Result<Browser> {
    let log = folder.join("pages.log");
    File::create(&log)?;
    if program("npm").is_none() {
        install(&["nodejs", "npm"], &log)?;
    }
    if program("chromium").is_none() {
        install(&["chromium"], &log)?;
    }
    let program = program("chromium").context("chromium was installed and is not there")?;
    let packages = packages(folder, list, &log)?;
    Ok(Browser { program, packages })
}

fn packages(folder: &Path, list: &Path, log: &Path) -> Result<PathBuf> {
    let home = folder.join("pages");
    let lock = list.join("package-lock.json");
    let wanted =
        fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    // Written last, so that a half-made folder has none.
    let stamp = home.join("made-of.json");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("   npm packages of pages: there already");
        return Ok(home);
    }
    let started = Instant::now();
    fs::create_dir_all(&home)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(list.join(name), home.join(name))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .arg("--cache")
        .arg(folder.join("npm-cache"))
        .current_dir(&home)
        .stderr(append(log)?);
    bounded::run("npm ci", &mut npm, INSTALL_LIMIT)
        .with_context(|| format!("what it said is in {}", log.display()))?;
    fs::write(&stamp, wanted)?;
    println!(
        "   npm packages of pages: {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(home)
}

/// Installs packages of Debian.
fn install(names: &[&str], log: &Path) -> Result<()> {
    println!("── real: install {}", names.join(" "));
    let started = Instant::now();
    let apt = |words: &[&str]| -> Result<()> {
        let mut command = Command::new("apt-get");
        command
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stderr(append(log)?);
        bounded::run("apt-get", &mut command, INSTALL_LIMIT)
    };
    let mut words = vec!["install", "-y", "--no-install-recommends"];
    words.extend(names);
    let installed = apt(&words).or_else(|_| {
        // The lists of a machine that was just made can be empty or old.
        apt(&["update"])?;
        apt(&words)
    });
    installed.with_context(|| {
        format!(
            "{} cannot be installed here, and the tests need it; what apt-get said is in {}",
            names.join(" "),
            log.display()
        )
    })?;
    println!("   install: {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn append(log: &Path) -> Result<File> {
    Ok(File::options().append(true).open(log)?)
}

/// Where the machine has this program, if it works.
fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())?;
    let mut version = Command::new(&found);
    version.arg("--version").stderr(Stdio::null());
    let works = bounded::run(name, &mut version, Duration::from_secs(60));
    works.ok().map(|()| found)
}

/// The pages that the control plane of this Python brings along.
pub(super) fn pages_of(python: &super::Python) -> Result<PathBuf> {
    let words = "import haupt, os; print(os.path.join(os.path.dirname(haupt.__file__), 'static'))";
    let folder = PathBuf::from(python.say(words)?);
    ensure!(folder.is_dir(), "{} is not there", folder.display());
    Ok(folder)
}
