//! Starting a command: no shell, a scrubbed environment, a process group of its own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::io::Errno;
use serde_json::json;
use tokio::process::Child;

use super::request::Command;
use crate::daemon::Refusal;

/// Where programs are looked for when the environment of the service does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the platform puts the token of the daemon. It is no business of a command.
const SANDBOX_TOKEN_VARIABLE: &str = "POLYAXON_SANDBOX_TOKEN";

/// What every command of a sandbox starts with. Nothing of the service's own environment is in
/// it but `PATH`.
#[derive(Clone, Debug)]
pub(crate) struct BaseEnv {
    search: OsString,
    variables: BTreeMap<OsString, OsString>,
}

impl BaseEnv {
    /// The environment of a sandbox with these folders.
    pub(crate) fn new(home: &Path, tmp: &Path) -> Self {
        let search = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        let variables = [
            ("PATH", search.clone()),
            ("HOME", home.into()),
            ("TMPDIR", tmp.into()),
            ("LANG", "C.UTF-8".into()),
        ];
        Self {
            variables: variables.map(|(name, value)| (name.into(), value)).into(),
            search,
        }
    }

    /// The environment of the service itself, without the token that it is called with.
    pub(crate) fn inherited() -> Self {
        Self {
            search: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            variables: std::env::vars_os()
                .filter(|(name, _)| name != SANDBOX_TOKEN_VARIABLE)
                .collect(),
        }
    }

    /// Adds what the run's container is given. A `PATH` of it is where programs are looked for.
    pub(crate) fn extend(&mut self, container: BTreeMap<String, String>) {
        for (name, value) in container {
            if name == "PATH" {
                self.search = value.clone().into();
            }
            self.variables.insert(name.into(), value.into());
        }
    }

    fn edited(&self, edits: &BTreeMap<String, Option<String>>) -> BTreeMap<OsString, OsString> {
        let mut variables = self.variables.clone();
        for (name, value) in edits {
            match value {
                Some(value) => variables.insert(name.into(), value.into()),
                None => variables.remove(OsStr::new(name)),
            };
        }
        variables
    }

    /// The file of `program`: a name without a slash is looked up in the `PATH` of the service,
    /// whatever the caller's edits say.
    fn find(&self, program: &str) -> Result<PathBuf, NotStarted> {
        if program.contains('/') {
            return Ok(program.into());
        }
        let mut refused = NotStarted::NotFound;
        for folder in std::env::split_paths(&self.search).filter(|dir| dir.is_absolute()) {
            let file = folder.join(program);
            match file.metadata() {
                Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                    return Ok(file);
                }
                Ok(meta) if meta.is_file() => refused = NotStarted::NotExecutable,
                _ => {}
            }
        }
        Err(refused)
    }
}

/// Why a command did not start.
#[derive(Debug)]
enum NotStarted {
    NotFound,
    NotExecutable,
    TooLong,
    Other(io::Error),
}

impl NotStarted {
    fn from_io(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Self::NotFound,
            Some(Errno::ACCESS | Errno::PERM | Errno::NOEXEC | Errno::ISDIR) => Self::NotExecutable,
            Some(Errno::TOOBIG) => Self::TooLong,
            _ => Self::Other(error),
        }
    }

    /// The answer: `details` say which kind, and that nothing was started.
    fn refuse(self, program: &str) -> Refusal {
        let by_path = program.contains('/');
        let (kind, problem) = match &self {
            Self::NotFound if by_path => {
                ("not_found", "no such file, or its interpreter is missing")
            }
            Self::NotFound => ("not_found", "no such program in the service's PATH"),
            Self::NotExecutable => ("not_executable", "it is not executable"),
            Self::TooLong => ("too_long", "its arguments and environment are too long"),
            Self::Other(_) => ("other", "the system refused to start it"),
        };
        let refusal = Refusal::internal(format!("cannot start {program:?}: {problem}"))
            .details(json!({"kind": kind, "program": program, "started": false}));
        match self {
            Self::Other(error) => refusal.because(error),
            _ => refusal,
        }
    }
}

/// A `workdir` that is not there. The description of the wire wants 400 for it.
pub(crate) fn workdir_not_found(path: &str) -> Refusal {
    Refusal::invalid(format!("workdir: {path} is not an existing directory"))
        .details(json!({"kind": "workdir_not_found", "started": false}))
}

/// Starts `command` in the folder `workdir` of this machine, in a process group of its own.
pub(crate) async fn spawn(
    command: &Command,
    base: &BaseEnv,
    workdir: &Path,
) -> Result<Child, Refusal> {
    let mut prepared = prepare(command, base, workdir)?;
    prepared
        .stdin(match command.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    start_patiently(&command.program, || prepared.spawn()).await
}

/// `command`, to be started in the folder `workdir` of this machine: its program found, its
/// environment made.
pub(crate) fn prepare(
    command: &Command,
    base: &BaseEnv,
    workdir: &Path,
) -> Result<tokio::process::Command, Refusal> {
    let program = command.program.as_str();
    let file = base.find(program).map_err(|why| why.refuse(program))?;
    let mut prepared = tokio::process::Command::new(file);
    prepared
        .arg0(program)
        .args(&command.arguments)
        .env_clear()
        .envs(base.edited(&command.env))
        .current_dir(workdir)
        .kill_on_drop(true);
    Ok(prepared)
}

/// Starts `program` by `spawn`, which is called again while the file of the program is busy.
pub(crate) async fn start_patiently<T>(
    program: &str,
    mut spawn: impl FnMut() -> io::Result<T>,
) -> Result<T, Refusal> {
    let mut tries = 0;
    loop {
        match spawn() {
            Ok(started) => return Ok(started),
            // Another child between its fork and its exec still holds a file open that was just
            // written. It lets go in a moment.
            Err(error) if tries < 20 && Errno::from_io_error(&error) == Some(Errno::TXTBSY) => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(NotStarted::from_io(error).refuse(program)),
        }
    }
}
