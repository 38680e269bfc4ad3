//! Runs: what the platform schedules, watches and keeps the records of.

mod model;

pub use model::{CreateRun, Run, RunSettings, RunStatus, StatusCondition, Statuses};
