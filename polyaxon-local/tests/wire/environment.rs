//! What a command finds around it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use polyaxon_local::LayerState;
use serde_json::json;

use crate::harness::{Plane, Sandbox};

async fn env(sandbox: &Sandbox<'_>, edits: &serde_json::Value) -> BTreeMap<String, String> {
    let (status, answer) = sandbox
        .exec(&json!({"command": ["env", "-0"], "env": edits}))
        .await;
    assert_eq!(status, 200, "{answer}");
    let text = answer["stdout"].as_str().unwrap();
    let pairs = text
        .split_terminator('\0')
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn nothing_of_the_services_environment_but_the_path_reaches_a_command() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let variables = env(&sandbox, &json!({})).await;
    let mut names: Vec<&str> = variables.keys().map(String::as_str).collect();
    // There where this machine has rustup.
    names.retain(|name| *name != "RUSTUP_HOME");
    assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR"]);
    assert_eq!(variables["LANG"], "C.UTF-8");
    assert_eq!(variables["PATH"], std::env::var("PATH").unwrap());
    assert_eq!(
        (&*variables["HOME"], &*variables["TMPDIR"]),
        ("/home", "/tmp")
    );
    let plane = Plane::mapped().await;
    let sandbox = plane.sandbox().await;
    let folder = sandbox.folder();
    let variables = env(&sandbox, &json!({})).await;
    assert_eq!(variables["HOME"], folder.join("home").to_str().unwrap());
    assert_eq!(variables["TMPDIR"], folder.join("tmp").to_str().unwrap());
}

#[tokio::test]
async fn names_and_values_are_taken_verbatim_and_null_removes() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let edits = json!({
        "A;touch pwn": "1", "a.b-c": "2", "É": "ü\n$(id)", "EMPTY": "", "HOME": null, "GONE": null
    });
    let variables = env(&sandbox, &edits).await;
    let want = [
        ("A;touch pwn", "1"),
        ("a.b-c", "2"),
        ("É", "ü\n$(id)"),
        ("EMPTY", ""),
    ];
    for (name, value) in want {
        assert_eq!(variables[name], value);
    }
    assert_eq!((variables.get("HOME"), variables.get("GONE")), (None, None));
    let (_, listing) = sandbox.ls("/", &[("recursive", "true")]).await;
    assert!(!listing.to_string().contains("pwn"), "{listing}");
}

#[tokio::test]
async fn a_program_is_looked_up_in_the_path_of_the_service() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .write("/tmp/true", b"#!/bin/sh\nexit 3\n", &[("mode", "0755")])
        .await;
    let body = json!({"command": ["true"], "workdir": "/tmp", "env": {"PATH": "."}});
    assert_eq!(sandbox.exec(&body).await.1["exit_code"], 0);
    let body = json!({"command": ["./true"], "workdir": "/tmp"});
    assert_eq!(sandbox.exec(&body).await.1["exit_code"], 3);
}

#[tokio::test]
async fn a_command_starts_in_its_workdir_or_the_root_of_the_sandbox() {
    let (pods, mapped) = (Plane::start().await, Plane::mapped().await);
    for plane in [&pods, &mapped] {
        let sandbox = plane.sandbox().await;
        let root = match plane.server.report().layers[1].state {
            LayerState::Applied => PathBuf::from("/"),
            _ => sandbox.folder(),
        };
        let table = [
            (json!({}), root.clone()),
            (json!({"workdir": "/"}), root.clone()),
            (
                json!({"workdir": "/tmp/../workspace/."}),
                root.join("workspace"),
            ),
            (json!({"workdir": "/tmp/link"}), root.join("workspace")),
        ];
        sandbox.sh("ln -s ../workspace tmp/link", &json!({})).await;
        for (members, want) in table {
            let answer = sandbox.sh("pwd -P", &members).await;
            assert_eq!(
                answer["stdout"],
                format!("{}\n", want.display()),
                "{members}"
            );
        }
    }
}

#[tokio::test]
async fn a_here_document_is_taken_verbatim_and_poisons_nothing() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = "cat > t <<'EOF'\nline 'one' $x \\\nEOF\ncat t";
    let answer = sandbox.sh(script, &json!({"workdir": "/workspace"})).await;
    assert_eq!(answer["stdout"], "line 'one' $x \\\n");
    assert_eq!(sandbox.content("/workspace/t").await, b"line 'one' $x \\\n");
    assert_eq!(sandbox.sh("echo ok", &json!({})).await["stdout"], "ok\n");
}

#[tokio::test]
async fn the_rust_toolchain_of_the_machine_is_found() {
    // What a shell of this machine finds outside of all projects: cargo has chosen one for this one.
    let here = |program: &str| {
        let mut command = std::process::Command::new(program);
        let command = command.arg("-vV").current_dir("/");
        let output = command.env_remove("RUSTUP_TOOLCHAIN").output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for plane in [Plane::start().await, Plane::mapped().await] {
        let sandbox = plane.sandbox().await;
        for program in ["rustc", "cargo"] {
            let (status, answer) = sandbox.exec(&json!({"command": [program, "-vV"]})).await;
            assert_eq!(status.as_u16(), 200, "{answer}");
            assert_eq!(answer["exit_code"], 0, "{answer}");
            assert_eq!(answer["stdout"], here(program));
        }
        // A pod can read it, and not change it.
        if plane.server.report().layers[1].state == LayerState::Applied {
            let line = r#"[ -z "$RUSTUP_HOME" ] || ! touch "$RUSTUP_HOME/x""#;
            let answer = sandbox.sh(line, &json!({})).await;
            assert_eq!(answer["exit_code"], 0, "{answer}");
        }
    }
}
