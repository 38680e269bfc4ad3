//! What happened, in order, as it happens.
//!
//! A journal is a file of lines, `actions.jsonl`. Each line is one JSON object that ends in a single
//! line feed:
//!
//! | member | what |
//! |---|---|
//! | `v` | the version of the format: 1 |
//! | `seq` | the number of the line, from 0 |
//! | `at_ms` | when, in milliseconds since 1970 |
//! | `prev` | the first 16 bytes of the SHA-256 of the line before, without its line feed, as hex; 32 zeros in the first line |
//! | `kind` | what it is: see [`Event`] |
//! | `body` | the event itself, or |
//! | `blob` | the SHA-256 of the body where it has more than 32 KiB; it is in `blobs/<sha256>` |
//! | `ext` | `true` in a line that a reader may pass over where it does not know its kind |
//!
//! What has an effect is written down before it is done (`intent`), synced together with the reply
//! and the decision that led to it, and what came of it after it (`receipt`), synced together with
//! what follows from it.

mod file;
mod reader;
mod record;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

pub use file::FileJournal;
pub use reader::{CorruptJournal, JournalEntry, ReadJournal, TornTail};
pub(crate) use record::place_in_a_line;
pub use record::{
    Answer, ApprovalRecord, Asked, Decided, Ended, Evaluator, Event, Intended, Intent, Judged,
    Left, Paused, Placed, Placing, Prepared, Receipt, Record, Replied, ReplyRecord, Resumed,
    SeedFile, Started, Stopped, TurnEnded, TurnResult, WorkspaceRecord,
};

use crate::digest::Digest;

/// Keeps the records of an attempt. The first error ends the attempt.
///
/// # Examples
/// A journal that keeps nothing but the kinds of its records, and how well they have to be kept:
/// ```
/// use std::io;
/// use std::sync::{Arc, Mutex};
/// use agent_loop::journal::{Durability, Journal, Record};
/// use agent_loop::{
///     Attempt, Budget, ExecReceipt, MemoryWorkspace, Paths, ScriptedModel, Task, UnittestAcceptance,
/// };
///
/// #[derive(Clone, Default)]
/// struct Kinds(Arc<Mutex<Vec<(&'static str, Durability)>>>);
///
/// impl Journal for Kinds {
///     fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
///         let mut kinds = self.0.lock().map_err(|error| io::Error::other(error.to_string()))?;
///         kinds.push((record.event.kind(), durability));
///         Ok(())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let task = Task::new("amounts", "total(xs) must return the sum of xs.")
/// #     .file("amounts.py", "def total(xs):\n    return 0\n")?;
/// # let workspace = MemoryWorkspace::new(|_spec, _files| Ok(ExecReceipt::exited(0)));
/// # let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
/// # let paths = Paths::editable(["amounts.py"])?;
/// let model = ScriptedModel::new([
///     r#"{"action":"write","path":"amounts.py","content":"def total(xs):\n    return sum(xs)\n"}"#,
/// ]);
/// let kinds = Kinds::default();
/// Attempt::new(task, model, workspace, acceptance, paths)
///     .allow_checks(true)
///     .budget(Budget::default().turns(1))
///     .journal(kinds.clone())
///     .drive()
///     .await?;
///
/// let kinds = kinds.0.lock().unwrap();
/// assert_eq!(kinds.first(), Some(&("started", Durability::Buffered)));
/// // The intent of the write is on the disk before it is done, and its receipt before anything else.
/// assert!(kinds.windows(2).any(|pair| pair
///     == [("intent", Durability::Synced), ("receipt", Durability::Synced)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Journal: Send {
    /// Adds a record. With [`Durability::Synced`] it has to be on the disk, with all before it,
    /// when the call returns.
    ///
    /// # Errors
    /// Where the record is not kept.
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()>;

    /// Adds records that belong together, in order: nothing is done before all of them are kept, so
    /// one write will do, and one sync where any of them needs it. Default: one after the other.
    ///
    /// # Errors
    /// Where one of them is not kept. No observer sees those before it then.
    fn append_all(&mut self, records: &[(Record, Durability)]) -> io::Result<()> {
        let mut records = records.iter();
        records.try_for_each(|(record, durability)| self.append(record, *durability))
    }

    /// The digest of the last line, where lines are chained. Default: none.
    fn chain_head(&self) -> Option<Digest> {
        None
    }
}

/// How well a record has to be kept before the attempt goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum Durability {
    /// It may be lost with the machine.
    Buffered,
    /// It is on the disk.
    Synced,
}

/// Watches an attempt: it sees every record after it was kept. It cannot fail and has no say.
///
/// [`observer_fn`] makes one of a function. A type of one's own can tell the records of an earlier
/// program apart.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use agent_loop::journal::{Event, Observer, Record};
///
/// /// Counts the verdicts of this program's checks.
/// #[derive(Default)]
/// struct Verdicts(AtomicU32);
///
/// impl Observer for Verdicts {
///     fn on(&self, record: &Record) {
///         if let Event::Judged(_) = record.event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
///
///     fn played(&self, _record: &Record) {}
/// }
///
/// # use std::sync::Arc;
/// # use agent_loop::{
/// #     Attempt, ExecReceipt, MemoryWorkspace, Paths, ScriptedModel, Task, UnittestAcceptance,
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let task = Task::new("amounts", "total(xs) must return the sum of xs.")
/// #     .file("amounts.py", "def total(xs):\n    return sum(xs)\n")?;
/// # let model = ScriptedModel::new([r#"{"action":"check"}"#, r#"{"action":"finish"}"#]);
/// # let workspace = MemoryWorkspace::new(|_spec, _files| {
/// #     Ok(ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"))
/// # });
/// # let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
/// # let attempt =
/// #     Attempt::new(task, model, workspace, acceptance, Paths::editable(["amounts.py"])?)
/// #         .allow_checks(true);
/// let verdicts = Arc::new(Verdicts::default());
/// attempt.observer(Arc::clone(&verdicts)).drive().await?;
/// assert_eq!(verdicts.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send + Sync {
    /// Sees a record.
    fn on(&self, record: &Record);

    /// Sees a record that an earlier program has written, when the attempt goes on. Default: as
    /// [`on`](Self::on). Whoever passes records on, and has done so before, does not here.
    fn played(&self, record: &Record) {
        self.on(record);
    }
}

/// An observer that is a function. Made by [`observer_fn`].
pub struct ObserverFn<F>(F);

/// An observer that does what `function` does.
///
/// # Examples
/// ```
/// use agent_loop::journal::{Event, observer_fn};
///
/// let turns = observer_fn(|record| {
///     if let Event::Turn(turn) = &record.event {
///         eprintln!("turn {}: {}", turn.turn, turn.result.as_str());
///     }
/// });
/// # let _ = turns;
/// ```
#[must_use]
pub fn observer_fn<F>(function: F) -> ObserverFn<F>
where
    F: Fn(&Record) + Send + Sync,
{
    ObserverFn(function)
}

impl<F> fmt::Debug for ObserverFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverFn")
    }
}

impl<F> Observer for ObserverFn<F>
where
    F: Fn(&Record) + Send + Sync,
{
    fn on(&self, record: &Record) {
        (self.0)(record);
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<T: Observer + ?Sized> Observer for $type {
            fn on(&self, record: &Record) {
                (**self).on(record);
            }

            fn played(&self, record: &Record) {
                (**self).played(record);
            }
        }
    )*};
}
forward!(&T, Box<T>, Arc<T>);

impl<J: Journal + ?Sized> Journal for Box<J> {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        (**self).append(record, durability)
    }

    fn append_all(&mut self, records: &[(Record, Durability)]) -> io::Result<()> {
        (**self).append_all(records)
    }

    fn chain_head(&self) -> Option<Digest> {
        (**self).chain_head()
    }
}

impl<J: Journal + ?Sized> Journal for &mut J {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        (**self).append(record, durability)
    }

    fn append_all(&mut self, records: &[(Record, Durability)]) -> io::Result<()> {
        (**self).append_all(records)
    }

    fn chain_head(&self) -> Option<Digest> {
        (**self).chain_head()
    }
}

/// A journal in memory. Clones share the records.
#[derive(Clone, Default)]
pub struct MemoryJournal {
    records: Arc<Mutex<Vec<(Record, Durability)>>>,
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The records so far, and how well each had to be kept.
    #[must_use]
    pub fn records(&self) -> Vec<(Record, Durability)> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryJournal").finish_non_exhaustive()
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push((record.clone(), durability));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
