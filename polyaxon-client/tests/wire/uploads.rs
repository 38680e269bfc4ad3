//! Uploads over slow lines.

use std::time::{Duration, Instant};

use polyaxon_client::runs::Upload;
use polyaxon_client::{Client, Config, Error};
use tokio::io::AsyncReadExt as _;

use super::stub::{Connection, Stub};
use super::{project, run_uuid};

/// More than the buffers of a connection hold, or the line would not be felt.
const BYTES: usize = 24 * 1024 * 1024;
const LIMIT: Duration = Duration::from_millis(400);

fn client_of(url: &str) -> Client {
    let config = Config::explicit(url).unwrap().no_token();
    Client::new(&config.timeout(LIMIT)).unwrap()
}

async fn upload(stub: &Stub) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.bin");
    std::fs::write(&file, vec![b'x'; BYTES]).unwrap();
    let runs = client_of(&stub.url).runs(&project());
    let upload = Upload::new(&file, "outputs/model.bin");
    runs.upload("ns", run_uuid(), &upload).await
}

/// Reads a piece in a while: for a whole second and more, but never silent for as long as the limit.
async fn reads_slowly(mut connection: Connection) {
    let mut buffer = vec![0; 1024 * 1024];
    let (mut count, mut next) = (0, BYTES / 16);
    while count < BYTES {
        count += connection.stream.read(&mut buffer).await.unwrap();
        if count >= next {
            next += BYTES / 16;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    connection.send(answer).await;
    connection.closed().await;
}

#[tokio::test]
async fn an_upload_may_take_longer_than_the_limit_of_a_call_as_long_as_it_moves() {
    let stub = Stub::start(reads_slowly).await;
    let started = Instant::now();
    upload(&stub).await.unwrap();
    assert!(started.elapsed() > 2 * LIMIT, "{:?}", started.elapsed());
    assert_eq!(stub.accepted(), 1);
}

#[tokio::test]
async fn a_file_that_becomes_shorter_while_it_is_sent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.bin");
    std::fs::write(&file, vec![b'x'; BYTES]).unwrap();
    let place = file.clone();
    let stub = Stub::start(move |mut connection: Connection| {
        // What was sent by now is not all: the rest waits for this side to read.
        std::fs::File::create(&place).unwrap();
        async move { connection.closed().await }
    })
    .await;
    let runs = client_of(&stub.url).runs(&project());
    let upload = Upload::new(&file, "outputs/model.bin");
    let error = runs.upload("ns", run_uuid(), &upload).await.unwrap_err();
    let said = match &error {
        Error::InvalidInput(input) => Some(input.to_string()),
        _ => None,
    };
    let expected = format!("file: {} became shorter while it was sent", file.display());
    assert_eq!(said, Some(expected), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(stub.accepted(), 1);
}

#[tokio::test]
async fn an_upload_that_nobody_takes_ends_at_the_limit() {
    let stub = Stub::start(|connection: Connection| async move {
        let _held = connection;
        std::future::pending::<()>().await;
    })
    .await;
    let started = Instant::now();
    let error = upload(&stub).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    assert!(error.is_retryable());
    // Four attempts with pauses between them.
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}
