//! Files that one value holds at a time.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;

/// A file with a lock on it that nobody else gets while this value lives.
///
/// The lock is given up with the value and not only with the last descriptor of the file: a program
/// that another thread is about to start has a copy of each for a moment, and would keep it locked.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Locked {
    pub(crate) fn new(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    /// Waits until nobody else has it.
    pub(crate) fn waiting(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Where it fails, the end of the descriptor does the same.
        drop(self.0.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_value_though_another_descriptor_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let first = Locked::new(open()).unwrap();
        // As a program has it that is just being started.
        let copy = first.try_clone().unwrap();
        let refused = Locked::new(open()).unwrap_err();
        assert!(matches!(refused, TryLockError::WouldBlock));
        drop(first);
        Locked::new(open()).unwrap();
        drop(copy);
    }
}
