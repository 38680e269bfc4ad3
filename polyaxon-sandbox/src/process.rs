//! Processes in a sandbox.

mod background;
mod cursor;
mod events;
mod exec;
mod id;
#[cfg(feature = "client")]
mod interrupted;
#[cfg(feature = "client")]
mod output;
#[cfg(feature = "client")]
mod result;
mod signal;

pub use background::{ExecList, ExecStarted, ExecState, ExecStatus, LogPage, LogStream};
pub use cursor::Cursor;
pub use events::ExecEvent;
pub use exec::Exec;
pub use id::ExecId;
#[cfg(feature = "client")]
pub use interrupted::Interrupted;
#[cfg(feature = "client")]
pub use output::{Output, OutputError};
#[cfg(feature = "client")]
pub(crate) use result::unsuccessful;
#[cfg(feature = "client")]
pub use result::{ExecResult, Receipt, Termination};
pub use signal::Signal;

#[cfg(feature = "client")]
mod run {
    use std::time::Duration;

    use polyaxon_client::transport::Operation;

    use super::{Exec, ExecResult};
    use crate::client::SandboxClient;
    use crate::error::Error;
    use crate::wire::{ExecAnswer, route};

    /// The longest time limit that the service is known to take, and so the one that a command
    /// without a limit of its own can have.
    const LONGEST_KNOWN: Duration = Duration::from_secs(300);
    /// What starting, collecting and the way there and back may take on top.
    const MARGIN: Duration = Duration::from_secs(30);

    /// The processes of a sandbox. A handle, cheap to clone.
    #[derive(Clone, Debug)]
    pub struct Process {
        sandbox: SandboxClient,
    }

    impl Process {
        pub(crate) fn new(sandbox: SandboxClient) -> Self {
            Self { sandbox }
        }

        /// Executes a command and waits for its end.
        ///
        /// The client waits for the command's own time limit and half a minute more, so it is the
        /// service that ends a command that takes too long.
        ///
        /// # Errors
        /// A command that ran and failed is a result, not an error. [`Error::Client`] says with
        /// [`effect`](Error::effect) whether the command ran: *not applied* where it was refused
        /// or could not start; *unknown* where the answer was lost. It is never sent twice when
        /// it may have run, and nothing on the wire can tell afterwards.
        ///
        /// # Cancel safety
        /// Dropping the future closes the connection; the service then ends the command (SIGTERM,
        /// and SIGKILL 5 s later).
        ///
        /// # Examples
        /// ```
        /// use std::time::Duration;
        /// use polyaxon_sandbox::process::Termination;
        /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let server = polyaxon_local::LocalServer::start().await?;
        /// # let token = polyaxon_client::Token::new(server.token())?;
        /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
        /// # let client = polyaxon_client::Client::new(&config)?;
        /// # let spec = SandboxSpec::image("i");
        /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
        /// let exec = Exec::new(["sh", "-c", "echo started; sleep 60"])
        ///     .timeout(Duration::from_millis(200));
        /// let result = sandbox.process().exec(&exec).await?;
        /// assert_eq!(result.termination, Termination::TimedOut);
        /// assert_eq!(result.stdout.text_lossy(), "started\n");
        /// // What was killed on the way is not parsed by mistake.
        /// assert!(result.stdout.text().is_err());
        /// # Ok(())
        /// # }
        /// ```
        pub async fn exec(&self, exec: &Exec) -> Result<ExecResult, Error> {
            exec.check()?;
            let limit = exec
                .time_limit()
                .unwrap_or(LONGEST_KNOWN)
                .saturating_add(MARGIN);
            let operation = Operation::post("process.exec", route::EXEC)
                .json(exec)?
                .timeout(limit);
            let answer: ExecAnswer = self.sandbox.send(operation).await?.json()?;
            ExecResult::from_answer(answer).map_err(|problem| Error::Protocol {
                operation: "process.exec",
                problem,
            })
        }
    }
}

#[cfg(feature = "client")]
pub use run::Process;
