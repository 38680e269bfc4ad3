//! Commands.

use serde_json::json;

use crate::harness::{Plane, base64};

#[tokio::test]
async fn a_command_gets_its_input_and_gives_its_output_and_its_end() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let (status, answer) = sandbox
        .exec(&json!({
            "command": ["sh", "-c", "cat; printf err >&2; exit 7"], "stdin": base64("é\n".as_bytes())
        }))
        .await;
    assert_eq!(status, 200);
    assert_eq!(answer["exit_code"], 7);
    assert_eq!((answer["stdout"].as_str(), answer["stderr"].as_str()), (Some("é\n"), Some("err")));
    assert_eq!(answer["timed_out"], false);
    assert!(answer["duration_ms"].is_u64());
    assert_eq!(answer["exec_id"].as_str().unwrap().len(), 36);
    for absent in ["signal", "stdout_truncated", "stderr_truncated"] {
        assert_eq!(answer.get(absent), None);
    }
}
