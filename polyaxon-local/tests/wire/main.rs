//! The service over real HTTP, as any client sees it: routes, statuses, headers, bodies, limits,
//! processes and files.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy sees tests in functions marked so, not in what they call"
)]

mod background;
#[cfg(feature = "cli")]
mod binary;
mod control;
mod environment;
mod escapes;
mod exec;
mod execs;
mod faults;
mod files;
mod gateway;
mod harness;
mod jobs;
mod lifetime;
mod lineage;
mod listing;
mod pods;
mod processes;
mod pty;
mod pty_life;
mod quirks;
mod records;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod refused;
#[cfg(feature = "cli")]
mod serve;
#[cfg(feature = "cli")]
mod soak;
mod socket;
mod streams;
mod uploads;
