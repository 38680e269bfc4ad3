use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, Effect, Error};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::client_of;

fn envelope(code: &str) -> serde_json::Value {
    json!({"error": {"code": code, "message": "m"}})
}

/// A server that answers with `first`, `times` times, then with 200.
async fn failing(first: ResponseTemplate, times: u64) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(first)
        .up_to_n_times(times)
        .mount(&server)
        .await;
    let fine = ResponseTemplate::new(200).set_body_json(json!({}));
    Mock::given(any())
        .respond_with(fine)
        .with_priority(9)
        .mount(&server)
        .await;
    server
}

async fn sent(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().len()
}

#[tokio::test]
async fn a_call_that_may_have_been_carried_out_is_not_repeated() {
    let page = "<html><title>504 Gateway Time-out</title></html>";
    for (status, body) in [(502, page), (503, page), (504, page), (500, "{}")] {
        let server = failing(ResponseTemplate::new(status).set_body_string(body), 9).await;
        let error = client_of(&server.uri())
            .transport()
            .send(Operation::post("exec", "/exec"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.effect(), sent(&server).await),
            (Effect::Unknown, 1),
            "{status}"
        );
        assert_eq!(error.status().unwrap().as_u16(), status);
    }
}

#[tokio::test]
async fn a_harmless_call_is_repeated_after_the_same_failures() {
    for status in [500, 502, 503, 504] {
        let server = failing(ResponseTemplate::new(status), 2).await;
        client_of(&server.uri())
            .transport()
            .send(Operation::get("fs.stat", "/fs/stat"))
            .await
            .unwrap();
        assert_eq!(sent(&server).await, 3, "{status}");
    }
}

#[tokio::test]
async fn what_is_refused_for_good_is_asked_once() {
    for status in [400, 401, 403, 404, 409, 413] {
        let first = ResponseTemplate::new(status).set_body_json(envelope("c"));
        let server = failing(first, 9).await;
        let error = client_of(&server.uri())
            .transport()
            .send(Operation::get("fs.stat", "/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), sent(&server).await),
            (Some("c"), 1),
            "{status}"
        );
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_where_it_fits_the_limit() {
    let busy = ResponseTemplate::new(429).set_body_json(envelope("rate_limited"));
    let server = failing(busy.clone().insert_header("retry-after", "1"), 1).await;
    let started = Instant::now();
    client_of(&server.uri())
        .transport()
        .send(Operation::post("exec", "/exec"))
        .await
        .unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(sent(&server).await, 2);

    let server = failing(busy.insert_header("retry-after", "3600"), 1).await;
    let error = client_of(&server.uri())
        .transport()
        .send(Operation::get("fs.stat", "/"))
        .await
        .unwrap_err();
    let Error::Api(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(sent(&server).await, 1);
}

/// A loopback server that reads one request a connection and then does as `act` says, by the
/// number of the connection, for as long as the test runs. Counts the connections.
async fn raw_server(
    act: impl Fn(usize) -> &'static str + Send + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let mut buffer = [0; 4096];
            let _read = peer.read(&mut buffer).await;
            let _written = peer.write_all(act(number).as_bytes()).await;
        }
    });
    (url, served)
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_the_effect_unknown_and_is_not_asked_for_twice() {
    for cut in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"exec_id\":",
    ] {
        let (url, served) = raw_server(move |_| cut).await;
        let error = client_of(&url)
            .transport()
            .send(Operation::post("exec", "/exec"))
            .await
            .unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{cut:?}: {error:?}");
        assert!(
            error
                .to_string()
                .starts_with("exec got no answer from 127.0.0.1:"),
            "{error}"
        );
        assert_eq!(served.load(Ordering::SeqCst), 1, "{cut:?}");
    }
}

#[tokio::test]
async fn reading_goes_on_after_an_answer_that_breaks_off() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let (url, served) = raw_server(move |n| if n == 0 { "HTTP/1.1 200" } else { whole }).await;
    client_of(&url)
        .transport()
        .send(Operation::get("fs.stat", "/fs/stat"))
        .await
        .unwrap();
    assert_eq!(served.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_applied_and_the_host_is_named() {
    // Bound, so that nobody else gets the port, and not listened at.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let client = client_of(&format!("http://{address}"));
    let error = client
        .transport()
        .send(Operation::post("exec", "/exec"))
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    assert_eq!(
        error.to_string(),
        format!("exec got no answer from {address}")
    );
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("onnection refused"), "{cause}");
}

#[tokio::test]
async fn a_server_that_never_answers_ends_at_the_limit_of_the_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client_of(&format!("http://{}", listener.local_addr().unwrap()));
    let operation = Operation::post("exec", "/exec").timeout(Duration::from_millis(200));
    let started = Instant::now();
    let error = client.transport().send(operation).await.unwrap_err();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(error.effect(), Effect::Unknown);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("the time limit passed"), "{cause}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_carries_the_token_nowhere() {
    let other = MockServer::start().await;
    let target = format!("{}/x?secret=1", other.uri());
    let moved = ResponseTemplate::new(302).insert_header("location", target.as_str());
    let server = failing(moved, 9).await;
    let error = client_of(&server.uri())
        .transport()
        .send(Operation::get("ping", "/ping"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("{}/x", other.uri())), "{text}");
    assert!(
        !text.contains("secret") && !text.contains("test-token"),
        "{text}"
    );
    assert_eq!(sent(&other).await, 0);
}

#[test]
fn a_certificate_file_that_is_not_there_is_an_error_before_anything_is_sent() {
    let config = Config::explicit("https://127.0.0.1:1")
        .unwrap()
        .ca_file("/nowhere/ca.pem");
    let error = Client::new(&config).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("/nowhere/ca.pem cannot be read"), "{cause}");
}

#[tokio::test]
async fn odd_characters_in_a_query_arrive_as_they_were() {
    let server = failing(ResponseTemplate::new(200), 1).await;
    let odd = "/w/a b%20+;&#=é\n?";
    let operation = Operation::get("fs.stat", "/fs/stat").query("path", odd);
    client_of(&server.uri())
        .transport()
        .send(operation)
        .await
        .unwrap();
    let request = &server.received_requests().await.unwrap()[0];
    let pairs: Vec<_> = request.url.query_pairs().into_owned().collect();
    assert_eq!(pairs, [("path".to_owned(), odd.to_owned())]);
}
