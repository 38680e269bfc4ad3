//! A server, a run, and an HTTP client without any help from our own clients.

use std::future::Future;
use std::time::{Duration, Instant};

use base64::Engine as _;
use polyaxon_local::{Isolation, Limits, LocalServer};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

/// No wait of a test is longer: well above what a loaded machine takes, well below the `sleep 600`
/// that must not be waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) type Reply = (StatusCode, Value);

/// An HTTP client that is not led astray by the proxy settings of this machine.
pub(crate) fn http() -> reqwest::Client {
    // reqwest is built without a TLS provider of its own; nothing here uses TLS.
    let _already = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(LIMIT)
        .build()
        .unwrap()
}

/// A server with a client for its control plane.
pub(crate) struct Plane {
    pub(crate) server: LocalServer,
    pub(crate) http: reqwest::Client,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let server = LocalServer::builder().limits(limits).start().await.unwrap();
        Self {
            server,
            http: http(),
        }
    }

    /// Without pods: paths of the file API are mapped below the folder of a sandbox.
    pub(crate) async fn mapped() -> Self {
        let server = LocalServer::builder().isolation(Isolation::None);
        Self {
            server: server.start().await.unwrap(),
            http: http(),
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.server.url());
        let token = format!("Token {}", self.server.token());
        self.http
            .request(method, url)
            .header("Authorization", token)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        reply(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        reply(self.request(Method::GET, path)).await
    }

    /// Creates a run with `body` and gives its path.
    pub(crate) async fn create(&self, body: &Value) -> String {
        let (status, run) = self.post("/api/v1/local/agent-lab/runs", body).await;
        assert_eq!(status, 201, "{run}");
        format!(
            "/api/v1/local/agent-lab/runs/{}",
            run["uuid"].as_str().unwrap()
        )
    }

    /// Waits until the run at `path` has `status` and gives the statuses it went through.
    pub(crate) async fn until(&self, path: &str, status: &str) -> Value {
        let statuses = format!("{path}/statuses");
        eventually(status, async || {
            let (code, statuses) = self.get(&statuses).await;
            assert_eq!(code, 200, "{statuses}");
            let ended = ["failed", "stopped"]
                .iter()
                .any(|word| statuses["status"] == *word);
            assert!(statuses["status"] == status || !ended, "{statuses}");
            (statuses["status"] == status).then_some(statuses)
        })
        .await
    }

    /// A sandbox that runs.
    pub(crate) async fn sandbox(&self) -> Sandbox<'_> {
        let path = self.create(&json!({"content": content(&json!({}))})).await;
        self.until(&path, "running").await;
        let uuid = path.rsplit('/').next().unwrap().to_owned();
        Sandbox { plane: self, uuid }
    }
}

/// The text of an operation that makes a sandbox, with other `members`.
pub(crate) fn content(members: &Value) -> String {
    let mut content = json!({
        "plugins": {"sandbox": true}, "ports": [], "container": {"image": "python:3.12-slim"}
    });
    for (name, value) in members.as_object().unwrap() {
        content[name] = value.clone();
    }
    content.to_string()
}

pub(crate) async fn reply(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let status = response.status();
    let bytes = response.bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::String(text)),
    )
}

/// A sandbox behind the gateway.
pub(crate) struct Sandbox<'a> {
    pub(crate) plane: &'a Plane,
    pub(crate) uuid: String,
}

impl Sandbox<'_> {
    pub(crate) fn path(&self, subpath: &str) -> String {
        format!(
            "/sandbox/v1/polyaxon/local/agent-lab/runs/{}/{subpath}",
            self.uuid
        )
    }

    pub(crate) fn run(&self) -> String {
        format!("/api/v1/local/agent-lab/runs/{}", self.uuid)
    }

    pub(crate) fn request(&self, method: Method, subpath: &str) -> RequestBuilder {
        self.plane.request(method, &self.path(subpath))
    }

    pub(crate) async fn exec(&self, body: &Value) -> Reply {
        reply(self.request(Method::POST, "exec").json(body)).await
    }

    /// Runs a shell script that has to be started, with other `members` of the request.
    pub(crate) async fn sh(&self, script: &str, members: &Value) -> Value {
        let mut body = json!({"command": ["sh", "-c", script]});
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let (status, answer) = self.exec(&body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(crate) async fn write(&self, path: &str, bytes: &[u8], query: &[(&str, &str)]) -> Reply {
        let request = self
            .request(Method::POST, "fs/write")
            .query(&[("path", path)])
            .query(query);
        reply(request.body(bytes.to_vec())).await
    }

    pub(crate) async fn read(&self, path: &str, query: &[(&str, &str)]) -> Response {
        let request = self
            .request(Method::GET, "fs/read")
            .query(&[("path", path)])
            .query(query);
        request.send().await.unwrap()
    }

    /// The content of a file that has to be there.
    pub(crate) async fn content(&self, path: &str) -> Vec<u8> {
        let response = self.read(path, &[]).await;
        assert_eq!(response.status(), 200, "{path}");
        response.bytes().await.unwrap().to_vec()
    }

    pub(crate) async fn ls(&self, path: &str, query: &[(&str, &str)]) -> Reply {
        reply(
            self.request(Method::GET, "fs/ls")
                .query(&[("path", path)])
                .query(query),
        )
        .await
    }

    pub(crate) async fn stat(&self, path: &str) -> Reply {
        reply(
            self.request(Method::GET, "fs/stat")
                .query(&[("path", path)]),
        )
        .await
    }

    pub(crate) async fn rm(&self, path: &str, query: &[(&str, &str)]) -> Reply {
        reply(
            self.request(Method::DELETE, "fs/rm")
                .query(&[("path", path)])
                .query(query),
        )
        .await
    }

    pub(crate) async fn mkdir(&self, body: &Value) -> Reply {
        reply(self.request(Method::POST, "fs/mkdir").json(body)).await
    }

    pub(crate) async fn ping(&self) -> Value {
        let (status, answer) = reply(self.request(Method::GET, "ping")).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The sandbox's root folder on this machine.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.plane.server.folder().join(&self.uuid)
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The code in an error envelope that has to be one.
pub(crate) fn code(body: &Value) -> &str {
    assert!(
        body["error"]["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{body}"
    );
    body["error"]["code"].as_str().unwrap()
}

/// Asks `probe` until it has something to say.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "{what} did not come within {LIMIT:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The ids of the processes whose command line holds `marker`; a zombie has none.
pub(crate) fn processes(marker: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    })
    .collect()
}

/// Waits until no process is left whose command line holds `marker`.
pub(crate) async fn no_process(marker: &str) {
    eventually(&format!("the end of {marker:?}"), async || {
        processes(marker).is_empty().then_some(())
    })
    .await;
}

/// Waits until one process is there whose command line holds `marker`: one that was just started
/// has for a moment none.
pub(crate) async fn one_process(marker: &str) {
    eventually(&format!("the one {marker:?}"), async || {
        (processes(marker).len() == 1).then_some(())
    })
    .await;
}

/// Tries time limits, in milliseconds, each four times as long as the one before, until `attempt`
/// says that its command had got as far as it had to by then.
pub(crate) async fn growing<F: Future<Output = bool>>(mut attempt: impl FnMut(u64) -> F) {
    let mut limit = 200;
    while !attempt(limit).await {
        limit *= 4;
        assert!(limit < 20_000, "a limit of {} ms is too short", limit / 4);
    }
}

/// A word that is in no other command line of this machine. Digits and a dot, so that `sleep`
/// takes it as its argument.
pub(crate) fn marker() -> String {
    let random = uuid::Uuid::new_v4().as_u128() % 1_000_000_000_000;
    format!("600.{random:012}")
}
