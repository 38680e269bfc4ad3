//! Processes in a sandbox.

mod exec;
#[cfg(feature = "client")]
mod output;
#[cfg(feature = "client")]
mod result;
mod signal;

pub use exec::Exec;
#[cfg(feature = "client")]
pub use output::{Output, OutputError};
#[cfg(feature = "client")]
pub use result::{ExecId, ExecResult, Receipt, Termination};
pub use signal::Signal;
