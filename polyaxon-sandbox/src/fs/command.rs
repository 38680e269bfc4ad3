//! The programs of the sandbox that we use ourselves: `mv`, `ln`, `sha256sum`, `tar`. They start in
//! `/` and get names that are relative to it, so that it does not matter where the service keeps
//! the files of the sandbox.

use std::time::Duration;

use http::StatusCode;

use super::error::FileError;
use super::files::{Fs, is_refused};
use super::tally::{Attempts, Tally};
use crate::error::Error;
use crate::process::{Exec, ExecResult};

/// The longest time limit that the service is known to take.
const LIMIT: Duration = Duration::from_secs(300);
/// What a shell, and who else starts programs, exits with where there is none of that name.
const NO_PROGRAM: i32 = 127;

/// What came of a program.
#[derive(Debug)]
pub(super) enum Ran {
    /// It ran to its end.
    Ended(ExecResult),
    /// There is none of that name.
    Missing,
}

impl Ran {
    /// What it wrote to standard output, where it succeeded.
    pub(super) fn succeeded(self, command: &'static str) -> Result<ExecResult, Error> {
        match self {
            Self::Missing => Err(FileError::NoCommand { command }.into()),
            Self::Ended(result) if result.success() => Ok(result),
            Self::Ended(result) => Err(failed(command, &result)),
        }
    }
}

/// The error of a program that did not do what it should.
pub(super) fn failed(command: &'static str, result: &ExecResult) -> Error {
    let said = result.stderr.text_lossy();
    let problem = match said.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => line.chars().take(300).collect(),
        None => format!("it ended with {:?}", result.termination),
    };
    FileError::Command { command, problem }.into()
}

impl Fs {
    /// Runs a program once, from `/`.
    pub(super) async fn run<S: Into<String>>(
        &self,
        command: impl IntoIterator<Item = S> + Send,
        tally: &Tally,
    ) -> Result<Ran, Error> {
        let exec = Exec::new(command).workdir("/");
        tally.request();
        let process = self.sandbox().process();
        let result = match process.exec(&exec.clone().timeout(LIMIT)).await {
            // A service that allows less: with its own limit then.
            Err(error) if is_refused(&error, StatusCode::BAD_REQUEST) => {
                tally.request();
                process.exec(&exec).await
            }
            result => result,
        };
        match result {
            Ok(result) if result.exit_code() == Some(NO_PROGRAM) => Ok(Ran::Missing),
            Ok(result) => Ok(Ran::Ended(result)),
            Err(error) if could_not_start(&error) => Ok(Ran::Missing),
            Err(error) => Err(error),
        }
    }

    /// Runs a program that may run twice, and does where its answer is lost.
    pub(super) async fn run_again<const N: usize>(
        &self,
        command: [&str; N],
        tally: &Tally,
    ) -> Result<Ran, Error> {
        let mut attempts = Attempts::new(tally);
        loop {
            match self.run(command, tally).await {
                Ok(ran) => return Ok(ran),
                Err(error) => attempts.again_after(error).await?,
            }
        }
    }
}

fn could_not_start(error: &Error) -> bool {
    match error.as_client() {
        Some(polyaxon_client::Error::Api(answer)) => {
            let started = answer.details().and_then(|details| details.get("started"));
            started == Some(&serde_json::Value::Bool(false))
        }
        _ => false,
    }
}
