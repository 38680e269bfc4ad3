//! The files of runs: what clients upload, and the logs. Each run has a folder that no path leads
//! out of, whatever it is made of.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use polyaxon_client::RunUuid;
use serde_json::{Map, Value, json};

use crate::blocking::blocking;

/// Where the collected output of a run is, one file for each source.
pub(crate) const LOGS: &str = "plxlogs";

/// All files of all runs.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    root: PathBuf,
}

/// Why a file is not there, or not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    Missing,
    /// The request is wrong; a sentence says how.
    Invalid(String),
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            ErrorKind::IsADirectory => Self::Invalid("the path is a directory".to_owned()),
            _ => Self::Failed(error),
        }
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// A path below the folder of a run; empty is the folder itself.
#[derive(Clone, Debug)]
pub(crate) struct StorePath(PathBuf);

impl StorePath {
    /// Takes a path with or without a slash in front.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for one that climbs.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut path = PathBuf::new();
        for part in Path::new(text).components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => path.push(name),
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(Refused::Invalid(
                        "Invalid path: traversal detected".to_owned(),
                    ));
                }
            }
        }
        match text.contains('\0') {
            true => Err(Refused::Invalid("Invalid path: it holds a NUL".to_owned())),
            false => Ok(Self(path)),
        }
    }

    pub(crate) fn join(&self, name: &str) -> Result<Self> {
        let name = Path::new(name)
            .file_name()
            .ok_or_else(|| Refused::Invalid("the file has no name".to_owned()))?;
        Ok(Self(self.0.join(name)))
    }

    /// The last part of the path, if it has one.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.0.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    fn as_path(&self) -> &Path {
        match self.is_root() {
            true => Path::new("."),
            false => &self.0,
        }
    }
}

/// What happens to what is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
}

impl Store {
    /// The store in the folder `root`, which is made when the first file comes.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    async fn at<T: Send + 'static>(
        &self,
        run: RunUuid,
        work: impl FnOnce(&Dir) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = self.root.join(run.to_string());
        blocking(move || {
            std::fs::create_dir_all(&folder)?;
            let dir = Dir::open_ambient_dir(&folder, ambient_authority())?;
            Ok(work(&dir))
        })
        .await?
    }

    /// A file that is spooled before it is taken. It vanishes when it is dropped.
    pub(crate) async fn spool(&self) -> io::Result<File> {
        let root = self.root.clone();
        blocking(move || {
            std::fs::create_dir_all(&root)?;
            tempfile::tempfile_in(&root)
        })
        .await
    }

    /// Opens a file.
    pub(crate) async fn open(&self, run: RunUuid, path: StorePath) -> Result<File> {
        self.at(run, move |dir| {
            let file = dir.open(path.as_path())?.into_std();
            match file.metadata()?.is_file() {
                true => Ok(file),
                false => Err(Refused::Invalid("the path is a directory".to_owned())),
            }
        })
        .await
    }

    /// Keeps the spooled `file` at `path`.
    pub(crate) async fn put(
        &self,
        run: RunUuid,
        path: StorePath,
        mut file: File,
        existing: Existing,
    ) -> Result<()> {
        self.at(run, move |dir| {
            if existing == Existing::Keep && dir.symlink_metadata(path.as_path()).is_ok() {
                return Ok(());
            }
            file.rewind()?;
            place(dir, path.as_path(), &mut file)
        })
        .await
    }

    /// Unpacks the spooled archive `file`, gzip or not, into the folder `path`. With
    /// [`Existing::Replace`] **all that is in the folder is removed before**, as the platform does
    /// it. Either all members are taken or none.
    pub(crate) async fn unpack(
        &self,
        run: RunUuid,
        path: StorePath,
        file: File,
        existing: Existing,
    ) -> Result<()> {
        self.at(run, move |dir| {
            check_archive(&file)?;
            if existing == Existing::Replace {
                clear(dir, &path)?;
            }
            dir.create_dir_all(path.as_path())?;
            let target = dir.open_dir(path.as_path())?;
            unpack(&file, &target)
        })
        .await
    }

    /// What is in the folder `path`, one level: `{"files": {name: size}, "dirs": [name]}`.
    pub(crate) async fn tree(&self, run: RunUuid, path: StorePath) -> Result<Value> {
        self.at(run, move |dir| {
            let (mut files, mut dirs) = (Map::new(), Vec::new());
            for entry in dir.read_dir(path.as_path())? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let meta = entry.metadata()?;
                match meta.is_dir() {
                    true => dirs.push(name),
                    false => drop(files.insert(name, meta.len().into())),
                }
            }
            dirs.sort_unstable();
            Ok(json!({"files": files, "dirs": dirs}))
        })
        .await
    }

    /// The text of every file in the folder `path` by its name, in the order of names.
    pub(crate) async fn texts(
        &self,
        run: RunUuid,
        path: StorePath,
    ) -> Result<Vec<(String, String)>> {
        self.at(run, move |dir| {
            let mut texts = Vec::new();
            for entry in dir.read_dir(path.as_path())? {
                let entry = entry?;
                if entry.metadata()?.is_file() {
                    let mut bytes = Vec::new();
                    entry.open()?.read_to_end(&mut bytes)?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
            texts.sort_unstable();
            Ok(texts)
        })
        .await
    }

    /// A gzip archive of the folder `path`, or of the file there, as a file that vanishes when it
    /// is dropped. The members are below the last part of `path`.
    pub(crate) async fn pack(&self, run: RunUuid, path: StorePath) -> Result<File> {
        let packed = self.spool().await?;
        self.at(run, move |dir| {
            let mut archive = tar::Builder::new(GzEncoder::new(packed, Compression::fast()));
            let name = path.name().unwrap_or_default();
            append(&mut archive, dir, path.as_path(), Path::new(&name))?;
            let mut packed = archive.into_inner()?.finish()?;
            packed.rewind()?;
            Ok(packed)
        })
        .await
    }

    /// Copies files and folders of one run to another, to the same places.
    pub(crate) async fn copy(
        &self,
        from: RunUuid,
        to: RunUuid,
        paths: Vec<StorePath>,
    ) -> Result<()> {
        let folder = self.root.join(to.to_string());
        self.at(from, move |dir| {
            std::fs::create_dir_all(&folder)?;
            let target = Dir::open_ambient_dir(&folder, ambient_authority())?;
            paths
                .iter()
                .try_for_each(|path| copy(dir, &target, path.as_path()))
        })
        .await
    }

    /// Removes the file or the folder at `path`.
    pub(crate) async fn remove(&self, run: RunUuid, path: StorePath) -> Result<()> {
        self.at(run, move |dir| {
            if path.is_root() {
                return clear(dir, &path);
            }
            match dir.symlink_metadata(path.as_path())?.is_dir() {
                true => Ok(dir.remove_dir_all(path.as_path())?),
                false => Ok(dir.remove_file(path.as_path())?),
            }
        })
        .await
    }

    /// Adds `text` to the end of a file.
    pub(crate) async fn append(&self, run: RunUuid, path: StorePath, text: String) -> Result<()> {
        self.at(run, move |dir| {
            if let Some(folder) = path.as_path().parent() {
                dir.create_dir_all(folder)?;
            }
            let mut options = OpenOptions::new();
            let mut file = dir.open_with(path.as_path(), options.append(true).create(true))?;
            Ok(file.write_all(text.as_bytes())?)
        })
        .await
    }
}

/// Empties a folder. One that is not there is empty.
fn clear(dir: &Dir, path: &StorePath) -> Result<()> {
    let target = match dir.open_dir(path.as_path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        target => target?,
    };
    for entry in target.entries()? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => target.remove_dir_all(entry.file_name())?,
            false => target.remove_file(entry.file_name())?,
        }
    }
    Ok(())
}

/// Writes a file beside its place and puts it there when it is whole, so that a reader never sees
/// half of it.
fn place(dir: &Dir, path: &Path, content: &mut impl io::Read) -> Result<()> {
    if let Some(folder) = path.parent() {
        dir.create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".uploading");
    let beside = path.with_file_name(name);
    let mut file = dir.create(&beside)?;
    io::copy(content, &mut file)?;
    Ok(dir.rename(&beside, dir, path)?)
}

/// The members of an archive, gzip or not.
fn archive(mut file: &File) -> io::Result<tar::Archive<Box<dyn io::Read + '_>>> {
    file.rewind()?;
    let mut magic = [0; 2];
    let read = file.read(&mut magic)?;
    file.rewind()?;
    let is_gzip = read == 2 && magic == [0x1f, 0x8b];
    Ok(tar::Archive::new(match is_gzip {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    }))
}

/// Whether every member can be taken: files and folders, below the folder that they go to.
fn check_archive(file: &File) -> Result<()> {
    let not_tar =
        |error: io::Error| Refused::Invalid(format!("The file is no tar archive: {error}"));
    let mut members = 0_u32;
    let mut archive = archive(file)?;
    for entry in archive.entries().map_err(not_tar)? {
        let entry = entry.map_err(not_tar)?;
        let path = entry.path().map_err(not_tar)?.into_owned();
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_dir()) {
            let text = format!("{}: only files and folders are taken", path.display());
            return Err(Refused::Invalid(text));
        }
        StorePath::parse(&path.to_string_lossy())?;
        members += 1;
    }
    let is_archive = members > 0 || file.metadata()?.len() > 0;
    match is_archive {
        true => Ok(()),
        false => Err(Refused::Invalid(
            "The file is no tar archive: it is empty".to_owned(),
        )),
    }
}

fn unpack(file: &File, target: &Dir) -> Result<()> {
    let mut archive = archive(file)?;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = StorePath::parse(&entry.path()?.to_string_lossy())?;
        match entry.header().entry_type().is_dir() {
            true => target.create_dir_all(path.as_path())?,
            false => place(target, path.as_path(), &mut entry)?,
        }
    }
    Ok(())
}

fn copy(dir: &Dir, target: &Dir, path: &Path) -> Result<()> {
    if dir.symlink_metadata(path)?.is_file() {
        return place(target, path, &mut dir.open(path)?);
    }
    target.create_dir_all(path)?;
    for entry in dir.read_dir(path)? {
        copy(dir, target, &path.join(entry?.file_name()))?;
    }
    Ok(())
}

fn append<W: io::Write>(
    archive: &mut tar::Builder<W>,
    dir: &Dir,
    path: &Path,
    name: &Path,
) -> Result<()> {
    let meta = dir.symlink_metadata(path)?;
    if meta.is_file() {
        return Ok(archive.append_file(name, &mut dir.open(path)?.into_std())?);
    }
    if !name.as_os_str().is_empty() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        archive.append_data(&mut header, name, io::empty())?;
    }
    let mut names = Vec::new();
    for entry in dir.read_dir(path)? {
        names.push(entry?.file_name());
    }
    names.sort_unstable();
    for entry in names {
        append(archive, dir, &path.join(&entry), &name.join(&entry))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store, RunUuid) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("store"));
        (folder, store, RunUuid::random())
    }

    fn at(text: &str) -> StorePath {
        StorePath::parse(text).unwrap()
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    async fn text(store: &Store, run: RunUuid, path: &str) -> String {
        let mut text = String::new();
        let mut file = store.open(run, at(path)).await.unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// An archive with one member, whose name is taken as it is.
    fn tar_of(name: &str, kind: tar::EntryType) -> File {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(1);
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"x"[..]).unwrap();
        file(&builder.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_file_is_kept_replaced_or_left_as_asked() {
        let (_folder, store, run) = store();
        store
            .put(run, at("/a/b.txt"), file(b"1"), Existing::Replace)
            .await
            .unwrap();
        store
            .put(run, at("a/b.txt"), file(b"2"), Existing::Keep)
            .await
            .unwrap();
        assert_eq!(text(&store, run, "a/./b.txt").await, "1");
        store
            .put(run, at("a/b.txt"), file(b"3"), Existing::Replace)
            .await
            .unwrap();
        assert_eq!(text(&store, run, "a/b.txt").await, "3");
        let tree = store.tree(run, at("")).await.unwrap();
        assert_eq!(tree, json!({"files": {}, "dirs": ["a"]}));
        let tree = store.tree(run, at("a")).await.unwrap();
        assert_eq!(tree, json!({"files": {"b.txt": 1}, "dirs": []}));
        let other = store.open(RunUuid::random(), at("a/b.txt")).await;
        assert!(matches!(other, Err(Refused::Missing)), "{other:?}");
        assert!(matches!(
            store.open(run, at("a")).await,
            Err(Refused::Invalid(_))
        ));
        store.remove(run, at("a")).await.unwrap();
        assert!(matches!(
            store.remove(run, at("a")).await,
            Err(Refused::Missing)
        ));
    }

    #[tokio::test]
    async fn what_was_packed_is_what_is_unpacked() {
        let (_folder, store, run) = store();
        for (path, content) in [("out/a", "1"), ("out/d/b", "2"), ("other", "3")] {
            store
                .put(run, at(path), file(content.as_bytes()), Existing::Replace)
                .await
                .unwrap();
        }
        let packed = store.pack(run, at("out")).await.unwrap();
        let copy = RunUuid::random();
        store
            .put(copy, at("kept"), file(b"k"), Existing::Replace)
            .await
            .unwrap();
        store
            .unpack(copy, at(""), packed.try_clone().unwrap(), Existing::Keep)
            .await
            .unwrap();
        assert_eq!(text(&store, copy, "out/d/b").await, "2");
        assert_eq!(text(&store, copy, "kept").await, "k");
        // Replacing at the root takes everything away before.
        store
            .unpack(copy, at("/"), packed, Existing::Replace)
            .await
            .unwrap();
        let tree = store.tree(copy, at("/")).await.unwrap();
        assert_eq!(tree, json!({"files": {}, "dirs": ["out"]}));
    }

    #[tokio::test]
    async fn what_is_no_archive_or_leads_out_is_refused_and_leaves_all_as_it_was() {
        let (folder, store, run) = store();
        store
            .put(run, at("kept"), file(b"k"), Existing::Replace)
            .await
            .unwrap();
        let refused = [
            file(b"no archive at all"),
            file(b""),
            tar_of("../../escape", tar::EntryType::Regular),
            tar_of("link", tar::EntryType::Symlink),
            tar_of("pipe", tar::EntryType::Fifo),
        ];
        for archive in refused {
            let refused = store.unpack(run, at("/"), archive, Existing::Replace).await;
            assert!(matches!(refused, Err(Refused::Invalid(_))), "{refused:?}");
            assert_eq!(text(&store, run, "kept").await, "k");
        }
        assert!(!folder.path().join("escape").exists());
        for path in ["..", "a/../../b", "/../x", "a\0b"] {
            assert!(StorePath::parse(path).is_err(), "{path:?}");
        }
    }
}
