//! What every implementation of a trait of this crate has to do, as a kit that runs on yours.
//!
//! Each function runs a number of cases and gives a [`Report`]. A case that an implementation does
//! not claim, a command's outcome after a lost answer for one, is told as such and is no failure:
//! the loop asks [`Capabilities`](crate::workspace::Capabilities) and does without.
//!
//! # Examples
//! ```
//! use agent_loop::conformance;
//! use agent_loop::{Model, ModelError, ModelReply, ModelRequest};
//! use futures::future::{BoxFuture, FutureExt as _, ready};
//!
//! /// A model that repeats the last thing it was told.
//! struct Echo;
//!
//! impl Model for Echo {
//!     fn name(&self) -> &str {
//!         "echo"
//!     }
//!
//!     fn propose<'a>(
//!         &'a self,
//!         request: ModelRequest<'a>,
//!     ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
//!         let said = request.messages.last().map_or("", |message| message.content.as_str());
//!         ready(Ok(ModelReply::new(said))).boxed()
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! conformance::model(&Echo).await.ensure()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acceptance;
mod model;
mod workspace;

use std::fmt;

pub use acceptance::acceptance;
pub use model::model;
pub use workspace::{COMMANDS, workspace};

/// What the cases have shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a report says whether the implementation may be used; see `ensure`"]
pub struct Report {
    subject: &'static str,
    cases: Vec<(&'static str, CaseResult)>,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseResult {
    /// As it has to.
    Passed,
    /// Otherwise.
    Failed(String),
    /// The implementation does not claim that it can do this.
    NotClaimed,
}

/// A report with failures in it, as an error. Its text names each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotConformant(String);

/// The end of a case: `Ok(false)` where it was not claimed.
type Case = Result<bool, String>;

impl Report {
    fn new(subject: &'static str) -> Self {
        Self {
            subject,
            cases: Vec::new(),
        }
    }

    fn add(&mut self, name: &'static str, case: Case) {
        let result = match case {
            Ok(true) => CaseResult::Passed,
            Ok(false) => CaseResult::NotClaimed,
            Err(why) => CaseResult::Failed(why),
        };
        self.cases.push((name, result));
    }

    /// The cases with their names, in the order in which they ran.
    #[must_use]
    pub fn cases(&self) -> impl ExactSizeIterator<Item = (&'static str, &CaseResult)> {
        self.cases.iter().map(|(name, result)| (*name, result))
    }

    /// How many cases passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        let passed = self.cases.iter();
        passed
            .filter(|(_, result)| *result == CaseResult::Passed)
            .count()
    }

    /// The names of the cases that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.cases.iter();
        failed
            .filter(|(_, result)| matches!(result, CaseResult::Failed(_)))
            .map(|(name, _)| *name)
            .collect()
    }

    /// An error where a case failed.
    ///
    /// # Errors
    /// With a line for each failed case.
    pub fn ensure(&self) -> Result<(), NotConformant> {
        match self.failed().is_empty() {
            true => Ok(()),
            false => Err(NotConformant(self.to_string())),
        }
    }
}

/// One line a case that failed, and a line with the numbers.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, result) in &self.cases {
            if let CaseResult::Failed(why) = result {
                writeln!(f, "{} {name}: {why}", self.subject)?;
            }
        }
        let (all, passed, failed) = (self.cases.len(), self.passed(), self.failed().len());
        let not_claimed = all - passed - failed;
        write!(
            f,
            "{}: {passed} of {all} cases passed, {failed} failed, {not_claimed} not claimed",
            self.subject
        )
    }
}

/// Fails a case where something is not so.
fn require(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(why()),
    }
}
