//! `report.html`: an attempt as one page that needs nothing else.

mod attempt;
mod page;
mod run;
mod turns;

use std::io;
use std::path::Path;

use crate::evidence;

pub(crate) use page::{Page, Tone};
pub use run::RunProblem;
pub(crate) use run::{Records, Run};

/// The name of the page in the folder of a run.
pub(crate) const REPORT: &str = "report.html";

/// The page about the attempt in `folder`, made from its evidence and nothing else: the same
/// evidence gives the same page.
///
/// It is one file, without scripts and without anything that a browser would fetch. Whatever a model
/// or a command has said stands in it as text.
///
/// # Errors
/// Where the attempt is not over, or a part of its evidence does not belong to the others.
pub fn html(folder: impl AsRef<Path>) -> Result<String, RunProblem> {
    Ok(attempt::page(&Run::read(folder.as_ref())?))
}

/// Writes `report.html` into `folder`, beside the evidence it is made from. As that it is its owner's
/// alone (mode 0600 on Unix): it shows what checks have written, hidden ones among them.
///
/// # Errors
/// As [`html`], and where it cannot be written.
pub fn write(folder: impl AsRef<Path>) -> Result<(), RunProblem> {
    let folder = folder.as_ref();
    let page = html(folder)?;
    let written = evidence::write_private(&folder.join(REPORT), page.as_bytes());
    written.map_err(|source: io::Error| RunProblem::Unreadable {
        name: REPORT,
        source,
    })
}

#[cfg(test)]
mod tests;
