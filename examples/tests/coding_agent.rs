//! The example `coding_agent` on a task of one's own, with a server that stands for a model.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

const SOURCE: &str = "def double(x):\n    return x + x + x\n";
const FIX: &str = "def double(x):\n    return 2 * x\n";
const TESTS: &str = "import unittest\n\nfrom pkg.twice import double\n\n\n\
    class T(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(double(2), 4)\n\n\
    \x20   def test_zero(self):\n        self.assertEqual(double(0), 0)\n";

/// The program, which `cargo test` builds beside this one.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/coding_agent");
    assert!(
        built.is_file(),
        "{built:?} is not built: cargo build -p examples --example coding_agent"
    );
    built
}

const CRATE: &str = "[package]\nname = \"twice\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
const RUST_SOURCE: &str = "pub fn double(x: i32) -> i32 {\n    x + x + x\n}\n\n\
    #[cfg(test)]\nmod tests {\n    #[test]\n    fn two() {\n        assert_eq!(super::double(2), 4);\n    }\n\n\
    \x20   #[test]\n    #[ignore = \"slow\"]\n    fn slow() {}\n}\n";
const RUST_TESTS: &str = "#[test]\nfn zero() {\n    assert_eq!(twice::double(0), 0);\n}\n\n\
    #[test]\nfn three() {\n    assert_eq!(twice::double(3), 6);\n}\n";

/// What a model writes, one after the other, and into which file.
struct Script {
    path: &'static str,
    contents: Vec<String>,
    written: AtomicUsize,
}

impl Script {
    fn next(&self) -> &str {
        let at = self.written.fetch_add(1, Ordering::Relaxed);
        self.contents.get(at).or(self.contents.last()).unwrap()
    }
}

/// A model that repairs the Python task at once.
fn model() -> String {
    model_of("pkg/twice.py", [FIX.to_owned()])
}

/// A chat-completions server that does what the prompt says is next, and its base URL.
fn model_of(path: &'static str, contents: impl Into<Vec<String>>) -> String {
    let script = Arc::new(Script {
        path,
        contents: contents.into(),
        written: AtomicUsize::new(0),
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            let script = Arc::clone(&script);
            thread::spawn(move || serve(socket, &script));
        }
    });
    base
}

fn serve(socket: TcpStream, script: &Script) {
    let mut reader = BufReader::new(socket);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let asked: Value = serde_json::from_slice(&body).unwrap();
        let prompt = asked
            .pointer("/messages/1/content")
            .unwrap()
            .as_str()
            .unwrap();
        let next = prompt.rsplit("Next: ").next().unwrap();
        let mut words = next.trim().trim_end_matches('.').split([' ', ',']);
        let action = match words.next().unwrap() {
            "read" => json!({"action": "read", "path": words.next().unwrap()}),
            "write" => json!({"action": "write", "path": script.path, "content": script.next()}),
            "check" => json!({"action": "check"}),
            _ => json!({"action": "finish"}),
        };
        let message = json!({"content": action.to_string()});
        let answer =
            json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let socket = reader.get_mut();
        socket.write_all((head + &answer).as_bytes()).unwrap();
    }
}

struct Own {
    folder: tempfile::TempDir,
}

impl Own {
    fn new() -> Self {
        Self::of(&[
            ("pkg/__init__.py", ""),
            ("pkg/twice.py", SOURCE),
            ("tests/__init__.py", ""),
            ("tests/test_twice.py", TESTS),
            ("pkg/__pycache__/twice.pyc", "stale"),
            (
                "TASK.md",
                "double(x) in pkg/twice.py must return two times x.\n",
            ),
        ])
    }

    /// A crate without dependencies, as it is where it was built before.
    fn rust() -> Self {
        Self::of(&[
            ("Cargo.toml", CRATE),
            ("src/lib.rs", RUST_SOURCE),
            ("tests/twice.rs", RUST_TESTS),
            ("target/CACHEDIR.TAG", ""),
            ("target/debug/twice", "stale"),
            (
                "TASK.md",
                "double(x) in src/lib.rs must return two times x.\n",
            ),
        ])
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let task = folder.path().join("double it");
        for (path, text) in files {
            let path = task.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    fn run(&self, base: &str, more: &[&str]) -> Output {
        Command::new(program())
            .args([
                "--local",
                "--allow-checks",
                "--model",
                "m",
                "--model-url",
                base,
            ])
            .arg("--task")
            .arg(self.folder.path().join("double it"))
            .arg("--out")
            .arg(self.folder.path().join("out"))
            .args(more)
            .env_remove("POLYAXON_TOKEN")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn outcome(&self) -> Value {
        let path = self.folder.path().join("out/outcome.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

#[test]
fn a_task_of_ones_own_is_accepted_with_the_number_of_tests_that_it_had() {
    let own = Own::new();
    let check = ["--check", "python3 -m unittest -q 'tests.test_twice'"];
    let more = [&["--editable", "pkg/twice.py"][..], &check].concat();
    let ran = own.run(&model(), &more);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(
        said.contains("check: 2 tests before the change, exit code 1"),
        "{said}"
    );
    let outcome = own.outcome();
    assert_eq!(outcome["task"]["id"], "double-it");
    assert_eq!(outcome["acceptance"]["state"], "accepted");
    assert_eq!(outcome["acceptance"]["level"], "counted");
    let patch = std::fs::read_to_string(own.folder.path().join("out/patch.diff")).unwrap();
    assert!(patch.contains("+    return 2 * x"), "{patch}");
}

#[test]
fn another_number_of_tests_is_no_pass_and_an_exit_status_says_its_level() {
    let own = Own::new();
    let check = "python3 -m unittest -q tests.test_twice";
    let more = [
        "--editable",
        "pkg/twice.py",
        "--tests",
        "3",
        "--check",
        check,
    ];
    let ran = own.run(&model(), &more);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    assert_eq!(own.outcome()["acceptance"]["state"], "invalid");

    let own = Own::new();
    let check = "python3 -c 'from pkg.twice import double; assert double(4) == 8'";
    let ran = own.run(&model(), &["--editable", "pkg", "--check", check]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(own.outcome()["acceptance"]["level"], "exit_code");
}

#[test]
fn a_crate_is_repaired_and_all_its_tests_are_counted() {
    let own = Own::rust();
    let fixed = RUST_SOURCE.replace("x + x + x", "2 * x");
    let base = model_of("src/lib.rs", [fixed]);
    let check = ["--editable", "src", "--check", "cargo test --offline"];
    let ran = own.run(&base, &[&check[..], &["--check-limit", "120"]].concat());
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}{trouble}");
    // Two programs fail before the change, and both are counted; what is ignored is not.
    assert!(
        said.contains("check: 3 tests before the change, exit code 101"),
        "{said}"
    );
    let outcome = own.outcome();
    assert_eq!(outcome["acceptance"]["state"], "accepted");
    assert_eq!(outcome["acceptance"]["level"], "counted");
    assert_eq!(outcome["checks"][0]["summary"], "3 tests passed");
    let out = own.folder.path().join("out");
    let verification = agent_loop::verify(&out).unwrap();
    assert!(verification.proves_acceptance(), "{verification}");
    let patch = std::fs::read_to_string(out.join("patch.diff")).unwrap();
    assert!(patch.contains("+    2 * x"), "{patch}");
    assert!(!patch.contains("target/"), "{patch}");
}

#[test]
fn a_proposal_that_does_not_compile_is_told_so_and_the_next_one_is_accepted() {
    let own = Own::rust();
    let broken = RUST_SOURCE.replace("x + x + x", "2 * y");
    let fixed = RUST_SOURCE.replace("x + x + x", "2 * x");
    let base = model_of("src/lib.rs", [broken, fixed]);
    let check = "cargo test --offline --test twice";
    let more = ["--editable", "src/lib.rs", "--check", check, "--tests", "2"];
    let ran = own.run(&base, &[&more[..], &["--check-limit", "120"]].concat());
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}{trouble}");
    let outcome = own.outcome();
    let checks = outcome["checks"].as_array().unwrap();
    let verdicts: Vec<&str> = checks
        .iter()
        .map(|check| check["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["fail", "pass"]);
    let journal = own.folder.path().join("out/actions.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    let told = "error[E0425]: cannot find value `y` in this scope --> src/lib.rs:2:9";
    assert!(journal.contains(told), "{journal}");
    assert!(journal.contains("You repair a small Rust crate."));
}

#[test]
fn a_person_is_asked_where_that_was_said_and_nobody_else_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (input, accepted)) in [("y\n", true), ("n\n", false), ("", false)]
        .into_iter()
        .enumerate()
    {
        let out = folder.path().join(number.to_string());
        let mut child = Command::new(program())
            .args([
                "--local",
                "--allow-checks",
                "--ask-before",
                "finish",
                "--out",
            ])
            .arg(&out)
            .env_remove("SERVICE_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The end of the input is an answer, too.
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            said.contains("May the model do this: finish? [y/N]"),
            "{said}"
        );
        assert_eq!(ran.status.code() == Some(0), accepted, "{input:?}: {said}");
        let outcome = std::fs::read(out.join("outcome.json")).unwrap();
        let outcome: Value = serde_json::from_slice(&outcome).unwrap();
        assert_eq!(outcome["acceptance"]["state"] == "accepted", accepted);
    }
}

#[test]
fn misuse_is_said_before_anything_is_done() {
    let own = Own::new();
    let table = [
        (
            &["--editable", "nowhere.py", "--check", "true"][..],
            "has no such file",
        ),
        (
            &["--editable", "pkg/twice.py", "--check", "true 'x"],
            "a quote does not end",
        ),
        (
            &[
                "--editable",
                "pkg/twice.py",
                "--check",
                "true",
                "--tests",
                "1",
            ],
            "only `unittest`, `pytest` and `cargo test` say how many",
        ),
        (&["--editable", "../x", "--check", "true"], "error"),
        (&["--check", "true"], "--editable"),
    ];
    for (more, problem) in table {
        let ran = own.run("http://127.0.0.1:1/v1", more);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(problem), "{more:?}: {said}");
        assert!(!own.folder.path().join("out").exists());
    }
}
