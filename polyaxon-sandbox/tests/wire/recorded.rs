use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyaxon_sandbox::fs::{Ls, Mkdir, Write};
use polyaxon_sandbox::process::{LogStream, Logs, Signal};
use polyaxon_sandbox::{Exec, FileMode, SandboxClient, SandboxSpec};
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::matchers::{any, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{RUN, client_of, project, sandbox_of};

const RECORDED: &str = include_str!("../../../tests/golden/sandbox/requests.jsonl");
/// Every printable ASCII symbol, and some characters beyond.
const ODD: &str = "/tmp/é 日本/a b+c%20d#e?f&g=h;i:j@k,l'm\"n\\o~p*q(r)[s]{t}|u^v`w!x$y<z>.txt";

/// What has to be equal. Encoding details are not.
#[derive(Debug, PartialEq)]
struct Sent {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    body: Option<Value>,
    authorization: Option<String>,
}

/// A recording as it was written.
pub(super) fn line(case: &str) -> Value {
    RECORDED
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["case"] == case)
        .unwrap_or_else(|| panic!("no case {case}"))
}

fn recorded(case: &str) -> Sent {
    let line = line(case);
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let query = url::form_urlencoded::parse(text("query").as_bytes())
        .into_owned()
        .collect();
    Sent {
        method: text("method"),
        path: text("path"),
        query,
        body: Some(line["body"].clone())
            .filter(|body| !body.is_null())
            .map(unpack),
        authorization: line["headers"]["authorization"].as_str().map(str::to_owned),
    }
}

/// The run's content is a document as text; its key order means nothing.
fn unpack(mut body: Value) -> Value {
    if let Some(text) = body["content"].as_str() {
        body["content"] = serde_json::from_str(text).unwrap();
    }
    body
}

fn sent(request: &Request) -> Sent {
    let kind = request
        .headers
        .get("content-type")
        .map(|kind| kind.to_str().unwrap());
    let body = match kind {
        Some("application/json") => Some(unpack(serde_json::from_slice(&request.body).unwrap())),
        Some("application/octet-stream") => Some(json!({"base64": STANDARD.encode(&request.body)})),
        _ => None,
    };
    let authorization = request.headers.get("authorization");
    Sent {
        method: request.method.to_string(),
        path: request.url.path().to_owned(),
        query: request.url.query_pairs().into_owned().collect(),
        body,
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
    }
}

/// Answers every call with something that parses.
async fn obliging_server() -> MockServer {
    let server = MockServer::start().await;
    let ok = |body: Value| ResponseTemplate::new(200).set_body_json(body);
    let canned = [
        ("/namespace$", ok(json!({"namespace": "test-ns"}))),
        ("/ping$", ok(json!({"status": "ok"}))),
        (
            "/exec$",
            ok(
                json!({"exec_id": "e", "exit_code": 0, "stdout": "", "stderr": "", "duration_ms": 1, "timed_out": false}),
            ),
        ),
        (
            "/exec/stream$",
            ResponseTemplate::new(200).set_body_raw(
                "event: execution_complete\ndata: {\"exit_code\":0}\n\n",
                "text/event-stream",
            ),
        ),
        (
            "/exec/bg(/exec-1)?$",
            ok(json!({"exec_id": "exec-1", "state": "exited", "exit_code": 0, "execs": []})),
        ),
        (
            "/logs$",
            ok(json!({"next_offset": 0, "data": "", "eof": true, "state": "exited"})),
        ),
        ("/signal$", ResponseTemplate::new(204)),
        ("/fs/read$", ResponseTemplate::new(200)),
        ("/pty$", ok(json!({"pty_id": "p", "sessions": []}))),
        ("/pty/pty-1$", ok(json!({"pty_id": "p"}))),
        ("/pty/pty-1/(resize|signal)$", ResponseTemplate::new(204)),
        (
            "/fs/ls$",
            ok(json!({"path": "/", "entries": [], "truncated": false})),
        ),
        ("/fs/(mkdir|rm)$", ok(json!({"path": "/"}))),
        ("/fs/stat$", ok(json!({"path": "/", "type": "file"}))),
        (
            "/runs$",
            ResponseTemplate::new(201).set_body_json(json!({"uuid": RUN})),
        ),
    ];
    for (at, answer) in canned {
        Mock::given(path_regex(at))
            .respond_with(answer)
            .mount(&server)
            .await;
    }
    Mock::given(path_regex("/fs/write$"))
        .respond_with(|request: &Request| {
            let count = request.body.len();
            ResponseTemplate::new(200)
                .set_body_json(json!({"path": "/", "bytes_written": count, "created": true}))
        })
        .mount(&server)
        .await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(500))
        .with_priority(255)
        .expect(0)
        .mount(&server)
        .await;
    server
}

/// Makes a call and compares the last request with the recorded one.
pub(super) async fn same<F: Future<Output = ()>>(
    case: &str,
    call: impl FnOnce(SandboxClient) -> F,
) {
    let server = obliging_server().await;
    call(sandbox_of(&server.uri())).await;
    let requests = server.received_requests().await.unwrap();
    assert_eq!(sent(requests.last().unwrap()), recorded(case), "{case}");
}

#[tokio::test]
async fn the_namespace_is_looked_up_once() {
    let server = obliging_server().await;
    let sandbox = sandbox_of(&server.uri());
    sandbox.ping().await.unwrap();
    sandbox.clone().ping().await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(sent(&requests[0]), recorded("namespace.first_call#1"));
    assert_eq!(sent(&requests[1]), recorded("ping"));
    assert_eq!(requests.len(), 3);
}

#[tokio::test]
async fn exec_sends_what_the_python_client_sends() {
    let table = [
        ("exec.minimal", Exec::new(["true"])),
        ("exec.tuple_generator", Exec::new(["echo", "hi"])),
        (
            "exec.all",
            Exec::new(["sh", "-c", "cat"])
                .env("A", "1")
                .env("EMPTY", "")
                .env_remove("UNSET")
                .env("U", "é")
                .workdir("/tmp")
                .stdin("héllo")
                .timeout(Duration::from_millis(1500)),
        ),
        (
            "exec.stdin_bytes",
            Exec::new(["cat"]).stdin(&[0x00, 0xff, 0xfe, 0x0a][..]),
        ),
        ("exec.stdin_empty_bytes", Exec::new(["cat"]).stdin("")),
    ];
    for (case, exec) in table {
        same(case, async move |sandbox| {
            drop(sandbox.process().exec(&exec).await.unwrap());
        })
        .await;
    }
}

#[tokio::test]
async fn streams_and_background_execs_send_what_the_python_client_sends() {
    let all = Exec::new(["sh", "-c", "cat"])
        .env("A", "1")
        .env_remove("UNSET")
        .workdir("/tmp")
        .stdin("x")
        .timeout(Duration::from_secs(1));
    for (case, exec) in [
        ("exec_stream.minimal", Exec::new(["true"])),
        ("exec_stream.all", all),
    ] {
        same(case, async move |s| {
            drop(
                s.process()
                    .exec_stream(&exec)
                    .await
                    .unwrap()
                    .collect(9)
                    .await
                    .unwrap(),
            );
        })
        .await;
    }
    let nightly = Exec::new(["sleep", "9"])
        .env_remove("A")
        .workdir("/")
        .stdin("x")
        .timeout(Duration::from_secs(60))
        .tag("nightly");
    for (case, exec) in [
        ("exec_bg.minimal", Exec::new(["true"])),
        ("exec_bg.all", nightly),
        ("exec_bg.tag_empty", Exec::new(["true"]).tag("")),
    ] {
        same(case, async move |s| {
            assert_eq!(
                s.process().exec_bg(&exec).await.unwrap().id().as_str(),
                "exec-1"
            );
        })
        .await;
    }
    same("exec_bg.list", async |s| {
        drop(s.process().list().await.unwrap());
    })
    .await;
    for (case, tag) in [
        ("exec_bg.list_tag", "nightly"),
        ("exec_bg.list_tag_odd", "a b/c+d%e&f=g#é"),
        ("exec_bg.list_tag_empty", ""),
    ] {
        same(case, async move |s| {
            drop(s.process().list_tagged(tag).await.unwrap());
        })
        .await;
    }
    for case in ["exec_bg.get", "exec_bg.handle.wait#2"] {
        same(case, async |s| {
            drop(s.process().bg("exec-1").status().await.unwrap());
        })
        .await;
    }
    same("exec_bg.handle.wait#2", async |s| {
        let limit = Duration::from_secs(1);
        drop(s.process().bg("exec-1").wait(limit).await.unwrap());
    })
    .await;
    let errors = || Logs::new().stream(LogStream::Stderr);
    let output = || Logs::new().stream(LogStream::Stdout);
    for (case, part) in [
        ("exec_bg.logs.default", Logs::new()),
        ("exec_bg.logs.all", errors().offset(5).max_bytes(10)),
        ("exec_bg.logs.zero", Logs::new().offset(0).max_bytes(0)),
        ("exec_bg.handle.stdout#2", output().offset(0)),
        (
            "exec_bg.handle.stderr_range#2",
            errors().offset(3).max_bytes(4),
        ),
        (
            "exec_bg.handle.iter_logs#3",
            output().offset(4).max_bytes(4),
        ),
    ] {
        same(case, async move |s| {
            drop(s.process().bg("exec-1").logs(part).await.unwrap());
        })
        .await;
    }
    for case in ["exec_bg.signal", "exec_bg.handle.kill#2"] {
        same(case, async |s| {
            s.process().bg("exec-1").signal(Signal::Term).await.unwrap();
        })
        .await;
    }
    same("exec_bg.delete", async |s| {
        s.process().bg("exec-1").delete().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn ids_are_one_segment_of_a_path_whatever_is_in_them() {
    let server = obliging_server().await;
    let sandbox = sandbox_of(&server.uri());
    sandbox
        .process()
        .bg("a/../b c?d")
        .status()
        .await
        .unwrap_err();
    let requests = server.received_requests().await.unwrap();
    let path = requests.last().unwrap().url.path().to_owned();
    assert!(path.ends_with("/exec/bg/a%2F..%2Fb%20c%3Fd"), "{path}");
    server.reset().await;
}

#[tokio::test]
async fn reading_sends_what_the_python_client_sends() {
    same("fs.read.range", async |s| {
        drop(s.fs().read_range("/tmp/a", 2, 3).await.unwrap());
    })
    .await;
    same("fs.read_bytes", async |s| {
        drop(s.fs().read_range("/tmp/a", 0, 65536).await.unwrap());
    })
    .await;
    same("fs.ls.default", async |s| {
        drop(s.fs().ls("/tmp").await.unwrap());
    })
    .await;
    same("fs.ls.all", async |s| {
        drop(
            s.fs()
                .ls_with("/tmp", Ls::new().recursive().max_entries(5))
                .await
                .unwrap(),
        );
    })
    .await;
    same("fs.ls.odd_path", async |s| {
        drop(s.fs().ls(ODD).await.unwrap());
    })
    .await;
    same("fs.stat", async |s| {
        drop(s.fs().stat("/tmp/a").await.unwrap());
    })
    .await;
    same("fs.stat.odd_path", async |s| {
        drop(s.fs().stat(ODD).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn writing_sends_what_the_python_client_sends() {
    let mode = |bits| FileMode::new(bits).unwrap();
    let append = Write::new().mode(mode(0o600)).existing_only().append();
    same("fs.write.default", async |s| {
        drop(s.fs().write("/tmp/a", "hello\n").await.unwrap());
    })
    .await;
    same("fs.write.all", async |s| {
        drop(
            s.fs()
                .write_with("/tmp/a", &[0x00, 0xff][..], append)
                .await
                .unwrap(),
        );
    })
    .await;
    same("fs.write.mode_zero", async |s| {
        drop(
            s.fs()
                .write_with("/tmp/a", "x", Write::new().mode(mode(0)))
                .await
                .unwrap(),
        );
    })
    .await;
    same("fs.write.mode_777", async |s| {
        drop(
            s.fs()
                .write_with("/tmp/a", "x", Write::new().mode(mode(0o777)))
                .await
                .unwrap(),
        );
    })
    .await;
    same("fs.write.empty", async |s| {
        drop(s.fs().write("/tmp/a", "").await.unwrap());
    })
    .await;
    same("fs.write.odd_path", async |s| {
        drop(s.fs().write(ODD, "x").await.unwrap());
    })
    .await;
    same("fs.mkdir.default", async |s| {
        s.fs().mkdir("/tmp/d").await.unwrap();
    })
    .await;
    same("fs.mkdir.all", async |s| {
        s.fs()
            .mkdir_with("/tmp/d/é e", Mkdir::new().parents().mode(mode(0o700)))
            .await
            .unwrap();
    })
    .await;
    same("fs.rm.default", async |s| {
        s.fs().rm("/tmp/d").await.unwrap();
    })
    .await;
    same("fs.rm.recursive", async |s| {
        s.fs().rm_all("/tmp/d").await.unwrap();
    })
    .await;
    same("fs.rm.odd_path", async |s| s.fs().rm(ODD).await.unwrap()).await;
}

#[tokio::test]
async fn creating_sends_what_the_python_client_sends() {
    let all = SandboxSpec::image("python:3.11")
        .command_line("sleep 1")
        .env("A", "1")
        .cpu(1)
        .memory("1Gi")
        .gpu(1)
        .port(80);
    let plain = SandboxSpec::from_preset;
    let table = [
        ("create.default", plain()),
        (
            "create.meta",
            plain()
                .name("dbg")
                .description("d")
                .tag("a")
                .tag("b")
                .meta("k", 1),
        ),
        ("create.pending", plain().pending_approval()),
        ("create.image", SandboxSpec::image("python:3.11")),
        (
            "create.resources",
            plain().cpu("500m..1").memory("512Mi..1Gi").gpu(1),
        ),
        ("create.ports", plain().port(8888).port(80)),
        ("create.all_shortcuts", all),
        (
            "create.content_presets",
            SandboxSpec::from_content(json!({
                "kind": "operation", "presets": ["dev"], "queue": "agent/q",
                "component": {"run": {"kind": "service", "container": {"image": "busybox"}}}
            })),
        ),
    ];
    for (case, spec) in table {
        let server = obliging_server().await;
        let spec = spec.without_termination_timeout();
        let pending = SandboxClient::create(&client_of(&server.uri()), &project(), &spec)
            .await
            .unwrap();
        assert_eq!(pending.run_uuid().to_string(), RUN);
        let requests = server.received_requests().await.unwrap();
        assert_eq!(sent(&requests[0]), recorded(case), "{case}");
    }
}

#[tokio::test]
async fn what_the_python_client_refuses_is_refused_before_anything_is_sent() {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(500))
        .expect(0)
        .mount(&server)
        .await;
    let sandbox = sandbox_of(&server.uri());
    let long = format!("/{}", "a".repeat(4096));
    for path in ["tmp/a", "", "/a\0b", long.as_str()] {
        let error = sandbox.fs().stat(path).await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("path: "), "{cause}");
    }
    sandbox
        .process()
        .exec(&Exec::new(Vec::<String>::new()))
        .await
        .unwrap_err();
}

#[tokio::test]
async fn file_reads_ask_for_bytes_that_no_proxy_has_compressed() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path(format!("/api/v1/acme/demo/runs/{RUN}/namespace")))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"namespace": "test-ns"})))
        .mount(&server)
        .await;
    Mock::given(path_regex("/fs/read$"))
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    sandbox_of(&server.uri()).fs().read("/a").await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let header = |name: &str| requests[1].headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("accept-encoding"), "identity");
    assert_eq!(header("accept"), "application/octet-stream");
}
