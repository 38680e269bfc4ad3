//! Output that the service did not keep.

use serde::Deserialize;

use super::background::LogStream;
use crate::error::Error;

/// How much of an output the service has kept. From a limit on it drops what a command writes, and
/// whoever asks for a byte behind it gets an error, now and later.
///
/// # Examples
/// ```no_run
/// use polyaxon_sandbox::process::{BgExec, Logs};
/// # async fn example(exec: BgExec) -> Result<(), polyaxon_sandbox::Error> {
/// let status = exec.status().await?;
/// let end = status.stdout_bytes.saturating_sub(1000);
/// let page = match exec.logs(Logs::new().offset(end)).await {
///     // The last thousand bytes that there are.
///     Err(error) if let Some(dropped) = error.dropped_output() => {
///         let end = dropped.stored_bytes.saturating_sub(1000);
///         exec.logs(Logs::new().offset(end)).await?
///     }
///     answered => answered?,
/// };
/// # drop(page);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct DroppedOutput {
    /// Which output.
    pub stream: LogStream,
    /// How many bytes can be read, from the first one on.
    pub stored_bytes: u64,
    /// How many the command had written by then.
    pub written_bytes: u64,
}

/// The `details` of the service's error.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Details {
    OutputDropped(DroppedOutput),
}

impl Error {
    /// What the service has kept of the output that was asked for, where that is why it cannot be
    /// read. Such an error is not [retryable](Self::is_retryable).
    #[must_use]
    pub fn dropped_output(&self) -> Option<DroppedOutput> {
        let polyaxon_client::Error::Api(answer) = self.as_client()? else {
            return None;
        };
        let Details::OutputDropped(dropped) = Details::deserialize(answer.details()?).ok()?;
        Some(dropped)
    }
}
