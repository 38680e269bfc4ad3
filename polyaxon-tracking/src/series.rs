//! Reading event files of metrics.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use jiff::Timestamp;

use crate::error::Error;
use crate::kind::{ArtifactKind, header};
use crate::time;

/// The values of one metric, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSeries {
    points: Vec<MetricPoint>,
    unreadable_lines: usize,
}

impl MetricSeries {
    /// The values, oldest first as a rule: steps and times are as they were logged.
    #[must_use]
    pub fn points(&self) -> &[MetricPoint] {
        &self.points
    }

    /// The last value.
    #[must_use]
    pub fn last(&self) -> Option<&MetricPoint> {
        self.points.last()
    }

    /// How many lines held no value: cut off by a full disk or a crash, or damaged.
    #[must_use]
    pub fn unreadable_lines(&self) -> usize {
        self.unreadable_lines
    }
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricPoint {
    /// The step that it was logged at. The platform's have no bounds; these are more than anybody
    /// counts to.
    pub step: Option<i128>,
    /// When it was measured; a time without an offset is read as UTC. None where the file names an
    /// instant that has no form here, such as the end of the year 9999.
    pub timestamp: Option<Timestamp>,
    /// The value.
    pub value: f64,
}

/// Reads `events/metric/NAME.plx` of a run, whoever wrote it. It may still be written to.
///
/// This blocks while the file is read.
///
/// Files end without a line break. So of a last line that was cut off in the middle of its number,
/// nobody can tell that there was more of it: `0.125` cut after its fourth character is `0.12`.
///
/// # Errors
/// [`Error::Io`] where the file cannot be read; [`Error::NotMetricEvents`] where it begins as
/// something else.
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("loss.plx");
/// std::fs::write(&path, "step|timestamp|metric\n1|2026-01-31 12:00:00+00:00|0.5\n2|2026-")?;
/// let loss = polyaxon_tracking::read_metric_series(&path)?;
/// assert_eq!(loss.last().map(|point| (point.step, point.value)), Some((Some(1), 0.5)));
/// assert_eq!(loss.unreadable_lines(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_metric_series(path: impl AsRef<Path>) -> Result<MetricSeries, Error> {
    let path = path.as_ref();
    let mut series = MetricSeries::default();
    let file = open(path).map_err(Error::io("read", path))?;
    read_rows(file, |line| match line {
        Some(row) => series.points.push(MetricPoint {
            step: row.step,
            timestamp: time::read(row.timestamp),
            value: row.value,
        }),
        None => series.unreadable_lines += 1,
    })
    .map_err(Error::io("read", path))?
    .ok_or_else(|| Error::NotMetricEvents {
        path: path.to_owned(),
    })?;
    Ok(series)
}

/// One line, as near to its text as its readers need it.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// Python's integers have no bounds; this is more than anybody counts to.
    pub(crate) step: Option<i128>,
    pub(crate) timestamp: &'a str,
    pub(crate) value: f64,
}

impl<'a> Row<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let mut fields = str::from_utf8(line).ok()?.split('|');
        let row = Self {
            step: match fields.next()? {
                "" => None,
                step => Some(step.parse().ok()?),
            },
            timestamp: fields.next()?,
            value: fields.next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(row)
    }
}

/// Opens a file to read its rows. Reading a pipe or a device could go on for ever.
pub(crate) fn open(path: &Path) -> io::Result<BufReader<File>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    File::open(path).map(BufReader::new)
}

/// A line is far shorter. What is longer comes in parts, none of which is a row.
const MAX_LINE: u64 = 16 * 1024;

/// The longest line of other kinds that is read: a text, a page or a chart.
const MAX_EVENT: u64 = 16 * 1024 * 1024;

/// The first line of the event file of a metric.
const HEADER: &str = "step|timestamp|metric";

/// Calls `each` with the step and the timestamp of every event of a file of this kind. Lines that
/// hold none, the header for one, are left out.
pub(crate) fn read_stamps(
    mut file: impl BufRead,
    kind: ArtifactKind,
    mut each: impl FnMut(Option<i128>, &str),
) -> io::Result<()> {
    let mut line = Vec::new();
    while {
        line.clear();
        file.by_ref().take(MAX_EVENT).read_until(b'\n', &mut line)? > 0
    } {
        let text = line.trim_ascii();
        if kind.is_json_lines() {
            if let Ok(stamp) = serde_json::from_slice::<JsonStamp>(text) {
                each(stamp.step, &stamp.timestamp);
            }
        } else if text != header(kind).as_bytes()
            && let Some((step, timestamp)) = stamp_of(text)
        {
            each(step, timestamp);
        }
    }
    Ok(())
}

#[derive(serde::Deserialize)]
struct JsonStamp {
    timestamp: String,
    #[serde(default)]
    step: Option<i128>,
}

fn stamp_of(line: &[u8]) -> Option<(Option<i128>, &str)> {
    let mut fields = str::from_utf8(line).ok()?.splitn(3, '|');
    let step = match fields.next()? {
        "" => None,
        step => Some(step.parse().ok()?),
    };
    let timestamp = fields.next()?;
    fields
        .next()
        .is_some_and(|payload| !payload.is_empty())
        .then_some((step, timestamp))
}

/// Calls `each` with every line below the header: a row, or `None` for what is none. Answers `None`
/// where this is no event file of a metric.
pub(crate) fn read_rows(
    mut file: impl BufRead,
    mut each: impl FnMut(Option<Row<'_>>),
) -> io::Result<Option<()>> {
    let mut line = Vec::new();
    let mut is_first = true;
    while {
        line.clear();
        file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0
    } {
        let text = line.trim_ascii_end();
        if is_first {
            is_first = false;
            // A header that was cut off is a torn line like any other.
            if !HEADER.as_bytes().starts_with(text) {
                return Ok(None);
            }
        } else if !text.is_empty() {
            each(Row::read(text));
        }
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::{Clock, push_number};
    use crate::metrics::At;

    fn read(bytes: &[u8]) -> Option<MetricSeries> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.plx");
        fs::write(&path, bytes).unwrap();
        match read_metric_series(&path) {
            Ok(series) => Some(series),
            Err(Error::NotMetricEvents { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The values, and how many lines hold none; nothing for a file of another kind.
    type Found = Option<(Vec<f64>, usize)>;

    fn values(bytes: &[u8]) -> Found {
        let series = read(bytes)?;
        let values = series.points.iter().map(|point| point.value).collect();
        Some((values, series.unreadable_lines))
    }

    #[test]
    fn damaged_lines_are_counted_and_the_others_are_read() {
        let table: [(&[u8], Found); 12] = [
            (b"", Some((vec![], 0))),
            (b"step|timestamp|metric", Some((vec![], 0))),
            (
                b"step|times\n1|2024-01-02 03:04:05|2.0",
                Some((vec![2.0], 0)),
            ),
            (b"step|timestamp|metric\n1|t|2.0\n2|t", Some((vec![2.0], 1))),
            (
                b"step|timestamp|metric\n1|t|2.0\n2|t\n3|t|4.0",
                Some((vec![2.0, 4.0], 1)),
            ),
            (b"step|timestamp|metric\n\n1|t|2.0\n", Some((vec![2.0], 0))),
            (
                b"step|timestamp|metric\r\n1|t|2.0\r\n",
                Some((vec![2.0], 0)),
            ),
            (
                b"step|timestamp|metric\n1|t|2.0|3\nx|t|1.0\n1|t|x",
                Some((vec![], 3)),
            ),
            (b"step|timestamp|metric\n1|t|\xff\n", Some((vec![], 1))),
            (
                b"step|timestamp|metric\n|t|inf\n|t|-inf",
                Some((vec![f64::INFINITY, f64::NEG_INFINITY], 0)),
            ),
            (b"step|timestamp|curve\n1|t|{}", None),
            (b"{\"timestamp\": \"t\"}", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(values(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_step_beyond_64_bits_is_read_as_it_is() {
        let series = read(b"step|timestamp|metric\n9223372036854775808|t|1.0").unwrap();
        assert_eq!(series.points[0].step, Some(1 << 63));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            events in prop::collection::vec(
                (any::<Option<i128>>(), 0..4_102_444_800_000_000_i64, any::<f64>()), 0..20),
        ) {
            let mut text = String::from(HEADER);
            let mut expected = Vec::new();
            for (step, micros, value) in events {
                let instant = Timestamp::from_microsecond(micros).unwrap();
                let at = step.map_or(At::now(), At::step).timestamp(instant);
                push_number(&mut text, &mut Clock::default(), at.stamp().unwrap(), value);
                expected.push((step, Some(instant), value.to_bits()));
            }
            let series = read(text.as_bytes()).unwrap();
            let found: Vec<_> = series
                .points()
                .iter()
                .map(|point| (point.step, point.timestamp, point.value.to_bits()))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(series.unreadable_lines(), 0);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut file = b"step|timestamp|metric\n".to_vec();
            file.extend(bytes);
            let series = read(&file).unwrap();
            prop_assert!(series.points().len() + series.unreadable_lines() <= 80);
        }

        #[test]
        fn a_cut_costs_the_last_line_at_most(count in 1..5_usize, cut in 0..200_usize) {
            let mut text = String::from(HEADER);
            for step in 0..count {
                let at = At::step(i128::try_from(step).unwrap()).timestamp(Timestamp::UNIX_EPOCH);
                push_number(&mut text, &mut Clock::default(), at.stamp().unwrap(), 0.125);
            }
            let cut = cut.min(text.len());
            let series = read(&text.as_bytes()[..cut]).unwrap();
            let whole = text[..cut].matches('\n').count().saturating_sub(1);
            prop_assert!(series.points().len() >= whole);
            prop_assert!(series.points()[..whole].iter().all(|point| point.value == 0.125));
            prop_assert!(series.unreadable_lines() <= 1);
        }
    }
}
