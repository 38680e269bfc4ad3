//! The life of a sandbox on the local service, and what goes wrong when it is used wrongly.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

mod dropped;
mod durable;
mod found_again;
mod lifecycle;
mod memory;
mod mistakes;
mod once;
mod queries;
mod terminals;
mod transfers;
