//! A sandbox, and a client that reaches it in one way.

use std::path::Path;

use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{LocalServer, Quirk};
use polyaxon_sandbox::{Exec, SandboxClient};
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
    let run = local.sandbox.run_uuid().to_string();
    let place = local.server.folder().join(run).join("workspace/daemon");
    put(Path::new(env!("CARGO_BIN_EXE_daemon")), &place);
    // Its address is printed when it answers.
    let line = "./daemon a-token-of-the-test >address 2>error & \
                until [ -s address ]; do kill -0 $! || { cat error >&2; exit 1; }; done; cat address";
    let start = Exec::shell(line).workdir("/workspace");
    let started = local.sandbox.process().exec(&start).await.unwrap();
    assert!(started.success(), "{}", started.stderr.text_lossy());
    let address = started.stdout.text().unwrap().trim_end().parse().unwrap();
    let token = Token::new("a-token-of-the-test").unwrap();
    Way {
        sandbox: local.sandbox.direct(address, &token).unwrap(),
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

/// The same file in another place, without its bytes where the disk can do that.
fn put(from: &Path, to: &Path) {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).unwrap();
    }
}
