//! Event files of tracking, read as columns.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The kinds whose lines are JSON objects. The others have `step|timestamp|value`.
const JSON_LINES: [&str; 4] = ["html", "text", "chart", "span"];

/// One event.
#[derive(Debug)]
struct Row {
    step: Option<i64>,
    timestamp: Value,
    value: Value,
}

/// The columns of the event file `text` of `kind`, at most `sample` rows of it. `None` where it has
/// no event yet.
///
/// # Errors
/// A sentence about a line that is no event.
pub(crate) fn columns(
    text: &str,
    kind: &str,
    sample: Option<usize>,
) -> Result<Option<Value>, String> {
    let rows = match JSON_LINES.contains(&kind) {
        true => json_rows(text, kind)?,
        false => separated_rows(text, kind)?,
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let rows = thinned(rows, sample);
    let all_have_steps = rows.iter().all(|row| row.step.is_some());
    let steps: Vec<Value> = rows
        .iter()
        .map(|row| match row.step {
            // One step that is missing makes floats of all, as the platform's tables do it.
            #[expect(
                clippy::cast_precision_loss,
                reason = "steps beyond 2^53 are not exact there either"
            )]
            Some(step) if !all_have_steps => json!(step as f64),
            step => json!(step),
        })
        .collect();
    let mut columns = Map::new();
    columns.insert("step".to_owned(), steps.into());
    let (timestamps, values): (Vec<Value>, Vec<Value>) = rows
        .into_iter()
        .map(|row| (row.timestamp, row.value))
        .unzip();
    columns.insert("timestamp".to_owned(), timestamps.into());
    columns.insert(kind.to_owned(), values.into());
    Ok(Some(columns.into()))
}

fn separated_rows(text: &str, kind: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let header = lines.next().unwrap_or_default();
    if !header.is_empty() && header != format!("step|timestamp|{kind}") {
        return Err(format!("`{header}` is no header of a series of `{kind}`"));
    }
    lines
        .map(|line| {
            let mut parts = line.splitn(3, '|');
            let (Some(step), Some(timestamp), Some(value)) =
                (parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("`{line}` is no event"));
            };
            let step = match step {
                "" => None,
                text => Some(text.parse().map_err(|_| format!("`{text}` is no step"))?),
            };
            Ok(Row {
                step,
                timestamp: timestamp.into(),
                value: match kind {
                    "metric" => metric(value)?,
                    _ => value.into(),
                },
            })
        })
        .collect()
}

/// A number; those that JSON cannot write are null.
fn metric(text: &str) -> Result<Value, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    Ok(json!(number))
}

fn json_rows(text: &str, kind: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut event: BTreeMap<String, Value> =
                serde_json::from_str(line).map_err(|error| format!("`{line}`: {error}"))?;
            Ok(Row {
                step: event.get("step").and_then(Value::as_i64),
                timestamp: event.remove("timestamp").unwrap_or_default(),
                value: event.remove(kind).unwrap_or_default(),
            })
        })
        .collect()
}

/// Every so manieth row, and the last, so that there are at most `sample`.
fn thinned(rows: Vec<Row>, sample: Option<usize>) -> Vec<Row> {
    let Some(most) = sample.filter(|most| *most > 0 && *most < rows.len()) else {
        return rows;
    };
    let last = rows.len() - 1;
    let mut kept = 0;
    let mut rows: Vec<Row> = rows
        .into_iter()
        .enumerate()
        .filter(|(index, _)| {
            let wanted = match most {
                1 => last,
                _ => kept * last / (most - 1),
            };
            let keep = *index == wanted;
            kept += usize::from(keep);
            keep
        })
        .map(|(_, row)| row)
        .collect();
    rows.truncate(most);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, kind: &str) -> Value {
        columns(text, kind, None).unwrap().unwrap_or_default()
    }

    #[test]
    fn a_series_is_read_as_columns() {
        let text =
            "step|timestamp|metric\n0|2024-01-02 03:04:05.000001+00:00|0.5\n1|t|1e-05\n2|t|-0.0";
        let want = json!({"step": [0, 1, 2], "timestamp": ["2024-01-02 03:04:05.000001+00:00", "t", "t"],
            "metric": [0.5, 0.00001, -0.0]});
        assert_eq!(read(text, "metric"), want);
        let text = "step|timestamp|metric\n0|t|nan\n|t|inf";
        let want = json!({"step": [0.0, null], "timestamp": ["t", "t"], "metric": [null, null]});
        assert_eq!(read(text, "metric"), want);
        let text = "step|timestamp|image\n3|t|{\"path\":\"a|b\"}";
        let want = json!({"step": [3], "timestamp": ["t"], "image": ["{\"path\":\"a|b\"}"]});
        assert_eq!(read(text, "image"), want);
        let text = "\n{\"timestamp\": \"t\", \"step\": 1, \"text\": \"a\"}\n{\"timestamp\": \"t\", \"step\": null, \"text\": \"b\"}";
        let want = json!({"step": [1.0, null], "timestamp": ["t", "t"], "text": ["a", "b"]});
        assert_eq!(read(text, "text"), want);
    }

    #[test]
    fn a_file_without_events_has_no_columns_and_a_broken_one_says_where() {
        for text in ["", "step|timestamp|metric", "step|timestamp|metric\n"] {
            assert_eq!(read(text, "metric"), Value::Null, "{text:?}");
        }
        for text in [
            "x",
            "step|timestamp|metric\n1|t",
            "step|timestamp|metric\nx|t|1",
            "step|timestamp|metric\n1|t|x",
        ] {
            columns(text, "metric", None).unwrap_err();
        }
        columns("\n{", "text", None).unwrap_err();
    }

    #[test]
    fn a_sample_has_the_ends_and_no_more_rows_than_asked_for() {
        let mut text = "step|timestamp|metric".to_owned();
        for step in 0..10 {
            text.push_str(&format!("\n{step}|t|1.0"));
        }
        let table = [
            (0, json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])),
            (1, json!([9])),
            (2, json!([0, 9])),
            (4, json!([0, 3, 6, 9])),
            (100, json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])),
        ];
        for (sample, want) in table {
            let columns = columns(&text, "metric", Some(sample)).unwrap().unwrap();
            assert_eq!(columns["step"], want, "{sample}");
        }
    }
}
