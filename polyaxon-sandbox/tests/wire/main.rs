//! What the client sends, against what the real Python client was recorded to send for the same
//! call, and what it makes of answers that are not what they should be.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests; a failure is a failed test"
)]

use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use polyaxon_sandbox::SandboxClient;

mod answers;
mod background;
mod launch;
mod pty;
mod raw;
mod recorded;
mod repeated;
mod resolve;
mod streams;

const RUN: &str = "11111111111111111111111111111111";
const SANDBOX: &str = "/sandbox/v1/test-ns/acme/demo/runs/11111111111111111111111111111111";

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

fn sandbox_of(url: &str) -> SandboxClient {
    SandboxClient::connect(&client_of(url), &project(), run_uuid())
}
