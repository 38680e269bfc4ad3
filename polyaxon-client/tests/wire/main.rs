//! What the client sends, and what it makes of the answers. The server is a stub of ours; what it
//! says is written after the documented API.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

mod connection;
mod health;
mod listed;
mod repeat;
mod runs;
mod saved;
mod streams;
mod stub;
mod tracked;
mod uploads;
mod waits;

const RUN: &str = "8aac02e3a62a4f0aaa257c59da5eab80";

fn run_uuid() -> RunUuid {
    RUN.parse().unwrap()
}

fn project() -> ProjectRef {
    "acme/demo".parse().unwrap()
}

fn client_of(url: &str) -> Client {
    let config = Config::explicit(url)
        .unwrap()
        .token(Token::new("test-token").unwrap());
    Client::new(&config).unwrap()
}

/// A server that fails the test where anything else than what is mounted later is asked.
async fn server() -> MockServer {
    let server = MockServer::start().await;
    let stray = ResponseTemplate::new(400).set_body_string("stray request");
    Mock::given(any())
        .respond_with(stray)
        .with_priority(255)
        .expect(0)
        .named("nothing else is sent")
        .mount(&server)
        .await;
    server
}
