//! The gateway path, and what is common to all of the daemon's answers.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Plane, Sandbox, code, content, reply};

async fn is_page(request: reqwest::RequestBuilder, want: u16) {
    let response = request.send().await.unwrap();
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        (response.status().as_u16(), &kind[..9]),
        (want, "text/html")
    );
    let page = response.text().await.unwrap();
    assert!(page.contains(&format!("<title>{want} ")), "{page}");
}

fn at(sandbox: &Sandbox<'_>, path: &str) -> reqwest::RequestBuilder {
    sandbox.plane.request(Method::GET, path)
}

#[tokio::test]
async fn what_does_not_name_a_running_sandbox_is_a_page_of_the_gateway() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let uuid = &sandbox.uuid;
    let dashed = uuid::Uuid::parse_str(uuid).unwrap().to_string();
    let unknown = uuid::Uuid::new_v4().simple();
    let table = [
        (format!("polyaxon/local/agent-lab/runs/{uuid}"), 404),
        (format!("polyaxon/local/agent-lab/runs/{uuid}/"), 404),
        (format!("polyaxon/local/agent-lab/jobs/{uuid}/ping"), 404),
        (format!("polyaxon/lo%20cal/agent-lab/runs/{uuid}/ping"), 404),
        (format!("polyaxon/local/agent-lab/runs/{dashed}/ping"), 502),
        (
            format!("polyaxon/local/agent-lab/runs/{}/ping", uuid.to_uppercase()),
            502,
        ),
        (format!("polyaxon/local/agent-lab/runs/{unknown}/ping"), 502),
        (format!("elsewhere/local/agent-lab/runs/{uuid}/ping"), 502),
        (format!("polyaxon/acme/agent-lab/runs/{uuid}/ping"), 403),
        (format!("polyaxon/local/other/runs/{uuid}/ping"), 403),
    ];
    for (path, want) in table {
        is_page(at(&sandbox, &format!("/sandbox/v1/{path}")), want).await;
    }
    is_page(at(&sandbox, "/sandbox/v1"), 404).await;
}

#[tokio::test]
async fn a_caller_without_the_token_gets_a_page_and_nothing_else() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for subpath in ["ping", "exec", "fs/stat?path=/tmp", "no-such-route"] {
        let url = format!("{}{}", plane.server.url(), sandbox.path(subpath));
        is_page(plane.http.get(&url), 401).await;
        is_page(
            plane.http.get(&url).header("Authorization", "Token wrong"),
            403,
        )
        .await;
        // The daemon's own header does not help at the gateway.
        is_page(
            plane
                .http
                .get(&url)
                .header("X-Polyaxon-Sandbox-Token", plane.server.token()),
            401,
        )
        .await;
    }
    for scheme in ["Token", "Bearer", "InternalToken", "x"] {
        let url = format!("{}{}", plane.server.url(), sandbox.path("ping"));
        let value = format!("{scheme} {}", plane.server.token());
        let response = plane
            .http
            .get(&url)
            .header("Authorization", value)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
    }
}

#[tokio::test]
async fn a_run_has_a_daemon_only_while_it_runs() {
    let plane = Plane::start().await;
    let body = json!({"content": content(&json!({})), "pending": "approval"});
    let run = plane.create(&body).await;
    let ping = format!(
        "/sandbox/v1/polyaxon{}/ping",
        run.strip_prefix("/api/v1").unwrap()
    );
    is_page(plane.request(Method::GET, &ping), 502).await;
    plane.post(&format!("{run}/approve"), &json!({})).await;
    plane.until(&run, "running").await;
    assert_eq!(plane.get(&ping).await.0, 200);
    plane.post(&format!("{run}/stop"), &json!({})).await;
    is_page(plane.request(Method::GET, &ping), 502).await;
    plane.until(&run, "stopped").await;
    is_page(plane.request(Method::GET, &ping), 502).await;
}

#[tokio::test]
async fn an_unknown_route_or_method_of_the_daemon_is_404_with_the_envelope() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let table = [
        (Method::GET, "no-such-route"),
        (Method::GET, "exec"),
        (Method::POST, "ping"),
        (Method::PUT, "fs/write?path=/tmp/f"),
        (Method::POST, "fs/rm?path=/tmp/f"),
        (Method::GET, "fs"),
        (Method::PUT, "exec/bg"),
        (Method::GET, "exec/bg/no-such-exec"),
        (Method::GET, "exec/stream"),
        (Method::PUT, "pty"),
        (Method::GET, "pty/no-such-pty"),
    ];
    for (method, subpath) in table {
        let (status, answer) = reply(sandbox.request(method.clone(), subpath)).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (404, "not_found"),
            "{method} {subpath}"
        );
    }
}

#[tokio::test]
async fn every_answer_of_the_daemon_has_an_id_of_its_own_but_ping() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let mut ids = Vec::new();
    for subpath in [
        "fs/stat?path=/tmp",
        "fs/stat?path=/nothing",
        "fs/stat?path=",
        "no-such-route",
    ] {
        let response = sandbox.request(Method::GET, subpath).send().await.unwrap();
        let id = response.headers()["x-request-id"]
            .to_str()
            .unwrap()
            .to_owned();
        ids.push(id.parse::<uuid::Uuid>().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    let response = sandbox.request(Method::GET, "ping").send().await.unwrap();
    assert_eq!(response.headers().get("x-request-id"), None);
}

#[tokio::test]
async fn a_ping_counts_truly_and_is_no_activity_itself() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let first = sandbox.ping().await;
    let mut names: Vec<&String> = first.as_object().unwrap().keys().collect();
    names.sort_unstable();
    let want = [
        "execs_running",
        "last_activity",
        "ptys_attached",
        "ptys_running",
        "status",
        "uptime_ms",
        "version",
    ];
    assert_eq!(names, want);
    assert_eq!(
        (&first["status"], &first["execs_running"]),
        (&json!("ok"), &json!(0))
    );
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        sandbox.ping().await["last_activity"],
        first["last_activity"]
    );
    sandbox.stat("/tmp").await;
    let later = sandbox.ping().await;
    let time = |ping: &Value| {
        ping["last_activity"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert!(time(&later) > time(&first));
    assert!(later["uptime_ms"].as_u64() >= first["uptime_ms"].as_u64());
}

#[tokio::test]
async fn a_connection_header_without_an_upgrade_is_an_ordinary_request() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let body = r#"{"command":["echo","ok"]}"#;
    let requests = [
        format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ),
    ];
    for rest in requests {
        let mut stream = TcpStream::connect(plane.server.address()).await.unwrap();
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {}\r\nConnection: upgrade\r\n{rest}",
            sandbox.path("exec"),
            plane.server.token()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains("\"stdout\":\"ok\\n\"") {
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..read]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn a_connection_is_used_for_more_than_one_call() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let ping = format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {}\r\n\r\n",
        sandbox.path("ping"),
        plane.server.token()
    );
    let mut stream = TcpStream::connect(plane.server.address()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(ping.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).await.unwrap(), 1);
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn a_call_outside_of_the_known_paths_is_404() {
    let plane = Plane::start().await;
    let (status, answer) = plane.get("/streams/v1/x").await;
    assert_eq!(
        (status, answer),
        (StatusCode::NOT_FOUND, json!({"detail": "Not found."}))
    );
}
