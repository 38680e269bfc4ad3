//! Tracked Polyaxon runs: what went in, what was measured, what came out, and where it lies.
//!
//! ```
//! use polyaxon_tracking::{ArtifactRef, TrackedRun, Tracking, read_metric_series};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let run = TrackedRun::start(Tracking::offline(folder).name("candidate-7")).await?;
//! run.log_inputs([("task_id", json!("parse-amounts")), ("case_set", json!(7))])?;
//!
//! let receipt = run.outputs_path("receipts/step-1.json")?;
//! std::fs::write(&receipt, r#"{"exit_code": 0}"#)?;
//! run.log_artifact_ref(ArtifactRef::file(&receipt).name("command-receipt"))?;
//! run.log_metrics(1, [("command_duration_ms", 12.5), ("fixture_matches", 1.0)])?;
//!
//! let report = run.end().await?.ensure_complete()?;
//! assert_eq!(report.written(), 2);
//!
//! let events = run.path().join("events/metric/command_duration_ms.plx");
//! let durations = read_metric_series(events)?;
//! assert_eq!(durations.last().map(|point| (point.step, point.value)), Some((Some(1), 12.5)));
//! # Ok(())
//! # }
//! ```
//!
//! The files and calls are those of Polyaxon's own Python module, so its pages and its client take
//! the run for one of theirs; [`deviations`] lists what is done better.
//!
//! # Where a run goes
//!
//! | start | files | sent |
//! |---|---|---|
//! | [`Tracking::offline`] | in a folder | later, by [`push`](push()) |
//! | [`Tracking::new`] | in a folder of this machine | while the run goes on: a new run, or one that is there |
//! | [`Tracking::from_env`] | in a pod: in its folder, which the platform collects | what the platform does not do itself |
//! | [`Tracking::no_op`] | nowhere | never |
//!
//! A server that is down or busy holds nothing up: calls return at once, what they took is on the
//! disk within moments, and is sent when the server is back. What could not be sent when the run
//! ended is in the [`Report`], and in the run's folder, from where [`push`](push()) sends it. The
//! values of a process that was killed are in the folder too, and what else the run knew a second
//! before: [`push`](push()) sends them, or [`Tracking::resume`] goes on with the run.
//!
//! Start with [`TrackedRun`] and [`Tracking`]; then [`At`] for steps and times, [`Event`] and
//! [`Asset`] for what is no number, [`ArtifactRef`] for files, [`Report`] for what became of it all.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `layer` | no | `LogLayer`: what a program says through `tracing`, in the run's log |
//!
//! # What is kept where
//!
//! Below the run's folder: `events/KIND/NAME.plx`, a line an event; `outputs/`, your files;
//! `assets/`, versions of files; `plxlogs/logs.jsonl`, lines of output; `resources/`, how busy the
//! machine was. While the run goes on, and afterwards unless a server has all of it: `run.plx.json`,
//! its record, and `lineages.plx.json`, its references and the summaries of its events. These two are
//! replaced whole and never seen half written, the first of them from the start on and about every
//! second while there is something new. `sent.plx.json` says which files a server has, as they were
//! when they were sent; a push needs it to leave those out. The summaries come at the end, as they need all values. A pod
//! has the two only where the server takes nothing.
//!
//! # Names
//!
//! The platform stores names in ASCII letters, digits, `_` and `-`: `train/loss` becomes
//! `train__loss`. Here a name of which nothing would be left is refused, and so is one that would
//! be stored like another: both would be one series.

#![forbid(unsafe_code)]

mod artifact;
mod asset;
mod blocking;
mod capture;
pub mod deviations;
mod error;
mod event;
mod files;
mod float;
mod ground;
mod kind;
#[cfg(feature = "layer")]
mod layer;
mod line;
mod lineage;
mod mailbox;
mod metrics;
mod name;
mod outputs;
mod place;
mod plan;
mod pull;
mod push;
mod queue;
mod record;
mod report;
mod resources;
mod run;
mod sender;
mod sent;
mod series;
mod span;
mod summary;
mod surroundings;
mod time;
mod tracking;
mod writer;

pub use artifact::ArtifactRef;
pub use asset::Asset;
pub use capture::LogCapture;
pub use error::Error;
pub use event::{ChartLibrary, Event};
pub use kind::ArtifactKind;
#[cfg(feature = "layer")]
pub use layer::LogLayer;
pub use metrics::{At, MetricValue};
pub use name::NameUse;
pub use pull::pull;
pub use push::{Push, Pushed, push};
pub use record::Ending;
pub use report::{Missing, Report, Sending, Unsent, Unwritten};
pub use run::TrackedRun;
pub use series::{MetricPoint, MetricSeries, read_metric_series};
pub use span::{Span, SpanKind};
pub use tracking::Tracking;
