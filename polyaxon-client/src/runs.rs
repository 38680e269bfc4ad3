//! Runs: what the platform schedules, watches and keeps the records of.

#[cfg(feature = "http")]
mod api;
#[cfg(feature = "http")]
mod artifacts;
#[cfg(feature = "http")]
mod events;
#[cfg(feature = "http")]
mod lineage;
#[cfg(feature = "http")]
mod list;
#[cfg(feature = "http")]
mod logs;
mod model;
#[cfg(feature = "http")]
mod service;
#[cfg(feature = "http")]
mod sync;
#[cfg(feature = "http")]
mod watch;

#[cfg(feature = "http")]
pub use api::Runs;
#[cfg(feature = "http")]
pub use artifacts::{ArtifactTree, Download, Upload};
#[cfg(feature = "http")]
pub use events::EventSeries;
#[cfg(feature = "http")]
pub use lineage::LineageRecord;
#[cfg(feature = "http")]
pub use list::{ListRuns, RunPage};
#[cfg(feature = "http")]
pub use logs::{LogLine, LogPage};
pub use model::{CreateRun, Run, RunSettings, RunStatus, StatusCondition, Statuses};
#[cfg(feature = "http")]
pub use service::{ServiceRoute, check_namespace};
#[cfg(feature = "http")]
pub use watch::Wait;
