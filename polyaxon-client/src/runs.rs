//! Runs: what the platform schedules, watches and keeps the records of.

#[cfg(feature = "http")]
mod api;
#[cfg(feature = "http")]
mod list;
mod model;
#[cfg(feature = "http")]
mod service;
#[cfg(feature = "http")]
mod watch;

#[cfg(feature = "http")]
pub use api::Runs;
#[cfg(feature = "http")]
pub use list::{ListRuns, RunPage};
pub use model::{CreateRun, Run, RunSettings, RunStatus, StatusCondition, Statuses};
#[cfg(feature = "http")]
pub use service::{ServiceRoute, check_namespace};
#[cfg(feature = "http")]
pub use watch::Wait;
