//! A service that only streams: as many events of one size as the command asks for, made one by one
//! as a service makes them. A real command cannot be made to give events of a certain size.

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Json, Path};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Starts it; it ends with the process.
pub(crate) async fn start() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let router = Router::new()
        .route(
            "/api/v1/{owner}/{project}/runs/{run}/namespace",
            get(|| async { Json(json!({"namespace": "polyaxon"})) }),
        )
        .route(
            "/sandbox/v1/{namespace}/{owner}/{project}/runs/{run}/exec/stream",
            post(events),
        )
        .route(
            "/sandbox/v1/{namespace}/{owner}/{project}/runs/{run}/exec/bg/{id}",
            get(record),
        );
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

/// The record of a command that has ended, and wrote as much as its id says.
async fn record(
    Path((_, _, _, _, id)): Path<(String, String, String, String, String)>,
) -> Json<Value> {
    let bytes: u64 = id.parse().unwrap_or_default();
    Json(
        json!({"exec_id": id, "pid": 1, "state": "exited", "exit_code": 0,
                "stdout_bytes": bytes, "stderr_bytes": 0, "started_at": "2026-01-01T00:00:00Z",
                "finished_at": "2026-01-01T00:00:01Z", "duration_ms": 1000}),
    )
}

/// `["events", SIZE, COUNT]`.
async fn events(Json(body): Json<Value>) -> Response {
    let number = |at: &str| -> u64 {
        let text = body.pointer(at).and_then(Value::as_str).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    let (size, count) = (number("/command/1"), number("/command/2"));
    // Lines as programs write them: one line feed in 64 bytes, which JSON escapes.
    let line = format!("{}\n", "x".repeat(63));
    let text: String = line
        .chars()
        .cycle()
        .take(usize::try_from(size).unwrap_or_default())
        .collect();
    let id = (size * count).to_string();
    let start = json!({"exec_id": id, "pid": 1, "started_at": "2026-01-01T00:00:00Z"});
    let end = json!({"exit_code": 0, "signal": null, "duration_ms": 1, "timed_out": false});
    let event = |name: &str, data: &Value| Bytes::from(format!("event: {name}\ndata: {data}\n\n"));
    let (first, last) = (event("start", &start), event("execution_complete", &end));
    let output = move |number: u64| {
        let data = json!({"text": text, "offset": (number + 1) * size});
        Bytes::from(format!("event: stdout\ndata: {data}\n\n"))
    };
    let all = stream::iter(
        std::iter::once(first)
            .chain((0..count).map(output))
            .chain(std::iter::once(last))
            .map(Ok::<_, std::convert::Infallible>),
    );
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(all),
    )
        .into_response()
}
