//! Takes over a workspace: puts the task's files, and reads everything that is there.

use super::Places;
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{Entry, File, Tree};
use crate::path::RelPath;
use crate::private::Private;
use crate::workspace::{Precondition, WorkspaceError};

/// The most files of a workspace that is taken over.
const MOST_FILES: usize = 10_000;
/// The most bytes of them together.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

impl Places<'_> {
    /// The files of the workspace, as they are listed afterwards.
    pub(super) async fn open(&self, id: &RequestId, seed: &Tree) -> Result<Tree, WorkspaceError> {
        for (path, file) in seed.iter() {
            let put = self.workspace.put(id, path, file, Precondition::Absent);
            match self.writing(put).await {
                // It is there already, as it should be.
                Err(WorkspaceError::Conflict(Some(digest))) if digest == file.digest() => {}
                other => other?,
            }
        }
        let manifest = self.reading(self.workspace.list()).await?;
        if manifest.iter().len() > MOST_FILES {
            let problem = format!("more than {MOST_FILES} files");
            return Err(WorkspaceError::Refused(Private::new(problem)));
        }
        let mut tree = Tree::new();
        let mut left = MOST_BYTES;
        for (path, entry) in manifest.iter() {
            let Entry::File {
                len,
                sha256,
                executable,
            } = entry
            else {
                let problem = format!("{path} is no regular file");
                return Err(WorkspaceError::Refused(Private::new(problem)));
            };
            left = left
                .checked_sub(*len)
                .ok_or(WorkspaceError::TooLarge(*len))?;
            let file = match seed.get(path) {
                Some(seeded) if seeded.entry() == *entry => File::clone(seeded),
                _ => self
                    .take(path, *len, *sha256)
                    .await?
                    .executable(*executable),
            };
            tree.insert(path.clone(), file);
        }
        let lost = seed.iter().find(|(path, file)| {
            tree.get(path)
                .is_none_or(|there| there.digest() != file.digest())
        });
        match lost {
            Some((path, _)) => {
                let problem = format!("{path} was put and is not there");
                Err(WorkspaceError::Failed(Private::new(problem)))
            }
            None => Ok(tree),
        }
    }

    async fn take(&self, path: &RelPath, len: u64, sha256: Digest) -> Result<File, WorkspaceError> {
        let bytes = self.reading(self.workspace.get(path, len)).await?;
        match Digest::of(&bytes) == sha256 {
            true => Ok(File::new(bytes)),
            false => Err(WorkspaceError::Failed(Private::new(format!(
                "{path} has changed while it was read"
            )))),
        }
    }
}
