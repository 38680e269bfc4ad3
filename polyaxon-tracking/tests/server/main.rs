//! Tracked runs on a server: the local one, with faults on purpose.
//!
//! `cfg(test)` marks the helpers as test code for clippy, which lets tests alone unwrap.

#[cfg(test)]
mod count;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod online;
#[cfg(test)]
mod push;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod starts;
#[cfg(test)]
mod stuck;
