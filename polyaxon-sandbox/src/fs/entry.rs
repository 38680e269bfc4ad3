//! What the service says about files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::path::FileMode;
use crate::wire::lenient;

/// What kind of thing a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link; it was not followed.
    Symlink,
    /// A FIFO, a socket or a device.
    #[serde(rename = "other")]
    Special,
    /// A word this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// One line of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The name; below the listed directory (`b/c.txt`) in a recursive listing.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Its size in bytes. A hint only: files of `/proc` say 0.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub size: u64,
    /// When its content last changed.
    #[serde(default, rename = "mtime", deserialize_with = "lenient::opt_time")]
    pub modified: Option<Timestamp>,
    /// Its permission bits.
    #[serde(default)]
    pub mode: Option<FileMode>,
    /// Where it points, where it is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
}

impl Entry {
    /// An entry as a service writes it.
    #[must_use]
    pub fn new(name: String, file_type: FileType, size: u64, mode: FileMode) -> Self {
        Self {
            name,
            file_type,
            size,
            modified: None,
            mode: Some(mode),
            symlink_target: None,
        }
    }
}

/// The answer to `fs/ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Listing {
    /// The directory, cleaned.
    #[serde(default)]
    pub path: String,
    /// Its entries by name; a directory's own before those of its subdirectories.
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// Whether there are more. There is no way to ask for the rest but a larger `max_entries`.
    #[serde(default)]
    pub truncated: bool,
}

impl Listing {
    /// A listing as a service writes it.
    #[must_use]
    pub fn new(path: String, entries: Vec<Entry>, truncated: bool) -> Self {
        Self {
            path,
            entries,
            truncated,
        }
    }
}

/// The answer to `fs/stat`. Links are not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stat {
    /// The path, cleaned.
    #[serde(default)]
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Its size in bytes. A hint only: files of `/proc` say 0.
    #[serde(default, deserialize_with = "lenient::u64")]
    pub size: u64,
    /// When its content last changed.
    #[serde(default, rename = "mtime", deserialize_with = "lenient::opt_time")]
    pub modified: Option<Timestamp>,
    /// Its permission bits.
    #[serde(default)]
    pub mode: Option<FileMode>,
    /// Id of the user it belongs to.
    #[serde(default, deserialize_with = "lenient::opt_u32")]
    pub uid: Option<u32>,
    /// Id of the group it belongs to.
    #[serde(default, deserialize_with = "lenient::opt_u32")]
    pub gid: Option<u32>,
    /// Where it points, where it is a link.
    #[serde(default)]
    pub symlink_target: Option<String>,
}

impl Stat {
    /// A record as a service writes it.
    #[must_use]
    pub fn new(path: String, file_type: FileType, size: u64, mode: FileMode) -> Self {
        Self {
            path,
            file_type,
            size,
            modified: None,
            mode: Some(mode),
            uid: None,
            gid: None,
            symlink_target: None,
        }
    }
}

/// The answer to `fs/write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// The path, cleaned.
    #[serde(default)]
    pub path: String,
    /// How many bytes were written by this call.
    #[serde(deserialize_with = "lenient::u64")]
    pub bytes_written: u64,
    /// Whether the file is new.
    #[serde(default)]
    pub created: bool,
}

impl Written {
    /// An answer as a service writes it.
    #[must_use]
    pub fn new(path: String, bytes_written: u64, created: bool) -> Self {
        Self {
            path,
            bytes_written,
            created,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_an_unknown_kind_or_with_fields_left_out_is_read() {
        let entry: Entry = serde_json::from_str(r#"{"name":"x","type":"whiteout"}"#).unwrap();
        assert_eq!(entry.file_type, FileType::Other("whiteout".into()));
        assert_eq!((entry.size, entry.mode, entry.modified), (0, None, None));
    }

    #[test]
    fn a_record_is_written_with_the_names_of_the_wire() {
        let mut stat = Stat::new("/a".into(), FileType::Special, 3, FileMode::FILE);
        stat.modified = Some("2024-01-01T00:00:00.5Z".parse().unwrap());
        (stat.uid, stat.gid) = (Some(0), Some(0));
        assert_eq!(
            serde_json::to_string(&stat).unwrap(),
            r#"{"path":"/a","type":"other","size":3,"mtime":"2024-01-01T00:00:00.5Z","mode":"0644","uid":0,"gid":0,"symlink_target":null}"#
        );
        let entry = Entry::new("a".into(), FileType::Dir, 0, FileMode::DIR);
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json["type"], "dir");
        assert_eq!(json.get("symlink_target"), None);
    }
}
