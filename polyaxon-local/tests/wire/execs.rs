//! The calls of `exec/…` against a daemon, behind a gateway or alone.

use std::future::Future;
use std::time::Duration;

use polyaxon_local::LocalDaemon;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Reply, Sandbox, eventually, http, reply};

/// The token of a [`LocalDaemon`] in these tests.
pub(crate) const TOKEN: &str = "token-of-the-daemon";

/// Where a daemon is and how it is called.
pub(crate) struct Execs {
    http: reqwest::Client,
    base: String,
    header: (&'static str, String),
}

/// One event of a stream: its name and its data.
pub(crate) type Event = (String, Value);

impl Execs {
    pub(crate) fn of(sandbox: &Sandbox<'_>) -> Self {
        let server = &sandbox.plane.server;
        Self {
            http: sandbox.plane.http.clone(),
            base: format!("{}{}", server.url(), sandbox.path("")),
            header: ("Authorization", format!("Token {}", server.token())),
        }
    }

    pub(crate) fn at(url: &str, token: &str) -> Self {
        Self {
            http: http(),
            base: format!("{url}/"),
            header: ("X-Polyaxon-Sandbox-Token", token.to_owned()),
        }
    }

    pub(crate) fn alone(daemon: &LocalDaemon) -> Self {
        Self::at(&daemon.url(), TOKEN)
    }

    pub(crate) fn request(&self, method: Method, subpath: &str) -> RequestBuilder {
        let (name, value) = &self.header;
        self.http
            .request(method, format!("{}{subpath}", self.base))
            .header(*name, value)
    }

    pub(crate) async fn post(&self, subpath: &str, body: &Value) -> Reply {
        reply(self.request(Method::POST, subpath).json(body)).await
    }

    pub(crate) async fn get(&self, subpath: &str) -> Reply {
        reply(self.request(Method::GET, subpath)).await
    }

    /// Runs a shell script to its end, with other `members` of the request.
    pub(crate) async fn sh(&self, script: &str, members: &Value) -> Value {
        let (status, answer) = self.post("exec", &shell(script, members)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Starts a shell script in the background and gives its id.
    pub(crate) async fn bg(&self, script: &str, members: &Value) -> String {
        let (status, answer) = self.post("exec/bg", &shell(script, members)).await;
        assert_eq!(status, 202, "{answer}");
        answer["exec_id"].as_str().unwrap().to_owned()
    }

    /// The events of a shell script, read to their end.
    pub(crate) async fn stream(&self, script: &str, members: &Value) -> Vec<Event> {
        let request = self.request(Method::POST, "exec/stream");
        let response = request.json(&shell(script, members)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        events(&response.text().await.unwrap())
    }

    pub(crate) async fn status(&self, id: &str) -> Value {
        let (status, answer) = self.get(&format!("exec/bg/{id}")).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Waits until the exec is in `state`.
    pub(crate) async fn until(&self, id: &str, state: &str) -> Value {
        eventually(state, async || {
            let status = self.status(id).await;
            (status["state"] == state).then_some(status)
        })
        .await
    }

    pub(crate) async fn page(&self, id: &str, query: &str) -> Value {
        let (status, page) = self.get(&format!("exec/bg/{id}/logs?{query}")).await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// Waits until there is output, and gives the page with it.
    pub(crate) async fn output(&self, id: &str) -> Value {
        eventually("output", async || {
            let page = self.page(id, "follow=true").await;
            (page["bytes"] != 0).then_some(page)
        })
        .await
    }

    pub(crate) async fn signal(&self, id: &str, name: &str) -> Reply {
        let body = json!({"signal": name});
        self.post(&format!("exec/bg/{id}/signal"), &body).await
    }

    pub(crate) async fn delete(&self, id: &str) -> Reply {
        reply(self.request(Method::DELETE, &format!("exec/bg/{id}"))).await
    }

    /// Ids of all records, oldest first.
    pub(crate) async fn ids(&self, query: &str) -> Vec<String> {
        let (status, list) = self.get(&format!("exec/bg{query}")).await;
        assert_eq!(status, 200, "{list}");
        let execs = list["execs"].as_array().unwrap().iter();
        execs
            .map(|exec| exec["exec_id"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn ping(&self) -> Value {
        let (status, answer) = self.get("ping").await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

pub(crate) fn shell(script: &str, members: &Value) -> Value {
    let mut body = json!({"command": ["sh", "-c", script]});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Reads a stream in exactly the framing of the wire: two lines and an empty one, LF only.
pub(crate) fn events(text: &str) -> Vec<Event> {
    assert!(!text.contains('\r'));
    let text = text.strip_suffix("\n\n").unwrap();
    let frames = text.split("\n\n").map(|frame| {
        let (name, data) = frame.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    });
    frames.collect()
}

/// The text of all events with this name.
pub(crate) fn text(events: &[Event], name: &str) -> String {
    let texts = events.iter().filter(|(kind, _)| kind == name);
    texts
        .map(|(_, data)| data["text"].as_str().unwrap())
        .collect()
}

/// Does `work` and says whether it took less than `limit`.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, work).await.unwrap()
}
