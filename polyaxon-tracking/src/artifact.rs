//! References to files and folders: lineage records, no copies.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use md5::{Digest, Md5};
use polyaxon_client::RunUuid;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::kind::ArtifactKind;
use crate::name::Name;
use crate::surroundings;

/// A reference to a file or folder, for the run's lineage. Nothing is copied: the file is kept with
/// the run only where it lies below the run's folder.
///
/// # Examples
/// ```
/// use polyaxon_tracking::{ArtifactKind, ArtifactRef};
///
/// let receipt = ArtifactRef::file("outputs/receipts/step-1.json").name("command-receipt");
/// let table = ArtifactRef::new(ArtifactKind::Csv, "s3://bucket/cases.csv").input();
/// assert_ne!(receipt, table);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an ArtifactRef does nothing until it is passed to `log_artifact_ref`"]
pub struct ArtifactRef {
    kind: ArtifactKind,
    path: Option<PathBuf>,
    name: Option<String>,
    stored_path: Option<String>,
    summary: Map<String, Value>,
    is_input: bool,
    hash: Hash,
}

#[derive(Clone, Debug, PartialEq)]
enum Hash {
    OfBytes,
    Given(String),
    None,
}

impl ArtifactRef {
    /// A reference to what is at `path`, or will be: a path of this machine, relative to the
    /// current folder or not, or a URL.
    pub fn new(kind: ArtifactKind, path: impl Into<PathBuf>) -> Self {
        Self {
            kind,
            path: Some(path.into()),
            name: None,
            stored_path: None,
            summary: Map::new(),
            is_input: false,
            hash: Hash::OfBytes,
        }
    }

    /// A reference to something that has no path: an image by its digest, a table of a database.
    /// [`summary`](Self::summary) says what it is.
    pub fn named(kind: ArtifactKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            path: None,
            name: Some(name.into()),
            stored_path: None,
            summary: Map::new(),
            is_input: false,
            hash: Hash::None,
        }
    }

    /// A file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(ArtifactKind::File, path)
    }

    /// A folder with all that is in it.
    pub fn dir(path: impl Into<PathBuf>) -> Self {
        Self::new(ArtifactKind::Dir, path)
    }

    /// A model, a file or folder. [`framework`](Self::framework) says whose.
    pub fn model(path: impl Into<PathBuf>) -> Self {
        let mut model = Self::new(ArtifactKind::Model, path);
        model.summary.insert("framework".to_owned(), Value::Null);
        model
    }

    /// Data that the run reads, at a path or URL.
    pub fn data(path: impl Into<PathBuf>) -> Self {
        Self::new(ArtifactKind::Data, path).input()
    }

    /// Data that the run reads and that has no path: give it a [`hash`](Self::hash), a
    /// [`hash_of`](Self::hash_of) its content, or a summary. Runs that name the same data share it.
    pub fn named_data(name: impl Into<String>) -> Self {
        Self::named(ArtifactKind::Data, name).input()
    }

    /// A folder of a `TensorBoard`. It is not read for a hash.
    pub fn tensorboard(path: impl Into<PathBuf>) -> Self {
        Self::new(ArtifactKind::Tensorboard, path).without_hash()
    }

    /// The commit that the code in `folder` is at, as an input; `None` where it is in no git work
    /// tree. What is changed and not committed is not looked at. Reads some small files.
    #[must_use]
    pub fn code(folder: impl AsRef<Path>) -> Option<Self> {
        surroundings::code_ref(folder.as_ref())
    }

    /// Under which name. Default: the last part of the path, of a file up to its first dot.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The library that a model was made with.
    pub fn framework(self, framework: impl Into<String>) -> Self {
        self.summary("framework", framework.into())
    }

    /// Which path the record names. Default: the path below the run's folder, else the absolute
    /// path of this machine.
    pub fn stored_path(mut self, path: impl Into<String>) -> Self {
        self.stored_path = Some(path.into());
        self
    }

    /// Adds a member to the record's summary.
    pub fn summary(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.summary.insert(key.into(), value.into());
        self
    }

    /// The run reads it. Default: the run made it.
    pub fn input(mut self) -> Self {
        self.is_input = true;
        self
    }

    /// The run made it, as is the default but for data.
    pub fn output(mut self) -> Self {
        self.is_input = false;
        self
    }

    /// The hash of its bytes, where it is known. Default: the first 12 hex digits of their MD5; of
    /// a folder, of the bytes of all its files in the order of their paths.
    pub fn hash(mut self, hash: impl Into<String>) -> Self {
        self.hash = Hash::Given(hash.into());
        self
    }

    /// The hash of these bytes, in the form that files get.
    pub fn hash_of(self, content: impl AsRef<[u8]>) -> Self {
        let mut md5 = Md5::new();
        md5.update(content);
        self.hash(short(md5))
    }

    /// Leaves the hash out, and the file unread.
    pub fn without_hash(mut self) -> Self {
        self.hash = Hash::None;
        self
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> ArtifactKind {
        self.kind
    }

    /// The name that it goes by.
    pub(crate) fn chosen_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        match self.kind {
            ArtifactKind::Dir | ArtifactKind::Tensorboard => last_part(path),
            _ => stem(path).0,
        }
    }

    /// The same thing at another path, that of its copy.
    pub(crate) fn moved(mut self, path: PathBuf) -> Self {
        self.path = Some(path);
        self
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Settles everything that depends on the caller: its current folder, the run.
    pub(crate) fn resolve(self, run: &RunFolder) -> Result<Reference, Error> {
        let Some(path) = &self.path else {
            return Ok(Reference {
                kind: self.kind,
                stored_path: self.stored_path,
                text: None,
                local: None,
                summary: self.summary,
                is_input: self.is_input,
                hash: self.hash,
            });
        };
        let refuse = |problem| Error::InvalidPath {
            path: path.clone(),
            problem,
        };
        let text = path
            .to_str()
            .ok_or_else(|| refuse("it is not UTF-8"))?
            .to_owned();
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        let local = match is_url(&text) {
            true => None,
            false => Some(absolute(path)?),
        };
        let stored_path = match (self.stored_path, &local) {
            (Some(path), _) => path,
            (None, None) => text.clone(),
            (None, Some(local)) => run.stored_path(&text, local),
        };
        Ok(Reference {
            kind: self.kind,
            stored_path: Some(stored_path),
            text: Some(text),
            local,
            summary: self.summary,
            is_input: self.is_input,
            hash: self.hash,
        })
    }
}

/// The last part of a path.
pub(crate) fn last_part(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The last part of a path up to its first dot, and what follows that.
pub(crate) fn stem(path: &Path) -> (String, Option<String>) {
    let last = last_part(path);
    match last.split_once('.') {
        None => (last, None),
        Some((stem, extension)) => (stem.to_owned(), Some(extension.to_lowercase())),
    }
}

/// Where a run's files are.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    pub(crate) uuid: RunUuid,
    /// The folder that paths in summaries are relative to: that of all runs.
    pub(crate) base: PathBuf,
    /// The folder of this run.
    pub(crate) root: PathBuf,
}

impl RunFolder {
    /// Both folders with nothing in them left to walk.
    pub(crate) fn new(base: &Path, root: &Path, uuid: RunUuid) -> Result<Self, Error> {
        Ok(Self {
            uuid,
            root: absolute(root)?,
            base: absolute(base)?,
        })
    }

    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The path that a lineage record names.
    fn stored_path(&self, text: &str, local: &Path) -> String {
        if let Some((_, below)) = text.split_once(&format!("{}/", self.uuid)) {
            return below.to_owned();
        }
        let below = local
            .strip_prefix(&self.root)
            .or_else(|_| local.strip_prefix(&self.base))
            .unwrap_or(local);
        below.to_string_lossy().into_owned()
    }
}

/// A reference of which only the file is left to read.
#[derive(Debug)]
pub(crate) struct Reference {
    kind: ArtifactKind,
    stored_path: Option<String>,
    text: Option<String>,
    local: Option<PathBuf>,
    summary: Map<String, Value>,
    is_input: bool,
    hash: Hash,
}

impl Reference {
    /// What the platform's pages look for before they ask for such a thing.
    pub(crate) fn flags(&self) -> &'static [&'static str] {
        match self.kind {
            ArtifactKind::Model => &["has_model"],
            ArtifactKind::Tensorboard => &["has_tensorboard"],
            _ => &[],
        }
    }

    /// The lineage record, and what kept the hash from it. Reads the file.
    pub(crate) fn record(
        self,
        name: &Name,
        run: &RunFolder,
    ) -> (Map<String, Value>, Option<(PathBuf, io::Error)>) {
        let mut summary = self.summary;
        let mut failed = None;
        if let Hash::Given(hash) = &self.hash {
            summary.insert("hash".to_owned(), hash.as_str().into());
        }
        let path = match self.local.filter(|local| local.exists()) {
            None => self.text,
            Some(local) if self.hash == Hash::OfBytes => {
                match hash_of(&local) {
                    Ok(hash) => drop(summary.insert("hash".to_owned(), hash.into())),
                    Err(error) => failed = Some((local.clone(), error)),
                }
                Some(local.to_string_lossy().into_owned())
            }
            // The platform does not look at the files of a `TensorBoard`.
            Some(_) if self.kind == ArtifactKind::Tensorboard => self.text,
            Some(local) => Some(relative(&local, &run.base).to_string_lossy().into_owned()),
        };
        if let Some(path) = path {
            summary.insert("path".to_owned(), path.into());
        }

        let mut record = Map::new();
        record.insert("name".to_owned(), name.as_str().into());
        record.insert("kind".to_owned(), serde_json::json!(self.kind));
        if let Some(path) = self.stored_path {
            record.insert("path".to_owned(), path.into());
        }
        record.insert("summary".to_owned(), summary.into());
        record.insert("is_input".to_owned(), self.is_input.into());
        (record, failed)
    }
}

/// `scheme://…`, as stores are named.
fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// The absolute path, without `.` and `..`. Links are not followed.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let joined = std::path::absolute(path).map_err(Error::io("find", path))?;
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Ok(plain)
}

/// The way from `folder` to `path`, both absolute and plain.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let common = path
        .components()
        .zip(folder.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = folder
        .components()
        .skip(common)
        .map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

/// How often a folder is looked at of which files go away while they are read.
const LOOKS: u32 = 10;

/// The first 12 hex digits of the MD5 of a file, or of all files of a folder.
///
/// A folder may be written to meanwhile: files that get their names when they are whole had others
/// before. It is looked at again then.
fn hash_of(path: &Path) -> io::Result<String> {
    let mut looks = 1;
    loop {
        match hash_now(path) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && looks < LOOKS && path.is_dir() =>
            {
                looks += 1;
            }
            done => return done,
        }
    }
}

fn hash_now(path: &Path) -> io::Result<String> {
    let mut md5 = Md5::new();
    if path.is_dir() {
        let mut files = Vec::new();
        files_below(path, &mut files)?;
        files.sort_unstable();
        for file in files {
            io::copy(&mut File::open(file)?, &mut md5)?;
        }
    } else if !path.is_file() {
        // A pipe or a device could be read for ever.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is neither a file nor a folder",
        ));
    } else {
        io::copy(&mut File::open(path)?, &mut md5)?;
    }
    Ok(short(md5))
}

/// The first 12 hex digits.
fn short(md5: Md5) -> String {
    let mut hex = format!("{:x}", md5.finalize());
    hex.truncate(12);
    hex
}

/// Links to folders are not followed, and what is no file, such as a pipe, is not read.
fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files_below(&entry.path(), files)?;
        } else if entry.path().is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_reference_without_a_name_is_named_after_its_path() {
        let table = [
            (ArtifactRef::file("a/model.v1.bin"), "model"),
            (ArtifactRef::file("a/receipt"), "receipt"),
            (ArtifactRef::file("a/.hidden"), ""),
            (ArtifactRef::file("/"), ""),
            (ArtifactRef::dir("a/b.c/"), "b.c"),
            (ArtifactRef::dir("a/b").name("other"), "other"),
            (ArtifactRef::file("s3://bucket/key/file.ext"), "file"),
        ];
        for (artifact, expected) in table {
            assert_eq!(artifact.chosen_name(), expected);
        }
    }

    #[test]
    fn a_folder_is_hashed_while_files_are_put_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::write(place("a"), "one").unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let hashed: io::Result<Vec<String>> = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::write(place("part"), "one").unwrap();
                    std::thread::park_timeout(std::time::Duration::from_micros(200));
                    fs::rename(place("part"), place("a")).unwrap();
                }
            });
            let hashed = (0..2000).map(|_| hash_of(folder.path())).collect();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            hashed
        });
        let hashed = hashed.unwrap();
        assert_eq!(hashed.len(), 2000);
        // The whole file each time, whichever name it had.
        let hashed: std::collections::BTreeSet<_> = hashed.into_iter().collect();
        assert!(hashed.contains("f97c5d29941b"), "{hashed:?}");
    }

    #[test]
    fn a_path_is_stored_relative_to_the_run_where_it_is_below() {
        let uuid: RunUuid = RUN.parse().unwrap();
        let run = RunFolder::new(
            Path::new("/offline"),
            &Path::new("/offline/runs").join(RUN),
            uuid,
        )
        .unwrap();
        let here = std::env::current_dir().unwrap();
        let table = [
            (
                format!("/offline/runs/{uuid}/outputs/a.txt"),
                "outputs/a.txt".to_owned(),
            ),
            (
                format!("/elsewhere/{uuid}/outputs/d/"),
                "outputs/d/".to_owned(),
            ),
            (
                "/offline/shared/a.txt".to_owned(),
                "shared/a.txt".to_owned(),
            ),
            ("/data/../data/a.txt".to_owned(), "/data/a.txt".to_owned()),
            (
                "x/../a.txt".to_owned(),
                here.join("a.txt").to_str().unwrap().to_owned(),
            ),
        ];
        for (path, expected) in table {
            let local = absolute(Path::new(&path)).unwrap();
            assert_eq!(run.stored_path(&path, &local), expected);
        }
    }

    #[test]
    fn the_way_between_two_paths_goes_over_their_common_folder() {
        let table = [
            ("/a/b/c", "/a", "b/c"),
            ("/a/b", "/a/x/y", "../../b"),
            ("/tmp/f", "/plx/artifacts", "../../tmp/f"),
        ];
        for (path, folder, expected) in table {
            assert_eq!(
                relative(Path::new(path), Path::new(folder)),
                Path::new(expected)
            );
        }
    }

    #[test]
    fn urls_are_told_from_paths() {
        for text in ["s3://bucket/key", "wasbs://a@b/c", "file:///x"] {
            assert!(is_url(text), "{text}");
        }
        for text in ["/a/b", "a://", "1a://b", "://b", "a b://c", "C:\\x"] {
            assert_eq!(is_url(text), text == "a://", "{text}");
        }
    }

    #[test]
    fn a_folder_is_hashed_in_the_order_of_its_paths() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("z", "3"), ("a/b/c", "1"), ("b", "2")] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let whole = folder.path().join("whole");
        fs::write(&whole, "123").unwrap();
        let expected = hash_of(&whole).unwrap();
        fs::remove_file(&whole).unwrap();
        assert_eq!(expected, "202cb962ac59");
        assert_eq!(hash_of(folder.path()).unwrap(), expected);
    }
}
