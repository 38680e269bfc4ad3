//! The loop in a real sandbox: what is accepted, and above all what is not.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests; a failure is a failed test"
)]

mod accepted;
mod cases;
mod cheats;
mod checks;
mod infrastructure;
mod killed;
mod paths;
mod replies;
mod rules;
mod rust;
mod suite_killed;
mod suites;
mod verification;
