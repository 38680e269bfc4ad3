//! Lines of output that are kept with the run.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::error::Error;
use crate::kind::{Place, SeriesKey};
use crate::name::Name;
use crate::queue::{Command, QueueIntake};
use crate::run::SharedIntake;
use crate::{surroundings, time};

/// Where a line came from, if nobody says otherwise.
#[derive(Debug)]
struct Origin {
    node: String,
    pod: String,
    container: String,
}

/// Takes lines of output for the run's log, `plxlogs/logs.jsonl`. Clones take them for the same
/// run.
///
/// Standard output and error of the process are left alone: what is to be kept is handed over
/// here, line by line or from the output of a child, or by the `tracing` layer of the feature
/// `layer`.
///
/// # Examples
/// ```
/// use polyaxon_tracking::{TrackedRun, Tracking};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let run = TrackedRun::start(Tracking::offline(folder.path())).await?;
/// let capture = run.log_capture();
/// capture.log("one line\nand another")?;
/// let output: &[u8] = b"what a child wrote\n";
/// assert_eq!(capture.read_lines(output).await?, 1);
/// run.end().await?.ensure_complete()?;
/// let log = std::fs::read_to_string(run.path().join("plxlogs/logs.jsonl"))?;
/// assert_eq!(log.lines().filter(|line| !line.is_empty()).count(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LogCapture {
    intake: SharedIntake,
    sink: QueueIntake,
    key: SeriesKey,
    origin: Arc<Origin>,
}

/// A longer line is kept as several.
const MAX_LINE: u64 = 64 * 1024;

impl LogCapture {
    pub(crate) fn new(intake: SharedIntake, sink: QueueIntake) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let origin = Origin {
            node: variable("POLYAXON_K8S_NODE_NAME").unwrap_or_else(|| "local".to_owned()),
            pod: variable("POLYAXON_K8S_POD_ID").unwrap_or_else(surroundings::user),
            container: surroundings::hostname(),
        };
        Self {
            intake,
            sink,
            key: SeriesKey {
                place: Place::Logs,
                name: Name::of_ours("logs"),
            },
            origin: Arc::new(origin),
        }
    }

    /// Logs the lines of a text, each trimmed; empty ones are left out.
    ///
    /// # Errors
    /// [`Error::QueueFull`]: then none of them was taken; [`Error::Ended`]; [`Error::RuntimeGone`].
    pub fn log(&self, text: &str) -> Result<(), Error> {
        let timestamp = Timestamp::now();
        let lines: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| self.line(timestamp, line))
            .collect();
        let _intake = self.intake.open()?;
        let permit = self.sink.reserve(lines.len())?;
        let lines = lines.into_iter();
        permit.send(lines.map(|line| Command::Line(self.key.clone(), line)))
    }

    /// Logs what can be read, line by line, to its end: the output of a child process, for one.
    /// Bytes that are no UTF-8 are replaced. Where the queue is full, it waits for room, and so
    /// does the child. Answers how many lines that were.
    ///
    /// # Errors
    /// [`Error::Ended`] or [`Error::RuntimeGone`] where the run has ended before the output;
    /// [`Error::Read`] where it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future stops the reading. The lines that were read are logged, but for the one
    /// that had begun.
    pub async fn read_lines(&self, output: impl AsyncRead + Unpin + Send) -> Result<u64, Error> {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        let mut count = 0;
        loop {
            bytes.clear();
            let mut line = (&mut output).take(MAX_LINE);
            let read = line.read_until(b'\n', &mut bytes).await;
            if read.map_err(Error::Read)? == 0 {
                return Ok(count);
            }
            let text = String::from_utf8_lossy(&bytes);
            if text.trim().is_empty() {
                continue;
            }
            while let Err(error) = self.log(&text) {
                match error {
                    Error::QueueFull { .. } => tokio::time::sleep(PAUSE).await,
                    error => return Err(error),
                }
            }
            count += 1;
        }
    }

    fn line(&self, timestamp: Timestamp, value: &str) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            timestamp: String,
            node: &'a str,
            pod: &'a str,
            container: &'a str,
            value: &'a str,
        }
        let line = Line {
            timestamp: time::iso(timestamp),
            node: &self.origin.node,
            pod: &self.origin.pod,
            container: &self.origin.container,
            value,
        };
        // Texts always have a form in JSON.
        let json = serde_json::to_string(&line).unwrap_or_default();
        format!("\n{json}")
    }
}

/// How long a full queue is given before it is asked again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
