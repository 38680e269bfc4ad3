//! A folder of this machine as an archive.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

use super::disk;
use super::local::state;
use super::tree::LeftOut;
use crate::error::Error;
use crate::fs::buffers::Buffers;
use crate::fs::error::{FileError, local as local_error};

/// What was packed.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) links: u64,
    pub(super) dirs: u64,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) changed: Vec<String>,
}

/// Something in a folder of this machine.
#[derive(Debug)]
pub(super) struct Found {
    /// Its path below the folder.
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
}

/// What is in a folder, a directory before what is in it. Links are not followed.
pub(super) struct Entries {
    root: PathBuf,
    /// What is still to come, the next one last.
    pending: Vec<PathBuf>,
}

impl Entries {
    pub(super) fn of(root: &Path) -> Result<Self, Error> {
        let mut entries = Self {
            root: root.to_owned(),
            pending: Vec::new(),
        };
        entries.enter(Path::new(""))?;
        Ok(entries)
    }

    fn enter(&mut self, dir: &Path) -> Result<(), Error> {
        let path = self.root.join(dir);
        let failed = |error| local_error("list", &path, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            names.push(dir.join(entry.map_err(failed)?.file_name()));
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.pending.extend(names);
        Ok(())
    }

    /// The next entry. One that has vanished is noted in `left_out`.
    pub(super) fn next(&mut self, left_out: &mut Vec<LeftOut>) -> Result<Option<Found>, Error> {
        while let Some(path) = self.pending.pop() {
            let whole = self.root.join(&path);
            let metadata = match std::fs::symlink_metadata(&whole) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    left_out.push(LeftOut::new(&path, "it vanished"));
                    continue;
                }
                found => found.map_err(|error| local_error("look at", &whole, error))?,
            };
            if metadata.is_dir() {
                self.enter(&path)?;
            }
            return Ok(Some(Found { path, metadata }));
        }
        Ok(None)
    }
}

/// Writes the archive of a folder. The folder itself is not in it.
pub(super) fn pack(root: &Path, to: impl Write) -> Result<Packed, Error> {
    let mut packed = Packed::default();
    let mut builder = Builder::new(to);
    let mut entries = Entries::of(root)?;
    while let Some(found) = entries.next(&mut packed.left_out)? {
        add(root, &found, &mut builder, &mut packed)?;
    }
    let failed = |error| local_error("pack", root, error);
    let mut to = builder.into_inner().map_err(failed)?;
    to.flush().map_err(failed)?;
    Ok(packed)
}

fn add<W: Write>(
    root: &Path,
    found: &Found,
    builder: &mut Builder<W>,
    packed: &mut Packed,
) -> Result<(), Error> {
    let Found { path, metadata } = found;
    let whole = root.join(path);
    let failed = |error| local_error("pack", &whole, error);
    let kind = metadata.file_type();
    let mut header = header(metadata);
    if kind.is_dir() {
        header.set_entry_type(EntryType::Directory);
        builder
            .append_data(&mut header, path, io::empty())
            .map_err(failed)?;
        packed.dirs += 1;
    } else if kind.is_symlink() {
        let text = std::fs::read_link(&whole).map_err(failed)?;
        header.set_entry_type(EntryType::Symlink);
        builder
            .append_link(&mut header, path, text)
            .map_err(failed)?;
        packed.links += 1;
    } else if kind.is_file() {
        let file = match File::open(&whole) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                packed.left_out.push(LeftOut::new(path, "it vanished"));
                return Ok(());
            }
            file => file.map_err(failed)?,
        };
        let before = state(&file).map_err(failed)?;
        header.set_size(before.0);
        let content = Exactly {
            file: &file,
            left: before.0,
        };
        match builder.append_data(&mut header, path, content) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let path = whole.display().to_string();
                return Err(FileError::Changed { path }.into());
            }
            added => added.map_err(failed)?,
        }
        if state(&file).map_err(failed)? != before {
            packed.changed.push(path.display().to_string());
        }
        packed.files += 1;
        packed.bytes += before.0;
    } else {
        let reason = "a device, a FIFO or a socket";
        packed.left_out.push(LeftOut::new(path, reason));
    }
    Ok(())
}

fn header(metadata: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(disk::mode_of(metadata).bits());
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    header.set_mtime(since.map_or(0, |since| since.as_secs()));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

/// As many bytes of a file as were promised, or an error: what follows in the archive would be read
/// as the rest otherwise.
struct Exactly<'a> {
    file: &'a File,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let count = self.file.read(buffer.get_mut(..most).unwrap_or_default())?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= u64::try_from(count).unwrap_or(self.left);
        Ok(count)
    }
}

/// Gives what is written to a channel, in pages.
#[derive(Debug)]
pub(super) struct Outgoing {
    pages: mpsc::Sender<Bytes>,
    filling: Vec<u8>,
    page: usize,
    buffers: Buffers,
}

impl Outgoing {
    pub(super) fn new(pages: mpsc::Sender<Bytes>, page: usize, buffers: Buffers) -> Self {
        Self {
            pages,
            filling: Vec::with_capacity(page),
            page,
            buffers,
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut next = self.buffers.take();
        next.reserve_exact(self.page);
        let page = std::mem::replace(&mut self.filling, next);
        self.pages
            .blocking_send(page.into())
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filling.len() == self.page {
            self.send()?;
        }
        let count = bytes.len().min(self.page - self.filling.len());
        self.filling
            .extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.filling.is_empty() {
            true => Ok(()),
            false => self.send(),
        }
    }
}
