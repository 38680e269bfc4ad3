//! What the tests of the whole project share: the contract of a sandbox, and the service that it
//! is run against.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "helpers of tests; a failure is a failed test"
)]

pub mod agent;
pub mod authority;
pub mod cancel;
pub mod contract;
pub mod golden;
pub mod local;
pub mod queries;
pub mod recorded;

/// The examples of the READMEs compile.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../README.md")]
    struct Root;
    #[doc = include_str!("../../polyaxon-client/README.md")]
    struct PolyaxonClient;
    #[doc = include_str!("../../polyaxon-sandbox/README.md")]
    struct PolyaxonSandbox;
    #[doc = include_str!("../../polyaxon-tracking/README.md")]
    struct PolyaxonTracking;
    #[doc = include_str!("../../polyaxon-local/README.md")]
    struct PolyaxonLocal;
    #[doc = include_str!("../../agent-loop/README.md")]
    struct AgentLoop;
}
