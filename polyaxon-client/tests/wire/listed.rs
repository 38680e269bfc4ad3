//! Streams and tables of runs, by a server that cuts pages short or fails in between.

use futures::TryStreamExt as _;
use polyaxon_client::runs::{Cell, Column, Comparison, ListRuns};
use serde_json::{Value, json};
use wiremock::matchers::{method, path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{RUN, client_of, project, server};

const LATER: &str = "1aac02e3a62a4f0aaa257c59da5eab80";
const LAST: &str = "2aac02e3a62a4f0aaa257c59da5eab80";

fn run(uuid: &str, second: u8) -> Value {
    json!({"uuid": uuid, "created_at": format!("2026-01-02T03:04:0{second}Z"),
        "settings": {"namespace": "ns"}})
}

async fn list(server: &MockServer, from: Option<&str>, limit: &str, count: u8, runs: Value) {
    let mock = Mock::given(method("GET"))
        .and(path("/api/v1/acme/demo/runs"))
        .and(query_param("limit", limit))
        .and(query_param("sort", "created_at"));
    let mock = match from {
        Some(from) => mock.and(query_param("query", format!("created_at:>={from}"))),
        None => mock.and(query_param_is_missing("query")),
    };
    mock.respond_with(
        ResponseTemplate::new(200).set_body_json(json!({"count": count, "results": runs})),
    )
    .expect(1)
    .mount(server)
    .await;
}

async fn streamed(server: &MockServer, limit: u32) -> Vec<String> {
    let runs = client_of(&server.uri()).runs(&project());
    let stream = runs.stream(&ListRuns::new().limit(limit));
    let uuids = stream.map_ok(|run| run.uuid.to_string());
    uuids.try_collect().await.unwrap()
}

#[tokio::test]
async fn a_page_that_the_server_cuts_short_is_not_the_last() {
    let server = server().await;
    let first = json!([run(RUN, 1), run(LATER, 2)]);
    list(&server, None, "5", 3, first).await;
    let rest = json!([run(LATER, 2), run(LAST, 3)]);
    list(&server, Some("2026-01-02T03:04:02Z"), "5", 2, rest).await;
    assert_eq!(streamed(&server, 5).await, [RUN, LATER, LAST]);
}

#[tokio::test]
async fn a_page_has_room_for_more_than_the_last_run_of_the_one_before() {
    let server = server().await;
    list(&server, None, "2", 1, json!([run(RUN, 1)])).await;
    assert_eq!(streamed(&server, 1).await, [RUN]);
}

/// A comparison of one run: its list is there, its series for all and for itself answer so.
async fn compared(for_all: u16, for_one: u16) -> Result<Cell, polyaxon_client::Error> {
    let server = server().await;
    list(&server, None, "200", 1, json!([run(RUN, 1)])).await;
    for (at, status) in [
        ("runs/multi/events/metric".to_owned(), for_all),
        (format!("runs/{RUN}/events/metric"), for_one),
    ] {
        Mock::given(method("GET"))
            .and(path(format!("/streams/v1/ns/acme/demo/{at}")))
            .respond_with(ResponseTemplate::new(status))
            .expect(1..)
            .mount(&server)
            .await;
    }
    let runs = client_of(&server.uri()).runs(&project());
    let columns = Comparison::new().metrics(["loss"]);
    let table = runs.compare(&ListRuns::new(), &columns).await?;
    let row = table.rows().first().unwrap();
    let loss = Column::Metric("loss".to_owned());
    Ok(table.cell(row, &loss).unwrap().clone())
}

#[tokio::test]
async fn only_series_that_the_server_fails_to_read_are_unreadable() {
    let cell = compared(501, 501).await.unwrap();
    assert!(
        matches!(&cell, Cell::Unreadable(why) if why.contains("501")),
        "{cell:?}"
    );
    let error = compared(501, 403).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(403));
}
