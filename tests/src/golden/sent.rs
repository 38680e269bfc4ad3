//! A request, as far as it has to be equal; and the recordings of them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

const RECORDINGS: &str = include_str!("../../golden/sandbox/requests.jsonl");

/// What two clients have to agree on. How text is encoded on its way is not part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) method: String,
    /// Decoded.
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) body: Option<Value>,
    pub(super) authorization: Option<String>,
    /// Those of a WebSocket that the client sent.
    pub(super) frames: Vec<Value>,
}

/// A recorded request, or a call that makes none.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) case: String,
    /// `sync`, `async` or `cli`.
    pub(super) client: String,
    pub(super) sent: Option<Sent>,
    /// Remarks of those who recorded.
    pub(super) note: String,
}

impl Row {
    /// The call, without the number of the request in it.
    pub(super) fn call(&self) -> &str {
        self.case.split('#').next().unwrap_or_default()
    }
}

pub(super) fn rows() -> Vec<Row> {
    let rows = RECORDINGS.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let body = Some(row["body"].clone()).filter(|body| !body.is_null());
        let frames = row["ws_frames_sent"].as_array();
        Row {
            case: text("case"),
            client: text("client"),
            note: text("note"),
            sent: row["method"].is_string().then(|| Sent {
                method: text("method"),
                path: decoded(&text("path")),
                query: form(&text("query")),
                body: body.map(unpacked),
                authorization: row["headers"]["authorization"].as_str().map(str::to_owned),
                frames: frames.cloned().unwrap_or_default(),
            }),
        }
    });
    rows.collect()
}

pub(super) fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

pub(super) fn form(query: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

/// The content of a run is a document as text, whose order of members means nothing.
pub(super) fn unpacked(mut body: Value) -> Value {
    if let Some(text) = body.get("content").and_then(Value::as_str) {
        body["content"] = serde_json::from_str(text).unwrap();
    }
    body
}

impl Sent {
    /// The same without what the description of the wire calls the same as nothing (sections 3.2,
    /// 6.1, 7.3): an empty map, an empty folder, a time limit of 0, a default that is spelled out.
    pub(super) fn meaning(&self) -> Self {
        let mut same = self.clone();
        let nothing = [
            ("env", json!({})),
            ("workdir", json!("")),
            ("timeout_ms", json!(0)),
        ];
        if let Some(Value::Object(body)) = &mut same.body {
            body.retain(|name, value| !nothing.contains(&(name.as_str(), value.clone())));
        }
        if same.path.ends_with("/fs/ls") {
            same.query
                .retain(|name, value| (name.as_str(), value.as_str()) != ("recursive", "false"));
        }
        same
    }
}
