//! A server that knows one run, notes what it is asked, and says yes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Case;

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

pub(super) struct Stub {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    _server: JoinSet<()>,
}

/// Answers with their statuses, in turn, by method and path.
type Answers = BTreeMap<String, Vec<(u16, Value)>>;

#[derive(Clone)]
struct Known {
    run: String,
    /// What the recorded server answered, by method and path.
    answers: Arc<Mutex<Answers>>,
    /// Files of the run, where it has any.
    files: PathBuf,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// Puts the files of a pushed run where the server finds them.
pub(super) fn keep_files(data: &Path, pushed: &Case) {
    for (path, content) in &pushed.files {
        let Some((_, below)) = path.split_once("0016/") else {
            continue;
        };
        if !below.ends_with(".plx.json") {
            super::write(&data.join("kept").join(below), &content.bytes());
        }
    }
}

impl Stub {
    pub(super) async fn start(case: &Case, data: &Path) -> Self {
        let mut answers = Answers::new();
        for request in &case.requests {
            let Some(status) = request["response_status"].as_u64() else {
                continue;
            };
            let key = format!(
                "{} {}",
                request["method"].as_str().unwrap(),
                request["path"].as_str().unwrap()
            );
            let answer = (
                u16::try_from(status).unwrap(),
                request["response_body"].clone(),
            );
            answers.entry(key).or_default().push(answer);
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let known = Known {
            run: case.run_uuid().unwrap_or_default().to_owned(),
            answers: Arc::new(Mutex::new(answers)),
            files: data.join("kept"),
            seen: Arc::clone(&seen),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(answer).with_state(known);
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            port,
            seen,
            _server: server,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(State(known): State<Known>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = parts.headers.get(http::header::CONTENT_TYPE);
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header.map_or(String::new(), |value| value.to_str().unwrap().to_owned()),
        body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    };
    known.seen.lock().unwrap().push(seen.clone());
    if seen.path.starts_with("/streams/") && seen.method == "GET" {
        return file_of(&known, &seen);
    }
    let key = format!("{} {}", seen.method, seen.path);
    if let Some(recorded) = known.answers.lock().unwrap().get_mut(&key) {
        // The last one stands for what comes after it.
        let (status, body) = match recorded.len() {
            1 => recorded[0].clone(),
            _ => recorded.remove(0),
        };
        let status = StatusCode::from_u16(status).unwrap();
        return (status, axum::Json(body)).into_response();
    }
    let run = json!({
        "uuid": known.run, "status": "running", "status_conditions": [],
        "settings": {"namespace": "polyaxon"},
    });
    let status = match seen.method.as_str() {
        "POST" => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    (status, axum::Json(run)).into_response()
}

fn file_of(known: &Known, seen: &Seen) -> Response {
    let query = url::form_urlencoded::parse(seen.query.as_bytes());
    let path = query.into_iter().find(|(name, _)| name == "path");
    let path = known
        .files
        .join(path.map_or(String::new(), |(_, path)| path.into_owned()));
    if !seen.path.ends_with("/tree") {
        return match std::fs::read(path) {
            Ok(bytes) => Body::from(bytes).into_response(),
            Err(_) => (StatusCode::NOT_FOUND, "Artifact not found").into_response(),
        };
    }
    let (mut files, mut dirs) = (BTreeMap::new(), Vec::new());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let metadata = entry.metadata().unwrap();
        match metadata.is_dir() {
            true => dirs.push(name),
            false => drop(files.insert(name, metadata.len())),
        }
    }
    axum::Json(json!({"files": files, "dirs": dirs})).into_response()
}
