//! Typed client of Polyaxon sandboxes.

#![forbid(unsafe_code)]

pub mod fs;
mod path;
mod ping;
pub mod process;
pub mod wire;

pub use path::{AbsPath, FileMode};
pub use ping::Ping;
pub use process::Exec;
#[cfg(feature = "client")]
pub use process::ExecResult;
