//! One step of a check: a command with a name, timed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// The root of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("xtask has no parent folder")?
        .to_owned())
}

/// `cargo` with these arguments, at the root.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Runs a command to its end; it has to succeed.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<()> {
    println!("── {name}");
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    println!("   {name}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command to its end; it has to succeed. What it says is shown, and given back.
pub(crate) fn said(name: &str, command: &mut Command) -> Result<String> {
    println!("── {name}");
    let started = Instant::now();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
    let text = String::from_utf8(output.stdout).with_context(|| format!("{name}: not UTF-8"))?;
    print!("{text}");
    if !output.status.success() {
        bail!("{name}: {}", output.status);
    }
    println!("   {name}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(text)
}
