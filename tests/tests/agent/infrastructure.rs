//! When not the model fails but what it works with.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent_loop::{AcceptanceState, Model, ModelError, ModelReply, ModelRequest};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use polyaxon_local::LocalServer;
use polyaxon_tests::agent::{Case, check, read, write};
use polyaxon_tests::local::LocalSandbox;

/// A check that takes long, and says that it has begun by making a file.
const SLOW: &str = "import time\n\n\ndef total(xs):\n    open('../begun', 'w').close()\n    time.sleep(600)\n    return sum(xs)\n";

#[tokio::test]
async fn the_service_dies_in_the_middle_of_a_check() {
    let LocalSandbox {
        sandbox, server, ..
    } = LocalSandbox::start().await;
    let folder = server.folder().to_owned();
    let killer = tokio::spawn(async move {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !contains(&folder, "begun") {
            assert!(Instant::now() < deadline, "the check never began");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop::<LocalServer>(server);
    });
    let replies = [read(), write(SLOW), check()];
    let made = Case::default().drive(&sandbox, replies).await;
    killer.await.unwrap();
    assert_eq!(made.outcome.acceptance.state, AcceptanceState::NotEvaluated);
    assert_eq!(made.outcome.exit_code(), 3, "{}", made.outcome.end);
    assert!(
        made.outcome.checks.is_empty(),
        "a verdict without an answer"
    );
    // The evidence is whole: what was being done is in the journal, and the outcome says so.
    let json = made.outcome_json();
    assert!(
        matches!(
            json["end"]["end"].as_str(),
            Some("uncertain" | "workspace_failed")
        ),
        "{json}"
    );
    let intents = made.records("intent");
    assert_eq!(intents.last().unwrap()["effect"]["effect"], "stage");
    assert_eq!(made.records("ended").len(), 1);
    let patch = std::fs::read_to_string(made.folder.path().join("run/patch.diff")).unwrap();
    assert!(patch.contains("+    time.sleep(600)"), "{patch}");
}

fn contains(folder: &std::path::Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        entry.file_name() == name
            || entry.file_type().is_ok_and(|kind| kind.is_dir()) && contains(&entry.path(), name)
    })
}

/// Stops the service before its second reply.
struct StopsTheService {
    server: Mutex<Option<LocalServer>>,
}

impl Model for StopsTheService {
    fn name(&self) -> &str {
        "stops the service"
    }

    fn propose<'a>(
        &'a self,
        _request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let server = self.server.lock().unwrap().take();
            if let Some(server) = server {
                server.stop().await.unwrap();
            }
            Ok(ModelReply::new(read()))
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_sandbox_that_is_gone_ends_the_attempt_and_the_model_is_not_asked_again() {
    let LocalSandbox {
        sandbox, server, ..
    } = LocalSandbox::start().await;
    let model = StopsTheService {
        server: Mutex::new(Some(server)),
    };
    let made = Case::default().drive_model(&sandbox, Arc::new(model)).await;
    assert_eq!(made.outcome.exit_code(), 3, "{}", made.outcome.end);
    assert_eq!(made.outcome.acceptance.state, AcceptanceState::NotEvaluated);
    assert_eq!(made.outcome.calls, 1);
}
