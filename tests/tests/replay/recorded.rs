//! The recordings.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A frame that the client sent over its WebSocket.
pub(crate) enum Frame {
    Text(Value),
    Binary(Vec<u8>),
    Close(u64),
}

/// One request, or a call that makes none.
pub(crate) struct Recorded {
    pub(crate) case: String,
    pub(crate) method: Option<String>,
    pub(crate) path: String,
    /// Without the question mark, escapes as they were.
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) note: String,
}

impl Recorded {
    fn new(row: &Value) -> Self {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let headers = row["headers"].as_object().into_iter().flatten();
        Self {
            case: text("case"),
            method: row["method"].as_str().map(str::to_owned),
            path: text("path"),
            query: text("query"),
            headers: headers
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            body: match &row["body"] {
                Value::Null => None,
                body => Some(match body.get("base64") {
                    Some(bytes) => decode(bytes),
                    None => body.to_string().into_bytes(),
                }),
            },
            frames: row["ws_frames_sent"]
                .as_array()
                .into_iter()
                .flatten()
                .map(frame)
                .collect(),
            note: text("note"),
        }
    }

    /// The case without the number of the request in it.
    pub(crate) fn call_of_case(&self) -> &str {
        self.case.split('#').next().unwrap()
    }

    /// Whether it is the handshake of a WebSocket.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "upgrade")
    }

    /// A parameter of the query, decoded as a form.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let url = format!("http://host/?{}", self.query);
        let url = url::Url::parse(&url).unwrap();
        let found = url.query_pairs().find(|(key, _)| key == name)?;
        Some(found.1.into_owned())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.body.as_deref().unwrap()).unwrap()
    }
}

fn frame(frame: &Value) -> Frame {
    let data = &frame["data"];
    match frame["kind"].as_str().unwrap() {
        "text" => Frame::Text(data.clone()),
        "binary" => Frame::Binary(decode(&data["base64"])),
        "close" => Frame::Close(data["code"].as_u64().unwrap()),
        other => panic!("an unknown kind of frame: {other}"),
    }
}

fn decode(text: &Value) -> Vec<u8> {
    STANDARD.decode(text.as_str().unwrap()).unwrap()
}

/// All of them, in their order.
pub(crate) fn recorded() -> Vec<Recorded> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/sandbox/requests.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.map(|row: Value| Recorded::new(&row)).collect()
}
