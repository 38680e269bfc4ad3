//! Runs: what the platform schedules, watches and keeps the records of.

#[cfg(feature = "http")]
mod api;
mod model;
#[cfg(feature = "http")]
mod watch;

#[cfg(feature = "http")]
pub use api::Runs;
pub use model::{CreateRun, Run, RunSettings, RunStatus, StatusCondition, Statuses};
#[cfg(feature = "http")]
pub use watch::Wait;
