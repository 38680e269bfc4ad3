//! `serve` and `doctor`: the program started for real.

use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::binary::{ended, program, ready_line, signal};
use crate::harness::{code, eventually, http, marker, processes, reply};

const TOKEN: &str = "hide-this-token";

/// The daemon as the program of this package serves it.
struct Daemon {
    child: Child,
    url: String,
    ready: Value,
    http: reqwest::Client,
}

fn serve(arguments: &[&str]) -> Command {
    let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
    let mut command = program(&arguments);
    for (name, _) in std::env::vars() {
        if name.starts_with("POLYAXON_") {
            command.env_remove(name);
        }
    }
    // One of its own for each, which goes with the build.
    let state = format!("{}/state-{}", env!("CARGO_TARGET_TMPDIR"), marker());
    command.env("POLYAXON_SANDBOX_STATE_DIR", state);
    command
}

async fn started(command: &mut Command) -> Daemon {
    let mut child = command.spawn().unwrap();
    let ready = ready_line(&mut child).await;
    Daemon {
        child,
        url: ready["ready"].as_str().unwrap().to_owned(),
        ready,
        http: http(),
    }
}

impl Daemon {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}/{path}", self.url))
            .header("X-Polyaxon-Sandbox-Token", TOKEN)
    }

    async fn sh(&self, script: &str) -> Value {
        let body = json!({"command": ["sh", "-c", script]});
        let (status, answer) = reply(self.request(Method::POST, "exec").json(&body)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[tokio::test]
async fn the_daemon_sees_the_files_and_the_environment_that_it_runs_in() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    let text = path.to_str().unwrap();
    let mut command = serve(&["--root", text]);
    let daemon = started(
        command
            .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
            .env("OF_THE_CONTAINER", "yes"),
    )
    .await;
    assert_eq!(daemon.ready["root"], text);
    let answer = daemon
        .sh("pwd; echo \"$OF_THE_CONTAINER\"; echo \"${POLYAXON_SANDBOX_TOKEN-none}\"; echo x > made")
        .await;
    assert_eq!(answer["stdout"], format!("{text}\nyes\nnone\n"));
    // A command and the file API call a file by the same path, and links lead where they lead.
    let file = outside.path().join("f");
    std::os::unix::fs::symlink(outside.path(), path.join("link")).unwrap();
    let through = path.join("link/f");
    let through = through.to_str().unwrap();
    let write = daemon
        .request(Method::POST, "fs/write")
        .query(&[("path", through)]);
    assert_eq!(reply(write.body("hello")).await.0, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello");
    let read = daemon
        .request(Method::GET, "fs/read")
        .query(&[("path", through)]);
    let response = read.send().await.unwrap();
    assert_eq!(response.headers()["x-polyaxon-eof"], "true");
    assert_eq!(response.text().await.unwrap(), "hello");
    let answer = daemon.sh(&format!("cat {through}")).await;
    assert_eq!(answer["stdout"], "hello");
    let stat = daemon
        .request(Method::GET, "fs/stat")
        .query(&[("path", format!("{text}/link"))]);
    let (_, stat) = reply(stat).await;
    assert_eq!(
        (&stat["type"], &stat["symlink_target"]),
        (&json!("symlink"), &json!(outside.path()))
    );
    let ls = daemon
        .request(Method::GET, "fs/ls")
        .query(&[("path", format!("{text}/link"))]);
    let (_, listing) = reply(ls).await;
    assert_eq!(listing["entries"][0]["name"], "f");
    let mkdir = json!({"path": format!("{text}/link/a/b"), "parents": true, "mode": "0700"});
    let (status, _) = reply(daemon.request(Method::POST, "fs/mkdir").json(&mkdir)).await;
    assert!(status == 200 && outside.path().join("a/b").is_dir());
    for (path, want) in [("/link/a", 200), ("/link", 200), ("/link", 404)] {
        let query = [
            ("path", format!("{text}{path}")),
            ("recursive", (path == "/link/a").to_string()),
        ];
        let rm = daemon.request(Method::DELETE, "fs/rm").query(&query);
        assert_eq!(reply(rm).await.0, want, "{path}");
    }
    assert!(file.exists());
    let rm = daemon
        .request(Method::DELETE, "fs/rm")
        .query(&[("path", "/"), ("recursive", "true")]);
    assert_eq!(reply(rm).await.0, 403);
}

#[tokio::test]
async fn only_a_ping_is_answered_without_the_token() {
    let mut command = serve(&[]);
    let daemon = started(command.env("POLYAXON_SANDBOX_TOKEN", TOKEN)).await;
    let (status, ping) = reply(daemon.http.get(format!("{}/ping", daemon.url))).await;
    assert_eq!((status.as_u16(), &ping["status"]), (200, &json!("ok")));
    for request in [
        daemon.http.get(format!("{}/fs/stat?path=/tmp", daemon.url)),
        daemon.http.get(format!("{}/nothing", daemon.url)),
        // What the gateway takes is nothing to the daemon.
        daemon
            .http
            .get(format!("{}/fs/stat?path=/tmp", daemon.url))
            .header("Authorization", format!("Token {TOKEN}")),
        daemon
            .http
            .get(format!("{}/fs/stat?path=/tmp", daemon.url))
            .header("X-Polyaxon-Sandbox-Token", "hide-this-tokem"),
    ] {
        let (status, answer) = reply(request).await;
        assert_eq!((status.as_u16(), code(&answer)), (401, "unauthorized"));
    }
    assert_eq!(reply(daemon.request(Method::GET, "nothing")).await.0, 404);
}

#[tokio::test]
async fn a_client_of_the_platform_reaches_the_daemon_by_the_path_of_any_run() {
    let mut command = serve(&[]);
    let daemon = started(command.env("POLYAXON_SANDBOX_TOKEN", TOKEN)).await;
    let run = "sandbox/v1/polyaxon/local/agent-lab/runs/8aac02e3a62a4f0aaa257c59da5eab80";
    let get = |path: &str, token: Option<&str>| {
        let mut request = daemon.http.get(format!("{}/{path}", daemon.url));
        if let Some(token) = token {
            request = request.header("Authorization", format!("Token {token}"));
        }
        reply(request)
    };
    let stat = format!("{run}/fs/stat?path=/tmp");
    assert_eq!(get(&stat, Some(TOKEN)).await.1["path"], "/tmp");
    assert_eq!(get(&format!("{run}/ping"), Some(TOKEN)).await.0, 200);
    // Refusals are pages of a gateway.
    for (path, token, want) in [
        (stat.as_str(), None, 401),
        (stat.as_str(), Some("wrong"), 403),
        (run, Some(TOKEN), 404),
    ] {
        let (status, page) = get(path, token).await;
        assert_eq!(status, want, "{path}");
        assert!(page.as_str().unwrap().starts_with("<html>"), "{page}");
    }
}

#[tokio::test]
async fn a_token_comes_from_its_file_and_without_one_nothing_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let path = file.to_str().unwrap();
    let missing = serve(&["--token-file", path]).spawn().unwrap();
    let (status, log) = ended(missing).await;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("there is no token") && log.contains("does not exist"),
        "{log}"
    );
    std::fs::write(&file, " \n").unwrap();
    let (status, log) = ended(serve(&["--token-file", path]).spawn().unwrap()).await;
    assert!(
        status.code() == Some(1) && log.contains("is empty"),
        "{log}"
    );
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let mut command = serve(&[]);
    let daemon = started(command.env("POLYAXON_SANDBOX_TOKEN_FILE", path)).await;
    assert_eq!(daemon.sh("echo ok").await["stdout"], "ok\n");
    // The variable wins over the file.
    let mut command = serve(&["--token-file", path]);
    let daemon = started(command.env("POLYAXON_SANDBOX_TOKEN", "another")).await;
    assert_eq!(
        reply(daemon.request(Method::GET, "fs/stat?path=/tmp"))
            .await
            .0,
        401
    );
}

#[tokio::test]
async fn a_signal_ends_the_daemon_with_its_commands_and_says_nothing_secret() {
    for name in ["TERM", "INT"] {
        let mut command = serve(&["--log-format", "json"]);
        let daemon = started(
            command
                .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
                .env("POLYAXON_SANDBOX_SHUTDOWN_TIMEOUT", "600s")
                .env("RUST_LOG", "debug"),
        )
        .await;
        let mark = marker();
        let body = json!({"command": ["sh", "-c", format!("trap '' TERM INT; sleep {mark} & sleep {mark}")]});
        let call = tokio::spawn(daemon.request(Method::POST, "exec").json(&body).send());
        eventually("the command", async || {
            (processes(&mark).len() > 2).then_some(())
        })
        .await;
        let begun = Instant::now();
        signal(&daemon.child, name);
        let (status, log) = ended(daemon.child).await;
        assert!(status.success(), "{name}: {status} {log}");
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(processes(&mark), [] as [u32; 0]);
        let _broken_or_refused = call.await.unwrap();
        assert!(!log.contains(TOKEN), "{log}");
        let lines: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let said = |message: &str| lines.iter().any(|line| line["message"] == message);
        assert!(said("stopping"), "{log}");
    }
}

#[tokio::test]
async fn faults_come_from_a_file_and_a_wrong_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.json");
    let path = file.to_str().unwrap();
    std::fs::write(
        &file,
        r#"{"faults": [{"fault": {"too_many_requests": 2}, "times": 1}]}"#,
    )
    .unwrap();
    let mut command = serve(&["--faults", path]);
    let daemon = started(command.env("POLYAXON_SANDBOX_TOKEN", TOKEN)).await;
    let stat = || daemon.request(Method::GET, "fs/stat?path=/tmp");
    assert_eq!(reply(stat()).await.0, 429);
    assert_eq!(reply(stat()).await.0, 200);
    let table = [
        (r#"{"faults": [{"fault": "crlf", "paht": "x"}]}"#, "paht"),
        (r#"{"faults": [{"fault": "crfl"}]}"#, "crfl"),
        ("", "EOF"),
    ];
    for (text, word) in table {
        std::fs::write(&file, text).unwrap();
        let mut command = serve(&["--faults", path]);
        let (status, log) = ended(
            command
                .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
                .spawn()
                .unwrap(),
        )
        .await;
        assert!(status.code() == Some(1) && log.contains(word), "{log}");
    }
}

#[tokio::test]
async fn flags_and_variables_that_cannot_be_meant_are_refused() {
    type Variables = &'static [(&'static str, &'static str)];
    let table: [(&[&str], Variables, &str); 5] = [
        (&["--shutdown-timeout", "10"], &[], "expected a time"),
        (
            &[],
            &[("POLYAXON_SANDBOX_SHUTDOWN_TIMEOUT", "-1s")],
            "below 0",
        ),
        (&["--max-execs", "many"], &[], "--max-execs"),
        (
            &[],
            &[("POLYAXON_SANDBOX_LOG_FORMAT", "xml")],
            "--log-format",
        ),
        (&["--listen", "nowhere"], &[], "expected HOST:PORT"),
    ];
    for (arguments, variables, word) in table {
        let arguments = [&["serve"], arguments].concat();
        let mut command = program(&arguments);
        command
            .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
            .envs(variables.iter().copied());
        let (status, log) = ended(command.spawn().unwrap()).await;
        assert_eq!(status.code(), Some(2), "{arguments:?} {log}");
        assert!(log.contains(word), "{log}");
    }
}

#[tokio::test]
async fn the_doctor_reports_every_layer_and_ends_well() {
    let output = program(&["doctor", "--json"]).output().await.unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        report["platform"]
            .as_str()
            .unwrap()
            .starts_with(std::env::consts::OS)
    );
    let layers = report["isolation"]["layers"].as_array().unwrap();
    let numbers: Vec<u64> = layers
        .iter()
        .map(|layer| layer["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    for layer in layers {
        let state = layer["state"].as_str().unwrap();
        assert!(
            ["applied", "partial", "unavailable"].contains(&state),
            "{layer}"
        );
        assert!(!layer["protects"].as_str().unwrap().is_empty(), "{layer}");
    }
    let text = program(&["doctor"])
        .stderr(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    for layer in layers {
        assert!(text.contains(layer["name"].as_str().unwrap()), "{text}");
    }
    assert!(text.contains("no boundary against hostile code"), "{text}");
}

#[tokio::test]
async fn terminals_have_the_limits_that_the_platform_sets_and_end_with_the_daemon() {
    let mut command = serve(&[]);
    command
        .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
        .env("POLYAXON_SANDBOX_MAX_PTYS", "1");
    let daemon = started(&mut command).await;
    let mark = marker();
    let script = format!("set -m; trap '' TERM HUP; sleep {mark} & sleep {mark}; :");
    let body = json!({"command": ["sh", "-c", script]});
    let create = || reply(daemon.request(Method::POST, "pty").json(&body));
    let (status, created) = create().await;
    assert_eq!(status, 201, "{created}");
    let (status, answer) = create().await;
    assert_eq!((status.as_u16(), code(&answer)), (429, "rate_limited"));
    eventually("the jobs", async || {
        (processes(&mark).len() > 2).then_some(())
    })
    .await;
    signal(&daemon.child, "TERM");
    let (status, log) = ended(daemon.child).await;
    assert!(status.success(), "{status} {log}");
    assert_eq!(processes(&mark), [] as [u32; 0]);

    let mut command = serve(&[]);
    command
        .env("POLYAXON_SANDBOX_TOKEN", TOKEN)
        .env("POLYAXON_SANDBOX_PTY_IDLE_TTL", "soon");
    let (status, log) = ended(command.spawn().unwrap()).await;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("POLYAXON_SANDBOX_PTY_IDLE_TTL"), "{log}");
}
