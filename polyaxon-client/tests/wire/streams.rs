//! Answers that are read while they come, and WebSocket handshakes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyaxon_client::transport::{AnswerStream, Operation};
use polyaxon_client::{Effect, Error};
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::client_of;
use super::stub::{Connection, Stub};

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}

async fn open(stub: &Stub, operation: Operation) -> Result<AnswerStream, Error> {
    client_of(&stub.url).transport().open(operation).await
}

async fn rest(stream: &mut AnswerStream) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.chunk().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[tokio::test]
async fn bytes_come_while_the_answer_is_still_being_made() {
    let (tell, told) = mpsc::channel::<()>(1);
    let told = std::sync::Arc::new(tokio::sync::Mutex::new(told));
    let stub = Stub::start(move |mut connection: Connection| {
        let told = std::sync::Arc::clone(&told);
        async move {
            let head = connection.request().await.unwrap();
            assert!(head.contains("accept-encoding: identity"), "{head}");
            assert!(head.contains("accept: text/event-stream"), "{head}");
            connection.send(format!("{CHUNKED}3\r\none\r\n")).await;
            // The second comes when the first was read, or never.
            told.lock().await.recv().await.unwrap();
            connection.send("3\r\ntwo\r\n0\r\n\r\n").await;
            connection.closed().await;
        }
    })
    .await;
    let operation = Operation::post("exec.stream", "/").accept_events();
    let mut stream = open(&stub, operation).await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "one");
    tell.send(()).await.unwrap();
    assert_eq!(rest(&mut stream).await.unwrap(), b"two");
    assert_eq!(stream.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn a_body_that_is_cut_is_an_error_behind_its_bytes() {
    let heads = [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nwhole",
        &format!("{CHUNKED}9\r\nwhole"),
    ];
    for head in heads {
        let head = head.to_owned();
        let stub = Stub::start(move |mut connection: Connection| {
            let head = head.clone();
            async move {
                connection.request().await;
                connection.send(head).await;
            }
        })
        .await;
        let calls = [
            (Operation::get("fs.read", "/"), Effect::NotApplied),
            (Operation::post("exec.stream", "/"), Effect::Unknown),
        ];
        for (operation, effect) in calls {
            let mut stream = open(&stub, operation).await.unwrap();
            assert_eq!(stream.chunk().await.unwrap().unwrap(), "whole");
            let error = stream.chunk().await.unwrap_err();
            assert!(matches!(error, Error::Transport { .. }), "{error:?}");
            assert_eq!(error.effect(), effect);
        }
        // A stream that has begun is never asked for again.
        assert_eq!(stub.accepted(), 2);
    }
}

#[tokio::test]
async fn silence_has_a_limit_that_any_byte_starts_anew() {
    let limit = Duration::from_secs(8);
    let stub = Stub::start(move |mut connection: Connection| async move {
        connection.request().await;
        connection.send(CHUNKED).await;
        for _ in 0..6 {
            tokio::time::sleep(limit / 4).await;
            connection.send("1\r\n.\r\n").await;
        }
        connection.closed().await;
    })
    .await;
    let mut stream = open(&stub, Operation::get("follow", "/").idle(limit))
        .await
        .unwrap();
    let mut seen = Vec::new();
    let error = loop {
        match stream.chunk().await {
            Ok(bytes) => seen.extend_from_slice(&bytes.unwrap()),
            Err(error) => break error,
        }
    };
    // More than the limit has passed by then.
    assert_eq!(seen, b"......");
    assert!(
        causes(&error).contains("nothing came for 8.0s"),
        "{}",
        causes(&error)
    );
}

#[tokio::test]
async fn an_answer_that_a_proxy_compressed_all_the_same_is_read() {
    /// `event: a\ndata: 1\n\n`, by gzip.
    const GZIP: [u8; 38] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 75, 45, 75, 205, 43, 177, 82, 72, 228, 74, 73, 44, 73,
        180, 82, 48, 228, 226, 2, 0, 120, 126, 34, 169, 18, 0, 0, 0,
    ];
    let stub = Stub::start(|mut connection: Connection| async move {
        connection.request().await;
        let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
        connection.send([head.as_bytes(), &GZIP].concat()).await;
    })
    .await;
    let operation = Operation::get("exec.stream", "/").accept_events();
    let mut stream = open(&stub, operation).await.unwrap();
    assert_eq!(rest(&mut stream).await.unwrap(), b"event: a\ndata: 1\n\n");
}

#[tokio::test]
async fn a_page_for_people_is_no_stream_and_no_answer() {
    let stub = Stub::start(|mut connection: Connection| async move {
        while connection.request().await.is_some() {
            let page = "<html><title>Log in</title></html>";
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length";
            connection
                .send(format!("{head}: {}\r\n\r\n{page}", page.len()))
                .await;
        }
    })
    .await;
    let client = client_of(&stub.url);
    let errors = [
        client
            .transport()
            .open(Operation::post("exec.stream", "/"))
            .await
            .unwrap_err(),
        client
            .transport()
            .send(Operation::post("exec", "/"))
            .await
            .unwrap_err(),
        client
            .transport()
            .upgrade(Operation::get("pty.attach", "/"))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert!(
            error.to_string().contains("a page that says \"Log in\""),
            "{error}"
        );
        let Error::Api(answer) = error else {
            panic!("{error:?}");
        };
        assert!(answer.is_from_gateway());
    }
}

/// The answer that belongs to the key of a handshake.
fn accept(head: &str, original: &str) -> String {
    assert!(head.contains("upgrade: websocket"), "{head}");
    assert!(head.contains("sec-websocket-version: 13"), "{head}");
    let key = original
        .lines()
        .find_map(|line| {
            line.split_once(": ")
                .filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))
        })
        .unwrap()
        .1;
    let digest = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        STANDARD.encode(digest)
    )
}

#[tokio::test]
async fn a_handshake_leaves_the_bare_connection_with_what_came_along() {
    let stub = Stub::start(|mut connection: Connection| async move {
        let original = connection.request_as_it_came().await.unwrap();
        let head = original.to_lowercase();
        assert!(head.contains("authorization: token test-token"), "{head}");
        // The first bytes behind the handshake come in the same packet.
        connection
            .send(format!("{}first", accept(&head, &original)))
            .await;
        let mut word = [0; 4];
        connection.stream.read_exact(&mut word).await.unwrap();
        connection.send(word).await;
        connection.closed().await;
    })
    .await;
    let client = client_of(&stub.url);
    let mut upgraded = client
        .transport()
        .upgrade(Operation::get("pty.attach", "/ws"))
        .await
        .unwrap();
    let mut first = [0; 5];
    upgraded.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first");
    upgraded.write_all(b"echo").await.unwrap();
    upgraded.flush().await.unwrap();
    let mut echo = [0; 4];
    upgraded.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"echo");
    drop(upgraded);
    while stub.open() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handshake_that_is_refused_or_wrong_is_an_error() {
    let envelope = |status: &str, code: &str| {
        let body = format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#);
        let head = "content-type: application/json\r\ncontent-length";
        format!("HTTP/1.1 {status}\r\n{head}: {}\r\n\r\n{body}", body.len())
    };
    let page = "<html><title>502 Bad Gateway</title></html>";
    let page = format!(
        "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                 sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let silent =
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    let table = [
        (
            envelope("404 Not Found", "not_found"),
            "404 Not Found: m (not_found)",
        ),
        (
            envelope("409 Conflict", "already_attached"),
            "409 Conflict: m (already_attached)",
        ),
        (envelope("410 Gone", "gone"), "410 Gone: m (gone)"),
        (page, "a page that says \"502 Bad Gateway\""),
        (wrong.to_owned(), "cannot be read at `sec-websocket-accept`"),
        (
            silent.to_owned(),
            "cannot be read at `sec-websocket-accept`",
        ),
    ];
    for (answer, want) in table {
        let stub = Stub::start(move |mut connection: Connection| {
            let answer = answer.clone();
            async move {
                while connection.request().await.is_some() {
                    connection.send(&answer).await;
                }
            }
        })
        .await;
        let operation = Operation::get("pty.attach", "/ws").once();
        let error = client_of(&stub.url)
            .transport()
            .upgrade(operation)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(want), "{want}: {error}");
    }
}
