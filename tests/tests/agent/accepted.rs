use std::process::Command;

use agent_loop::AcceptanceState;
use polyaxon_tests::agent::{Case, FIX, SOURCE, TESTS, check, finish, read, write};
use polyaxon_tests::local::LocalSandbox;

#[tokio::test]
async fn a_repair_that_passed_is_accepted_with_its_evidence() {
    let local = LocalSandbox::start().await;
    let wrong = write("def total(xs):\n    return 1\n");
    let replies = [read(), wrong, check(), write(FIX), check(), finish()];
    let made = Case::default().drive(&local.sandbox, replies).await;
    assert_eq!(made.outcome.acceptance.state, AcceptanceState::Accepted);
    assert_eq!((made.outcome.exit_code(), made.outcome.turns), (0, 6));
    assert_eq!(made.verdicts(), ["fail", "pass"]);
    let json = made.outcome_json();
    assert_eq!(json["acceptance"]["level"], "counted");
    assert_eq!(json["acceptance"]["tree"].as_str().unwrap().len(), 64);
    assert!(json["latency"]["check_ms"].as_u64().unwrap() > 0);
    assert_eq!(json["cost"]["unknown_calls"], 6);
    let first = &made.records("started")[0];
    assert_eq!(first["task"]["id"], "total");
    for revision in ["prompt", "tool_definitions", "evaluation_manifest"] {
        assert_eq!(
            first["revisions"][revision].as_str().unwrap().len(),
            64,
            "{revision}"
        );
    }
}

#[tokio::test]
async fn git_takes_the_patch_and_the_patched_file_passes_by_hand() {
    let local = LocalSandbox::start().await;
    let replies = [read(), write(FIX), check(), finish()];
    let made = Case::default().drive(&local.sandbox, replies).await;
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("amounts.py"), SOURCE).unwrap();
    std::fs::write(tree.path().join("test_amounts.py"), TESTS).unwrap();
    let patch = made.folder.path().join("run/patch.diff");
    for flags in [&["apply", "--check"][..], &["apply"]] {
        let git = Command::new("git")
            .args(flags)
            .arg(&patch)
            .current_dir(tree.path())
            .status();
        assert!(git.unwrap().success(), "git {flags:?}");
    }
    assert_eq!(
        std::fs::read_to_string(tree.path().join("amounts.py")).unwrap(),
        FIX
    );
    let tests = Command::new("python3")
        .args(["-B", "-m", "unittest", "-q", "test_amounts"])
        .current_dir(tree.path())
        .status();
    assert!(tests.unwrap().success());
}

#[tokio::test]
async fn crlf_and_a_missing_last_newline_stay_as_they_were_written() {
    let local = LocalSandbox::start().await;
    for fix in [
        "def total(xs):\r\n    return sum(xs)\r\n",
        "def total(xs):\n    return sum(xs)",
    ] {
        let replies = [read(), write(fix), check(), finish()];
        let made = Case::default().drive(&local.sandbox, replies).await;
        assert!(made.outcome.is_accepted(), "{fix:?}: {}", made.outcome.end);
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("amounts.py"), SOURCE).unwrap();
        let patch = made.folder.path().join("run/patch.diff");
        let git = Command::new("git")
            .arg("apply")
            .arg(&patch)
            .current_dir(tree.path())
            .status();
        assert!(git.unwrap().success());
        assert_eq!(
            std::fs::read_to_string(tree.path().join("amounts.py")).unwrap(),
            fix
        );
    }
}
