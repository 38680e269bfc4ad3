//! The files of tracked runs: beside those of the platform's own module, and on disks that fail.
//!
//! `cfg(test)` marks the helpers as test code for clippy, which lets tests alone unwrap.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod replay;
