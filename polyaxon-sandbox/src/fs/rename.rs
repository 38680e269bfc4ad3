//! Renaming, which the wire has no call for: `mv` and `ln` in the sandbox do it.

use polyaxon_client::{Effect, InvalidInput};

use super::command::{Ran, failed};
use super::entry::FileType;
use super::error::FileError;
use super::files::{Fs, checked, is_missing};
use super::tally::Tally;
use crate::error::Error;
use crate::path::AbsPath;
use crate::process::ExecResult;

/// What came of an `mv`.
enum Moved {
    Done,
    Refused(ExecResult),
}

impl Fs {
    /// Gives a file, link or directory another name, at once where both are on one file system.
    /// What has that name already is replaced, but not by a directory, nor a directory by a file.
    ///
    /// The wire has no call for it: `mv` of the sandbox does it. Where its answer is lost, it is
    /// looked up whether the old name is gone.
    ///
    /// # Errors
    /// Code `not_found` where nothing is at `from`; [`FileError::Exists`] where `to` is a directory;
    /// [`FileError::Command`] where `mv` says no, [`FileError::NoCommand`] where there is none;
    /// otherwise [`Error::Client`] of the exec, of unknown effect only where nothing could be
    /// looked up or the old name is still there.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was renamed. Both names are whole files all the
    /// time where they are on one file system.
    pub async fn rename<P, Q>(&self, from: P, to: Q) -> Result<(), Error>
    where
        P: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
        Q: TryInto<AbsPath, Error: Into<InvalidInput>> + Send,
    {
        let (from, to) = (checked(from)?, checked(to)?);
        let tally = Tally::default();
        let source = self.stat(&from).await?;
        let target = self.try_stat(&to).await?;
        let is_dir = |file_type: &FileType| *file_type == FileType::Dir;
        if target.is_some_and(|target| is_dir(&target.file_type) != is_dir(&source.file_type)) {
            let path = to.into();
            return Err(FileError::Exists { path }.into());
        }
        self.move_over(&from, &to, &tally).await
    }

    /// Moves `from` over `to`, which is no directory unless `from` is one.
    pub(super) async fn move_over(
        &self,
        from: &AbsPath,
        to: &AbsPath,
        tally: &Tally,
    ) -> Result<(), Error> {
        let (old, new) = (from.root_relative(), to.root_relative());
        // With `-T` a directory at `to` is never entered. Small systems do not know the flag.
        let exact = ["mv", "-f", "-T", "--", &old, &new];
        let mut moved = self.try_move(exact, from, to, tally).await?;
        if let Moved::Refused(result) = &moved
            && is_usage(result)
        {
            let plain = ["mv", "-f", "--", &old, &new];
            moved = self.try_move(plain, from, to, tally).await?;
        }
        match moved {
            Moved::Done => Ok(()),
            Moved::Refused(result) => Err(failed("mv", &result)),
        }
    }

    /// Gives `from` the name `to` as well, unless that is taken, and takes the old one away.
    pub(super) async fn move_new(
        &self,
        from: &AbsPath,
        to: &AbsPath,
        tally: &Tally,
    ) -> Result<(), Error> {
        let (old, new) = (from.root_relative(), to.root_relative());
        match self.run(["ln", "-T", "--", &old, &new], tally).await {
            Ok(Ran::Ended(result)) if result.success() => {}
            Ok(Ran::Ended(result)) => {
                tally.request();
                if self.exists(to).await? {
                    let path = to.as_str().to_owned();
                    return Err(FileError::Exists { path }.into());
                }
                return Err(failed("ln", &result));
            }
            Ok(Ran::Missing) => return Err(FileError::NoCommand { command: "ln" }.into()),
            Err(error) => return Err(error),
        }
        tally.request();
        self.rm_all(from).await
    }

    /// Runs a command that moves `from` away. Where nobody knows what became of it, and `from` is
    /// gone, it was carried out.
    async fn try_move<const N: usize>(
        &self,
        command: [&str; N],
        from: &AbsPath,
        to: &AbsPath,
        tally: &Tally,
    ) -> Result<Moved, Error> {
        let mut lost = 0;
        loop {
            let error = match self.run(command, tally).await {
                Ok(Ran::Ended(result)) if result.success() => return Ok(Moved::Done),
                // One before it, whose answer was lost, may have been carried out after all.
                Ok(Ran::Ended(_)) if lost > 0 && self.moved(from, to, tally).await? => {
                    return Ok(Moved::Done);
                }
                Ok(Ran::Ended(result)) => return Ok(Moved::Refused(result)),
                Ok(Ran::Missing) => return Err(FileError::NoCommand { command: "mv" }.into()),
                Err(error) => error,
            };
            if error.effect() != Effect::Unknown {
                return Err(error);
            }
            match self.moved(from, to, tally).await {
                Ok(true) => return Ok(Moved::Done),
                Ok(false) if lost < 2 => lost += 1,
                Ok(false) | Err(_) => return Err(error),
            }
        }
    }

    async fn moved(&self, from: &AbsPath, to: &AbsPath, tally: &Tally) -> Result<bool, Error> {
        tally.request();
        let gone = match self.stat(from).await {
            Ok(_) => false,
            Err(error) if is_missing(&error) => true,
            Err(error) => return Err(error),
        };
        tally.request();
        Ok(gone && self.exists(to).await?)
    }
}

/// Whether a program refused a flag that it does not know.
fn is_usage(result: &ExecResult) -> bool {
    let said = result.stderr.text_lossy().to_lowercase();
    !result.success()
        && [
            "unrecognized option",
            "invalid option",
            "illegal option",
            "unknown option",
        ]
        .iter()
        .any(|words| said.contains(words))
}
