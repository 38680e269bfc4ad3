//! Files in a sandbox.

#[cfg(feature = "client")]
mod append;
#[cfg(feature = "client")]
mod buffers;
#[cfg(feature = "client")]
mod command;
mod entry;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod files;
#[cfg(feature = "client")]
mod pages;
#[cfg(feature = "client")]
mod reader;
#[cfg(feature = "client")]
mod rename;
#[cfg(feature = "client")]
mod tally;
#[cfg(feature = "client")]
mod transfer;
#[cfg(feature = "client")]
mod walk;
#[cfg(feature = "client")]
mod writer;

pub use entry::{Entry, FileType, Listing, Stat, Written};
#[cfg(feature = "client")]
pub use error::FileError;
#[cfg(feature = "client")]
pub use files::{Fs, Ls, Mkdir, Page, Write};
#[cfg(feature = "client")]
pub use reader::FileReader;
#[cfg(feature = "client")]
pub use transfer::{
    Comparison, Download, DownloadDir, Existing, LeftOut, Overwrite, Progress, TransferReceipt,
    TreeMethod, TreeReceipt, Upload, UploadDir,
};
#[cfg(feature = "client")]
pub use walk::{Walk, WalkError};
#[cfg(feature = "client")]
pub use writer::FileWriter;
