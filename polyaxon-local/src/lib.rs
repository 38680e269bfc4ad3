//! The Polyaxon sandbox service on one machine.
#![forbid(unsafe_code)]
#![cfg(unix)]

mod auth;
mod blocking;
mod closing;
mod control;
mod daemon;
mod error;
mod folder;
mod fs;
mod gateway;
mod limits;
mod process;
mod report;
mod routes;
mod server;

pub use error::Error;
pub use limits::Limits;
pub use report::{Layer, LayerState, Report};
pub use server::{LocalServer, LocalServerBuilder};
