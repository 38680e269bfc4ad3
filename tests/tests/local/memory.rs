//! What the client holds while it transfers does not depend on the size of the file.
//!
//! `POLYAXON_TRANSFER_MIB=1024` is the long form.

use std::io::{Seek as _, SeekFrom, Write as _};

use polyaxon_tests::local::LocalSandbox;
use serde_json::Value;

/// By how much the client may grow.
const MOST_KIB: u64 = 32 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_transfers_a_large_file_does_not_grow_with_it() {
    let mib: u64 = std::env::var("POLYAXON_TRANSFER_MIB").map_or(128, |text| text.parse().unwrap());
    let size = mib << 20;
    let local = LocalSandbox::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    // A hole, with a mark at each MiB.
    let mut file = std::fs::File::create(&here).unwrap();
    file.set_len(size).unwrap();
    for at in 0..mib {
        file.seek(SeekFrom::Start(at << 20)).unwrap();
        file.write_all(&at.to_le_bytes()).unwrap();
    }
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_transfer"))
        .args([
            local.server.url(),
            local.server.token(),
            &local.project.to_string(),
        ])
        .arg(local.sandbox.run_uuid().to_string())
        .args([&here, &back])
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{mib} MiB up and down: {figures}");
    assert_eq!(figures["bytes"], size);
    let number = |name: &str| figures[name].as_u64().unwrap();
    let grown = number("after_kib") - number("before_kib");
    assert!(grown < MOST_KIB, "{figures}");
    let mut came = std::fs::File::open(&back).unwrap();
    for at in [0, mib / 2, mib - 1] {
        let mut mark = [0; 8];
        came.seek(SeekFrom::Start(at << 20)).unwrap();
        std::io::Read::read_exact(&mut came, &mut mark).unwrap();
        assert_eq!(u64::from_le_bytes(mark), at);
    }
}
