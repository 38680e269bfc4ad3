//! What the machine is set up with: a proxy, and no certificates.

use std::process::Command;

#[test]
fn a_server_on_this_machine_is_reached_though_there_is_a_proxy_and_no_certificate() {
    // The environment of a running program cannot be changed safely, so another one gets it.
    let nowhere = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-such-file");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "models::the_window_is_read_from_both_kinds_of_server",
        ])
        .env("http_proxy", "http://127.0.0.1:1")
        .env("all_proxy", "http://127.0.0.1:1")
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .env("SSL_CERT_FILE", nowhere)
        .env("SSL_CERT_DIR", nowhere)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("test result: ok. 1 passed"), "{said}");
}
