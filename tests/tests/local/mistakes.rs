//! Each mistake gives one clear sentence that names the operation and the cause.

use polyaxon_client::{Client, Config, Effect, ProjectRef, Token};
use polyaxon_local::{Limits, LocalServer};
use polyaxon_sandbox::process::{LogStream, Logs};
use polyaxon_sandbox::{Error, Exec, SandboxClient, SandboxSpec};
use polyaxon_tests::local::{LocalSandbox, client_of};

/// An error with its causes, as a program prints it.
fn sentence(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

async fn launch(client: &Client, project: &ProjectRef) -> Error {
    SandboxClient::launch(client, project, &SandboxSpec::image("i"))
        .await
        .unwrap_err()
}

#[tokio::test]
async fn an_unreachable_host_is_named() {
    // Bound, so that nobody else gets the port, and not listened at.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let free = socket.local_addr().unwrap();
    let client = Client::new(&Config::explicit(&format!("http://{free}")).unwrap()).unwrap();
    let error = launch(&client, &"acme/lab".parse().unwrap()).await;
    let text = sentence(&error);
    assert!(
        text.starts_with(&format!("runs.create got no answer from {free}")),
        "{text}"
    );
    assert!(text.contains("onnection refused"), "{text}");
    assert_eq!(error.effect(), Effect::NotApplied);
}

#[tokio::test]
async fn a_host_that_has_no_address_is_named() {
    let client = Client::new(&Config::explicit("http://no-such-host.invalid").unwrap()).unwrap();
    let error = launch(&client, &"acme/lab".parse().unwrap()).await;
    let text = sentence(&error);
    assert!(
        text.starts_with("runs.create got no answer from no-such-host.invalid:80"),
        "{text}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);
}

#[tokio::test]
async fn a_wrong_token_is_said_without_being_shown() {
    let server = LocalServer::start().await.unwrap();
    let config = Config::explicit(server.url())
        .unwrap()
        .token(Token::new("wr0ng-t0ken").unwrap());
    let error = launch(&Client::new(&config).unwrap(), server.project()).await;
    let text = sentence(&error);
    assert!(
        text.starts_with("runs.create was answered with 401 Unauthorized"),
        "{text}"
    );
    assert!(!text.contains("wr0ng-t0ken"), "{text}");
    assert_eq!(error.effect(), Effect::NotApplied);
}

#[tokio::test]
async fn an_unknown_project_is_said() {
    let server = LocalServer::start().await.unwrap();
    let error = launch(&client_of(&server), &"acme/nowhere".parse().unwrap()).await;
    assert_eq!(
        sentence(&error),
        "runs.create was answered with 404 Not Found: No Project matches the given query."
    );
}

#[tokio::test]
async fn a_run_that_is_not_there_is_said() {
    let server = LocalServer::start().await.unwrap();
    let run = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
    let sandbox = SandboxClient::connect(&client_of(&server), server.project(), run);
    let text = sentence(&sandbox.ping().await.unwrap_err());
    assert!(
        text.starts_with("runs.namespace was answered with 404 Not Found"),
        "{text}"
    );
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let local = LocalSandbox::start().await;
    let exec = Exec::new(["python3-that-is-not-here"]);
    let error = local.sandbox.process().exec(&exec).await.unwrap_err();
    let text = sentence(&error);
    assert!(
        text.starts_with("process.exec was answered with 500"),
        "{text}"
    );
    assert!(text.contains("python3-that-is-not-here"), "{text}");
    assert_eq!(error.effect(), Effect::NotApplied);
    // The program is looked up on the service's own path, whatever the command's is.
    let exec = Exec::new(["true"]).env("PATH", "/nowhere");
    assert!(local.sandbox.process().exec(&exec).await.unwrap().success());
}

#[tokio::test]
async fn output_that_was_not_kept_says_how_much_there_is() {
    let mut limits = Limits::default();
    limits.exec_log = 1000;
    let server = LocalServer::builder().limits(limits).start().await.unwrap();
    let local = LocalSandbox::on(server).await;
    let much = Exec::shell("head -c 5000 /dev/zero | tr '\\0' x");
    let exec = local.sandbox.process().exec_bg(&much).await.unwrap();
    exec.wait(std::time::Duration::from_secs(20)).await.unwrap();
    let error = exec.logs(Logs::new().offset(1000)).await.unwrap_err();
    assert!(!error.is_retryable());
    let dropped = error.dropped_output().unwrap();
    assert_eq!(dropped.stream, LogStream::Stdout);
    assert_eq!((dropped.stored_bytes, dropped.written_bytes), (1000, 5000));
    let text = sentence(&error);
    assert!(
        text.contains("stdout is kept up to byte 1000 of 5000 only"),
        "{text}"
    );
    let kept = exec.logs(Logs::new().offset(900)).await.unwrap();
    assert_eq!(kept.data, "x".repeat(100));
    // Another 500 can pass, and is no dropped output.
    let error = local.sandbox.process().exec(&Exec::new(["/nowhere"])).await;
    assert_eq!(error.unwrap_err().dropped_output(), None);
}
