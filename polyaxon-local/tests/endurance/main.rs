//! Many commands: none of them leaves a process behind, however it ends, and the service is the
//! same after ten thousands of them, and after large files, as before. `cargo test` runs short
//! forms; the long ones are switched on by variables, see `kill`, `soak` and `transfer`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests; a failure is a failed test"
)]
#![cfg(target_os = "linux")]

mod kill;
mod program;
mod random;
mod soak;
mod transfer;
mod watch;

/// A number that a variable of the environment may change.
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}
