//! What is kept of each call, so that none is carried out twice.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use polyaxon_client::RunUuid;
use serde::{Deserialize, Serialize};

use super::answer::{ToolAnswer, ToolCall};
use super::session::{Session, Tenant};
use crate::digest::Digest;
use crate::evidence;
use crate::ids::RequestId;
use crate::lock::Locked;

/// The version of the format.
const VERSION: u32 = 1;

/// The receipts of all calls, in a folder: a file a call, written before anything is done and
/// again when there is an answer.
///
/// | file | what |
/// |---|---|
/// | `<digest of tenant and request id>.json` | the receipt |
/// | `<the same>.files/` | the artifacts of its answer |
/// | `lock` | held as long as the value lives: a folder has one controller |
///
/// Nothing is removed by itself: a request whose receipt is gone would be carried out again.
#[derive(Debug)]
pub struct Receipts {
    folder: PathBuf,
    /// Locked; released by the operating system when the file is closed.
    _lock: Locked,
}

/// Which call: a request id is its tenant's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(Digest);

impl Key {
    pub(super) fn of(tenant: &Tenant, request: &RequestId) -> Self {
        let parts = [tenant.as_str().as_bytes(), request.as_str().as_bytes()];
        Self(Digest::of_parts(parts))
    }

    /// The name of the call in its sandbox: of its command, and of its folder below `/tmp`.
    pub(super) fn tag(self) -> String {
        let mut name = format!("tool-{}", self.0);
        // 192 bits are more than enough, and a folder's name has at most 64 characters.
        name.truncate("tool-".len() + 48);
        name
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallReceipt {
    v: u32,
    pub(super) tenant: Tenant,
    pub(super) request_id: RequestId,
    pub(super) tool: String,
    /// The digest of tool and arguments.
    pub(super) call: Digest,
    pub(super) run: RunUuid,
    pub(super) tag: String,
    /// When it was first written.
    since_ms: i64,
    pub(super) state: CallState,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    /// Files are being put. No command was started.
    Preparing,
    /// The command may have been started.
    Starting,
    /// It is over.
    Answered(ToolAnswer),
}

impl CallReceipt {
    pub(super) fn new(session: &Session, call: &ToolCall, key: Key, now: Timestamp) -> Self {
        Self {
            v: VERSION,
            tenant: session.tenant().clone(),
            request_id: call.request_id.clone(),
            tool: call.tool.clone(),
            call: call.digest(),
            run: session.run_uuid(),
            tag: key.tag(),
            since_ms: now.as_millisecond(),
            state: CallState::Preparing,
        }
    }

    pub(super) fn in_state(self, state: CallState) -> Self {
        Self { state, ..self }
    }
}

/// A call of which nobody knows whether it was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenCall {
    /// Whose it is.
    pub tenant: Tenant,
    /// Its key.
    pub request_id: RequestId,
    /// The tool.
    pub tool: String,
    /// The run of its sandbox.
    pub run: RunUuid,
    /// The tag of its command there.
    pub tag: String,
    /// Whether the command may have been started. Where not, the same request can be made again
    /// and nothing is open.
    pub may_have_started: bool,
}

impl Receipts {
    /// The receipts in `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// Where it cannot be made, or another controller has it: [`io::ErrorKind::WouldBlock`].
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("lock"))?;
        let lock = Locked::new(lock)?;
        evidence::sync_folder(&folder)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// The calls without an answer: what a person has to look into after a crash or a lost sandbox.
    ///
    /// # Errors
    /// Where the folder, or any receipt, cannot be read.
    pub fn open_calls(&self) -> io::Result<Vec<OpenCall>> {
        let mut open = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let receipt = read(&path)?;
            if matches!(receipt.state, CallState::Answered(_)) {
                continue;
            }
            open.push(OpenCall {
                tenant: receipt.tenant,
                request_id: receipt.request_id,
                tool: receipt.tool,
                run: receipt.run,
                tag: receipt.tag,
                may_have_started: receipt.state == CallState::Starting,
            });
        }
        open.sort_by(|a, b| (&a.tenant, &a.request_id).cmp(&(&b.tenant, &b.request_id)));
        Ok(open)
    }

    /// Forgets a call, so that the same request is carried out as if it were new: for a person who
    /// has found out that it never was. Answers whether there was one.
    ///
    /// # Errors
    /// Where the receipt is there and cannot be removed.
    pub fn forget(&self, tenant: &Tenant, request: &RequestId) -> io::Result<bool> {
        self.withdraw(Key::of(tenant, request))
    }

    /// The receipt of a call. One that cannot be read is an error, and not none.
    pub(super) fn find(&self, key: Key) -> io::Result<Option<CallReceipt>> {
        match read(&self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Writes a receipt. It is on the disk when the call returns.
    pub(super) fn write(&self, key: Key, receipt: &CallReceipt) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(receipt)?;
        text.push(b'\n');
        evidence::write_file(&self.path(key), &text)
    }

    pub(super) fn withdraw(&self, key: Key) -> io::Result<bool> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed
                .and_then(|()| evidence::sync_folder(&self.folder))
                .map(|()| true),
        }
    }

    /// Keeps an artifact. Its name is one of a contract, which is no path.
    pub(super) fn keep(&self, key: Key, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.files(key);
        fs::create_dir_all(&folder)?;
        evidence::write_file(&folder.join(name), bytes)
    }

    /// The bytes of an artifact that [`keep`](Self::keep) has kept.
    pub(super) fn kept(&self, key: Key, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.files(key).join(name))
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.json", key.0))
    }

    fn files(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.files", key.0))
    }
}

fn read(path: &Path) -> io::Result<CallReceipt> {
    let receipt: CallReceipt = serde_json::from_slice(&fs::read(path)?)?;
    match receipt.v {
        VERSION => Ok(receipt),
        other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a receipt of version {other}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RequestId {
        text.parse().unwrap()
    }

    fn receipt(state: CallState) -> CallReceipt {
        CallReceipt {
            v: VERSION,
            tenant: Tenant::new("acme"),
            request_id: id("r.1"),
            tool: "summary".to_owned(),
            call: Digest::of(b"call"),
            run: RunUuid::random(),
            tag: Key::of(&Tenant::new("acme"), &id("r.1")).tag(),
            since_ms: 7,
            state,
        }
    }

    #[test]
    fn a_key_is_its_tenants_own_and_fits_where_it_goes() {
        let (acme, other) = (Tenant::new("acme"), Tenant::new("other"));
        let key = Key::of(&acme, &id("r.1"));
        assert_eq!(key, Key::of(&acme, &id("r.1")));
        assert_ne!(key, Key::of(&other, &id("r.1")));
        assert_ne!(key, Key::of(&Tenant::new("acmer"), &id(".1")));
        let tag = key.tag();
        assert!(tag.len() <= 64 && tag.parse::<RequestId>().is_ok(), "{tag}");
    }

    #[test]
    fn a_receipt_is_there_until_it_is_forgotten_and_a_broken_one_is_no_absence() {
        let folder = tempfile::tempdir().unwrap();
        let receipts = Receipts::open(folder.path().join("receipts")).unwrap();
        let tenant = Tenant::new("acme");
        let key = Key::of(&tenant, &id("r.1"));
        assert_eq!(receipts.find(key).unwrap(), None);
        let written = receipt(CallState::Starting);
        receipts.write(key, &written).unwrap();
        assert_eq!(receipts.find(key).unwrap(), Some(written.clone()));
        let open = receipts.open_calls().unwrap();
        assert_eq!(
            (&open[0].request_id, open[0].may_have_started),
            (&id("r.1"), true)
        );

        fs::write(receipts.path(key), "{\"v\": 1").unwrap();
        receipts.find(key).unwrap_err();
        receipts.open_calls().unwrap_err();
        let newer = serde_json::to_string(&written)
            .unwrap()
            .replace("\"v\":1", "\"v\":2");
        fs::write(receipts.path(key), newer).unwrap();
        let error = receipts.find(key).unwrap_err();
        assert_eq!(error.to_string(), "a receipt of version 2");

        assert!(receipts.forget(&tenant, &id("r.1")).unwrap());
        assert!(!receipts.forget(&tenant, &id("r.1")).unwrap());
        assert_eq!(receipts.find(key).unwrap(), None);
    }

    #[test]
    fn a_folder_has_one_controller() {
        let folder = tempfile::tempdir().unwrap();
        let first = Receipts::open(folder.path()).unwrap();
        let error = Receipts::open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        Receipts::open(folder.path()).unwrap();
    }
}
