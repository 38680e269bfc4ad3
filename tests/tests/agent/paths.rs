//! Where a model may write.

use std::sync::Arc;

use agent_loop::{Budget, Model, ModelError, ModelReply, ModelRequest};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use polyaxon_sandbox::{Exec, SandboxClient};
use polyaxon_tests::agent::{Case, FIX, Made, check, finish, read, write, write_to};
use polyaxon_tests::local::LocalSandbox;

fn turns(count: u32) -> Case {
    Case {
        budget: Budget::default().turns(count),
        ..Case::default()
    }
}

/// Nothing was done to any file.
fn untouched(made: &Made) {
    assert!(!made.outcome.is_accepted());
    let patch = std::fs::read_to_string(made.folder.path().join("run/patch.diff")).unwrap();
    assert_eq!(patch, "");
    let puts = made.records("intent");
    assert!(
        puts.iter()
            .all(|intent| intent["effect"]["effect"] != "put"),
        "{puts:?}"
    );
}

#[tokio::test]
async fn writing_outside_the_editable_set_is_refused_and_says_what_may_be_written() {
    let local = LocalSandbox::start().await;
    for path in [
        "test_amounts.py",
        "other.py",
        "unittest.py",
        "sub/amounts.py",
    ] {
        let replies = [read(), write_to(path, "x = 1\n")];
        let made = turns(2).drive(&local.sandbox, replies).await;
        untouched(&made);
        let said = made.said(2);
        assert!(
            said.contains(path) && said.contains("amounts.py"),
            "{path}: {said}"
        );
    }
}

#[tokio::test]
async fn a_path_that_leads_out_is_refused_before_anything_is_asked() {
    let local = LocalSandbox::start().await;
    let paths = [
        "/etc/passwd",
        "/tmp/amounts.py",
        "../amounts.py",
        "a/../../amounts.py",
        "./amounts.py",
        "a//b",
        "",
        "..",
        "amounts.py\0.txt",
        "a\\b",
        "~/amounts.py",
    ];
    for path in paths {
        let made = turns(2)
            .drive(&local.sandbox, [read(), write_to(path, "x")])
            .await;
        untouched(&made);
    }
}

/// Replies, and before the second one somebody else has put a link in the place of the file.
struct LinkedMeanwhile {
    sandbox: SandboxClient,
    replies: std::sync::Mutex<std::collections::VecDeque<String>>,
}

impl Model for LinkedMeanwhile {
    fn name(&self) -> &str {
        "linked meanwhile"
    }

    fn propose<'a>(
        &'a self,
        _request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let reply = self.replies.lock().unwrap().pop_front().unwrap();
            if reply.contains("\"write\"") {
                let line = "for f in $(find . -name amounts.py -not -type l); do \
                    rm \"$f\" && ln -s /tmp/victim.py \"$f\"; done; echo kept > victim.py";
                let exec = Exec::shell(line).workdir("/tmp");
                self.sandbox
                    .process()
                    .exec(&exec)
                    .await
                    .unwrap()
                    .ensure_success()
                    .unwrap();
            }
            Ok(ModelReply::new(reply))
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_link_that_points_out_is_not_followed() {
    let local = LocalSandbox::start().await;
    let replies = [read(), write(FIX), check(), finish()];
    let model = LinkedMeanwhile {
        sandbox: local.sandbox.clone(),
        replies: std::sync::Mutex::new(replies.into()),
    };
    let made = turns(4).drive_model(&local.sandbox, Arc::new(model)).await;
    assert!(!made.outcome.is_accepted(), "{}", made.outcome.end);
    let victim = local
        .sandbox
        .fs()
        .read_text("/tmp/victim.py")
        .await
        .unwrap();
    assert_eq!(victim, "kept\n");
}
