//! The program with one running sandbox, and a client that knows nothing but HTTP.

use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// No answer takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &str = "token-of-the-endurance-tests";

/// A client of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
    run: String,
}

impl Client {
    /// Creates a sandbox at `url` and waits until it runs.
    pub(crate) async fn sandbox(url: &str, token: &str) -> Self {
        let mut client = Self {
            http: http(),
            url: url.to_owned(),
            token: token.to_owned(),
            run: String::new(),
        };
        let content = json!({"plugins": {"sandbox": true}, "ports": [],
            "container": {"image": "python:3.12-slim"}});
        let runs = "/api/v1/local/agent-lab/runs";
        let body = json!({"content": content.to_string()});
        let (status, run) = reply(client.at(Method::POST, runs).json(&body)).await;
        assert_eq!(status, 201, "{run}");
        client.run = format!("{runs}/{}", run["uuid"].as_str().unwrap());
        let begun = Instant::now();
        loop {
            let statuses = format!("{}/statuses", client.run);
            let (_, statuses) = reply(client.at(Method::GET, &statuses)).await;
            if statuses["status"] == "running" {
                return client;
            }
            assert!(begun.elapsed() < LIMIT, "{statuses}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A client of the same sandbox, with connections that are gone when it is dropped.
    pub(crate) fn with_own_connections(&self) -> Self {
        Self {
            http: http(),
            ..self.clone()
        }
    }

    fn at(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.url);
        let token = format!("Token {}", self.token);
        self.http
            .request(method, url)
            .header("Authorization", token)
    }

    /// A call of the sandbox.
    pub(crate) fn call(&self, method: Method, subpath: &str) -> RequestBuilder {
        let run = self.run.strip_prefix("/api/v1/").unwrap();
        self.at(method, &format!("/sandbox/v1/polyaxon/{run}/{subpath}"))
    }

    pub(crate) fn post(&self, subpath: &str, body: &Value) -> RequestBuilder {
        self.call(Method::POST, subpath).json(body)
    }

    pub(crate) async fn delete(&self, subpath: &str) {
        let (status, answer) = reply(self.call(Method::DELETE, subpath)).await;
        assert_eq!(status, 204, "{subpath}: {answer}");
    }

    /// The ids of the records of execs.
    pub(crate) async fn execs(&self) -> Vec<String> {
        let (status, answer) = reply(self.call(Method::GET, "exec/bg")).await;
        assert_eq!(status, 200, "{answer}");
        let execs = answer["execs"].as_array().unwrap().iter();
        execs
            .map(|exec| exec["exec_id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Asks for the end of the run.
    pub(crate) async fn stop_run(&self) {
        let stop = format!("{}/stop", self.run);
        let (status, answer) = reply(self.at(Method::POST, &stop).json(&json!({}))).await;
        assert!(status.is_success(), "{answer}");
    }
}

fn http() -> reqwest::Client {
    // reqwest is built without a TLS provider of its own; nothing here uses TLS.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().timeout(LIMIT);
    http.build().unwrap()
}

pub(crate) async fn reply(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let bytes = response.bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let value = serde_json::from_slice(&bytes);
    (status, value.unwrap_or(Value::String(text)))
}

/// `polyaxon-local up`, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) client: Client,
    pub(crate) root: TempDir,
}

impl Program {
    pub(crate) async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_polyaxon-local"))
            .args(["up", "--listen", "127.0.0.1:0", "--root"])
            .arg(root.path())
            .env("POLYAXON_LOCAL_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
        let said = tokio::time::timeout(LIMIT, stdout.read_line(&mut line)).await;
        said.unwrap().unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let client = Client::sandbox(ready["ready"].as_str().unwrap(), TOKEN).await;
        Self {
            child,
            client,
            root,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Sends a signal to the program and waits for its end.
    pub(crate) async fn end(&mut self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.unwrap(), signal).unwrap();
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended.unwrap().unwrap();
    }
}
