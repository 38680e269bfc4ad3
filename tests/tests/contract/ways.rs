//! A sandbox, and a client that reaches it in one way.

use std::path::Path;

use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{LocalServer, Quirk};
use polyaxon_sandbox::SandboxClient;
use polyaxon_tests::local::LocalSandbox;

use crate::tls::Terminator;

/// A running sandbox. It ends when this is dropped.
pub(crate) struct Way {
    /// The client that is tested.
    pub(crate) sandbox: SandboxClient,
    _terminator: Option<Terminator>,
    _local: LocalSandbox,
}

/// Through the gateway, to a service with quirks.
pub(crate) async fn gateway(quirks: &[Quirk]) -> Way {
    let server = LocalServer::builder().quirks(quirks.iter().copied());
    let local = LocalSandbox::on(server.start().await.unwrap()).await;
    Way {
        sandbox: local.sandbox.clone(),
        _terminator: None,
        _local: local,
    }
}

/// To a daemon that runs as a program inside a pod, at its own address.
pub(crate) async fn daemon() -> Way {
    let local = LocalSandbox::start().await;
    let program = Path::new(env!("CARGO_BIN_EXE_daemon"));
    let address = local.start_daemon(program, "a-token-of-the-test").await;
    let token = Token::new("a-token-of-the-test").unwrap();
    Way {
        sandbox: local
            .sandbox
            .direct(address.parse().unwrap(), &token)
            .unwrap(),
        _terminator: None,
        _local: local,
    }
}

/// Through TLS to the gateway. The client knows the authority by a file.
pub(crate) async fn tls() -> Way {
    let local = LocalSandbox::start().await;
    let terminator = Terminator::start(local.server.address()).await;
    let config = Config::explicit(&terminator.url())
        .unwrap()
        .token(Token::new(local.server.token()).unwrap())
        .ca_file(terminator.ca_file());
    let client = Client::new(&config).unwrap();
    Way {
        sandbox: SandboxClient::connect(&client, &local.project, local.sandbox.run_uuid()),
        _terminator: Some(terminator),
        _local: local,
    }
}
