//! Files in a sandbox.

mod entry;

pub use entry::{Entry, FileType, Listing, Stat, Written};
