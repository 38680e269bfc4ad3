//! The contract of a sandbox, run against the local service; the life of a sandbox; what goes
//! wrong when it is used wrongly.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

mod contract;
mod lifecycle;
mod mistakes;
