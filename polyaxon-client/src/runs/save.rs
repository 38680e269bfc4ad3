//! Files of runs, onto the disk of this machine.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

use super::Runs;
use crate::error::{BoxError, Error, InvalidInput};
use crate::ids::RunUuid;

/// A file or a folder of a run, and where it goes on this machine.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::SaveArtifacts;
///
/// let model = SaveArtifacts::new("outputs/model", "target/model")
///     .on_progress(|now| println!("{}: {} of {:?} bytes", now.path, now.bytes, now.total));
/// ```
#[derive(Clone)]
#[must_use = "a SaveArtifacts does nothing until it is passed to `save_file` or `save_folder`"]
pub struct SaveArtifacts {
    from: String,
    to: PathBuf,
    progress: Option<Listener>,
}

type Listener = Arc<dyn Fn(&Saving<'_>) + Send + Sync>;

impl fmt::Debug for SaveArtifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveArtifacts")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saving<'a> {
    /// The file that is being written, below the run's folder.
    pub path: &'a str,
    /// How many bytes there are so far, of all files.
    pub bytes: u64,
    /// How many there will be, as far as the server says.
    pub total: Option<u64>,
}

impl SaveArtifacts {
    /// The file or folder `from` below the run's folder, to `to` on this machine.
    pub fn new(from: impl Into<String>, to: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            progress: None,
        }
    }

    /// Is told with each piece how many bytes were written so far, and once for an empty file.
    pub fn on_progress(mut self, tell: impl Fn(&Saving<'_>) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(tell));
        self
    }

    fn tell(&self, path: &str, bytes: u64, total: Option<u64>) {
        if let Some(tell) = &self.progress {
            tell(&Saving { path, bytes, total });
        }
    }
}

impl Runs {
    /// Saves a file of a run. What is at its place is replaced when the last byte is there, and not
    /// touched before. Gives the number of bytes.
    ///
    /// # Errors
    /// [`Error::Api`] with status 404 where there is no such file; [`Error::Transport`] where the
    /// connection breaks off; [`Error::Disk`] where it cannot be written.
    ///
    /// # Cancel safety
    /// Dropping the future leaves what was at the place, and removes what was written so far.
    pub async fn save_file(
        &self,
        namespace: &str,
        run: RunUuid,
        save: &SaveArtifacts,
    ) -> Result<u64, Error> {
        self.save_one(namespace, run, save, (&save.from, &save.to), (0, None))
            .await
    }

    /// Saves a folder of a run with all that is in it, file by file: what a server packs for two
    /// runs at once can be mixed up. Memory does not grow with the files. Gives their paths below
    /// the folder.
    ///
    /// Files that are there already are replaced, one by one; others stay.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] before anything is written where the server names a file that would
    /// be outside of the folder; else as [`save_file`](Self::save_file). What was saved before an
    /// error stays.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the files that were saved whole, and no part of one.
    pub async fn save_folder(
        &self,
        namespace: &str,
        run: RunUuid,
        save: &SaveArtifacts,
    ) -> Result<Vec<String>, Error> {
        let folder = save.from.trim_matches('/');
        let sizes = self.artifact_sizes_below(namespace, run, folder).await?;
        let total = sizes.values().copied().fold(0, u64::saturating_add);
        let mut files = Vec::with_capacity(sizes.len());
        for path in sizes.into_keys() {
            let below = match folder.is_empty() {
                true => path.as_str(),
                false => path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .trim_start_matches('/'),
            };
            let to = save.to.join(inside(below)?);
            files.push((below.to_owned(), path, to));
        }
        let mut done = 0;
        for (_, path, to) in &files {
            done += self
                .save_one(namespace, run, save, (path, to), (done, Some(total)))
                .await?;
        }
        Ok(files.into_iter().map(|(below, ..)| below).collect())
    }

    async fn save_one(
        &self,
        namespace: &str,
        run: RunUuid,
        save: &SaveArtifacts,
        (from, to): (&str, &Path),
        (before, total): (u64, Option<u64>),
    ) -> Result<u64, Error> {
        let disk = |error: io::Error| Error::Disk {
            path: to.to_owned(),
            source: Box::new(error) as BoxError,
        };
        let mut download = self.artifact(namespace, run, from).await?;
        let total = total.or(download.length());
        if let Some(folder) = to.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(disk)?;
        }
        let (part, mut file) = Part::beside(to).make().await.map_err(disk)?;
        let mut bytes = 0;
        while let Some(chunk) = download.chunk().await? {
            file.write_all(&chunk).await.map_err(disk)?;
            bytes += chunk.len() as u64;
            save.tell(from, before + bytes, total);
        }
        if bytes == 0 {
            save.tell(from, before, total);
        }
        file.sync_all().await.map_err(disk)?;
        drop(file);
        tokio::fs::rename(&part.0, to).await.map_err(disk)?;
        Ok(bytes)
    }
}

/// A file that is not whole yet. Dropped before it has its name, it is removed.
struct Part(PathBuf);

impl Part {
    /// In the same folder, so that a rename is enough; with a name that no other download has.
    fn beside(place: &Path) -> Self {
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", RunUuid::random()));
        Self(place.with_file_name(name))
    }

    /// Makes the file. It goes with what removes it: where nobody waits for it any more, too.
    async fn make(self) -> io::Result<(Self, tokio::fs::File)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the library's own call lets go of a file that nobody waits for"
        )]
        let making = tokio::task::spawn_blocking(move || {
            let file = std::fs::File::create_new(&self.0)?;
            Ok((self, file.into()))
        });
        making.await.map_err(io::Error::other)?
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Where it was renamed there is none.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// A path that a server names, where it leads into the folder and nowhere else.
fn inside(path: &str) -> Result<&Path, InvalidInput> {
    let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.contains(['\\', '\0']);
    match path.split('/').all(is_step) {
        true => Ok(Path::new(path)),
        false => Err(InvalidInput::new(
            "path",
            format!("the server names {path:?}, which is no path inside of a folder"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_refused() {
        for path in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/.",
            "a\\b",
            "a\0",
        ] {
            let error = inside(path).unwrap_err();
            assert_eq!(error.field(), "path", "{path:?}");
        }
        for path in ["a", "a/b.txt", "..a/.b", "é ü"] {
            assert_eq!(inside(path), Ok(Path::new(path)));
        }
    }
}
