//! A table of runs, sorted and shown.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::runs::Run;

/// A column of a [`RunTable`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Column {
    /// An input by its key.
    Input(String),
    /// The last value of a series of events, by its stored name.
    Metric(String),
    /// An output by its key.
    Output(String),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(key) => write!(f, "inputs.{key}"),
            Self::Metric(name) => write!(f, "metrics.{name}"),
            Self::Output(key) => write!(f, "outputs.{key}"),
        }
    }
}

/// What a run has in a column. That there is nothing is not the same as zero, or null.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// No such key, or no events. Shown as `-`.
    Missing,
    /// An event of which the server says no number: it was infinite, or no number.
    NotFinite,
    /// The series could not be read, with the reason.
    Unreadable(String),
    /// A value; null is one.
    Value(Value),
}

impl Cell {
    /// The value as a number, where it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Value(value) => value.as_f64(),
            _ => None,
        }
    }

    /// Whether the run has no value here, not even null.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Numbers first, then text, then all else; what is no value is `None`.
    fn rank(&self) -> Option<u8> {
        match self {
            Self::Value(Value::Number(_)) => Some(0),
            Self::Value(Value::String(_)) => Some(1),
            Self::Value(_) => Some(2),
            Self::NotFinite | Self::Unreadable(_) | Self::Missing => None,
        }
    }

    fn compared(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Value(Value::String(one)), Self::Value(Value::String(other))) => one.cmp(other),
            _ => match (self.as_f64(), other.as_f64()) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }
}

impl fmt::Display for Cell {
    /// On one line: what would break it is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Missing => "-".to_owned(),
            Self::NotFinite => "not finite".to_owned(),
            Self::Unreadable(_) => "unreadable".to_owned(),
            Self::Value(Value::String(text)) => on_one_line(text),
            Self::Value(value) => value.to_string(),
        };
        f.pad(&text)
    }
}

fn on_one_line(text: &str) -> String {
    let shown = text.chars().flat_map(|c| match c.is_control() {
        true => c.escape_default().collect::<Vec<_>>(),
        false => vec![c],
    });
    shown.collect()
}

/// A run with its cells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunRow {
    /// The run, as lists have it.
    pub run: Run,
    /// A cell for each column of the table.
    pub cells: Vec<Cell>,
}

impl RunRow {
    /// Its name, or the beginning of its id.
    fn label(&self) -> String {
        match &self.run.name {
            Some(name) => on_one_line(name),
            None => self.run.uuid.to_string().chars().take(8).collect(),
        }
    }

    fn status(&self) -> &str {
        self.run
            .status
            .as_ref()
            .map_or("-", |status| status.as_str())
    }
}

/// Runs beside each other. Shown, it is a table for a terminal: text to the left, numbers to the
/// right.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunTable {
    columns: Vec<Column>,
    rows: Vec<RunRow>,
}

impl RunTable {
    pub(super) fn new(columns: Vec<Column>, rows: Vec<RunRow>) -> Self {
        Self { columns, rows }
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows, in their order.
    #[must_use]
    pub fn rows(&self) -> &[RunRow] {
        &self.rows
    }

    /// The cell of a row in a column; `None` where the table has no such column.
    #[must_use]
    pub fn cell<'a>(&self, row: &'a RunRow, column: &Column) -> Option<&'a Cell> {
        row.cells.get(self.place(column)?)
    }

    /// Puts the smallest first. What is missing, not finite or unreadable comes last, in this order
    /// of the rows and in the other: a run without a value is never the best one. Among equals the
    /// order stays. Nothing happens where the table has no such column.
    pub fn sort_ascending(&mut self, column: &Column) {
        self.sort(column, |order| order);
    }

    /// Puts the largest first, else as [`sort_ascending`](Self::sort_ascending).
    pub fn sort_descending(&mut self, column: &Column) {
        self.sort(column, Ordering::reverse);
    }

    fn sort(&mut self, column: &Column, direction: fn(Ordering) -> Ordering) {
        let Some(at) = self.place(column) else {
            return;
        };
        self.rows.sort_by(|one, other| {
            let (Some(one), Some(other)) = (one.cells.get(at), other.cells.get(at)) else {
                return Ordering::Equal;
            };
            match (one.rank(), other.rank()) {
                (Some(first), Some(second)) if first == second => direction(one.compared(other)),
                // Numbers before text before the rest, in either direction.
                (Some(first), Some(second)) => first.cmp(&second),
                (one, other) => other.is_some().cmp(&one.is_some()),
            }
        });
    }

    fn place(&self, column: &Column) -> Option<usize> {
        self.columns.iter().position(|known| known == column)
    }
}

impl fmt::Display for RunTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["run".to_owned(), "status".to_owned()];
        let heads = heads
            .into_iter()
            .chain(self.columns.iter().map(ToString::to_string));
        let mut lines: Vec<Vec<String>> = vec![heads.collect()];
        for row in &self.rows {
            let label = [row.label(), row.status().to_owned()];
            lines.push(
                label
                    .into_iter()
                    .chain(row.cells.iter().map(ToString::to_string))
                    .collect(),
            );
        }
        let width = |at: usize| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len() + 2).map(width).collect();
        // A column with a number in it, and no text, stands on its right edge.
        let is_right = |at: usize| {
            let cells = || {
                self.rows
                    .iter()
                    .filter_map(move |row| row.cells.get(at.checked_sub(2)?))
            };
            cells().any(|cell| cell.as_f64().is_some())
                && !cells().any(|cell| matches!(cell, Cell::Value(Value::String(_))))
        };
        for line in &lines {
            let cells = line
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(at, (cell, width))| match is_right(at) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
            let shown = cells.collect::<Vec<_>>().join("  ");
            writeln!(f, "{}", shown.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runs::RunStatus;

    fn table() -> RunTable {
        let row = |name: &str, cells: Vec<Cell>| {
            let mut run = Run::new("8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap());
            run.name = (!name.is_empty()).then(|| name.to_owned());
            run.status = Some(RunStatus::Succeeded);
            RunRow { run, cells }
        };
        let value = |value: Value| Cell::Value(value);
        RunTable::new(
            vec![
                Column::Input("model".to_owned()),
                Column::Metric("loss".to_owned()),
            ],
            vec![
                row("a", vec![value(json!("small\nand quick")), value(json!(0))]),
                row("b", vec![Cell::Missing, Cell::Missing]),
                row("", vec![value(json!("é")), value(json!(-12.5))]),
                row("c", vec![value(Value::Null), Cell::NotFinite]),
                row("d", vec![value(json!("x")), value(Value::Null)]),
                row(
                    "e",
                    vec![value(json!("x")), Cell::Unreadable("500".to_owned())],
                ),
            ],
        )
    }

    #[test]
    fn a_table_is_shown_aligned() {
        insta::assert_snapshot!(table().to_string(), @r"
        run       status     inputs.model      metrics.loss
        a         succeeded  small\nand quick             0
        b         succeeded  -                            -
        8aac02e3  succeeded  é                        -12.5
        c         succeeded  null                not finite
        d         succeeded  x                         null
        e         succeeded  x                   unreadable
        ");
    }

    #[test]
    fn what_is_no_value_comes_last_in_either_direction() {
        let names = |table: &RunTable| {
            let names = table.rows().iter().map(RunRow::label);
            names.collect::<Vec<_>>().join(" ")
        };
        let loss = Column::Metric("loss".to_owned());
        let mut sorted = table();
        sorted.sort_ascending(&loss);
        assert_eq!(names(&sorted), "8aac02e3 a d b c e");
        sorted.sort_descending(&loss);
        assert_eq!(names(&sorted), "a 8aac02e3 d b c e");
        sorted.sort_ascending(&Column::Output("none".to_owned()));
        assert_eq!(names(&sorted), "a 8aac02e3 d b c e");
        let first = &sorted.rows()[0];
        assert_eq!(sorted.cell(first, &loss), Some(&Cell::Value(json!(0))));
        assert_eq!(sorted.cell(first, &Column::Input("none".to_owned())), None);
    }
}
