//! How the program of a terminal ended, in one form for all the ways to say it.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use super::{PtyExited, PtySession, PtyState};
use crate::error::Error;
use crate::process::{Signal, Termination};

/// How the program of a terminal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtyExit {
    /// What ended it. Never [`Termination::TimedOut`].
    pub termination: Termination,
    /// When it ended, by the service's clock.
    pub finished_at: Option<Timestamp>,
    /// How long it ran, by the service's clock.
    pub duration: Duration,
}

impl PtyExit {
    /// Reads what a service says in any of its ways; `None` where it says neither code nor
    /// signal. A missing code is never read as zero.
    pub(super) fn read(exited: PtyExited) -> Option<Self> {
        let signal = exited.signal.filter(|signal| !signal.as_str().is_empty());
        let termination = match (signal, exited.exit_code) {
            (Some(signal), _) => Termination::Signaled(signal),
            (None, Some(code)) => Termination::Exited(code),
            (None, None) => return None,
        };
        Some(Self {
            termination,
            finished_at: exited.finished_at,
            duration: Duration::from_millis(exited.duration_ms),
        })
    }

    /// The code it exited with, where it did.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self.termination {
            Termination::Exited(code) => Some(code),
            Termination::Signaled(_) | Termination::TimedOut => None,
        }
    }

    /// The end as a shell tells it in `$?`: the code, or 128 and the number of the signal. A
    /// signal whose number is not known here is 128 alone.
    #[must_use]
    pub fn shell_code(&self) -> i32 {
        match &self.termination {
            Termination::Exited(code) => *code,
            Termination::TimedOut => 128 + 9,
            Termination::Signaled(signal) => 128 + number(signal),
        }
    }

    /// What an error of [`attach`](super::Ptys::attach) tells of the end, where it is that the
    /// program has ended: `gone`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = polyaxon_sandbox::SandboxSpec::image("i");
    /// # let sandbox = polyaxon_sandbox::SandboxClient::launch(&client, server.project(), &spec).await?;
    /// use polyaxon_sandbox::pty::{Attach, Pty, PtyExit};
    ///
    /// let created = sandbox.pty().create(&Pty::new(["sh", "-c", "exit 7"])).await?;
    /// while sandbox.pty().get(&created.pty_id).await?.exit().is_none() {}
    /// let error = sandbox.pty().attach(&created.pty_id, Attach::new()).await.unwrap_err();
    /// assert_eq!(error.code(), Some("gone"));
    /// assert_eq!(PtyExit::of(&error).and_then(|exit| exit.code()), Some(7));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::NotAttached { source, .. } => Self::of(source),
            Error::Client(polyaxon_client::Error::Api(answer))
                if answer.status() == StatusCode::GONE && !answer.is_from_gateway() =>
            {
                let details = answer.details()?.clone();
                Self::read(serde_json::from_value(details).ok()?)
            }
            _ => None,
        }
    }
}

impl PtySession {
    /// How its program ended; `None` while it runs, or where the service does not say.
    #[must_use]
    pub fn exit(&self) -> Option<PtyExit> {
        if self.state == PtyState::Running {
            return None;
        }
        PtyExit::read(PtyExited {
            exit_code: self.exit_code,
            signal: self.signal.clone(),
            finished_at: self.finished_at,
            duration_ms: self.duration_ms.unwrap_or_default(),
        })
    }
}

/// The number of a signal on Linux, where the service runs.
fn number(signal: &Signal) -> i32 {
    const NAMES: [(&str, i32); 15] = [
        ("SIGHUP", 1),
        ("SIGINT", 2),
        ("SIGQUIT", 3),
        ("SIGILL", 4),
        ("SIGTRAP", 5),
        ("SIGABRT", 6),
        ("SIGBUS", 7),
        ("SIGFPE", 8),
        ("SIGKILL", 9),
        ("SIGUSR1", 10),
        ("SIGSEGV", 11),
        ("SIGUSR2", 12),
        ("SIGPIPE", 13),
        ("SIGALRM", 14),
        ("SIGTERM", 15),
    ];
    let name = signal.as_str();
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let numbered = || name.strip_prefix("SIG(")?.strip_suffix(')')?.parse().ok();
    known
        .map(|(_, number)| *number)
        .or_else(numbered)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_end_is_one_exit() {
        let read = |text: &str| PtyExit::read(serde_json::from_str(text).unwrap());
        let table = [
            (r#"{"exit_code":0}"#, Termination::Exited(0), 0),
            (r#"{"exit_code":7,"signal":""}"#, Termination::Exited(7), 7),
            (
                r#"{"exit_code":-1,"signal":"SIGTERM"}"#,
                Termination::Signaled(Signal::Term),
                143,
            ),
            (
                r#"{"exit_code":null,"signal":"SIGKILL"}"#,
                Termination::Signaled(Signal::Kill),
                137,
            ),
            (
                r#"{"signal":"SIG(34)"}"#,
                Termination::Signaled(Signal::Other("SIG(34)".into())),
                162,
            ),
            (
                r#"{"signal":"SIGNEW"}"#,
                Termination::Signaled(Signal::Other("SIGNEW".into())),
                128,
            ),
        ];
        for (text, termination, shell) in table {
            let exit = read(text).unwrap();
            assert_eq!(
                (&exit.termination, exit.shell_code()),
                (&termination, shell),
                "{text}"
            );
        }
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"exit_code":null}"#), None);
    }
}
