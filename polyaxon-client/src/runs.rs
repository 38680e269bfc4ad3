//! Runs: what the platform schedules, watches and keeps the records of.

#[cfg(feature = "http")]
mod api;
#[cfg(feature = "http")]
mod artifacts;
#[cfg(feature = "http")]
mod compare;
#[cfg(feature = "http")]
mod events;
#[cfg(feature = "http")]
mod health;
#[cfg(feature = "http")]
mod job;
#[cfg(feature = "http")]
mod lifecycle;
#[cfg(feature = "http")]
mod lineage;
#[cfg(feature = "http")]
mod list;
#[cfg(feature = "http")]
mod logs;
mod model;
mod query;
#[cfg(feature = "http")]
mod save;
#[cfg(feature = "http")]
mod service;
#[cfg(feature = "http")]
mod sync;
#[cfg(feature = "http")]
mod walk;
#[cfg(feature = "http")]
mod watch;

#[cfg(feature = "http")]
pub use api::Runs;
#[cfg(feature = "http")]
pub use artifacts::{ArtifactTree, Download, Upload};
#[cfg(feature = "http")]
pub use compare::{Cell, Column, Comparison, RunRow, RunTable};
#[cfg(feature = "http")]
pub use events::EventSeries;
#[cfg(feature = "http")]
pub use health::HealthCheck;
#[cfg(feature = "http")]
pub use job::{ComponentVersion, OperationSpec};
#[cfg(feature = "http")]
pub use lifecycle::{Many, RunAgain};
#[cfg(feature = "http")]
pub use lineage::LineageRecord;
#[cfg(feature = "http")]
pub use list::{ListRuns, RunPage};
#[cfg(feature = "http")]
pub use logs::{LogLine, LogPage};
pub use model::{
    CreateRun, LiveState, OriginalRun, Run, RunSettings, RunStatus, StatusCondition, Statuses,
};
pub use query::{
    Choice, Equality, Keyed, Measured, Meta, Metric, Order, QueryValue, RunQuery, Sort, SortField,
    Term, Text, Time, Word,
};
#[cfg(feature = "http")]
pub use save::{SaveArtifacts, Saving};
#[cfg(feature = "http")]
pub use service::{ServiceRoute, check_namespace};
#[cfg(feature = "http")]
pub use walk::RunStream;
#[cfg(feature = "http")]
pub use watch::Wait;
