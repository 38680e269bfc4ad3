//! A machine that allows no namespaces: a user namespace in which no more of them can be made
//! stands for it.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program where namespaces are refused.
fn refused(arguments: &[&str]) -> Output {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(env!("CARGO_BIN_EXE_polyaxon-local"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn where_namespaces_are_refused_the_report_says_so_and_why() {
    let output = refused(&["doctor", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layers = report.pointer("/isolation/layers").unwrap();
    let pod = layers
        .as_array()
        .unwrap()
        .iter()
        .find(|layer| layer["number"] == 1)
        .unwrap();
    assert_eq!(pod["state"], "unavailable");
    let why = pod["protects"].as_str().unwrap();
    assert!(
        why.starts_with("new namespaces: ") && why.contains("mapped"),
        "{why}"
    );
}

#[test]
fn a_pod_that_is_required_and_refused_is_an_error_before_anything_is_served() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let output = refused(&[
        "up",
        "--isolation",
        "pod",
        "--listen",
        "127.0.0.1:0",
        "--root",
        path,
    ]);
    assert!(!output.status.success());
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("isolation by a pod is required"), "{said}");
    assert_eq!(
        std::fs::read_dir(path).unwrap().count(),
        0,
        "something is left in the root"
    );
}
