//! The artifacts that runs say they read or made.

use std::str::FromStr as _;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::Run;

/// The kinds that there are.
pub(crate) const KINDS: [&str; 32] = [
    "model",
    "audio",
    "video",
    "histogram",
    "image",
    "tensor",
    "dataframe",
    "chart",
    "csv",
    "tsv",
    "psv",
    "ssv",
    "metric",
    "env",
    "html",
    "text",
    "file",
    "dir",
    "dockerfile",
    "docker_image",
    "data",
    "coderef",
    "table",
    "tensorboard",
    "curve",
    "confusion",
    "analysis",
    "iteration",
    "markdown",
    "system",
    "artifact",
    "span",
];

/// One artifact of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Artifact {
    pub(crate) name: String,
    kind: String,
    path: Option<String>,
    summary: Value,
    is_input: bool,
    state: Uuid,
}

/// What a caller sends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    name: String,
    kind: String,
    summary: Map<String, Value>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    is_input: Option<bool>,
    #[serde(default)]
    state: Option<String>,
    // These are taken and mean nothing here: there is one store, and the run is in the path.
    #[serde(default, rename = "connection")]
    _connection: Option<Value>,
    #[serde(default, rename = "run")]
    _run: Option<Value>,
    #[serde(default, rename = "meta_info")]
    _meta_info: Option<Value>,
}

impl Artifact {
    /// Reads one artifact that `run` logs.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub(crate) fn read(value: &Value, run: &Run) -> Result<Self, String> {
        let wrong = |why: String| format!("1 validation error for V1RunArtifacts: {why}");
        let sent: Sent =
            serde_path_to_error::deserialize(value).map_err(|error| wrong(error.to_string()))?;
        if !KINDS.contains(&sent.kind.as_str()) {
            return Err(wrong(format!(
                "kind: `{}` is no kind of artifact",
                sent.kind
            )));
        }
        let is_input = sent.is_input.unwrap_or(false);
        let summary = Value::Object(sent.summary);
        let state = match sent.state {
            Some(text) => {
                Uuid::from_str(&text).map_err(|_| wrong(format!("state: `{text}` is no uuid")))?
            }
            None if is_input => same_data(run.project.owner(), &summary, sent.path.as_deref()),
            None => Uuid::from_str(&run.uuid.to_string()).map_err(|e| wrong(e.to_string()))?,
        };
        Ok(Self {
            name: sent.name,
            kind: sent.kind,
            path: sent.path,
            summary,
            is_input,
            state,
        })
    }

    /// Puts it among `artifacts`, in place of one with the same name and state.
    pub(crate) fn insert(self, artifacts: &mut Vec<Self>) {
        let same = |other: &&mut Self| other.name == self.name && other.state == self.state;
        match artifacts.iter_mut().find(same) {
            Some(other) => *other = self,
            None => artifacts.push(self),
        }
    }

    /// The artifact as lists have it.
    pub(crate) fn to_json(&self, run: &Run, run_name: Option<&str>) -> Map<String, Value> {
        let value = json!({
            "name": self.name,
            "kind": self.kind,
            "path": self.path,
            "summary": self.summary,
            "is_input": self.is_input,
            "state": self.state.simple().to_string(),
            "run": run.uuid,
            "meta_info": {"run": {"name": run_name, "uuid": run.uuid}},
        });
        match value {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// The id of data that runs read: the same for the same data, whichever run says so. The hash says
/// which data it is; without one the whole summary does, with the path.
fn same_data(owner: &str, summary: &Value, path: Option<&str>) -> Uuid {
    let said = match summary.get("hash") {
        Some(hash) => json!([owner, hash]),
        None => json!([owner, summary, path]),
    };
    let digest = Sha256::digest(said.to_string().as_bytes());
    let mut bytes = [0; 16];
    for (byte, of_digest) in bytes.iter_mut().zip(digest) {
        *byte = of_digest;
    }
    uuid::Builder::from_sha1_bytes(bytes).into_uuid()
}
