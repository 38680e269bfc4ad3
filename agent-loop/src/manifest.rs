//! What is in a workspace: its files, and the list of them that acceptance is bound to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, TreeHash};
use crate::path::RelPath;
use crate::serde_as;

/// A regular file: bytes, and whether it may be executed. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FileRecord", into = "FileRecord")]
pub struct File {
    bytes: Arc<Vec<u8>>,
    /// As many as there are bytes, unless the file is sealed.
    len: u64,
    executable: bool,
    digest: Digest,
}

impl File {
    /// A file of `bytes` that cannot be executed.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        Self {
            len: bytes.len() as u64,
            bytes: Arc::new(bytes),
            executable: false,
            digest,
        }
    }

    /// A file of which no more is known than its line in a manifest: a fixture that whoever looks
    /// at the evidence must not see. It is compared and never put anywhere.
    pub(crate) fn sealed(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::File {
                len,
                sha256,
                executable,
            } => Some(Self {
                bytes: Arc::default(),
                len: *len,
                executable: *executable,
                digest: *sha256,
            }),
            Entry::Link { .. } | Entry::Other => None,
        }
    }

    /// Says whether it may be executed.
    #[must_use]
    pub fn executable(mut self, executable: bool) -> Self {
        self.executable = executable;
        self
    }

    /// Its content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it may be executed.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.executable
    }

    /// The digest of its content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its line in a manifest.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry::File {
            len: self.len,
            sha256: self.digest,
            executable: self.executable,
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.executable { ", executable" } else { "" };
        write!(f, "File({} bytes, {}{mode})", self.len, self.digest.short())
    }
}

/// How a [`File`] is written down. Its digest is computed and not read.
#[derive(Serialize, Deserialize)]
struct FileRecord {
    #[serde(with = "serde_as::bytes")]
    content: Vec<u8>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
}

impl From<FileRecord> for File {
    fn from(record: FileRecord) -> Self {
        Self::new(record.content).executable(record.executable)
    }
}

impl From<File> for FileRecord {
    fn from(file: File) -> Self {
        Self {
            content: Arc::unwrap_or_clone(file.bytes),
            executable: file.executable,
        }
    }
}

/// The files of a workspace with their bytes. Cheap to clone.
///
/// Folders are not a part of it, as in a patch: an empty one cannot be seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<RelPath, File>", into = "BTreeMap<RelPath, File>")]
pub struct Tree {
    files: Arc<BTreeMap<RelPath, Arc<File>>>,
    hash: OnceLock<TreeHash>,
}

impl Tree {
    /// A tree without a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The file at `path`.
    #[must_use]
    pub fn get(&self, path: &RelPath) -> Option<&Arc<File>> {
        self.files.get(path)
    }

    /// Puts a file, and returns the one that was there.
    pub fn insert(&mut self, path: RelPath, file: impl Into<Arc<File>>) -> Option<Arc<File>> {
        self.hash = OnceLock::new();
        Arc::make_mut(&mut self.files).insert(path, file.into())
    }

    /// Removes a file, and returns it.
    pub fn remove(&mut self, path: &RelPath) -> Option<Arc<File>> {
        self.hash = OnceLock::new();
        Arc::make_mut(&mut self.files).remove(path)
    }

    /// The files in the order of their paths.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&RelPath, &Arc<File>)> {
        self.files.iter()
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The list of its files.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        self.files
            .iter()
            .map(|(path, file)| (path.clone(), file.entry()))
            .collect()
    }

    /// The digest of its manifest, computed once.
    #[must_use]
    pub fn hash(&self) -> TreeHash {
        *self.hash.get_or_init(|| {
            hash(
                self.files.len(),
                self.files.iter().map(|(path, file)| (path, file.entry())),
            )
        })
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Tree {}

impl<F: Into<Arc<File>>> FromIterator<(RelPath, F)> for Tree {
    fn from_iter<I: IntoIterator<Item = (RelPath, F)>>(files: I) -> Self {
        let files = files.into_iter().map(|(path, file)| (path, file.into()));
        Self {
            files: Arc::new(files.collect()),
            hash: OnceLock::new(),
        }
    }
}

impl From<BTreeMap<RelPath, File>> for Tree {
    fn from(files: BTreeMap<RelPath, File>) -> Self {
        files.into_iter().collect()
    }
}

impl From<Tree> for BTreeMap<RelPath, File> {
    fn from(tree: Tree) -> Self {
        let files = Arc::unwrap_or_clone(tree.files).into_iter();
        files
            .map(|(path, file)| (path, Arc::unwrap_or_clone(file)))
            .collect()
    }
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// A regular file.
    #[non_exhaustive]
    File {
        /// Its length in bytes.
        len: u64,
        /// The digest of its content.
        sha256: Digest,
        /// Whether it may be executed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A symbolic link. It is reported and never followed.
    #[non_exhaustive]
    Link {
        /// Where it points to.
        target: String,
    },
    /// A device, a socket, a pipe.
    Other,
}

impl Entry {
    /// A regular file.
    #[must_use]
    pub fn file(len: u64, sha256: Digest, executable: bool) -> Self {
        Self::File {
            len,
            sha256,
            executable,
        }
    }

    /// A symbolic link.
    #[must_use]
    pub fn link(target: impl Into<String>) -> Self {
        Self::Link {
            target: target.into(),
        }
    }
}

/// The list of everything in a workspace but its folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    entries: BTreeMap<RelPath, Entry>,
}

impl Manifest {
    /// What is at `path`.
    #[must_use]
    pub fn get(&self, path: &RelPath) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The entries in the order of their paths.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&RelPath, &Entry)> {
        self.entries.iter()
    }

    /// The digest of all of it.
    #[must_use]
    pub fn hash(&self) -> TreeHash {
        hash(
            self.entries.len(),
            self.entries
                .iter()
                .map(|(path, entry)| (path, entry.clone())),
        )
    }

    /// What is below `folder`, with paths relative to it.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        let relative = |path: &RelPath| {
            let rest = path.as_str().strip_prefix(folder)?.strip_prefix('/')?;
            RelPath::parse(rest).ok()
        };
        let entries = self.entries.iter();
        entries
            .filter_map(|(path, entry)| Some((relative(path)?, entry.clone())))
            .collect()
    }

    /// The paths at which `self` and `other` are not the same, in order.
    #[must_use]
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a RelPath> {
        let gone_or_changed = self
            .entries
            .iter()
            .filter(|(path, entry)| other.get(path) != Some(entry));
        let new = other
            .entries
            .iter()
            .filter(|(path, _)| self.get(path).is_none());
        let mut paths: Vec<_> = gone_or_changed.chain(new).map(|(path, _)| path).collect();
        paths.sort_unstable();
        paths
    }
}

impl FromIterator<(RelPath, Entry)> for Manifest {
    fn from_iter<I: IntoIterator<Item = (RelPath, Entry)>>(entries: I) -> Self {
        Self {
            entries: entries.into_iter().collect(),
        }
    }
}

fn hash<'a>(count: usize, entries: impl Iterator<Item = (&'a RelPath, Entry)>) -> TreeHash {
    let mut parts = Vec::with_capacity(1 + count * 2);
    parts.push(b"tree 1".to_vec());
    for (path, entry) in entries {
        parts.push(path.as_str().as_bytes().to_vec());
        parts.push(match entry {
            Entry::File {
                len,
                sha256,
                executable,
            } => {
                let mode = if executable { 'x' } else { '-' };
                format!("file {mode} {len} {sha256}").into_bytes()
            }
            Entry::Link { target } => format!("link {target}").into_bytes(),
            Entry::Other => b"other".to_vec(),
        });
    }
    TreeHash::new(Digest::of_parts(parts.iter().map(Vec::as_slice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    fn tree(files: &[(&str, &[u8])]) -> Tree {
        files
            .iter()
            .map(|(name, bytes)| (path(name), File::new(*bytes)))
            .collect()
    }

    #[test]
    fn trees_that_look_equal_as_lines_have_different_hashes() {
        let variants: [&[u8]; 7] = [
            b"a\nc\n",
            b"a\r\nc\r\n",
            b"a\nc",
            b"a\x0cc\n",
            "a\u{2028}c\n".as_bytes(),
            b"\xff",
            b"\xfe",
        ];
        let hashes: std::collections::BTreeSet<_> = variants
            .iter()
            .map(|bytes| tree(&[("a.py", bytes)]).hash())
            .collect();
        assert_eq!(hashes.len(), variants.len());
    }

    #[test]
    fn path_mode_and_kind_are_a_part_of_the_hash() {
        let plain = tree(&[("r.sh", b"x")]);
        let renamed = tree(&[("s.sh", b"x")]);
        let executable: Tree = [(path("r.sh"), File::new(*b"x").executable(true))]
            .into_iter()
            .collect();
        let link: Manifest = [(path("r.sh"), Entry::link("x"))].into_iter().collect();
        let hashes = [
            plain.hash(),
            renamed.hash(),
            executable.hash(),
            link.hash(),
            Tree::new().hash(),
        ];
        for (i, hash) in hashes.iter().enumerate() {
            assert_eq!(
                hashes.iter().filter(|other| *other == hash).count(),
                1,
                "{i}"
            );
        }
    }

    #[test]
    fn a_tree_and_its_manifest_have_one_hash_also_after_a_change() {
        let mut tree = tree(&[("a", b"1"), ("b/c", b"2")]);
        assert_eq!(tree.hash(), tree.manifest().hash());
        tree.insert(path("a"), File::new(*b"3"));
        assert_eq!(tree.hash(), tree.manifest().hash());
        tree.remove(&path("b/c"));
        assert_eq!(tree.hash(), tree.manifest().hash());
    }

    #[test]
    fn differences_name_what_was_changed_removed_and_added() {
        let old = tree(&[("a", b"1"), ("b", b"2"), ("c", b"3")]).manifest();
        let new = tree(&[("0", b"0"), ("a", b"1"), ("b", b"X")]).manifest();
        assert_eq!(old.differences(&new), [&path("0"), &path("b"), &path("c")]);
        assert!(old.differences(&old).is_empty());
    }

    #[test]
    fn below_cuts_a_folder_and_not_a_prefix() {
        let all = tree(&[
            ("work/a", b"1"),
            ("work/b/c", b"2"),
            ("workshop/d", b"3"),
            ("e", b"4"),
        ]);
        assert_eq!(
            all.manifest().below("work"),
            tree(&[("a", b"1"), ("b/c", b"2")]).manifest()
        );
    }

    #[test]
    fn a_tree_is_written_and_read_byte_for_byte() {
        let mut tree = tree(&[("a.py", b"x = 1\r\n"), ("b.bin", b"\0\xff")]);
        tree.insert(path("r.sh"), File::new(*b"#!").executable(true));
        let json = serde_json::to_string(&tree).unwrap();
        assert_eq!(
            json,
            r##"{"a.py":{"content":"x = 1\r\n"},"b.bin":{"content":{"base64":"AP8="}},"r.sh":{"content":"#!","executable":true}}"##
        );
        assert_eq!(serde_json::from_str::<Tree>(&json).unwrap(), tree);
        let manifest = tree.manifest();
        let json = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), manifest);
    }
}
