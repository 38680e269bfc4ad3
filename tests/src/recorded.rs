//! The recorded runs of the Python tracking module, made again with the Rust one: each case in a
//! process of its own, with the recorded environment, against a server that notes what it is sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod compare;
mod known;
mod replay;
mod requests;
mod stub;
mod values;

pub use known::{Why, decision_on};
pub use replay::replay;

/// A recorded case.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct Case {
    /// Its name.
    pub case: String,
    env: BTreeMap<String, String>,
    processes: Vec<Vec<Call>>,
    #[serde(default)]
    setup_files: Option<Vec<SetupFile>>,
    files: BTreeMap<String, Content>,
    requests: Vec<Value>,
}

/// A recorded call.
#[derive(Clone, Debug, Deserialize)]
struct Call {
    #[serde(rename = "fn")]
    function: String,
    #[serde(default)]
    args: Vec<Value>,
    #[serde(default)]
    kwargs: serde_json::Map<String, Value>,
    #[serde(default)]
    returns: Option<Value>,
    /// The error that Python raised.
    #[serde(default)]
    raises: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct SetupFile {
    path: String,
    #[serde(flatten)]
    content: Content,
}

/// What a file holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    #[serde(alias = "content")]
    Text(String),
    Base64(String),
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        use base64::Engine as _;
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Base64(text) => base64::prelude::BASE64_STANDARD.decode(text).unwrap(),
        }
    }
}

/// What came of a call that was not simply made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Note {
    /// The call.
    pub call: String,
    /// Why it was not made, or what the crate has against it.
    pub why: String,
}

/// What came of a case.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The case.
    pub case: String,
    /// How many of its files are the same, of how many.
    pub files: (usize, usize),
    /// How many of its requests were made, of how many.
    pub requests: (usize, usize),
    /// How often Python makes a request again that it has made already.
    pub repeats: usize,
    /// Differences, and why they are.
    pub known: Vec<(String, Why)>,
    /// Differences that nobody has explained.
    pub unknown: Vec<String>,
    /// Calls that have no counterpart, and those that are refused.
    pub notes: Vec<Note>,
}

/// All recorded cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tracking/recorded.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

impl Case {
    /// Makes the case again with `program`, which is told the case and the process by its
    /// arguments, and compares.
    pub async fn run(&self, program: &Path) -> Outcome {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        for file in self.setup_files.iter().flatten() {
            write(&data.join(&file.path), &file.content.bytes());
        }
        if self.case == "pull-remote" {
            let pushed = cases().into_iter().find(|case| case.case == "push-offline");
            stub::keep_files(data, &pushed.unwrap());
        }
        let folder = self.work_folder(data);
        std::fs::create_dir_all(&folder).unwrap();
        let stub = stub::Stub::start(self, data).await;
        let mut notes = Vec::new();
        for number in 0..self.processes.len() {
            let mut child = tokio::process::Command::new(program);
            child.env_clear().current_dir(&folder);
            for (name, value) in &self.env {
                let value = value
                    .replace("$DATA", data.to_str().unwrap())
                    .replace("$PORT", &stub.port().to_string())
                    .replace("<run_uuid>", self.run_uuid().unwrap_or_default());
                child.env(name, value);
            }
            // The names that the recording has.
            child.env("LOGNAME", "root").env("REPLAY_DATA", data);
            child.args(["replay", &self.case, &number.to_string()]);
            let output = child.output().await.unwrap();
            assert!(output.status.success(), "{}: {output:?}", self.case);
            let more: Vec<Note> = serde_json::from_slice(&output.stdout).unwrap();
            notes.extend(more);
        }
        let mut outcome = Outcome {
            case: self.case.clone(),
            notes,
            ..Outcome::default()
        };
        compare::files(self, data, &mut outcome);
        requests::compare(self, &stub.requests(), data, &mut outcome);
        outcome
    }

    /// The folder that the recorded script ran in.
    fn work_folder(&self, data: &Path) -> PathBuf {
        match self.case.as_str() {
            "online-code-ref" => {
                let folder = data.join("repository");
                let git = folder.join(".git");
                write(&git.join("HEAD"), b"ref: refs/heads/main\n");
                let commit = self.requests.iter().find_map(|request| {
                    let name = &request["body"]["artifacts"][0]["summary"]["commit"];
                    name.as_str().map(str::to_owned)
                });
                write(&git.join("refs/heads/main"), commit.unwrap().as_bytes());
                let config = "[remote \"origin\"]\n\turl = git@github.com:acme/repo.git\n";
                write(&git.join("config"), config.as_bytes());
                folder
            }
            _ => data.join("outside"),
        }
    }

    /// The run that was recorded, where it is one.
    fn run_uuid(&self) -> Option<&str> {
        let part = |text: &str| {
            let parts = text.split('/');
            let mut uuids = parts.filter(|part| {
                part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            uuids.next().map(str::to_owned)
        };
        let texts = self.files.keys().map(String::as_str);
        let paths = self.requests.iter().filter_map(|r| r["path"].as_str());
        let found = texts.chain(paths).find(|text| part(text).is_some())?;
        let start = found.find(&part(found)?)?;
        found.get(start..start + 32)
    }
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
