//! The Python client against our local server: what its users do has to work as they know it.

use std::fs::{self, File};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Program;
use crate::provided::{self, scratch, script};

const TOKEN: &str = "a-token-of-the-test";

/// How long all the checks may take together. They take about eight seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The checks of `sandbox_client.py`, in its order.
const CHECKS: [&str; 31] = [
    "a_created_run_waits_for_its_approval",
    "an_approved_run_comes_to_running",
    "ping_says_that_the_service_is_up",
    "exec_returns_output_and_exit_status",
    "exec_hands_its_arguments_over_unchanged",
    "exec_sets_empties_and_unsets_variables",
    "exec_runs_where_it_is_told_to",
    "exec_feeds_its_stdin",
    "exec_ends_at_its_time_limit_with_all_that_it_started",
    "exec_names_the_signal_that_ended_it",
    "exec_says_that_a_program_does_not_exist",
    "exec_refuses_what_is_no_command",
    "exec_keeps_the_first_mebibyte_of_each_output",
    "exec_replaces_bytes_that_are_no_text",
    "a_written_file_is_read_back",
    "a_file_is_read_in_parts",
    "files_with_odd_names_are_files",
    "a_path_is_cleaned_and_leads_nowhere_else",
    "ls_lists_names_types_and_sizes",
    "mkdir_makes_folders",
    "rm_removes_files_links_and_folders",
    "stat_tells_files_folders_and_links_apart",
    "files_are_uploaded_and_downloaded_in_chunks",
    "what_cannot_be_read_or_written_is_told",
    "a_body_beyond_the_limit_is_refused",
    "a_wrong_token_and_an_unknown_run_are_refused",
    "a_stream_tells_output_as_it_comes_and_how_it_ended",
    "a_background_command_is_found_by_its_tag_read_in_pages_and_deleted",
    "logs_are_followed_and_a_signal_ends_a_command",
    "a_terminal_shows_what_is_typed_and_is_attached_again",
    "a_stopped_run_is_over",
];

#[test]
#[ignore = "needs a real server"]
fn all_that_the_python_client_does_works_with_the_local_server() {
    let folder = scratch("python-client");
    let (root, files, home) = (
        folder.join("root"),
        folder.join("files"),
        folder.join("home"),
    );
    for folder in [&root, &files, &home] {
        fs::create_dir(folder).unwrap();
    }
    let mut local = script("REAL_POLYAXON_PYTHON", "with_parent.py");
    local
        .arg(provided::get("REAL_LOCAL"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--project",
            "acme/lab",
            "--root",
        ])
        .arg(&root)
        .env("POLYAXON_LOCAL_TOKEN", TOKEN)
        .stderr(File::create(folder.join("server.log")).unwrap());
    let local = Program::spawn(&mut local);
    let said = local.ready();
    assert_eq!(said["projects"], serde_json::json!(["acme/lab"]));
    assert!(!said.to_string().contains(TOKEN), "{said}");

    let mut client = script("REAL_POLYAXON_PYTHON", "sandbox_client.py");
    client
        .arg(said["ready"].as_str().unwrap())
        .args(["acme", "lab"])
        .arg(&files)
        .env("CLIENT_TOKEN", TOKEN)
        .env("HOME", &home)
        .stderr(File::create(folder.join("client.log")).unwrap());
    let client = Program::spawn(&mut client);
    let started = Instant::now();
    let mut seen = Vec::new();
    let mut failed = Vec::new();
    loop {
        let left = LIMIT.saturating_sub(started.elapsed());
        let line = match client.line(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("not through after {LIMIT:?}: {seen:?}"),
        };
        let result: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let name = result["check"].as_str().unwrap().to_owned();
        println!("{name}: {}", result["ok"]);
        if result["ok"] != true {
            failed.push(format!("{name}: {}", result["detail"].as_str().unwrap()));
        }
        seen.push(name);
    }
    assert_eq!(seen, CHECKS, "see client.log in {}", folder.display());
    assert!(failed.is_empty(), "{failed:#?}");

    // The server was asked to end, and has left nothing.
    drop(local);
    let left: Vec<_> = fs::read_dir(&root).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
