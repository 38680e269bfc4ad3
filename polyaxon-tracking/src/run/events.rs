//! Values and events in the order of time.

use super::{Intake, TrackedRun};
use crate::error::Error;
use crate::event::Event;
use crate::kind::{MetricId, SeriesKey};
use crate::line::push_payload;
use crate::metrics::{At, MetricValue, Number};
use crate::name::NameUse;
use crate::queue::Command;
use crate::span::Span;

impl Intake {
    /// The number of a metric; and what tells the writer of it, which is to be sent first, where it
    /// has none yet.
    fn metric(&mut self, name: &str) -> Result<(MetricId, Option<Command>), Error> {
        if let Some(id) = self.metrics.get(name) {
            return Ok((*id, None));
        }
        let stored = self.names.claim_one(NameUse::Metric, name)?;
        let id = MetricId(self.metrics.len());
        self.metrics.insert(name.to_owned(), id);
        Ok((id, Some(Command::Metric(stored))))
    }
}

impl TrackedRun {
    /// Logs one value of a metric. The last one of a metric becomes an output of the run.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for its name; [`Error::OutOfRange`] for
    /// its time; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_metric(
        &self,
        at: impl Into<At>,
        name: impl AsRef<str>,
        value: impl MetricValue,
    ) -> Result<(), Error> {
        let stamp = at.into().stamp()?;
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let (id, first) = intake.metric(name.as_ref())?;
        let value = Command::Value(Number::new(id, stamp, value.to_f64()));
        permit.send(first.into_iter().chain([value]))
    }

    /// Logs values of several metrics at one step and time: all, or none.
    ///
    /// # Errors
    /// As [`log_metric`](Self::log_metric). More values than the queue's capacity never fit.
    pub fn log_metrics<N: AsRef<str>, V: MetricValue>(
        &self,
        at: impl Into<At>,
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        let stamp = at.into().stamp()?;
        let values: Vec<(N, V)> = values.into_iter().collect();
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(values.len())?;
        // All of them, or none.
        let names = values.iter().map(|(name, _)| name.as_ref());
        let new = names.filter(|name| !intake.metrics.contains_key(*name));
        let new: Vec<&str> = new.collect();
        intake.names.claim(NameUse::Metric, new)?;
        let mut commands = Vec::with_capacity(values.len());
        for (name, value) in &values {
            let (id, first) = intake.metric(name.as_ref())?;
            commands.extend(first);
            commands.push(Command::Value(Number::new(id, stamp, value.to_f64())));
        }
        permit.send(commands)
    }

    /// Logs a text.
    ///
    /// # Errors
    /// As [`log_event`](Self::log_event).
    pub fn log_text(
        &self,
        at: impl Into<At>,
        name: impl AsRef<str>,
        text: impl Into<String>,
    ) -> Result<(), Error> {
        self.log_event(at, name, Event::text(text))
    }

    /// Logs a page of HTML.
    ///
    /// # Errors
    /// As [`log_event`](Self::log_event).
    pub fn log_html(
        &self,
        at: impl Into<At>,
        name: impl AsRef<str>,
        html: impl Into<String>,
    ) -> Result<(), Error> {
        self.log_event(at, name, Event::html(html))
    }

    /// Logs an event of any kind but a metric: a curve, a matrix, a chart, or what else the
    /// platform has a kind for.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for its name; [`Error::OutOfRange`] for
    /// its time; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_event(
        &self,
        at: impl Into<At>,
        name: impl AsRef<str>,
        event: Event,
    ) -> Result<(), Error> {
        let stamp = at.into().stamp()?;
        let kind = event.kind();
        let mut line = String::new();
        push_payload(&mut line, kind, stamp, event.payload());
        // Its text is in the line now.
        drop(event);
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let name = intake
            .names
            .claim_one(NameUse::Event(kind), name.as_ref())?;
        permit.send([Command::Line(SeriesKey::event(kind, name), line)])
    }

    /// Logs what an agent did, as an event named after the outermost span. Its inputs and outputs
    /// become inputs and outputs of the run.
    ///
    /// # Errors
    /// As [`log_event`](Self::log_event) and [`log_inputs`](Self::log_inputs). Where the names of
    /// inputs or outputs cannot be used, the event was taken all the same.
    pub fn log_trace(&self, at: impl Into<At>, span: Span) -> Result<(), Error> {
        self.log_event(at, span.trace_name(), span.event())?;
        let (inputs, outputs) = span.into_values();
        if !inputs.is_empty() {
            self.log_inputs(inputs)?;
        }
        if !outputs.is_empty() {
            self.log_outputs(outputs)?;
        }
        Ok(())
    }
}
