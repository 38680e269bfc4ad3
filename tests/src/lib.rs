//! What the tests of the whole project share: the contract of a sandbox, and the service that it
//! is run against.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "helpers of tests; a failure is a failed test"
)]

pub mod agent;
pub mod contract;
pub mod local;
