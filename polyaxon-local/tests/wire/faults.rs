//! Faults on purpose, as they arrive at a socket: byte by byte.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use polyaxon_local::{Fault, FaultRule};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{LIMIT, Plane, Sandbox, content, reply};

const TEXT: &str = "0123456789";

/// What came over one connection.
struct Raw {
    head: String,
    body: Vec<u8>,
}

/// Sends a request of its own connection and reads until the service closes it.
async fn raw(plane: &Plane, method: &str, path: &str, body: &str) -> Raw {
    let mut stream = TcpStream::connect(plane.server.address()).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        plane.server.token(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = async { while let Ok(1..) = stream.read_buf(&mut bytes).await {} };
    tokio::time::timeout(LIMIT, read).await.unwrap();
    let end = find(&bytes, b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let body = bytes.split_off(end);
    Raw {
        head: String::from_utf8(bytes).unwrap(),
        body,
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

async fn file<'a>(plane: &'a Plane) -> (Sandbox<'a>, String) {
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/f", TEXT.as_bytes(), &[]).await;
    let path = sandbox.path("fs/read?path=/tmp/f");
    (sandbox, path)
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[tokio::test]
async fn a_body_breaks_off_after_exactly_so_many_bytes() {
    let plane = Plane::start().await;
    let (_sandbox, path) = file(&plane).await;
    for bytes in [0, 1, 5, 9] {
        let rule = FaultRule::new(Fault::CutAfter(bytes))
            .path("*/fs/read")
            .times(1);
        plane.server.faults().add(rule);
        let answer = raw(&plane, "GET", &path, "").await;
        assert!(
            answer.head.starts_with("HTTP/1.1 200 OK\r\n"),
            "{}",
            answer.head
        );
        assert!(
            answer.head.contains("content-length: 10\r\n"),
            "{}",
            answer.head
        );
        assert_eq!(
            answer.body,
            &TEXT.as_bytes()[..usize::try_from(bytes).unwrap()]
        );
    }
    // Once each, and the next read is whole.
    assert_eq!(raw(&plane, "GET", &path, "").await.body, TEXT.as_bytes());
    assert_eq!(plane.server.faults().applied(), 4);
}

#[tokio::test]
async fn a_body_arrives_byte_by_byte() {
    let plane = Plane::start().await;
    let (sandbox, path) = file(&plane).await;
    plane
        .server
        .faults()
        .add(FaultRule::new(Fault::Split(number(1))));
    let answer = raw(&plane, "GET", &path, "").await;
    assert_eq!(answer.body, TEXT.as_bytes());
    // Where a body has no length its pieces are told apart, whatever the system puts together.
    let stream = sandbox.path("exec/stream");
    let command = r#"{"command": ["echo", "0123456789"]}"#;
    let answer = raw(&plane, "POST", &stream, command).await;
    let text = String::from_utf8(answer.body).unwrap();
    let chunks = text.strip_suffix("0\r\n\r\n").unwrap();
    let mut pieces = 0;
    let mut rest = chunks;
    while let Some(piece) = rest.strip_prefix("1\r\n") {
        rest = piece[1..].strip_prefix("\r\n").unwrap();
        pieces += 1;
    }
    assert_eq!(rest, "", "a piece of more than a byte");
    assert!(pieces > TEXT.len(), "{pieces} pieces");
    plane.server.faults().clear();
    assert_eq!(raw(&plane, "GET", &path, "").await.body, TEXT.as_bytes());
}

#[tokio::test]
async fn a_slow_body_takes_the_time_that_was_asked_for() {
    let plane = Plane::start().await;
    let (_sandbox, path) = file(&plane).await;
    plane
        .server
        .faults()
        .add(FaultRule::new(Fault::Slow(number(20))).path("*/fs/read"));
    let begun = Instant::now();
    assert_eq!(raw(&plane, "GET", &path, "").await.body, TEXT.as_bytes());
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_stalled_body_stops_and_the_connection_stays_open() {
    let plane = Plane::start().await;
    let (_sandbox, path) = file(&plane).await;
    plane
        .server
        .faults()
        .add(FaultRule::new(Fault::StallAfter(3)).path("*/fs/read"));
    let mut stream = TcpStream::connect(plane.server.address()).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {}\r\n\r\n",
        plane.server.token()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n012") {
        let mut byte = [0];
        tokio::time::timeout(LIMIT, stream.read_exact(&mut byte))
            .await
            .unwrap()
            .unwrap();
        bytes.push(byte[0]);
    }
    let mut byte = [0];
    let more = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut byte));
    more.await.unwrap_err();
    drop(stream);
    // A server whose caller waits for ever ends all the same.
    plane.server.stop().await.unwrap();
}

#[tokio::test]
async fn a_gateway_page_or_a_429_takes_the_place_of_the_answer() {
    let plane = Plane::start().await;
    let (sandbox, _) = file(&plane).await;
    let faults = plane.server.faults();
    let path = sandbox.path("fs/write?path=/tmp/n&append=true&create=true");

    faults.add(
        FaultRule::new(Fault::BadGateway)
            .method(Method::POST)
            .path("*/fs/write")
            .times(1),
    );
    let answer = raw(&plane, "POST", &path, "x").await;
    assert!(
        answer.head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"),
        "{}",
        answer.head
    );
    assert!(
        answer.head.contains("content-type: text/html"),
        "{}",
        answer.head
    );
    assert_eq!(sandbox.stat("/tmp/n").await.0, 404);

    faults.add(
        FaultRule::new(Fault::TooManyRequests(7))
            .path("*/fs/write")
            .times(1),
    );
    let answer = raw(&plane, "POST", &path, "x").await;
    assert!(answer.head.starts_with("HTTP/1.1 429 "), "{}", answer.head);
    assert!(
        answer.head.contains("retry-after: 7\r\n"),
        "{}",
        answer.head
    );
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["error"]["code"], "rate_limited");
    assert_eq!(body["error"]["details"]["retry_after_ms"], 7000);
    assert_eq!(sandbox.stat("/tmp/n").await.0, 404);
}

#[tokio::test]
async fn a_request_has_its_effect_only_where_the_rule_says_so() {
    let plane = Plane::start().await;
    let (sandbox, _) = file(&plane).await;
    let path = sandbox.path("fs/write?path=/tmp/n&append=true");
    let table = [
        (FaultRule::new(Fault::Close), "", 404),
        (FaultRule::new(Fault::Close).carried_out(), "", 200),
        (
            FaultRule::new(Fault::BadGateway).carried_out(),
            "HTTP/1.1 502",
            200,
        ),
    ];
    for (rule, head, want) in table {
        sandbox.rm("/tmp/n", &[("recursive", "true")]).await;
        plane
            .server
            .faults()
            .add(rule.clone().path("*/fs/write").times(1));
        let answer = raw(&plane, "POST", &path, "x").await;
        assert_eq!(&answer.head[..head.len()], head, "{rule:?}");
        assert_eq!(answer.head.is_empty(), head.is_empty(), "{rule:?}");
        assert_eq!(sandbox.stat("/tmp/n").await.0, want, "{rule:?}");
    }
}

#[tokio::test]
async fn a_rule_is_for_its_method_and_path_and_counts_only_those() {
    let plane = Plane::start().await;
    let (sandbox, path) = file(&plane).await;
    let rule = FaultRule::new(Fault::BadGateway)
        .method(Method::GET)
        .path("*/fs/read");
    plane.server.faults().add(rule.skip(1).times(1));
    assert_eq!(sandbox.stat("/tmp/f").await.0, 200);
    assert_eq!(plane.get("/api/v1/local/agent-lab/runs/x").await.0, 404);
    let statuses = [
        reply(plane.request(Method::POST, &path)).await.0.as_u16(),
        plane.get(&path).await.0.as_u16(),
        plane.get(&path).await.0.as_u16(),
        plane.get(&path).await.0.as_u16(),
    ];
    assert_eq!(statuses, [404, 200, 502, 200]);
}

#[tokio::test]
async fn a_connection_can_be_refused_and_a_run_its_start() {
    let plane = Plane::start().await;
    let faults = plane.server.faults();
    faults.add(FaultRule::new(Fault::Refuse).times(1));
    let answer = raw(&plane, "GET", "/api/v1/x", "").await;
    assert_eq!((answer.head.as_str(), answer.body.len()), ("", 0));
    assert!(
        raw(&plane, "GET", "/api/v1/x", "")
            .await
            .head
            .starts_with("HTTP/1.1 404")
    );
    faults.add(FaultRule::new(Fault::RefuseStart).times(1));
    let path = plane.create(&json!({"content": content(&json!({}))})).await;
    let statuses = plane.until(&path, "failed").await;
    let last = statuses["status_conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert!(
        last["message"].as_str().unwrap().contains("on purpose"),
        "{last}"
    );
    plane.sandbox().await;
}

/// The bytes of the chunks of a chunked body.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(at) = find(body, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        let end = body.len().min(at + 2 + size);
        bytes.extend_from_slice(&body[at + 2..end]);
        body = &body[body.len().min(end + 2)..];
    }
    bytes
}

#[tokio::test]
async fn an_event_stream_has_crlf_lines_and_is_cut_where_asked() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let path = sandbox.path("exec/stream");
    let body = json!({"command": ["printf", "a\nb"]}).to_string();
    let faults = plane.server.faults();
    let plain = raw(&plane, "POST", &path, &body).await;
    let plain = String::from_utf8(dechunked(&plain.body)).unwrap();
    assert!(plain.contains("event: execution_complete\n"), "{plain}");
    assert!(!plain.contains('\r'), "{plain:?}");

    faults.add(FaultRule::new(Fault::Crlf));
    let framed = raw(&plane, "POST", &path, &body).await;
    let framed = String::from_utf8(dechunked(&framed.body)).unwrap();
    assert!(framed.contains("event: execution_complete\r\n"), "{framed}");
    assert!(framed.ends_with("\r\n\r\n"), "{framed:?}");
    assert_eq!(framed.matches('\n').count(), framed.matches("\r\n").count());
    // Nothing else is touched: JSON of the same service stays as it is.
    let stat = raw(&plane, "GET", &sandbox.path("fs/stat?path=/tmp"), "").await;
    assert!(serde_json::from_slice::<serde_json::Value>(&stat.body).unwrap()["mtime"].is_string());
    faults.clear();

    faults.add(FaultRule::new(Fault::CutAfter(20)).path("*/exec/stream"));
    faults.add(FaultRule::new(Fault::Split(number(1))).path("*/exec/stream"));
    let cut = raw(&plane, "POST", &path, &body).await;
    assert!(!cut.body.ends_with(b"0\r\n\r\n"), "the body has an end");
    // The id in the first event differs; its first bytes do not.
    assert_eq!(dechunked(&cut.body).len(), 20);
    assert_eq!(&dechunked(&cut.body)[..14], &plain.as_bytes()[..14]);
}
