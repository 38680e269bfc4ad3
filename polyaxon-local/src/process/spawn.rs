//! Starting a command: no shell, a scrubbed environment, a process group of its own.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::FileType;
use rustix::io::Errno;
use serde_json::json;

use super::child::{self, How, Spawned};
use super::request::Command;
use crate::daemon::Refusal;
use crate::pod::Ground;
use crate::{rustup, sys};

/// Where programs are looked for when the environment of the service does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the platform puts the token of the daemon. It is no business of a command.
const SANDBOX_TOKEN_VARIABLE: &str = "POLYAXON_SANDBOX_TOKEN";

/// What every command of a sandbox starts with. Nothing of the service's own environment is in
/// it but `PATH`, and where programs of rustup find the toolchains.
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
        let rustup = rustup::home(&search).map(|home| (rustup::VARIABLE, home.into()));
        Self {
            variables: variables
                .into_iter()
                .chain(rustup)
                .map(|(name, value)| (name.into(), value))
                .collect(),
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
    fn find(&self, program: &str, ground: &Ground) -> Result<PathBuf, NotStarted> {
        if program.contains('/') {
            return Ok(program.into());
        }
        let mut refused = NotStarted::NotFound;
        for folder in std::env::split_paths(&self.search).filter(|dir| dir.is_absolute()) {
            let file = folder.join(program);
            let Ok(mode) = ground.mode_of(&file) else {
                continue;
            };
            match (FileType::from_raw_mode(mode), mode & 0o111) {
                (FileType::RegularFile, 1..) => return Ok(file),
                (FileType::RegularFile, 0) => refused = NotStarted::NotExecutable,
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

fn image(command: &Command, file: &Path, base: &BaseEnv) -> Result<sys::Image, NotStarted> {
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|nul| NotStarted::Other(nul.into()));
    let words = std::iter::once(&command.program).chain(&command.arguments);
    let arguments = words.map(|word| text(word.as_bytes().to_vec()));
    let environment = base
        .edited(&command.env)
        .into_iter()
        .map(|(name, value)| text([name.as_bytes(), b"=", value.as_bytes()].concat()));
    Ok(sys::Image::new(
        text(file.as_os_str().as_bytes().to_vec())?,
        arguments.collect::<Result<_, _>>()?,
        environment.collect::<Result<_, _>>()?,
    ))
}

/// Where and how a command is started.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) base: &'a BaseEnv,
    pub(crate) ground: &'a Ground,
    pub(crate) workdir: OwnedFd,
    pub(crate) limits: sys::Limits,
}

/// The three standard streams of a command.
#[derive(Debug)]
pub(crate) enum Streams {
    /// A pipe each; the input is empty unless the command has one.
    Pipes,
    /// A terminal, for all three and as its own.
    Terminal([OwnedFd; 3]),
}

/// Starts `command`, as the leader of a new session.
pub(crate) async fn spawn(
    command: &Command,
    site: Site<'_>,
    streams: Streams,
) -> Result<Spawned, Refusal> {
    let program = command.program.as_str();
    let file = site
        .base
        .find(program, site.ground)
        .map_err(|why| why.refuse(program))?;
    let image = image(command, &file, site.base).map_err(|why| why.refuse(program))?;
    let mut prepared = tokio::process::Command::new(&file);
    let terminal = matches!(streams, Streams::Terminal(_));
    match streams {
        Streams::Pipes => prepared
            .stdin(match command.stdin {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
        Streams::Terminal([input, output, errors]) => {
            prepared.stdin(input).stdout(output).stderr(errors)
        }
    };
    let how = How {
        workdir: site.workdir,
        terminal,
        limits: site.limits,
        image,
    };
    child::start(prepared, site.ground, how)
        .await
        .map_err(|error| NotStarted::from_io(error).refuse(program))
}
