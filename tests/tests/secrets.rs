//! No secret is shown: not by `{:?}` of any public value, not by any error, not in the logs of a
//! whole run, and not in its evidence.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_loop::model::openai::OpenAi;
use agent_loop::workspace::SandboxWorkspace;
use agent_loop::{Attempt, Model, Paths, RunDir, Task, UnittestAcceptance};
use polyaxon_client::runs::{CreateRun, RunStatus, Wait};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
use polyaxon_tests::agent::{FIX, SOURCE, TESTS, check, finish, read, write};
use polyaxon_tracking::{TrackedRun, Tracking};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const TOKEN: &str = "t0ken-of-the-platform";
const KEY: &str = "k3y-of-the-model";

/// Collects what is logged.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn hides(what: &str, text: &str) {
    for secret in [TOKEN, KEY] {
        assert!(!text.contains(secret), "{what} shows a secret:\n{text}");
    }
}

fn shown(value: &dyn Debug) {
    let text = format!("{value:?}\n{value:#?}");
    hides(
        text.split(['(', '{', ' ']).next().unwrap_or_default(),
        &text,
    );
}

/// An error with all its causes, in both forms.
fn shown_error(error: &(dyn std::error::Error + 'static)) {
    let mut text = format!("{error}\n{error:?}\n{error:#?}");
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}\n{cause}\n{cause:?}");
        next = cause.source();
    }
    hides("an error", &text);
}

async fn model_server(replies: &[String]) -> MockServer {
    let server = MockServer::start().await;
    for reply in replies {
        let body = json!({"choices": [{"finish_reason": "stop", "message": {"content": reply}}]});
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .and(header("authorization", format!("Bearer {KEY}").as_str()))
            .respond_with(ResponseTemplate::new(200).set_body_json(body))
            .up_to_n_times(1)
            .expect(1)
            .mount(&server)
            .await;
    }
    server
}

#[tokio::test]
async fn nothing_that_is_printed_logged_or_kept_holds_a_token() {
    let logs = Logs::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(logs.clone())
        .with_max_level(tracing::Level::TRACE)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let evidence = tempfile::tempdir().unwrap();

    let server = LocalServer::builder().token(TOKEN).start().await.unwrap();
    let token = Token::new(TOKEN).unwrap();
    let config = Config::explicit(server.url()).unwrap().token(token.clone());
    let client = Client::new(&config).unwrap();
    let runs = client.runs(server.project());
    let spec = SandboxSpec::image("python:3.12-slim");
    let pending = SandboxClient::create(&client, server.project(), &spec)
        .await
        .unwrap();
    let wait = Wait::up_to(Duration::from_secs(20));
    for value in [
        &token as &dyn Debug,
        &config,
        &client,
        client.transport(),
        &runs,
        &spec,
        &pending,
        &wait,
    ] {
        shown(value);
    }
    shown(&LocalServer::builder().token(TOKEN));
    shown(&server);
    let sandbox = pending.ready(wait).await.unwrap();
    shown(&sandbox);
    shown(&sandbox.process());
    shown(&sandbox.fs());

    // A whole attempt, with a model behind HTTP.
    let replies = [read(), write(FIX), check(), finish()];
    let model_at = model_server(&replies).await;
    let builder = OpenAi::builder(format!("{}/v1", model_at.uri()), "m").bearer(KEY);
    shown(&builder);
    let model = builder.build().unwrap();
    shown(&model);
    hides("the model's settings", &model.settings().to_string());
    let task = Task::new("total", "Return the sum.")
        .file("amounts.py", SOURCE)
        .unwrap()
        .file("test_amounts.py", TESTS)
        .unwrap();
    let workspace = SandboxWorkspace::new(sandbox.clone(), "total").unwrap();
    shown(&workspace);
    let outcome = Attempt::new(
        task,
        model,
        workspace,
        UnittestAcceptance::new("test_amounts.py", TESTS, 2).unwrap(),
        Paths::editable(["amounts.py"]).unwrap(),
    )
    .allow_checks(true)
    .record_in(RunDir::create(evidence.path().join("run")).unwrap())
    .drive()
    .await
    .unwrap();
    assert!(outcome.is_accepted(), "{}", outcome.end);
    shown(&outcome);

    let run = TrackedRun::start(Tracking::offline(evidence.path()))
        .await
        .unwrap();
    shown(&run);
    shown(&run.end().await.unwrap());

    // The errors that a token is near to.
    let wrong = Config::explicit(server.url())
        .unwrap()
        .token(Token::new(KEY).unwrap());
    let refused = Client::new(&wrong).unwrap().runs(server.project());
    shown_error(&refused.create(&CreateRun::unmanaged()).await.unwrap_err());
    let missing = Exec::new(["no-such-program"]).env("SECRET", "x");
    shown_error(&sandbox.process().exec(&missing).await.unwrap_err());
    shown_error(&sandbox.fs().read("/no/such/file").await.unwrap_err());
    shown_error(&sandbox.fs().read("relative").await.unwrap_err());
    let failed = sandbox
        .process()
        .exec(&Exec::shell("exit 3"))
        .await
        .unwrap();
    shown(&failed);
    shown_error(&failed.ensure_success().unwrap_err());
    let nowhere = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
    shown_error(&runs.get(nowhere).await.unwrap_err());
    sandbox
        .stop_and_wait(Duration::from_secs(20))
        .await
        .unwrap();
    shown_error(&sandbox.ping().await.unwrap_err());
    let ended = runs
        .wait_for(sandbox.run_uuid(), &RunStatus::Running, Duration::ZERO)
        .await;
    shown_error(&ended.unwrap_err());
    server.stop().await.unwrap();
    shown_error(&sandbox.ping().await.unwrap_err());
    shown_error(&Config::explicit(&format!("http://user:{TOKEN}@host")).unwrap_err());
    shown_error(&Token::new(format!("{TOKEN}\0")).unwrap_err());
    let bad = OpenAi::builder("not a url", "m")
        .bearer(KEY)
        .build()
        .unwrap_err();
    shown_error(&bad);
    let bad = OpenAi::builder("http://h/v1", "m")
        .bearer(format!("{KEY}\n"))
        .build();
    if let Err(error) = bad {
        shown_error(&error);
    }

    let text = logs.text();
    assert!(
        text.contains("process.exec"),
        "nothing of the run was logged"
    );
    hides("the log", &text);
    let mut folders = vec![evidence.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                let bytes = std::fs::read(&path).unwrap();
                hides(
                    &path.display().to_string(),
                    &String::from_utf8_lossy(&bytes),
                );
            }
        }
    }
    assert!(files >= 4, "only {files} files of evidence");
}
