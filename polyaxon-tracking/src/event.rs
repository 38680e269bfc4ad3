//! Structured events: what the platform's pages draw.

use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::kind::ArtifactKind;

/// One event of a series that is not a number: a curve, a matrix, a chart, a trace, or of any
/// other kind of the platform.
///
/// # Examples
/// ```
/// use polyaxon_tracking::{ArtifactKind, Event};
/// use serde_json::json;
///
/// let curve = Event::curve([0.0, 0.5, 1.0], [1.0, 2.0, 4.0]);
/// assert_eq!(curve.payload(), r#"{"kind":"custom","x":[0.0,0.5,1.0],"y":[1.0,2.0,4.0]}"#);
/// let table = Event::new(ArtifactKind::Table, &json!({"columns": ["a", "b"]}))?;
/// assert_eq!(table.kind(), ArtifactKind::Table);
/// # Ok::<(), polyaxon_tracking::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an Event does nothing until it is passed to `log_event`"]
pub struct Event {
    kind: ArtifactKind,
    payload: String,
}

/// The most bars of a histogram that the platform draws.
const MAX_BARS: usize = 512;

impl Event {
    /// An event of any kind, with a payload in the form that the platform has for that kind. It is
    /// written in the order in which serde gives its members; numbers that are none, or infinite,
    /// become `null`.
    ///
    /// # Errors
    /// [`Error::NotJson`] where the payload cannot become JSON; [`Error::InvalidEvent`] for a
    /// metric, which is a number and has [`log_metric`](crate::TrackedRun::log_metric), and where
    /// a text or page is not a string.
    pub fn new<P: Serialize + ?Sized>(kind: ArtifactKind, payload: &P) -> Result<Self, Error> {
        let json = serde_json::to_string(payload).map_err(|source| Error::NotJson {
            name: kind.to_string(),
            source,
        })?;
        let payload = match kind {
            ArtifactKind::Metric | ArtifactKind::System => {
                return Err(invalid(kind, "it is a number: use log_metric"));
            }
            ArtifactKind::Text | ArtifactKind::Html => {
                serde_json::from_str(&json).map_err(|_| invalid(kind, "it is not a text"))?
            }
            _ => json,
        };
        Ok(Self { kind, payload })
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: ArtifactKind::Text,
            payload: text.into(),
        }
    }

    /// A page of HTML.
    pub fn html(html: impl Into<String>) -> Self {
        Self {
            kind: ArtifactKind::Html,
            payload: html.into(),
        }
    }

    /// A line through points.
    pub fn curve(x: impl IntoIterator<Item = f64>, y: impl IntoIterator<Item = f64>) -> Self {
        Self::curve_of("custom", x, y, None)
    }

    /// As [`curve`](Self::curve), with a text beside it.
    pub fn annotated_curve(
        x: impl IntoIterator<Item = f64>,
        y: impl IntoIterator<Item = f64>,
        annotation: impl Into<String>,
    ) -> Self {
        Self::curve_of("custom", x, y, Some(annotation.into()))
    }

    /// True over false positives, with the area below the line where it is known.
    pub fn roc_curve(
        false_positives: impl IntoIterator<Item = f64>,
        true_positives: impl IntoIterator<Item = f64>,
        area: Option<f64>,
    ) -> Self {
        Self::curve_of("roc", false_positives, true_positives, area.map(shown))
    }

    /// Recall over precision, with the average precision where it is known.
    pub fn pr_curve(
        precision: impl IntoIterator<Item = f64>,
        recall: impl IntoIterator<Item = f64>,
        average: Option<f64>,
    ) -> Self {
        Self::curve_of("pr", precision, recall, average.map(shown))
    }

    fn curve_of(
        kind: &'static str,
        x: impl IntoIterator<Item = f64>,
        y: impl IntoIterator<Item = f64>,
        annotation: Option<String>,
    ) -> Self {
        #[derive(Serialize)]
        struct Curve {
            kind: &'static str,
            x: Vec<f64>,
            y: Vec<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            annotation: Option<String>,
        }
        Self::certain(
            ArtifactKind::Curve,
            &Curve {
                kind,
                x: x.into_iter().collect(),
                y: y.into_iter().collect(),
                annotation: annotation.filter(|text| !text.is_empty()),
            },
        )
    }

    /// What was taken for what: `z` has a row for each label of `y` and in it a number, or a text,
    /// for each label of `x`.
    ///
    /// # Errors
    /// [`Error::InvalidEvent`] where the lengths do not fit.
    pub fn confusion_matrix(
        x: impl IntoIterator<Item = impl Into<Value>>,
        y: impl IntoIterator<Item = impl Into<Value>>,
        z: impl IntoIterator<Item = Vec<impl Into<Value>>>,
    ) -> Result<Self, Error> {
        #[derive(Serialize)]
        struct Confusion {
            x: Vec<Value>,
            y: Vec<Value>,
            z: Vec<Vec<Value>>,
        }
        let matrix = Confusion {
            x: x.into_iter().map(Into::into).collect(),
            y: y.into_iter().map(Into::into).collect(),
            z: z.into_iter()
                .map(|row| row.into_iter().map(Into::into).collect())
                .collect(),
        };
        let size = matrix.x.len();
        let fits = matrix.y.len() == size
            && matrix.z.len() == size
            && matrix.z.iter().all(|row| row.len() == size);
        match fits {
            true => Ok(Self::certain(ArtifactKind::Confusion, &matrix)),
            false => Err(invalid(
                ArtifactKind::Confusion,
                "a matrix has as many rows and columns as it has labels",
            )),
        }
    }

    /// Bars: the height of each, and the edges between which they stand, one more than bars. The
    /// platform's own members for the two are `values` and `counts`, in this order.
    ///
    /// # Errors
    /// [`Error::InvalidEvent`] where the lengths do not fit, or there are more than 512 bars.
    pub fn histogram(
        heights: impl IntoIterator<Item = f64>,
        edges: impl IntoIterator<Item = f64>,
    ) -> Result<Self, Error> {
        #[derive(Serialize)]
        struct Histogram {
            values: Vec<f64>,
            counts: Vec<f64>,
        }
        let histogram = Histogram {
            values: heights.into_iter().collect(),
            counts: edges.into_iter().collect(),
        };
        let bars = histogram.values.len();
        if histogram.counts.len() != bars + 1 {
            return Err(invalid(
                ArtifactKind::Histogram,
                "there is one edge more than there are bars",
            ));
        }
        if bars > MAX_BARS {
            return Err(invalid(
                ArtifactKind::Histogram,
                "512 bars are drawn at most",
            ));
        }
        Ok(Self::certain(ArtifactKind::Histogram, &histogram))
    }

    /// As [`histogram`](Self::histogram), of so many bars of one width that hold all the values.
    /// Values that are not finite are left out; without any, the bars stand from 0 to 1.
    ///
    /// # Errors
    /// [`Error::InvalidEvent`] for no bars, or more than 512.
    pub fn histogram_of(values: impl IntoIterator<Item = f64>, bars: usize) -> Result<Self, Error> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        let (first, last) = match (values.first(), values.last()) {
            // All the same: a bar's width around it.
            (Some(first), Some(last)) if first == last => (first - 0.5, last + 0.5),
            (Some(first), Some(last)) => (*first, *last),
            _ => (0.0, 1.0),
        };
        if bars == 0 || bars > MAX_BARS {
            return Err(invalid(ArtifactKind::Histogram, "1 to 512 bars are drawn"));
        }
        let width = (last - first) / bars as f64;
        let mut edges: Vec<f64> = (0..bars).map(|bar| bar as f64 * width + first).collect();
        edges.push(last);
        // A bar has its lower edge; the last has both.
        let below = |edge: f64| values.partition_point(|value| *value < edge);
        let starts = edges.iter().take(bars).map(|edge| below(*edge));
        let ends = edges.iter().skip(1).take(bars - 1).map(|edge| below(*edge));
        let heights = starts
            .zip(ends.chain([values.len()]))
            .map(|(start, end)| end.saturating_sub(start) as f64);
        let heights: Vec<f64> = heights.collect();
        Self::histogram(heights, edges)
    }

    /// A chart in the form of the library that draws it.
    pub fn chart(library: ChartLibrary, figure: &Value) -> Self {
        #[derive(Serialize)]
        struct Chart<'a> {
            kind: ChartLibrary,
            figure: &'a Value,
        }
        let kind = library;
        Self::certain(ArtifactKind::Chart, &Chart { kind, figure })
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ArtifactKind {
        self.kind
    }

    /// What is kept: JSON, but for texts and pages, which are kept as they are.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// An event whose members always have a form in JSON: texts, numbers and lists of them.
    pub(crate) fn certain(kind: ArtifactKind, payload: &impl Serialize) -> Self {
        Self {
            kind,
            payload: serde_json::to_string(payload).unwrap_or_default(),
        }
    }
}

/// Who draws a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the names of libraries")]
pub enum ChartLibrary {
    Plotly,
    Bokeh,
    Vega,
}

fn invalid(kind: ArtifactKind, problem: &'static str) -> Error {
    Error::InvalidEvent { kind, problem }
}

/// A number as Python shows it.
fn shown(value: f64) -> String {
    let mut text = String::new();
    crate::float::push(&mut text, value);
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn payloads_have_the_platforms_form() {
        let table = [
            (
                Event::curve([0.0, 1.0], [f64::NAN, f64::INFINITY]),
                r#"{"kind":"custom","x":[0.0,1.0],"y":[null,null]}"#,
            ),
            (
                Event::annotated_curve([0.0], [1.0], "more=info"),
                r#"{"kind":"custom","x":[0.0],"y":[1.0],"annotation":"more=info"}"#,
            ),
            (
                Event::roc_curve([0.0], [1.0], Some(0.6)),
                r#"{"kind":"roc","x":[0.0],"y":[1.0],"annotation":"0.6"}"#,
            ),
            (
                Event::pr_curve([0.1], [0.2], None),
                r#"{"kind":"pr","x":[0.1],"y":[0.2]}"#,
            ),
            (
                Event::histogram([1.0], [0.0, 0.5]).unwrap(),
                r#"{"values":[1.0],"counts":[0.0,0.5]}"#,
            ),
            (
                Event::histogram_of([1.0, 2.0, 2.0, 3.0, f64::NAN], 2).unwrap(),
                r#"{"values":[1.0,3.0],"counts":[1.0,2.0,3.0]}"#,
            ),
            (
                Event::histogram_of([2.0, 2.0], 1).unwrap(),
                r#"{"values":[2.0],"counts":[1.5,2.5]}"#,
            ),
            (
                Event::histogram_of([], 1).unwrap(),
                r#"{"values":[0.0],"counts":[0.0,1.0]}"#,
            ),
            (
                Event::confusion_matrix(["a", "b"], ["a", "b"], [vec![1, 2], vec![3, 4]]).unwrap(),
                r#"{"x":["a","b"],"y":["a","b"],"z":[[1,2],[3,4]]}"#,
            ),
            (
                Event::chart(ChartLibrary::Vega, &json!({"mark": "bar"})),
                r#"{"kind":"vega","figure":{"mark":"bar"}}"#,
            ),
            (Event::text("a|b"), "a|b"),
        ];
        for (event, expected) in table {
            assert_eq!(event.payload(), expected);
        }
    }

    #[test]
    fn what_the_platform_cannot_draw_is_refused() {
        let problems = [
            Event::histogram([1.0, 2.0], [1.0, 2.0]),
            Event::histogram(vec![0.0; 513], vec![0.0; 514]),
            Event::confusion_matrix(["a", "b"], ["a"], [vec![1, 2], vec![3, 4]]),
            Event::confusion_matrix(["a"], ["a"], [vec![1, 2]]),
            Event::histogram_of([1.0], 0),
            Event::new(ArtifactKind::Metric, &1.0),
            Event::new(ArtifactKind::Text, &1),
        ];
        let texts: Vec<String> = problems
            .into_iter()
            .map(|result| result.unwrap_err().to_string())
            .collect();
        assert_eq!(
            texts,
            [
                "the histogram event cannot be used: there is one edge more than there are bars",
                "the histogram event cannot be used: 512 bars are drawn at most",
                "the confusion event cannot be used: \
                 a matrix has as many rows and columns as it has labels",
                "the confusion event cannot be used: \
                 a matrix has as many rows and columns as it has labels",
                "the histogram event cannot be used: 1 to 512 bars are drawn",
                "the metric event cannot be used: it is a number: use log_metric",
                "the text event cannot be used: it is not a text",
            ]
        );
    }

    #[test]
    fn a_general_event_keeps_the_order_of_its_members() {
        #[derive(Serialize)]
        struct Payload {
            z: u8,
            a: f64,
        }
        let event = Event::new(ArtifactKind::Table, &Payload { z: 1, a: f64::NAN }).unwrap();
        assert_eq!(event.payload(), r#"{"z":1,"a":null}"#);
        let text = Event::new(ArtifactKind::Text, "a \"b\"").unwrap();
        assert_eq!(text, Event::text("a \"b\""));
    }
}
