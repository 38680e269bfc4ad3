//! Connections: redirects, proxies, tokens, the pool.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, Effect, Error, Token};
use serde_json::json;
use wiremock::matchers::{any, header};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::client_of;
use super::stub::{Connection, Stub};

const FINE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// SB-47.
#[tokio::test]
async fn a_redirect_is_an_error_that_says_where_to_and_nobody_there_gets_a_token() {
    let other = Stub::start(|mut connection: Connection| async move {
        connection.request().await;
    })
    .await;
    let location = format!("{}/x?secret=1", other.url);
    let stub = Stub::start(move |mut connection: Connection| {
        let answer =
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        async move {
            while connection.request().await.is_some() {
                connection.send(&answer).await;
            }
        }
    })
    .await;
    let client = client_of(&stub.url);
    let transport = client.transport();
    let ping = || Operation::get("ping", "/ping");
    let errors = [
        transport.send(ping()).await.unwrap_err(),
        transport.open(ping()).await.unwrap_err(),
        transport.upgrade(ping()).await.unwrap_err(),
        transport
            .send(Operation::post("exec", "/exec"))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        let text = format!("{error} {error:?}");
        assert!(text.contains(&format!("{}/x", other.url)), "{text}");
        assert!(
            !text.contains("secret") && !text.contains("test-token"),
            "{text}"
        );
        assert_eq!(error.effect(), Effect::NotApplied);
        assert_eq!(error.status().unwrap().as_u16(), 302);
    }
    assert_eq!(other.accepted(), 0);
}

/// SB-59.
#[tokio::test]
async fn of_calls_that_are_refused_together_one_asks_for_a_token() {
    let server = MockServer::start().await;
    let refused = ResponseTemplate::new(401).set_delay(Duration::from_secs(1));
    Mock::given(header("authorization", "Token t0"))
        .respond_with(refused)
        .expect(20)
        .mount(&server)
        .await;
    let fine = ResponseTemplate::new(200).set_body_json(json!({}));
    Mock::given(header("authorization", "Token t1"))
        .respond_with(fine)
        .expect(20)
        .mount(&server)
        .await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let config = Config::explicit(&server.uri())
        .unwrap()
        .token_provider(move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(Token::new(format!("t{number}"))?) }
        });
    let client = Client::new(&config).unwrap();
    let calls = (0..20).map(|number| {
        let transport = client.transport();
        // Nobody carries out what was refused, so calls that must not come twice are sent again too.
        let operation = match number % 2 {
            0 => Operation::get("ping", "/ping"),
            _ => Operation::post("exec", "/exec"),
        };
        async move { transport.send(operation).await.unwrap().status }
    });
    assert!(join_all(calls).await.iter().all(|status| *status == 200));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// SB-43.
#[tokio::test]
async fn a_pooled_connection_that_was_just_closed_costs_nothing() {
    let counter = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&counter);
    let stub = Stub::start(move |mut connection: Connection| {
        let counted = Arc::clone(&counted);
        async move {
            // Closes right after the second answer, without saying so.
            for _ in 0..2 {
                let Some(head) = connection.request().await else {
                    return;
                };
                if head.starts_with("post") {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                connection.send(FINE).await;
            }
        }
    })
    .await;
    let client = client_of(&stub.url);
    for _ in 0..100 {
        client
            .transport()
            .send(Operation::get("ping", "/ping"))
            .await
            .unwrap();
    }
    let (mut fine, mut unknown) = (0, 0);
    for _ in 0..100 {
        match client
            .transport()
            .send(Operation::post("exec", "/exec"))
            .await
        {
            Ok(_) => fine += 1,
            Err(error) if error.effect() == Effect::Unknown => unknown += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    let executed = counter.load(Ordering::SeqCst);
    assert!(executed <= 100, "{executed}");
    assert!(
        (fine..=fine + unknown).contains(&executed),
        "{executed} of {fine} and {unknown}"
    );
}

/// SB-46.
#[tokio::test]
async fn streams_that_are_dropped_leave_no_connection() {
    let stub = Stub::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            if head.starts_with("get /ping ") {
                connection.send(FINE).await;
                continue;
            }
            let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
            connection.send(chunk).await;
            connection.closed().await;
        }
    })
    .await;
    let client = client_of(&stub.url);
    let transport = client.transport();
    let stream = || Operation::post("exec.stream", "/stream");
    let ping = async || {
        let started = Instant::now();
        transport
            .send(Operation::get("ping", "/ping"))
            .await
            .unwrap();
        started.elapsed()
    };
    for _ in 0..100 {
        let batch = (0..20).map(|_| async {
            let mut open = transport.open(stream()).await.unwrap();
            open.chunk().await.unwrap().unwrap()
        });
        assert!(join_all(batch).await.iter().all(|bytes| bytes == "first"));
    }
    assert!(stub.accepted() >= 2000);
    ping().await;
    let until = Instant::now() + Duration::from_secs(20);
    while stub.open() >= 20 {
        assert!(
            Instant::now() < until,
            "{} connections are open",
            stub.open()
        );
        tokio::task::yield_now().await;
    }
    // Streams that stay open do not stand in the way of others.
    let idle = join_all((0..300).map(|_| transport.open(stream()))).await;
    assert!(idle.iter().all(Result::is_ok));
    let took = ping().await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(stub.open() >= 300);
}

/// What the tests below do in a process with other variables.
const CHILD: &str = "POLYAXON_TEST_CALLS";

/// Calls the host of the variable; without one, a host of its own.
#[tokio::test]
async fn a_host_is_called_and_answers() {
    let stub = Stub::start(ping_alone).await;
    let host = std::env::var(CHILD).unwrap_or_else(|_| stub.url.clone());
    let client = client_of(&host);
    let ping = Operation::get("ping", "/ping");
    let answer = client.transport().send(ping).await.unwrap();
    assert_eq!(answer.body, "{}");
}

async fn ping_alone(mut connection: Connection) {
    while let Some(head) = connection.request().await {
        // A proxy is asked for a whole URL.
        let of_host = head.starts_with("get /ping ");
        assert!(
            of_host || head.starts_with("get http://sandbox.test/ping "),
            "{head}"
        );
        connection.send(FINE).await;
    }
}

/// Runs the test above with a proxy in the environment.
async fn called_with_proxy(host: &str, proxy: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "connection::a_host_is_called_and_answers"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, proxy);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.env(CHILD, host);
    let mut child = tokio::process::Command::from(command);
    child.output().await.unwrap().status.success()
}

#[tokio::test]
async fn a_host_on_this_machine_is_never_called_through_a_proxy() {
    let (service, proxy) = (Stub::start(ping_alone).await, Stub::start(ping_alone).await);
    assert!(called_with_proxy(&service.url, &proxy.url).await);
    let by_name = service.url.replace("127.0.0.1", "localhost");
    assert!(called_with_proxy(&by_name, &proxy.url).await);
    assert_eq!((service.accepted(), proxy.accepted()), (2, 0));
    // Any other host is.
    assert!(called_with_proxy("http://sandbox.test", &proxy.url).await);
    assert_eq!((service.accepted(), proxy.accepted()), (2, 1));
}

#[tokio::test]
async fn a_login_page_is_no_run() {
    let server = MockServer::start().await;
    let page = ResponseTemplate::new(200).set_body_raw("<html>log in</html>", "text/html");
    Mock::given(any()).respond_with(page).mount(&server).await;
    let error = client_of(&server.uri())
        .runs(&super::project())
        .get(super::run_uuid())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Api(answer) if answer.is_from_gateway()),
        "{error:?}"
    );
}
