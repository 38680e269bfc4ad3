//! Files of this machine: whole or not there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use super::Overwrite;

/// How much is read at once to compute a digest.
const BLOCK: usize = 256 << 10;

/// A file beside its destination that is not finished.
#[derive(Debug)]
pub(super) struct Part {
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Removed when it is dropped.
    Fleeting(TempPath),
    /// Kept when it is dropped, to go on from there.
    Kept { part: PathBuf, note: PathBuf },
}

/// What a part that is kept is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) sandbox: String,
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) modified: Option<String>,
}

impl Part {
    /// A new file with a name of its own in the folder of `destination`.
    pub(super) fn fleeting(destination: &Path) -> io::Result<(Self, File)> {
        let (folder, name) = split(destination)?;
        let named = tempfile::Builder::new()
            .prefix(&format!(".{}.", short(&name)))
            .suffix(".part")
            .tempfile_in(folder)?;
        let (file, path) = named.into_parts();
        Ok((
            Self {
                place: Place::Fleeting(path),
            },
            file,
        ))
    }

    /// The file that an earlier attempt may have left, and how much of it is of use. One process at
    /// a time has it.
    pub(super) fn kept(destination: &Path, note: &Note) -> io::Result<(Self, File, u64)> {
        let (folder, name) = split(destination)?;
        let stem = short(&name);
        let part = folder.join(format!(".{stem}.plx-resume.part"));
        let note_path = folder.join(format!(".{stem}.plx-resume.json"));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&part)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another download writes it")
            }
            std::fs::TryLockError::Error(error) => error,
        })?;
        let known = std::fs::read(&note_path)
            .ok()
            .and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        let length = file.metadata()?.len();
        let start = match known.as_ref() == Some(note) && length <= note.size {
            true => length,
            false => {
                file.set_len(0)?;
                std::fs::write(&note_path, serde_json::to_vec(note)?)?;
                0
            }
        };
        file.seek(SeekFrom::Start(start))?;
        let place = Place::Kept {
            part,
            note: note_path,
        };
        Ok((Self { place }, file, start))
    }

    /// Gives the finished file its name.
    pub(super) fn finish(self, destination: &Path, overwrite: Overwrite) -> io::Result<()> {
        match (self.place, overwrite) {
            (Place::Fleeting(path), Overwrite::Replace) => {
                path.persist(destination).map_err(|error| error.error)?;
            }
            (Place::Fleeting(path), Overwrite::Refuse) => {
                path.persist_noclobber(destination)
                    .map_err(|error| error.error)?;
            }
            (Place::Kept { part, note }, Overwrite::Replace) => {
                std::fs::rename(part, destination)?;
                std::fs::remove_file(note)?;
            }
            (Place::Kept { part, note }, Overwrite::Refuse) => {
                TempPath::try_from_path(part)?
                    .persist_noclobber(destination)
                    .map_err(|error| error.error)?;
                std::fs::remove_file(note)?;
            }
        }
        Ok(())
    }

    /// Throws away what was kept: it is of no use.
    pub(super) fn discard(self) -> io::Result<()> {
        match self.place {
            Place::Fleeting(path) => path.close(),
            Place::Kept { part, note } => {
                std::fs::remove_file(part)?;
                std::fs::remove_file(note)
            }
        }
    }
}

/// The folder of a file, and its name there.
pub(super) fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
    let name = path.file_name().ok_or_else(no_name)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((folder, name.to_string_lossy().into_owned()))
}

/// A name that leaves room for what is put around it: 255 bytes is what file systems take.
pub(super) fn short(name: &str) -> String {
    let mut end = name.len().min(180);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned()
}

/// The digest of the first `length` bytes; the file stands behind them then.
pub(super) fn hash_prefix(file: &mut File, length: u64) -> io::Result<Sha256> {
    let mut hash = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    let mut block = vec![0; BLOCK];
    let mut rest = file.take(length);
    loop {
        let count = rest.read(&mut block)?;
        if count == 0 {
            break;
        }
        hash.update(block.get(..count).unwrap_or_default());
    }
    Ok(hash)
}

/// Goes to an offset.
pub(super) fn skip(file: &mut File, offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset)).map(drop)
}

/// The next `length` bytes, fewer at the end of the file, in the space of `page`.
pub(super) fn read_page(file: &mut File, length: usize, mut page: Vec<u8>) -> io::Result<Bytes> {
    page.reserve_exact(length);
    let most = u64::try_from(length).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut page)?;
    Ok(page.into())
}

/// Size and time of the last change.
pub(super) fn state(file: &File) -> io::Result<(u64, Option<SystemTime>)> {
    let found = file.metadata()?;
    Ok((found.len(), found.modified().ok()))
}

/// Makes what was renamed in a folder outlast a power failure, where the system can.
pub(super) fn sync_folder(destination: &Path) -> io::Result<()> {
    let (folder, _) = split(destination)?;
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}
