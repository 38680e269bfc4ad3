//! The column "repeated" of the front page's table: how often each call is sent whose first answer
//! is a gateway's 502, after which nobody knows what was done.

use polyaxon_sandbox::fs::{Mkdir, Write};
use polyaxon_sandbox::process::{ExecId, Logs, Signal};
use polyaxon_sandbox::pty::{Attach, Pty, PtyId};
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
use serde_json::json;
use wiremock::matchers::{any, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{client_of, project, sandbox_of};

/// Answers 502 once, and then a refusal that ends the call.
async fn gateway() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(path_regex("/namespace$"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"namespace": "test-ns"})))
        .with_priority(1)
        .mount(&server)
        .await;
    let page = "<html><title>502 Bad Gateway</title></html>";
    Mock::given(any())
        .respond_with(ResponseTemplate::new(502).set_body_raw(page, "text/html"))
        .up_to_n_times(1)
        .with_priority(2)
        .mount(&server)
        .await;
    let refusal = json!({"error": {"code": "invalid_request", "message": "m"}});
    Mock::given(any())
        .respond_with(ResponseTemplate::new(400).set_body_json(refusal))
        .with_priority(3)
        .mount(&server)
        .await;
    server
}

/// How often the first request of the call was sent.
async fn sent(server: &MockServer) -> usize {
    let requests = server.received_requests().await.unwrap();
    let calls: Vec<(String, String)> = requests
        .iter()
        .filter(|request| !request.url.path().ends_with("/namespace"))
        .map(|request| (request.method.to_string(), request.url.path().to_owned()))
        .collect();
    calls.iter().filter(|call| *call == &calls[0]).count()
}

macro_rules! table {
    ($($name:literal, $times:literal, $call:expr;)+) => {{
        let mut wrong = Vec::new();
        $({
            let server = gateway().await;
            let sandbox = sandbox_of(&server.uri());
            let call: fn(SandboxClient) -> futures::future::BoxFuture<'static, bool> = $call;
            assert!(call(sandbox).await, "{} came to something", $name);
            let times = sent(&server).await;
            if times != $times {
                wrong.push(format!("{}: {times} and not {}", $name, $times));
            }
        })+
        assert!(wrong.is_empty(), "{wrong:#?}");
    }};
}

/// A call that has to fail.
macro_rules! fails {
    (|$sandbox:ident| $call:expr) => {
        |$sandbox| Box::pin(async move { $call.await.is_err() })
    };
}

#[tokio::test]
async fn only_what_is_harmless_twice_is_sent_again_when_nobody_knows_what_was_done() {
    fn command() -> Exec {
        Exec::new(["true"])
    }
    fn id() -> ExecId {
        ExecId::from("e".to_owned())
    }
    fn pty() -> PtyId {
        PtyId::from("p".to_owned())
    }
    table! {
        "ping", 2, fails!(|sandbox| sandbox.ping());
        "stop", 2, fails!(|sandbox| sandbox.stop());
        "exec", 1, fails!(|sandbox| sandbox.process().exec(&command()));
        "exec_stream", 1, fails!(|sandbox| sandbox.process().exec_stream(&command()));
        "exec_bg", 1, fails!(|sandbox| sandbox.process().exec_bg(&command()));
        "list", 2, fails!(|sandbox| sandbox.process().list());
        "status", 2, fails!(|sandbox| sandbox.process().bg(id()).status());
        "logs", 2, fails!(|sandbox| sandbox.process().bg(id()).logs(Logs::new()));
        "signal", 1, fails!(|sandbox| sandbox.process().bg(id()).signal(Signal::Term));
        "delete", 2, fails!(|sandbox| sandbox.process().bg(id()).delete());
        "fs.read", 2, fails!(|sandbox| sandbox.fs().read("/f"));
        "fs.read_range", 2, fails!(|sandbox| sandbox.fs().read_range("/f", 0, 1));
        "fs.write", 2, fails!(|sandbox| sandbox.fs().write("/f", "x"));
        "fs.write, append", 1, fails!(|sandbox| sandbox.fs().write_with("/f", "x", Write::new().append()));
        "fs.stat", 2, fails!(|sandbox| sandbox.fs().stat("/f"));
        "fs.exists", 2, fails!(|sandbox| sandbox.fs().exists("/f"));
        "fs.ls", 2, fails!(|sandbox| sandbox.fs().ls("/d"));
        "fs.mkdir", 1, fails!(|sandbox| sandbox.fs().mkdir("/d"));
        "fs.mkdir, parents", 2, fails!(|sandbox| sandbox.fs().mkdir_with("/d", Mkdir::new().parents()));
        "fs.rm", 1, fails!(|sandbox| sandbox.fs().rm("/f"));
        "fs.rm_all", 2, fails!(|sandbox| sandbox.fs().rm_all("/d"));
        "pty.create", 1, fails!(|sandbox| sandbox.pty().create(&Pty::shell()));
        "pty.list", 2, fails!(|sandbox| sandbox.pty().list());
        "pty.get", 2, fails!(|sandbox| sandbox.pty().get(&pty()));
        "pty.attach", 2, fails!(|sandbox| sandbox.pty().attach(&pty(), Attach::new()));
        "pty.resize", 2, fails!(|sandbox| sandbox.pty().resize(&pty(), 80, 24));
        "pty.signal", 1, fails!(|sandbox| sandbox.pty().signal(&pty(), &Signal::Term));
        "pty.delete", 2, fails!(|sandbox| sandbox.pty().delete(&pty()));
    }
}

#[tokio::test]
async fn a_run_is_created_once() {
    let server = gateway().await;
    let client = client_of(&server.uri());
    SandboxClient::create(&client, &project(), &SandboxSpec::image("i"))
        .await
        .unwrap_err();
    assert_eq!(sent(&server).await, 1);
}
