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

/// A longer line is kept as several, cut between two characters.
const MAX_LINE: usize = 64 * 1024;

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
            let room = MAX_LINE - bytes.len();
            let mut line = (&mut output).take(room as u64);
            let read = line.read_until(b'\n', &mut bytes).await;
            read.map_err(Error::Read)?;
            if bytes.is_empty() {
                return Ok(count);
            }
            // A character that is cut by the limit comes with the next piece.
            let whole = match bytes.len() < MAX_LINE {
                true => bytes.len(),
                false => bytes.len() - begun(&bytes),
            };
            let text = String::from_utf8_lossy(bytes.split_at(whole).0);
            if !text.trim().is_empty() {
                self.log_when_there_is_room(&text).await?;
                count += 1;
            }
            bytes.drain(..whole);
        }
    }

    async fn log_when_there_is_room(&self, text: &str) -> Result<(), Error> {
        loop {
            match self.log(text) {
                Err(Error::QueueFull { .. }) => tokio::time::sleep(PAUSE).await,
                result => return result,
            }
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

/// How many bytes at the end are those of a character that is not there to its end.
fn begun(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let stray = last.map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(stray) {
        Err(error) if error.error_len().is_none() => stray.len(),
        _ => 0,
    }
}

/// How long a full queue is given before it is asked again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TrackedRun, Tracking};

    #[test]
    fn a_character_that_is_not_there_to_its_end_is_told_from_bytes_that_are_none() {
        let table: [(&[u8], usize); 8] = [
            (b"", 0),
            (b"abc", 0),
            ("aé".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"\xff\xf0\x9f\x98", 3),
            (b"a\xff", 0),
            (b"\xc3a", 0),
        ];
        for (bytes, expected) in table {
            assert_eq!(begun(bytes), expected, "{bytes:?}");
        }
    }

    /// The values that are in a run's log.
    async fn logged(output: &[u8]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let run = TrackedRun::start(Tracking::offline(folder.path())).await;
        let run = run.unwrap();
        let count = run.log_capture().read_lines(output).await.unwrap();
        drop(run.end().await.unwrap().ensure_complete().unwrap());
        let log = std::fs::read_to_string(run.path().join("plxlogs/logs.jsonl")).unwrap();
        let lines = log.lines().skip(1);
        let value = |line: &str| -> String {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["value"].as_str().unwrap().to_owned()
        };
        let values: Vec<_> = lines.map(value).collect();
        assert_eq!(values.len() as u64, count);
        values
    }

    #[tokio::test]
    async fn a_long_line_is_cut_between_two_characters_wherever_they_are() {
        for (character, width) in [('a', 1), ('é', 2), ('€', 3), ('😀', 4)] {
            for shift in 0..width {
                let line = "x".repeat(shift) + &character.to_string().repeat(MAX_LINE);
                let values = logged(format!("{line}\nnext\n").as_bytes()).await;
                let (next, pieces) = values.split_last().unwrap();
                assert_eq!((next.as_str(), pieces.concat() == line), ("next", true));
                // Not cut more often than has to be.
                let (_, full) = pieces.split_last().unwrap();
                let sizes = MAX_LINE - 3..=MAX_LINE;
                assert!(full.iter().all(|piece| sizes.contains(&piece.len())));
            }
        }
    }

    #[tokio::test]
    async fn output_that_ends_within_a_character_is_logged_to_its_end() {
        assert_eq!(logged(b"abc\xe2\x82").await, ["abc\u{fffd}"]);
        let mut long = vec![b'x'; MAX_LINE - 1];
        long.extend(b"\xe2");
        let values = logged(&long).await;
        assert_eq!(values.len(), 2);
        assert_eq!(
            (values[0].len(), values[1].as_str()),
            (MAX_LINE - 1, "\u{fffd}")
        );
        // Bytes that are no text hold nothing up.
        let values = logged(&vec![0xff; MAX_LINE + 1]).await;
        assert_eq!(values.len(), 2);
    }
}
