//! Time stamps: none fails its answer, and one that was read is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyaxon_sandbox::process::ExecStatus;

fn read(value: &serde_json::Value) -> ExecStatus {
    let answer = serde_json::json!({"exec_id": "e", "state": "exited", "started_at": value});
    serde_json::from_value(answer).unwrap()
}

fuzz_target!(|input: (bool, i64, &str)| {
    let (is_text, number, text) = input;
    let status = match is_text {
        true => read(&text.into()),
        false => read(&number.into()),
    };
    let written = serde_json::to_value(&status).unwrap();
    assert_eq!(read(&written["started_at"]), status);
});
