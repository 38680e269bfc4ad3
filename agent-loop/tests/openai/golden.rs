//! The recorded answers in `tests/golden/model` at the root of the workspace.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;
use wiremock::ResponseTemplate;

#[derive(Deserialize)]
pub(crate) struct Golden {
    status: u16,
    content_type: Option<String>,
    body: Box<RawValue>,
}

impl Golden {
    pub(crate) fn read(name: &str) -> Self {
        let path = folder().join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
    }

    /// The answer, its JSON as it was recorded.
    pub(crate) fn answer(&self) -> ResponseTemplate {
        let json = self.body.get();
        // Where the body is no JSON document the recording holds it as a text.
        let body = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
        let content_type = self.content_type.as_deref().unwrap_or("application/json");
        ResponseTemplate::new(self.status).set_body_raw(body, content_type)
    }

    /// The model that the answer says it is from.
    pub(crate) fn model(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(self.body.get()).unwrap();
        body["model"].as_str().map(str::to_owned)
    }
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/golden/model"
    ))
}

/// The names of all recordings.
pub(crate) fn names() -> BTreeSet<String> {
    std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect()
}
