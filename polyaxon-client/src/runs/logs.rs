//! Lines of output of a run.

use serde::Deserialize;

use super::api::Runs;
use crate::error::Error;
use crate::ids::RunUuid;
use crate::transport::Operation;

/// A line of output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LogLine {
    /// When it was written, as the log has it.
    #[serde(default)]
    pub timestamp: Option<String>,
    /// The machine.
    #[serde(default)]
    pub node: Option<String>,
    /// The pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// The container in it.
    #[serde(default)]
    pub container: Option<String>,
    /// The line.
    #[serde(default)]
    pub value: Option<String>,
}

/// The lines of one collected file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LogPage {
    /// The lines.
    #[serde(default)]
    pub logs: Vec<LogLine>,
    /// The file that they are from.
    #[serde(default)]
    pub last_file: Option<String>,
    /// All files.
    #[serde(default)]
    pub files: Option<Vec<String>>,
}

impl Runs {
    /// The lines of the first collected file, or of the one after `last_file`.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such run.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn log_page(
        &self,
        namespace: &str,
        run: RunUuid,
        last_file: Option<&str>,
    ) -> Result<LogPage, Error> {
        let path = self.stream_path(namespace, &run.to_string(), "/logs")?;
        let mut operation = Operation::get("runs.logs", path).query("force", "true");
        if let Some(file) = last_file {
            operation = operation.query("last_file", file);
        }
        self.transport().send(operation).await?.json()
    }

    /// All collected lines of a run, file after file.
    ///
    /// # Errors
    /// As [`log_page`](Self::log_page).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn logs(&self, namespace: &str, run: RunUuid) -> Result<Vec<LogLine>, Error> {
        let mut lines = Vec::new();
        let mut last: Option<String> = None;
        loop {
            let page = self.log_page(namespace, run, last.as_deref()).await?;
            lines.extend(page.logs);
            let files = page.files.unwrap_or_default();
            let is_through = page.last_file.is_none()
                || page.last_file == last
                || files.last() == page.last_file.as_ref();
            if is_through {
                return Ok(lines);
            }
            last = page.last_file;
        }
    }
}
