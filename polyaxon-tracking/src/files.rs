//! The files of a run: replaced whole, or appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// How many event files are held open. More series than that share these.
const MAX_OPEN: usize = 64;

/// Puts a file with these bytes at `path`. Readers see the old file or the new one, whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(path.parent().unwrap_or_else(|| Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// As [`replace`], and the bytes are on the disk before the old file is gone.
pub(crate) fn replace_for_good(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(path.parent().unwrap_or_else(|| Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// What becomes a file or folder of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

/// Puts it at `to`.
pub(crate) fn put(from: &Source, to: &Path) -> io::Result<()> {
    match from {
        Source::Path(from) => copy(from, to),
        Source::Bytes(bytes) => {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            replace(to, bytes)
        }
    }
}

/// Copies a file, or a folder with all that is in it, so that nobody sees half of a file. What is
/// no file, such as a pipe, is refused; links are followed to files and not to folders.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let kind = fs::metadata(from)?;
    if kind.is_dir() {
        return copy_folder(from, to);
    }
    if !kind.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is neither a file nor a folder",
        ));
    }
    let place = temporary(to.parent().unwrap_or_else(|| Path::new(".")))?.into_temp_path();
    fs::copy(from, &place)?;
    place.persist(to)?;
    Ok(())
}

/// Into a folder that is not there yet.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&path, &place)?;
        } else if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            fs::copy(&path, &place)?;
        }
    }
    Ok(())
}

pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plx-").suffix(".tmp");
    // Temporary files are private as a rule; these will be what others read. The process's umask
    // still takes its part.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// The event files that are open.
#[derive(Debug)]
pub(crate) struct EventFiles {
    /// Where new files are made before they get their name.
    workshop: PathBuf,
    /// The one that was used last is last.
    open: Vec<(PathBuf, File)>,
}

impl EventFiles {
    pub(crate) fn new(workshop: PathBuf) -> Self {
        Self {
            workshop,
            open: Vec::new(),
        }
    }

    /// Appends the bytes and takes away those that are written, in one write as a rule. A file
    /// that is not there is made first, with `header` in it.
    pub(crate) fn append(
        &mut self,
        path: &Path,
        header: &str,
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut file = match self.open.iter().position(|(open, _)| open == path) {
            Some(place) => self.open.remove(place).1,
            None => self.open_or_create(path, header)?,
        };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(bytes.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file is closed: the next try begins with its path again.
                Err(error) => return Err(error),
            }
        }
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push((path.to_owned(), file));
        Ok(())
    }

    fn open_or_create(&self, path: &Path, header: &str) -> io::Result<File> {
        let append = || OpenOptions::new().append(true).open(path);
        match append() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // The file gets its name with its header in it, and only where nobody else was first: two
        // processes that start at once can neither cut each other's lines nor write before the
        // header.
        let mut made = temporary(&self.workshop)?;
        made.write_all(header.as_bytes())?;
        match made.persist_noclobber(path) {
            Ok(_) => append(),
            Err(lost) if lost.error.kind() == io::ErrorKind::AlreadyExists => append(),
            Err(failed) => Err(failed.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_is_made_with_its_header_and_continued_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events/metric/loss.plx");
        for (line, expected) in [("\n1", "head\n1"), ("\n2", "head\n1\n2")] {
            let mut files = EventFiles::new(folder.path().to_owned());
            let mut bytes = line.as_bytes().to_vec();
            files.append(&path, "head", &mut bytes).unwrap();
            assert_eq!(bytes, b"");
            assert_eq!(text(&path), expected);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            let plain = folder.path().join("plain");
            fs::write(&plain, "").unwrap();
            assert_eq!(mode, fs::metadata(&plain).unwrap().permissions().mode());
        }
        // No temporary file is left.
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn more_series_than_descriptors_are_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = EventFiles::new(folder.path().to_owned());
        let path = |series| folder.path().join(format!("{series}.plx"));
        for round in 0..3 {
            for series in 0..MAX_OPEN * 2 {
                let mut bytes = format!("\n{round}").into_bytes();
                files.append(&path(series), "head", &mut bytes).unwrap();
            }
            assert_eq!(files.open.len(), MAX_OPEN);
        }
        for series in 0..MAX_OPEN * 2 {
            assert_eq!(text(&path(series)), "head\n0\n1\n2");
        }
    }

    #[test]
    fn many_that_make_one_file_at_once_leave_one_header_and_all_lines() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("m.plx");
            let start = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    let (path, start) = (&path, &start);
                    let mut files = EventFiles::new(folder.path().to_owned());
                    scope.spawn(move || {
                        start.wait();
                        for _ in 0..4 {
                            let mut bytes = format!("\n{writer}").into_bytes();
                            files.append(path, "head", &mut bytes).unwrap();
                        }
                    });
                }
            });
            let text = text(&path);
            let mut lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.remove(0), "head");
            lines.sort_unstable();
            let expected: Vec<String> = (0..8)
                .flat_map(|writer| vec![writer.to_string(); 4])
                .collect();
            assert_eq!(lines, expected);
        }
    }

    #[test]
    fn a_file_is_replaced_or_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.plx.json");
        replace(&path, b"{}").unwrap();
        replace_for_good(&path, b"{\"a\":1}").unwrap();
        assert_eq!(text(&path), "{\"a\":1}");
        let folder_in_the_way = folder.path().join("taken");
        fs::create_dir(&folder_in_the_way).unwrap();
        replace(&folder_in_the_way, b"{}").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
