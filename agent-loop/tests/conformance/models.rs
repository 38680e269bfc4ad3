use std::sync::Arc;
use std::time::Duration;

use agent_loop::conformance::{self, CaseResult};
use agent_loop::model::openai::OpenAi;
use agent_loop::model::{Fallback, Recording};
use agent_loop::{
    Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, ScriptedModel, Usage,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn scripted() -> ScriptedModel {
    ScriptedModel::new(["{}"; 9])
}

#[tokio::test]
async fn our_own_pass() {
    let server = MockServer::start().await;
    let body = r#"{"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    let answer = ResponseTemplate::new(200).set_body_raw(body, "application/json");
    Mock::given(method("POST"))
        .respond_with(answer.set_delay(Duration::from_millis(20)))
        .mount(&server)
        .await;
    let openai = |base: &str| OpenAi::builder(format!("{base}/v1"), "m").build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let recording = Recording::create(scripted(), folder.path().join("c")).unwrap();
    let fallback = Fallback::new(Arc::new(openai("http://127.0.0.1:1"))).then(Arc::new(scripted()));
    let models: [(&dyn Model, usize); 5] = [
        (&scripted(), 5),
        (&openai(&server.uri()), 6),
        // One that nobody answers: told as such, each time.
        (&openai("http://127.0.0.1:1"), 6),
        (&recording, 5),
        (&fallback, 5),
    ];
    for (model, passed) in models {
        let report = conformance::model(model).await;
        assert_eq!(report.failed(), [] as [&str; 0], "{report}");
        assert_eq!(report.passed(), passed, "{}: {report}", model.name());
    }
}

/// Ignores its deadline, and its limit of tokens.
struct Slow(std::sync::atomic::AtomicU32);

impl Model for Slow {
    fn name(&self) -> &str {
        " "
    }

    fn propose<'a>(
        &'a self,
        _request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if calls == 1 {
                std::future::pending::<()>().await;
            }
            Ok(ModelReply::new("x").usage(Usage::new(1, 1000)))
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_ignores_its_deadline_fails() {
    let report = conformance::model(&Slow(0.into())).await;
    assert_eq!(
        report.failed(),
        [
            "has_a_name_that_stays",
            "answers_or_says_why_not",
            "ends_within_its_deadline"
        ]
    );
    let told = report
        .cases()
        .find(|(name, _)| *name == "ends_within_its_deadline");
    let hangs = CaseResult::Failed("no end within 20.05s, with a deadline of 50ms".to_owned());
    assert_eq!(told.unwrap().1, &hangs);
}

#[tokio::test]
async fn a_failure_is_as_good_as_a_reply() {
    let failing = agent_loop::model_fn("f", |_| {
        Err(ModelError::new(
            ModelErrorKind::Transport,
            "a longer detail",
        ))
    });
    let report = conformance::model(&failing).await;
    assert_eq!(report.passed(), 6, "{report}");
}
