//! Our client against the recorded requests of the Python client: the same calls, and what goes over
//! the wire for them.

mod calls;
mod recorder;
mod report;
mod sent;

pub use self::report::{Report, Verdict, report};
