use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use polyaxon_client::Effect;
use polyaxon_local::{Fault, FaultRule, Limits, LocalServer};
use polyaxon_sandbox::pty::{Attach, Pty, PtyOutput};
use polyaxon_sandbox::{Error, Evidence, Resolution};
use polyaxon_tests::local::LocalSandbox;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

async fn with(set: impl FnOnce(&mut Limits)) -> LocalSandbox {
    let mut limits = Limits::default();
    set(&mut limits);
    let server = LocalServer::builder().limits(limits).start().await.unwrap();
    LocalSandbox::on(server).await
}

/// A consumer that stays far behind is given up by the service, knows it, and goes on.
#[tokio::test]
async fn a_consumer_that_does_not_read_is_detached_and_can_attach_again() {
    let local = with(|limits| {
        limits.pty.frames_behind = 4;
        limits.pty.behind_for = Duration::from_secs(3);
    })
    .await;
    let ptys = local.sandbox.pty();
    let line = "stty raw -echo; yes x | head -c 100000000; echo done; read a; exit 3";
    let mut pty = ptys.open(&Pty::new(["sh", "-c", line])).await.unwrap();
    let given_up = async {
        while ptys.get(pty.pty_id()).await.unwrap().attached {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, given_up).await.unwrap();

    let mut seen = 0;
    let error = loop {
        match timeout(LIMIT, pty.read()).await.unwrap() {
            Ok(bytes) => seen += bytes.unwrap().len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Detached { .. }), "{error:?}");
    // What was kept is whole, and bounded.
    assert!(seen >= 1 << 20, "{seen}");
    assert!(seen < 100_000_000, "{seen}");
    assert_eq!(pty.ask().await.unwrap().exit(), None);

    pty.reattach(1024).await.unwrap();
    let mut last = Vec::new();
    while !last.ends_with(b"done\n") {
        match timeout(LIMIT, pty.read()).await.unwrap() {
            Ok(bytes) => last.extend_from_slice(&bytes.unwrap()),
            // Slower than the program again: the limits of this test are narrow.
            Err(_) => pty.reattach(1024).await.unwrap(),
        }
        let old = last.len().saturating_sub(64);
        last.drain(..old);
    }
    pty.write("\n").await.unwrap();
    let exit = timeout(LIMIT, pty.wait()).await.unwrap().unwrap();
    assert_eq!(exit.code(), Some(3));
}

/// Heartbeats alone keep a handle that nobody touches.
#[tokio::test]
async fn an_idle_attachment_outlives_the_patience_of_the_service() {
    let patience = Duration::from_secs(4);
    let local = with(|limits| {
        limits.pty.heartbeat_interval = patience / 20;
        limits.pty.pong_timeout = patience;
    })
    .await;
    let line = "read a; echo got-$a; read a";
    let mut pty = local
        .sandbox
        .pty()
        .open(&Pty::new(["sh", "-c", line]))
        .await
        .unwrap();
    // Nothing comes for longer than that.
    let nothing = timeout(patience * 3 / 2, pty.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    pty.write("it\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"got-it\r\n") {
        let bytes = timeout(LIMIT, pty.read()).await.unwrap().unwrap();
        seen.extend_from_slice(&bytes.unwrap());
    }
}

/// `open` does not depend on how much a deployment keeps.
#[tokio::test]
async fn a_service_that_keeps_little_is_asked_for_little() {
    let local = with(|limits| limits.pty.replay_bytes = 5000).await;
    let ptys = local.sandbox.pty();
    let mut pty = ptys
        .open(&Pty::new(["sh", "-c", "echo early; read a"]))
        .await
        .unwrap();
    let first = timeout(LIMIT, pty.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(first, PtyOutput::Bytes("early\r\n".into()));
    pty.detach().await;
    // The limit is told to who asks for more by name.
    let sessions = ptys.list().await.unwrap();
    let more = Attach::new().replay_bytes(5001);
    let error = ptys.attach(&sessions[0].pty_id, more).await.unwrap_err();
    assert_eq!(error.code(), Some("invalid_request"));
}

/// A terminal whose creation was not answered is found by its tag; one whose end was not answered
/// is gone.
#[tokio::test]
async fn a_terminal_is_not_lost_with_an_answer() {
    let local = LocalSandbox::start().await;
    let ptys = local.sandbox.pty();
    let lost = |method: Method, path: &str| {
        let rule = FaultRule::new(Fault::Close).method(method).path(path);
        local.server.faults().add(rule.times(1).carried_out());
    };
    lost(Method::POST, "*/pty");
    let tagged = Pty::new(["sleep", "600"]).tag("shell-1");
    let error = ptys.create(&tagged).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let found = local.sandbox.resolve(&error).await.unwrap();
    let Resolution::Applied {
        evidence: Evidence::Pty(session),
        ..
    } = found
    else {
        panic!("{found:?}");
    };
    assert_eq!(session.tag.as_deref(), Some("shell-1"));

    lost(Method::DELETE, "*/pty/*");
    timeout(LIMIT, ptys.delete(&session.pty_id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ptys.list().await.unwrap(), []);
    assert_eq!(local.server.faults().applied(), 2);

    // Without a name there is nothing to look for.
    lost(Method::POST, "*/pty");
    let error = ptys.create(&Pty::new(["sleep", "600"])).await.unwrap_err();
    assert_eq!((error.effect(), error.lookup()), (Effect::Unknown, None));
}
