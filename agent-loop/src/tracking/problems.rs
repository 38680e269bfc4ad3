//! What could not be tracked. Those who watch cannot fail, so it is kept until somebody asks.

pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Parts of an attempt, or of the calls of a controller, are not in the tracked run. They are in
/// the journal, or in the controller's receipts, all the same.
#[derive(Debug, thiserror::Error)]
#[error("{count} parts were not tracked; the first is {what}")]
#[non_exhaustive]
pub struct NotTracked {
    /// How many.
    pub count: usize,
    /// What the first of them is.
    pub what: &'static str,
    /// Why it was not.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The number of problems, and the first of them.
#[derive(Debug, Default)]
pub(super) struct Problems {
    count: usize,
    first: Option<(&'static str, Cause)>,
}

impl Problems {
    pub(super) fn note<E: Into<Cause>>(&mut self, what: &'static str, done: Result<(), E>) {
        if let Err(error) = done {
            self.count += 1;
            self.first.get_or_insert_with(|| (what, error.into()));
        }
    }

    /// An error where there were any since the last call.
    pub(super) fn take(&mut self) -> Result<(), NotTracked> {
        let Self { count, first } = std::mem::take(self);
        match first {
            None => Ok(()),
            Some((what, source)) => Err(NotTracked {
                count,
                what,
                source,
            }),
        }
    }
}
