//! Calls that are dropped after 0, 1, 2 … polls, until they once are ready: after each the client is
//! usable and the service as documented. Streams, background execs, transfers and attachments have
//! such tests in their own files.

use std::time::Duration;

use polyaxon_sandbox::fs::{Mkdir, Write};
use polyaxon_sandbox::process::Signal;
use polyaxon_sandbox::pty::{Attach, Pty};
use polyaxon_sandbox::{Find, SandboxClient, SandboxSpec};
use polyaxon_tests::cancel::poll_n;
use polyaxon_tests::local::LocalSandbox;

/// Drops what `call` makes after 0, 1, 2 … polls; what it came to when it was ready.
macro_rules! dropped_anywhere {
    ($sandbox:expr, $call:expr) => {{
        let mut polls = 0;
        loop {
            let done = poll_n($call, polls).await;
            assert_eq!($sandbox.ping().await.unwrap().status, "ok");
            if let Some(result) = done {
                // Once it is not polled at all, and once it waits for the network, at least.
                assert!(polls >= 2, "{polls} polls");
                break result;
            }
            polls += 1;
        }
    }};
}

#[tokio::test]
async fn a_file_call_that_is_dropped_anywhere_leaves_old_or_new() {
    let local = LocalSandbox::start().await;
    let sandbox = &local.sandbox;
    let fs = sandbox.fs();
    dropped_anywhere!(sandbox, fs.write("/tmp/f", "new")).unwrap();
    assert_eq!(fs.read_text("/tmp/f").await.unwrap(), "new");
    assert_eq!(
        &dropped_anywhere!(sandbox, fs.read("/tmp/f")).unwrap()[..],
        b"new"
    );
    assert_eq!(
        dropped_anywhere!(sandbox, fs.stat("/tmp/f")).unwrap().size,
        3
    );
    assert!(dropped_anywhere!(sandbox, fs.exists("/tmp/f")).unwrap());
    dropped_anywhere!(sandbox, fs.ls("/tmp")).unwrap();

    // Each that was dropped may have been carried out: whole, or not at all.
    let append = || fs.write_with("/tmp/f", "+", Write::new().append());
    dropped_anywhere!(sandbox, append()).unwrap();
    let text = fs.read_text("/tmp/f").await.unwrap();
    let added = text.strip_prefix("new").unwrap();
    assert!(
        !added.is_empty() && added.bytes().all(|byte| byte == b'+'),
        "{text}"
    );

    dropped_anywhere!(sandbox, fs.mkdir_with("/tmp/d/e", Mkdir::new().parents())).unwrap();
    dropped_anywhere!(sandbox, fs.rm_all("/tmp/d")).unwrap();
    assert!(!fs.exists("/tmp/d").await.unwrap());

    // A rename that was dropped may have been carried out; then the next finds nothing to rename.
    fs.write("/tmp/old", "it").await.unwrap();
    let renamed = dropped_anywhere!(sandbox, fs.rename("/tmp/old", "/tmp/new"));
    assert_eq!(fs.read_text("/tmp/new").await.unwrap(), "it");
    assert!(!fs.exists("/tmp/old").await.unwrap());
    if let Err(error) = renamed {
        assert_eq!(error.code(), Some("not_found"), "{error}");
    }
}

#[tokio::test]
async fn a_call_on_terminals_that_is_dropped_anywhere_leaves_terminals_that_can_be_found() {
    let local = LocalSandbox::start().await;
    let sandbox = &local.sandbox;
    let ptys = sandbox.pty();
    let shell = || Pty::new(["sh", "-c", "stty -echo; while read a; do echo got-$a; done"]);
    let pty = dropped_anywhere!(sandbox, ptys.open(&shell())).unwrap();
    let kept = pty.pty_id().clone();
    drop(pty);
    // What was made and nobody has is in the list, and nowhere attached once its socket is gone.
    let all = ptys.list().await.unwrap();
    assert!(all.iter().any(|session| session.pty_id == kept));
    for session in all.iter().filter(|session| session.pty_id != kept) {
        dropped_anywhere!(sandbox, ptys.delete(&session.pty_id)).unwrap();
    }
    assert_eq!(ptys.list().await.unwrap().len(), 1);

    dropped_anywhere!(sandbox, ptys.get(&kept)).unwrap();
    dropped_anywhere!(sandbox, ptys.list()).unwrap();
    dropped_anywhere!(sandbox, ptys.resize(&kept, 90, 30)).unwrap();
    assert_eq!(ptys.get(&kept).await.unwrap().cols, 90);

    let mut pty = attached(sandbox, &kept).await;
    // A write that is ready at once has nowhere to be dropped.
    for polls in 0..3 {
        poll_n(pty.write("a\n"), polls).await.transpose().unwrap();
    }
    pty.write("last\n").await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("got-last") {
        let next = tokio::time::timeout(Duration::from_secs(20), pty.read());
        seen.extend_from_slice(&next.await.unwrap().unwrap().unwrap());
    }
    drop(pty);
    dropped_anywhere!(sandbox, ptys.signal(&kept, &Signal::Kill))
        .or_else(|error| match error.code() {
            // One that was dropped has ended it.
            Some("gone") => Ok(()),
            _ => Err(error),
        })
        .unwrap();
}

/// Attaches as soon as the service has noticed that the last one is gone.
async fn attached(
    sandbox: &SandboxClient,
    pty_id: &polyaxon_sandbox::pty::PtyId,
) -> polyaxon_sandbox::pty::AttachedPty {
    let limit = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        match sandbox.pty().attach(pty_id, Attach::new()).await {
            Ok(pty) => return pty,
            Err(error) => assert!(tokio::time::Instant::now() < limit, "{error}"),
        }
    }
}

#[tokio::test]
async fn a_call_on_runs_that_is_dropped_anywhere_leaves_runs_that_can_be_found_and_stopped() {
    let local = LocalSandbox::start().await;
    let sandbox = &local.sandbox;
    let (client, project) = (&local.client, &local.project);
    let spec = || SandboxSpec::image("i").tag("dropped");
    let launched =
        dropped_anywhere!(sandbox, SandboxClient::launch(client, project, &spec())).unwrap();
    dropped_anywhere!(launched, launched.ping()).unwrap();

    let sandboxes = sandbox.sandboxes();
    let find = Find::tagged("dropped");
    let found = dropped_anywhere!(sandbox, sandboxes.list(&find)).unwrap();
    assert!(found.iter().any(|run| run.uuid == launched.run_uuid()));
    // Whatever was dropped, nothing is left over behind this.
    let report = dropped_anywhere!(sandbox, sandboxes.stop(&find)).unwrap();
    assert!(report.failed.is_empty(), "{report:?}");
    // A stop is a request, and a create that was dropped can arrive after it.
    let limit = tokio::time::Instant::now() + Duration::from_secs(20);
    while !sandboxes.list(&find).await.unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < limit, "a run is left");
        assert!(sandboxes.stop(&find).await.unwrap().failed.is_empty());
    }
    assert_eq!(sandbox.ping().await.unwrap().status, "ok");
}
