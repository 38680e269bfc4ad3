//! Files in a sandbox.

mod entry;
#[cfg(feature = "client")]
mod files;

pub use entry::{Entry, FileType, Listing, Stat, Written};
#[cfg(feature = "client")]
pub use files::{Fs, Ls, Mkdir, Page, Write};
