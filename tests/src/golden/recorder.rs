//! A service that answers everything with what parses, and keeps what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::sent::{Sent, decoded, form, unpacked};

pub(super) const RUN: &str = "11111111111111111111111111111111";
const NEW_RUN: &str = "00000000000000000000000000000000";
/// How long a WebSocket may be open after its call.
const LIMIT: Duration = Duration::from_secs(10);
/// The file that every path leads to, and the output of every command.
const CONTENT: &[u8] = b"0123456789";

/// It serves until it is dropped.
pub(super) struct Recorder {
    address: SocketAddr,
    kept: Arc<Kept>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Kept {
    /// How many connections were switched and are open.
    open: watch::Sender<usize>,
    sent: Mutex<Vec<Sent>>,
    /// How large the file is that is written to.
    written: Mutex<Option<usize>>,
}

impl Kept {
    fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap()
    }
}

impl Recorder {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Kept::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&kept));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            address,
            kept,
            serving,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that was sent, the look-up of a namespace left out. The ends of its sockets are waited for.
    pub(super) async fn sent(&self) -> Vec<Sent> {
        let mut open = self.kept.open.subscribe();
        let closed = timeout(LIMIT, open.wait_for(|open| *open == 0)).await;
        drop(closed.unwrap());
        let mut sent = self.all_sent();
        sent.retain(|sent| !sent.path.ends_with("/namespace"));
        sent
    }

    /// All that was sent.
    pub(super) fn all_sent(&self) -> Vec<Sent> {
        self.kept.sent().clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(kept): State<Arc<Kept>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let text = |name: &str| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let kind = text("content-type");
    let authorization = text("authorization");
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let query = form(parts.uri.query().unwrap_or_default());
    let path = decoded(parts.uri.path());
    kept.sent().push(Sent {
        method: parts.method.to_string(),
        path: path.clone(),
        query: query.clone(),
        body: match kind.as_deref() {
            Some("application/json") => Some(unpacked(serde_json::from_slice(&bytes).unwrap())),
            Some("application/octet-stream") => Some(json!({"base64": STANDARD.encode(&bytes)})),
            _ => None,
        },
        authorization,
        frames: Vec::new(),
    });
    if path.ends_with("/ws") {
        let place = kept.sent().len() - 1;
        kept.open.send_modify(|open| *open += 1);
        let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
        return upgrade.unwrap().on_upgrade(async move |socket| {
            frames(socket, &kept, place).await;
            kept.open.send_modify(|open| *open -= 1);
        });
    }
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let offset = number("offset").unwrap_or(0).min(CONTENT.len());
    if path.ends_with("/fs/read") {
        let end = number("length").map_or(CONTENT.len(), |length| offset + length);
        let end = end.min(CONTENT.len());
        let headers = [
            ("x-polyaxon-next-offset", end.to_string()),
            ("x-polyaxon-eof", (end == CONTENT.len()).to_string()),
        ];
        return (headers, CONTENT[offset..end].to_vec()).into_response();
    }
    if path.ends_with("/fs/write") {
        let mut written = kept.written.lock().unwrap();
        let before = match query.get("append").map(String::as_str) {
            Some("true") => written.unwrap_or(0),
            _ => 0,
        };
        *written = Some(before + bytes.len());
        return json(
            200,
            &json!({"path": "/", "bytes_written": bytes.len(), "created": true}),
        );
    }
    if path.ends_with("/exec/stream") {
        let events = "event: start\ndata: {\"exec_id\":\"exec-1\",\"pid\":7}\n\n\
             event: execution_complete\ndata: {\"exit_code\":0,\"duration_ms\":1,\"timed_out\":false}\n\n";
        let head = [("content-type", "text/event-stream")];
        return (head, events).into_response();
    }
    let stream = query.get("stream").map_or("stdout", String::as_str);
    let size = kept.written.lock().unwrap().unwrap_or(CONTENT.len());
    let (status, body) = document(&parts.method, &path, size);
    let page = json!({
        "exec_id": "exec-1", "stream": stream, "offset": offset,
        "next_offset": CONTENT.len(), "bytes": CONTENT.len() - offset,
        "data": String::from_utf8_lossy(&CONTENT[offset..]), "eof": true, "state": "exited",
    });
    match path.ends_with("/logs") {
        true => json(200, &page),
        false => json(status, &body),
    }
}

fn document(method: &http::Method, path: &str, size: usize) -> (u16, Value) {
    let ends = |end: &str| path.ends_with(end);
    let post = method == http::Method::POST;
    let time = "2026-01-02T03:04:05Z";
    let exec = json!({
        "exec_id": "exec-1", "pid": 7, "state": "exited", "exit_code": 0, "started_at": time,
        "finished_at": time, "stdout_bytes": 0, "stderr_bytes": 0,
    });
    let pty = json!({
        "pty_id": "pty-1", "pid": 7, "state": "running", "started_at": time, "cols": 80, "rows": 24,
    });
    match () {
        () if ends("/namespace") => (200, json!({"namespace": "test-ns"})),
        () if ends("/ping") => (200, json!({"status": "ok"})),
        () if ends("/exec") => (
            200,
            json!({
                "exec_id": "exec-1", "exit_code": 0, "stdout": "", "stderr": "", "duration_ms": 1,
                "timed_out": false,
            }),
        ),
        () if ends("/exec/bg") && post => (202, exec),
        () if ends("/exec/bg") => (200, json!({"execs": [exec]})),
        () if ends("/pty") && post => (201, pty),
        () if ends("/pty") => (200, json!({"sessions": [pty]})),
        () if ends("/signal")
            || ends("/resize")
            || method == http::Method::DELETE && !ends("/fs/rm") =>
        {
            (204, Value::Null)
        }
        () if path.contains("/exec/bg/") => (200, exec),
        () if path.contains("/pty/") => (200, pty),
        () if ends("/fs/ls") => (200, json!({"path": "/", "entries": [], "truncated": false})),
        () if ends("/fs/stat") => (
            200,
            json!({
                "path": "/tmp/a", "type": "file", "size": size, "mode": "0644", "mtime": time,
            }),
        ),
        () if ends("/runs") => (
            201,
            json!({"uuid": NEW_RUN, "settings": {"namespace": "test-ns"}}),
        ),
        () => (200, json!({"path": "/"})),
    }
}

fn json(status: u16, body: &Value) -> Response {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// Says `attached`, and keeps what comes until the end.
async fn frames(mut socket: WebSocket, kept: &Kept, place: usize) {
    let attached = json!({
        "type": "attached", "pty_id": "pty-1", "pid": 7, "state": "running", "cols": 80, "rows": 24,
    });
    socket
        .send(Message::Text(attached.to_string().into()))
        .await
        .unwrap();
    while let Some(Ok(message)) = socket.recv().await {
        let frame = match message {
            Message::Binary(bytes) => {
                json!({"kind": "binary", "data": {"base64": STANDARD.encode(&bytes)}})
            }
            Message::Text(text) => {
                json!({"kind": "text", "data": serde_json::from_str::<Value>(&text).unwrap()})
            }
            Message::Close(close) => {
                json!({"kind": "close", "data": {"code": close.map(|c| c.code)}})
            }
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let last = frame["kind"] == "close";
        kept.sent()[place].frames.push(frame);
        if last {
            return;
        }
    }
    // What a peer is told that saw no closing frame.
    let frame = json!({"kind": "close", "data": {"code": 1006}});
    kept.sent()[place].frames.push(frame);
}
