//! The program, started for real.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{LIMIT, content, eventually, http, marker, one_process, processes, reply};

pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyaxon-local"));
    command
        .args(arguments)
        .env_remove("POLYAXON_LOCAL_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) async fn ready_line(child: &mut Child) -> Value {
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
    tokio::time::timeout(LIMIT, stdout.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    serde_json::from_str(&line).unwrap()
}

pub(crate) async fn ended(mut child: Child) -> (ExitStatus, String) {
    let mut log = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let end = async {
        stderr.read_to_string(&mut log).await.unwrap();
        child.wait().await.unwrap()
    };
    (tokio::time::timeout(LIMIT, end).await.unwrap(), log)
}

pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    let status = std::process::Command::new("kill")
        .args(["-s", name, &id])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn the_program_says_when_it_serves_and_ends_with_all_it_started() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("foreign"), "x").unwrap();
    for name in ["TERM", "INT", "HUP"] {
        let path = root.path().to_str().unwrap();
        let arguments = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--root",
            path,
            "--project",
            "acme/lab",
        ];
        let mut child = program(&arguments).spawn().unwrap();
        let ready = ready_line(&mut child).await;
        assert_eq!(ready["projects"], json!(["acme/lab"]));
        let url = ready["ready"].as_str().unwrap();
        let file = ready["token_file"].as_str().unwrap();
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let token = std::fs::read_to_string(file).unwrap();
        assert!(!ready.to_string().contains(&token));

        let http = http();
        let post = |path: &str, body: Value| {
            let url = format!("{url}{path}");
            reply(
                http.post(url)
                    .header("Authorization", format!("Token {token}"))
                    .json(&body),
            )
        };
        let (status, run) = post(
            "/api/v1/acme/lab/runs",
            json!({"content": content(&json!({}))}),
        )
        .await;
        assert_eq!(status, 201);
        let uuid = run["uuid"].as_str().unwrap();
        let exec = format!("/sandbox/v1/polyaxon/acme/lab/runs/{uuid}/exec");
        let mark = marker();
        let script = format!("trap '' TERM INT HUP; sleep {mark} & echo up");
        eventually("the command", async || {
            let (status, answer) = post(&exec, json!({"command": ["sh", "-c", script]})).await;
            (status == 200).then(|| assert_eq!(answer["stdout"], "up\n"))
        })
        .await;
        one_process(&mark).await;

        signal(&child, name);
        let (status, log) = ended(child).await;
        assert!(status.success(), "{name}: {status} {log}");
        assert!(log.contains("does not:") && !log.contains(&token), "{log}");
        assert_eq!(processes(&mark), [] as [u32; 0]);
        let names: Vec<_> = std::fs::read_dir(root.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["foreign"]);
    }
}

#[tokio::test]
async fn a_given_token_is_used_and_shown_nowhere() {
    let root = tempfile::tempdir().unwrap();
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--root",
        root.path().to_str().unwrap(),
    ];
    let mut child = program(&arguments)
        .env("POLYAXON_LOCAL_TOKEN", "hide-me")
        .spawn()
        .unwrap();
    let ready = ready_line(&mut child).await;
    assert!(!ready.to_string().contains("hide-me"));
    assert_eq!(ready.get("token_file"), None);
    let url = format!(
        "{}/api/v1/local/agent-lab/runs",
        ready["ready"].as_str().unwrap()
    );
    let request = http().post(&url).header("Authorization", "Bearer hide-me");
    assert_eq!(reply(request.json(&json!({}))).await.0, 400);
    assert_eq!(reply(http().post(&url).json(&json!({}))).await.0, 401);
    signal(&child, "TERM");
    let (status, log) = ended(child).await;
    assert!(status.success() && !log.contains("hide-me"), "{log}");
    let help = program(&["up", "--help"])
        .env("POLYAXON_LOCAL_TOKEN", "hide-me")
        .output()
        .await
        .unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("hide-me"));
}

#[tokio::test]
async fn what_cannot_be_used_is_one_sentence_and_an_exit_status() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let table: [(&[&str], i32, &str); 6] = [
        (
            &["up", "--listen", "127.0.0.1:0", "--root", path],
            1,
            "cannot make a folder for sandboxes in",
        ),
        (
            &["up", "--listen", "192.0.2.1:1"],
            1,
            "cannot listen on 192.0.2.1:1",
        ),
        (
            &["up", "--listen", "127.0.0.1:0", "--token", " x"],
            1,
            "token: ",
        ),
        (&["up", "--listen", "nowhere"], 2, "expected HOST:PORT"),
        (&["up", "--project", "a/b/c/d"], 2, "is not `project`"),
        (&["down"], 2, "down"),
    ];
    for (arguments, code, word) in table {
        let child = program(arguments).spawn().unwrap();
        let (status, log) = ended(child).await;
        assert_eq!(status.code(), Some(code), "{arguments:?} {log}");
        assert!(log.contains(word), "{arguments:?} {log}");
    }
}
