//! What the platform shows of a series of values without reading it.

use std::io::{self, BufRead};

use serde_json::{Map, Value, json};

use crate::kind::ArtifactKind;
use crate::series::{read_rows, read_stamps};

/// The summary of an event file.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    /// The last value of a metric; not a number where that is what was logged.
    pub(crate) last: Option<f64>,
    /// The `summary` of its lineage record.
    pub(crate) json: Value,
}

/// Reads a file of events of this kind and sums it up. `None` where it holds none.
pub(crate) fn of_events(file: impl BufRead, kind: ArtifactKind) -> io::Result<Option<Summary>> {
    let mut rows = Rows::default();
    match kind {
        ArtifactKind::Metric => {
            read_rows(file, |row| {
                if let Some(row) = row {
                    rows.add(row.step, row.timestamp);
                    rows.values.push(row.value);
                }
            })?;
        }
        kind => read_stamps(file, kind, |step, timestamp| rows.add(step, timestamp))?,
    }
    Ok(rows.summary())
}

/// What is kept of the rows of a file: eight bytes a value, for the quartiles, and no more.
#[derive(Debug, Default)]
struct Rows {
    /// Of metrics.
    values: Vec<f64>,
    count: usize,
    with_step: usize,
    first: Edge,
    last: Edge,
}

#[derive(Debug, Default)]
struct Edge {
    step: Option<i128>,
    timestamp: String,
}

impl Edge {
    fn set(&mut self, step: Option<i128>, timestamp: &str) {
        self.step = step;
        self.timestamp.clear();
        self.timestamp.push_str(timestamp);
    }
}

impl Rows {
    fn add(&mut self, step: Option<i128>, timestamp: &str) {
        if self.count == 0 {
            self.first.set(step, timestamp);
        }
        self.last.set(step, timestamp);
        self.with_step += usize::from(step.is_some());
        self.count += 1;
    }

    fn summary(self) -> Option<Summary> {
        if self.count == 0 {
            return None;
        }
        let last = self.values.last().copied();
        let mut json = Map::new();
        json.insert("is_event".to_owned(), true.into());
        if self.with_step > 0 {
            // Rows without a step make floats of the others' steps.
            let of = |edge: &Edge| match self.with_step == self.count {
                true => edge.step.map_or(Value::Null, whole),
                false => edge.step.map_or(Value::Null, |step| finite(step as f64)),
            };
            json.insert(
                "step".to_owned(),
                json!({"count": self.with_step, "min": of(&self.first), "max": of(&self.last)}),
            );
        }
        if let (Some(min), Some(max)) = (iso(&self.first.timestamp), iso(&self.last.timestamp)) {
            json.insert("timestamp".to_owned(), json!({"min": min, "max": max}));
        }
        if let Some(last) = last {
            json.insert("metric".to_owned(), statistics(self.values, last));
        }
        Some(Summary {
            last,
            json: json.into(),
        })
    }
}

/// An integer, as text where JSON numbers of the platform end.
fn whole(step: i128) -> Value {
    i64::try_from(step)
        .map(Value::from)
        .or_else(|_| u64::try_from(step).map(Value::from))
        .unwrap_or_else(|_| step.to_string().into())
}

/// The timestamp in the form of lineage records; none outside of the years that the platform's
/// own reader can hold.
fn iso(timestamp: &str) -> Option<String> {
    let year: u16 = timestamp.get(..4)?.parse().ok()?;
    (1678..=2261)
        .contains(&year)
        .then(|| timestamp.replacen(' ', "T", 1))
}

pub(crate) fn finite(value: f64) -> Value {
    // Not a number and infinities have no form in JSON and become `null`.
    value.into()
}

fn statistics(values: Vec<f64>, last: f64) -> Value {
    let (mean, deviation) = mean_and_deviation(&values);
    let mut sorted = values;
    sorted.retain(|value| !value.is_nan());
    // `sort` keeps the order of the two zeros, as the platform does.
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let at = |part: f64| finite(quantile(&sorted, part));
    json!({
        "count": sorted.len() as f64,
        "mean": finite(mean),
        "std": finite(deviation),
        "min": sorted.first().copied().map(finite),
        "25%": at(0.25),
        "50%": at(0.5),
        "75%": at(0.75),
        "max": sorted.last().copied().map(finite),
        "last": finite(last),
    })
}

/// The mean, and the deviation of a sample: not a number for fewer than two values.
///
/// The last digits depend on the order of the additions. They are made in the same order as the
/// platform's own library makes them, with what is not a number counted as zero.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.iter().filter(|value| !value.is_nan()).count() as f64;
    let numbers: Vec<f64> = values
        .iter()
        .map(|value| if value.is_nan() { 0.0 } else { *value })
        .collect();
    // The sum begins with zero, which makes the mean of negative zeros a positive one.
    let mean = (0.0 + pairwise_sum(&numbers)) / count;
    if count < 2.0 {
        return (mean, f64::NAN);
    }
    let squares: Vec<f64> = values
        .iter()
        .map(|value| match value.is_nan() {
            true => 0.0,
            false => (mean - value) * (mean - value),
        })
        .collect();
    (mean, (pairwise_sum(&squares) / (count - 1.0)).sqrt())
}

/// Adds in eight lanes up to 128 values, and halves what is longer.
fn pairwise_sum(values: &[f64]) -> f64 {
    if values.len() > 128 {
        let half = values.len() / 2;
        let (left, right) = values.split_at(half - half % 8);
        return pairwise_sum(left) + pairwise_sum(right);
    }
    let (blocks, rest) = values.as_chunks::<8>();
    let Some((first, blocks)) = blocks.split_first() else {
        return rest.iter().fold(0.0, |sum, value| sum + value);
    };
    let mut lanes = *first;
    for block in blocks {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |sum, value| sum + value)
}

/// The value below which a `part` of the sorted values lies, between two of them where it must be.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = part * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between zero and the length of a slice"
    )]
    let index = position.floor() as usize;
    let (Some(&below), Some(&above)) = (sorted.get(index), sorted.get((index + 1).min(last)))
    else {
        return f64::NAN;
    };
    // A single value lies at the end of the way, as the platform's library has it. That keeps the
    // sign of a zero.
    let along = if index == last {
        1.0
    } else {
        position - position.floor()
    };
    let distance = above - below;
    match along >= 0.5 {
        true => above - distance * (1.0 - along),
        false => below + distance * along,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rows: &str) -> Option<Value> {
        let text = format!("step|timestamp|metric\n{rows}");
        of_events(text.as_bytes(), ArtifactKind::Metric)
            .unwrap()
            .map(|summary| summary.json)
    }

    #[test]
    fn a_file_without_values_has_no_summary() {
        assert_eq!(summary(""), None);
        assert_eq!(summary("1|2024-01-02 03:04:05+00:00|"), None);
        assert_eq!(
            of_events(
                b"step|timestamp|curve\n1|t|1".as_slice(),
                ArtifactKind::Metric
            )
            .unwrap(),
            None
        );
    }

    #[test]
    fn steps_are_those_of_the_first_and_the_last_row() {
        let table = [
            ("3|t|1\n1|t|1", json!({"count": 2, "min": 3, "max": 1})),
            (
                "1|t|1\n|t|1\n2|t|1",
                json!({"count": 2, "min": 1.0, "max": 2.0}),
            ),
            ("|t|1\n2|t|1", json!({"count": 1, "min": null, "max": 2.0})),
            (
                "9223372036854775808|t|1\n18446744073709551616|t|1",
                json!({"count": 2, "min": 9_223_372_036_854_775_808_u64, "max": "18446744073709551616"}),
            ),
        ];
        for (rows, expected) in table {
            assert_eq!(summary(rows).unwrap()["step"], expected, "{rows}");
        }
        assert_eq!(summary("|t|1").unwrap().get("step"), None);
    }

    #[test]
    fn what_is_not_a_number_does_not_count_and_infinities_are_null() {
        let nothing = summary("1|t|nan").unwrap();
        assert_eq!(nothing["metric"]["count"], json!(0.0));
        assert_eq!(nothing["metric"]["max"], Value::Null);
        let some = summary("1|t|nan\n2|t|1.5\n3|t|inf").unwrap();
        assert_eq!(
            some["metric"],
            json!({
                "count": 2.0, "mean": null, "std": null, "min": 1.5, "25%": null, "50%": null,
                "75%": null, "max": null, "last": null,
            })
        );
    }

    /// Made with pandas 2.3.3 and numpy 2.4.6: `Series([1/(i+3) for i in range(n)]).describe()`.
    #[test]
    fn long_series_have_the_last_digits_of_the_platforms_library() {
        let table = [
            (
                7,
                [
                    0.18985260770975057,
                    0.07901438960425036,
                    0.1111111111111111,
                    0.13392857142857142,
                    0.16666666666666666,
                    0.225,
                    0.3333333333333333,
                ],
            ),
            (
                8,
                [
                    0.17862103174603172,
                    0.0797531435210332,
                    0.1,
                    0.12152777777777778,
                    0.15476190476190477,
                    0.21250000000000002,
                    0.3333333333333333,
                ],
            ),
            (
                9,
                [
                    0.16887526054192717,
                    0.08012686142028455,
                    0.09090909090909091,
                    0.1111111111111111,
                    0.14285714285714285,
                    0.2,
                    0.3333333333333333,
                ],
            ),
            (
                100,
                [
                    0.03707082429307257,
                    0.050025593983941616,
                    0.00980392156862745,
                    0.012945387945387946,
                    0.019049346879535557,
                    0.036044973544973546,
                    0.3333333333333333,
                ],
            ),
            (
                128,
                [
                    0.030848369830202938,
                    0.04571941671146494,
                    0.007692307692307693,
                    0.010178313749742322,
                    0.015038444142921756,
                    0.028781512605042015,
                    0.3333333333333333,
                ],
            ),
            (
                129,
                [
                    0.030668410279474697,
                    0.04558632021086535,
                    0.007633587786259542,
                    0.010101010101010102,
                    0.014925373134328358,
                    0.02857142857142857,
                    0.3333333333333333,
                ],
            ),
            (
                1000,
                [
                    0.0059874678655413615,
                    0.018932649959530853,
                    0.000998003992015968,
                    0.001329345737616908,
                    0.00199005172154325,
                    0.003956490369533848,
                    0.3333333333333333,
                ],
            ),
            (
                12345,
                [
                    0.0006884102517286033,
                    0.005613688859294002,
                    8.099133392726978e-05,
                    0.00010797969981643452,
                    0.00016194331983805668,
                    0.0003237293622531564,
                    0.3333333333333333,
                ],
            ),
        ];
        for (count, expected) in table {
            let values: Vec<f64> = (0..count).map(|i| 1.0 / f64::from(i + 3)).collect();
            let (mean, deviation) = mean_and_deviation(&values);
            let mut sorted = values;
            sorted.sort_by(f64::total_cmp);
            let found = [
                mean,
                deviation,
                quantile(&sorted, 0.0),
                quantile(&sorted, 0.25),
                quantile(&sorted, 0.5),
                quantile(&sorted, 0.75),
                quantile(&sorted, 1.0),
            ];
            assert_eq!(found, expected, "{count}");
        }
    }
}
