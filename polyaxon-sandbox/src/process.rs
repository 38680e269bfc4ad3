//! Processes in a sandbox.

mod background;
#[cfg(feature = "client")]
mod bg;
#[cfg(feature = "client")]
mod calls;
mod cursor;
#[cfg(feature = "client")]
mod dropped;
#[cfg(feature = "client")]
mod durable;
mod events;
mod exec;
mod id;
#[cfg(feature = "client")]
mod interrupted;
#[cfg(feature = "client")]
mod logs;
#[cfg(feature = "client")]
mod output;
#[cfg(feature = "client")]
mod result;
mod signal;
#[cfg(feature = "client")]
mod stream;

pub use background::{ExecList, ExecStarted, ExecState, ExecStatus, LogPage, LogStream};
#[cfg(feature = "client")]
pub use bg::BgExec;
#[cfg(feature = "client")]
pub use calls::Process;
pub use cursor::Cursor;
#[cfg(feature = "client")]
pub use dropped::DroppedOutput;
#[cfg(feature = "client")]
pub use durable::{Durable, DurableHandle};
pub use events::ExecEvent;
pub use exec::Exec;
pub use id::ExecId;
#[cfg(feature = "client")]
pub use interrupted::Interrupted;
#[cfg(feature = "client")]
pub use logs::Logs;
#[cfg(feature = "client")]
pub use output::{Output, OutputError};
#[cfg(feature = "client")]
pub(crate) use result::unsuccessful;
#[cfg(feature = "client")]
pub use result::{ExecResult, Receipt, Termination};
pub use signal::Signal;
#[cfg(feature = "client")]
pub use stream::event::{Chunk, Completion, StreamEvent};
#[cfg(feature = "client")]
pub use stream::lines::{Line, Lines, Text};
#[cfg(feature = "client")]
pub use stream::{ExecEvents, Streaming};
