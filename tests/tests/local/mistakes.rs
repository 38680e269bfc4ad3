//! Each mistake gives one clear sentence that names the operation and the cause.

use polyaxon_client::{Client, Config, Effect, ProjectRef, Token};
use polyaxon_local::LocalServer;
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
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
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
